//! x86-64: the lanes of [`super::rows`], eight of them in 256 bits and sixteen in 512.

use std::arch::x86_64::*;

use half::f16;

use super::avx2::{Avx2, Avx512Vnni, AvxVnni, intrinsic};
use super::rows::{CodeKind, RowSimd};

/// The start of `from`, after a check that `length` bytes follow.
#[inline(always)]
fn at(from: &[u8], length: usize) -> *const u8 {
    from[..length].as_ptr()
}

/// Four activations as one lane.
#[inline(always)]
fn word(activations: [i8; 4]) -> i32 {
    let [a, b, c, d] = activations;
    i32::from_ne_bytes([a as u8, b as u8, c as u8, d as u8])
}

/// Sums of bytes by fours on AVX2: products of neighbours meet in 16 bits, and as many of those are added there as cannot
/// overflow: eight pairs of 4-bit codes come to at most `8 * 2 * 15 * 127 = 30480`.
#[inline(always)]
fn dot_by_widening<const N: usize>(
    kind: CodeKind,
    codes: &[__m256i; N],
    activations: &[[i8; 4]; N],
    minus_eight_sums: i32,
) -> __m256i {
    intrinsic!({
        let ones = _mm256_set1_epi16(1);
        let mut sum = _mm256_setzero_si256();
        if kind.bits == 8 {
            for (&codes, &activations) in codes.iter().zip(activations) {
                // |code| * (activation with the code's sign): at most 2 * 128 * 127, and -128 becomes the unsigned 128.
                let activations = _mm256_sign_epi8(_mm256_set1_epi32(word(activations)), codes);
                let pairs = _mm256_maddubs_epi16(_mm256_abs_epi8(codes), activations);
                sum = _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, ones));
            }
            return sum;
        }
        let together = match kind.bits {
            ..=4 => 8,
            5 => 4,
            _ => 2,
        };
        for (codes, activations) in codes.chunks(together).zip(activations.chunks(together)) {
            let mut pairs = _mm256_setzero_si256();
            for (&codes, &activations) in codes.iter().zip(activations) {
                let products = _mm256_maddubs_epi16(codes, _mm256_set1_epi32(word(activations)));
                pairs = _mm256_add_epi16(pairs, products);
            }
            sum = _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, ones));
        }
        if kind.zero == 0 { sum } else { _mm256_add_epi32(sum, _mm256_set1_epi32(minus_eight_sums / 8 * kind.zero)) }
    })
}

/// Sums of bytes by fours where one instruction multiplies and adds. It takes unsigned codes, so signed ones are made so by
/// adding 128, which is taken away again at the start of the sum.
macro_rules! steps_by_vnni {
    ($vector:ty, $product:ident, $splat:ident, $shift:ident, $add:ident, $xor:ident) => {
        const STEPWISE: bool = true;

        #[inline(always)]
        fn for_steps(self, kind: CodeKind, codes: $vector) -> $vector {
            if kind.bits == 8 { intrinsic!($xor(codes, $splat(0x8080_8080u32 as i32))) } else { codes }
        }
        #[inline(always)]
        fn start(self, kind: CodeKind, minus_eight_sums: i32) -> $vector {
            // For eight this is a broadcast from memory, which costs no arithmetic instruction.
            let all = intrinsic!($splat(minus_eight_sums));
            match if kind.bits == 8 { 128 } else { kind.zero } {
                0 => self.zeros(),
                8 => all,
                16 => intrinsic!($shift::<1>(all)),
                32 => intrinsic!($shift::<2>(all)),
                128 => intrinsic!($shift::<4>(all)),
                zero => intrinsic!($splat(minus_eight_sums / 8 * zero)),
            }
        }
        #[inline(always)]
        fn step(self, _: CodeKind, sum: $vector, codes: $vector, activations: [i8; 4]) -> $vector {
            intrinsic!($product(sum, codes, $splat(word(activations))))
        }
        #[inline(always)]
        fn dot<const N: usize>(
            self,
            kind: CodeKind,
            codes: &[$vector; N],
            activations: &[[i8; 4]; N],
            minus_eight_sums: i32,
        ) -> $vector {
            // Two sums, which wait for each other less.
            let (mut even, mut odd) = (self.start(kind, minus_eight_sums), self.zeros());
            for index in 0..N {
                let codes = self.for_steps(kind, codes[index]);
                if index % 2 == 0 {
                    even = self.step(kind, even, codes, activations[index]);
                } else {
                    odd = self.step(kind, odd, codes, activations[index]);
                }
            }
            intrinsic!($add(even, odd))
        }
    };
}

