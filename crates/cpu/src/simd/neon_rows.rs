//! Arm, 64 bits: the lanes of [`super::rows`], eight of them in two registers.

use std::arch::aarch64::*;
use std::arch::asm;

use half::f16;

use super::neon::{F, Neon, NeonDotprod, NeonI8mm, both, intrinsic, widen};
use super::rows::{CodeKind, RowSimd};

/// Four bytes for each of eight rows.
type Words = [uint8x16_t; 2];

/// The start of `from`, after a check that `length` bytes follow.
#[inline(always)]
fn at(from: &[u8], length: usize) -> *const u8 {
    from[..length].as_ptr()
}

/// Four activations as one lane.
#[inline(always)]
fn word(activations: [i8; 4]) -> i32 {
    i32::from_le_bytes(activations.map(|code| code as u8))
}

/// Eight unsigned numbers as words.
#[inline(always)]
fn widen_words(numbers: uint16x8_t) -> Words {
    let words = intrinsic!([vmovl_u16(vget_low_u16(numbers)), vmovl_high_u16(numbers)]);
    both!(vreinterpretq_u8_u32, words)
}

/// What a sum of codes starts with, so that the code which stands for 0 is one.
#[inline(always)]
fn start(kind: CodeKind, minus_eight_sums: i32) -> i32 {
    if kind.bits == 8 { 0 } else { minus_eight_sums / 8 * kind.zero }
}

/// Sums of bytes by fours with the vector unit alone: products meet in 16 bits, where as many vectors are added as cannot
/// overflow: eight of 5-bit codes come to at most `8 * 31 * 127 = 31496`.
///
/// # Safety
/// The CPU must have the vector unit.
#[inline(always)]
unsafe fn dot_by_widening<const N: usize>(
    kind: CodeKind,
    codes: &[Words; N],
    activations: &[[i8; 4]; N],
    minus_eight_sums: i32,
) -> Words {
    let together = match kind.bits {
        ..=5 => 8,
        6 => 4,
        _ => 2,
    };
    let dot = |register: usize| {
        intrinsic!({
            let mut sums = [vdupq_n_s32(0); 2];
            for (codes, activations) in codes.chunks(together).zip(activations.chunks(together)) {
                let mut products = [vdupq_n_s16(0); 2];
                for (codes, activations) in codes.iter().zip(activations) {
                    let codes = vreinterpretq_s8_u8(codes[register]);
                    let word = vreinterpretq_s8_s32(vdupq_n_s32(word(*activations)));
                    products[0] = vmlal_s8(products[0], vget_low_s8(codes), vget_low_s8(word));
                    products[1] = vmlal_high_s8(products[1], codes, word);
                }
                sums = [vpadalq_s16(sums[0], products[0]), vpadalq_s16(sums[1], products[1])];
            }
            let rows = vpaddq_s32(sums[0], sums[1]);
            vreinterpretq_u8_s32(vaddq_s32(rows, vdupq_n_s32(start(kind, minus_eight_sums))))
        })
    };
    [dot(0), dot(1)]
}

/// The same where one instruction multiplies and adds. It takes one of four activations from a register, so nothing is
/// broadcast.
///
/// # Safety
/// The CPU must have the feature `dotprod`.
#[inline(always)]
unsafe fn dot_at_once<const N: usize>(
    kind: CodeKind,
    codes: &[Words; N],
    activations: &[[i8; 4]; N],
    minus_eight_sums: i32,
) -> Words {
    const { assert!(N.is_multiple_of(4), "activations are taken four words at a time") };
    let dot = |register: usize| {
        let mut sums = intrinsic!(vdupq_n_s32(start(kind, minus_eight_sums)));
        for (codes, activations) in codes.as_chunks::<4>().0.iter().zip(activations.as_chunks::<4>().0) {
            // SAFETY: the caller says that the CPU has the instruction, which reads and writes registers only; the array
            // that is loaded has sixteen bytes. The assembler is told of the feature within these lines alone.
            unsafe {
                asm!(
                    ".arch_extension dotprod",
                    "sdot {sums:v}.4s, {a:v}.16b, {x:v}.4b[0]",
                    "sdot {sums:v}.4s, {b:v}.16b, {x:v}.4b[1]",
                    "sdot {sums:v}.4s, {c:v}.16b, {x:v}.4b[2]",
                    "sdot {sums:v}.4s, {d:v}.16b, {x:v}.4b[3]",
                    sums = inout(vreg) sums,
                    a = in(vreg) codes[0][register],
                    b = in(vreg) codes[1][register],
                    c = in(vreg) codes[2][register],
                    d = in(vreg) codes[3][register],
                    x = in(vreg) vld1q_s8(activations.as_flattened().as_ptr()),
                    options(pure, nomem, nostack, preserves_flags),
                );
            }
        }
        intrinsic!(vreinterpretq_u8_s32(sums))
    };
    [dot(0), dot(1)]
}

