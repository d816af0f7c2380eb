//! Weight formats: blocks and their reference codecs.
//!
//! A *format* says how a row of weights is written as bytes: how many weights form a block, how many
//! bytes a block takes, and what the bytes mean. The scalar code in this crate defines each format;
//! faster code elsewhere is tested against it.
//!
//! **What this crate must never know:** files, devices, threads, SIMD. It is pure facts and arithmetic on
//! slices, so that it is easy to test and to fuzz.
//!
//! **Where to start reading:** [`Format`] is a row of facts, [`FORMATS`] lists the rows, and
//! `formats/q4_0.rs` is the shortest complete example. [`gguf_type`] knows the type ids of GGUF files, also
//! those that cannot be read here. [`activation`] is the one integer coding of activations that all
//! quantized formats share. [`Format::encode_best`] searches for what is nearest to given weights, also where some columns count
//! more than others ([`importance`]); how is said in `search/mod.rs`. [`integers`] does so for integers in groups of any size, and
//! [`groups`] are formats of our own for them, which checkpoints have and GGUF does not know.
//!
//! **Bounds.** With `d` the stored scale of a block, every codec that quantizes to evenly spaced codes keeps each finite
//! value within `d / 2` of what it was (plus the rounding of `f32`), as long as no magnitude is above
//! [`Format::largest`]. MXFP4, whose codes are floats, follows the conversion of its standard to the bit instead.
//! [`Format::encode`] refuses what does not fit and names the index. A search may clip an extreme weight where the others gain more
//! by it.
//!
//! **Adding a format** touches two places: a new file in `formats/` and its lines in `formats/mod.rs`;
//! `docs/adding-a-format.md` goes through it.

pub mod activation;
mod error;
mod format;
mod formats;
mod gguf_types;
pub mod importance;
pub mod integers;
mod search;

pub use error::{Error, Result};
pub use format::{Activation, Dequantize, Format, Quantize, Search};
pub use formats::{FORMATS, format_by_gguf_id, format_by_name, groups};
pub use gguf_types::{TypeStatus, gguf_type};
