//! How fast the multiplier is, for each sequence of instructions that kernels use: the ceiling over prefill.
//!
//! Which sequence a kernel uses depends on the instruction set, on how many bits its codes have and on whether halves of a group have
//! scales of their own (see [`crate::kernels::peak`]). Formats with the same sequence have the same ceiling, so it is measured once.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::isa::Isa;
use crate::kernels::peak::{IsOneForAll, Run};
use crate::kernels::{KERNELS, Operands};
use crate::pool::Pool;
use crate::rates::{Effort, best};

/// Pieces of work for each worker: nobody waits long for who begins late.
const PIECES: usize = 8;
/// Rounds of the loop in a piece to begin with.
const ROUNDS: usize = 64;

/// Time for one figure, and for one of its rounds.
const EFFORT: Effort = Effort { bytes: 0, figure: Duration::from_millis(100), round: Duration::from_millis(25) };

/// What a sequence of instructions gives in registers.
#[derive(Debug, Clone, PartialEq)]
pub struct Peak {
    /// The instruction set.
    pub isa: &'static str,
    /// The instruction that multiplies, and what it is given where that matters.
    pub instruction: String,
    /// The formats whose kernels use it.
    pub formats: Vec<&'static str>,
    /// Threads that ran it at once.
    pub threads: usize,
    /// Multiply-adds per second of all threads together, in the best round.
    pub multiply_adds_per_s: f64,
}

/// A sequence of instructions.
pub(crate) struct Sequence {
    isa: Isa,
    instruction: String,
    formats: Vec<&'static str>,
    run: Run,
}

impl Sequence {
    /// All that the kernels use on an instruction set, that of floats first.
    pub(crate) fn all(isa: Isa) -> Vec<Sequence> {
        let mut all: Vec<Sequence> = Vec::new();
        for kernel in KERNELS {
            let instruction = instruction(isa, kernel.operands);
            match all.iter_mut().find(|sequence| sequence.instruction == instruction) {
                Some(sequence) => sequence.formats.push(kernel.format),
                None => all.push(Sequence { isa, instruction, formats: vec![kernel.format], run: kernel.peak }),
            }
        }
        all
    }

    /// What it is called.
    pub(crate) fn instruction(&self) -> &str {
        &self.instruction
    }

    /// Measures it on so many of the pool's workers; nothing where it was cancelled.
    pub(crate) fn peak(&self, pool: &mut Pool, threads: usize, cancel: &AtomicBool) -> Option<Peak> {
        let multiply_adds_per_s = peak(pool, threads, self.run, self.isa, EFFORT);
        (!cancel.load(Ordering::Relaxed)).then(|| Peak {
            isa: self.isa.name(),
            instruction: self.instruction.clone(),
            formats: self.formats.clone(),
            threads,
            multiply_adds_per_s,
        })
    }
}

/// The name of a sequence: of its instruction, and of what it is given where one instruction does not do it all.
fn instruction(isa: Isa, operands: Operands) -> String {
    match operands {
        Operands::Floats => isa.multiplier(false).to_owned(),
        Operands::Codes { .. } if isa.run(IsOneForAll) => isa.multiplier(true).to_owned(),
        Operands::Codes { bits, halves } => {
            let halves = if halves { " in halves" } else { "" };
            format!("{}, {}-bit codes{halves}", isa.multiplier(true), bits.max(4))
        }
    }
}

/// Multiply-adds per second of a kernel's own instructions, on so many of the pool's workers.
pub(crate) fn peak(pool: &mut Pool, threads: usize, run: Run, isa: Isa, effort: Effort) -> f64 {
    let pieces = threads * PIECES;
    let multiply_adds = run(isa, ROUNDS) as f64 / ROUNDS as f64;
    let (rounds, seconds) = best(pool, threads, effort, ROUNDS << 12, |pool, rounds| {
        let start = Instant::now();
        pool.run(pieces, threads, &|_, _| {
            run(isa, rounds);
        });
        start.elapsed()
    });
    pieces as f64 * rounds as f64 * multiply_adds / seconds
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::placement::Placement;

    #[test]
    fn every_kernel_has_one_sequence() {
        for isa in Isa::available() {
            let all = Sequence::all(isa);
            let formats = || all.iter().flat_map(|sequence| &sequence.formats);
            assert_eq!(formats().count(), KERNELS.len());
            for kernel in KERNELS {
                assert_eq!(formats().filter(|format| **format == kernel.format).count(), 1, "{}", kernel.format);
            }
            assert_eq!(all[0].formats, ["F32", "F16", "BF16"]);
            let of = |name| all.iter().find(|sequence| sequence.formats.contains(&name)).unwrap().instruction();
            assert_eq!((of("Q4_K"), of("int8-g64")), (of("Q4_0"), of("Q8_0")));
            assert_eq!(of("Q4_0") == of("Q6_K"), isa.run(IsOneForAll), "{}", isa.name());
        }
    }

    #[test]
    fn a_peak_is_of_so_many_threads() {
        let mut pool = Pool::new(Placement::free(2)).unwrap();
        let sequence = &Sequence::all(Isa::scalar())[0];
        let cancel = AtomicBool::new(false);
        let peak = sequence.peak(&mut pool, 2, &cancel).unwrap();
        assert_eq!((peak.isa, peak.threads, peak.instruction.as_str()), ("scalar", 2, "plain code"));
        assert!(peak.multiply_adds_per_s.is_finite() && peak.multiply_adds_per_s > 0.0);
        cancel.store(true, Ordering::Relaxed);
        assert_eq!(sequence.peak(&mut pool, 2, &cancel), None);
    }
}
