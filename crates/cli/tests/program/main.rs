//! Tests of the real program: what it prints on which stream, and its exit codes.
//!
//! Start reading at `common.rs`, which runs it in a folder of its own, without network. `real_model.rs` needs the default
//! model; everything else runs on the tiny fixtures of the crate `duan-backend`.

mod bad_input;
mod bench;
mod cache;
mod common;
mod convert;
mod devices;
mod eval;
mod help;
mod importance;
mod inspect;
mod inspect_odd;
mod inspect_verdict;
mod models;
mod packs;
mod page;
mod profile;
mod quantize;
mod real_model;
mod records;
mod synth;
mod usage;
mod whole_or_nothing;
