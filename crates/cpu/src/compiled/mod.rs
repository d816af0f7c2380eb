//! A model on the CPU: buffers sized at load, one `match` over the ops.
//!
//! [`load`] sizes everything; [`matrices`] shares the rows of matrices out among the workers; [`between`] runs the ops that
//! stand between them. [`fusion`] finds ops that can run together, and [`fused`] runs them so. [`weights`] holds the matrices, and
//! [`pack`] keeps them between starts.

mod between;
mod fused;
pub(crate) mod fusion;
mod load;
mod matrices;
mod pack;
mod weights;

use std::ops::Range;
use std::sync::Arc;

use duan_backend::{
    Clock, Compiled, InputSums, Limits, MatrixInputs, MemoryUse, OpTime, PAGE_TOKENS, PageId, Pass, Result, TimeLog,
};
use duan_model::Model;
use duan_model::bytes::SharedBytes;
use duan_model::graph::{Graph, Op, ValueId};
use duan_model::weights::MatrixId;
use half::f16;

use self::fusion::{Input, Runs};
pub(crate) use self::load::runs;
pub(crate) use self::matrices::Grain;
use self::weights::DeviceWeights;
use crate::activations::Coded;
use crate::error::NAME;
use crate::isa::Isa;
use crate::kernels;
use crate::kv::Cache;
use crate::ops::attention;
use crate::ops::experts::Assignment;
use crate::ops::rope::Rotations;
use crate::ops::short_conv::States;
use crate::pool::Pool;
use crate::shared::SharedSlice;

/// Numbers below which an elementwise op is not worth waking anybody for.
const SMALL: usize = 1 << 14;

/// How many workers each phase uses.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Threads {
    pub(crate) prefill: usize,
    pub(crate) decode: usize,
}

/// What one worker needs.
pub(crate) struct Scratch {
    pub(crate) kernel: kernels::Scratch,
    pub(crate) attention: attention::Scratch,
    /// Sums of two matrices that are passed on at once, and one row of the widest norm that is not kept.
    sums: [Vec<f32>; 2],
    row: Vec<f32>,
}

impl Scratch {
    fn bytes(&self) -> usize {
        let floats = self.sums[0].len() + self.sums[1].len() + self.row.len();
        self.kernel.bytes() + self.attention.bytes() + floats * size_of::<f32>()
    }
}

/// A model ready to run.
pub(crate) struct CpuModel {
    model: Model,
    isa: Isa,
    /// What failed its self-test.
    warnings: Vec<String>,
    threads: Threads,
    limits: Limits,
    pool: Pool,
    weights: DeviceWeights,
    values: Vec<Vec<f32>>,
    runs: Arc<Runs>,
    /// Activations that matrices read, and those that gate and up leave for the matrices behind them.
    coded: Coded,
    products: Coded,
    caches: Vec<Option<Cache>>,
    states: Vec<States>,
    /// The kernels of each short convolution [taps, width], and room for the state before a span.
    conv_kernels: Vec<Vec<f32>>,
    conv_past: Vec<f32>,
    assignment: Assignment,
    rotations: Vec<Rotations>,
    scratch: Vec<Scratch>,
    /// What matrices were multiplied with, while that is observed.
    observed: Option<InputSums>,
    /// How long ops took, while that is observed.
    times: Option<TimeLog>,
}

impl Compiled for CpuModel {
    fn submit(&mut self, pass: &Pass<'_>, ops: Range<usize>) -> Result<()> {
        pass.check(NAME, &self.limits, self.model.config.vocab_size)?;
        let _entered = self.pool.enter();
        self.begin_times();
        let graph = self.model.graph.clone();
        if graph.nodes[ops.clone()].iter().any(|node| matches!(node.op, Op::Rope { .. })) {
            self.rotations.iter_mut().for_each(|rotations| rotations.prepare(pass));
            self.note_time(ops.start..ops.start);
        }
        if self.observed.is_some() {
            return self.submit_observed(&graph, pass, ops);
        }
        let (runs, mut node) = (self.runs.clone(), ops.start);
        while node < ops.end {
            // A run that the range cuts through is gone through op by op.
            if let Some(run) = runs.at(node, ops.end) {
                self.run_together(run, pass);
                node = run.nodes.end;
            } else {
                self.run(&graph.nodes[node].op, pass);
                node += 1;
                self.note_time(node - 1..node);
            }
        }
        Ok(())
    }

