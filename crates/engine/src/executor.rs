//! A loaded model: its compiled devices and the ledger of its KV cache. Sessions run on it one pass at a time.

use std::ops::Range;
use std::sync::Arc;

use duan_backend::{Backend, Clock, Limits, MatrixInputs, Packing, Pass, Span};
use duan_model::Model;
use duan_model::bytes::SharedBytes;
use duan_model::graph::Graph;
use duan_model::weights::MatrixId;

use crate::error::{Error, Result};
use crate::event::DeviceMemory;
use crate::ledger::{Ledger, SequenceId};
use crate::memory::{MemoryNeed, Sizes};
use crate::plan::Plan;
use crate::rerun::KeptValues;
use crate::run::Runner;
use crate::times::PassTimes;

/// A model that is ready to run.
#[derive(Debug)]
pub struct Executor {
    graph: Arc<Graph>,
    runner: Runner,
    ledger: Ledger,
    limits: Limits,
    context: usize,
    model_context: usize,
    vocab_size: usize,
}

impl Executor {
    /// Makes a model ready: checks that it fits in memory, then compiles each device's part. `backends` are in the order of
    /// [`Plan::devices`].
    ///
    /// # Errors
    /// When a size makes no sense, the memory does not suffice or a device cannot compile its part.
    pub fn load(model: &Model, backends: &[&dyn Backend], plan: &Plan, sizes: &Sizes) -> Result<Self> {
        Self::load_packed(model, backends, plan, sizes, Packing::default())
    }

    /// The same, and says what becomes of weights that a device would rather have in another order.
    ///
    /// # Errors
    /// As [`Executor::load`].
    pub fn load_packed(
        model: &Model,
        backends: &[&dyn Backend],
        plan: &Plan,
        sizes: &Sizes,
        packing: Packing<'_>,
    ) -> Result<Self> {
        let limits = sizes.limits_for(&model.config)?;
        let context = sizes.context_for(&model.config)?;
        let need = MemoryNeed::of(model, context, &limits);
        let MemoryNeed { weights_bytes, kv_bytes, scratch_bytes, .. } = need;
        tracing::debug!(context, max_rows = limits.max_rows, weights_bytes, kv_bytes, scratch_bytes, "memory needed");
        for (index, backend) in backends.iter().enumerate() {
            if !plan.ops_of(index).is_empty() {
                need.check(*backend)?;
            }
        }
        let runner = Runner::compile(model, backends, plan, &limits, packing)?;
        let ledger = Ledger::new(limits.pages, context).with_states(!model.graph.states.is_empty());
        let (model_context, vocab_size) = (model.config.context_length, model.config.vocab_size);
        let graph = model.graph.clone();
        Ok(Self { graph, runner, ledger, limits, context, model_context, vocab_size })
    }

    /// Waits until the devices have kept what they want to keep for later loads. Passes do not wait for that; measurements
    /// should.
    pub fn settle(&mut self) {
        self.runner.settle();
    }

    /// Positions of the context.
    pub fn context(&self) -> usize {
        self.context
    }

    /// Positions that the model was trained for, and the most that a context can have.
    pub fn model_context(&self) -> usize {
        self.model_context
    }

    /// Tokens of the vocabulary, and logits of a row.
    pub fn vocab_size(&self) -> usize {
        self.vocab_size
    }

    /// What buffers were sized for.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Which tokens the cache holds.
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    pub(crate) fn ledger_mut(&mut self) -> &mut Ledger {
        &mut self.ledger
    }

    /// What each device holds.
    pub fn memory(&self) -> Vec<DeviceMemory> {
        self.runner.memory()
    }

    /// What each device has to say of how it made itself ready: its name and a line.
    pub fn warnings(&self) -> Vec<(String, String)> {
        self.runner.warnings()
    }

    /// The logits of the last pass's wanted rows `[rows, vocab_size]`.
    pub fn logits(&self, rows: usize) -> &[f32] {
        self.runner.logits(rows)
    }

    /// Sums up what matrices are multiplied with from now on, anew (`true`), or no more (`false`). Passes are slower meanwhile.
    ///
    /// # Errors
    /// When a device cannot.
    pub fn observe_inputs(&mut self, on: bool) -> Result<()> {
        self.runner.observe_inputs(on)
    }

    /// What was summed up since [`Executor::observe_inputs`], of every matrix of the ops that ran. A matrix that several ops or
    /// devices read comes once for each.
    pub fn observed_inputs(&self) -> Vec<MatrixInputs> {
        self.runner.observed_inputs()
    }