/// Adds four columns to sums, with the vector unit alone.
///
/// # Safety
/// The CPU must have the vector unit.
#[inline(always)]
unsafe fn step_by_widening(kind: CodeKind, sum: Words, codes: Words, activations: [i8; 4]) -> Words {
    let products = intrinsic!(dot_by_widening(CodeKind { zero: 0, ..kind }, &[codes], &[activations], 0));
    let (sum, products) = (both!(vreinterpretq_s32_u8, sum), both!(vreinterpretq_s32_u8, products));
    both!(vreinterpretq_u8_s32, both!(vaddq_s32, sum, products))
}

/// The same in one instruction for each register.
///
/// # Safety
/// The CPU must have the feature `dotprod`.
#[inline(always)]
unsafe fn step_at_once(_: CodeKind, sum: Words, codes: Words, activations: [i8; 4]) -> Words {
    let activations = intrinsic!(vdupq_n_s32(word(activations)));
    let [mut low, mut high] = sum;
    // SAFETY: the caller says that the CPU has the instruction, which reads and writes registers only. The assembler is
    // told of the feature within these lines alone.
    unsafe {
        asm!(
            ".arch_extension dotprod",
            "sdot {low:v}.4s, {a:v}.16b, {x:v}.16b",
            "sdot {high:v}.4s, {b:v}.16b, {x:v}.16b",
            low = inout(vreg) low,
            high = inout(vreg) high,
            a = in(vreg) codes[0],
            b = in(vreg) codes[1],
            x = in(vreg) activations,
            options(pure, nomem, nostack, preserves_flags),
        );
    }
    [low, high]
}

/// Eight columns of two rows in each register, of the rows in their order.
#[inline(always)]
fn two_rows_each([low, high]: [Words; 2]) -> [Words; 2] {
    let zip = |register: usize| {
        intrinsic!({
            let (low, high) = (vreinterpretq_u32_u8(low[register]), vreinterpretq_u32_u8(high[register]));
            [vreinterpretq_u8_u32(vzip1q_u32(low, high)), vreinterpretq_u8_u32(vzip2q_u32(low, high))]
        })
    };
    [zip(0), zip(1)]
}

/// Sums for two tokens where one instruction multiplies eight columns of two rows with those of both. Its four lanes are the
/// first row's sums for both tokens, then the second row's. `codes` are as [`two_rows_each`] gives them.
///
/// # Safety
/// The CPU must have the feature `i8mm`.
#[inline(always)]
unsafe fn dot_two_at_once<const N: usize>(
    kind: CodeKind,
    codes: &[Words; N],
    activations: [&[[i8; 4]; N]; 2],
    minus_eight_sums: [i32; 2],
) -> [Words; 2] {
    const { assert!(N.is_multiple_of(4), "activations are taken four words at a time") };
    let starts = minus_eight_sums.map(|sums| start(kind, sums));
    let starts = [starts[0], starts[1], starts[0], starts[1]];
    // Rows 0 and 1, 2 and 3, 4 and 5, 6 and 7.
    let mut sums = [intrinsic!(vld1q_s32(starts.as_ptr())); 4];
    let (first, second) = (activations[0].as_chunks::<4>().0, activations[1].as_chunks::<4>().0);
    for (codes, (first, second)) in codes.as_chunks::<4>().0.iter().zip(first.iter().zip(second)) {
        let both_tokens = intrinsic!({
            let first = vreinterpretq_s64_s8(vld1q_s8(first.as_flattened().as_ptr()));
            let second = vreinterpretq_s64_s8(vld1q_s8(second.as_flattened().as_ptr()));
            [vzip1q_s64(first, second), vzip2q_s64(first, second)]
        });
        let [a, b, c, d] = &mut sums;
        // SAFETY: the caller says that the CPU has the instruction, which reads and writes registers only. The assembler is
        // told of the feature within these lines alone.
        unsafe {
            asm!(
                ".arch_extension i8mm",
                "smmla {a:v}.4s, {a0:v}.16b, {x0:v}.16b",
                "smmla {b:v}.4s, {b0:v}.16b, {x0:v}.16b",
                "smmla {c:v}.4s, {c0:v}.16b, {x0:v}.16b",
                "smmla {d:v}.4s, {d0:v}.16b, {x0:v}.16b",
                "smmla {a:v}.4s, {a1:v}.16b, {x1:v}.16b",
                "smmla {b:v}.4s, {b1:v}.16b, {x1:v}.16b",
                "smmla {c:v}.4s, {c1:v}.16b, {x1:v}.16b",
                "smmla {d:v}.4s, {d1:v}.16b, {x1:v}.16b",
                a = inout(vreg) *a,
                b = inout(vreg) *b,
                c = inout(vreg) *c,
                d = inout(vreg) *d,
                a0 = in(vreg) codes[0][0],
                b0 = in(vreg) codes[0][1],
                c0 = in(vreg) codes[1][0],
                d0 = in(vreg) codes[1][1],
                a1 = in(vreg) codes[2][0],
                b1 = in(vreg) codes[2][1],
                c1 = in(vreg) codes[3][0],
                d1 = in(vreg) codes[3][1],
                x0 = in(vreg) both_tokens[0],
                x1 = in(vreg) both_tokens[1],
                options(pure, nomem, nostack, preserves_flags),
            );
        }
    }
    let [a, b, c, d] = sums;
    intrinsic!([
        [vreinterpretq_u8_s32(vuzp1q_s32(a, b)), vreinterpretq_u8_s32(vuzp1q_s32(c, d))],
        [vreinterpretq_u8_s32(vuzp2q_s32(a, b)), vreinterpretq_u8_s32(vuzp2q_s32(c, d))],
    ])
}

