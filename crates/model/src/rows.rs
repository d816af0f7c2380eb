//! The bytes of a tensor: a part of a file, or rows that are made when they are asked for.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use duan_quant::Format;

use crate::bytes::SharedBytes;
use crate::error::{Error, Result};
use crate::groups::exact;

/// Makes the rows of a tensor that no file holds as they are wanted: re-ordered, of another type, put together of several.
///
/// What it makes must not change between two calls, nor between two runs of the same version on the same files.
pub trait MakeRows: fmt::Debug + Send + Sync {
    /// Writes the rows from `first` on into `bytes` [rows, row_bytes].
    ///
    /// # Errors
    /// Where a value cannot be written in the format that is wanted.
    fn make(&self, first: usize, bytes: &mut [u8]) -> Result<()>;

    /// Hint that what `rows` are made of will not be needed soon, see [`SharedBytes::release_pages`].
    fn release_pages(&self, rows: Range<usize>);

    /// How the rows are made, on one line: whoever keeps them compares it, and makes them anew where it is another.
    fn recipe(&self) -> String;
}

/// The bytes of a tensor [rows, row_bytes]. Cheap to clone.
#[derive(Debug, Clone)]
pub enum TensorData {
    /// They lie in a file or in memory.
    Shared(SharedBytes),
    /// They are made when they are asked for.
    Made(Arc<dyn MakeRows>),
}

impl From<SharedBytes> for TensorData {
    fn from(bytes: SharedBytes) -> Self {
        Self::Shared(bytes)
    }
}

impl TensorData {
    /// Writes the rows from `first` on into `bytes` [rows, row_bytes].
    ///
    /// # Errors
    /// As [`MakeRows::make`]. Panics when the rows are out of range.
    pub fn read_rows(&self, first: usize, row_bytes: usize, bytes: &mut [u8]) -> Result<()> {
        match self {
            Self::Shared(all) => {
                let start = first * row_bytes;
                bytes.copy_from_slice(&all[start..start + bytes.len()]);
                Ok(())
            }
            Self::Made(rows) => rows.make(first, bytes),
        }
    }

    /// Hint that `rows` will not be needed soon, see [`SharedBytes::release_pages`].
    pub fn release_pages(&self, rows: Range<usize>, row_bytes: usize) {
        match self {
            Self::Shared(all) => {
                let part = all.slice(rows.start * row_bytes..rows.end * row_bytes);
                part.into_iter().for_each(|bytes| bytes.release_pages());
            }
            Self::Made(made) => made.release_pages(rows),
        }
    }

    /// How the rows are made; `None` where they lie somewhere.
    pub fn recipe(&self) -> Option<String> {
        match self {
            Self::Shared(_) => None,
            Self::Made(rows) => Some(rows.recipe()),
        }
    }
}

/// Rows in another format than their source's.
#[derive(Debug)]
pub(crate) struct Requantized {
    /// For errors: the model, and the tensor.
    pub(crate) file: String,
    pub(crate) tensor: String,
    pub(crate) data: TensorData,
    pub(crate) columns: usize,
    pub(crate) from: &'static Format,
    pub(crate) to: &'static Format,
    /// The column that each weight of a row belongs to, where the source's are sorted.
    pub(crate) order: Option<Arc<[u32]>>,
    /// Whether blocks of `to` hold just what those of `from` do, see [`exact`].
    pub(crate) is_exact: bool,
}

/// Changed where other bytes come out of the same source.
const REQUANTIZE_VERSION: u32 = 1;
/// Rows that are made at once, because what they are made of lies side by side in some layouts.
const ROWS_AT_ONCE: usize = 16;

impl MakeRows for Requantized {
    fn make(&self, first: usize, bytes: &mut [u8]) -> Result<()> {
        let row_bytes =
            |format: &Format| format.row_bytes(self.columns).expect("rows are whole blocks, as was checked");
        let (from_bytes, to_bytes) = (row_bytes(self.from), row_bytes(self.to));
        let mut copy = Vec::new();
        let mut values = vec![0.0; self.columns];
        let mut ordered = vec![0.0; if self.order.is_some() { self.columns } else { 0 }];
        for (index, many) in bytes.chunks_mut(ROWS_AT_ONCE * to_bytes).enumerate() {
            let (first, count) = (first + index * ROWS_AT_ONCE, many.len() / to_bytes);
            let from = match &self.data {
                TensorData::Shared(all) => &all[first * from_bytes..(first + count) * from_bytes],
                TensorData::Made(rows) => {
                    copy.resize(count * from_bytes, 0);
                    rows.make(first, &mut copy)?;
                    &copy
                }
            };
            let rows = from.chunks_exact(from_bytes).zip(many.chunks_exact_mut(to_bytes));
            for (row, (from, to)) in (first..).zip(rows) {
                if self.is_exact {
                    exact::write(self.from, from, to);
                    continue;
                }
                (self.from.dequantize)(from, &mut values);
                let mut wanted = &values;
                if let Some(order) = &self.order {
                    order.iter().zip(&values).for_each(|(&column, &value)| ordered[column as usize] = value);
                    wanted = &ordered;
                }
                encode(&self.file, &self.tensor, self.to, row, wanted, to)?;
            }
        }
        Ok(())
    }

    fn release_pages(&self, rows: Range<usize>) {
        self.data.release_pages(rows, self.from.row_bytes(self.columns).unwrap_or(0));
    }

    fn recipe(&self) -> String {
        let source = self.data.recipe().unwrap_or_default();
        let order = if self.order.is_some() { "sorted " } else { "" };
        format!("{REQUANTIZE_VERSION} {order}{} to {} {source}", self.from.name, self.to.name)
    }
}

/// Writes the values of one row in a format; errors name the tensor and the value's place.
pub(crate) fn encode(
    file: &str,
    tensor: &str,
    format: &Format,
    row: usize,
    values: &[f32],
    bytes: &mut [u8],
) -> Result<()> {
    use duan_quant::Error as Quant;
    format.encode(values, bytes).map_err(|error| {
        let remedy = "the checkpoint is damaged, or needs a wider format such as F32 or BF16";
        let at = |index: usize| (row as u64 * values.len() as u64) + index as u64;
        match error {
            Quant::NotFinite { index, value } => {
                Error::tensor(file, tensor, "finite values", format!("{value} at index {}", at(index)))
            }
            Quant::TooLarge { index, value, largest, format } => {
                let expected = format!("magnitudes up to {largest}, as {format} holds them");
                Error::tensor(file, tensor, expected, format!("{value} at index {}", at(index)))
            }
            other => Error::tensor(file, tensor, format!("values that {} can hold", format.name), other.to_string()),
        }
        .with_remedy(remedy)
    })
}
