//! Arm, 64 bits: the vector unit that every such CPU has, and the same with the dot-product instruction.
//!
//! Eight lanes are two registers of four. What works on eight numbers is one macro for both types; lanes and orders of
//! additions are those of x86, so that both give the same bits. The lanes of the matrix kernels are in [`super::neon_rows`].
//!
//! What has no stable intrinsic (here the prefetch) is one line of assembly. Nothing asks for an operating system: the
//! standard library knows how each one tells of the CPU.

use std::arch::aarch64::*;
use std::arch::{asm, is_aarch64_feature_detected};

use half::f16;

use super::{LANES, Simd, Task};

/// Calls intrinsics of an instruction set whose proof is `self`.
macro_rules! intrinsic {
    ($call:expr) => {
        // SAFETY: values of these types are only made by `detect`, after the CPU said that it has the
        // instructions; memory operands are references to arrays of exactly the width that is read or written.
        unsafe { $call }
    };
}
pub(super) use intrinsic;

/// Eight f32.
pub(super) type F = [float32x4_t; 2];

/// An intrinsic for both registers of each operand.
macro_rules! both {
    ($f:ident, $a:expr) => {{
        let a = $a;
        intrinsic!([$f(a[0]), $f(a[1])])
    }};
    ($f:ident, $a:expr, $b:expr) => {{
        let (a, b) = ($a, $b);
        intrinsic!([$f(a[0], b[0]), $f(a[1], b[1])])
    }};
    ($f:ident, $a:expr, $b:expr, $c:expr) => {{
        let (a, b, c) = ($a, $b, $c);
        intrinsic!([$f(a[0], b[0], c[0]), $f(a[1], b[1], c[1])])
    }};
}

pub(super) use both;

/// The larger of each pair of lanes, `b` where one is NaN: what the x86 instruction does.
#[inline(always)]
fn larger(a: float32x4_t, b: float32x4_t) -> float32x4_t {
    intrinsic!(vbslq_f32(vcgtq_f32(a, b), a, b))
}

/// The smaller of each pair of lanes, `b` where one is NaN.
#[inline(always)]
fn smaller(a: float32x4_t, b: float32x4_t) -> float32x4_t {
    intrinsic!(vbslq_f32(vcltq_f32(a, b), a, b))
}

/// Widens eight half floats.
#[inline(always)]
pub(super) fn widen(bits: uint16x8_t) -> F {
    intrinsic!({
        let halves = vreinterpretq_f16_u16(bits);
        [vcvt_f32_f16(vget_low_f16(halves)), vcvt_high_f32_f16(halves)]
    })
}

