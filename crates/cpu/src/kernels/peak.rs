//! How fast the multiplications of a kernel could be: its own instructions, on operands that lie in registers.
//!
//! Nothing is unpacked, scaled or read from memory here, so no kernel reaches this; how near it comes is its share. With a
//! dot-product instruction the peak is that of the instruction. Without one, products of bytes meet in 16 bits, and how many
//! of them may be added there before they must be widened depends on the format, and so does the peak.

use std::hint::black_box;
use std::marker::PhantomData;

use super::formats::Codes;
use crate::isa::Isa;
use crate::simd::{Simd, Task};

/// Runs so many rounds, and returns how many multiply-adds there were.
pub(crate) type Run = fn(Isa, usize) -> u64;

/// Sums that do not wait for each other: as many as a latency of six cycles times two in each cycle needs.
const SUMS: usize = 12;
/// Steps of each sum in a round.
const STEPS: usize = 8;
/// Tokens that meet the same codes where there is no dot-product instruction.
const TOKENS: usize = 4;

/// The peak of a quantized format.
pub(crate) fn of_codes<C: Codes>(isa: Isa, rounds: usize) -> u64 {
    isa.run(CodesPeak::<C>(rounds, PhantomData))
}

/// The peak of the float formats.
pub(crate) fn of_floats(isa: Isa, rounds: usize) -> u64 {
    isa.run(FloatsPeak(rounds))
}

/// Whether all quantized formats have the same peak: where one instruction multiplies and adds.
pub(crate) struct IsOneForAll;

impl Task for IsOneForAll {
    type Output = bool;

    #[inline(always)]
    fn run<S: Simd>(self, _: S) -> bool {
        S::STEPWISE
    }
}

struct CodesPeak<C>(usize, PhantomData<C>);

impl<C: Codes> Task for CodesPeak<C> {
    type Output = u64;

    #[inline(always)]
    fn run<S: Simd>(self, s: S) -> u64 {
        if const { S::STEPWISE } { steps::<S, C>(s, self.0) } else { dots::<S, C>(s, self.0) }
    }
}

/// One instruction multiplies and adds.
#[inline(always)]
fn steps<S: Simd, C: Codes>(s: S, rounds: usize) -> u64 {
    let bytes = black_box([[1u8; 64]; SUMS + 1]);
    let activations = black_box([1i8, 2, 3, 4]);
    let codes = s.words(&bytes[SUMS]);
    // What the compiler does not know to be equal it does not compute once for all.
    let mut sums = [s.zeros(); SUMS];
    for index in 0..SUMS {
        sums[index] = s.words(&bytes[index]);
    }
    for _ in 0..rounds {
        for _ in 0..STEPS {
            for index in 0..SUMS {
                sums[index] = s.step(C::KIND, sums[index], codes, activations);
            }
        }
    }
    let mut out = [0; 64];
    for sum in sums {
        s.put_words(sum, &mut out);
        black_box(out);
    }
    (rounds * STEPS * SUMS * 4 * S::ROWS) as u64
}

/// A group at a time, as the kernels without such an instruction do it.
#[inline(always)]
fn dots<S: Simd, C: Codes>(s: S, rounds: usize) -> u64 {
    let bytes = black_box([[1u8; 64]; 8]);
    let activations = black_box([[[1i8, 2, 3, 4]; 8]; TOKENS]);
    let mut codes = [s.zeros(); 8];
    for index in 0..8 {
        codes[index] = s.words(&bytes[index]);
    }
    let mut sums = [s.zeros(); TOKENS];
    for _ in 0..rounds {
        // They might have changed, so that no round is that of before.
        let codes = *black_box(&codes);
        if const { S::PAIRWISE } {
            two_by_two::<S, C>(s, &codes, &activations, &mut sums);
            continue;
        }
        for token in 0..TOKENS {
            if C::HALVES {
                let (codes, activations) = (codes.as_chunks::<4>().0, activations[token].as_chunks::<4>().0);
                sums[token] = s.either(sums[token], s.dot(C::KIND, &codes[0], &activations[0], 0));
                sums[token] = s.either(sums[token], s.dot(C::KIND, &codes[1], &activations[1], 0));
            } else {
                sums[token] = s.either(sums[token], s.dot(C::KIND, &codes, &activations[token], 0));
            }
        }
    }
    let mut out = [0; 64];
    for sum in sums {
        s.put_words(sum, &mut out);
        black_box(out);
    }
    (rounds * TOKENS * 8 * 4 * S::ROWS) as u64
}

/// The tokens in pairs, for instructions that multiply two at once.
#[inline(always)]
fn two_by_two<S: Simd, C: Codes>(
    s: S,
    codes: &[S::Words; 8],
    activations: &[[[i8; 4]; 8]; TOKENS],
    sums: &mut [S::Words; TOKENS],
) {
    for first in (0..TOKENS / 2 * 2).step_by(2) {
        let (a, b) = (&activations[first], &activations[first + 1]);
        for half in 0..if C::HALVES { 2 } else { 1 } {
            let dots = if C::HALVES {
                let (codes, a, b) = (codes.as_chunks::<4>().0, a.as_chunks::<4>().0, b.as_chunks::<4>().0);
                s.dot_two(C::KIND, &codes[half], [&a[half], &b[half]], [0; 2])
            } else {
                s.dot_two(C::KIND, codes, [a, b], [0; 2])
            };
            for t in 0..2 {
                sums[first + t] = s.either(sums[first + t], dots[t]);
            }
        }
    }
}

struct FloatsPeak(usize);

impl Task for FloatsPeak {
    type Output = u64;

    #[inline(always)]
    fn run<S: Simd>(self, s: S) -> u64 {
        // Vectors that are plain arrays fill two registers each.
        if const { S::FLOAT_TOKENS >= 8 } { floats::<S, SUMS>(s, self.0) } else { floats::<S, 4>(s, self.0) }
    }
}

#[inline(always)]
fn floats<S: Simd, const N: usize>(s: S, rounds: usize) -> u64 {
    let numbers = black_box([[0.5f32; 16]; SUMS + 2]);
    let (weights, x) = (s.get(&numbers[SUMS]), s.get(&numbers[SUMS + 1]));
    let mut sums = [weights; N];
    for index in 0..N {
        sums[index] = s.get(&numbers[index]);
    }
    for _ in 0..rounds {
        for _ in 0..STEPS {
            for index in 0..N {
                sums[index] = s.times_plus(weights, x, sums[index]);
            }
        }
    }
    let mut out = [0.0; 16];
    for sum in sums {
        s.put(sum, &mut out);
        black_box(out);
    }
    (rounds * STEPS * N * S::ROWS) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::KERNELS;

    #[test]
    fn multiply_adds_are_counted_in_proportion_to_rounds() {
        for isa in Isa::available() {
            for kernel in KERNELS {
                let one = (kernel.peak)(isa, 1);
                assert!(one >= 8 * 32, "{} {}", kernel.format, isa.name());
                assert_eq!((kernel.peak)(isa, 5), 5 * one, "{} {}", kernel.format, isa.name());
            }
        }
    }
}
