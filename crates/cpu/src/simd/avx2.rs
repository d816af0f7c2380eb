//! x86-64: AVX2 with FMA and F16C, and the same with the dot-product instructions of AVX-VNNI or AVX-512 VNNI.
//!
//! The three types differ only in how they multiply bytes; everything else is one macro, so that they keep the same lanes
//! and give the same bits.

use std::arch::x86_64::*;

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

/// `a * b` over bytes, summed by fours: the products of neighbours in 16 bits first. At most
/// `2 * 128 * 127`, so nothing saturates.
#[inline(always)]
fn dot_by_widening(unsigned: __m256i, signed: __m256i) -> __m256i {
    intrinsic!(_mm256_madd_epi16(_mm256_maddubs_epi16(unsigned, signed), _mm256_set1_epi16(1)))
}

macro_rules! instruction_set {
    ($(#[$doc:meta])* $name:ident, $features:literal, [$($feature:tt),*], $tile_tokens:literal, $dot:expr) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy)]
        pub(crate) struct $name(());

        impl $name {
            /// The proof, where this CPU and its operating system have the instructions.
            pub(crate) fn detect() -> Option<Self> {
                ($(is_x86_feature_detected!($feature))&&*).then_some(Self(()))
            }
        }

        impl Simd for $name {
            type F = __m256;
            type I = __m256i;
            type B = __m256i;

            const TILE_TOKENS: usize = $tile_tokens;

            fn vectorize<T: Task>(self, task: T) -> T::Output {
                #[target_feature(enable = $features)]
                fn inner<T: Task>(task: T, simd: $name) -> T::Output {
                    task.run(simd)
                }
                // SAFETY: `self` exists, so the CPU has the features of `inner`.
                unsafe { inner(task, self) }
            }

            #[inline(always)]
            fn prefetch(self, bytes: &[u8], offset: usize) {
                // A prefetch is a hint that cannot fault, whatever the address.
                intrinsic!(_mm_prefetch::<_MM_HINT_T0>(bytes.as_ptr().wrapping_add(offset).cast()))
            }
            #[inline(always)]
            fn splat(self, x: f32) -> __m256 {
                intrinsic!(_mm256_set1_ps(x))
            }
            #[inline(always)]
            fn load(self, from: &[f32; LANES]) -> __m256 {
                intrinsic!(_mm256_loadu_ps(from.as_ptr()))
            }
            #[inline(always)]
            fn store(self, x: __m256, to: &mut [f32; LANES]) {
                intrinsic!(_mm256_storeu_ps(to.as_mut_ptr(), x))
            }
            #[inline(always)]
            fn add(self, a: __m256, b: __m256) -> __m256 {
                intrinsic!(_mm256_add_ps(a, b))
            }
            #[inline(always)]
            fn sub(self, a: __m256, b: __m256) -> __m256 {
                intrinsic!(_mm256_sub_ps(a, b))
            }
            #[inline(always)]
            fn mul(self, a: __m256, b: __m256) -> __m256 {
                intrinsic!(_mm256_mul_ps(a, b))
            }
            #[inline(always)]
            fn div(self, a: __m256, b: __m256) -> __m256 {
                intrinsic!(_mm256_div_ps(a, b))
            }
            #[inline(always)]
            fn mul_add(self, a: __m256, b: __m256, c: __m256) -> __m256 {
                intrinsic!(_mm256_fmadd_ps(a, b, c))
            }
            #[inline(always)]
            fn max(self, a: __m256, b: __m256) -> __m256 {
                intrinsic!(_mm256_max_ps(a, b))
            }
            #[inline(always)]
            fn min(self, a: __m256, b: __m256) -> __m256 {
                intrinsic!(_mm256_min_ps(a, b))
            }
            #[inline(always)]
            fn abs(self, a: __m256) -> __m256 {
                intrinsic!(_mm256_andnot_ps(_mm256_set1_ps(-0.0), a))
            }
            #[inline(always)]
            fn round(self, a: __m256) -> __m256 {
                intrinsic!(_mm256_round_ps::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(a))
            }
            #[inline(always)]
            fn power_of_two(self, a: __m256) -> __m256 {
                intrinsic!({
                    let exponent = _mm256_add_epi32(_mm256_cvtps_epi32(a), _mm256_set1_epi32(127));
                    _mm256_castsi256_ps(_mm256_slli_epi32::<23>(exponent))
                })
            }
            #[inline(always)]
            fn zero_below(self, x: __m256, limit: __m256, value: __m256) -> __m256 {
                intrinsic!(_mm256_and_ps(_mm256_cmp_ps::<_CMP_NLT_UQ>(x, limit), value))
            }
            #[inline(always)]
            fn sum(self, a: __m256) -> f32 {
                intrinsic!({
                    let four = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps::<1>(a));
                    let two = _mm_hadd_ps(four, four);
                    _mm_cvtss_f32(_mm_hadd_ps(two, two))
                })
            }
            #[inline(always)]
            fn sum4(self, a: [__m256; 4]) -> [f32; 4] {
                intrinsic!({
                    let four = a.map(|a| _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps::<1>(a)));
                    let two = [_mm_hadd_ps(four[0], four[1]), _mm_hadd_ps(four[2], four[3])];
                    let mut sums = [0.0; 4];
                    _mm_storeu_ps(sums.as_mut_ptr(), _mm_hadd_ps(two[0], two[1]));
                    sums
                })
            }
            #[inline(always)]
            fn largest(self, a: __m256) -> f32 {
                intrinsic!({
                    let four = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps::<1>(a));
                    let two = _mm_max_ps(four, _mm_movehl_ps(four, four));
                    _mm_cvtss_f32(_mm_max_ss(two, _mm_shuffle_ps::<1>(two, two)))
                })
            }
            #[inline(always)]
            fn load_f16(self, from: &[f16; LANES]) -> __m256 {
                intrinsic!(_mm256_cvtph_ps(_mm_loadu_si128(from.as_ptr().cast())))
            }
            #[inline(always)]
            fn store_f16(self, x: __m256, to: &mut [f16; LANES]) {
                intrinsic!({
                    // Minimum and maximum return their second operand for NaN, which so passes through.
                    let held = _mm256_min_ps(_mm256_set1_ps(65504.0), _mm256_max_ps(_mm256_set1_ps(-65504.0), x));
                    let narrow = _mm256_cvtps_ph::<{ _MM_FROUND_TO_NEAREST_INT }>(held);
                    _mm_storeu_si128(to.as_mut_ptr().cast(), narrow)
                })
            }
            #[inline(always)]
            fn load_f32_bytes(self, from: &[u8; 32]) -> __m256 {
                intrinsic!(_mm256_loadu_ps(from.as_ptr().cast()))
            }
            #[inline(always)]
            fn load_f16_bytes(self, from: &[u8; 16]) -> __m256 {
                intrinsic!(_mm256_cvtph_ps(_mm_loadu_si128(from.as_ptr().cast())))
            }
            #[inline(always)]
            fn load_bf16_bytes(self, from: &[u8; 16]) -> __m256 {
                intrinsic!({
                    let wide = _mm256_cvtepu16_epi32(_mm_loadu_si128(from.as_ptr().cast()));
                    _mm256_castsi256_ps(_mm256_slli_epi32::<16>(wide))
                })
            }
            #[inline(always)]
            fn halves(self, a: f32, b: f32) -> __m256 {
                intrinsic!(_mm256_set_m128(_mm_set1_ps(b), _mm_set1_ps(a)))
            }
            #[inline(always)]
            fn to_f32(self, a: __m256i) -> __m256 {
                intrinsic!(_mm256_cvtepi32_ps(a))
            }
            #[inline(always)]
            fn round_to_i8(self, x: [__m256; 4], to: &mut [i8; 32]) -> i32 {
                intrinsic!({
                    let [a, b, c, d] = x.map(|x| _mm256_cvtps_epi32(x));
                    let packed = _mm256_packs_epi16(_mm256_packs_epi32(a, b), _mm256_packs_epi32(c, d));
                    // Packing works on 128-bit halves; this puts the groups of four back in order.
                    let order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
                    _mm256_storeu_si256(to.as_mut_ptr().cast(), _mm256_permutevar8x32_epi32(packed, order));
                    let sums = _mm256_add_epi32(_mm256_add_epi32(a, b), _mm256_add_epi32(c, d));
                    let four = _mm_add_epi32(_mm256_castsi256_si128(sums), _mm256_extracti128_si256::<1>(sums));
                    let two = _mm_add_epi32(four, _mm_shuffle_epi32::<0b01_00_11_10>(four));
                    _mm_cvtsi128_si32(_mm_add_epi32(two, _mm_shuffle_epi32::<0b10_11_00_01>(two)))
                })
            }
            #[inline(always)]
            fn load_bytes(self, from: &[u8; 32]) -> __m256i {
                intrinsic!(_mm256_loadu_si256(from.as_ptr().cast()))
            }
            #[inline(always)]
            fn load_codes(self, from: &[i8; 32]) -> __m256i {
                intrinsic!(_mm256_loadu_si256(from.as_ptr().cast()))
            }
            #[inline(always)]
            fn store_bytes(self, x: __m256i, to: &mut [u8; 32]) {
                intrinsic!(_mm256_storeu_si256(to.as_mut_ptr().cast(), x))
            }
            #[inline(always)]
            fn nibbles(self, from: &[u8; 16]) -> __m256i {
                intrinsic!({
                    let packed = _mm_loadu_si128(from.as_ptr().cast());
                    let both = _mm256_set_m128i(_mm_srli_epi16::<4>(packed), packed);
                    _mm256_and_si256(both, _mm256_set1_epi8(15))
                })
            }
            #[inline(always)]
            fn spread_bits_16(self, bits: u32) -> __m256i {
                intrinsic!({
                    // Byte i gets the byte that holds bit i, then keeps that bit alone.
                    let which = _mm256_setr_epi64x(0, 0x0101_0101_0101_0101, 0x0202_0202_0202_0202, 0x0303_0303_0303_0303);
                    let bytes = _mm256_shuffle_epi8(_mm256_set1_epi32(bits as i32), which);
                    let bit = _mm256_set1_epi64x(0x8040_2010_0804_0201u64 as i64);
                    let is_set = _mm256_cmpeq_epi8(_mm256_and_si256(bytes, bit), bit);
                    _mm256_and_si256(is_set, _mm256_set1_epi8(16))
                })
            }
            #[inline(always)]
            fn shift_mask<const N: i32>(self, a: __m256i, mask: u8) -> __m256i {
                intrinsic!(_mm256_and_si256(_mm256_srli_epi16::<N>(a), _mm256_set1_epi8(mask as i8)))
            }
            #[inline(always)]
            fn shift_left_4(self, a: __m256i) -> __m256i {
                intrinsic!(_mm256_slli_epi16::<4>(a))
            }
            #[inline(always)]
            fn or(self, a: __m256i, b: __m256i) -> __m256i {
                intrinsic!(_mm256_or_si256(a, b))
            }
            #[inline(always)]
            fn sub_bytes(self, a: __m256i, b: u8) -> __m256i {
                intrinsic!(_mm256_sub_epi8(a, _mm256_set1_epi8(b as i8)))
            }
            #[inline(always)]
            fn look_up(self, table: &[i8; 16], a: __m256i) -> __m256i {
                // The instruction looks up within 128-bit halves, so each half has the whole table.
                intrinsic!({
                    let table = _mm256_broadcastsi128_si256(_mm_loadu_si128(table.as_ptr().cast()));
                    _mm256_shuffle_epi8(table, a)
                })
            }
            #[inline(always)]
            fn dot_unsigned(self, a: __m256i, b: __m256i) -> __m256i {
                $dot(a, b)
            }
            #[inline(always)]
            fn dot_signed(self, a: __m256i, b: __m256i) -> __m256i {
                // |a| * (b with a's sign): -128 becomes the unsigned 128.
                let (magnitude, signed) = intrinsic!((_mm256_abs_epi8(a), _mm256_sign_epi8(b, a)));
                $dot(magnitude, signed)
            }
        }
    };
}

instruction_set!(
    /// AVX2, FMA, F16C: any x86-64 of the last ten years.
    Avx2, "avx2,fma,f16c", ["avx2", "fma", "f16c"], 2, dot_by_widening
);
instruction_set!(
    /// The same with AVX-VNNI (Alder Lake, Zen 5): one instruction multiplies and sums bytes.
    AvxVnni, "avx2,fma,f16c,avxvnni", ["avx2", "fma", "f16c", "avxvnni"], 2,
    |a, b| intrinsic!(_mm256_dpbusd_avx_epi32(_mm256_setzero_si256(), a, b))
);
instruction_set!(
    /// The same with AVX-512 VNNI in 256-bit vectors (Ice Lake, Zen 4): besides, twice the registers.
    Avx512Vnni, "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni",
    ["avx2", "fma", "f16c", "avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512vnni"], 4,
    |a, b| intrinsic!(_mm256_dpbusd_epi32(_mm256_setzero_si256(), a, b))
);
