//! What a checkpoint means: files, configuration, graph, tokenizer, template.

pub mod bytes;
pub mod config;
mod error;
pub mod families;
pub mod gguf;
pub mod graph;
mod map;
mod model;
pub mod template;
pub mod tokenizer;
pub mod weights;

pub use error::{Error, Result, quoted};
pub use model::Model;