macro_rules! instruction_set {
    ($(#[$doc:meta])* $name:ident, $features:literal, [$($feature:tt),*]) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy)]
        pub(crate) struct $name(());

        impl $name {
            /// The proof, where this CPU and its operating system have the instructions.
            pub(crate) fn detect() -> Option<Self> {
                ($(is_aarch64_feature_detected!($feature))&&*).then_some(Self(()))
            }
        }

        impl Simd for $name {
            type F = F;

            fn vectorize<T: Task>(self, task: T) -> T::Output {
                #[target_feature(enable = $features)]
                fn inner<T: Task>(task: T, simd: $name) -> T::Output {
                    task.run(simd)
                }
                // SAFETY: `self` exists, so the CPU has the features of `inner`.
                unsafe { inner(task, self) }
            }

            #[inline(always)]
            fn prefetch<T>(self, from: &[T], offset: usize) {
                let address = from.as_ptr().cast::<u8>().wrapping_add(offset);
                // SAFETY: a prefetch is a hint that cannot fault, whatever the address.
                unsafe {
                    asm!("prfm pldl1keep, [{at}]", at = in(reg) address, options(readonly, nostack, preserves_flags));
                }
            }
            #[inline(always)]
            fn prefetch_far<T>(self, from: &[T], offset: usize) {
                let address = from.as_ptr().cast::<u8>().wrapping_add(offset);
                // SAFETY: as above.
                unsafe {
                    asm!("prfm pldl2keep, [{at}]", at = in(reg) address, options(readonly, nostack, preserves_flags));
                }
            }
            #[inline(always)]
            fn splat(self, x: f32) -> F {
                intrinsic!([vdupq_n_f32(x); 2])
            }
            #[inline(always)]
            fn load(self, from: &[f32; LANES]) -> F {
                intrinsic!([vld1q_f32(from.as_ptr()), vld1q_f32(from.as_ptr().add(4))])
            }
            #[inline(always)]
            fn store(self, x: F, to: &mut [f32; LANES]) {
                intrinsic!({
                    vst1q_f32(to.as_mut_ptr(), x[0]);
                    vst1q_f32(to.as_mut_ptr().add(4), x[1]);
                })
            }
            #[inline(always)]
            fn add(self, a: F, b: F) -> F {
                both!(vaddq_f32, a, b)
            }
            #[inline(always)]
            fn sub(self, a: F, b: F) -> F {
                both!(vsubq_f32, a, b)
            }
            #[inline(always)]
            fn mul(self, a: F, b: F) -> F {
                both!(vmulq_f32, a, b)
            }
            #[inline(always)]
            fn div(self, a: F, b: F) -> F {
                both!(vdivq_f32, a, b)
            }
            #[inline(always)]
            fn mul_add(self, a: F, b: F, c: F) -> F {
                both!(vfmaq_f32, c, a, b)
            }
            #[inline(always)]
            fn max(self, a: F, b: F) -> F {
                [larger(a[0], b[0]), larger(a[1], b[1])]
            }
            #[inline(always)]
            fn min(self, a: F, b: F) -> F {
                [smaller(a[0], b[0]), smaller(a[1], b[1])]
            }
            #[inline(always)]
            fn abs(self, a: F) -> F {
                both!(vabsq_f32, a)
            }
            #[inline(always)]
            fn round(self, a: F) -> F {
                both!(vrndnq_f32, a)
            }
            #[inline(always)]
            fn power_of_two(self, a: F) -> F {
                a.map(|a| {
                    intrinsic!({
                        let exponent = vaddq_s32(vcvtnq_s32_f32(a), vdupq_n_s32(127));
                        vreinterpretq_f32_s32(vshlq_n_s32::<23>(exponent))
                    })
                })
            }
            #[inline(always)]
            fn zero_below(self, x: F, limit: F, value: F) -> F {
                let keep = |x, limit, value| {
                    intrinsic!({
                        let bits = vbicq_u32(vreinterpretq_u32_f32(value), vcltq_f32(x, limit));
                        vreinterpretq_f32_u32(bits)
                    })
                };
                [keep(x[0], limit[0], value[0]), keep(x[1], limit[1], value[1])]
            }
            #[inline(always)]
            fn sum(self, a: F) -> f32 {
                intrinsic!({
                    let four = vaddq_f32(a[0], a[1]);
                    vpadds_f32(vget_low_f32(vpaddq_f32(four, four)))
                })
            }
            #[inline(always)]
            fn largest(self, a: F) -> f32 {
                intrinsic!({
                    let four = larger(a[0], a[1]);
                    let two = larger(four, vextq_f32::<2>(four, four));
                    vgetq_lane_f32::<0>(larger(two, vdupq_laneq_f32::<1>(two)))
                })
            }
            #[inline(always)]
            fn store_f16(self, x: F, to: &mut [f16; LANES]) {
                intrinsic!({
                    // Minimum and maximum return their second operand for NaN, which so passes through.
                    let held = x.map(|x| smaller(vdupq_n_f32(65504.0), larger(vdupq_n_f32(-65504.0), x)));
                    let narrow = vcvt_high_f16_f32(vcvt_f16_f32(held[0]), held[1]);
                    vst1q_u16(to.as_mut_ptr().cast(), vreinterpretq_u16_f16(narrow));
                })
            }
            #[inline(always)]
            fn round_to_i8(self, x: [F; 4], to: &mut [[i8; 4]; 8]) -> [i32; 2] {
                intrinsic!({
                    let words = x.map(|[a, b]| [vcvtnq_s32_f32(a), vcvtnq_s32_f32(b)]);
                    let [a, b, c, d] = words.map(|[a, b]| vqmovn_high_s32(vqmovn_s32(a), b));
                    let to = to.as_flattened_mut();
                    vst1q_s8(to.as_mut_ptr(), vqmovn_high_s16(vqmovn_s16(a), b));
                    vst1q_s8(to.as_mut_ptr().add(16), vqmovn_high_s16(vqmovn_s16(c), d));
                    let [a, b, c, d] = words.map(|[a, b]| vaddq_s32(a, b));
                    [vaddvq_s32(vaddq_s32(a, b)), vaddvq_s32(vaddq_s32(c, d))]
                })
            }
        }
    };
}

instruction_set!(
    /// The vector unit alone: any 64-bit Arm (Armv8.0, Cortex-A53, Cortex-A72).
    Neon, "neon", ["neon"]
);
instruction_set!(
    /// The same with the dot product of bytes: Armv8.4, and many before it (Cortex-A55 and A76, Apple's M1).
    NeonDotprod, "neon,dotprod", ["neon", "dotprod"]
);
instruction_set!(
    /// The same with the matrix product of bytes: Armv8.6, and many before it (Cortex-X2 and A710, Neoverse V1, Apple's M2).
    NeonI8mm, "neon,dotprod,i8mm", ["neon", "dotprod", "i8mm"]
);
