//! Q4_0: 32 weights in 18 bytes: `f16` scale `d`, then 16 bytes. Byte `j` holds the code of weight `j` in its
//! low four bits and that of weight `j + 16` in its high four bits. `weight = (code - 8) * d`.

use super::blocks::{choose_signed_scale, decode_blocks, encode_blocks, nearest_code, read_f16};
use crate::{Activation, Format};

pub(super) static Q4_0: Format = Format {
    name: "Q4_0",
    gguf_id: Some(2),
    block_weights: 32,
    block_bytes: 18,
    activation: Activation::Int8,
    largest: 7.0 * 65504.0,
    dequantize: |bytes, values| decode_blocks(bytes, values, decode),
    quantize: Some(|values, bytes| encode_blocks(values, bytes, encode)),
};

fn decode(bytes: &[u8; 18], values: &mut [f32; 32]) {
    let d = read_f16(bytes, 0);
    for j in 0..16 {
        let pair = i32::from(bytes[2 + j]);
        values[j] = ((pair & 15) - 8) as f32 * d;
        values[j + 16] = ((pair >> 4) - 8) as f32 * d;
    }
}

fn encode(values: &[f32; 32], bytes: &mut [u8; 18]) {
    let stored = choose_signed_scale(values, 8.0);
    let d = stored.to_f32();
    bytes[..2].copy_from_slice(&stored.to_le_bytes());
    for j in 0..16 {
        let low = nearest_code(values[j], d, -8, 7) + 8;
        let high = nearest_code(values[j + 16], d, -8, 7) + 8;
        bytes[2 + j] = (low | high << 4) as u8;
    }
}
