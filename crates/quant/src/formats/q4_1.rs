//! Q4_1: 32 weights in 20 bytes: `f16` scale `d`, `f16` minimum `m`, then 16 bytes with the codes as in Q4_0.
//! `weight = code * d + m`.

use super::blocks::{choose_scale_and_minimum, decode_blocks, encode_blocks, nearest_code, read_f16};
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
    let (stored_d, stored_m) = choose_scale_and_minimum(values, 15.0);
    let (d, m) = (stored_d.to_f32(), stored_m.to_f32());
    bytes[..2].copy_from_slice(&stored_d.to_le_bytes());
    bytes[2..4].copy_from_slice(&stored_m.to_le_bytes());
    for j in 0..16 {
        let low = nearest_code(values[j] - m, d, 0, 15);
        let high = nearest_code(values[j + 16] - m, d, 0, 15);
        bytes[4 + j] = (low | high << 4) as u8;
    }
}
