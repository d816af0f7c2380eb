//! How each quantized format is taken apart, thirty-two codes at a time.
//!
//! Every format comes to the same three things per group of 32 weights: codes (bytes), one or two scales,
//! and an offset, so that `weight = code * scale + offset`. What the dot product does with them is written
//! once, in [`super::integer`].

use half::f16;

use crate::simd::{LANES, Simd};

/// A quantized format as the integer kernels see it.
pub(crate) trait Codes: 'static {
    /// The name in [`duan_quant::FORMATS`].
    const FORMAT: &'static str;
    /// Whether codes are signed (-128..=127) or not (0..=127).
    const SIGNED: bool;
    /// Scales of a group: 1, or 2 for its two halves.
    const SCALES: usize;
    /// Whether `weight = code * scale` needs an offset added.
    const OFFSETS: bool;
    /// Groups of 32 in a block.
    const GROUPS: usize;
    /// A block's bytes.
    type Block: Copy + Send + Sync;

    /// A row's blocks.
    fn blocks(row: &[u8]) -> &[Self::Block];

    /// The scales [groups * SCALES] and offsets [groups] of a row's blocks, with room for whole vectors after them;
    /// offsets are left alone where there are none.
    fn scales<S: Simd>(s: S, blocks: &[Self::Block], scales: &mut [f32], offsets: &mut [f32]);

    /// The 32 codes of one group of a block, in the order of the weights.
    fn group<S: Simd>(s: S, block: &Self::Block, group: usize) -> S::B;
}

#[inline(always)]
fn half_at(block: &[u8], at: usize) -> f32 {
    f16_to_f32(u16::from_le_bytes([block[at], block[at + 1]]))
}

/// Widens a half float without a branch on the CPU's features: rebuilds the exponent by a multiplication, which
/// is exact for subnormals too.
#[inline(always)]
fn f16_to_f32(bits: u16) -> f32 {
    let magnitude = f32::from_bits(u32::from(bits & 0x7fff) << 13) * f32::from_bits(0x7780_0000); // times 2^112
    let infinite_or_nan = (bits & 0x7c00) == 0x7c00;
    let magnitude = if infinite_or_nan { f16::from_bits(bits & 0x7fff).to_f32() } else { magnitude };
    if bits & 0x8000 == 0 { magnitude } else { -magnitude }
}

/// The half floats at `at` of every block, widened eight at a time; zeros fill the last vector.
#[inline(always)]
fn half_of_each<S: Simd, const BYTES: usize>(s: S, blocks: &[[u8; BYTES]], at: usize, to: &mut [f32]) {
    for (blocks, to) in blocks.chunks(LANES).zip(to.as_chunks_mut::<LANES>().0) {
        // Put together in registers: a vector load of what was just stored piece by piece would wait for the stores.
        let mut halves = 0u128;
        for (index, block) in blocks.iter().enumerate() {
            halves |= u128::from(u16::from_le_bytes([block[at], block[at + 1]])) << (16 * index);
        }
        s.store(s.load_f16_bytes(&halves.to_le_bytes()), to);
    }
}

/// Each number times `factor`.
#[inline(always)]
fn times<S: Simd>(s: S, from: &[f32], factor: f32, to: &mut [f32]) {
    let factor = s.splat(factor);
    for (from, to) in from.as_chunks::<LANES>().0.iter().zip(to.as_chunks_mut::<LANES>().0) {
        s.store(s.mul(s.load(from), factor), to);
    }
}

/// Sixteen bytes of a block from `at`.
#[inline(always)]
fn sixteen(block: &[u8], at: usize) -> &[u8; 16] {
    // The ranges below are constants within blocks of constant size, so this check is decided at compile time.
    block[at..at + 16].first_chunk().expect("sixteen bytes")
}

/// Thirty-two bytes of a block from `at`.
#[inline(always)]
fn thirty_two(block: &[u8], at: usize) -> &[u8; 32] {
    block[at..at + 32].first_chunk().expect("thirty-two bytes")
}

/// Scale, 16 bytes of nibbles; `(code - 8) * scale`.
pub(crate) struct Q4_0;

impl Codes for Q4_0 {
    const FORMAT: &'static str = "Q4_0";
    const SIGNED: bool = false;
    const SCALES: usize = 1;
    const OFFSETS: bool = true;
    const GROUPS: usize = 1;
    type Block = [u8; 18];

    #[inline(always)]
    fn blocks(row: &[u8]) -> &[Self::Block] {
        row.as_chunks().0
    }
    #[inline(always)]
    fn scales<S: Simd>(s: S, blocks: &[Self::Block], scales: &mut [f32], offsets: &mut [f32]) {
        half_of_each(s, blocks, 0, scales);
        times(s, scales, -8.0, offsets);
    }
    #[inline(always)]
    fn group<S: Simd>(s: S, block: &Self::Block, _group: usize) -> S::B {
        s.nibbles(sixteen(block, 2))
    }
}

