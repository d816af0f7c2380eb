//! Q6_K: 256 weights in 210 bytes: 128 bytes with the low four bits of the codes, 64 bytes with their high two
//! bits, 16 scales as `i8` (one for 16 weights), then the `f16` scale `d`.
//! `weight = (code - 32) * (d * scale)`.
//!
//! The two halves of 128 weights are alike, with 64 low and 32 high bytes each. Weight `32 q + j` of a half
//! (`q` in 0..4, `j` in 0..32) has its low bits in low byte `32 (q % 2) + j` (lower nibble for `q < 2`, upper
//! one above) and its high bits at bit `2 q` of high byte `j`.

use super::blocks::{decode_blocks, read_f16};
use crate::{Activation, Format};

pub(super) static Q6_K: Format = Format {
    name: "Q6_K",
    gguf_id: Some(14),
    block_weights: 256,
    block_bytes: 210,
    activation: Activation::Int8,
    largest: 127.0 * 31.0 * 65504.0,
    dequantize: |bytes, values| decode_blocks(bytes, values, decode),
    quantize: None,
};

fn decode(bytes: &[u8; 210], values: &mut [f32; 256]) {
    let d = read_f16(bytes, 208);
    for half in 0..2 {
        let low = &bytes[64 * half..][..64];
        let high = &bytes[128 + 32 * half..][..32];
        for q in 0..4 {
            for j in 0..32 {
                let low_bits = low[32 * (q % 2) + j] >> (4 * (q / 2)) & 15;
                let high_bits = high[j] >> (2 * q) & 3;
                let code = i32::from(low_bits | high_bits << 4) - 32;
                let weight = 128 * half + 32 * q + j;
                let scale = bytes[192 + weight / 16] as i8;
                values[weight] = code as f32 * (d * f32::from(scale));
            }
        }
    }
}
