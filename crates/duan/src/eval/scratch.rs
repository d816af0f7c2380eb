//! A reference's logits on the disk, where it does not fit in memory beside the models.
//!
//! The file never has a name, so that it is gone when it is closed, however the program ends. Its rows are those of
//! [`compact`]: two bytes a logit.

use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::Path;

use duan_measure::quality::{Score, compact};

use super::error::EvalError;
use crate::error::Result;

/// Disk that is left to others.
const SPARE_BYTES: u64 = 64 << 20;
const BUFFER_BYTES: usize = 1 << 20;

/// Logits while they are written.
pub(crate) struct LogitsFile {
    folder: String,
    writer: BufWriter<File>,
    vocab_size: usize,
    bytes: u64,
    row: Vec<u8>,
}

impl LogitsFile {
    /// A file for so many rows in `folder`, whose disk must have room for them.
    pub(crate) fn new(folder: &Path, vocab_size: usize, rows: usize) -> Result<Self> {
        let label = folder.to_string_lossy().into_owned();
        let wrong = |source| EvalError::Scratch { folder: label.clone(), source };
        fs::create_dir_all(folder).map_err(wrong)?;
        let needed_bytes = (rows as u64).saturating_mul(compact::row_bytes(vocab_size) as u64);
        if let Some(free_bytes) = duan_files::free_bytes(folder)
            && free_bytes < needed_bytes.saturating_add(SPARE_BYTES)
        {
            return Err(EvalError::NoRoom { folder: label, needed_bytes, free_bytes }.into());
        }
        let file = duan_files::unnamed_in(folder).map_err(wrong)?;
        let writer = BufWriter::with_capacity(BUFFER_BYTES, file);
        Ok(Self { folder: label, writer, vocab_size, bytes: needed_bytes, row: Vec::new() })
    }

    /// Bytes that all rows take.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Appends rows of logits [scores, vocab_size].
    pub(crate) fn write(&mut self, logits: &[f32], scores: &[Score]) -> Result<()> {
        for (logits, score) in logits.chunks_exact(self.vocab_size).zip(scores) {
            self.row.clear();
            compact::write(logits, score.top, &mut self.row);
            let written = self.writer.write_all(&self.row);
            written.map_err(|source| EvalError::Scratch { folder: self.folder.clone(), source })?;
        }
        Ok(())
    }

    /// All rows are there.
    pub(crate) fn finish(self) -> Result<KeptLogits> {
        let Self { folder, writer, vocab_size, .. } = self;
        let file = writer.into_inner().map_err(|error| EvalError::Scratch {
            folder: folder.clone(),
            source: io::Error::from(error.error().kind()),
        })?;
        let reader = BufReader::with_capacity(BUFFER_BYTES, file);
        Ok(KeptLogits { folder, reader, vocab_size, row: Vec::new(), logits: Vec::new(), tops: Vec::new() })
    }
}

/// Logits that were written, row after row.
pub(crate) struct KeptLogits {
    folder: String,
    reader: BufReader<File>,
    vocab_size: usize,
    row: Vec<u8>,
    logits: Vec<f32>,
    tops: Vec<u32>,
}

impl KeptLogits {
    /// Back to the first row.
    pub(crate) fn rewind(&mut self) -> Result<()> {
        let sought = self.reader.seek(SeekFrom::Start(0));
        sought.map_err(|source| EvalError::Scratch { folder: self.folder.clone(), source })?;
        Ok(())
    }

    /// The next rows of logits [rows, vocab_size], and the likeliest token of each.
    pub(crate) fn next(&mut self, rows: usize) -> Result<(&[f32], &[u32])> {
        self.row.resize(compact::row_bytes(self.vocab_size), 0);
        self.logits.resize(rows * self.vocab_size, 0.0);
        self.tops.clear();
        for logits in self.logits.chunks_exact_mut(self.vocab_size) {
            let read = self.reader.read_exact(&mut self.row);
            read.map_err(|source| EvalError::Scratch { folder: self.folder.clone(), source })?;
            self.tops.push(compact::read(&self.row, logits));
        }
        Ok((&self.logits, &self.tops))
    }
}
