//! The same work on several threads that begin together, for measurements: all threads are there before any of them begins.

use std::fmt;
use std::sync::mpsc;
use std::thread;

use crate::placement::{Held, Placement};

/// Why nothing was measured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skipped(pub String);

impl fmt::Display for Skipped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Skipped {}

/// Runs `work` on so many new threads, each held to the CPUs that `placement` has for it, and returns what each gave. Since nobody
/// begins before all are there, the work may wait for the others at a barrier.
///
/// # Errors
/// When the system gives no such number of threads; then none of them does any work.
pub(crate) fn together<T: Send>(
    threads: usize,
    placement: &Placement,
    work: &(dyn Fn() -> T + Sync),
) -> Result<Vec<T>, Skipped> {
    thread::scope(|scope| {
        let mut workers = Vec::with_capacity(threads);
        for worker in 0..threads {
            // Without a word on the channel, a thread ends.
            let (begin, begins) = mpsc::channel();
            let cpus = placement.cpus(worker);
            let run = move || {
                let _held = Held::to(cpus);
                begins.recv().is_ok().then(work)
            };
            let spawned = thread::Builder::new().spawn_scoped(scope, run);
            workers.push((begin, spawned.map_err(|error| no_threads(threads, &error))?));
        }
        for (begin, _) in &workers {
            // The other end waits for it.
            let _ = begin.send(());
        }
        // What is measured does nothing that panics.
        Ok(workers.into_iter().filter_map(|(_, worker)| worker.join().ok().flatten()).collect())
    })
}

pub(crate) fn no_threads(threads: usize, error: &std::io::Error) -> Skipped {
    Skipped(format!("{threads} threads were asked for: {error}"))
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use super::*;

    #[test]
    fn all_are_there_before_one_begins() {
        for threads in [1, 2, 7] {
            let barrier = Barrier::new(threads);
            let leaders = together(threads, &Placement::free(2), &|| barrier.wait().is_leader()).unwrap();
            assert_eq!((leaders.len(), leaders.iter().filter(|leader| **leader).count()), (threads, 1));
        }
    }
}