    fn wait(&mut self) -> Result<()> {
        // `submit` returns when everything is done: the caller's thread is one of the workers.
        Ok(())
    }

    fn settle(&mut self) {
        self.weights.settle();
    }

    fn observe_inputs(&mut self, on: bool) -> Result<()> {
        self.observed = on.then(|| InputSums::new(&self.model.graph));
        Ok(())
    }

    fn observed_inputs(&self) -> Vec<MatrixInputs> {
        self.observed.as_ref().map(|sums| sums.of_matrices(&self.model)).unwrap_or_default()
    }

    fn observe_times(&mut self, clock: Option<Clock>, passes: usize) -> Result<()> {
        // One time more than there are ops in each segment: what is prepared.
        let room = passes.saturating_mul(2 * self.model.graph.nodes.len());
        self.times = clock.map(|clock| TimeLog::new(clock, room));
        Ok(())
    }

    fn observed_times(&self) -> &[OpTime] {
        self.times.as_ref().map_or(&[], TimeLog::times)
    }

    fn kernels(&self, op: usize) -> Vec<String> {
        let (Op::Linear { parts, .. } | Op::ExpertLinear { parts, .. }) = &self.model.graph.nodes[op].op else {
            return Vec::new();
        };
        let mut names = Vec::new();
        for part in parts {
            let format = self.model.weights.matrix(part.matrix).format();
            let path = if kernels::of(format).is_none() { " generic" } else { "" };
            let name = format!("{}{path} {}", format.name, self.weights.kernel(part.matrix).isa().name());
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names
    }

    fn replace_matrix(&mut self, matrix: MatrixId, bytes: Option<SharedBytes>) -> Result<()> {
        let panel_bytes = self.weights.replace(matrix, bytes)?;
        self.scratch.iter_mut().for_each(|scratch| scratch.kernel.make_room(panel_bytes));
        Ok(())
    }

    fn value(&self, value: ValueId, length: usize) -> &[f32] {
        &self.values[value.0 as usize][..length]
    }

    fn value_mut(&mut self, value: ValueId, length: usize) -> &mut [f32] {
        &mut self.values[value.0 as usize][..length]
    }

    fn read_kv(&self, cache: usize, page: PageId, positions: Range<usize>, keys: &mut [f16], values: &mut [f16]) {
        self.cache(cache).read(page, positions, keys, values);
    }

    fn write_kv(&mut self, cache: usize, page: PageId, positions: Range<usize>, keys: &[f16], values: &[f16]) {
        let cache = self.caches[cache].as_mut().expect("the graph's attention runs on this device");
        cache.write(page, positions, keys, values);
    }

    fn read_state(&self, state: usize, page: PageId, numbers: &mut [f32]) {
        numbers.copy_from_slice(self.states[state].page(page));
    }

    fn write_state(&mut self, state: usize, page: PageId, numbers: &[f32]) {
        self.states[state].page_mut(page).copy_from_slice(numbers);
    }

    fn copy_page(&mut self, from: PageId, to: PageId, count: usize) {
        assert!(count <= PAGE_TOKENS, "{count} positions of a page of {PAGE_TOKENS}");
        self.caches.iter_mut().flatten().for_each(|cache| cache.copy_page(from, to, count));
        self.states.iter_mut().filter(|states| states.bytes() > 0).for_each(|states| states.copy_page(from, to));
    }

    fn warnings(&self) -> &[String] {
        &self.warnings
    }

    fn memory(&self) -> MemoryUse {
        let values: usize = self.values.iter().map(|value| value.len() * size_of::<f32>()).sum();
        let rotations: usize = self.rotations.iter().map(Rotations::bytes).sum();
        let scratch: usize = self.scratch.iter().map(Scratch::bytes).sum();
        let caches: usize = self.caches.iter().flatten().map(Cache::bytes).sum();
        let states: usize = self.states.iter().map(States::bytes).sum();
        let kernels: usize = self.conv_kernels.iter().map(Vec::len).sum();
        let convolutions = (kernels + self.conv_past.len()) * size_of::<f32>();
        let codes = self.coded.bytes() + self.products.bytes();
        MemoryUse {
            weights_bytes: self.weights.bytes() as u64,
            kv_bytes: (caches + states) as u64,
            scratch_bytes: (values + rotations + scratch + convolutions + codes + self.assignment.bytes()) as u64,
        }
    }
}

impl CpuModel {
    /// One op, one line.
    fn run(&mut self, op: &Op, pass: &Pass<'_>) {
        let rows = pass.rows();
        match *op {
            Op::Embed { table, scale, output } => self.embed(pass, table, scale, output),
            Op::Norm { .. } => self.norm(op, pass),
            Op::Linear { input, ref parts } => self.linear(self.rows_of(input, pass), rows, input, parts, Input::Value),
            Op::Rope { value, heads, head_dim, rope } => self.rope(rows, value, heads, head_dim, rope),
            Op::PositionScale { value, width, temperature } => self.position_scale(pass, value, width, temperature),
            Op::Attention { .. } => self.attention(op, pass),
            Op::ShortConv { .. } => self.short_conv(op, pass),
            Op::Route { .. } => self.route(op, rows),
            Op::ExpertLinear { .. } => self.expert_linear(op, rows, Input::Value),
            Op::Mix { .. } => self.mix(op, rows),
            Op::GatedAct { gate, up, width, output, activation } => {
                self.gated_act(rows, gate, up, width, output, activation);
            }
            Op::Add { width, factor, target, addend } => self.add(rows, width, factor, target, addend),
            Op::SelectRows { input, output } => self.select_rows(pass, input, output),
            Op::Scale { value, factor } => self.scale(self.rows_of(value, pass), value, factor),
            Op::Softcap { value, cap } => self.softcap(self.rows_of(value, pass), value, cap),
        }
    }

