//! Writing importance.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::Path;

use duan_model::gguf::StringArray;
use duan_model::gguf::write::GgufWriter;

use super::{CHUNK_COUNT_KEY, CHUNK_SIZE_KEY, COUNTS, DATASETS_KEY, SUMS, TYPE_KEY};
use crate::error::{Error, Result};

const F32_ID: u32 = 0;

/// Importance that was gathered, to be written.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ImportanceData {
    /// What was read: names of texts.
    pub datasets: Vec<String>,
    /// Pieces of text that were read.
    pub chunk_count: u32,
    /// Tokens of a piece.
    pub chunk_size: u32,
    /// By the matrix's name.
    pub entries: BTreeMap<String, ImportanceEntry>,
}

/// What was gathered of one matrix, or of a stack of experts.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ImportanceEntry {
    /// Sums of the squares of the inputs [slices, columns].
    pub sums: Vec<f32>,
    /// Inputs of each slice [slices]; 0 for an expert that was never used.
    pub counts: Vec<u64>,
}

impl ImportanceData {
    /// Writes the file `path`, whole or not at all. One that is there is replaced only with `force`.
    ///
    /// # Errors
    /// Where there are no entries, or an entry's sums are not a whole number of columns for each count; and what fails while writing.
    pub fn write(&self, path: &Path, force: bool) -> Result<()> {
        let writer = self.writer(&path.display().to_string())?;
        let mut go_on = |_| ControlFlow::Continue(());
        duan_files::write_whole(path, writer.file_bytes(), force, &mut go_on, |mut out| {
            writer.write(&mut out).map(|_| ())
        })?;
        Ok(())
    }

    /// The file as bytes.
    ///
    /// # Errors
    /// As [`ImportanceData::write`].
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        Ok(self.writer("importance")?.to_bytes())
    }

    fn writer(&self, label: &str) -> Result<GgufWriter<'static>> {
        if self.entries.is_empty() {
            return Err(Error::importance(label, "there is nothing to write", "let the model read some text first"));
        }
        let mut writer = GgufWriter::new(label);
        writer.key(TYPE_KEY, "imatrix")?;
        writer.key(DATASETS_KEY, self.datasets.iter().collect::<StringArray>())?;
        writer.key(CHUNK_COUNT_KEY, self.chunk_count)?.key(CHUNK_SIZE_KEY, self.chunk_size)?;
        for (name, entry) in &self.entries {
            let slices = entry.counts.len();
            let columns = entry.sums.len().checked_div(slices).unwrap_or(0);
            if columns == 0 || columns * slices != entry.sums.len() {
                let what = format!("`{name}` has {} sums for {slices} counts", entry.sums.len());
                return Err(Error::importance(label, what, "report this"));
            }
            let bytes = |values: &mut dyn Iterator<Item = f32>| values.flat_map(f32::to_le_bytes).collect::<Vec<u8>>();
            let sums = bytes(&mut entry.sums.iter().copied());
            let counts = bytes(&mut entry.counts.iter().map(|&count| count as f32));
            writer.tensor(&format!("{name}{SUMS}"), &[columns as u64, slices as u64], F32_ID, sums)?;
            writer.tensor(&format!("{name}{COUNTS}"), &[1, slices as u64], F32_ID, counts)?;
        }
        Ok(writer)
    }
}
