//! What a machine can do at most, as data: how fast it reads memory and multiplies, the clock of its cores, and what threads lose by
//! waiting for each other.
//!
//! A rate means little without the ceiling over it. Decode can be no faster than memory is read, prefill no faster than the
//! multiplier works: [`CeilingsAt`] makes tokens per second of both, and a [`Verdict`] says what a share of that means. The figures are
//! measured elsewhere (this crate knows no instruction set), and [`kept`](Kept) for each device with the state that mattered, so that they
//! need not be measured for every benchmark.
//!
//! Start reading at [`Ceilings`], then `kept.rs`: when figures that were kept no longer hold.

mod kept;
mod verdict;

use duan_system::{Chip, State};
use serde::{Deserialize, Serialize};

pub use kept::{Kept, Refresh, Wanted};
pub use verdict::Verdict;

use crate::bench::{Bandwidth, MultiplyAdds};

/// A number of threads has reached the memory's limit when it reads this part of the best.
const KNEE: f64 = 0.95;

/// Everything that was measured of a device.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ceilings {
    /// When it was measured, in UTC: `2026-01-31T23:59:59Z`.
    pub measured_at: String,
    /// The version of duan that measured.
    pub duan_version: String,
    /// The chip that was measured.
    pub chip: Chip,
    /// The instruction set that read, and whose sequences were measured.
    pub isa: String,
    /// What threads were held to.
    pub pinning: String,
    /// The numbers of threads that were measured, ascending.
    pub threads: Vec<usize>,
    /// How fast memory is read, for each number of threads.
    pub read: Vec<Bandwidth>,
    /// Why that was not measured.
    pub read_skipped: Option<String>,
    /// How fast each sequence of instructions multiplies, for each number of threads.
    pub multiply_adds: Vec<Peak>,
    /// The clock of one thread alone, and of the most threads at once.
    pub clock: Vec<Clock>,
    /// Why that was not measured.
    pub clock_skipped: Option<String>,
    /// What it costs to wait for each other, for each number of threads from two on.
    pub barriers: Vec<Barrier>,
    /// The machine when it was measured.
    pub state: State,
}

/// What a sequence of instructions gives in registers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Peak {
    /// The instruction set.
    pub isa: String,
    /// The instruction that multiplies, and what it is given where that matters.
    pub instruction: String,
    /// The weight formats whose kernels use it.
    pub formats: Vec<String>,
    /// Threads that ran it at once.
    pub threads: usize,
    /// Multiply-adds per second of all threads together.
    pub per_s: f64,
}

/// The clock of some threads that ran at once, counted by additions that wait for each other.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Clock {
    /// How many threads.
    pub threads: usize,
    /// Of each thread what its core ran at: the best of some windows.
    pub best_hz: Vec<f64>,
    /// Of each thread what it got of its core: the window in the middle.
    pub median_hz: Vec<f64>,
}

impl Clock {
    /// What the slowest core ran at: threads wait for the last.
    pub fn slowest_hz(&self) -> Option<f64> {
        self.best_hz.iter().copied().min_by(f64::total_cmp)
    }

    /// What the slowest thread got.
    pub fn slowest_effective_hz(&self) -> Option<f64> {
        self.median_hz.iter().copied().min_by(f64::total_cmp)
    }
}

/// What a job of the thread pool takes when there is nothing to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Barrier {
    /// Threads that take part.
    pub threads: usize,
    /// The middle of all jobs.
    pub median_ns: u64,
    /// The best of all jobs.
    pub best_ns: u64,
}

impl Ceilings {
    /// What so many threads read, where that was measured.
    pub fn read_by(&self, threads: usize) -> Option<&Bandwidth> {
        self.read.iter().find(|read| read.threads == threads)
    }

    /// The best that any number of threads reads.
    pub fn best_read(&self) -> Option<&Bandwidth> {
        self.read.iter().max_by(|a, b| a.bytes_per_s.total_cmp(&b.bytes_per_s))
    }

    /// The fewest threads that read nearly as much as the best number does: more of them make decode no faster.
    pub fn knee(&self) -> Option<usize> {
        let best = self.best_read()?.bytes_per_s;
        self.read.iter().filter(|read| read.bytes_per_s >= KNEE * best).map(|read| read.threads).min()
    }