    /// Op by op, because what runs together leaves no floats for the matrices within.
    fn submit_observed(&mut self, graph: &Graph, pass: &Pass<'_>, ops: Range<usize>) -> Result<()> {
        for node in ops {
            let op = &graph.nodes[node].op;
            if let Op::Linear { input, .. } | Op::ExpertLinear { input, .. } = *op
                && let Some(mut sums) = self.observed.take()
            {
                sums.note(&self.model, node, self.rows_of(input, pass), |value| &self.values[value.0 as usize]);
                self.observed = Some(sums);
            }
            self.run(op, pass);
            self.note_time(node..node + 1);
        }
        Ok(())
    }

    fn begin_times(&mut self) {
        if let Some(times) = &mut self.times {
            times.begin();
        }
    }

    /// These ops are over: nothing where nobody asked for times.
    fn note_time(&mut self, ops: Range<usize>) {
        if let Some(times) = &mut self.times {
            times.note(ops);
        }
    }

    /// How often the workers waited for each other so far.
    #[cfg(test)]
    fn barriers(&self) -> u64 {
        self.pool.barriers()
    }

    fn rows_of(&self, value: ValueId, pass: &Pass<'_>) -> usize {
        if self.model.graph.values[value.0 as usize].wanted_rows_only { pass.wanted_rows() } else { pass.rows() }
    }

    fn cache(&self, cache: usize) -> &Cache {
        self.caches[cache].as_ref().expect("the graph's attention runs on this device")
    }

    /// Workers for a pass of `rows` tokens.
    fn workers(&self, rows: usize) -> usize {
        if rows == 1 { self.threads.decode } else { self.threads.prefill }
    }

    /// Takes a value out, so that others can be read while it is written; [`CpuModel::give`] puts it back.
    fn take(&mut self, value: ValueId) -> Vec<f32> {
        std::mem::take(&mut self.values[value.0 as usize])
    }

    fn give(&mut self, value: ValueId, taken: Vec<f32>) {
        self.values[value.0 as usize] = taken;
    }

    /// Runs `work(first row, part)` over parts of `values` [rows, width], in parallel where it is worth it.
    fn each_row(
        pool: &mut Pool,
        workers: usize,
        values: &mut [f32],
        width: usize,
        work: &(dyn Fn(usize, &mut [f32]) + Sync),
    ) {
        let rows = values.len() / width.max(1);
        if values.len() < SMALL || rows == 1 {
            return work(0, values);
        }
        let rows_per_piece = rows.div_ceil(workers * 4);
        let shared = SharedSlice::new(values);
        pool.run(rows.div_ceil(rows_per_piece), workers, &|piece, _| {
            let first = piece * rows_per_piece;
            let last = rows.min(first + rows_per_piece);
            // SAFETY: pieces are consecutive ranges of rows.
            work(first, unsafe { shared.part(first * width..last * width) });
        });
    }
}

#[cfg(test)]
mod tests;
