//! What a model will need, known before anything is allocated.

use duan_backend::{Backend, KvFormat, Limits, PAGE_TOKENS};
use duan_model::Model;
use duan_model::config::ModelConfig;
use duan_model::graph::Graph;
use serde::Serialize;

use crate::error::{Error, Result};
use crate::ledger::Ledger;

/// The context where none is asked for and the model allows more.
pub const DEFAULT_CONTEXT: usize = 4096;

/// The most bytes of logits that one pass asks for, unless more are wanted.
const LOGITS_BYTES: usize = 8 << 20;

/// The sizes that a user chooses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sizes {
    /// Positions of the context; `None` is the model's, at most [`DEFAULT_CONTEXT`].
    pub context: Option<usize>,
    /// The most tokens of one pass.
    pub max_rows: usize,
    /// How the KV cache keeps its numbers.
    pub kv_format: KvFormat,
    /// The most bytes of logits that one pass asks for; a single row may have more.
    pub logits_bytes: usize,
}

impl Default for Sizes {
    fn default() -> Self {
        Self { context: None, max_rows: 512, kv_format: KvFormat::F16, logits_bytes: LOGITS_BYTES }
    }
}

impl Sizes {
    /// The context for a model.
    ///
    /// # Errors
    /// [`Error::Option`] when the context that is asked for is 0 or more than the model was trained for.
    pub fn context_for(&self, config: &ModelConfig) -> Result<usize> {
        let context = self.context.unwrap_or_else(|| config.context_length.min(DEFAULT_CONTEXT));
        if context < 2 || context > config.context_length {
            let found = format!("{context} (the model's context is {})", config.context_length);
            let expected = "a number of tokens from 2 to the context that the model was trained for";
            return Err(Error::Option { name: "context", expected, found });
        }
        Ok(context)
    }

    /// What devices size their buffers for.
    ///
    /// # Errors
    /// As [`Sizes::context_for`], and when `max_rows` is 0 or beyond 65536.
    pub fn limits_for(&self, config: &ModelConfig) -> Result<Limits> {
        let context = self.context_for(config)?;
        if !(1..=1 << 16).contains(&self.max_rows) {
            let found = self.max_rows.to_string();
            return Err(Error::Option { name: "prefill_rows", expected: "a number of tokens from 1 to 65536", found });
        }
        // No pass has more rows than the context has positions.
        let max_rows = self.max_rows.min(context);
        let fitting = self.logits_bytes / size_of::<f32>() / config.vocab_size.max(1);
        let max_wanted_rows = fitting.clamp(1, max_rows);
        Ok(Limits { max_rows, max_wanted_rows, pages: Ledger::pages_for(context), context, kv_format: self.kv_format })
    }
}

/// Bytes that a model needs with a context.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct MemoryNeed {
    /// Positions of the context.
    pub context: usize,
    /// Weights, mapped ones included.
    pub weights_bytes: u64,
    /// The KV cache when it is full, and the states beside it.
    pub kv_bytes: u64,
    /// The values of the largest pass; devices add their own scratch to that.
    pub scratch_bytes: u64,
    /// All together.
    pub total_bytes: u64,
}

impl MemoryNeed {
    /// The need of a model under limits.
    pub fn of(model: &Model, context: usize, limits: &Limits) -> Self {
        let weights_bytes = model.weights.bytes();
        let per_position = model.config.kv_values_per_position() as u64 * limits.kv_format.bytes() as u64;
        let positions = (limits.pages as u64).saturating_mul(PAGE_TOKENS as u64);
        let states: usize = model.graph.states.iter().map(|state| state.width * size_of::<f32>()).sum();
        let states_bytes = (limits.pages as u64).saturating_mul(states as u64);
        let kv_bytes = positions.saturating_mul(per_position).saturating_add(states_bytes);
        let scratch_bytes = values_bytes(&model.graph, limits);
        let total_bytes = weights_bytes.saturating_add(kv_bytes).saturating_add(scratch_bytes);
        Self { context, weights_bytes, kv_bytes, scratch_bytes, total_bytes }
    }

    /// Compares the need with what the device could still give, where that is known.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`] with all numbers when it is less.
    pub fn check(&self, device: &dyn Backend) -> Result<()> {
        let Some(available_bytes) = device.memory_available_bytes() else { return Ok(()) };
        if self.total_bytes <= available_bytes {
            return Ok(());
        }
        Err(Error::OutOfMemory {
            device: device.name().to_owned(),
            context: self.context,
            needed_bytes: self.total_bytes,
            available_bytes,
            weights_bytes: self.weights_bytes,
            kv_bytes: self.kv_bytes,
            scratch_bytes: self.scratch_bytes,
        })
    }
}

fn values_bytes(graph: &Graph, limits: &Limits) -> u64 {
    let of = |value: &duan_model::graph::Value| {
        let rows = if value.wanted_rows_only { limits.max_wanted_rows } else { limits.max_rows };
        (rows as u64).saturating_mul(value.width as u64).saturating_mul(size_of::<f32>() as u64)
    };
    graph.values.iter().map(of).fold(0, u64::saturating_add)
}
