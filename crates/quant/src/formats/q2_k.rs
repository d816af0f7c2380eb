//! Q2_K: 256 weights in 84 bytes: 16 bytes with a 4-bit scale (low) and a 4-bit minimum (high) for 16 weights each,
//! 64 bytes of 2-bit codes, `f16` scale `d`, `f16` scale of the minima `dmin`.
//! `weight = code * (d * scale) - dmin * minimum`.
//!
//! The two halves of 128 weights are alike, with 32 code bytes each. Weight `32 q + j` of a half (`q` in 0..4, `j` in
//! 0..32) has its code at bit `2 q` of code byte `j`.

use super::blocks::{decode_blocks, read_f16};
use crate::{Activation, Format};

pub(super) static Q2_K: Format = Format {
    name: "Q2_K",
    gguf_id: Some(10),
    block_weights: 256,
    block_bytes: 84,
    activation: Activation::Int8,
    // Values of one sign only reach this through d, of the other through dmin: 15 steps of the latter.
    largest: 15.0 * 65504.0,
    dequantize: |bytes, values| decode_blocks(bytes, values, decode),
    quantize: None,
};

fn decode(bytes: &[u8; 84], values: &mut [f32; 256]) {
    let d = read_f16(bytes, 80);
    let dmin = read_f16(bytes, 82);
    for group in 0..16 {
        let step = d * f32::from(bytes[group] & 15);
        let offset = dmin * f32::from(bytes[group] >> 4);
        let (half, shift) = (group / 8, group % 8 / 2 * 2);
        let codes = &bytes[16 + 32 * half + 16 * (group % 2)..][..16];
        for j in 0..16 {
            values[16 * group + j] = f32::from(codes[j] >> shift & 3) * step - offset;
        }
    }
}
