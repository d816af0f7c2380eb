//! Q4_K: 256 weights in 144 bytes: `f16` scale `d`, `f16` scale of the minima `dmin`, 12 bytes with eight 6-bit
//! scales and eight 6-bit minima, then 128 bytes of 4-bit codes.
//!
//! Weights come in eight groups of 32. Groups `2 i` and `2 i + 1` share the 32 code bytes from `32 i` on: the
//! low four bits are those of the even group, the high four bits those of the odd one. With the 6-bit `scale`
//! and `minimum` of its group, `weight = code * (d * scale) - dmin * minimum`.

use super::blocks::{decode_blocks, read_f16};
use crate::search::{ENDS, LANES, Minima, MinimumPlan, WEIGHTED_ENDS, codes_above, search_minima, search_super_blocks};
use crate::{Activation, Format};

pub(super) static Q4_K: Format = Format {
    name: "Q4_K",
    gguf_id: Some(12),
    block_weights: 256,
    block_bytes: 144,
    activation: Activation::Int8,
    // Values of one sign only reach this through d, of the other through dmin: 63 steps of the latter.
    largest: 63.0 * 65504.0,
    dequantize: |bytes, values| decode_blocks(bytes, values, decode),
    quantize: None,
    search: Some(search),
};

fn decode(bytes: &[u8; 144], values: &mut [f32; 256]) {
    let d = read_f16(bytes, 0);
    let dmin = read_f16(bytes, 2);
    let (packed, codes) = (&bytes[4..16], &bytes[16..]);
    for group in 0..8 {
        let (scale, minimum) = scale_and_minimum(packed, group);
        let step = d * f32::from(scale);
        let offset = dmin * f32::from(minimum);
        let shift = 4 * (group % 2);
        let codes = &codes[32 * (group / 2)..][..32];
        for j in 0..32 {
            values[32 * group + j] = f32::from(codes[j] >> shift & 15) * step - offset;
        }
    }
}

/// The 6-bit scale and minimum of one of the eight groups, from the 12 bytes that hold all of them.
///
/// Groups 0 to 3 have the low six bits of bytes 0 to 3 (scales) and 4 to 7 (minima). Groups 4 to 7 have the two
/// halves of bytes 8 to 11 as their low four bits and the top two bits of bytes 0 to 3 (scales) and 4 to 7
/// (minima) above them.
pub(super) fn scale_and_minimum(packed: &[u8], group: usize) -> (u8, u8) {
    if group < 4 {
        (packed[group] & 63, packed[group + 4] & 63)
    } else {
        let low = packed[group + 4];
        (low & 15 | packed[group - 4] >> 6 << 4, low >> 4 | packed[group] >> 6 << 4)
    }
}

/// The inverse of [`scale_and_minimum`], for all groups.
pub(super) fn write_scales_and_minima(found: &Minima<1>, packed: &mut [u8]) {
    let scales = found.scales[0].map(|scale| scale as u8);
    let minima = found.minima[0].map(|minimum| minimum as u8);
    for group in 0..4 {
        packed[group] = scales[group] | scales[group + 4] >> 4 << 6;
        packed[group + 4] = minima[group] | minima[group + 4] >> 4 << 6;
        packed[group + 8] = scales[group + 4] & 15 | (minima[group + 4] & 15) << 4;
    }
}

fn search(values: &[f32], importance: Option<&[f32]>, bytes: &mut [u8]) {
    search_super_blocks(
        values,
        importance,
        bytes,
        |tiles, weighted| search_minima::<15, 32, 1>(tiles, &PLAN, weighted),
        write,
    );
}

fn write(values: &[f32; 256], found: &Minima<1>, bytes: &mut [u8; 144]) {
    bytes[..2].copy_from_slice(&found.d.to_le_bytes());
    bytes[2..4].copy_from_slice(&found.dmin.to_le_bytes());
    write_scales_and_minima(found, &mut bytes[4..16]);
    let all = group_codes(values, found, 15.0);
    for pair in 0..4 {
        for j in 0..32 {
            bytes[16 + 32 * pair + j] = all[2 * pair][j] | all[2 * pair + 1][j] << 4;
        }
    }
}

/// The codes of the groups of 32 weights, from 0 to `steps`.
pub(super) fn group_codes(values: &[f32; 256], found: &Minima<1>, steps: f32) -> [[u8; 32]; LANES] {
    let (d, dmin) = (found.d.to_f32(), found.dmin.to_f32());
    let mut all = [[0; 32]; LANES];
    for (group, values) in values.as_chunks::<32>().0.iter().enumerate() {
        all[group] = codes_above(values, d * found.scales[0][group], -dmin * found.minima[0][group], steps);
    }
    all
}

/// How Q4_K and Q5_K are searched, whose scales and minima are stored alike.
pub(super) const PLAN: MinimumPlan =
    MinimumPlan { highest: 63.0, ends: ENDS, weighted_ends: WEIGHTED_ENDS, tops: &[63.0, 62.0, 61.0], refits: 1 };
