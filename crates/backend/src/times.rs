//! How long ops take: what devices note while they are asked to ([`Compiled::observe_times`](crate::Compiled::observe_times)).

use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

/// What time it is, in nanoseconds since some moment, the same for all copies. Tests make up one of their own.
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> u64 + Send + Sync>);

impl Clock {
    /// The system's clock that nobody sets, from now on.
    pub fn system() -> Self {
        let start = Instant::now();
        Self::made_up(move || u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    /// Another one, which never goes back.
    pub fn made_up(now_ns: impl Fn() -> u64 + Send + Sync + 'static) -> Self {
        Self(Arc::new(now_ns))
    }

    /// Nanoseconds since its moment.
    pub fn now_ns(&self) -> u64 {
        (self.0)()
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Clock")
    }
}

/// How long a device took for ops that it ran in one go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpTime {
    /// Consecutive nodes of the graph: one, or several that ran together. None (an empty range) for what the device makes ready
    /// before the first op of a pass.
    pub ops: Range<usize>,
    /// When it began, by the clock that the device was given.
    pub start_ns: u64,
    /// How long it took.
    pub ns: u64,
}

/// Times of ops, one after the other. The clock is read once between two ops: where one ends the next begins. The room for all is
/// made at first; when it is full, nothing more is noted.
#[derive(Debug)]
pub struct TimeLog {
    clock: Clock,
    times: Vec<OpTime>,
    last_ns: u64,
}

impl TimeLog {
    /// Room for so many times.
    pub fn new(clock: Clock, room: usize) -> Self {
        // Written once, so that no page is new to the process while passes run.
        let mut times = vec![OpTime { ops: 0..0, start_ns: 0, ns: 0 }; room];
        times.clear();
        Self { clock, times, last_ns: 0 }
    }

    /// The first op begins now.
    #[inline]
    pub fn begin(&mut self) {
        self.last_ns = self.clock.now_ns();
    }

    /// These ops are over now, and the next begin.
    #[inline]
    pub fn note(&mut self, ops: Range<usize>) {
        let now_ns = self.clock.now_ns();
        if self.times.len() < self.times.capacity() {
            let start_ns = self.last_ns;
            self.times.push(OpTime { ops, start_ns, ns: now_ns.saturating_sub(start_ns) });
        }
        self.last_ns = now_ns;
    }

    /// All that was noted, in order.
    pub fn times(&self) -> &[OpTime] {
        &self.times
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    #[test]
    fn the_clock_is_read_once_between_two_ops() {
        let reads = AtomicU64::new(0);
        let reads = Arc::new(reads);
        let counted = reads.clone();
        // Each read is 10 ns after the one before.
        let mut log = TimeLog::new(Clock::made_up(move || counted.fetch_add(10, Ordering::Relaxed) + 10), 3);
        log.begin();
        for op in 0..3 {
            log.note(op..op + 1);
        }
        assert_eq!(reads.load(Ordering::Relaxed), 40);
        let expected: Vec<OpTime> =
            (0..3).map(|op| OpTime { ops: op..op + 1, start_ns: 10 + 10 * op as u64, ns: 10 }).collect();
        assert_eq!(log.times(), expected);
    }

    #[test]
    fn what_has_no_room_is_not_noted() {
        let mut log = TimeLog::new(Clock::made_up(|| 7), 2);
        let room = log.times.capacity();
        log.begin();
        (0..room + 3).for_each(|op| log.note(op..op + 1));
        assert_eq!((log.times().len(), log.times.capacity()), (room, room));
    }
}