macro_rules! eight_rows {
    ($name:ident, $dot:ident, $step:ident $(, $more:item)*) => {
        impl RowSimd for $name {
            type Words = Words;
            type Floats = F;

            const ROWS: usize = 8;
            // Activations are not broadcast where there is an instruction for a step: it takes one of four from a register.
            const STEPWISE: bool = false;
            // Of 32 registers a group's codes take sixteen, and two for each token its sums.
            const CODE_TOKENS: usize = 4;
            const FLOAT_TOKENS: usize = 8;

            #[inline(always)]
            fn zeros(self) -> Words {
                intrinsic!([vdupq_n_u8(0); 2])
            }
            #[inline(always)]
            fn words(self, from: &[u8]) -> Words {
                let from = at(from, 32);
                intrinsic!([vld1q_u8(from), vld1q_u8(from.add(16))])
            }
            #[inline(always)]
            fn put_words(self, a: Words, to: &mut [u8]) {
                let to = to[..32].as_mut_ptr();
                intrinsic!({
                    vst1q_u8(to, a[0]);
                    vst1q_u8(to.add(16), a[1]);
                })
            }
            #[inline(always)]
            fn words_of_u16(self, from: &[u8]) -> Words {
                widen_words(intrinsic!(vreinterpretq_u16_u8(vld1q_u8(at(from, 16)))))
            }
            #[inline(always)]
            fn words_of_u8(self, from: &[u8]) -> Words {
                widen_words(intrinsic!(vmovl_u8(vld1_u8(at(from, 8)))))
            }
            #[inline(always)]
            fn field<const N: u32>(self, a: Words, mask: u8) -> Words {
                self.field_at(a, N, mask)
            }
            #[inline(always)]
            fn field_at(self, a: Words, shift: u32, mask: u8) -> Words {
                // A shift to the left by less than nothing; with a number known at compile time it becomes one to the right.
                a.map(|a| intrinsic!(vandq_u8(vshlq_u8(a, vdupq_n_s8(-(shift as i8))), vdupq_n_u8(mask))))
            }
            #[inline(always)]
            fn raise<const N: u32>(self, a: Words) -> Words {
                a.map(|a| intrinsic!(vshlq_u8(a, vdupq_n_s8(N as i8))))
            }
            #[inline(always)]
            fn either(self, a: Words, b: Words) -> Words {
                both!(vorrq_u8, a, b)
            }
            #[inline(always)]
            fn names(self, table: &[i8; 16], a: Words) -> Words {
                let table = intrinsic!(vld1q_u8(table.as_ptr().cast()));
                a.map(|a| intrinsic!(vqtbl1q_u8(table, a)))
            }
            #[inline(always)]
            fn byte(self, a: Words, index: usize) -> Words {
                a.map(|a| {
                    intrinsic!({
                        let shifted = vshlq_u32(vreinterpretq_u32_u8(a), vdupq_n_s32(-8 * index as i32));
                        vreinterpretq_u8_u32(vandq_u32(shifted, vdupq_n_u32(255)))
                    })
                })
            }
            #[inline(always)]
            fn signed_byte(self, a: Words, index: usize) -> Words {
                a.map(|a| {
                    intrinsic!({
                        let shifted = vshlq_s32(vreinterpretq_s32_u8(a), vdupq_n_s32(24 - 8 * index as i32));
                        vreinterpretq_u8_s32(vshrq_n_s32::<24>(shifted))
                    })
                })
            }
            #[inline(always)]
            fn dot<const N: usize>(
                self,
                kind: CodeKind,
                codes: &[Words; N],
                activations: &[[i8; 4]; N],
                minus_eight_sums: i32,
            ) -> Words {
                intrinsic!($dot(kind, codes, activations, minus_eight_sums))
            }
            $($more)*
            #[inline(always)]
            fn for_steps(self, _: CodeKind, codes: Words) -> Words {
                codes
            }
            #[inline(always)]
            fn start(self, kind: CodeKind, minus_eight_sums: i32) -> Words {
                intrinsic!([vreinterpretq_u8_s32(vdupq_n_s32(start(kind, minus_eight_sums))); 2])
            }
            #[inline(always)]
            fn step(self, kind: CodeKind, sum: Words, codes: Words, activations: [i8; 4]) -> Words {
                intrinsic!($step(kind, sum, codes, activations))
            }
            #[inline(always)]
            fn floats(self, a: Words) -> F {
                a.map(|a| intrinsic!(vcvtq_f32_s32(vreinterpretq_s32_u8(a))))
            }
            #[inline(always)]
            fn floats_of_bits<const SHIFT: u32>(self, a: Words) -> F {
                a.map(|a| {
                    intrinsic!({
                        let bits = vshlq_u32(vreinterpretq_u32_u8(a), vdupq_n_s32(SHIFT as i32));
                        vreinterpretq_f32_u32(bits)
                    })
                })
            }
            #[inline(always)]
            fn floats_of_f16(self, from: &[u8]) -> F {
                widen(intrinsic!(vreinterpretq_u16_u8(vld1q_u8(at(from, 16)))))
            }
            #[inline(always)]
            fn floats_of_halves(self, from: &[f16]) -> F {
                widen(intrinsic!(vld1q_u16(from[..8].as_ptr().cast())))
            }
            #[inline(always)]
            fn get(self, from: &[f32]) -> F {
                let from = from[..8].as_ptr();
                intrinsic!([vld1q_f32(from), vld1q_f32(from.add(4))])
            }
            #[inline(always)]
            fn all(self, x: f32) -> F {
                intrinsic!([vdupq_n_f32(x); 2])
            }
            #[inline(always)]
            fn times(self, a: F, b: F) -> F {
                both!(vmulq_f32, a, b)
            }
            #[inline(always)]
            fn plus(self, a: F, b: F) -> F {
                both!(vaddq_f32, a, b)
            }
            #[inline(always)]
            fn times_plus(self, a: F, b: F, c: F) -> F {
                both!(vfmaq_f32, c, a, b)
            }
            #[inline(always)]
            fn put(self, a: F, to: &mut [f32]) {
                let to = to[..8].as_mut_ptr();
                intrinsic!({
                    vst1q_f32(to, a[0]);
                    vst1q_f32(to.add(4), a[1]);
                })
            }
        }
    };
}

eight_rows!(Neon, dot_by_widening, step_by_widening);
eight_rows!(NeonDotprod, dot_at_once, step_at_once);
eight_rows!(
    NeonI8mm,
    dot_at_once,
    step_at_once,
    const PAIRWISE: bool = true;,
    #[inline(always)]
    fn for_two(self, codes: [Words; 2]) -> [Words; 2] {
        two_rows_each(codes)
    },
    #[inline(always)]
    fn dot_two<const N: usize>(
        self,
        kind: CodeKind,
        codes: &[Words; N],
        activations: [&[[i8; 4]; N]; 2],
        minus_eight_sums: [i32; 2],
    ) -> [Words; 2] {
        intrinsic!(dot_two_at_once(kind, codes, activations, minus_eight_sums))
    }
);
