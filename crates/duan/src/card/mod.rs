//! The device card: what a device is good for, on one page, as data.
//!
//! [`Card::of`] is a pure function of what is known of a device, so that it can be asked about machines that nobody has. What is known of
//! this one is put together in [`crate::Engine::card`]. Words are the faces' matter.

mod problems;
#[cfg(test)]
mod tests;

use duan_hub::CatalogueEntry;
use duan_measure::ceilings::Ceilings;
use duan_measure::synth::{Mix, Shape};
use duan_system::State;
use serde::Serialize;

pub use problems::{Problem, ProblemKind};

/// Models that stand for their size: name of the size, and the public model with its shape.
const TYPICAL: [(&str, &str); 3] = [("1B", "llama-3.2-1b"), ("3B", "llama-3.2-3b"), ("7B", "qwen2.5-7b")];

/// The format of their matrices.
const FORMAT: &str = "q4_0";

/// Tokens of a conversation of several turns.
const CONVERSATION_TOKENS: u64 = 4096;

/// What a running model takes beside its weights, keys and values: buffers and the program, as the catalogue counts it.
const BESIDE_BYTES: u64 = 192 << 20;

/// Decode rarely reaches less of its ceiling than this, when nothing is set up wrongly.
const LOW_SHARE: f64 = 0.6;

/// What a card is made of.
#[derive(Debug, Clone, Copy)]
pub struct Known<'a> {
    /// The device, as its system shows it.
    pub state: &'a State,
    /// What it can do at most, where that was measured.
    pub ceilings: Option<&'a Ceilings>,
    /// The instruction set that kernels use.
    pub isa: &'a str,
    /// The weight formats with kernels of their own.
    pub kernel_formats: &'a [String],
    /// Threads of decode.
    pub threads_decode: usize,
    /// Threads of prefill.
    pub threads_prefill: usize,
    /// Bytes that a model can be given now, where that is known.
    pub memory_available_bytes: Option<u64>,
    /// The models that may be recommended.
    pub catalogue: &'a [CatalogueEntry],
}

/// What a device is good for.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Card {
    /// What it is.
    pub chip: String,
    /// The instruction set that kernels use.
    pub isa: String,
    /// Threads of decode.
    pub threads_decode: usize,
    /// Threads of prefill.
    pub threads_prefill: usize,
    /// When its ceilings were measured; none where they were not.
    pub ceilings_measured_at: Option<String>,
    /// Formats that run natively, by the instructions that multiply them.
    pub native: Vec<NativeFormats>,
    /// What the threads of decode read.
    pub read_bytes_per_s: Option<f64>,
    /// The fewest threads that read nearly as much as any number.
    pub knee_threads: Option<usize>,
    /// Bytes that a model can be given now.
    pub memory_available_bytes: Option<u64>,
    /// Models of the catalogue; none where the memory is not known.
    pub models: Option<Models>,
    /// What models of typical sizes would do.
    pub forecasts: Vec<Forecast>,
    /// What stands in this device's way, the worst first.
    pub problems: Vec<Problem>,
}

/// Formats that are multiplied by the same instructions.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NativeFormats {
    /// The instruction, where it was measured.
    pub instruction: Option<String>,
    /// The formats.
    pub formats: Vec<String>,
    /// Multiply-adds per second of the threads of prefill, at most.
    pub multiply_adds_per_s: Option<f64>,
}

/// Models of the catalogue that fit into the memory that is free now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Models {
    /// The one that answers best; none where not even the smallest fits.
    pub best: Option<String>,
    /// All that fit and converse.
    pub fitting: Vec<String>,
    /// Those that converse and do not fit.
    pub too_large: Vec<String>,
}

/// What a model of a typical size would do.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Forecast {
    /// The size: "1B".
    pub size: String,
    /// The public model whose shape was taken.
    pub like: String,
    /// Its matrices' format.
    pub format: String,
    /// Bytes of its weights.
    pub weights_bytes: u64,
    /// Bytes that a token of decode reads at the beginning of a conversation.
    pub read_bytes_per_token: u64,
    /// Bytes of the keys and values of a token.
    pub kv_bytes_per_token: u64,
    /// Tokens per second of decode at 60 % of the ceiling.
    pub low_ts: Option<f64>,
    /// The same at the ceiling.
    pub high_ts: Option<f64>,
    /// Whether weights and a context of 512 tokens fit, where the memory is known.
    pub fits: Option<bool>,
    /// The most tokens of a context beside the weights; 0 where these alone do not fit.
    pub largest_context: Option<u64>,
    /// Whether a conversation of several turns holds: 4096 tokens beside the weights.
    pub turns_hold: Option<bool>,
}

