//! What a checkpoint means: files, configuration, graph, tokenizer, template.
//!
//! A checkpoint passes through stages, each a type that one can stop at and print:
//! [`gguf::GgufFile`] (bytes, checked), [`config::ModelConfig`] (the model as data, filled by its family in [`families`]),
//! [`graph::Graph`] and [`weights::Weights`] (the forward pass, recorded once, and what it refers to), together a
//! [`Model`]. Beside them stand the [`tokenizer`], the chat [`template`], which need the file's metadata only, and its
//! counterpart, the [`answer`] that a model gives.
//!
//! Everything that comes from a file is checked before it is used: counts against the bytes that are left, shapes
//! against the configuration, text before it can become a control token. A wrong file is an [`Error`] of one line.
//!
//! This crate must never know devices or threads, and does no arithmetic on activations. Its one unsafe file
//! is `map.rs`, the memory map. Start reading at `model.rs` (the stages), then `graph.rs` (the forward pass), then
//! `families/llama.rs` (the shortest family).

pub mod answer;
pub mod bytes;
pub mod checkpoint;
pub mod config;
mod error;
pub mod families;
pub mod gguf;
pub mod graph;
pub mod groups;
pub mod hugging_face;
mod map;
mod model;
pub mod page_cache;
mod pieces;
mod rows;
pub mod safetensors;
pub mod template;
pub mod tokenizer;
pub mod weights;

pub use error::{Error, Result, quoted};
pub use model::Model;
