//! x86-64: AVX2 with FMA and F16C, and the same with the dot-product instructions of AVX-VNNI or AVX-512 VNNI.
//!
//! What works on eight numbers is one macro for all three, so that they keep the same lanes and give the same bits; the
//! lanes of the matrix kernels are in [`super::x86_rows`].

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
pub(super) use intrinsic;

macro_rules! instruction_set {
    ($(#[$doc:meta])* $name:ident, $features:literal, [$($feature:tt),*]) => {
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
                // A prefetch is a hint that cannot fault, whatever the address.
                intrinsic!(_mm_prefetch::<_MM_HINT_T0>(from.as_ptr().cast::<u8>().wrapping_add(offset).cast()))
            }
            #[inline(always)]
            fn prefetch_far<T>(self, from: &[T], offset: usize) {
                intrinsic!(_mm_prefetch::<_MM_HINT_T1>(from.as_ptr().cast::<u8>().wrapping_add(offset).cast()))
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
            fn largest(self, a: __m256) -> f32 {
                intrinsic!({
                    let four = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps::<1>(a));
                    let two = _mm_max_ps(four, _mm_movehl_ps(four, four));
                    _mm_cvtss_f32(_mm_max_ss(two, _mm_shuffle_ps::<1>(two, two)))
                })
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
            fn round_to_i8(self, x: [__m256; 4], to: &mut [[i8; 4]; 8]) -> [i32; 2] {
                intrinsic!({
                    let [a, b, c, d] = x.map(|x| _mm256_cvtps_epi32(x));
                    let packed = _mm256_packs_epi16(_mm256_packs_epi32(a, b), _mm256_packs_epi32(c, d));
                    // Packing works on 128-bit halves; this puts the groups of four back in order.
                    let order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
                    _mm256_storeu_si256(to.as_mut_ptr().cast(), _mm256_permutevar8x32_epi32(packed, order));
                    // Sums of four lanes of the first sixteen, then of the second; twice more leaves one of each.
                    let sums = _mm256_hadd_epi32(_mm256_add_epi32(a, b), _mm256_add_epi32(c, d));
                    let four = _mm_add_epi32(_mm256_castsi256_si128(sums), _mm256_extracti128_si256::<1>(sums));
                    let two = _mm_hadd_epi32(four, four);
                    [_mm_cvtsi128_si32(two), _mm_extract_epi32::<1>(two)]
                })
            }
        }
    };
}

instruction_set!(
    /// AVX2, FMA, F16C: any x86-64 of the last ten years.
    Avx2, "avx2,fma,f16c", ["avx2", "fma", "f16c"]
);
instruction_set!(
    /// The same with AVX-VNNI (Alder Lake, Zen 5): one instruction multiplies and sums bytes.
    AvxVnni, "avx2,fma,f16c,avxvnni", ["avx2", "fma", "f16c", "avxvnni"]
);
instruction_set!(
    /// AVX-512 with VNNI (Ice Lake, Zen 4): 512 bits for the matrices, and twice the registers.
    Avx512Vnni, "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni",
    ["avx2", "fma", "f16c", "avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512vnni"]
);
