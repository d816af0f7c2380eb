//! NVFP4: 64 weights in 36 bytes: four scale bytes, one for each sixteen weights, then 32 bytes with 4-bit codes, eight
//! for each sixteen. Byte `j` of the eight holds the code of weight `j` in its low bits and that of weight `j + 8` in its
//! high bits. A code is a float as in MXFP4; `weight = value * scale`.
//!
//! A scale is a float of four exponent bits and three mantissa bits, in bits 6 to 0 of its byte:
//! `2^(exponent - 7) * (1 + mantissa / 8)`, or `2^-6 * mantissa / 8` for the exponent 0. Bit 7, the sign, is ignored. The
//! byte 0x7f, which is NaN elsewhere, is 0 as GGUF files are read everywhere; 0xff is the 480 that its bits say.
//!
//! Files may have one more factor for a whole matrix in a tensor of its own, which is no part of the blocks.

use super::blocks::decode_blocks;
use super::mxfp4::DOUBLED;
use crate::{Activation, Format};

pub(super) static NVFP4: Format = Format {
    name: "NVFP4",
    gguf_id: Some(40),
    block_weights: 64,
    block_bytes: 36,
    activation: Activation::Int8,
    // 448 is the largest scale that is written: the byte 0x7e.
    largest: 6.0 * 448.0,
    dequantize: |bytes, values| decode_blocks(bytes, values, decode),
    quantize: None,
    search: None,
};

fn decode(bytes: &[u8; 36], values: &mut [f32; 64]) {
    for (group, values) in values.as_chunks_mut::<16>().0.iter_mut().enumerate() {
        let half_scale = half_scale(bytes[group]);
        let codes = &bytes[4 + 8 * group..][..8];
        for j in 0..8 {
            values[j] = f32::from(DOUBLED[usize::from(codes[j] & 15)]) * half_scale;
            values[j + 8] = f32::from(DOUBLED[usize::from(codes[j] >> 4)]) * half_scale;
        }
    }
}

/// Half of the scale that a byte stands for.
fn half_scale(byte: u8) -> f32 {
    if byte == 0x7f {
        return 0.0;
    }
    let (exponent, mantissa) = (byte >> 3 & 15, byte & 7);
    // Eighths: a whole one comes on top, save at the lowest exponent, whose step is that of the exponent 1.
    let eighths = if exponent == 0 { mantissa } else { 8 | mantissa };
    // 2^(exponent - 7), halved, an eighth of it.
    f32::from(eighths) * f32::from_bits((127 - 11 + u32::from(exponent.max(1))) << 23)
}
