//! The files on the disk that a model lies in.

use std::fs::File;
use std::path::PathBuf;

use crate::bytes::SharedBytes;
use crate::error::{Error, Result, quoted};

/// One file on the disk, or one buffer.
#[derive(Debug, Clone)]
pub(crate) struct Piece {
    pub(crate) path: PathBuf,
    /// The file as messages show it.
    pub(crate) label: String,
    pub(crate) bytes: SharedBytes,
}

/// The length of a file that is open, or of all files of a model that lies in several; it keeps them open and nothing else of
/// them.
#[derive(Debug, Clone)]
pub struct FileLength {
    pieces: Vec<Piece>,
}

impl FileLength {
    pub(crate) fn of(pieces: Vec<Piece>) -> Self {
        Self { pieces }
    }

    /// Asks for the length anew. Weights that lie in a file that was cut must not be read any more: the system would end the
    /// process. A file that was replaced or removed by name stays as it was for those that have it open.
    ///
    /// # Errors
    /// Where the file is shorter than when it was opened, or cannot be asked.
    pub fn check(&self) -> Result<()> {
        self.pieces.iter().try_for_each(Piece::check_length)
    }
}

impl Piece {
    fn check_length(&self) -> Result<()> {
        let now = self.current_bytes()?;
        if now < self.bytes.len() as u64 {
            return Err(Error::WrongFile {
                file: self.label.clone(),
                found: format!("the file was cut from {} to {now} bytes while it was in use", self.bytes.len()),
                remedy: "get it again, and load it anew".to_owned(),
            });
        }
        Ok(())
    }

    /// Length of the file as it is now.
    fn current_bytes(&self) -> Result<u64> {
        self.bytes.current_source_bytes().map_err(|error| Error::io(&self.label, "read its size", error))
    }

    /// The `needed` bytes at `offset`, which belong to the tensor `name`: a part of the map, nothing is copied.
    ///
    /// # Errors
    /// Where the file ends before, or has become shorter since it was opened.
    pub(crate) fn slice(&self, name: &str, offset: u64, needed: u64) -> Result<SharedBytes> {
        let current = self.current_bytes()?;
        let end = offset.checked_add(needed).filter(|&end| end <= current);
        let range = end.and_then(|end| Some(usize::try_from(offset).ok()?..usize::try_from(end).ok()?));
        range.and_then(|range| self.bytes.slice(range)).ok_or_else(|| Error::Truncated {
            file: self.label.clone(),
            place: format!("tensor `{}` at byte {offset}", quoted(name)),
            needed,
            available: current.min(self.bytes.len() as u64).saturating_sub(offset),
        })
    }
}

/// The files on the disk behind these pieces, each with its path and a handle; none where one is in memory.
///
/// # Errors
/// When the system gives no more handles.
pub(crate) fn disk_files(pieces: &[Piece]) -> Result<Option<Vec<(PathBuf, File)>>> {
    let mut files = Vec::with_capacity(pieces.len());
    for piece in pieces {
        let file = piece.bytes.source_file().map_err(|error| Error::io(&piece.label, "open it once more", error))?;
        let Some(file) = file else { return Ok(None) };
        files.push((piece.path.clone(), file));
    }
    Ok(Some(files))
}
