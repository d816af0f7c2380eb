//! What every device offers to the engine.

use std::ops::Range;

use duan_model::Model;
use duan_model::bytes::SharedBytes;
use duan_model::graph::ValueId;
use duan_model::weights::MatrixId;
use half::f16;

use crate::error::{Error, Result};
use crate::inputs::MatrixInputs;
use crate::packs::Packing;
use crate::pass::{PageId, Pass};
use crate::times::{Clock, OpTime};

/// How the KV cache keeps its numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KvFormat {
    /// Half floats: two bytes a number. What is beyond them is kept as the largest of its sign, 65504.
    F16,
    /// Floats: for comparisons with oracles.
    F32,
}

/// The half float that the KV cache keeps for `x`: rounded to nearest even, held at 65504, NaN stays.
pub fn kv_f16(x: f32) -> f16 {
    f16::from_f32(x.clamp(-65504.0, 65504.0))
}

impl KvFormat {
    /// Bytes of one number.
    pub fn bytes(self) -> usize {
        match self {
            Self::F16 => 2,
            Self::F32 => 4,
        }
    }
}

/// What buffers are sized for, once, at load.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// The most tokens in one pass.
    pub max_rows: usize,
    /// The most rows that results are wanted for in one pass.
    pub max_wanted_rows: usize,
    /// Pages of the KV cache, and states of each kind besides.
    pub pages: usize,
    /// The most positions of a sequence: what decides between rotary embeddings for short and long contexts.
    pub context: usize,
    /// How the KV cache keeps its numbers.
    pub kv_format: KvFormat,
}

/// An op that a device cannot run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// Index into the graph's nodes.
    pub op: usize,
    /// Why, for people.
    pub reason: String,
}

/// What a device is asked to make ready.
#[derive(Debug, Clone)]
pub struct CompileJob<'a> {
    /// Configuration, graph and weights.
    pub model: &'a Model,
    /// The ops that this device will run, ascending ranges of the graph's nodes.
    pub ops: &'a [Range<usize>],
    /// Sizes of all buffers.
    pub limits: Limits,
    /// What becomes of weights that the device would rather have in another order.
    pub packing: Packing<'a>,
}

impl CompileJob<'_> {
    /// Whether this device runs the op at `index`.
    pub fn runs(&self, index: usize) -> bool {
        self.ops.iter().any(|range| range.contains(&index))
    }
}

/// Bytes a device holds, all sized at load.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MemoryUse {
    /// Weights as this device reads them (mapped ones included).
    pub weights_bytes: u64,
    /// The KV cache when it is full, with the states beside it.
    pub kv_bytes: u64,
    /// Everything between: values and scratch.
    pub scratch_bytes: u64,
}

/// A kind of device.
pub trait Backend: Send + Sync {
    /// The name that people type and plans print.
    fn name(&self) -> &'static str;

    /// One line about the device: what it is and what it uses.
    fn description(&self) -> String;

    /// Bytes that this device could still give to a model without swapping, where that can be read.
    fn memory_available_bytes(&self) -> Option<u64>;

    /// The ops of `model` that this device cannot run, with reasons.
    fn refusals(&self, model: &Model) -> Vec<Refusal>;

    /// What this device would run together of the ops `ops`, ascending ranges of the graph's nodes, by the names that it gives to
    /// such combinations, and how often: for people. It changes no result.
    fn fusions(&self, model: &Model, ops: &[Range<usize>]) -> Vec<(&'static str, usize)> {
        let _ = (model, ops);
        Vec::new()
    }

