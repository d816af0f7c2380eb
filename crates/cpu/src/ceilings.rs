//! What this machine can do at most, whatever the model: memory, multiplier, clock and waiting, each for several thread counts.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::bandwidth::{Buffer, Pages, ReadBandwidth};
use crate::barriers::{self, BarrierLatency};
use crate::clock::{self, ThreadClock};
use crate::error::{Result, error};
use crate::isa::Isa;
use crate::peaks::{Peak, Sequence};
use crate::placement::Placement;
use crate::pool::Pool;
use crate::together::Skipped;

/// Up to here every number of threads is measured, above it only some: the curve is flat there, and each takes half a second.
const ALL_UP_TO: usize = 16;

/// What was measured.
#[derive(Debug, Clone, PartialEq)]
pub struct CeilingRates {
    /// The instruction set that read, and whose sequences were measured.
    pub isa: &'static str,
    /// How fast memory is read, for each number of threads; or why that was not measured.
    pub read: std::result::Result<Vec<ReadBandwidth>, Skipped>,
    /// How fast each sequence of instructions multiplies, for each number of threads.
    pub peaks: Vec<Peak>,
    /// The clock of one thread alone, and then that of each of the most threads at once; or why that was not measured.
    pub clocks: std::result::Result<Vec<Vec<ThreadClock>>, Skipped>,
    /// What it costs to wait for each other, for each number of threads from two on.
    pub barriers: Vec<BarrierLatency>,
}

/// What is about to be measured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CeilingProgress {
    /// The step, from 0.
    pub step: usize,
    /// How many steps there are.
    pub steps: usize,
    /// What it measures.
    pub what: CeilingStep,
}

/// A step of the measurement.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum CeilingStep {
    /// Memory is taken and written.
    Filling,
    /// It is read.
    Read {
        /// By so many threads.
        threads: usize,
    },
    /// Numbers in registers are multiplied.
    Peak {
        /// By this instruction.
        instruction: String,
        /// By so many threads.
        threads: usize,
    },
    /// Additions are counted.
    Clock {
        /// On so many threads at once.
        threads: usize,
    },
    /// Threads wait for each other.
    Barriers,
}

/// Numbers of threads to measure: all up to `most`, of which only some where they are many, and those in `wanted`.
pub(crate) fn thread_counts(most: usize, wanted: &[usize]) -> Vec<usize> {
    let most = most.max(1);
    let few = 1..=most.min(ALL_UP_TO);
    let many =
        std::iter::successors(Some(ALL_UP_TO), |count| Some(count + count / 2)).take_while(|&count| count < most);
    let mut counts: Vec<usize> = few.chain(many).chain([most]).chain(wanted.iter().copied()).collect();
    counts.retain(|count| (1..=most).contains(count));
    counts.sort_unstable();
    counts.dedup();
    counts
}

/// Tells of steps, and ends when it is told to.
struct Steps<'a> {
    done: usize,
    all: usize,
    cancel: &'a AtomicBool,
    on_progress: &'a mut dyn FnMut(&CeilingProgress),
}

impl Steps<'_> {
    /// The next step; nothing where it was cancelled.
    fn next(&mut self, what: CeilingStep) -> Option<()> {
        if self.is_cancelled() {
            return None;
        }
        (self.on_progress)(&CeilingProgress { step: self.done, steps: self.all, what });
        self.done += 1;
        Some(())
    }

    fn is_cancelled(&self) -> bool {
        self.cancel.load(Ordering::Relaxed)
    }
}

/// Measures everything for each of `counts`, of which there is at least one. Gives nothing where it was cancelled.
///
/// # Errors
/// When the system gives no threads.
pub(crate) fn measure(
    isa: Isa,
    counts: &[usize],
    placement: &Placement,
    available_bytes: Option<u64>,
    cancel: &AtomicBool,
    on_progress: &mut dyn FnMut(&CeilingProgress),
) -> Result<Option<CeilingRates>> {
    let sequences = Sequence::all(isa);
    let all = counts.len() * (1 + sequences.len()) + 4;
    let mut steps = Steps { done: 0, all, cancel, on_progress };
    let no_threads = |cause: std::io::Error| error(format!("cannot start {} threads: {cause}", placement.workers()));
    let read = match read(isa, counts, placement, available_bytes, &mut steps) {
        Ok(None) => return Ok(None),
        Ok(Some(read)) => Ok(read),
        Err(skipped) => Err(skipped),
    };
    steps.done = counts.len() + 1;
    let mut pool = Pool::new(placement.clone()).map_err(no_threads)?;
    let Some(peaks) = peaks(&sequences, counts, &mut pool, &mut steps) else { return Ok(None) };
    drop(pool);
    let clocks = match clocks(counts, placement, &mut steps) {
        Ok(None) => return Ok(None),
        Ok(Some(clocks)) => Ok(clocks),
        Err(skipped) => Err(skipped),
    };
    steps.done = all - 1;
    if steps.next(CeilingStep::Barriers).is_none() {
        return Ok(None);
    }
    let barriers = barriers::latencies(counts, placement.clone(), cancel).map_err(no_threads)?;
    Ok((!steps.is_cancelled()).then(|| CeilingRates { isa: isa.name(), read, peaks, clocks, barriers }))
}

