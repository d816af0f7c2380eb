//! Where a benchmark takes the time from, so that tests can say what time it is.

use std::time::Instant;

/// A clock that only goes forward.
pub trait TimeSource {
    /// Nanoseconds since some moment, the same for all calls.
    fn now_ns(&self) -> u64;
}

/// The system's clock that nobody sets.
#[derive(Debug, Clone, Copy)]
pub struct Monotonic(Instant);

impl Monotonic {
    /// Counts from now on.
    pub fn new() -> Monotonic {
        Monotonic(Instant::now())
    }
}

impl Default for Monotonic {
    fn default() -> Self {
        Self::new()
    }
}

impl TimeSource for Monotonic {
    fn now_ns(&self) -> u64 {
        u64::try_from(self.0.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}
