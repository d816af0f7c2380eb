//! The verdict in words, each reason with what to do about it.

use duan::facts::{CanRun, MemoryNeeded, Reason, ReasonKind, Unknown, Verdict};

use crate::output::Style;
use crate::output::style::{on_one_line, shortened};
use crate::output::units::{bytes_text, counted, grouped};

/// Longest sentence from a file's errors, in characters.
const LONGEST_SENTENCE: usize = 500;

/// The lines that a page begins with. `name` is what the person called the model.
pub(super) fn lines(verdict: &Verdict, name: &str, style: Style) -> String {
    let mut out = match verdict.answer {
        CanRun::Yes => style.bold("runs: yes"),
        CanRun::YesBut => style.bold("runs: yes, with something to know"),
        CanRun::No => style.error("runs: no"),
        _ => style.bold("runs: not known"),
    };
    out.push('\n');
    for reason in &verdict.reasons {
        let sentence = shortened(&on_one_line(&sentence(reason, name)), LONGEST_SENTENCE);
        out += &format!("- {sentence}\n");
    }
    if verdict.left_out > 0 {
        out += &format!("- and {} of less weight\n", counted(verdict.left_out, "more reason"));
    }
    let unknown: Vec<&str> =
        verdict.unknown.iter().map(|unknown| thing(*unknown)).filter(|text| !text.is_empty()).collect();
    if !unknown.is_empty() {
        out += &format!("not known: {}\n", unknown.join("; "));
    }
    out
}

fn sentence(reason: &Reason, name: &str) -> String {
    match &reason.kind {
        ReasonKind::Family { name: Some(family) } => {
            format!(
                "its family, `{family}`, is not one that this version runs; get a model of another family, or a later version"
            )
        }
        ReasonKind::Family { name: None } => {
            "the file does not say of which family it is (key `general.architecture`); get a file that does".to_owned()
        }
        ReasonKind::Tensors { types, tensors } => format!(
            "{} of types that are not read here ({}); get the model in another format, such as Q4_K_M or Q8_0",
            of_tensors(*tensors),
            types.join(", ")
        ),
        ReasonKind::Model { problem } | ReasonKind::Operators { problem } | ReasonKind::Tokenizer { problem } => {
            problem.clone()
        }
        ReasonKind::NoWeights { has_tokenizer: true } => {
            "the file has no weights, only a vocabulary, which can be used to cut text into tokens (`duan tokenize`)"
                .to_owned()
        }
        ReasonKind::NoWeights { has_tokenizer: false } => {
            "the file has no weights, only a vocabulary; get a file with the model".to_owned()
        }
        ReasonKind::Memory(memory) => self::memory(memory, reason.is_blocking),
        ReasonKind::FetchRoom { needed_bytes, free_bytes, folder } => format!(
            "fetching it takes {} of disk, and {} are free in {}; free some room, or choose another folder (--model-cache)",
            bytes_text(*needed_bytes),
            bytes_text(*free_bytes),
            folder.display()
        ),
        ReasonKind::NoTextModel { problem } => format!("{problem}; get a text model to talk with"),
        ReasonKind::SlowOperators { ops } => format!(
            "{} of each token run on a slow device of last resort; `duan plan {name}` says which and why",
            counted(*ops, "op")
        ),
        ReasonKind::SlowFormats { formats, share } => format!(
            "{:.0} % of the weights are in a format without a fast kernel ({}): right, and slow; get it in another one, such as \
             Q4_K_M, or `duan quantize` it",
            share * 100.0,
            formats.join(", ")
        ),
        ReasonKind::BrokenTemplate => "its chat template cannot be used; `duan complete` works without one".to_owned(),
        ReasonKind::Base => {
            "it has no chat template: a base model, which continues text and does not converse; use `duan complete`"
                .to_owned()
        }
        ReasonKind::SlowMount { point, fs_type, is_network } => {
            let what = if *is_network { "a network" } else { "a slow mount" };
            format!(
                "the file is on {what} ({fs_type} at {}): the first start is slow; copy it to a disk of this machine",
                point.display()
            )
        }
        ReasonKind::PackRoom { needed_bytes, room_bytes, folder } => format!(
            "laid-out weights take about {} of disk, and may take {} in {}: every start lays them out anew; free some room, or \
             raise DUAN_PACK_MAX",
            bytes_text(*needed_bytes),
            bytes_text(*room_bytes),
            folder.display()
        ),
        ReasonKind::CacheNotWritable { folder } => format!(
            "the cache {} cannot be written, so nothing is kept in it and every start lays weights out anew; choose another \
             folder (--model-cache, DUAN_CACHE)",
            folder.display()
        ),
        ReasonKind::Context { largest, whole } => format!(
            "its whole context of {} tokens does not fit; up to {} do (--context)",
            grouped(*whole as u64),
            grouped(*largest as u64)
        ),
        _ => String::new(),
    }
}

fn of_tensors(tensors: usize) -> String {
    if tensors == 1 { "1 tensor is".to_owned() } else { format!("{} tensors are", grouped(tensors as u64)) }
}

fn memory(memory: &MemoryNeeded, is_blocking: bool) -> String {
    let (needed, available) = (bytes_text(memory.needed_bytes), bytes_text(memory.available_bytes));
    let context = memory.context.map(|context| format!(" for a context of {} tokens", grouped(context as u64)));
    let about = if context.is_none() { "about " } else { "" };
    let facts = format!("it needs {about}{needed} of memory{}, and {available} are free", context.unwrap_or_default());
    let largest = memory.largest_context.filter(|&largest| largest >= 2).map(|largest| grouped(largest as u64));
    let remedy = match (largest, is_blocking) {
        (Some(largest), false) => format!("--context {} is the largest that fits", largest.replace(',', "")),
        (Some(largest), true) => format!("up to {largest} tokens fit; choose fewer, or close other programs"),
        (None, _) => "close other programs, or choose a smaller model or fewer bits per weight".to_owned(),
    };
    format!("{facts}; {remedy}")
}

fn thing(unknown: Unknown) -> &'static str {
    match unknown {
        Unknown::Model => "what is in the file, which is not fetched yet",
        Unknown::Memory => "what there is of memory",
        Unknown::Kernels => "which formats have fast kernels there",
        Unknown::Operators => "which operators its devices run",
        Unknown::Disk => "room and speed of its disk",
        _ => "",
    }
}