fn read(
    isa: Isa,
    counts: &[usize],
    placement: &Placement,
    available_bytes: Option<u64>,
    steps: &mut Steps<'_>,
) -> std::result::Result<Option<Vec<ReadBandwidth>>, Skipped> {
    if steps.next(CeilingStep::Filling).is_none() {
        return Ok(None);
    }
    let most = counts.iter().copied().max().unwrap_or(1);
    let buffer = Buffer::new(most, Pages::Large, available_bytes)?;
    let mut found = Vec::with_capacity(counts.len());
    for &threads in counts {
        if steps.next(CeilingStep::Read { threads }).is_none() {
            return Ok(None);
        }
        found.push(buffer.read(isa, threads, placement, steps.cancel)?);
    }
    Ok((!steps.is_cancelled()).then_some(found))
}

fn peaks(sequences: &[Sequence], counts: &[usize], pool: &mut Pool, steps: &mut Steps<'_>) -> Option<Vec<Peak>> {
    let mut found = Vec::with_capacity(sequences.len() * counts.len());
    for sequence in sequences {
        for &threads in counts {
            steps.next(CeilingStep::Peak { instruction: sequence.instruction().to_owned(), threads })?;
            // Not while the caller's own function runs.
            let entered = pool.enter();
            let peak = sequence.peak(pool, threads, steps.cancel);
            drop(entered);
            found.push(peak?);
        }
    }
    Some(found)
}

fn clocks(
    counts: &[usize],
    placement: &Placement,
    steps: &mut Steps<'_>,
) -> std::result::Result<Option<Vec<Vec<ThreadClock>>>, Skipped> {
    let mut found = Vec::new();
    let most = counts.iter().copied().max().unwrap_or(1);
    for threads in if most > 1 { vec![1, most] } else { vec![1] } {
        if steps.next(CeilingStep::Clock { threads }).is_none() {
            return Ok(None);
        }
        found.push(clock::clocks(threads, placement)?);
    }
    Ok(Some(found))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_threads_are_all_measured_and_many_in_steps() {
        assert_eq!(thread_counts(0, &[]), [1]);
        assert_eq!(thread_counts(4, &[2, 9]), [1, 2, 3, 4]);
        let many = thread_counts(100, &[18, 100]);
        assert_eq!(many[..16], (1..=16).collect::<Vec<_>>());
        assert_eq!(many[16..], [18, 24, 36, 54, 81, 100]);
    }

    #[test]
    fn every_figure_is_there_for_every_thread_count() {
        let isa = Isa::best(None).unwrap();
        let mut told = Vec::new();
        let cancel = AtomicBool::new(false);
        let on_progress = &mut |progress: &CeilingProgress| told.push(progress.clone());
        // Too little memory to read, so that the test is short.
        let found = measure(isa, &[1, 2], &Placement::free(2), Some(1 << 20), &cancel, on_progress).unwrap().unwrap();
        let skipped = found.read.unwrap_err();
        assert!(skipped.to_string().starts_with("only 524288 bytes may be taken"), "{skipped}");
        let sequences = Sequence::all(isa).len();
        assert_eq!(found.peaks.iter().map(|peak| peak.threads).collect::<Vec<_>>(), [1, 2].repeat(sequences));
        if let Ok(clocks) = &found.clocks {
            assert_eq!(clocks.iter().map(Vec::len).collect::<Vec<_>>(), [1, 2]);
        }
        assert_eq!(found.barriers.iter().map(|barrier| barrier.threads).collect::<Vec<_>>(), [2]);
        assert_eq!(told[0].what, CeilingStep::Filling);
        let last = told.last().unwrap();
        assert_eq!((last.step + 1, &last.what), (last.steps, &CeilingStep::Barriers));
    }

    #[test]
    fn what_is_cancelled_gives_nothing() {
        let isa = Isa::best(None).unwrap();
        let cancel = AtomicBool::new(false);
        let on_progress = &mut |progress: &CeilingProgress| {
            if matches!(progress.what, CeilingStep::Peak { .. }) {
                cancel.store(true, Ordering::Relaxed);
            }
        };
        let found = measure(isa, &[1], &Placement::free(1), Some(0), &cancel, on_progress);
        assert_eq!(found.unwrap(), None);
    }
}
