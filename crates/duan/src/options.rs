//! What a user can ask of an engine.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use duan_backend::KvFormat;
use duan_cpu::{Fusion, Pinning};
use duan_engine::{SamplingOptions, Sizes};
use duan_model::checkpoint::Checkpoint;
use duan_model::graph::OpKind;
use duan_quant::Format;

use crate::error::{Error, Result};
use crate::packs::Packing;

/// How models are loaded and how they answer. Everything has a default.
#[derive(Debug, Clone)]
pub struct EngineOptions {
    /// The device that is preferred: `cpu` (also the default), with the reference as last resort, or `reference` alone.
    pub device: Option<String>,
    /// Threads while one token is computed; `None` lets the device choose.
    pub threads: Option<usize>,
    /// Threads while a prompt is computed; `None` lets the device choose.
    pub threads_prefill: Option<usize>,
    /// Instruction sets that the CPU may use, as `DUAN_ISA` names them (`scalar`, `avx2`, ... separated by commas);
    /// `None` allows all.
    pub isa: Option<String>,
    /// The format that the float matrices of a model are brought into while it is loaded, as
    /// [`Checkpoint::in_format`](duan_model::checkpoint::Checkpoint::in_format) has it; `None` leaves them as they are.
    pub format: Option<&'static Format>,
    /// What the CPU's threads are held to.
    pub pinning: Pinning,
    /// Positions of the context; `None` takes the model's, at most 4096.
    pub context: Option<usize>,
    /// How the KV cache keeps its numbers.
    pub kv_format: KvFormat,
    /// The most tokens of one pass over a prompt.
    pub prefill_rows: usize,
    /// The most bytes of logits that one pass asks for; a single row may have more. It matters where the logits of many tokens are
    /// wanted, as in an evaluation.
    pub logits_bytes: usize,
    /// Kinds of ops that the CPU is told to refuse, so that they fall back: for experiments and tests.
    pub refuse: Vec<OpKind>,
    /// What the CPU runs one by one though it could run it together: for experiments and tests. The results are the same bits.
    pub no_fuse: Vec<Fusion>,
    /// Weight formats whose kernels on the CPU count as wrong everywhere but in plain code: for experiments and tests.
    pub distrust: Vec<String>,
    /// Whether ops may run on the device of last resort; otherwise that is an error that names the op.
    pub allow_fallback: bool,
    /// Whether loading ends with a tiny pass, so that costs of first use do not end up in the first answer.
    pub warm_up: bool,
    /// Whether weights are laid out for the device, and where that is kept: by default in memory only.
    pub packing: Packing,
    /// What a conversation begins with, in the role `system`.
    pub system_prompt: Option<String>,
    /// How tokens are chosen in conversations.
    pub sampling: SamplingOptions,
    /// The most tokens of one answer in conversations; `None` goes on to the context's end.
    pub max_tokens: Option<usize>,
    /// Ends the answer at the next token or piece of the prompt once it is true; the engine never sets or clears it. Keep a
    /// clone of it, for a signal handler or another thread.
    pub cancel: Arc<AtomicBool>,
}

impl Default for EngineOptions {
    fn default() -> Self {
        let Sizes { context, max_rows, kv_format, logits_bytes } = Sizes::default();
        Self {
            device: None,
            threads: None,
            threads_prefill: None,
            isa: None,
            format: None,
            pinning: Pinning::default(),
            context,
            kv_format,
            prefill_rows: max_rows,
            logits_bytes,
            refuse: Vec::new(),
            no_fuse: Vec::new(),
            distrust: Vec::new(),
            allow_fallback: true,
            warm_up: true,
            packing: Packing::default(),
            system_prompt: None,
            sampling: SamplingOptions::default(),
            max_tokens: None,
            cancel: Arc::default(),
        }
    }
}

/// The weight format of this name that a model's matrices can be brought into; case does not matter. GGUF files cannot hold all of
/// them.
///
/// # Errors
/// Where there is none.
pub fn writable_format(name: &str) -> Result<&'static Format> {
    duan_quant::format_by_name(name).filter(|format| format.is_writable()).ok_or_else(|| {
        let known = duan_quant::FORMATS.iter().filter(|format| format.is_writable()).map(|format| format.name);
        Error::UnknownFormat { name: name.to_owned(), known: known.collect::<Vec<_>>().join(", ") }
    })
}

impl EngineOptions {
    /// The model at `path`, in the format that is wanted.
    pub(crate) fn open(&self, path: &Path) -> Result<Checkpoint> {
        let checkpoint = Checkpoint::open(path)?;
        match self.format {
            Some(format) => Ok(checkpoint.in_format(format)?),
            None => Ok(checkpoint),
        }
    }

    pub(crate) fn sizes(&self) -> Sizes {
        let Self { context, prefill_rows: max_rows, kv_format, logits_bytes, .. } = *self;
        Sizes { context, max_rows, kv_format, logits_bytes }
    }
}

/// How a text is continued without a template.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct CompleteOptions {
    /// The most tokens of the continuation; `None` goes on to the context's end.
    pub max_tokens: Option<usize>,
    /// How tokens are chosen.
    pub sampling: SamplingOptions,
    /// Whether the begin-of-text token comes first; `None` does as the file says.
    pub bos: Option<bool>,
}
