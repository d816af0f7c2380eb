//! What it costs that all threads wait for the last: a job of the pool with nothing to do.
//!
//! A token of decode has some hundred such waits, so they are a floor under its time that neither memory nor multiplier explains.
//! Each job is timed by itself, with the clock's own few dozen nanoseconds in it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::placement::Placement;
use crate::pool::Pool;

/// Jobs that are timed for a thread count, where its time allows so many.
const JOBS: usize = 4000;

/// Jobs before, which do not count: threads wake up, and what is cold becomes warm.
const JOBS_BEFORE: usize = 200;

/// Time for a thread count.
const MOST_TIME: Duration = Duration::from_millis(100);

/// What a job of the pool takes when there is nothing to do.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BarrierLatency {
    /// Threads that take part.
    pub threads: usize,
    /// The middle of all jobs.
    pub median_ns: u64,
    /// The best of all jobs.
    pub best_ns: u64,
    /// How many jobs were timed.
    pub jobs: usize,
}

/// Measures for each of `counts`: one thread waits for nobody, and counts that the placement has no workers for are left out.
///
/// # Errors
/// When the system gives no threads.
pub(crate) fn latencies(
    counts: &[usize],
    placement: Placement,
    cancel: &AtomicBool,
) -> std::io::Result<Vec<BarrierLatency>> {
    let mut pool = Pool::new(placement)?;
    let most = pool.workers();
    let _entered = pool.enter();
    let counts = counts.iter().copied().filter(|count| (2..=most).contains(count));
    Ok(counts.map_while(|threads| latency(&mut pool, threads, cancel)).collect())
}

/// Measures for one count; nothing where it was cancelled.
fn latency(pool: &mut Pool, threads: usize, cancel: &AtomicBool) -> Option<BarrierLatency> {
    let start = Instant::now();
    for _ in 0..JOBS_BEFORE {
        pool.run(threads, threads, &|_, _| ());
        // A machine that is busy elsewhere gets through few of them.
        if start.elapsed() > MOST_TIME / 2 {
            break;
        }
    }
    let mut times_ns = Vec::with_capacity(JOBS);
    while times_ns.len() < JOBS && (times_ns.is_empty() || start.elapsed() < MOST_TIME) {
        if cancel.load(Ordering::Relaxed) {
            return None;
        }
        let begin = Instant::now();
        pool.run(threads, threads, &|_, _| ());
        times_ns.push(u64::try_from(begin.elapsed().as_nanos()).unwrap_or(u64::MAX));
    }
    times_ns.sort_unstable();
    let jobs = times_ns.len();
    Some(BarrierLatency { threads, median_ns: *times_ns.get(jobs / 2)?, best_ns: *times_ns.first()?, jobs })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_count_is_measured_that_has_somebody_to_wait_for() {
        let found = latencies(&[1, 2, 3, 9], Placement::free(3), &AtomicBool::new(false)).unwrap();
        assert_eq!(found.iter().map(|latency| latency.threads).collect::<Vec<_>>(), [2, 3]);
        for latency in found {
            assert!((1..=JOBS).contains(&latency.jobs), "{latency:?}");
            assert!(latency.best_ns > 0 && latency.best_ns <= latency.median_ns, "{latency:?}");
        }
    }

    #[test]
    fn it_ends_when_it_is_told_to() {
        let found = latencies(&[2], Placement::free(2), &AtomicBool::new(true)).unwrap();
        assert_eq!(found, []);
    }
}
