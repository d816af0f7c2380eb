//! What a checkpoint means: files, configuration, graph, tokenizer, template.

mod error;
pub mod gguf;

pub use error::{Error, Result, quoted};
