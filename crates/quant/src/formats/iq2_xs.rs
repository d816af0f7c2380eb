//! IQ2_XS: 256 weights in 74 bytes: `f16` scale `d`, 32 little-endian `u16`, one for eight weights (nine bits name a grid
//! row, the seven above them are signs), then 8 bytes with sixteen 4-bit scales, one for 16 weights, lower nibble
//! first. `weight = ± row value * (d * (0.5 + scale) / 4)`.

use super::blocks::{decode_blocks, nibble, read_f16, read_u16};
use super::grids::{IQ2_XS as GRID, signs, write_row};
use crate::{Activation, Format};

pub(super) static IQ2_XS: Format = Format {
    name: "IQ2_XS",
    gguf_id: Some(17),
    block_weights: 256,
    block_bytes: 74,
    activation: Activation::Int8,
    largest: 15.5 * 0.25 * 43.0 * 65504.0,
    dequantize: |bytes, values| decode_blocks(bytes, values, decode),
    quantize: None,
    search: None,
};

fn decode(bytes: &[u8; 74], values: &mut [f32; 256]) {
    let d = read_f16(bytes, 0);
    for (k, values) in values.as_chunks_mut::<8>().0.iter_mut().enumerate() {
        let packed = read_u16(bytes, 2 + 2 * k);
        let scale = d * (0.5 + f32::from(nibble(&bytes[66..], k / 2))) * 0.25;
        write_row(&GRID[usize::from(packed & 511)], scale, signs(u32::from(packed >> 9)), values);
    }
}