impl Card {
    /// Makes it.
    pub fn of(known: &Known<'_>) -> Self {
        let read_bytes_per_s =
            known.ceilings.and_then(|ceilings| ceilings.read_by(known.threads_decode)).map(|read| read.bytes_per_s);
        let forecasts: Vec<Forecast> =
            TYPICAL.iter().filter_map(|(size, like)| forecast(size, like, known, read_bytes_per_s)).collect();
        Self {
            chip: known.state.chip().to_string(),
            isa: known.isa.to_owned(),
            threads_decode: known.threads_decode,
            threads_prefill: known.threads_prefill,
            ceilings_measured_at: known.ceilings.map(|ceilings| ceilings.measured_at.clone()),
            native: native(known),
            read_bytes_per_s,
            knee_threads: known.ceilings.and_then(Ceilings::knee),
            memory_available_bytes: known.memory_available_bytes,
            models: known.memory_available_bytes.map(|bytes| models(known.catalogue, bytes)),
            problems: problems::problems(known, forecasts.first()),
            forecasts,
        }
    }
}

/// The formats with kernels, the fastest instructions first; without measured ceilings in one row.
fn native(known: &Known<'_>) -> Vec<NativeFormats> {
    let peaks = known.ceilings.map(|ceilings| ceilings.at(known.threads_decode, known.threads_prefill).multiply_adds);
    let mut rows: Vec<NativeFormats> = Vec::new();
    let has_kernel = |format: &String| known.kernel_formats.contains(format);
    for peak in peaks.unwrap_or_default() {
        rows.push(NativeFormats {
            formats: peak.formats.into_iter().filter(has_kernel).collect(),
            instruction: Some(peak.instruction),
            multiply_adds_per_s: Some(peak.per_s),
        });
    }
    rows.retain(|row| !row.formats.is_empty());
    rows.sort_by(|a, b| b.multiply_adds_per_s.unwrap_or(0.0).total_cmp(&a.multiply_adds_per_s.unwrap_or(0.0)));
    if rows.is_empty() {
        let formats = known.kernel_formats.to_vec();
        rows.push(NativeFormats { instruction: None, formats, multiply_adds_per_s: None });
    }
    rows
}

fn models(catalogue: &[CatalogueEntry], available_bytes: u64) -> Models {
    let names = |fits: bool| {
        let chat = catalogue.iter().filter(|entry| entry.is_chat && entry.fits(available_bytes) == fits);
        chat.map(|entry| entry.name.to_owned()).collect()
    };
    let best = catalogue.iter().filter(|entry| entry.is_chat && entry.fits(available_bytes));
    let best = best.max_by_key(|entry| entry.file_bytes).map(|entry| entry.name.to_owned());
    Models { best, fitting: names(true), too_large: names(false) }
}

/// None only where the tables lack the shape, which a test excludes.
fn forecast(size: &str, like: &str, known: &Known<'_>, read_bytes_per_s: Option<f64>) -> Option<Forecast> {
    let shape = Shape::by_name(like)?;
    let needs = shape.needs(Mix::by_name(FORMAT)?);
    let high_ts = read_bytes_per_s.map(|rate| rate / needs.read_bytes.max(1) as f64);
    let beside = known.memory_available_bytes.map(|bytes| {
        let left = bytes.checked_sub(needs.weights_bytes)?.checked_sub(BESIDE_BYTES)?;
        Some((left / needs.kv_bytes_per_token.max(1)).min(shape.context_length() as u64))
    });
    let largest_context = beside.map(|tokens| tokens.unwrap_or(0));
    Some(Forecast {
        size: size.to_owned(),
        like: like.to_owned(),
        format: FORMAT.to_uppercase(),
        weights_bytes: needs.weights_bytes,
        read_bytes_per_token: needs.read_bytes,
        kv_bytes_per_token: needs.kv_bytes_per_token,
        low_ts: high_ts.map(|rate| rate * LOW_SHARE),
        high_ts,
        fits: largest_context.map(|tokens| tokens >= 512),
        largest_context,
        turns_hold: largest_context.map(|tokens| tokens >= CONVERSATION_TOKENS),
    })
}
