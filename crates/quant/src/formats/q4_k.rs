//! Q4_K: 256 weights in 144 bytes: `f16` scale `d`, `f16` scale of the minima `dmin`, 12 bytes with eight 6-bit
//! scales and eight 6-bit minima, then 128 bytes of 4-bit codes.
//!
//! Weights come in eight groups of 32. Groups `2 i` and `2 i + 1` share the 32 code bytes from `32 i` on: the
//! low four bits are those of the even group, the high four bits those of the odd one. With the 6-bit `scale`
//! and `minimum` of its group, `weight = code * (d * scale) - dmin * minimum`.

use super::blocks::{decode_blocks, read_f16};
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
