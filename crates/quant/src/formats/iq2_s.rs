//! IQ2_S: 256 weights in 82 bytes: `f16` scale `d`, 32 bytes with the low eight bits of grid indices (one for eight
//! weights), 32 bytes of signs (bit `j` for the `j`-th of the eight), 8 bytes with the high two bits of the indices (four
//! to a byte, from the lowest bits up), then 8 bytes of scales as in IQ2_XS.
//! `weight = ± row value * (d * (0.5 + scale) / 4)`.

use super::blocks::{decode_blocks, nibble, read_f16};
use super::grids::{IQ2_S as GRID, write_row};
use crate::{Activation, Format};

pub(super) static IQ2_S: Format = Format {
    name: "IQ2_S",
    gguf_id: Some(22),
    block_weights: 256,
    block_bytes: 82,
    activation: Activation::Int8,
    largest: 15.5 * 0.25 * 43.0 * 65504.0,
    dequantize: |bytes, values| decode_blocks(bytes, values, decode),
    quantize: None,
    search: None,
};

fn decode(bytes: &[u8; 82], values: &mut [f32; 256]) {
    let d = read_f16(bytes, 0);
    let (low, signs, high, scales) = (&bytes[2..34], &bytes[34..66], &bytes[66..74], &bytes[74..]);
    for (k, values) in values.as_chunks_mut::<8>().0.iter_mut().enumerate() {
        let row = usize::from(low[k]) | usize::from(high[k / 4] >> (2 * (k % 4)) & 3) << 8;
        let scale = d * (0.5 + f32::from(nibble(scales, k / 2))) * 0.25;
        write_row(&GRID[row], scale, signs[k], values);
    }
}
