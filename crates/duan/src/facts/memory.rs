//! What running a model takes, at several contexts, against what a device has.

use duan_engine::{MemoryNeed, Sizes};
use duan_model::Model;
use serde::Serialize;

use super::Machine;
use crate::error::Result;

/// Contexts that people compare models at, in tokens.
const USUAL_CONTEXTS: [usize; 2] = [512, 2048];

/// What running a model takes, against what a device has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct MemoryFacts {
    /// The device that is judged by.
    pub device: String,
    /// What it could still give, where that can be read.
    pub available_bytes: Option<u64>,
    /// The need at 512 and 2048 tokens, at the chosen context and at the model's whole one, as far as the model has them.
    pub rows: Vec<MemoryRow>,
    /// The largest context that fits; `None` where what is there is not known, 0 where none fits.
    pub largest_context: Option<usize>,
    /// Bytes that one more token of the context takes in the KV cache.
    pub kv_bytes_per_token: u64,
    /// Bytes of the states beside the KV cache (short convolutions) for each page of the context.
    pub state_bytes_per_page: u64,
    /// Tokens of a page.
    pub page_tokens: usize,
}

/// The need at one context.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct MemoryRow {
    /// The bytes.
    #[serde(flatten)]
    pub need: MemoryNeed,
    /// Whether the device has them, where that is known.
    pub fits: Option<bool>,
    /// Whether this is the context that the engine's options choose.
    pub is_chosen: bool,
    /// Whether this is the whole context of the model.
    pub is_whole: bool,
}

impl MemoryFacts {
    pub(super) fn of(model: &Model, sizes: &Sizes, machine: &Machine) -> Result<Self> {
        let config = &model.config;
        let chosen = sizes.context_for(config)?;
        let whole = config.context_length;
        let available = machine.memory_available_bytes;
        let fits = |need: &MemoryNeed| available.map(|available| need.total_bytes <= available);
        let mut contexts: Vec<usize> = USUAL_CONTEXTS.into_iter().filter(|&context| context < whole).collect();
        contexts.extend([chosen, whole]);
        contexts.sort_unstable();
        contexts.dedup();
        let row = |context: usize| {
            let need = need_at(model, sizes, context)?;
            let (is_chosen, is_whole) = (context == chosen, context == whole);
            Ok(MemoryRow { need, fits: fits(&need), is_chosen, is_whole })
        };
        Ok(Self {
            rows: contexts.into_iter().map(row).collect::<Result<_>>()?,
            largest_context: match available {
                Some(available) => Some(largest_context(model, sizes, available)?),
                None => None,
            },
            kv_bytes_per_token: config.kv_values_per_position() as u64 * sizes.kv_format.bytes() as u64,
            state_bytes_per_page: model.graph.states.iter().map(|state| (state.width * size_of::<f32>()) as u64).sum(),
            page_tokens: duan_backend::PAGE_TOKENS,
            device: machine.device.clone(),
            available_bytes: available,
        })
    }

    /// The need at the context that the engine's options choose.
    pub fn chosen(&self) -> Option<&MemoryRow> {
        self.rows.iter().find(|row| row.is_chosen)
    }

    /// Why the chosen context cannot be had.
    pub(super) fn problem(&self) -> Option<String> {
        let row = self.chosen().filter(|row| row.fits == Some(false))?;
        let remedy = match self.largest_context {
            Some(largest) if largest >= 2 => {
                format!("choose a context of at most {largest} tokens, close other programs")
            }
            _ => "close other programs".to_owned(),
        };
        let context = row.need.context;
        Some(format!(
            "it needs more memory than there is for a context of {context} tokens; {remedy}, or use a smaller model"
        ))
    }
}

fn need_at(model: &Model, sizes: &Sizes, context: usize) -> Result<MemoryNeed> {
    let sizes = Sizes { context: Some(context), ..sizes.clone() };
    Ok(MemoryNeed::of(model, context, &sizes.limits_for(&model.config)?))
}

/// The largest context whose need is at most `available` bytes; 0 where none is. The need grows with the context.
fn largest_context(model: &Model, sizes: &Sizes, available: u64) -> Result<usize> {
    let fits = |context: usize| Ok::<bool, crate::Error>(need_at(model, sizes, context)?.total_bytes <= available);
    let (mut fitting, mut beyond) = (1, model.config.context_length.saturating_add(1));
    while beyond - fitting > 1 {
        let middle = fitting + (beyond - fitting) / 2;
        if fits(middle)? {
            fitting = middle;
        } else {
            beyond = middle;
        }
    }
    Ok(if fitting < 2 { 0 } else { fitting })
}
