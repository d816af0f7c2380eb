//! IQ4_XS: 256 weights in 136 bytes: `f16` scale `d`, `u16` with the high two bits of eight 6-bit scales, 4 bytes with
//! their low four bits, then 128 bytes of 4-bit codes. `weight = VALUES[code] * (d * (scale - 32))`, with the values of
//! IQ4_NL.
//!
//! Weights come in eight groups of 32 with a scale and 16 code bytes each, which stand as in Q4_0. Scale `i` has its high
//! bits at bit `2 i` of the `u16` and its low bits in byte `i / 2`, lower nibble first.

use super::blocks::{decode_blocks, nibble, read_f16, read_u16};
use super::iq4_nl::VALUES;
use crate::{Activation, Format};

pub(super) static IQ4_XS: Format = Format {
    name: "IQ4_XS",
    gguf_id: Some(23),
    block_weights: 256,
    block_bytes: 136,
    activation: Activation::Int8,
    largest: 31.0 * 113.0 * 65504.0,
    dequantize: |bytes, values| decode_blocks(bytes, values, decode),
    quantize: None,
};

fn decode(bytes: &[u8; 136], values: &mut [f32; 256]) {
    let d = read_f16(bytes, 0);
    let high_bits = read_u16(bytes, 2);
    for group in 0..8 {
        let low = nibble(&bytes[4..8], group);
        let high = (high_bits >> (2 * group) & 3) as u8;
        let step = d * f32::from((low | high << 4) as i8 - 32);
        let codes = &bytes[8 + 16 * group..][..16];
        let values = &mut values[32 * group..][..32];
        for j in 0..16 {
            values[j] = f32::from(VALUES[usize::from(codes[j] & 15)]) * step;
            values[j + 16] = f32::from(VALUES[usize::from(codes[j] >> 4)]) * step;
        }
    }
}
