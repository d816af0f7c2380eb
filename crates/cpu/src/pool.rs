//! The worker threads: work is cut into pieces, and whoever is free takes the next.
//!
//! Workers spin for a moment after each piece of work, since the next op usually follows within microseconds, then sleep.
//! The caller works too, so a pool of one has no threads at all.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

/// Turns of the spin loop before a worker gives its core away: some tens of microseconds.
const SPINS: u32 = 2_000;

/// What the workers run: `(piece, worker)`.
type Work<'a> = &'a (dyn Fn(usize, usize) + Sync);

/// Work as the workers see it, with its borrow hidden; see [`Pool::run`].
#[derive(Clone, Copy)]
struct Job {
    work: *const (dyn Fn(usize, usize) + Sync),
    pieces: usize,
    workers: usize,
}

// SAFETY: the pointer is only followed between the start and the end of `Pool::run`, which holds the borrow; the work is `Sync`.
unsafe impl Send for Job {}

struct State {
    /// Counts jobs; a worker that sees a new number has a new job.
    generation: AtomicU64,
    /// The next piece that nobody took.
    next_piece: AtomicUsize,
    /// Workers that have not finished the current job.
    busy: AtomicUsize,
    job: Mutex<Option<Job>>,
    wake: Condvar,
    panic: Mutex<Option<Box<dyn Any + Send>>>,
    stop: AtomicBool,
}

/// A pool of worker threads that live as long as it does.
pub(crate) struct Pool {
    state: Arc<State>,
    threads: Vec<JoinHandle<()>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing under these locks can be left half done, so a panic elsewhere does not spoil them.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Pool {
    /// A pool of `workers`, the caller included; `prepare` runs first in each new thread with its number.
    ///
    /// # Errors
    /// When the system gives no more threads.
    pub(crate) fn new(workers: usize, prepare: impl Fn(usize) + Send + Clone + 'static) -> std::io::Result<Self> {
        let state = Arc::new(State {
            generation: AtomicU64::new(0),
            next_piece: AtomicUsize::new(0),
            busy: AtomicUsize::new(0),
            job: Mutex::new(None),
            wake: Condvar::new(),
            panic: Mutex::new(None),
            stop: AtomicBool::new(false),
        });
        let mut pool = Self { state, threads: Vec::new() };
        for worker in 1..workers {
            let (state, prepare) = (pool.state.clone(), prepare.clone());
            let body = move || {
                prepare(worker);
                state.work(worker);
            };
            pool.threads.push(std::thread::Builder::new().name(format!("duan-{worker}")).spawn(body)?);
        }
        Ok(pool)
    }

    /// How many workers there are, the caller included.
    pub(crate) fn workers(&self) -> usize {
        self.threads.len() + 1
    }

    /// Runs `work(piece, worker)` for every piece in `0..pieces` on at most `workers` of the workers, and returns when all
    /// are done. A panic in a piece is resumed here.
    pub(crate) fn run(&mut self, pieces: usize, workers: usize, work: Work<'_>) {
        let workers = workers.min(self.workers()).min(pieces);
        if workers <= 1 {
            (0..pieces).for_each(|piece| work(piece, 0));
            return;
        }
        let state = &*self.state;
        state.next_piece.store(0, Ordering::Relaxed);
        state.busy.store(self.threads.len(), Ordering::Relaxed);
        // SAFETY: only the lifetime changes. The borrow outlives every use: workers follow the pointer before
        // they count themselves out of `busy`, and this function does not return or unwind before `busy` is 0.
        let work: Work<'static> = unsafe { std::mem::transmute::<Work<'_>, Work<'static>>(work) };
        {
            let mut job = lock(&state.job);
            *job = Some(Job { work, pieces, workers });
            state.generation.fetch_add(1, Ordering::Release);
        }
        state.wake.notify_all();
        state.take_pieces(Job { work, pieces, workers }, 0);
        let mut spins = 0u32;
        while state.busy.load(Ordering::Acquire) > 0 {
            spins += 1;
            if spins < SPINS { std::hint::spin_loop() } else { std::thread::yield_now() }
        }
        if let Some(panic) = lock(&state.panic).take() {
            resume_unwind(panic);
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        {
            let _job = lock(&self.state.job);
            self.state.stop.store(true, Ordering::Release);
            self.state.generation.fetch_add(1, Ordering::Release);
        }
        self.state.wake.notify_all();
        for thread in self.threads.drain(..) {
            // A worker's panics are caught piece by piece, so joining can only fail after one in `prepare`.
            let _ = thread.join();
        }
    }
}

impl State {
    /// A worker's life.
    fn work(&self, worker: usize) {
        let mut seen = 0;
        loop {
            seen = self.wait_for_job(seen);
            if self.stop.load(Ordering::Acquire) {
                return;
            }
            let job = *lock(&self.job);
            if let Some(job) = job.filter(|job| worker < job.workers) {
                self.take_pieces(job, worker);
            }
            self.busy.fetch_sub(1, Ordering::Release);
        }
    }

    /// Spins, then sleeps, until the generation is not `seen`; returns the new one.
    fn wait_for_job(&self, seen: u64) -> u64 {
        for _ in 0..SPINS {
            let generation = self.generation.load(Ordering::Acquire);
            if generation != seen {
                return generation;
            }
            std::hint::spin_loop();
        }
        let mut job = lock(&self.job);
        loop {
            let generation = self.generation.load(Ordering::Acquire);
            if generation != seen {
                return generation;
            }
            job = self.wake.wait(job).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn take_pieces(&self, job: Job, worker: usize) {
        // SAFETY: `Pool::run` holds the borrow until every worker has counted itself out of `busy`.
        let work = unsafe { &*job.work };
        let all = AssertUnwindSafe(|| {
            loop {
                let piece = self.next_piece.fetch_add(1, Ordering::Relaxed);
                if piece >= job.pieces {
                    break;
                }
                work(piece, worker);
            }
        });
        if let Err(panic) = catch_unwind(all) {
            self.next_piece.store(job.pieces, Ordering::Relaxed);
            lock(&self.panic).get_or_insert(panic);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_piece_runs_once() {
        for workers in 1..=4 {
            let mut pool = Pool::new(workers, |_| ()).unwrap();
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
        let mut pool = Pool::new(3, |_| ()).unwrap();
        pool.run(500, 2, &|_, worker| assert!(worker < 2));
        pool.run(500, 1, &|_, worker| assert_eq!(worker, 0));
    }

    #[test]
    fn sleeping_workers_wake_up() {
        let mut pool = Pool::new(2, |_| ()).unwrap();
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
        let mut pool = Pool::new(2, |_| ()).unwrap();
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
