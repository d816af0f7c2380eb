//! IQ1_S: 256 weights in 50 bytes: `f16` scale `d`, 32 bytes with the low eight bits of grid indices (one for eight
//! weights), then a little-endian `u16` for each of eight groups of 32 weights: the high three bits of the group's four
//! indices, from the lowest bits up, a 3-bit scale, and in the top bit the sign of a shift.
//! `weight = (row value ± 0.125) * (d * (2 * scale + 1))`.

use super::blocks::{decode_blocks, read_f16, read_u16};
use super::grids::IQ1;
use crate::{Activation, Format};

pub(super) static IQ1_S: Format = Format {
    name: "IQ1_S",
    gguf_id: Some(19),
    block_weights: 256,
    block_bytes: 50,
    activation: Activation::Int8,
    largest: 15.0 * 0.875 * 65504.0,
    dequantize: |bytes, values| decode_blocks(bytes, values, decode),
    quantize: None,
    search: None,
};

/// How far the values of a row are shifted, up or down.
pub(super) const SHIFT: f32 = 0.125;

fn decode(bytes: &[u8; 50], values: &mut [f32; 256]) {
    let d = read_f16(bytes, 0);
    for (k, values) in values.as_chunks_mut::<8>().0.iter_mut().enumerate() {
        let packed = read_u16(bytes, 34 + k / 4 * 2);
        let scale = d * f32::from(2 * (packed >> 12 & 7) + 1);
        let shift = if packed & 0x8000 == 0 { SHIFT } else { -SHIFT };
        let row = usize::from(bytes[2 + k]) | usize::from(packed >> (3 * (k % 4)) & 7) << 8;
        for (value, &code) in values.iter_mut().zip(&IQ1[row]) {
            *value = (f32::from(code) + shift) * scale;
        }
    }
}
