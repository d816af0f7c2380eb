//! Where the time of a pass goes: for each op the device, what computes it, time, bytes and the share of its ceiling; and the rest,
//! which no op explains.
//!
//! [`run()`] runs rounds in which devices note the time of each op, and as many in which they do not, in turn; [`Profile::of`] makes
//! figures of that, a pure function; [`write_trace`] writes every single time in a form that trace viewers open.
//!
//! What an op reads and multiplies is counted as benchmarks count it ([`crate::bench`]). The least time of an op in decode is what its
//! bytes take at the memory's bandwidth, in prefill what its multiply-adds take at the peak of their instructions; the share is the
//! least time over the time. Ops that read no weights, keys or states have no ceiling, and no share. Ops that a device runs together
//! are told together.
//!
//! Start reading at [`Profile`].

mod figures;
mod label;
mod run;
mod settings;
mod trace;

pub use figures::{KindFigures, LayerFigures, OpFigures, Overhead, PhaseProfile, Profile, RestFigures, Sources};
pub use run::{Job, Progress, RoundTimes, StepTimes, Times, run};
pub use settings::Settings;
pub use trace::write_trace;

#[cfg(test)]
mod tests;
