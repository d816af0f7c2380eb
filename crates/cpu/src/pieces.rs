//! Work in pieces that whoever is free takes: large ones first, smaller and smaller ones towards the end.
//!
//! Equal pieces make everybody wait for the slowest: it takes its last one when the others are nearly done. Here a piece is a
//! fixed part of what is *left*, so a slow worker takes few, and the last ones are too small to be waited for. Large first pieces
//! also read memory better than many small ones.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A piece is what is left, divided by this and by the workers. With 4 a worker that is four times as slow as its fellows has
/// finished its first piece when they have done the rest.
const PARTS_PER_WORKER: usize = 4;

/// Units of work in a row, and how many of them are taken.
#[derive(Debug)]
pub(crate) struct Pieces {
    units: usize,
    /// The fewest units in a piece but the last: what is worth the way to the shared counter.
    least: usize,
    parts: usize,
    next: AtomicUsize,
}

impl Pieces {
    /// `units` of work for `workers`, in pieces of at least `least`.
    pub(crate) fn new(units: usize, least: usize, workers: usize) -> Self {
        Self { units, least: least.max(1), parts: workers.max(1) * PARTS_PER_WORKER, next: AtomicUsize::new(0) }
    }

    /// The next piece; nothing when all are taken.
    #[inline]
    pub(crate) fn take(&self) -> Option<Range<usize>> {
        let mut first = self.next.load(Ordering::Relaxed);
        while first < self.units {
            let left = self.units - first;
            let last = first + (left / self.parts).max(self.least).min(left);
            match self.next.compare_exchange_weak(first, last, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return Some(first..last),
                Err(now) => first = now,
            }
        }
        None
    }

    /// Takes all that is left away.
    pub(crate) fn cancel(&self) {
        self.next.store(self.units, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Steps until all is done, where worker `w` needs `steps[w]` for a unit; whoever is free first takes the next piece.
    fn steps_needed(units: usize, least: usize, steps: &[usize]) -> usize {
        let pieces = Pieces::new(units, least, steps.len());
        let mut free_at = vec![0; steps.len()];
        loop {
            let worker = (0..steps.len()).min_by_key(|&worker| free_at[worker]).unwrap();
            let Some(piece) = pieces.take() else { return free_at.into_iter().max().unwrap() };
            free_at[worker] += piece.len() * steps[worker];
        }
    }

    /// A matrix of 8192 rows has 512 panels.
    #[test]
    fn a_worker_that_is_four_times_as_slow_holds_nobody_up() {
        for workers in [2usize, 3, 4, 6, 8, 16] {
            let steady = steps_needed(512, 1, &vec![1; workers]);
            for slow in 0..workers {
                let mut steps = vec![1; workers];
                steps[slow] = 4;
                let slowed = steps_needed(512, 1, &steps);
                // What is possible at all: the others do their part, and the slow one a quarter of it.
                let best = 512.0 / (workers as f64 - 0.75);
                assert!((slowed as f64) < 1.1 * best, "{workers} workers: {slowed} steps, {best} at best");
                if workers >= 4 {
                    assert!((slowed as f64) < 1.3 * steady as f64, "{workers} workers: {slowed} steps, else {steady}");
                }
            }
        }
    }

    #[test]
    fn equal_workers_end_together() {
        for workers in 1..=16 {
            let steps = steps_needed(512, 1, &vec![1; workers]);
            assert!(steps <= 512usize.div_ceil(workers) + 1, "{workers} workers: {steps} steps");
        }
    }

    #[test]
    fn every_unit_is_in_one_piece_and_pieces_are_not_smaller_than_asked() {
        for (units, least, workers) in [(0, 1, 2), (1, 1, 2), (7, 3, 2), (1000, 1, 3), (1000, 16, 4), (5, 100, 2)] {
            let pieces = Pieces::new(units, least, workers);
            let mut next = 0;
            while let Some(piece) = pieces.take() {
                assert_eq!(piece.start, next);
                assert!(piece.len() >= least || piece.end == units, "{piece:?}");
                next = piece.end;
            }
            assert_eq!(next, units);
        }
        let pieces = Pieces::new(10, 1, 1);
        pieces.take();
        pieces.cancel();
        assert_eq!(pieces.take(), None);
    }
}
