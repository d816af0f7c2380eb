//! The CPU backend: kernels, threads, pages.
//!
//! [`Cpu`] is the device. It compiles a graph into buffers of fixed sizes and one kernel for each
//! matrix, and runs passes on a pool of threads. What a pass computes is laid down by the reference interpreter in
//! `duan-backend`; here it is only made fast.
//!
//! Unlike the rest of the project this crate may use `unsafe`: for intrinsics (`simd`, where a value is the proof that the CPU
//! has them), for memory that workers share in parts (`shared`, `pool`), and for an
//! allocator that counts (`allocations`). Each block says why it is sound.
//!
//! This crate must never know sessions, sampling, files or tokens as text. Start reading at `compiled/mod.rs` (one line for each
//! op), then `kernels/integer.rs` (what takes the time), then `simd/mod.rs` (the vocabulary of both).

#![allow(unsafe_code, reason = "design: intrinsics and memory shared between workers, each block with its reason")]

mod activations;
mod allocations;
mod bandwidth;
mod barriers;
mod ceilings;
mod clock;
mod compiled;
mod denormals;
mod error;
mod isa;
mod kernels;
mod kv;
mod large_pages;
mod made_up;
mod ops;
mod panels;
mod peaks;
mod pieces;
mod placement;
mod pool;
mod rates;
mod self_test;
mod shared;
mod simd;
mod together;

use std::ops::{ControlFlow, Range};
use std::sync::atomic::AtomicBool;

use duan_backend::{Backend, CompileJob, Compiled, Refusal, Result};
use duan_model::Model;
use duan_model::graph::OpKind;
use duan_quant::Format;
use duan_system::{Local, ThreadChoice, Topology, affinity, available_bytes};

pub use crate::allocations::{Counting, CountingAllocator};
use crate::bandwidth::Buffer;
pub use crate::bandwidth::{Pages, ReadBandwidth};
pub use crate::barriers::BarrierLatency;
pub use crate::ceilings::{CeilingProgress, CeilingRates, CeilingStep};
pub use crate::clock::ThreadClock;
pub use crate::compiled::fusion::Fusion;
use crate::compiled::{CpuModel, Threads};
use crate::error::{NAME, error};
use crate::isa::Isa;
pub use crate::peaks::Peak;
pub use crate::placement::Pinning;
use crate::placement::Placement;
use crate::rates::{Bench, Effort};
pub use crate::rates::{KernelRates, KernelReport, RatesProgress};
use crate::self_test::Picker;
pub use crate::together::Skipped;

/// Bytes of the made-up weights of kernels where memory is too short to measure decode: enough for prefill.
const SHORT_OF_MEMORY_BYTES: usize = 64 << 20;

/// The most threads that anybody may ask for.
const MAX_THREADS: usize = 1024;

/// What the user decides about the CPU.
#[derive(Debug, Clone, Default)]
pub struct CpuOptions {
    /// Threads while one token is computed; `None` lets the device choose.
    pub threads_decode: Option<usize>,
    /// Threads while a prompt is computed; `None` takes those of decode.
    pub threads_prefill: Option<usize>,
    /// Instruction sets that may be used, as `DUAN_ISA` names them; `None` allows all.
    pub isa: Option<String>,
    /// What threads are held to.
    pub pinning: Pinning,
    /// Kinds of ops to refuse, so that they fall back to another device: for experiments and tests.
    pub refuse: Vec<OpKind>,
    /// Ops that are not to run together: for experiments and tests. The results are the same bits.
    pub no_fuse: Vec<Fusion>,
    /// Weight formats whose kernels count as wrong everywhere but in plain code: for experiments and tests.
    pub distrust: Vec<String>,
}

/// The CPU as a device.
#[derive(Debug)]
pub struct Cpu {
    /// What may be used, the best last; never empty.
    isas: Vec<Isa>,
    threads: Threads,
    placement: Placement,
    /// The threads that the device would choose; decode and prefill may have more or fewer.
    threads_chosen: usize,
    thread_reason: String,
    pinning: Pinning,
    refuse: Vec<OpKind>,
    no_fuse: Vec<Fusion>,
    distrust: Vec<String>,
    topology: Topology,
}