/// Scale, minimum, 16 bytes of nibbles; `code * scale + minimum`.
pub(crate) struct Q4_1;

impl Codes for Q4_1 {
    const FORMAT: &'static str = "Q4_1";
    const SIGNED: bool = false;
    const SCALES: usize = 1;
    const OFFSETS: bool = true;
    const GROUPS: usize = 1;
    type Block = [u8; 20];

    #[inline(always)]
    fn blocks(row: &[u8]) -> &[Self::Block] {
        row.as_chunks().0
    }
    #[inline(always)]
    fn scales<S: Simd>(s: S, blocks: &[Self::Block], scales: &mut [f32], offsets: &mut [f32]) {
        half_of_each(s, blocks, 0, scales);
        half_of_each(s, blocks, 2, offsets);
    }
    #[inline(always)]
    fn group<S: Simd>(s: S, block: &Self::Block, _group: usize) -> S::B {
        s.nibbles(sixteen(block, 4))
    }
}

/// Scale, 32 fifth bits, 16 bytes of nibbles; `(code - 16) * scale`.
pub(crate) struct Q5_0;

impl Codes for Q5_0 {
    const FORMAT: &'static str = "Q5_0";
    const SIGNED: bool = false;
    const SCALES: usize = 1;
    const OFFSETS: bool = true;
    const GROUPS: usize = 1;
    type Block = [u8; 22];

    #[inline(always)]
    fn blocks(row: &[u8]) -> &[Self::Block] {
        row.as_chunks().0
    }
    #[inline(always)]
    fn scales<S: Simd>(s: S, blocks: &[Self::Block], scales: &mut [f32], offsets: &mut [f32]) {
        half_of_each(s, blocks, 0, scales);
        times(s, scales, -16.0, offsets);
    }
    #[inline(always)]
    fn group<S: Simd>(s: S, block: &Self::Block, _group: usize) -> S::B {
        let bits = u32::from_le_bytes([block[2], block[3], block[4], block[5]]);
        s.or(s.nibbles(sixteen(block, 6)), s.spread_bits_16(bits))
    }
}

/// Scale, minimum, 32 fifth bits, 16 bytes of nibbles; `code * scale + minimum`.
pub(crate) struct Q5_1;

impl Codes for Q5_1 {
    const FORMAT: &'static str = "Q5_1";
    const SIGNED: bool = false;
    const SCALES: usize = 1;
    const OFFSETS: bool = true;
    const GROUPS: usize = 1;
    type Block = [u8; 24];

    #[inline(always)]
    fn blocks(row: &[u8]) -> &[Self::Block] {
        row.as_chunks().0
    }
    #[inline(always)]
    fn scales<S: Simd>(s: S, blocks: &[Self::Block], scales: &mut [f32], offsets: &mut [f32]) {
        half_of_each(s, blocks, 0, scales);
        half_of_each(s, blocks, 2, offsets);
    }
    #[inline(always)]
    fn group<S: Simd>(s: S, block: &Self::Block, _group: usize) -> S::B {
        let bits = u32::from_le_bytes([block[4], block[5], block[6], block[7]]);
        s.or(s.nibbles(sixteen(block, 8)), s.spread_bits_16(bits))
    }
}

/// Scale, 32 signed bytes.
pub(crate) struct Q8_0;

impl Codes for Q8_0 {
    const FORMAT: &'static str = "Q8_0";
    const SIGNED: bool = true;
    const SCALES: usize = 1;
    const OFFSETS: bool = false;
    const GROUPS: usize = 1;
    type Block = [u8; 34];

    #[inline(always)]
    fn blocks(row: &[u8]) -> &[Self::Block] {
        row.as_chunks().0
    }
    #[inline(always)]
    fn scales<S: Simd>(s: S, blocks: &[Self::Block], scales: &mut [f32], _offsets: &mut [f32]) {
        half_of_each(s, blocks, 0, scales);
    }
    #[inline(always)]
    fn group<S: Simd>(s: S, block: &Self::Block, _group: usize) -> S::B {
        s.load_bytes(thirty_two(block, 2))
    }
}

/// Two half floats, eight pairs of 6-bit scale and minimum, 128 bytes of nibbles:
/// `code * d * scale - dmin * minimum`.
pub(crate) struct Q4K;

impl Codes for Q4K {
    const FORMAT: &'static str = "Q4_K";
    const SIGNED: bool = false;
    const SCALES: usize = 1;
    const OFFSETS: bool = true;
    const GROUPS: usize = 8;
    type Block = [u8; 144];

