//! Writing a model as a GGUF file: whatever it is read from, each tensor as it is or in another format.
//!
//! The formats are a matter of [`Checkpoint`], whose rows are made when they are read; the writing, by several threads and piece by
//! piece, is that of `duan-quantize`, which copies them.

use std::ops::ControlFlow;
use std::path::Path;

use duan_model::Model;
use duan_model::checkpoint::Checkpoint;
use duan_quant::Format;
use serde::Serialize;

use crate::error::Result;

/// How a model is written.
#[derive(Debug, Clone, Copy)]
pub struct ConvertOptions {
    /// The format of its matrices, as [`Checkpoint::in_format`] has it; `None` leaves all as they are that GGUF
    /// can hold, see [`Checkpoint::for_gguf`].
    pub format: Option<&'static Format>,
    /// Threads that make rows; `None` takes as many as the machine runs at once.
    pub threads: Option<usize>,
    /// Whether a file that is there is replaced.
    pub force: bool,
}

/// What was written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Converted {
    /// Length of the file.
    pub bytes: u64,
    /// The family of the model.
    pub family: String,
    /// Every tensor.
    pub tensors: Vec<ConvertedTensor>,
    /// Tensors that GGUF has no place for.
    pub left_out: Vec<String>,
    /// What is odd about the source and can be lived with.
    pub warnings: Vec<String>,
}

/// What became of one tensor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ConvertedTensor {
    /// Its name in GGUF.
    pub name: String,
    /// The format that it was in.
    pub from: String,
    /// The format that it is in now.
    pub to: String,
    /// Whether every weight is what it was. Otherwise it was requantized, or rounded to a shorter float.
    pub is_lossless: bool,
}

/// Writes the model as GGUF to `out`, which appears whole or not at all. `on_progress` is told how many bytes are written, and of
/// how many; a break ends it and gives `None`.
///
/// # Errors
/// Where a folder lacks tensors of its model, the formats do not fit, a weight cannot be written in its format, the source cannot be read, the disk has no room or
/// `out` is there already.
pub fn write(
    source: &Checkpoint,
    out: &Path,
    options: &ConvertOptions,
    on_progress: &mut dyn FnMut(u64, u64) -> ControlFlow<()>,
) -> Result<Option<Converted>> {
    if source.path().is_dir() {
        // A folder that lacks a tensor would become a file that no program can run.
        Model::from_checkpoint(source)?;
    }
    let checkpoint = source.for_gguf(options.format)?;
    let threads = options.threads.or_else(|| std::thread::available_parallelism().ok().map(Into::into)).unwrap_or(1);
    let Some(bytes) = duan_quantize::copy(&checkpoint, threads, options.force, out, on_progress)? else {
        return Ok(None);
    };
    let family = checkpoint.metadata().string("general.architecture").ok().flatten().unwrap_or_default().to_owned();
    let tensors = checkpoint.tensors().iter().map(|tensor| {
        let (from, is_lossless) = source.origin_of(tensor);
        ConvertedTensor { name: tensor.name.clone(), from, to: tensor.type_name().into_owned(), is_lossless }
    });
    Ok(Some(Converted {
        bytes,
        family,
        tensors: tensors.collect(),
        left_out: source.left_out().to_vec(),
        warnings: source.warnings().iter().cloned().chain(stays_as_it_is(source, options.format)).collect(),
    }))
}

/// What to say where a format was asked for, and matrices of a GGUF file are quantized in another one already.
fn stays_as_it_is(source: &Checkpoint, format: Option<&Format>) -> Option<String> {
    let wanted = format?;
    let is_quantized = |own: &&'static Format| own.block_weights > 1 && own.name != wanted.name;
    // Those of folders that GGUF has no name for are converted.
    let tensors = source.tensors().iter().filter(|tensor| tensor.own_format.is_none());
    let quantized: Vec<&Format> = tensors.filter_map(|tensor| tensor.format().filter(is_quantized)).collect();
    let first = quantized.first()?;
    let (count, first) = (quantized.len(), first.name);
    Some(format!(
        "{count} tensors are quantized already ({first} first) and stay as they are; `duan quantize` brings them into another format"
    ))
}
