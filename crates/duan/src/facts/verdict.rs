//! Can it work here? One answer, and the reasons that matter most, as data; words for people are the faces' matter.
//!
//! [`Verdict::of`] is a pure function of [`Circumstances`], so that it can be asked about machines that nobody has. What they are on
//! this machine is found out in `circumstances.rs`.

#[cfg(test)]
mod tests;

use std::path::PathBuf;

use serde::Serialize;

/// Reasons that a person reads before starting; what is less important is counted only.
const MOST_REASONS: usize = 3;

/// Slow formats that hold a smaller share of the weights are not worth a word.
const LEAST_SLOW_SHARE: f64 = 0.01;

/// Whether a model can work on a machine, and why.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Verdict {
    /// The answer.
    pub answer: CanRun,
    /// Three at most, the most important first. Where it cannot run, only what stops it.
    pub reasons: Vec<Reason>,
    /// Reasons beyond these.
    pub left_out: usize,
    /// What could not be found out, and therefore is not part of the answer.
    pub unknown: Vec<Unknown>,
}

/// The answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum CanRun {
    /// It runs as it is.
    Yes,
    /// It runs, and something should be known before, such as that it needs a smaller context than it would get by itself.
    YesBut,
    /// It does not run.
    No,
    /// Neither the model nor the memory is known.
    NotKnown,
}

/// A reason, and whether it alone stops the model.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Reason {
    /// What it is about.
    #[serde(flatten)]
    pub kind: ReasonKind,
    /// Whether the model cannot run for it.
    pub is_blocking: bool,
}

/// What a reason is about, with what a sentence about it needs.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub enum ReasonKind {
    /// This version does not run models of the family.
    Family {
        /// As the file names it.
        name: Option<String>,
    },
    /// Tensors of types that are not read here.
    Tensors {
        /// The types.
        types: Vec<String>,
        /// How many tensors.
        tensors: usize,
    },
    /// The model does not make sense: a tensor is missing or of another shape, a key is wrong.
    Model {
        /// What is wrong, with what to do.
        problem: String,
    },
    /// No device here runs some operators.
    Operators {
        /// Which, and why.
        problem: String,
    },
    /// The tokenizer cannot be used.
    Tokenizer {
        /// What is wrong.
        problem: String,
    },
    /// The file is a vocabulary without weights.
    NoWeights {
        /// Whether text can be cut into tokens with it.
        has_tokenizer: bool,
    },
    /// There is not enough memory.
    Memory(MemoryNeeded),
    /// The disk has no room for what would be fetched.
    FetchRoom {
        /// Bytes that are needed.
        needed_bytes: u64,
        /// Bytes that are free.
        free_bytes: u64,
        /// Where.
        folder: PathBuf,
    },
    /// It is no model that writes text.
    NoTextModel {
        /// What it is.
        problem: String,
    },
    /// Some operators only run on the slow device of last resort.
    SlowOperators {
        /// How many, in each token.
        ops: usize,
    },
    /// Weights of formats without a kernel of their own here: they are right, and slow.
    SlowFormats {
        /// The formats, that of the most weights first.
        formats: Vec<String>,
        /// Their share of the weights, from 0 to 1.
        share: f64,
    },
    /// The chat template cannot be used.
    BrokenTemplate,
    /// A base model, which continues text and does not converse.
    Base,
    /// The file lies on a mount that is slow to read from: the first start takes long.
    SlowMount {
        /// Where it is mounted.
        point: PathBuf,
        /// The type of the file system.
        fs_type: String,
        /// Whether it comes over a network; otherwise it is read through a program (FUSE) or a host.
        is_network: bool,
    },
    /// The disk has no room for laid-out weights: each start lays them out anew.
    PackRoom {
        /// Bytes that they take, about.
        needed_bytes: u64,
        /// Bytes that they may take.
        room_bytes: u64,
        /// Where.
        folder: PathBuf,
    },
    /// The cache cannot be written: nothing can be fetched, and each start lays weights out anew.
    CacheNotWritable {
        /// Its folder.
        folder: PathBuf,
    },
    /// The whole context of the model does not fit.
    Context {
        /// The largest that does.
        largest: usize,
        /// The whole.
        whole: usize,
    },
}

/// What could not be found out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Unknown {
    /// What is in the model: it is not fetched yet.
    Model,
    /// What the machine has of memory.
    Memory,
    /// Which formats have kernels there.
    Kernels,
    /// Which operators it runs.
    Operators,
    /// How much room is on its disk, and how fast that is.
    Disk,
}

/// Memory that is needed, and that there is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct MemoryNeeded {
    /// Bytes of weights, KV cache and buffers.
    pub needed_bytes: u64,
    /// Bytes that there are.
    pub available_bytes: u64,
    /// The context that this is for; `None` where the need is an estimate.
    pub context: Option<usize>,
    /// The largest context that fits; 0 where none does, `None` where that is not known.
    pub largest_context: Option<usize>,
    /// The whole context of the model.
    pub whole_context: Option<usize>,
}

/// Whether a model converses.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Talks {
    /// It was tuned for conversations, or nothing is known against it.
    #[default]
    Chat,
    /// It continues text.
    Base,
    /// It has a template that cannot be used.
    BrokenTemplate,
    /// It is no model that writes text, but this.
    NoText(String),
}

