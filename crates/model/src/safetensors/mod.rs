//! Safetensors files: reading.
//!
//! Source: the format's description by Hugging Face. A file begins with the length of its header as u64, little-endian; the
//! header is a JSON object with `{"dtype", "shape", "data_offsets": [begin, end]}` for each tensor, offsets counted from the
//! end of the header, and perhaps `__metadata__`. The data follows, row-major, the last axis fastest.
//!
//! Start with [`SafetensorsFile::open`]. Whatever the header says is checked before it is used; `header` parses it, `index`
//! reads which tensors of a model lie in which of several files.

mod header;
mod index;

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use crate::bytes::SharedBytes;
use crate::error::{Error, Result, file_label};
use crate::gguf::failed_download;
use crate::pieces::Piece;

pub use header::{Dtype, HEADER_LIMIT_BYTES, TensorEntry};
pub(crate) use index::read_index;

/// A safetensors file that was opened and checked: each tensor lies inside the file, has as many bytes as its shape and
/// overlaps no other.
#[derive(Debug)]
pub struct SafetensorsFile {
    pub(crate) piece: Piece,
    tensors: Vec<TensorEntry>,
}

impl SafetensorsFile {
    /// Opens and checks the file at `path`, which is mapped: only the pages of its header are read now.
    ///
    /// # Errors
    /// Where the file cannot be opened, is something else, is cut short, or breaks a rule of the format; each in one line.
    pub fn open(path: &Path) -> Result<Self> {
        let label = file_label(path);
        let file = open_regular(path, &label)?;
        let bytes = file.metadata().map_err(|error| Error::io(&label, "read its size", error))?.len();
        let bytes = if bytes == 0 {
            // Systems refuse to map nothing, and the message for an empty file is better.
            SharedBytes::from(Vec::new())
        } else {
            SharedBytes::map(file).map_err(|error| Error::io(&label, "map it to memory", error))?
        };
        Self::parse(path.to_owned(), label, bytes)
    }

    /// Checks a file that is in memory; `name` is what messages call it.
    ///
    /// # Errors
    /// As [`SafetensorsFile::open`].
    pub fn from_bytes(bytes: Vec<u8>, name: &str) -> Result<Self> {
        let path = PathBuf::from(name);
        Self::parse(path.clone(), file_label(&path), bytes.into())
    }

    fn parse(path: PathBuf, label: String, bytes: SharedBytes) -> Result<Self> {
        let tensors = header::read(&label, &bytes)?;
        Ok(Self { piece: Piece { path, label, bytes }, tensors })
    }

    /// The file's name as messages show it.
    pub fn label(&self) -> &str {
        &self.piece.label
    }

    /// All tensors, in the order in which the header names them.
    pub fn tensors(&self) -> &[TensorEntry] {
        &self.tensors
    }

    /// The bytes of a tensor of this file: a part of the map, nothing is copied.
    ///
    /// # Errors
    /// Where the file has become shorter since it was opened.
    pub fn data(&self, tensor: &TensorEntry) -> Result<SharedBytes> {
        self.piece.slice(&tensor.name, tensor.offset, tensor.bytes)
    }
}

/// Opens `path`, which must be a regular file: opening a pipe could wait forever.
pub(crate) fn open_regular(path: &Path, label: &str) -> Result<File> {
    let about = fs::metadata(path).map_err(|error| Error::io(label, "open it", error))?;
    if !about.is_file() {
        let found = "this is a folder, a device or a pipe, not a file of a model";
        return Err(Error::wrong_file(label, found, "fetch the model again"));
    }
    File::open(path).map_err(|error| Error::io(label, "open it", error))
}

/// Reads a JSON file of at most `limit` bytes.
pub(crate) fn read_json<T: serde::de::DeserializeOwned>(path: &Path, limit: u64) -> Result<T> {
    use std::io::Read as _;
    let label = file_label(path);
    let mut text = Vec::new();
    let file = open_regular(path, &label)?;
    file.take(limit + 1).read_to_end(&mut text).map_err(|error| Error::io(&label, "read it", error))?;
    if text.len() as u64 > limit {
        let found = format!("this file is larger than {limit} bytes, which no such file is");
        return Err(Error::wrong_file(label, found, "get it again, from where the model is published"));
    }
    parse_json(&label, &text)
}

/// Parses a JSON text; `label` is what messages call it.
pub(crate) fn parse_json<T: serde::de::DeserializeOwned>(label: &str, text: &[u8]) -> Result<T> {
    if let Some((what, remedy)) = failed_download(text) {
        return Err(Error::wrong_file(label, format!("this is {what}, not a JSON file"), remedy));
    }
    serde_json::from_slice(text).map_err(|error| {
        let found = format!("this is not the JSON that it should be ({})", crate::quoted(&error.to_string()));
        Error::wrong_file(label, found, "get it again, from where the model is published")
    })
}

#[cfg(test)]
mod tests;
