//! What a checkpoint means: files, configuration, graph, tokenizer, template.

pub mod bytes;
mod error;
pub mod gguf;
mod map;

pub use error::{Error, Result, quoted};