    /// Notes how long ops, and what is done between devices, take from now on, anew, by this clock, with room for `passes` passes; or no
    /// more (`None`). Results are the same.
    ///
    /// # Errors
    /// When a device cannot; then nothing is noted.
    pub fn observe_times(&mut self, clock: Option<Clock>, passes: usize) -> Result<()> {
        self.runner.observe_times(clock, passes)
    }

    /// What was noted since [`Executor::observe_times`], of each pass.
    pub fn observed_times(&self) -> Vec<PassTimes> {
        self.runner.observed_times(&self.graph)
    }

    /// For people: what computes an op on a device, see [`duan_backend::Compiled::kernels`].
    pub fn kernels(&self, device: &str, op: usize) -> Vec<String> {
        self.runner.kernels(device, op)
    }

    /// From now on computes with other weights in the place of a matrix's own, see [`duan_backend::Compiled::replace_matrix`].
    ///
    /// # Errors
    /// When the device cannot, or the model is spread over several.
    pub fn replace_matrix(&mut self, matrix: MatrixId, bytes: Option<SharedBytes>) -> Result<()> {
        self.runner.replace_matrix(matrix, bytes)
    }

    /// What the ops from `first` on would find now, once those before have run for the last `count` tokens of a sequence (2 or more),
    /// the last `wanted` of which logits are asked for.
    ///
    /// # Errors
    /// When the model is spread over several devices.
    pub fn keep_values(
        &mut self,
        sequence: SequenceId,
        (count, wanted): (usize, usize),
        first: usize,
    ) -> Result<KeptValues> {
        let graph = self.graph.clone();
        self.with_last(sequence, (count, wanted), |runner, pass| runner.keep_values(&graph, pass, first))
    }

    /// Runs `ops` once more for the same tokens, from what was kept before the first of them.
    ///
    /// # Errors
    /// When the device fails, or there are several.
    pub fn rerun(
        &mut self,
        sequence: SequenceId,
        (count, wanted): (usize, usize),
        kept: &KeptValues,
        ops: Range<usize>,
    ) -> Result<()> {
        self.with_last(sequence, (count, wanted), |runner, pass| {
            runner.put_values(kept)?;
            runner.run_ops(pass, ops)
        })
    }

    /// Does something with the pass over the last `count` tokens of a sequence, which are in the cache already.
    fn with_last<T>(
        &mut self,
        sequence: SequenceId,
        (count, wanted): (usize, usize),
        work: impl FnOnce(&mut Runner, &Pass<'_>) -> Result<T>,
    ) -> Result<T> {
        let tokens = self.ledger.tokens(sequence);
        let start = tokens.len() - count;
        let spans = [Span { sequence: sequence.0, start, count, wanted, pages: self.ledger.pages(sequence) }];
        work(&mut self.runner, &Pass { tokens: &tokens[start..], spans: &spans })
    }

    /// Runs one small pass of each phase, so that costs of first use do not end up in the first answer. The cache is as it
    /// was before.
    ///
    /// # Errors
    /// As [`Executor::pass`].
    pub fn warm_up(&mut self) -> Result<()> {
        let sequence = self.ledger.open();
        let prefill = [0; 2];
        let rows = self.limits.max_rows.min(self.context - 1).min(prefill.len());
        let passes = self.pass(sequence, &prefill[..rows], 1).and_then(|()| self.pass(sequence, &[0], 1));
        self.ledger.close(sequence);
        passes
    }

    /// Appends `tokens`, at most `max_rows`, to a sequence in one pass, and asks for the logits of its last `wanted` rows. On an
    /// error the sequence is as it was before; with state beside keys and values, as it was at the end of its last full page.
    ///
    /// # Errors
    /// When a token is unknown, the context or the cache is full, or a device fails.
    pub fn pass(&mut self, sequence: SequenceId, tokens: &[u32], wanted: usize) -> Result<()> {
        if let Some(&token) = tokens.iter().find(|&&token| token as usize >= self.vocab_size) {
            return Err(Error::UnknownToken { token, vocab_size: self.vocab_size });
        }
        if let Some(copy) = self.ledger.reserve(sequence, tokens.len())? {
            self.runner.copy_page(copy);
        }
        let start = self.ledger.tokens(sequence).len();
        let pages = self.ledger.pages(sequence);
        let spans = [Span { sequence: sequence.0, start, count: tokens.len(), wanted, pages }];
        let result = self.runner.run(&Pass { tokens, spans: &spans });
        match result {
            Ok(()) => self.ledger.append(sequence, tokens),
            // What was reserved is given back, and a state that may be half written with it.
            Err(_) => {
                self.ledger.take_back(sequence, start);
            }
        }
        result
    }
}