/// All that a verdict depends on. What is left as it is by default speaks for the model.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Circumstances {
    /// What was found to stop it while the file was read, the most important first.
    pub stops: Vec<ReasonKind>,
    /// Memory at the context that would be used.
    pub memory: Option<MemoryNeeded>,
    /// Whether a person asked for this context, so that a smaller one is no answer.
    pub is_context_asked_for: bool,
    /// Bytes to be fetched, bytes free for them and the folder, where it is not here yet.
    pub fetch: Option<(u64, u64, PathBuf)>,
    /// Ops of each token that run on the device of last resort.
    pub slow_ops: usize,
    /// Formats without a kernel, with their share of the weights.
    pub slow_formats: Vec<(String, f64)>,
    /// Whether it converses.
    pub talks: Talks,
    /// The mount that the file lies on, where it is a slow one.
    pub mount: Option<super::SlowMount>,
    /// Bytes that laid-out weights take, bytes that they may take and the folder, where they are to be kept.
    pub packs: Option<(u64, u64, PathBuf)>,
    /// The folder of the cache, where it cannot be written.
    pub unwritable_cache: Option<PathBuf>,
    /// What could not be found out.
    pub unknown: Vec<Unknown>,
}

impl Verdict {
    /// Judges.
    pub fn of(known: &Circumstances) -> Self {
        let mut reasons: Vec<Reason> = known.stops.iter().map(|kind| reason(kind.clone(), true)).collect();
        reasons.extend(memory(known));
        if let Some((needed_bytes, free_bytes, folder)) = known.fetch.clone().filter(|fetch| fetch.0 > fetch.1) {
            reasons.push(reason(ReasonKind::FetchRoom { needed_bytes, free_bytes, folder }, true));
        }
        let stops = reasons.iter().any(|reason| reason.is_blocking);
        if stops {
            // Whoever cannot start it does not ask how fast it would be.
            reasons.retain(|reason| reason.is_blocking);
        } else {
            reasons.extend(worth_knowing(known).into_iter().map(|kind| reason(kind, false)));
        }
        let is_blank = known.memory.is_none() && known.unknown.contains(&Unknown::Model);
        let answer = match (stops, reasons.is_empty()) {
            (true, _) => CanRun::No,
            _ if is_blank => CanRun::NotKnown,
            (false, false) => CanRun::YesBut,
            (false, true) => CanRun::Yes,
        };
        let left_out = reasons.len().saturating_sub(MOST_REASONS);
        reasons.truncate(MOST_REASONS);
        Self { answer, reasons, left_out, unknown: known.unknown.clone() }
    }
}

fn reason(kind: ReasonKind, is_blocking: bool) -> Reason {
    Reason { kind, is_blocking }
}

/// Memory that is too small stops it, unless a smaller context would do and nobody asked for this one.
fn memory(known: &Circumstances) -> Option<Reason> {
    let memory = known.memory.filter(|memory| memory.needed_bytes > memory.available_bytes)?;
    let smaller_does = memory.largest_context.is_some_and(|largest| largest >= 2) && !known.is_context_asked_for;
    Some(reason(ReasonKind::Memory(memory), !smaller_does))
}

/// What does not stop it, the most important first: what it is, how fast it will be, how long starts take, how much it holds.
fn worth_knowing(known: &Circumstances) -> Vec<ReasonKind> {
    let slow: f64 = known.slow_formats.iter().map(|format| format.1).sum();
    let talks = match &known.talks {
        Talks::Chat => None,
        Talks::Base => Some(ReasonKind::Base),
        Talks::BrokenTemplate => Some(ReasonKind::BrokenTemplate),
        Talks::NoText(problem) => Some(ReasonKind::NoTextModel { problem: problem.clone() }),
    };
    let formats = known.slow_formats.iter().map(|format| format.0.clone()).collect();
    let packs = known.packs.clone().filter(|packs| packs.0 > packs.1);
    let is_smaller = |memory: &MemoryNeeded| {
        let (largest, whole) = memory.largest_context.zip(memory.whole_context)?;
        // Where not even the usual context fits, that was said already.
        let is_said = memory.needed_bytes > memory.available_bytes;
        (largest < whole && !is_said).then_some(ReasonKind::Context { largest, whole })
    };
    let mount = known.mount.clone().map(|mount| ReasonKind::SlowMount {
        point: mount.point,
        fs_type: mount.fs_type,
        is_network: mount.is_network,
    });
    [
        talks,
        (known.slow_ops > 0).then_some(ReasonKind::SlowOperators { ops: known.slow_ops }),
        (slow >= LEAST_SLOW_SHARE).then_some(ReasonKind::SlowFormats { formats, share: slow }),
        mount,
        known.unwritable_cache.clone().map(|folder| ReasonKind::CacheNotWritable { folder }),
        packs.map(|(needed_bytes, room_bytes, folder)| ReasonKind::PackRoom { needed_bytes, room_bytes, folder }),
        known.memory.as_ref().and_then(is_smaller),
    ]
    .into_iter()
    .flatten()
    .collect()
}
