//! IQ2_XXS: 256 weights in 66 bytes: `f16` scale `d`, then two little-endian `u32` for each of eight groups of 32 weights.
//! The bytes of the first name the grid rows of the group's four times eight weights; the second has seven sign bits
//! for each of these, from the lowest bits up, and above them a 4-bit scale.
//! `weight = ± row value * (d * (0.5 + scale) / 4)`.

use super::blocks::{decode_blocks, read_f16, read_u32};
use super::grids::{IQ2_XXS as GRID, signs, write_row};
use crate::{Activation, Format};

pub(super) static IQ2_XXS: Format = Format {
    name: "IQ2_XXS",
    gguf_id: Some(16),
    block_weights: 256,
    block_bytes: 66,
    activation: Activation::Int8,
    largest: 15.5 * 0.25 * 43.0 * 65504.0,
    dequantize: |bytes, values| decode_blocks(bytes, values, decode),
    quantize: None,
    search: None,
};

fn decode(bytes: &[u8; 66], values: &mut [f32; 256]) {
    let d = read_f16(bytes, 0);
    for (group, values) in values.as_chunks_mut::<32>().0.iter_mut().enumerate() {
        let at = 2 + 8 * group;
        let packed = read_u32(bytes, at + 4);
        let scale = d * (0.5 + (packed >> 28) as f32) * 0.25;
        for (k, values) in values.as_chunks_mut::<8>().0.iter_mut().enumerate() {
            write_row(&GRID[usize::from(bytes[at + k])], scale, signs(packed >> (7 * k)), values);
        }
    }
}
