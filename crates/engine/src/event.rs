//! What happens while a model is loaded and while it answers. Faces are views of these events.

use serde::{Deserialize, Serialize};

use crate::plan::Plan;

/// Why an answer ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FinishReason {
    /// The model ended its turn.
    Stop,
    /// As many tokens as were asked for.
    Length,
    /// The context has no position left: the answer is cut off.
    Context,
    /// The user or the program asked for it.
    Cancelled,
}

impl FinishReason {
    /// The name as JSON has it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Stop => "stop",
            Self::Length => "length",
            Self::Context => "context",
            Self::Cancelled => "cancelled",
        }
    }
}

/// What an answer took. Prefill and decode are counted apart; sampling and text are in neither.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Timings {
    /// Tokens of the whole prompt.
    pub prompt_tokens: usize,
    /// Of these, tokens whose keys and values were in the cache already; the others were prefilled.
    pub cached_tokens: usize,
    /// Time of the passes over the prompt.
    pub prefill_ns: u64,
    /// From the call to the first token, prefill included; 0 where none came.
    pub first_token_ns: u64,
    /// Tokens that were sampled, the one that ended the turn included.
    pub generated_tokens: usize,
    /// Passes of one token: one less than the tokens, as the first comes out of the prefill.
    pub decode_tokens: usize,
    /// Time of these passes.
    pub decode_ns: u64,
    /// From the call to the end.
    pub total_ns: u64,
    /// Positions of the context that are taken now.
    pub context_used: usize,
    /// Positions of the context.
    pub context: usize,
    /// The seed of the sampler, chosen or given: the same one gives the same answer.
    pub seed: u64,
    /// Why it ended.
    pub finish_reason: FinishReason,
}

impl Timings {
    /// Tokens that were really prefilled.
    pub fn prefill_tokens(&self) -> usize {
        self.prompt_tokens - self.cached_tokens
    }

    /// Prefilled tokens per second; `None` without any.
    pub fn prefill_tokens_per_s(&self) -> Option<f64> {
        rate(self.prefill_tokens(), self.prefill_ns)
    }

    /// Decoded tokens per second; `None` without any.
    pub fn decode_tokens_per_s(&self) -> Option<f64> {
        rate(self.decode_tokens, self.decode_ns)
    }
}

fn rate(tokens: usize, ns: u64) -> Option<f64> {
    (tokens > 0 && ns > 0).then(|| tokens as f64 * 1e9 / ns as f64)
}

/// Bytes of a loaded model on one device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceMemory {
    /// The device.
    pub device: String,
    /// Weights as the device reads them, mapped ones included.
    pub weights_bytes: u64,
    /// The KV cache when it is full.
    pub kv_bytes: u64,
    /// Values and scratch.
    pub scratch_bytes: u64,
}

/// Something that happened. Events of loading come in the order of their listing, those of an answer too.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Event<'a> {
    /// A file is being opened.
    LoadStarted {
        /// The file.
        file: &'a str,
    },
    /// Something about the file or its tokenizer that the user should know.
    Warning {
        /// One line.
        message: &'a str,
    },
    /// The plan is made; [`Plan::fallbacks`] says what does not run where it should.
    Planned {
        /// The plan.
        plan: &'a Plan,
    },
    /// Something that the user should know of how a device made itself ready, for example that a kernel failed its self-test.
    DeviceWarning {
        /// The device.
        device: &'a str,
        /// One line.
        message: &'a str,
    },
    /// Weights that were kept could not be used, and were thrown away; they are laid out anew.
    PackDiscarded {
        /// Why, in one line.
        reason: &'a str,
    },
    /// Weights that a device laid out cannot be kept for later loads. This load goes on.
    PackNotKept {
        /// Why, in one line.
        reason: &'a str,
    },
    /// Weights that a device laid out are being kept for later loads, on the disk, beside the answers.
    PackKept {
        /// Bytes that they take.
        bytes: u64,
        /// Where they are.
        folder: &'a str,
    },
    /// Every device is ready.
    Loaded {
        /// What each device holds.
        memory: &'a [DeviceMemory],
        /// Positions of the context.
        context: usize,
        /// From the start to here.
        load_ns: u64,
    },
    /// The tiny passes are done that take the costs of first use.
    WarmedUp {
        /// Their time.
        warm_up_ns: u64,
    },
    /// A piece of the prompt is done.
    PrefillProgress {
        /// Tokens that are done, cached ones included.
        done: usize,
        /// Tokens of the prompt.
        total: usize,
        /// Tokens that were in the cache.
        cached: usize,
    },
    /// A token was sampled; also the one that ends the turn.
    Token {
        /// The token.
        id: u32,
        /// Whether it ends the model's turn, so that it is no part of the text.
        ends_turn: bool,
    },
    /// Text that is certain by now: whole characters only, and never empty.
    Text {
        /// What to append to the answer so far.
        text: &'a str,
    },
    /// The context nears its end; comes once in an answer.
    ContextNearlyFull {
        /// Positions that are taken.
        used: usize,
        /// Positions of the context.
        context: usize,
    },
    /// The answer is complete or cut off, as [`Timings::finish_reason`] says.
    Finished {
        /// What it took.
        timings: &'a Timings,
    },
}
