//! GGUF files: reading, and [writing](mod@write).
//!
//! Start with [`GgufFile::open`]. The way of the bytes: `identify` tells what the file is, `reader` reads
//! numbers, strings and arrays without ever trusting a count, `file` puts header, metadata and tensor entries
//! together, `tensor` checks where the data lies, `split` opens models that are several files.
//!
//! Source: the GGUF format document of the ggml project, versions 2 and 3, little-endian. A file begins with
//! the magic `GGUF`, the version, the counts of tensors and of metadata entries; then come the entries, then
//! the tensor entries, and after padding to the alignment the data.

mod file;
mod identify;
mod metadata;
mod reader;
mod split;
mod tensor;
mod value;
pub mod write;

pub use crate::pieces::FileLength;
pub(crate) use file::check_types;
pub use file::{ALIGNMENT_LIMIT_BYTES, GgufFile, HEADER_LIMIT_BYTES, UnsupportedType};
pub(crate) use identify::failed_download;
pub use metadata::Metadata;
pub use split::PIECES_LIMIT;
pub use tensor::{NO_TYPE_ID, TensorInfo};
pub(crate) use tensor::{size_in_blocks, size_in_bytes};
pub use value::{Array, StringArray, Value};
