//! IQ4_NL: 32 weights in 18 bytes: `f16` scale `d`, then 16 bytes with 4-bit codes as in Q4_0. A code names one of
//! sixteen values that lie closer together near zero. `weight = VALUES[code] * d`.

use super::blocks::{decode_blocks, read_f16};
use crate::{Activation, Format};

pub(super) static IQ4_NL: Format = Format {
    name: "IQ4_NL",
    gguf_id: Some(20),
    block_weights: 32,
    block_bytes: 18,
    activation: Activation::Int8,
    largest: 113.0 * 65504.0,
    dequantize: |bytes, values| decode_blocks(bytes, values, decode),
    quantize: None,
};

/// What the sixteen codes stand for, part of the format.
pub(super) const VALUES: [i8; 16] = [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113];

fn decode(bytes: &[u8; 18], values: &mut [f32; 32]) {
    let d = read_f16(bytes, 0);
    for j in 0..16 {
        let pair = bytes[2 + j];
        values[j] = f32::from(VALUES[usize::from(pair & 15)]) * d;
        values[j + 16] = f32::from(VALUES[usize::from(pair >> 4)]) * d;
    }
}
