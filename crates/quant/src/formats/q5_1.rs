//! Q5_1: 32 weights in 24 bytes: `f16` scale `d`, `f16` minimum `m`, `u32` with the fifth bit of weight `j` at bit
//! `j`, then 16 bytes with the low four bits of the codes as in Q4_0. `weight = code * d + m`.

use super::blocks::{choose_scale_and_minimum, decode_blocks, encode_blocks, nearest_code, read_f16, read_u32};
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
    let (stored_d, stored_m) = choose_scale_and_minimum(values, 31.0);
    let (d, m) = (stored_d.to_f32(), stored_m.to_f32());
    let codes = values.map(|x| nearest_code(x - m, d, 0, 31) as u32);
    let mut fifth_bits = 0u32;
    for (weight, code) in codes.iter().enumerate() {
        fifth_bits |= (code >> 4) << weight;
    }
    bytes[..2].copy_from_slice(&stored_d.to_le_bytes());
    bytes[2..4].copy_from_slice(&stored_m.to_le_bytes());
    bytes[4..8].copy_from_slice(&fifth_bits.to_le_bytes());
    for j in 0..16 {
        bytes[8 + j] = (codes[j] & 15 | (codes[j + 16] & 15) << 4) as u8;
    }
}
