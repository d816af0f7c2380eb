//! Q4_1: 32 weights in 20 bytes: `f16` scale `d`, `f16` minimum `m`, then 16 bytes with the codes as in Q4_0.
//! `weight = code * d + m`.

use half::f16;

use super::blocks::{
    choose_scale_and_minimum, decode_blocks, encode_blocks, nearest_code, read_f16, scale_and_minimum,
};
use crate::search::{ENDS, LANES, Tile, WEIGHTED_ENDS, choose_with_minimum, codes_above, search_blocks};
use crate::{Activation, Format};

pub(super) static Q4_1: Format = Format {
    name: "Q4_1",
    gguf_id: Some(3),
    block_weights: 32,
    block_bytes: 20,
    activation: Activation::Int8,
    largest: 65504.0,
    dequantize: |bytes, values| decode_blocks(bytes, values, decode),
    quantize: Some(|values, bytes| encode_blocks(values, bytes, encode)),
    search: Some(search),
};

fn decode(bytes: &[u8; 20], values: &mut [f32; 32]) {
    let d = read_f16(bytes, 0);
    let m = read_f16(bytes, 2);
    for j in 0..16 {
        let pair = bytes[4 + j];
        values[j] = f32::from(pair & 15) * d + m;
        values[j + 16] = f32::from(pair >> 4) * d + m;
    }
}

fn encode(values: &[f32; 32], bytes: &mut [u8; 20]) {
    let stored = choose_scale_and_minimum(values, 15.0);
    let (d, m) = (stored.0.to_f32(), stored.1.to_f32());
    write(&stored, &values.map(|x| nearest_code(x - m, d, 0, 15) as u8), bytes);
}

fn write(stored: &(f16, f16), codes: &[u8; 32], bytes: &mut [u8; 20]) {
    bytes[..2].copy_from_slice(&stored.0.to_le_bytes());
    bytes[2..4].copy_from_slice(&stored.1.to_le_bytes());
    for j in 0..16 {
        bytes[4 + j] = codes[j] | codes[j + 16] << 4;
    }
}

fn search(values: &[f32], importance: Option<&[f32]>, bytes: &mut [u8]) {
    search_blocks(values, importance, bytes, find, |values, stored: &(f16, f16), bytes: &mut [u8; 20]| {
        write(stored, &codes_above(values, stored.0.to_f32(), stored.1.to_f32(), 15.0), bytes);
    });
}

fn find(tile: &mut Tile<32>, weighted: bool) -> [(f16, f16); LANES] {
    let (lowest, highest) = tile.range();
    let plain = std::array::from_fn(|lane| scale_and_minimum(lowest[lane], highest[lane], 15.0));
    choose_with_minimum::<15>(tile, if weighted { WEIGHTED_ENDS } else { ENDS }, &plain)
}
