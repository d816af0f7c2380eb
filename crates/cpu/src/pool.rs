//! The worker threads: work is cut into pieces, and whoever is free takes the next.
//!
//! Workers spin for a moment after each job, since the next op usually follows within microseconds, then sleep.
//! The caller works too, so a pool of one has no threads at all. Running a job takes no lock and allocates nothing. Workers are
//! held to the CPUs that [`Placement`] names, and take denormal numbers for zero; so does the caller while it has
//! [`Pool::enter`]ed.

use std::any::Any;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use crate::denormals::FlushDenormals;
use crate::pieces::Pieces;
use crate::placement::{Held, Placement};

/// Turns of the spin loop before a worker sleeps and the caller yields: tens of microseconds.
const SPINS: u32 = 2_000;

/// One call of [`Pool::run`], on the caller's stack.
struct Job<'a> {
    /// `(units, worker)`.
    work: &'a (dyn Fn(Range<usize>, usize) + Sync),
    pieces: Pieces,
    /// The first panic of a piece.
    panic: Mutex<Option<Box<dyn Any + Send>>>,
}

/// What the workers share.
struct State {
    /// The number of the current job, and in the low bits how many workers it has. A worker whose number is not below
    /// that does not look at the job.
    ticket: AtomicU64,
    /// The current job; valid for its workers from the change of `ticket` until they have left `busy`.
    job: AtomicPtr<Job<'static>>,
    /// Workers of the current job, without the caller, that have not finished.
    busy: AtomicUsize,
    /// Which workers sleep, or are about to.
    asleep: Vec<AtomicBool>,
    stop: AtomicBool,
}

/// Low bits of a ticket: the count of workers.
const WORKER_BITS: u32 = 16;

/// A pool of worker threads that live as long as it does.
pub(crate) struct Pool {
    state: Arc<State>,
    threads: Vec<JoinHandle<()>>,
    placement: Placement,
    /// Jobs of more than one worker: each ends with everybody waiting for the last.
    barriers: u64,
}

/// What the caller's thread is while it works: see [`Pool::enter`]. The order matters to nobody.
#[derive(Debug)]
pub(crate) struct Entered {
    _flush: FlushDenormals,
    _held: Held,
}

impl Pool {
    /// A pool of as many workers as are placed, the caller included.
    ///
    /// # Errors
    /// When the system gives no more threads.
    pub(crate) fn new(placement: Placement) -> std::io::Result<Self> {
        let workers = placement.workers();
        assert!(workers < 1 << WORKER_BITS, "{workers} workers");
        let state = Arc::new(State {
            ticket: AtomicU64::new(0),
            job: AtomicPtr::new(ptr::null_mut()),
            busy: AtomicUsize::new(0),
            asleep: (0..workers).map(|_| AtomicBool::new(false)).collect(),
            stop: AtomicBool::new(false),
        });
        let mut pool = Self { state, threads: Vec::new(), placement, barriers: 0 };
        for worker in 1..workers {
            let state = pool.state.clone();
            let cpus = pool.placement.of(worker).to_vec();
            let builder = std::thread::Builder::new().name(format!("duan-{worker}"));
            pool.threads.push(builder.spawn(move || {
                let _worker = Entered { _flush: FlushDenormals::new(), _held: Held::to(&cpus) };
                state.work(worker);
            })?);
        }
        Ok(pool)
    }

    /// Makes the caller's thread like the workers' until what this returns is dropped.
    pub(crate) fn enter(&self) -> Entered {
        Entered { _flush: FlushDenormals::new(), _held: Held::to(self.placement.of(0)) }
    }

    /// How many workers there are, the caller included.
    pub(crate) fn workers(&self) -> usize {
        self.threads.len() + 1
    }

    /// How many jobs had more than one worker so far.
    #[cfg(test)]
    pub(crate) fn barriers(&self) -> u64 {
        self.barriers
    }

    /// Runs `work(piece, worker)` for every piece in `0..pieces` on at most `workers` of the workers, and returns when all
    /// are done. A panic in a piece is resumed here.
    pub(crate) fn run(&mut self, pieces: usize, workers: usize, work: &(dyn Fn(usize, usize) + Sync)) {
        self.run_ranges(pieces, 1, workers, &|pieces, worker| {
            for piece in pieces {
                work(piece, worker);
            }
        });
    }

    /// Runs `work(units, worker)` on ranges of `0..units` that together are all of them, each but the last at least `least`
    /// long, on at most `workers` of the workers; else like [`Pool::run`].
    pub(crate) fn run_ranges(
        &mut self,
        units: usize,
        least: usize,
        workers: usize,
        work: &(dyn Fn(Range<usize>, usize) + Sync),
    ) {
        let workers = workers.min(self.workers()).min(units.div_ceil(least.max(1)));
        if workers <= 1 {
            if units > 0 {
                work(0..units, 0);
            }
            return;
        }
        self.barriers += 1;
        let job = Job { work, pieces: Pieces::new(units, least, workers), panic: Mutex::new(None) };
        let state = &*self.state;
        state.busy.store(workers - 1, Ordering::Relaxed);
        // The lifetimes are hidden here and found again in `State::work`: this function neither returns nor unwinds before
        // every worker that may look at the job has left `busy`.
        state.job.store(ptr::from_ref(&job).cast_mut().cast(), Ordering::Relaxed);
        self.publish(workers);
        job.take_pieces(0);
        let mut spins = 0u32;
        while state.busy.load(Ordering::Acquire) > 0 {
            spins += 1;
            if spins < SPINS { std::hint::spin_loop() } else { std::thread::yield_now() }
        }
        if let Some(panic) = job.panic.into_inner().unwrap_or_else(PoisonError::into_inner) {
            resume_unwind(panic);
        }
    }

