//! The clock that cores really run at: a loop of additions, each of which waits for the one before, counted over time.
//!
//! An addition of two registers takes one cycle on every CPU that duan runs on, so additions per second are cycles per second, and
//! need no counter that a system may not give. An addition of a constant would not do: some CPUs do those before they are executed,
//! several in a cycle. The additions run in windows of a third of a millisecond at 3 GHz. The best window is what the core runs at;
//! the one in the middle is what the thread really got, so it is lower where somebody else had the core meanwhile: another program,
//! a quota, or the host of a virtual machine.
//!
//! Source: Agner Fog, "Instruction tables" (latency of ADD r,r); Arm's software optimization guides (latency of ADD, basic).

use std::sync::Barrier;
use std::time::Instant;

use crate::placement::Placement;
use crate::together::{Skipped, together};

/// Additions in a round of the loop. Its own counter runs beside them.
const ADDITIONS: u64 = 32;

/// Rounds in a window: 2^20 additions.
const ROUNDS: u64 = 1 << 15;

/// Windows of a measurement, which then takes some three milliseconds.
const WINDOWS: usize = 8;

/// What one thread had, when as many as were asked for ran at once.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ThreadClock {
    /// Cycles per second in the best window: what its core runs at.
    pub best_hz: f64,
    /// Cycles per second in the middle window: what it got of the core.
    pub median_hz: f64,
}

/// Measures on so many threads at once. Takes some milliseconds.
///
/// # Errors
/// Where additions cannot be counted on this architecture, or the system gives no threads.
pub(crate) fn clocks(threads: usize, placement: &Placement) -> Result<Vec<ThreadClock>, Skipped> {
    if !IS_KNOWN {
        let message = "no loop of additions is written for this architecture; it is for x86-64 and 64-bit Arm";
        return Err(Skipped(message.into()));
    }
    let threads = threads.max(1);
    let barrier = Barrier::new(threads);
    together(threads, placement, &|| {
        barrier.wait();
        clock()
    })
}

/// Measures on this thread.
fn clock() -> ThreadClock {
    // The first window wakes the core up, and does not count.
    additions(ROUNDS);
    let mut rates = [0.0; WINDOWS];
    for rate in &mut rates {
        let start = Instant::now();
        let count = additions(ROUNDS);
        *rate = count as f64 / start.elapsed().as_secs_f64().max(1e-9);
    }
    rates.sort_unstable_by(f64::total_cmp);
    ThreadClock { best_hz: rates[WINDOWS - 1], median_hz: rates[(WINDOWS - 1) / 2] }
}

/// Whether [`additions`] does what it says here.
const IS_KNOWN: bool = cfg!(any(target_arch = "x86_64", target_arch = "aarch64"));

/// Adds one again and again, each time to the sum before, and returns the sum.
#[cfg(target_arch = "x86_64")]
fn additions(rounds: u64) -> u64 {
    let mut sum = 0u64;
    // SAFETY: the instructions read and write the three registers that are named, and the flags. The loop ends, since it counts
    // down from at least one.
    unsafe {
        std::arch::asm!(
            "2:",
            ".rept {additions}",
            "add {sum}, {one}",
            ".endr",
            "sub {rounds}, 1",
            "jnz 2b",
            additions = const ADDITIONS,
            sum = inout(reg) sum,
            one = in(reg) 1u64,
            rounds = inout(reg) rounds.max(1) => _,
            options(nomem, nostack),
        );
    }
    sum
}

/// Adds one again and again, each time to the sum before, and returns the sum.
#[cfg(target_arch = "aarch64")]
fn additions(rounds: u64) -> u64 {
    let mut sum = 0u64;
    // SAFETY: the instructions read and write the three registers that are named, and the flags. The loop ends, since it counts
    // down from at least one.
    unsafe {
        std::arch::asm!(
            "2:",
            ".rept {additions}",
            "add {sum}, {sum}, {one}",
            ".endr",
            "subs {rounds}, {rounds}, #1",
            "b.ne 2b",
            additions = const ADDITIONS,
            sum = inout(reg) sum,
            one = in(reg) 1u64,
            rounds = inout(reg) rounds.max(1) => _,
            options(nomem, nostack),
        );
    }
    sum
}

/// What is never asked for, since [`IS_KNOWN`] says so.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn additions(rounds: u64) -> u64 {
    rounds.max(1) * ADDITIONS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    #[test]
    fn every_addition_is_counted() {
        assert_eq!([0, 1, 2, 1000].map(additions), [32, 32, 64, 32_000]);
    }

    #[test]
    fn every_thread_has_a_clock() {
        for threads in [1, 2, 5] {
            match clocks(threads, &Placement::free(2)) {
                Ok(clocks) => {
                    assert_eq!(clocks.len(), threads);
                    assert!(clocks.iter().all(|clock| clock.best_hz >= clock.median_hz && clock.median_hz > 0.0));
                }
                Err(skipped) if IS_KNOWN => panic!("{skipped}"),
                Err(_) => {}
            }
        }
    }
}
