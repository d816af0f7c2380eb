//! Policy between a model and its devices: plan, KV ledger, sessions and sampling.
//!
//! The path of one token is [`Session::answer`]: the ledger makes room ([`Ledger::reserve`]), the runner takes the pass through
//! the segments of the plan ([`Runner::run`]), the sampler chooses ([`Sampler::sample`]). All that is decided is decided at
//! load, by [`make_plan`] and [`Executor::load`]; between tokens nothing is allocated, locked or formatted.
//!
//! * [`make_plan`] gives each op a device, with the reason; a pure function;
//! * [`Runner`] is the compiled devices, and hands values over between them;
//! * [`Ledger`] knows which tokens the devices' KV caches hold: pages, counted, shared, copied before a write;
//! * [`Executor`] is a loaded model: runner and ledger;
//! * [`Session`] is one conversation on it;
//! * [`KeptValues`] lets a part of a pass run once more, with another matrix in the place of one;
//! * [`PassTimes`] says how long each op and each copy of a pass took, while that is noted;
//! * [`Event`] is what faces are told. Nothing here prints.
//!
//! This crate must never know: vendors and instruction sets, files, text and tokenizers, HTTP, terminals. Start reading at
//! `session.rs`.

mod error;
mod event;
mod executor;
mod ledger;
mod memory;
mod plan;
mod rerun;
mod run;
mod sampling;
mod session;
#[cfg(test)]
mod testing;
mod times;

pub use error::{Error, Result};
pub use event::{DeviceMemory, Event, FinishReason, Timings};
pub use executor::Executor;
pub use ledger::{Ledger, PageCopy, SequenceId};
pub use memory::{DEFAULT_CONTEXT, MemoryNeed, Sizes};
pub use plan::{FusionCount, Offer, Phase, Plan, PlanSummary, Segment, SegmentSummary, make_plan};
pub use rerun::KeptValues;
pub use run::Runner;
pub use sampling::{Sampler, SamplingOptions};
pub use session::{OnEvent, Session, Until};
pub use times::{CopyTime, PassTimes, SegmentTimes};