    /// Changes the ticket, and wakes those of its workers that sleep.
    fn publish(&self, workers: usize) {
        let state = &*self.state;
        let number = (state.ticket.load(Ordering::Relaxed) >> WORKER_BITS).wrapping_add(1);
        state.ticket.store(number << WORKER_BITS | workers as u64, Ordering::SeqCst);
        for (thread, asleep) in self.threads.iter().zip(&state.asleep[1..]).take(workers - 1) {
            // Either this sees that the worker sleeps, or the worker sees the new ticket before it does.
            if asleep.load(Ordering::SeqCst) {
                thread.thread().unpark();
            }
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.state.stop.store(true, Ordering::SeqCst);
        for thread in self.threads.drain(..) {
            thread.thread().unpark();
            // The panics of pieces are caught, so a worker ends only as it should.
            let _ = thread.join();
        }
    }
}

impl Job<'_> {
    fn take_pieces(&self, worker: usize) {
        let all = AssertUnwindSafe(|| {
            while let Some(piece) = self.pieces.take() {
                (self.work)(piece, worker);
            }
        });
        if let Err(panic) = catch_unwind(all) {
            self.pieces.cancel();
            self.panic.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(panic);
        }
    }
}

impl State {
    /// A worker's life.
    fn work(&self, worker: usize) {
        let mut seen = 0;
        while let Some(ticket) = self.next_ticket(seen, worker) {
            seen = ticket;
            if worker < (ticket & ((1 << WORKER_BITS) - 1)) as usize {
                // SAFETY: this worker belongs to the job of this ticket, so `Pool::run` keeps the job alive until the worker
                // leaves `busy`, and stores no other job before.
                let job = unsafe { &*self.job.load(Ordering::Relaxed) };
                job.take_pieces(worker);
                self.busy.fetch_sub(1, Ordering::Release);
            }
        }
    }

    /// Spins, then sleeps, until the ticket is not `seen`; nothing when the pool ends.
    fn next_ticket(&self, seen: u64, worker: usize) -> Option<u64> {
        let mut spins = 0u32;
        loop {
            let ticket = self.ticket.load(Ordering::SeqCst);
            if self.stop.load(Ordering::SeqCst) {
                return None;
            }
            if ticket != seen {
                self.asleep[worker].store(false, Ordering::Relaxed);
                return Some(ticket);
            }
            spins = spins.saturating_add(1);
            if spins < SPINS {
                std::hint::spin_loop();
            } else if spins == SPINS {
                // Once more around the loop before sleeping: a ticket may have come before this was visible.
                self.asleep[worker].store(true, Ordering::SeqCst);
            } else {
                std::thread::park();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_piece_runs_once() {
        for workers in 1..=4 {
            let mut pool = Pool::new(Placement::free(workers)).unwrap();
            for pieces in [0, 1, 2, 7, 1000] {
                let counts: Vec<AtomicUsize> = (0..pieces).map(|_| AtomicUsize::new(0)).collect();
                pool.run(pieces, workers, &|piece, worker| {
                    assert!(worker < workers);
                    counts[piece].fetch_add(1, Ordering::Relaxed);
                });
                assert!(counts.iter().all(|count| count.load(Ordering::Relaxed) == 1), "{workers} {pieces}");
            }
        }
    }

    #[test]
    fn fewer_workers_may_be_asked_for() {
        let mut pool = Pool::new(Placement::free(3)).unwrap();
        pool.run(500, 2, &|_, worker| assert!(worker < 2));
        pool.run(500, 1, &|_, worker| assert_eq!(worker, 0));
        for round in 0..2000 {
            let workers = 1 + round % 3;
            let count = AtomicUsize::new(0);
            pool.run(5, workers, &|_, worker| {
                assert!(worker < workers);
                count.fetch_add(1, Ordering::Relaxed);
            });
            assert_eq!(count.into_inner(), 5);
        }
    }

    /// Also on workers that sleep and wake.
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    #[test]
    fn every_worker_takes_denormals_for_zero_and_the_caller_while_it_works() {
        use crate::denormals::are_flushed;
        let mut pool = Pool::new(Placement::free(3)).unwrap();
        for _ in 0..3 {
            let entered = pool.enter();
            let flushed = AtomicUsize::new(0);
            // A piece is held until every worker has one, so each of them is asked.
            let all = std::sync::Barrier::new(3);
            pool.run(3, 3, &|_, _| {
                all.wait();
                flushed.fetch_add(usize::from(are_flushed()), Ordering::Relaxed);
            });
            assert_eq!(flushed.into_inner(), 3);
            drop(entered);
            assert!(!are_flushed());
        }
    }

    #[test]
    fn sleeping_workers_wake_up() {
        let mut pool = Pool::new(Placement::free(2)).unwrap();
        let count = AtomicUsize::new(0);
        for _ in 0..3 {
            std::thread::sleep(std::time::Duration::from_millis(20));
            pool.run(64, 2, &|_, _| {
                count.fetch_add(1, Ordering::Relaxed);
            });
        }
        assert_eq!(count.into_inner(), 192);
    }

    #[test]
    fn a_panic_reaches_the_caller_and_the_pool_goes_on() {
        let mut pool = Pool::new(Placement::free(2)).unwrap();
        let result = catch_unwind(AssertUnwindSafe(|| {
            pool.run(100, 2, &|piece, _| assert_ne!(piece, 57, "piece 57"));
        }));
        assert!(result.is_err());
        let count = AtomicUsize::new(0);
        pool.run(10, 2, &|_, _| {
            count.fetch_add(1, Ordering::Relaxed);
        });
        assert_eq!(count.into_inner(), 10);
    }
}
