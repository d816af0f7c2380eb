//! What tells models, texts and files from each other.

use std::path::Path;

use duan_model::checkpoint::Checkpoint;
use duan_quantize::Source;
use duan_quantize::mixed::MeasuredWith;
use sha2::{Digest, Sha256};

use crate::error::Result;
use crate::eval::EvalText;

/// Rows of a tensor that are looked at, evenly spread.
const ROWS: u64 = 5;

/// What tells a model from others: names, shapes and types of its tensors, and some of their rows. So a copy is the same model, and no
/// large file is read for it.
pub(super) fn model(source: &Checkpoint) -> Result<String> {
    let mut hasher = Sha256::new();
    for (index, tensor) in Source::tensors(source).iter().enumerate() {
        hasher.update(format!("{:?} {:?} {}\n", tensor.name, tensor.dims, tensor.type_name()));
        let columns = tensor.dims.first().copied().unwrap_or(1).max(1);
        let rows = tensor.elements() / columns;
        if tensor.type_status().block().is_some() {
            for at in 0..ROWS.min(rows) {
                let row = at * (rows - 1) / (ROWS.min(rows) - 1).max(1);
                hasher.update(&source.read(index, row * columns, columns)?[..]);
            }
        }
    }
    Ok(hex(hasher))
}

/// What tells texts from others.
pub(super) fn texts(texts: &[EvalText]) -> String {
    let mut hasher = Sha256::new();
    for text in texts {
        hasher.update((text.text.len() as u64).to_le_bytes());
        hasher.update(text.text.as_bytes());
    }
    hex(hasher)
}

/// The SHA-256 of a small file.
pub(super) fn file(path: &Path) -> Result<String> {
    let bytes =
        std::fs::read(path).map_err(|error| duan_model::Error::io(path.display().to_string(), "read it", error))?;
    let mut hasher = Sha256::new();
    hasher.update(&bytes);
    Ok(hex(hasher))
}

/// A name for what was measured with all of these.
pub(super) fn of(with: &MeasuredWith) -> String {
    let mut hasher = Sha256::new();
    hasher.update(format!("{with:?}"));
    hex(hasher)[..32].to_owned()
}

fn hex(hasher: Sha256) -> String {
    hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}
