//! Eight numbers at a time: the vocabulary of everything but the matrix kernels, whose lanes are in [`rows`].
//!
//! [`Simd`] is implemented by values that exist only where the CPU has the instructions (`Avx2`, `AvxVnni` and
//! `Avx512Vnni` on x86-64, `Neon`, `NeonDotprod` and `NeonI8mm` on 64-bit Arm) and by [`Portable`], plain arrays that every CPU has. A
//! kernel is a [`Task`], written once, and [`Simd::vectorize`] runs it compiled for that instruction set.
//!
//! All implementations keep the same lanes, the same order of additions, and round a multiplication with an addition
//! once, so that they give the same bits.

#[cfg(target_arch = "x86_64")]
mod avx2;
mod fused;
mod math;
#[cfg(target_arch = "aarch64")]
mod neon;
#[cfg(target_arch = "aarch64")]
mod neon_rows;
mod portable;
mod rows;
#[cfg(test)]
mod tests;
#[cfg(target_arch = "x86_64")]
mod x86_rows;

#[cfg(target_arch = "x86_64")]
pub(crate) use avx2::{Avx2, Avx512Vnni, AvxVnni};
pub(crate) use math::{exp, gelu_tanh, silu, tanh};
#[cfg(target_arch = "aarch64")]
pub(crate) use neon::{Neon, NeonDotprod, NeonI8mm};
pub(crate) use portable::Portable;
pub(crate) use rows::{CodeKind, PANEL_ROWS, RowSimd};

/// Lanes of a vector of floats.
pub(crate) const LANES: usize = 8;

/// Work that is compiled once for each instruction set.
pub(crate) trait Task {
    /// What it returns.
    type Output;

    /// The work. Implementations are `#[inline(always)]`, so that they end up inside the function that
    /// has the instruction set enabled.
    fn run<S: Simd>(self, simd: S) -> Self::Output;
}

/// Proof of an instruction set, and its operations.
#[allow(clippy::wrong_self_convention, reason = "self is the proof, not what is converted")]
pub(crate) trait Simd: RowSimd {
    /// Eight f32.
    type F: Copy;

    /// Runs `task` compiled for this instruction set.
    fn vectorize<T: Task>(self, task: T) -> T::Output;

    /// Asks the nearest cache for the line `offset` bytes after the start of `from`, which may lie beyond it.
    fn prefetch<T>(self, from: &[T], offset: usize);
    /// Asks the second cache for it.
    fn prefetch_far<T>(self, from: &[T], offset: usize);

    fn splat(self, x: f32) -> Self::F;
    fn load(self, from: &[f32; LANES]) -> Self::F;
    fn store(self, x: Self::F, to: &mut [f32; LANES]);
    fn add(self, a: Self::F, b: Self::F) -> Self::F;
    fn sub(self, a: Self::F, b: Self::F) -> Self::F;
    fn mul(self, a: Self::F, b: Self::F) -> Self::F;
    fn div(self, a: Self::F, b: Self::F) -> Self::F;
    /// `a * b + c`, rounded once.
    fn mul_add(self, a: Self::F, b: Self::F, c: Self::F) -> Self::F;
    /// The larger, `b` where one of them is NaN.
    fn max(self, a: Self::F, b: Self::F) -> Self::F;
    /// The smaller, `b` where one of them is NaN.
    fn min(self, a: Self::F, b: Self::F) -> Self::F;
    fn abs(self, a: Self::F) -> Self::F;
    /// To the nearest whole number, halves to even.
    fn round(self, a: Self::F) -> Self::F;
    /// `2^a` for whole `a` in -126..=127.
    fn power_of_two(self, a: Self::F) -> Self::F;
    /// 0 where `x < limit`, else `value` (so also where `x` is NaN).
    fn zero_below(self, x: Self::F, limit: Self::F, value: Self::F) -> Self::F;
    /// The sum of all lanes, in the one order that all implementations share.
    fn sum(self, a: Self::F) -> f32;
    /// The largest lane.
    fn largest(self, a: Self::F) -> f32;
    /// Narrows to half floats; what is beyond them becomes the largest half float of its sign.
    fn store_f16(self, x: Self::F, to: &mut [half::f16; LANES]);

    /// Rounds (halves to even) 32 floats to i8 codes; returns the sums of the first and the second sixteen. They must lie
    /// within i8.
    fn round_to_i8(self, x: [Self::F; 4], to: &mut [[i8; 4]; 8]) -> [i32; 2];
}

/// How far ahead of a kernel that reads weights once the nearest cache is asked for them, and the second one. One distance
/// alone cannot do both: the buffers that wait for memory are few, and are held shorter by what the second cache has already.
const NEAR_BYTES: usize = 1024;
const FAR_BYTES: usize = 3072;
/// What the memory hands out at once.
pub(crate) const CACHE_LINE_BYTES: usize = 64;

/// Asks the caches for what comes after the `length` bytes from `offset` that a kernel reads now.
#[inline(always)]
pub(crate) fn read_ahead<S: Simd, T>(s: S, from: &[T], offset: usize, length: usize) {
    for line in (0..length).step_by(CACHE_LINE_BYTES) {
        s.prefetch_far(from, offset + FAR_BYTES + line);
        s.prefetch(from, offset + NEAR_BYTES + line);
    }
}

/// A slice as whole vectors; the rest, if any, is the caller's.
#[inline(always)]
pub(crate) fn vectors(x: &[f32]) -> &[[f32; LANES]] {
    x.as_chunks().0
}
