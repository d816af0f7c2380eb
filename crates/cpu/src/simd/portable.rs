//! Plain arrays: what every CPU has, in the lanes and the order of additions of the vector units.

use half::f16;

use super::fused::fused;
use super::rows::{CodeKind, RowSimd};
use super::{LANES, Simd, Task};

/// The instruction set that needs no proof.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Portable;

#[inline(always)]
fn each<T: Copy, U>(a: [T; LANES], f: impl Fn(T) -> U) -> [U; LANES] {
    a.map(f)
}

#[inline(always)]
fn pair(a: [f32; LANES], b: [f32; LANES], f: impl Fn(f32, f32) -> f32) -> [f32; LANES] {
    std::array::from_fn(|i| f(a[i], b[i]))
}

impl Simd for Portable {
    type F = [f32; LANES];

    fn vectorize<T: Task>(self, task: T) -> T::Output {
        task.run(self)
    }

    #[inline(always)]
    fn prefetch<T>(self, _: &[T], _: usize) {}
    #[inline(always)]
    fn prefetch_far<T>(self, _: &[T], _: usize) {}
    #[inline(always)]
    fn splat(self, x: f32) -> Self::F {
        [x; LANES]
    }
    #[inline(always)]
    fn load(self, from: &[f32; LANES]) -> Self::F {
        *from
    }
    #[inline(always)]
    fn store(self, x: Self::F, to: &mut [f32; LANES]) {
        *to = x;
    }
    #[inline(always)]
    fn add(self, a: Self::F, b: Self::F) -> Self::F {
        pair(a, b, |a, b| a + b)
    }
    #[inline(always)]
    fn sub(self, a: Self::F, b: Self::F) -> Self::F {
        pair(a, b, |a, b| a - b)
    }
    #[inline(always)]
    fn mul(self, a: Self::F, b: Self::F) -> Self::F {
        pair(a, b, |a, b| a * b)
    }
    #[inline(always)]
    fn div(self, a: Self::F, b: Self::F) -> Self::F {
        pair(a, b, |a, b| a / b)
    }
    #[inline(always)]
    fn mul_add(self, a: Self::F, b: Self::F, c: Self::F) -> Self::F {
        std::array::from_fn(|i| fused(a[i], b[i], c[i]))
    }
    #[inline(always)]
    fn max(self, a: Self::F, b: Self::F) -> Self::F {
        pair(a, b, |a, b| if a > b { a } else { b }) // as the x86 instruction: b where one is NaN
    }
    #[inline(always)]
    fn min(self, a: Self::F, b: Self::F) -> Self::F {
        pair(a, b, |a, b| if a < b { a } else { b })
    }
    #[inline(always)]
    fn abs(self, a: Self::F) -> Self::F {
        each(a, f32::abs)
    }
    #[inline(always)]
    fn round(self, a: Self::F) -> Self::F {
        each(a, f32::round_ties_even)
    }
    #[inline(always)]
    fn power_of_two(self, a: Self::F) -> Self::F {
        each(a, |a| f32::from_bits(((a as i32 + 127) as u32) << 23))
    }
    #[inline(always)]
    fn zero_below(self, x: Self::F, limit: Self::F, value: Self::F) -> Self::F {
        std::array::from_fn(|i| if x[i] < limit[i] { 0.0 } else { value[i] })
    }
    #[inline(always)]
    fn sum(self, a: Self::F) -> f32 {
        let [p, q, r, s] = [a[0] + a[4], a[1] + a[5], a[2] + a[6], a[3] + a[7]];
        (p + q) + (r + s)
    }
    #[inline(always)]
    fn largest(self, a: Self::F) -> f32 {
        a.iter().copied().fold(f32::NEG_INFINITY, |a, b| if a > b { a } else { b })
    }
    #[inline(always)]
    fn store_f16(self, x: Self::F, to: &mut [f16; LANES]) {
        *to = each(x, |x| f16::from_f32(x.clamp(-65504.0, 65504.0)));
    }
    #[inline(always)]
    fn round_to_i8(self, x: [Self::F; 4], to: &mut [[i8; 4]; 8]) -> [i32; 2] {
        let codes = x.map(|x| x.map(|x| x.round_ties_even() as i32));
        for (to, codes) in to.iter_mut().zip(codes.as_flattened().as_chunks::<4>().0) {
            *to = codes.map(|code| code as i8);
        }
        [0, 2].map(|half| codes[half].iter().chain(&codes[half + 1]).sum())
    }
}

impl RowSimd for Portable {
    type Words = [[u8; 4]; LANES];
    type Floats = [f32; LANES];

    const ROWS: usize = LANES;
    const STEPWISE: bool = false;
    const CODE_TOKENS: usize = 4;
    const FLOAT_TOKENS: usize = 4;

