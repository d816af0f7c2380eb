//! Plain arrays: what every CPU has, in the lanes and the order of additions of the vector units.

use half::{bf16, f16};

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

#[inline(always)]
fn bytes(f: impl Fn(usize) -> u8) -> [u8; 32] {
    std::array::from_fn(f)
}

#[inline(always)]
fn dot(product: impl Fn(usize) -> i32) -> [i32; LANES] {
    std::array::from_fn(|lane| (0..4).map(|i| product(4 * lane + i)).sum())
}

impl Simd for Portable {
    type F = [f32; LANES];
    type I = [i32; LANES];
    type B = [u8; 32];

    const TILE_TOKENS: usize = 2;

    fn vectorize<T: Task>(self, task: T) -> T::Output {
        task.run(self)
    }

    #[inline(always)]
    fn prefetch(self, _: &[u8], _: usize) {}
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
        std::array::from_fn(|i| a[i] * b[i] + c[i])
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
    fn sum4(self, a: [Self::F; 4]) -> [f32; 4] {
        a.map(|a| self.sum(a))
    }
    #[inline(always)]
    fn largest(self, a: Self::F) -> f32 {
        a.iter().copied().fold(f32::NEG_INFINITY, |a, b| if a > b { a } else { b })
    }
    #[inline(always)]
    fn load_f16(self, from: &[f16; LANES]) -> Self::F {
        each(*from, f16::to_f32)
    }
    #[inline(always)]
    fn store_f16(self, x: Self::F, to: &mut [f16; LANES]) {
        *to = each(x, |x| f16::from_f32(x.clamp(-65504.0, 65504.0)));
    }
    #[inline(always)]
    fn load_f32_bytes(self, from: &[u8; 32]) -> Self::F {
        std::array::from_fn(|i| f32::from_le_bytes([from[4 * i], from[4 * i + 1], from[4 * i + 2], from[4 * i + 3]]))
    }
    #[inline(always)]
    fn load_f16_bytes(self, from: &[u8; 16]) -> Self::F {
        std::array::from_fn(|i| f16::from_le_bytes([from[2 * i], from[2 * i + 1]]).to_f32())
    }
    #[inline(always)]
    fn load_bf16_bytes(self, from: &[u8; 16]) -> Self::F {
        std::array::from_fn(|i| bf16::from_le_bytes([from[2 * i], from[2 * i + 1]]).to_f32())
    }
    #[inline(always)]
    fn halves(self, a: f32, b: f32) -> Self::F {
        [a, a, a, a, b, b, b, b]
    }
    #[inline(always)]
    fn to_f32(self, a: Self::I) -> Self::F {
        each(a, |a| a as f32)
    }
    #[inline(always)]
    fn round_to_i8(self, x: [Self::F; 4], to: &mut [i8; 32]) -> i32 {
        let mut sum = 0;
        for (code, x) in to.iter_mut().zip(x.as_flattened()) {
            *code = x.round_ties_even() as i8;
            sum += i32::from(*code);
        }
        sum
    }
    #[inline(always)]
    fn load_bytes(self, from: &[u8; 32]) -> Self::B {
        *from
    }
    #[inline(always)]
    fn load_codes(self, from: &[i8; 32]) -> Self::B {
        from.map(|code| code as u8)
    }
    #[inline(always)]
    fn store_bytes(self, x: Self::B, to: &mut [u8; 32]) {
        *to = x;
    }
    #[inline(always)]
    fn nibbles(self, from: &[u8; 16]) -> Self::B {
        bytes(|i| if i < 16 { from[i] & 15 } else { from[i - 16] >> 4 })
    }
    #[inline(always)]
    fn spread_bits_16(self, bits: u32) -> Self::B {
        bytes(|i| ((bits >> i & 1) as u8) << 4)
    }
    #[inline(always)]
    fn shift_mask<const N: i32>(self, a: Self::B, mask: u8) -> Self::B {
        bytes(|i| a[i] >> N & mask)
    }
    #[inline(always)]
    fn shift_left_4(self, a: Self::B) -> Self::B {
        bytes(|i| a[i] << 4)
    }
    #[inline(always)]
    fn or(self, a: Self::B, b: Self::B) -> Self::B {
        bytes(|i| a[i] | b[i])
    }
    #[inline(always)]
    fn sub_bytes(self, a: Self::B, b: u8) -> Self::B {
        bytes(|i| a[i].wrapping_sub(b))
    }
    #[inline(always)]
    fn look_up(self, table: &[i8; 16], a: Self::B) -> Self::B {
        bytes(|i| table[usize::from(a[i] & 15)] as u8)
    }
    #[inline(always)]
    fn dot_unsigned(self, a: Self::B, b: Self::B) -> Self::I {
        dot(|i| i32::from(a[i]) * i32::from(b[i] as i8))
    }
    #[inline(always)]
    fn dot_signed(self, a: Self::B, b: Self::B) -> Self::I {
        dot(|i| i32::from(a[i] as i8) * i32::from(b[i] as i8))
    }
}
