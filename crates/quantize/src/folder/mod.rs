//! Integers in groups, written as a folder: `config.json`, `*.safetensors` in the layout of compressed-tensors, and whatever else the
//! source folder has for words. GGUF has no place for them.
//!
//! The source is a folder too, because the names of modules, the configuration and the tokenizer are those of Hugging Face, which GGUF
//! does not have any more. A [`FolderPlan`] says what becomes of every tensor (`plan.rs`); [`quantize_folder`] goes through them as
//! [`crate::quantize`] does, in pieces of whole rows on all threads, and writes codes, scales and zero points to their places
//! (`layout.rs`). A scale for a whole row is searched with the row, one for a whole matrix before its first piece (`shared.rs`).
//!
//! Start reading at `formats.rs`: what can be asked for.

mod formats;
mod layout;
mod plan;
mod reader;
mod shared;
#[cfg(test)]
mod tests;
mod write;

pub use formats::{GROUP_FORMATS, GroupFormat, Sharing};
pub use plan::FolderPlan;
pub(crate) use shared::SharedScales;
pub use write::{foresee_folder, quantize_folder};