/// What there is without such an instruction.
macro_rules! steps_by_widening {
    () => {
        const STEPWISE: bool = false;

        #[inline(always)]
        fn for_steps(self, _: CodeKind, codes: __m256i) -> __m256i {
            codes
        }
        #[inline(always)]
        fn start(self, kind: CodeKind, minus_eight_sums: i32) -> __m256i {
            intrinsic!(_mm256_set1_epi32(minus_eight_sums / 8 * kind.zero))
        }
        #[inline(always)]
        fn step(self, kind: CodeKind, sum: __m256i, codes: __m256i, activations: [i8; 4]) -> __m256i {
            let product = dot_by_widening(CodeKind { zero: 0, ..kind }, &[codes], &[activations], 0);
            intrinsic!(_mm256_add_epi32(sum, product))
        }
        #[inline(always)]
        fn dot<const N: usize>(
            self,
            kind: CodeKind,
            codes: &[__m256i; N],
            activations: &[[i8; 4]; N],
            minus_eight_sums: i32,
        ) -> __m256i {
            dot_by_widening(kind, codes, activations, minus_eight_sums)
        }
    };
}

macro_rules! rows_of_256_bits {
    ($name:ident, $code_tokens:literal, { $($steps:tt)* }) => {
        impl RowSimd for $name {
            type Words = __m256i;
            type Floats = __m256;

            const ROWS: usize = 8;
            const CODE_TOKENS: usize = $code_tokens;
            const FLOAT_TOKENS: usize = 8;

            $($steps)*

            #[inline(always)]
            fn zeros(self) -> __m256i {
                intrinsic!(_mm256_setzero_si256())
            }
            #[inline(always)]
            fn words(self, from: &[u8]) -> __m256i {
                intrinsic!(_mm256_loadu_si256(at(from, 32).cast()))
            }
            #[inline(always)]
            fn put_words(self, a: __m256i, to: &mut [u8]) {
                intrinsic!(_mm256_storeu_si256(to[..32].as_mut_ptr().cast(), a))
            }
            #[inline(always)]
            fn words_of_u16(self, from: &[u8]) -> __m256i {
                intrinsic!(_mm256_cvtepu16_epi32(_mm_loadu_si128(at(from, 16).cast())))
            }
            #[inline(always)]
            fn words_of_u8(self, from: &[u8]) -> __m256i {
                intrinsic!(_mm256_cvtepu8_epi32(_mm_loadl_epi64(at(from, 8).cast())))
            }
            #[inline(always)]
            fn field<const N: u32>(self, a: __m256i, mask: u8) -> __m256i {
                self.field_at(a, N, mask)
            }
            #[inline(always)]
            fn field_at(self, a: __m256i, shift: u32, mask: u8) -> __m256i {
                intrinsic!({
                    let shifted = _mm256_srl_epi16(a, _mm_cvtsi32_si128(shift as i32));
                    _mm256_and_si256(shifted, _mm256_set1_epi8(mask as i8))
                })
            }
            #[inline(always)]
            fn raise<const N: u32>(self, a: __m256i) -> __m256i {
                intrinsic!(_mm256_sll_epi16(a, _mm_cvtsi32_si128(N as i32)))
            }
            #[inline(always)]
            fn either(self, a: __m256i, b: __m256i) -> __m256i {
                intrinsic!(_mm256_or_si256(a, b))
            }
            #[inline(always)]
            fn names(self, table: &[i8; 16], a: __m256i) -> __m256i {
                // The instruction looks up within 128 bits, so each half has the whole table.
                intrinsic!({
                    let table = _mm256_broadcastsi128_si256(_mm_loadu_si128(table.as_ptr().cast()));
                    _mm256_shuffle_epi8(table, a)
                })
            }
            #[inline(always)]
            fn byte(self, a: __m256i, index: usize) -> __m256i {
                intrinsic!({
                    let shifted = _mm256_srl_epi32(a, _mm_cvtsi32_si128(8 * index as i32));
                    _mm256_and_si256(shifted, _mm256_set1_epi32(255))
                })
            }
            #[inline(always)]
            fn signed_byte(self, a: __m256i, index: usize) -> __m256i {
                intrinsic!(_mm256_srai_epi32::<24>(_mm256_sll_epi32(a, _mm_cvtsi32_si128(24 - 8 * index as i32))))
            }
            #[inline(always)]
            fn floats(self, a: __m256i) -> __m256 {
                intrinsic!(_mm256_cvtepi32_ps(a))
            }
            #[inline(always)]
            fn floats_of_bits<const SHIFT: u32>(self, a: __m256i) -> __m256 {
                intrinsic!(_mm256_castsi256_ps(_mm256_sll_epi32(a, _mm_cvtsi32_si128(SHIFT as i32))))
            }
            #[inline(always)]
            fn floats_of_f16(self, from: &[u8]) -> __m256 {
                intrinsic!(_mm256_cvtph_ps(_mm_loadu_si128(at(from, 16).cast())))
            }
            #[inline(always)]
            fn floats_of_halves(self, from: &[f16]) -> __m256 {
                intrinsic!(_mm256_cvtph_ps(_mm_loadu_si128(from[..8].as_ptr().cast())))
            }
            #[inline(always)]
            fn get(self, from: &[f32]) -> __m256 {
                intrinsic!(_mm256_loadu_ps(from[..8].as_ptr()))
            }
            #[inline(always)]
            fn all(self, x: f32) -> __m256 {
                intrinsic!(_mm256_set1_ps(x))
            }
            #[inline(always)]
            fn times(self, a: __m256, b: __m256) -> __m256 {
                intrinsic!(_mm256_mul_ps(a, b))
            }
            #[inline(always)]
            fn plus(self, a: __m256, b: __m256) -> __m256 {
                intrinsic!(_mm256_add_ps(a, b))
            }
            #[inline(always)]
            fn times_plus(self, a: __m256, b: __m256, c: __m256) -> __m256 {
                intrinsic!(_mm256_fmadd_ps(a, b, c))
            }
            #[inline(always)]
            fn put(self, a: __m256, to: &mut [f32]) {
                intrinsic!(_mm256_storeu_ps(to[..8].as_mut_ptr(), a))
            }
        }
    };
}

