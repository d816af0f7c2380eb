//! Q5_0: 32 weights in 22 bytes: `f16` scale `d`, `u32` with the fifth bit of weight `j` at bit `j`, then 16
//! bytes with the low four bits of the codes as in Q4_0. `weight = (code - 16) * d`.

use super::blocks::{choose_signed_scale, decode_blocks, encode_blocks, nearest_code, read_f16, read_u32};
use crate::{Activation, Format};

pub(super) static Q5_0: Format = Format {
    name: "Q5_0",
    gguf_id: Some(6),
    block_weights: 32,
    block_bytes: 22,
    activation: Activation::Int8,
    largest: 15.0 * 65504.0,
    dequantize: |bytes, values| decode_blocks(bytes, values, decode),
    quantize: Some(|values, bytes| encode_blocks(values, bytes, encode)),
};

fn decode(bytes: &[u8; 22], values: &mut [f32; 32]) {
    let d = read_f16(bytes, 0);
    let fifth_bits = read_u32(bytes, 2);
    let fifth = |weight: usize| ((fifth_bits >> weight & 1) << 4) as i32;
    for j in 0..16 {
        let pair = i32::from(bytes[6 + j]);
        values[j] = ((pair & 15 | fifth(j)) - 16) as f32 * d;
        values[j + 16] = ((pair >> 4 | fifth(j + 16)) - 16) as f32 * d;
    }
}

fn encode(values: &[f32; 32], bytes: &mut [u8; 22]) {
    let stored = choose_signed_scale(values, 16.0);
    let d = stored.to_f32();
    let codes = values.map(|x| (nearest_code(x, d, -16, 15) + 16) as u32);
    let mut fifth_bits = 0u32;
    for (weight, code) in codes.iter().enumerate() {
        fifth_bits |= (code >> 4) << weight;
    }
    bytes[..2].copy_from_slice(&stored.to_le_bytes());
    bytes[2..6].copy_from_slice(&fifth_bits.to_le_bytes());
    for j in 0..16 {
        bytes[6 + j] = (codes[j] & 15 | (codes[j + 16] & 15) << 4) as u8;
    }
}
