//! Q5_1: 32 weights in 24 bytes: `f16` scale `d`, `f16` minimum `m`, `u32` with the fifth bit of weight `j` at bit
//! `j`, then 16 bytes with the low four bits of the codes as in Q4_0. `weight = code * d + m`.

use half::f16;

use super::blocks::{
    choose_scale_and_minimum, decode_blocks, encode_blocks, nearest_code, read_f16, read_u32, scale_and_minimum,
};
use super::q5_0::write_five_bits;
use crate::search::{ENDS, LANES, Tile, WEIGHTED_ENDS, choose_with_minimum, codes_above, search_blocks};
use crate::{Activation, Format};

pub(super) static Q5_1: Format = Format {
    name: "Q5_1",
    gguf_id: Some(7),
    block_weights: 32,
    block_bytes: 24,
    activation: Activation::Int8,
    largest: 65504.0,
    dequantize: |bytes, values| decode_blocks(bytes, values, decode),
    quantize: Some(|values, bytes| encode_blocks(values, bytes, encode)),
    search: Some(search),
};

fn decode(bytes: &[u8; 24], values: &mut [f32; 32]) {
    let d = read_f16(bytes, 0);
    let m = read_f16(bytes, 2);
    let fifth_bits = read_u32(bytes, 4);
    let fifth = |weight: usize| ((fifth_bits >> weight & 1) << 4) as u8;
    for j in 0..16 {
        let pair = bytes[8 + j];
        values[j] = f32::from(pair & 15 | fifth(j)) * d + m;
        values[j + 16] = f32::from(pair >> 4 | fifth(j + 16)) * d + m;
    }
}

fn encode(values: &[f32; 32], bytes: &mut [u8; 24]) {
    let stored = choose_scale_and_minimum(values, 31.0);
    let (d, m) = (stored.0.to_f32(), stored.1.to_f32());
    write(&stored, &values.map(|x| nearest_code(x - m, d, 0, 31) as u8), bytes);
}

fn write(stored: &(f16, f16), codes: &[u8; 32], bytes: &mut [u8; 24]) {
    bytes[..2].copy_from_slice(&stored.0.to_le_bytes());
    bytes[2..4].copy_from_slice(&stored.1.to_le_bytes());
    write_five_bits(codes, &mut bytes[4..]);
}

fn search(values: &[f32], importance: Option<&[f32]>, bytes: &mut [u8]) {
    search_blocks(values, importance, bytes, find, |values, stored: &(f16, f16), bytes: &mut [u8; 24]| {
        write(stored, &codes_above(values, stored.0.to_f32(), stored.1.to_f32(), 31.0), bytes);
    });
}

fn find(tile: &mut Tile<32>, weighted: bool) -> [(f16, f16); LANES] {
    let (lowest, highest) = tile.range();
    let plain = std::array::from_fn(|lane| scale_and_minimum(lowest[lane], highest[lane], 31.0));
    choose_with_minimum::<31>(tile, if weighted { WEIGHTED_ENDS } else { ENDS }, &plain)
}
