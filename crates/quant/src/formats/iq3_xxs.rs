//! IQ3_XXS: 256 weights in 98 bytes: `f16` scale `d`, 64 bytes that name grid rows (one for four weights), then a
//! little-endian `u32` for each of eight groups of 32 weights: seven sign bits for each eight of them, from the lowest
//! bits up, and above them a 4-bit scale. `weight = ± row value * (d * (0.5 + scale) / 2)`.

use super::blocks::{decode_blocks, read_f16, read_u32};
use super::grids::{IQ3_XXS as GRID, signs, write_row};
use crate::{Activation, Format};

pub(super) static IQ3_XXS: Format = Format {
    name: "IQ3_XXS",
    gguf_id: Some(18),
    block_weights: 256,
    block_bytes: 98,
    activation: Activation::Int8,
    largest: 15.5 * 0.5 * 62.0 * 65504.0,
    dequantize: |bytes, values| decode_blocks(bytes, values, decode),
    quantize: None,
    search: None,
};

fn decode(bytes: &[u8; 98], values: &mut [f32; 256]) {
    let d = read_f16(bytes, 0);
    for (k, values) in values.as_chunks_mut::<8>().0.iter_mut().enumerate() {
        let packed = read_u32(bytes, 66 + k / 4 * 4);
        let scale = d * (0.5 + (packed >> 28) as f32) * 0.5;
        let signs = signs(packed >> (7 * (k % 4)));
        let rows = &bytes[2 + 2 * k..][..2];
        write_row(&GRID[usize::from(rows[0])], scale, signs, values);
        write_row(&GRID[usize::from(rows[1])], scale, signs >> 4, &mut values[4..]);
    }
}