    #[inline(always)]
    fn zeros(self) -> Self::Words {
        [[0; 4]; LANES]
    }
    #[inline(always)]
    fn words(self, from: &[u8]) -> Self::Words {
        std::array::from_fn(|row| std::array::from_fn(|byte| from[4 * row + byte]))
    }
    #[inline(always)]
    fn put_words(self, a: Self::Words, to: &mut [u8]) {
        to[..4 * LANES].copy_from_slice(a.as_flattened());
    }
    #[inline(always)]
    fn words_of_u16(self, from: &[u8]) -> Self::Words {
        std::array::from_fn(|row| [from[2 * row], from[2 * row + 1], 0, 0])
    }
    #[inline(always)]
    fn words_of_u8(self, from: &[u8]) -> Self::Words {
        std::array::from_fn(|row| [from[row], 0, 0, 0])
    }
    #[inline(always)]
    fn field<const N: u32>(self, a: Self::Words, mask: u8) -> Self::Words {
        self.field_at(a, N, mask)
    }
    #[inline(always)]
    fn field_at(self, a: Self::Words, shift: u32, mask: u8) -> Self::Words {
        a.map(|word| word.map(|byte| byte >> shift & mask))
    }
    #[inline(always)]
    fn raise<const N: u32>(self, a: Self::Words) -> Self::Words {
        a.map(|word| word.map(|byte| byte << N))
    }
    #[inline(always)]
    fn either(self, a: Self::Words, b: Self::Words) -> Self::Words {
        std::array::from_fn(|row| std::array::from_fn(|byte| a[row][byte] | b[row][byte]))
    }
    #[inline(always)]
    fn names(self, table: &[i8; 16], a: Self::Words) -> Self::Words {
        a.map(|word| word.map(|byte| table[usize::from(byte & 15)] as u8))
    }
    #[inline(always)]
    fn byte(self, a: Self::Words, index: usize) -> Self::Words {
        a.map(|word| [word[index], 0, 0, 0])
    }
    #[inline(always)]
    fn signed_byte(self, a: Self::Words, index: usize) -> Self::Words {
        a.map(|word| i32::from(word[index] as i8).to_le_bytes())
    }
    #[inline(always)]
    fn dot<const N: usize>(
        self,
        kind: CodeKind,
        codes: &[Self::Words; N],
        activations: &[[i8; 4]; N],
        minus_eight_sums: i32,
    ) -> Self::Words {
        let mut sums = [minus_eight_sums / 8 * kind.zero; LANES];
        for (codes, activations) in codes.iter().zip(activations) {
            for row in 0..LANES {
                for byte in 0..4 {
                    let code = codes[row][byte];
                    let code = if kind.bits == 8 { i32::from(code as i8) } else { i32::from(code) };
                    sums[row] += code * i32::from(activations[byte]);
                }
            }
        }
        sums.map(i32::to_le_bytes)
    }
    #[inline(always)]
    fn for_steps(self, _: CodeKind, codes: Self::Words) -> Self::Words {
        codes
    }
    #[inline(always)]
    fn start(self, kind: CodeKind, minus_eight_sums: i32) -> Self::Words {
        [(minus_eight_sums / 8 * kind.zero).to_le_bytes(); LANES]
    }
    #[inline(always)]
    fn step(self, kind: CodeKind, sum: Self::Words, codes: Self::Words, activations: [i8; 4]) -> Self::Words {
        let product = self.dot(CodeKind { zero: 0, ..kind }, &[codes], &[activations], 0);
        std::array::from_fn(|row| (i32::from_le_bytes(sum[row]) + i32::from_le_bytes(product[row])).to_le_bytes())
    }
    #[inline(always)]
    fn floats(self, a: Self::Words) -> Self::Floats {
        a.map(|word| i32::from_le_bytes(word) as f32)
    }
    #[inline(always)]
    fn floats_of_bits<const SHIFT: u32>(self, a: Self::Words) -> Self::Floats {
        a.map(|word| f32::from_bits(u32::from_le_bytes(word) << SHIFT))
    }
    #[inline(always)]
    fn floats_of_f16(self, from: &[u8]) -> Self::Floats {
        std::array::from_fn(|row| f16::from_le_bytes([from[2 * row], from[2 * row + 1]]).to_f32())
    }
    #[inline(always)]
    fn floats_of_halves(self, from: &[f16]) -> Self::Floats {
        std::array::from_fn(|row| from[row].to_f32())
    }
    #[inline(always)]
    fn get(self, from: &[f32]) -> Self::Floats {
        *from.first_chunk().expect("one float for each row")
    }
    #[inline(always)]
    fn all(self, x: f32) -> Self::Floats {
        [x; LANES]
    }
    #[inline(always)]
    fn times(self, a: Self::Floats, b: Self::Floats) -> Self::Floats {
        pair(a, b, |a, b| a * b)
    }
    #[inline(always)]
    fn plus(self, a: Self::Floats, b: Self::Floats) -> Self::Floats {
        pair(a, b, |a, b| a + b)
    }
    #[inline(always)]
    fn times_plus(self, a: Self::Floats, b: Self::Floats, c: Self::Floats) -> Self::Floats {
        std::array::from_fn(|i| fused(a[i], b[i], c[i]))
    }
    #[inline(always)]
    fn put(self, a: Self::Floats, to: &mut [f32]) {
        to[..LANES].copy_from_slice(&a);
    }
}
