//! What the codecs share: walking over blocks, reading and choosing scales.

use half::f16;

/// Calls `decode` for each block of `bytes` `[blocks * BYTES]` and its `values` `[blocks * WEIGHTS]`.
///
/// Panics where the lengths do not belong together: [`crate::Format::decode`] is the checked way.
pub(super) fn decode_blocks<const WEIGHTS: usize, const BYTES: usize>(
    bytes: &[u8],
    values: &mut [f32],
    decode: impl Fn(&[u8; BYTES], &mut [f32; WEIGHTS]),
) {
    let (byte_blocks, byte_rest) = bytes.as_chunks::<BYTES>();
    let (value_blocks, value_rest) = values.as_chunks_mut::<WEIGHTS>();
    assert!(byte_rest.is_empty() && value_rest.is_empty(), "not a whole number of blocks");
    assert_eq!(byte_blocks.len(), value_blocks.len(), "bytes and values do not belong together");
    for (bytes, values) in byte_blocks.iter().zip(value_blocks) {
        decode(bytes, values);
    }
}

/// Calls `encode` for each block of `values` `[blocks * WEIGHTS]` and its `bytes` `[blocks * BYTES]`.
///
/// `encode` sees finite values only: NaN is given to it as 0, infinities as the largest finite value, half of it, so
/// that a difference of two values stays finite.
///
/// Panics where the lengths do not belong together: [`crate::Format::encode`] is the checked way.
pub(super) fn encode_blocks<const WEIGHTS: usize, const BYTES: usize>(
    values: &[f32],
    bytes: &mut [u8],
    encode: impl Fn(&[f32; WEIGHTS], &mut [u8; BYTES]),
) {
    let (value_blocks, value_rest) = values.as_chunks::<WEIGHTS>();
    let (byte_blocks, byte_rest) = bytes.as_chunks_mut::<BYTES>();
    assert!(byte_rest.is_empty() && value_rest.is_empty(), "not a whole number of blocks");
    assert_eq!(byte_blocks.len(), value_blocks.len(), "bytes and values do not belong together");
    for (values, bytes) in value_blocks.iter().zip(byte_blocks) {
        encode(&finite(values), bytes);
    }
}

/// The values with NaN as 0 and infinities as half of the largest finite value.
pub(super) fn finite<const WEIGHTS: usize>(values: &[f32; WEIGHTS]) -> [f32; WEIGHTS] {
    let limit = f32::MAX / 2.0;
    values.map(|x| if x.is_nan() { 0.0 } else { x.clamp(-limit, limit) })
}

/// The `f16` at `bytes[at..at + 2]`, little-endian, as `f32`.
pub(super) fn read_f16<const BYTES: usize>(bytes: &[u8; BYTES], at: usize) -> f32 {
    f16::from_le_bytes([bytes[at], bytes[at + 1]]).to_f32()
}

/// The `u16` at `bytes[at..at + 2]`, little-endian.
pub(super) fn read_u16<const BYTES: usize>(bytes: &[u8; BYTES], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

/// The `u32` at `bytes[at..at + 4]`, little-endian.
pub(super) fn read_u32<const BYTES: usize>(bytes: &[u8; BYTES], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// The 4-bit number `index` of those that stand two to a byte, the lower nibble first.
pub(super) fn nibble(bytes: &[u8], index: usize) -> u8 {
    bytes[index / 2] >> (4 * (index % 2)) & 15
}

/// The scale to store: the `f16` nearest to `wanted` that is not below `needed`, at most the largest finite one.
///
/// `needed` is the scale at which the outermost value is half a step from the outermost code; a smaller one
/// would clip. Both are positive or zero, and `needed <= wanted`. Rounding to nearest alone could go below it where
/// the scale is subnormal in `f16`, down to 0 for a block that is not zero.
pub(super) fn choose_scale(wanted: f32, needed: f32) -> f16 {
    let nearest = f16::from_f32(wanted.min(f16::MAX.to_f32()));
    if nearest.to_f32() < needed && nearest < f16::MAX {
        // For a positive finite f16 the next bit pattern is the next larger value.
        return f16::from_bits(nearest.to_bits() + 1);
    }
    nearest
}

/// The code nearest to `value / scale`, halves away from zero, in `low..=high`; 0 where the scale is 0.
///
/// The division is kept (instead of a product with `1 / scale`, which can overflow).
pub(super) fn nearest_code(value: f32, scale: f32, low: i32, high: i32) -> i32 {
    if scale == 0.0 {
        return 0;
    }
    (value / scale).round().clamp(low as f32, high as f32) as i32
}

/// The lowest and the highest of `values`.
fn range(values: &[f32]) -> (f32, f32) {
    let lowest = values.iter().fold(f32::INFINITY, |acc, &x| acc.min(x));
    let highest = values.iter().fold(f32::NEG_INFINITY, |acc, &x| acc.max(x));
    (lowest, highest)
}

/// [`signed_scale`] for a block.
pub(super) fn choose_signed_scale<const WEIGHTS: usize>(values: &[f32; WEIGHTS], steps: f32) -> f16 {
    let (lowest, highest) = range(values);
    signed_scale(lowest, highest, steps)
}

/// [`scale_and_minimum`] for a block.
pub(super) fn choose_scale_and_minimum<const WEIGHTS: usize>(values: &[f32; WEIGHTS], steps: f32) -> (f16, f16) {
    let (lowest, highest) = range(values);
    scale_and_minimum(lowest, highest, steps)
}

/// Scale of a format whose codes reach from `-steps` to `steps - 1`, for weights from `lowest` to `highest`; signed so that
/// the value of the largest magnitude gets the code `-steps`; 0 for a block of zeros.
///
/// The scale is enlarged where the largest value of the other sign would be more than half a step beyond the
/// code `steps - 1`, so that the error of every value is at most half a step.
pub(crate) fn signed_scale(lowest: f32, highest: f32, steps: f32) -> f16 {
    let (highest, lowest) = (highest.max(0.0), (-lowest).max(0.0));
    let (larger, smaller) = if highest > lowest { (highest, lowest) } else { (lowest, highest) };
    let other = smaller / (steps - 0.5);
    let scale = choose_scale((larger / steps).max(other), (larger / (steps + 0.5)).max(other));
    if highest > lowest { -scale } else { scale }
}

/// Scale and minimum of a format whose codes reach from 0 to `steps`, with `weight = code * scale + minimum`, for weights
/// from `lowest` to `highest`.
///
/// The scale is taken from the stored minimum, so that the rounding of the latter, which can be several steps, makes the
/// scale larger instead of clipping.
pub(super) fn scale_and_minimum(lowest: f32, highest: f32, steps: f32) -> (f16, f16) {
    let minimum = round_down(lowest);
    let range = (highest - minimum.to_f32()).max(0.0);
    (choose_scale(range / steps, range / (steps + 0.5)), minimum)
}

/// The largest finite `f16` that is not above `value`, or the lowest one.
fn round_down(value: f32) -> f16 {
    let nearest = f16::from_f32(value.clamp(f16::MIN.to_f32(), f16::MAX.to_f32()));
    if nearest.to_f32() <= value || nearest == f16::MIN {
        return nearest;
    }
    let bits = nearest.to_bits();
    match bits {
        // The next value below zero, of either sign, is the smallest negative subnormal.
        0 | 0x8000 => f16::from_bits(0x8001),
        _ if nearest.is_sign_negative() => f16::from_bits(bits + 1),
        _ => f16::from_bits(bits - 1),
    }
}