rows_of_256_bits!(Avx2, 4, {
    steps_by_widening!();
});
rows_of_256_bits!(AvxVnni, 3, {
    steps_by_vnni!(
        __m256i,
        _mm256_dpbusd_avx_epi32,
        _mm256_set1_epi32,
        _mm256_slli_epi32,
        _mm256_add_epi32,
        _mm256_xor_si256
    );
});

impl RowSimd for Avx512Vnni {
    type Words = __m512i;
    type Floats = __m512;

    const ROWS: usize = 16;
    const CODE_TOKENS: usize = 6;
    const FLOAT_TOKENS: usize = 12;

    steps_by_vnni!(
        __m512i,
        _mm512_dpbusd_epi32,
        _mm512_set1_epi32,
        _mm512_slli_epi32,
        _mm512_add_epi32,
        _mm512_xor_si512
    );

    #[inline(always)]
    fn zeros(self) -> __m512i {
        intrinsic!(_mm512_setzero_si512())
    }
    #[inline(always)]
    fn words(self, from: &[u8]) -> __m512i {
        intrinsic!(_mm512_loadu_si512(at(from, 64).cast()))
    }
    #[inline(always)]
    fn put_words(self, a: __m512i, to: &mut [u8]) {
        intrinsic!(_mm512_storeu_si512(to[..64].as_mut_ptr().cast(), a))
    }
    #[inline(always)]
    fn words_of_u16(self, from: &[u8]) -> __m512i {
        intrinsic!(_mm512_cvtepu16_epi32(_mm256_loadu_si256(at(from, 32).cast())))
    }
    #[inline(always)]
    fn words_of_u8(self, from: &[u8]) -> __m512i {
        intrinsic!(_mm512_cvtepu8_epi32(_mm_loadu_si128(at(from, 16).cast())))
    }
    #[inline(always)]
    fn field<const N: u32>(self, a: __m512i, mask: u8) -> __m512i {
        intrinsic!(_mm512_and_si512(_mm512_srli_epi16::<N>(a), _mm512_set1_epi8(mask as i8)))
    }
    #[inline(always)]
    fn field_at(self, a: __m512i, shift: u32, mask: u8) -> __m512i {
        intrinsic!({
            let shifted = _mm512_srl_epi16(a, _mm_cvtsi32_si128(shift as i32));
            _mm512_and_si512(shifted, _mm512_set1_epi8(mask as i8))
        })
    }
    #[inline(always)]
    fn raise<const N: u32>(self, a: __m512i) -> __m512i {
        intrinsic!(_mm512_slli_epi16::<N>(a))
    }
    #[inline(always)]
    fn either(self, a: __m512i, b: __m512i) -> __m512i {
        intrinsic!(_mm512_or_si512(a, b))
    }
    #[inline(always)]
    fn names(self, table: &[i8; 16], a: __m512i) -> __m512i {
        // The instruction looks up within 128 bits, so each quarter has the whole table.
        intrinsic!(_mm512_shuffle_epi8(_mm512_broadcast_i32x4(_mm_loadu_si128(table.as_ptr().cast())), a))
    }
    #[inline(always)]
    fn byte(self, a: __m512i, index: usize) -> __m512i {
        intrinsic!({
            let shifted = _mm512_srl_epi32(a, _mm_cvtsi32_si128(8 * index as i32));
            _mm512_and_si512(shifted, _mm512_set1_epi32(255))
        })
    }
    #[inline(always)]
    fn signed_byte(self, a: __m512i, index: usize) -> __m512i {
        intrinsic!(_mm512_srai_epi32::<24>(_mm512_sll_epi32(a, _mm_cvtsi32_si128(24 - 8 * index as i32))))
    }
    #[inline(always)]
    fn floats(self, a: __m512i) -> __m512 {
        intrinsic!(_mm512_cvtepi32_ps(a))
    }
    #[inline(always)]
    fn floats_of_bits<const SHIFT: u32>(self, a: __m512i) -> __m512 {
        intrinsic!(_mm512_castsi512_ps(_mm512_slli_epi32::<SHIFT>(a)))
    }
    #[inline(always)]
    fn floats_of_f16(self, from: &[u8]) -> __m512 {
        intrinsic!(_mm512_cvtph_ps(_mm256_loadu_si256(at(from, 32).cast())))
    }
    #[inline(always)]
    fn floats_of_halves(self, from: &[f16]) -> __m512 {
        intrinsic!(_mm512_cvtph_ps(_mm256_loadu_si256(from[..16].as_ptr().cast())))
    }
    #[inline(always)]
    fn get(self, from: &[f32]) -> __m512 {
        intrinsic!(_mm512_loadu_ps(from[..16].as_ptr()))
    }
    #[inline(always)]
    fn all(self, x: f32) -> __m512 {
        intrinsic!(_mm512_set1_ps(x))
    }
    #[inline(always)]
    fn times(self, a: __m512, b: __m512) -> __m512 {
        intrinsic!(_mm512_mul_ps(a, b))
    }
    #[inline(always)]
    fn plus(self, a: __m512, b: __m512) -> __m512 {
        intrinsic!(_mm512_add_ps(a, b))
    }
    #[inline(always)]
    fn times_plus(self, a: __m512, b: __m512, c: __m512) -> __m512 {
        intrinsic!(_mm512_fmadd_ps(a, b, c))
    }
    #[inline(always)]
    fn put(self, a: __m512, to: &mut [f32]) {
        intrinsic!(_mm512_storeu_ps(to[..16].as_mut_ptr(), a))
    }
}