    /// Packs weights, picks kernels, sizes every buffer.
    ///
    /// # Errors
    /// When memory cannot be had or an op in the job is one that the device refuses.
    fn compile(&self, job: &CompileJob<'_>) -> Result<Box<dyn Compiled>>;
}

/// A model on a device. It owns the values and the keys and values of the ops it runs.
///
/// Passes are checked by [`Pass::check`] on entry; the ids of values, caches and pages come from the graph
/// and the engine's ledger, and wrong ones are bugs (they panic).
pub trait Compiled: Send {
    /// Starts `ops` (within the compiled ranges) on `pass`. The device may have finished when this returns.
    ///
    /// # Errors
    /// When the pass exceeds the limits, or the device fails.
    fn submit(&mut self, pass: &Pass<'_>, ops: Range<usize>) -> Result<()>;

    /// Waits until everything submitted is done.
    ///
    /// # Errors
    /// When the device fails.
    fn wait(&mut self) -> Result<()>;

    /// Waits for what was begun when the model was compiled and no pass waits for, such as keeping laid-out weights; for
    /// measurements, which it would disturb, and before a program ends: dropping a model gives up what is not done.
    fn settle(&mut self) {}

    /// A value's first `length` numbers, row after row. Valid after [`Compiled::wait`].
    fn value(&self, value: ValueId, length: usize) -> &[f32];

    /// The same to write: what another device made.
    fn value_mut(&mut self, value: ValueId, length: usize) -> &mut [f32];

    /// Keys [positions, kv_heads, key_dim] and values [positions, kv_heads, value_dim] of one page.
    fn read_kv(&self, cache: usize, page: PageId, positions: Range<usize>, keys: &mut [f16], values: &mut [f16]);

    /// Writes what [`Compiled::read_kv`] reads.
    fn write_kv(&mut self, cache: usize, page: PageId, positions: Range<usize>, keys: &[f16], values: &[f16]);

    /// The state of [`Graph::states`](duan_model::graph::Graph::states) after the last position written in a page
    /// [width].
    fn read_state(&self, state: usize, page: PageId, numbers: &mut [f32]);

    /// Writes what [`Compiled::read_state`] reads.
    fn write_state(&mut self, state: usize, page: PageId, numbers: &[f32]);

    /// Sums up what matrices are multiplied with from now on, anew (`true`), or no more (`false`). Meanwhile results are the same and
    /// passes may be slower.
    ///
    /// # Errors
    /// Where the device cannot; then nothing changes.
    fn observe_inputs(&mut self, on: bool) -> Result<()> {
        if on { Err(Error::new("device", "it cannot tell what its matrices are multiplied with")) } else { Ok(()) }
    }

    /// What was summed up since [`Compiled::observe_inputs`], of every matrix of the ops that ran, see
    /// [`InputSums::of_matrices`](crate::InputSums::of_matrices).
    fn observed_inputs(&self) -> Vec<MatrixInputs> {
        Vec::new()
    }

    /// Notes how long ops take from now on, anew, by this clock, with room for `passes` passes through everything that was compiled;
    /// or no more (`None`). Results are the same meanwhile, and nothing is allocated before it is asked again.
    ///
    /// # Errors
    /// Where the device cannot; then nothing changes.
    fn observe_times(&mut self, clock: Option<Clock>, passes: usize) -> Result<()> {
        let _ = passes;
        if clock.is_some() { Err(Error::new("device", "it cannot tell how long its ops take")) } else { Ok(()) }
    }

    /// What was noted since [`Compiled::observe_times`], in order.
    fn observed_times(&self) -> &[OpTime] {
        &[]
    }

    /// For people: what computes the op, such as `Q4_0 avx2`, each once; nothing where there is only one way.
    fn kernels(&self, op: usize) -> Vec<String> {
        let _ = op;
        Vec::new()
    }

    /// From now on computes with other weights in the place of a matrix's own: `bytes` [rows, row_bytes] in the matrix's own format,
    /// wherever an op reads it. `None` puts its own back. Passes may be slower meanwhile.
    ///
    /// # Errors
    /// Where the device cannot; then nothing changes. Panics for bytes of another length.
    fn replace_matrix(&mut self, matrix: MatrixId, bytes: Option<SharedBytes>) -> Result<()> {
        let _ = (matrix, bytes);
        Err(Error::new("device", "it cannot put other weights in the place of a matrix's own"))
    }

    /// Copies the first `count` positions of a page, in every cache of this device, and the page's states. Where the model
    /// has states, `count` is how many positions were written.
    fn copy_page(&mut self, from: PageId, to: PageId, count: usize);

    /// What this holds.
    fn memory(&self) -> MemoryUse;

    /// What the user should know of how this device made itself ready, a line each: for example that a kernel computes wrongly
    /// here and which one is used instead.
    fn warnings(&self) -> &[String] {
        &[]
    }
}