    /// The clock of so many threads, where that was measured.
    pub fn clock_of(&self, threads: usize) -> Option<&Clock> {
        self.clock.iter().find(|clock| clock.threads == threads)
    }

    /// What matters to a model that decodes with `decode` threads and prefills with `prefill`.
    pub fn at(&self, decode: usize, prefill: usize) -> CeilingsAt {
        let peaks = self.multiply_adds.iter().filter(|peak| peak.threads == prefill);
        // Measured are one thread and the most; with more than one running the latter is nearer.
        let clock = self.clock_of(decode).or_else(|| self.clock.iter().max_by_key(|clock| clock.threads));
        CeilingsAt {
            measured_at: self.measured_at.clone(),
            threads_decode: decode,
            threads_prefill: prefill,
            isa: self.isa.clone(),
            read: self.read_by(decode).cloned(),
            read_skipped: self.read_skipped.clone(),
            multiply_adds: peaks.cloned().collect(),
            clock: clock.cloned(),
            barrier: self.barriers.iter().find(|barrier| barrier.threads == decode).copied(),
        }
    }
}

/// The ceilings over a model that decodes and prefills with certain numbers of threads.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CeilingsAt {
    /// When they were measured, in UTC.
    pub measured_at: String,
    /// Threads of decode.
    pub threads_decode: usize,
    /// Threads of prefill.
    pub threads_prefill: usize,
    /// The instruction set.
    pub isa: String,
    /// What the threads of decode read.
    pub read: Option<Bandwidth>,
    /// Why that was not measured.
    pub read_skipped: Option<String>,
    /// What the threads of prefill multiply, by sequence of instructions.
    pub multiply_adds: Vec<Peak>,
    /// The clock when as many threads ran as decode has, or the most.
    pub clock: Option<Clock>,
    /// What it costs the threads of decode to wait for each other.
    pub barrier: Option<Barrier>,
}

impl CeilingsAt {
    /// The sequence that a format is multiplied with. The path for formats without a kernel multiplies floats.
    pub fn peak_of(&self, format: &str) -> Option<&Peak> {
        let of = |format: &str| self.multiply_adds.iter().find(|peak| peak.formats.iter().any(|name| name == format));
        of(format).or_else(|| self.floats())
    }

    /// The sequence that floats are multiplied with: those of attention too.
    pub fn floats(&self) -> Option<&Peak> {
        self.multiply_adds.iter().find(|peak| peak.formats.iter().any(|name| name == "F32"))
    }

    /// Tokens per second of decode that memory allows, where a token reads so many bytes.
    pub fn decode_ceiling_ts(&self, bytes_per_token: u64) -> Option<f64> {
        Some(self.read.as_ref()?.bytes_per_s / bytes_per_token.max(1) as f64)
    }

    /// Tokens per second of prefill that the multiplier allows.
    pub fn prefill_ceiling_ts(&self, multiply_adds: &MultiplyAdds) -> Option<f64> {
        let least_s = self.least_multiplying_s(multiply_adds)?;
        (least_s > 0.0).then(|| multiply_adds.tokens as f64 / least_s)
    }

    /// The least seconds that multiply-adds take: of each format, and of attention, the time that it needs at the peak of its own
    /// sequence, one after the other.
    pub fn least_multiplying_s(&self, multiply_adds: &MultiplyAdds) -> Option<f64> {
        let seconds = |count: u64, peak: &Peak| (peak.per_s > 0.0).then(|| count as f64 / peak.per_s);
        let mut least_s = 0.0;
        for (format, count) in &multiply_adds.matrices {
            least_s += seconds(*count, self.peak_of(format)?)?;
        }
        if multiply_adds.attention > 0 {
            least_s += seconds(multiply_adds.attention, self.floats()?)?;
        }
        Some(least_s)
    }

    /// The least seconds that reading so many bytes takes the threads of decode.
    pub fn least_reading_s(&self, bytes: u64) -> Option<f64> {
        let per_s = self.read.as_ref()?.bytes_per_s;
        (per_s > 0.0).then(|| bytes as f64 / per_s)
    }
}

#[cfg(test)]
pub(crate) mod tests;
