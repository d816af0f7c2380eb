//! IQ3_S: 256 weights in 110 bytes: `f16` scale `d`, 64 bytes with the low eight bits of grid indices (one for four
//! weights), 8 bytes with their ninth bits (eight to a byte, from the lowest up), 32 bytes of signs (bit `j` for the
//! `j`-th of eight weights), then 4 bytes with eight 4-bit scales, one for 32 weights, lower nibble first.
//! `weight = ± row value * (d * (1 + 2 * scale))`.

use super::blocks::{decode_blocks, nibble, read_f16};
use super::grids::{IQ3_S as GRID, write_row};
use crate::{Activation, Format};

pub(super) static IQ3_S: Format = Format {
    name: "IQ3_S",
    gguf_id: Some(21),
    block_weights: 256,
    block_bytes: 110,
    activation: Activation::Int8,
    largest: 31.0 * 15.0 * 65504.0,
    dequantize: |bytes, values| decode_blocks(bytes, values, decode),
    quantize: None,
    search: None,
};

fn decode(bytes: &[u8; 110], values: &mut [f32; 256]) {
    let d = read_f16(bytes, 0);
    let (low, high, signs, scales) = (&bytes[2..66], &bytes[66..74], &bytes[74..106], &bytes[106..]);
    let row = |index: usize| usize::from(low[index]) | usize::from(high[index / 8] >> (index % 8) & 1) << 8;
    for (k, values) in values.as_chunks_mut::<8>().0.iter_mut().enumerate() {
        let scale = d * f32::from(1 + 2 * nibble(scales, k / 4));
        write_row(&GRID[row(2 * k)], scale, signs[k], values);
        write_row(&GRID[row(2 * k + 1)], scale, signs[k] >> 4, &mut values[4..]);
    }
}
