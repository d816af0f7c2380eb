//! Kinds of files that coded tensors are written as.

use std::io::{self, Write};
use std::sync::Mutex;

use duan_model::gguf::write::GgufWriter;
use duan_model::gguf::{Metadata, Value};

use crate::coding::Loss;
use crate::error::{Error, Result};
use crate::importance::Importance;
use crate::pipeline::Pipeline;
use crate::plan::{Plan, PlannedTensor};

/// A file that takes coded pieces in the order of the plan's tensors.
pub(crate) trait Output {
    /// Length of the file in bytes.
    fn file_bytes(&self) -> u64;

    /// Writes the file.
    ///
    /// # Errors
    /// Those of `out`; what failed in a piece is kept by [`Pieces`].
    fn write(&self, out: &mut dyn Write) -> io::Result<()>;
}

impl Output for GgufWriter<'_> {
    fn file_bytes(&self) -> u64 {
        GgufWriter::file_bytes(self)
    }

    fn write(&self, mut out: &mut dyn Write) -> io::Result<()> {
        GgufWriter::write(self, &mut out).map(|_| ())
    }
}

/// Coded pieces on their way into a file.
pub(crate) struct Pieces<'p> {
    pipeline: &'p Pipeline<'p>,
    state: Mutex<State>,
}

struct State {
    losses: Vec<Loss>,
    failure: Option<Error>,
}

impl<'p> Pieces<'p> {
    pub(crate) fn new(pipeline: &'p Pipeline<'p>, tensors: usize) -> Pieces<'p> {
        Pieces { pipeline, state: Mutex::new(State { losses: vec![Loss::default(); tensors], failure: None }) }
    }

    /// Writes tensor number `tensor`, whose turn it is.
    ///
    /// # Errors
    /// Those of `out`. Where a piece cannot be coded, the error says only that, and [`Pieces::finish`] has the reason.
    pub(crate) fn write(&self, tensor: usize, bytes: u64, out: &mut dyn Write) -> io::Result<()> {
        let mut left = bytes;
        while left > 0 {
            let piece = self.pipeline.next().map_err(|error| {
                let message = error.to_string();
                self.lock().failure = Some(error);
                io::Error::other(message)
            })?;
            out.write_all(&piece.bytes)?;
            piece.bytes.release_pages();
            left = left.saturating_sub(piece.bytes.len() as u64);
            self.lock().losses[tensor].add(&piece.loss);
        }
        Ok(())
    }

    /// What was lost of each tensor, or what failed.
    ///
    /// # Errors
    /// That of the first piece that could not be coded.
    pub(crate) fn finish(self) -> Result<Vec<Loss>> {
        let state = self.state.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
        state.failure.map_or(Ok(state.losses), Err)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

/// The GGUF file of a plan; without pieces it has its length and cannot be written. Keys of how the file was made become those of the
/// plan, but for a copy.
///
/// # Errors
/// Where the source has a key or a tensor twice.
pub(crate) fn gguf<'w>(
    label: &str,
    metadata: &Metadata,
    plan: &Plan,
    importance: Option<&Importance>,
    pieces: Option<&'w Pieces<'w>>,
    is_copy: bool,
) -> Result<GgufWriter<'w>> {
    let mut writer = GgufWriter::new(label);
    let changed = if is_copy { Vec::new() } else { changed_keys(plan, importance) };
    for (key, value) in metadata.iter() {
        if key.starts_with("split.") || (key.starts_with("quantize.imatrix.") && !is_copy) {
            continue; // true of the source only
        }
        match changed.iter().find(|row| row.0 == key) {
            Some((_, value)) => writer.key(key, value.clone())?,
            None => writer.key(key, value.clone())?,
        };
    }
    for (key, value) in changed.into_iter().filter(|row| metadata.get(row.0).is_none()) {
        writer.key(key, value)?;
    }
    for (index, tensor) in plan.tensors.iter().enumerate() {
        let PlannedTensor { source, bytes, .. } = tensor;
        let bytes = *bytes;
        let write = move |out: &mut dyn Write| pieces.map_or(Ok(()), |pieces| pieces.write(index, bytes, out));
        writer.tensor_with(&source.name, &source.dims, tensor.type_id(), write)?;
    }
    Ok(writer)
}

/// Version of the block formats, as every file has it.
const QUANTIZATION_VERSION: u32 = 2;

/// Keys that say how the file was made, as readers of GGUF know them.
fn changed_keys(plan: &Plan, importance: Option<&Importance>) -> Vec<(&'static str, Value)> {
    let mut keys = vec![("general.quantization_version", Value::U32(QUANTIZATION_VERSION))];
    if let Some(file_type) = plan.file_type {
        keys.push(("general.file_type", file_type.into()));
    }
    if let Some(importance) = importance {
        keys.push(("quantize.imatrix.file", importance.file_name().into()));
        if let Some(dataset) = importance.datasets().first() {
            keys.push(("quantize.imatrix.dataset", dataset.as_str().into()));
        }
        let entries = u32::try_from(importance.len()).unwrap_or(u32::MAX);
        keys.push(("quantize.imatrix.entries_count", entries.into()));
        keys.push(("quantize.imatrix.chunks_count", importance.chunk_count().into()));
    }
    keys
}