    #[inline(always)]
    fn blocks(row: &[u8]) -> &[Self::Block] {
        row.as_chunks().0
    }
    #[inline(always)]
    fn scales<S: Simd>(_: S, blocks: &[Self::Block], scales: &mut [f32], offsets: &mut [f32]) {
        let places = scales.as_chunks_mut::<8>().0.iter_mut().zip(offsets.as_chunks_mut::<8>().0);
        for (block, (scales, offsets)) in blocks.iter().zip(places) {
            let (d, dmin) = (half_at(block, 0), half_at(block, 2));
            let packed = &block[4..16];
            for group in 0..8 {
                // The first four pairs have six bits each in their own bytes; the last four borrow two bits from there.
                let (scale, minimum) = if group < 4 {
                    (packed[group] & 63, packed[group + 4] & 63)
                } else {
                    let low = packed[group + 4];
                    ((low & 15) | (packed[group - 4] >> 6 << 4), (low >> 4) | (packed[group] >> 6 << 4))
                };
                scales[group] = d * f32::from(scale);
                offsets[group] = -dmin * f32::from(minimum);
            }
        }
    }
    #[inline(always)]
    fn group<S: Simd>(s: S, block: &Self::Block, group: usize) -> S::B {
        let pair = s.load_bytes(thirty_two(block, 16 + group / 2 * 32));
        if group.is_multiple_of(2) { s.shift_mask::<0>(pair, 15) } else { s.shift_mask::<4>(pair, 15) }
    }
}

/// 128 bytes of low nibbles, 64 of high bit pairs, sixteen signed scales, one half float:
/// `(code - 32) * d * scale`, a scale for each 16 weights. Codes are made signed here.
pub(crate) struct Q6K;

impl Codes for Q6K {
    const FORMAT: &'static str = "Q6_K";
    const SIGNED: bool = true;
    const SCALES: usize = 2;
    const OFFSETS: bool = false;
    const GROUPS: usize = 8;
    type Block = [u8; 210];

    #[inline(always)]
    fn blocks(row: &[u8]) -> &[Self::Block] {
        row.as_chunks().0
    }
    #[inline(always)]
    fn scales<S: Simd>(_: S, blocks: &[Self::Block], scales: &mut [f32], _offsets: &mut [f32]) {
        for (block, scales) in blocks.iter().zip(scales.as_chunks_mut::<16>().0) {
            let d = half_at(block, 208);
            for (scale, &code) in scales.iter_mut().zip(&block[192..208]) {
                *scale = d * f32::from(code as i8);
            }
        }
    }
    #[inline(always)]
    fn group<S: Simd>(s: S, block: &Self::Block, group: usize) -> S::B {
        let (half, quarter) = (group / 4, group % 4);
        let low = s.load_bytes(thirty_two(block, half * 64 + quarter % 2 * 32));
        let low = if quarter < 2 { s.shift_mask::<0>(low, 15) } else { s.shift_mask::<4>(low, 15) };
        let high = s.load_bytes(thirty_two(block, 128 + half * 32));
        let high = match quarter {
            0 => s.shift_mask::<0>(high, 3),
            1 => s.shift_mask::<2>(high, 3),
            2 => s.shift_mask::<4>(high, 3),
            _ => s.shift_mask::<6>(high, 3),
        };
        s.sub_bytes(s.or(low, s.shift_left_4(high)), 32)
    }
}

/// What the sixteen codes of IQ4_NL stand for, as in `duan_quant`.
const IQ4_NL_VALUES: [i8; 16] = [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113];

/// Scale, 16 bytes of nibbles that name values; `value * scale`. The values are the codes here.
pub(crate) struct Iq4Nl;

impl Codes for Iq4Nl {
    const FORMAT: &'static str = "IQ4_NL";
    const SIGNED: bool = true;
    const SCALES: usize = 1;
    const OFFSETS: bool = false;
    const GROUPS: usize = 1;
    type Block = [u8; 18];

    #[inline(always)]
    fn blocks(row: &[u8]) -> &[Self::Block] {
        row.as_chunks().0
    }
    #[inline(always)]
    fn scales<S: Simd>(s: S, blocks: &[Self::Block], scales: &mut [f32], _offsets: &mut [f32]) {
        half_of_each(s, blocks, 0, scales);
    }
    #[inline(always)]
    fn group<S: Simd>(s: S, block: &Self::Block, _group: usize) -> S::B {
        s.look_up(&IQ4_NL_VALUES, s.nibbles(sixteen(block, 2)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_half_float_is_widened_exactly() {
        for bits in 0..=u16::MAX {
            let (got, want) = (f16_to_f32(bits), f16::from_bits(bits).to_f32());
            assert!(got.to_bits() == want.to_bits() || got.is_nan() && want.is_nan(), "{bits:04x}");
        }
    }
}
