//! The error type of this crate.

/// What is wrong with a row that should be encoded or decoded.
///
/// The caller knows the tensor and adds its name.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A value is NaN or infinite. No block format can hold it.
    #[error("value {index} is {value}; weights must be finite, check how the file was made")]
    NotFinite {
        /// Position in the slice of values, from 0.
        index: usize,
        /// The value found there.
        value: f32,
    },
    /// A magnitude is above what the format's scale can express.
    #[error("value {index} is {value:e}, and {format} holds at most {largest:e}; keep this tensor in F32 or BF16")]
    TooLarge {
        /// Position in the slice of values, from 0.
        index: usize,
        /// The value found there.
        value: f32,
        /// [`crate::Format::largest`].
        largest: f32,
        /// Name of the format.
        format: &'static str,
    },
    /// The number of values is not a whole number of blocks, or does not fit the number of bytes.
    #[error(
        "{format} takes {block_weights} weights in {block_bytes} bytes, but there are {values} values and {bytes} bytes"
    )]
    Length {
        /// Name of the format.
        format: &'static str,
        /// [`crate::Format::block_weights`].
        block_weights: usize,
        /// [`crate::Format::block_bytes`].
        block_bytes: usize,
        /// Number of values given.
        values: usize,
        /// Number of bytes given.
        bytes: usize,
    },
    /// There are not as many entries of importance as values.
    #[error("{importance} entries of importance for {values} values; each column of the matrix needs one")]
    Importance {
        /// Number of values given.
        values: usize,
        /// Number of entries given.
        importance: usize,
    },
    /// The format can be read but not written.
    #[error("{format} can be read but not written; choose one of {}", writable())]
    CannotQuantize {
        /// Name of the format.
        format: &'static str,
    },
}

/// Result of this crate's functions that can fail.
pub type Result<T> = std::result::Result<T, Error>;

/// The names of the formats that can be written, as messages list them.
fn writable() -> String {
    let writable = crate::FORMATS.iter().filter(|format| format.is_writable() && format.gguf_id.is_some());
    writable.map(|format| format.name).collect::<Vec<_>>().join(", ")
}
