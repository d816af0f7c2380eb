//! Importance: how much each column of a matrix is used, as the field's imatrix files say it.
//!
//! For every matrix that was used while a model read some text, a file has the sums of the squares of its inputs, one for each
//! column, and how many inputs there were; of a stack of experts, for each expert. The mean says how much an error in that column
//! counts.
//!
//! [`Importance`] reads such a file, [`ImportanceData`] writes one. The format is GGUF as llama.cpp's `llama-imatrix` writes it:
//! `general.type` is `imatrix`; the keys `imatrix.datasets`, `imatrix.chunk_count` and `imatrix.chunk_size` (tokens) say what was
//! read; of each matrix NAME there are two F32 tensors, `NAME.in_sum2` [columns, experts] and `NAME.counts` [1, experts].
//!
//! What comes from a file is checked where it is used: right length, finite, not negative, not all zero, counted at least once. A
//! slice that is not so falls back to no importance, and is told of.

mod read;
mod write;

pub use read::{Importance, Matched};
pub use write::{ImportanceData, ImportanceEntry};

/// Suffix of the tensor with the sums of squares.
const SUMS: &str = ".in_sum2";
/// Suffix of the tensor with the counts.
const COUNTS: &str = ".counts";
/// Keys of the file.
const TYPE_KEY: &str = "general.type";
const DATASETS_KEY: &str = "imatrix.datasets";
const CHUNK_COUNT_KEY: &str = "imatrix.chunk_count";
const CHUNK_SIZE_KEY: &str = "imatrix.chunk_size";

#[cfg(test)]
mod tests;
