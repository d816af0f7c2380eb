//! GGUF files: reading, and writing small ones.
//!
//! Source: the GGUF format document of the ggml project, versions 2 and 3.

mod metadata;
mod value;

pub use metadata::Metadata;
pub use value::{Array, StringArray, Value};
