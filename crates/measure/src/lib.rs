//! Measurements as data: benchmarks and their records, the quality of models, and synthetic models to run benchmarks on.
//!
//! * [`bench`] runs a loaded model through tests of prefill and decode in llama-bench's meaning, sets the rates beside the ceilings
//!   of memory and multiplier, and says whether the machine moved meanwhile;
//! * [`ceilings`] is what a machine can do at most, kept for each device, and what a share of that means;
//! * [`others`] are other engines beside ours: their commands, what these print, and the ratio pair by pair;
//! * [`profile`] says where the time of a pass goes, op by op, and writes it as a trace;
//! * [`quality`] is perplexity and the divergence from a reference, from rows of logits to a table and a chart;
//! * [`records`] keeps every run with its settings and samples, and [`compare`] sets two of them beside each other;
//! * [`synth`] writes a GGUF file of random weights with the true shapes of a public model, so that a model can be timed
//!   without a download;
//! * [`machine`] judges whether others use the machine meanwhile, and [`folder`] says where what was measured is kept.
//!
//! Results are structs: faces make tables, JSON and pages of them. Progress is told to a function of the caller.
//!
//! This crate must never know HTTP or terminals, a vendor or an instruction set: it sees devices as the engine does, and
//! what a machine's memory can do is measured elsewhere and handed in as [`bench::Bandwidth`]. Start reading at
//! `bench/mod.rs`, then `bench/cost.rs` (what one token reads) and `synth/mod.rs`.

pub mod bench;
mod cancel;
pub mod ceilings;
pub mod compare;
pub mod folder;
pub mod machine;
pub mod others;
pub mod profile;
pub mod quality;
pub mod records;
pub mod synth;
