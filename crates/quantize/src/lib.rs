//! From a model's weights to a smaller file.
//!
//! Two steps, each a type that can be looked at. A [`Plan`] says which format every tensor gets: by rules of the person
//! ([`KeepRule`]), by a [`Recipe`], or by a [`Mix`], and for rows that do not divide into blocks by a table of fallbacks. It is a pure
//! function of names, shapes and keys. [`quantize`] then goes through the tensors in pieces of a bounded size on all threads, and
//! writes the pieces in their order to a file that gets its name when it is whole. What comes back is a [`Report`]: formats, bytes and
//! errors of each tensor.
//!
//! Integers in groups are written as a folder, from a folder ([`FolderPlan`], [`quantize_folder`]).
//!
//! [`importance`] reads and writes the field's files of importance: how much each column of a matrix is used.
//!
//! [`mixed`] finds a format for each matrix so that a file fits a budget, from what was measured of the model.
//!
//! Tensors come from a [`Source`]: a [`duan_model::checkpoint::Checkpoint`], which is a GGUF file or a folder. The output stands behind a small trait too
//! (`output.rs`), because GGUF is not the only kind of file that weights are written as.
//!
//! **What this crate must never know:** how a model computes (tensors are names and shapes here), HTTP, terminals. The arithmetic of
//! each format is `duan-quant`'s.
//!
//! **Where to start reading:** `plan.rs`, then `mixes.rs` (the tables), then `pipeline.rs` (threads and order) and `coding.rs` (what
//! is done to one piece).

mod coding;
mod error;
mod fallback;
mod folder;
pub mod importance;
mod keep;
pub mod mixed;
mod mixes;
mod output;
mod pieces;
mod pipeline;
mod plan;
mod recipe;
mod report;
mod roles;
mod run;
mod source;
#[cfg(test)]
mod testing;

pub use error::{Error, Result};
pub use fallback::{FALLBACKS, fallback};
pub use folder::{FolderPlan, GROUP_FORMATS, GroupFormat, Sharing, foresee_folder, quantize_folder};
pub use keep::KeepRule;
pub use mixes::{MIXES, Mix};
pub use plan::{Choice, Plan, PlanOptions, PlannedTensor, Reason, Target};
pub use recipe::Recipe;
pub use report::{Fallen, FormatRow, ImportanceReport, LayerRow, MeasuredReport, Report, TensorReport};
pub use run::{QuantizeOptions, copy, foresee, quantize};
pub use source::Source;
