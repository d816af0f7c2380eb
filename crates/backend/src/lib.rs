//! The contract between policy (the engine) and machines (the CPU, later GPUs and NPUs).
//!
//! * [`Backend`] says what a device is and which ops of a graph it cannot run, and compiles the rest;
//! * [`Compiled`] runs passes and owns the device's keys and values;
//! * [`Pass`] is one forward call: tokens and a list of spans;
//! * [`InputSums`] is what a device keeps while it observes what its matrices are multiplied with;
//! * [`OpTime`] is how long a device took for its ops, while it is asked to note that;
//! * [`Packing`] says whether weights that a device lays out anew are kept between starts, and [`PackStore`] where;
//! * [`Reference`] interprets any graph in plain scalar code: it is the truth that devices are compared
//!   with, and the device of last resort;
//! * [`conformance`] is the suite that every device must pass.
//!
//! This crate must never know a vendor, an instruction set, a session or a sampler. Start reading at
//! [`contract`](Backend), then the reference: it is the shortest complete implementation.

pub mod conformance;
mod contract;
mod error;
mod inputs;
mod packs;
mod pass;
mod reference;
mod times;

pub use contract::{Backend, CompileJob, Compiled, KvFormat, Limits, MemoryUse, Refusal, kv_f16};
pub use error::{Error, Result};
pub use inputs::{InputSums, MatrixInputs};
pub use packs::{PackReader, PackReading, PackStore, PackWriter, Packing};
pub use pass::{PAGE_TOKENS, PageId, Pass, Span};
pub use reference::{Precision, Reference};
pub use times::{Clock, OpTime, TimeLog};