impl Cpu {
    /// Looks at the CPU and settles instruction set and thread counts.
    ///
    /// # Errors
    /// When the options name instruction sets that do not exist or are not here, or no or too many threads.
    pub fn new(options: CpuOptions) -> Result<Self> {
        let topology = Topology::read(&Local::here(), &affinity());
        let ThreadChoice { threads: threads_chosen, reason } = topology.thread_choice();
        let (decode, thread_reason) = match options.threads_decode {
            Some(asked) => (asked, "as asked for".to_owned()),
            None => (threads_chosen, reason),
        };
        let prefill = options.threads_prefill.unwrap_or(decode);
        for count in [decode, prefill] {
            if !(1..=MAX_THREADS).contains(&count) {
                return Err(error(format!("{count} threads asked for; ask for 1 to {MAX_THREADS}")));
            }
        }
        let isas = Isa::allowed(options.isa.as_deref())?;
        let placement = Placement::new(&topology, decode.max(prefill), options.pinning);
        let threads = Threads { prefill, decode };
        let CpuOptions { refuse, no_fuse, distrust, pinning, .. } = options;
        Ok(Self {
            isas,
            threads,
            placement,
            threads_chosen,
            thread_reason,
            pinning,
            refuse,
            no_fuse,
            distrust,
            topology,
        })
    }

    /// Threads while one token is computed.
    pub fn threads_decode(&self) -> usize {
        self.threads.decode
    }

    /// Threads while a prompt is computed.
    pub fn threads_prefill(&self) -> usize {
        self.threads.prefill
    }

    /// Why decode has that many threads.
    pub fn thread_reason(&self) -> &str {
        &self.thread_reason
    }

    /// How many threads are held to some of the CPUs, the caller's among them while it works.
    pub fn threads_held(&self) -> usize {
        self.placement.held()
    }

    /// What the processor calls itself, where the system tells.
    pub fn model_name(&self) -> Option<&str> {
        self.topology.model.as_deref()
    }

    /// Processors that this process may run on.
    pub fn allowed_processors(&self) -> usize {
        self.topology.allowed.len()
    }

    /// Measures how fast `threads` threads together read memory; reads some 18 GB for it.
    ///
    /// # Errors
    /// [`Skipped`] where the memory is too short for it, or the system gives no threads.
    pub fn read_bandwidth(&self, threads: usize, pages: Pages<'_>) -> std::result::Result<ReadBandwidth, Skipped> {
        let buffer = Buffer::new(threads, pages, self.memory_available_bytes())?;
        buffer.read(self.best_isa(), threads, &self.placement, &AtomicBool::new(false))
    }

    /// The numbers of threads that ceilings are measured for: all up to what the device would choose or was told to use, where they
    /// are few; ascending.
    pub fn ceiling_threads(&self) -> Vec<usize> {
        let Threads { prefill, decode } = self.threads;
        ceilings::thread_counts(self.threads_chosen.max(prefill).max(decode), &[prefill, decode])
    }

    /// Measures what the machine can do at most, for each of [`Cpu::ceiling_threads`]: how fast memory is read and numbers are
    /// multiplied, the clock of the cores, and what threads lose by waiting for each other. Takes some seconds. `on_progress` is
    /// told before each step. Once `cancel` is true it ends, and gives nothing.
    ///
    /// # Errors
    /// When the system gives no threads.
    pub fn ceilings(
        &self,
        cancel: &AtomicBool,
        on_progress: &mut dyn FnMut(&CeilingProgress),
    ) -> Result<Option<CeilingRates>> {
        let counts = self.ceiling_threads();
        let most = counts.iter().copied().max().unwrap_or(1);
        let placement = Placement::new(&self.topology, most, self.pinning);
        let available_bytes = self.memory_available_bytes();
        ceilings::measure(self.best_isa(), &counts, &placement, available_bytes, cancel, on_progress)
    }

    /// Measures the clock that cores run at, on so many threads at once, by counting additions. It takes some three milliseconds, so
    /// that it can be asked between two rounds of something else; cores that rested may need longer than that to wake up.
    ///
    /// # Errors
    /// [`Skipped`] where additions cannot be counted on this architecture, or the system gives no threads.
    pub fn clock(&self, threads: usize) -> std::result::Result<Vec<ThreadClock>, Skipped> {
        clock::clocks(threads, &self.placement)
    }

    /// What threads are held to.
    pub fn pinning(&self) -> Pinning {
        self.pinning
    }

    /// The instruction set that kernels use, where they pass their self-test.
    pub fn isa(&self) -> &'static str {
        self.best_isa().name()
    }

    fn best_isa(&self) -> Isa {
        self.isas.last().copied().unwrap_or(Isa::scalar())
    }

    /// Measures what runs for each of `formats` (all that duan reads where there are none): its share of the read bandwidth with
    /// one token, and of the peak of its own instructions with many. Takes some 20 seconds for all. `on_progress` is told before
    /// each step and may end it; then there is nothing.
    ///
    /// # Errors
    /// When the system gives no memory or threads, or when nothing that multiplies a format is right on this CPU.
    pub fn kernel_rates(
        &self,
        formats: &[&'static Format],
        on_progress: &mut dyn FnMut(&RatesProgress) -> ControlFlow<()>,
    ) -> Result<Option<KernelReport>> {
        let formats = if formats.is_empty() { duan_quant::FORMATS } else { formats };
        let steps = formats.len() + 1;
        let picker = Picker::new(&self.isas, &self.distrust)?;
        if on_progress(&RatesProgress { step: 0, steps, format: None }).is_break() {
            return Ok(None);
        }
        let bandwidth = self.read_bandwidth(self.threads.decode, Pages::Large);
        let bytes = bandwidth.as_ref().map_or(SHORT_OF_MEMORY_BYTES, |read| read.bytes as usize);
        let on_format = &mut |index, name| on_progress(&RatesProgress { step: index + 1, steps, format: Some(name) });
        let bench = Bench::new(self.threads, self.placement.clone(), Effort::ordinary(bytes))?;
        rates::kernel_rates(formats, picker, bench, bandwidth, on_format)
    }

    /// The instruction sets that kernels exist for and this CPU has, the best last.
    pub fn isas_available() -> Vec<&'static str> {
        Isa::available().iter().map(Isa::name).collect()
    }

    /// Weight formats that have kernels of their own; others run on the generic path.
    pub fn kernel_formats() -> Vec<&'static str> {
        kernels::KERNELS.iter().map(|kernel| kernel.format).collect()
    }
}

impl Backend for Cpu {
    fn name(&self) -> &'static str {
        NAME
    }

    fn description(&self) -> String {
        let name = self.model_name().unwrap_or("processor of unknown name");
        format!("{name}, {} threads, {}", self.threads.decode, self.isa())
    }

    fn memory_available_bytes(&self) -> Option<u64> {
        available_bytes(&Local::here())
    }

    fn refusals(&self, model: &Model) -> Vec<Refusal> {
        let refused = model.graph.nodes.iter().enumerate().filter(|(_, node)| self.refuse.contains(&node.op.kind()));
        refused.map(|(op, _)| Refusal { op, reason: "told to by the options".into() }).collect()
    }

    fn fusions(&self, model: &Model, ops: &[Range<usize>]) -> Vec<(&'static str, usize)> {
        compiled::runs(model, ops, &self.no_fuse).counts().map(|(fusion, count)| (fusion.name(), count)).collect()
    }

    fn compile(&self, job: &CompileJob<'_>) -> Result<Box<dyn Compiled>> {
        let refused = self.refusals(job.model);
        if let Some(refusal) = refused.iter().find(|refusal| job.runs(refusal.op)) {
            return Err(error(format!("op {}: {}", refusal.op, refusal.reason)));
        }
        let picker = Picker::new(&self.isas, &self.distrust)?;
        Ok(Box::new(CpuModel::new(job, picker, self.threads, self.placement.clone(), &self.no_fuse)?))
    }
}
