//! Q3_K: 256 weights in 110 bytes: 32 bytes with the third bits of the codes, 64 bytes with their low two bits, 12
//! bytes with sixteen 6-bit scales (one for 16 weights), then the `f16` scale `d`.
//! `weight = (code - 4) * (d * (scale - 32))`.
//!
//! The low bits stand as in Q2_K. The third bit of weight `32 g + j` is bit `g` of byte `j`. Scale `i` has its low
//! four bits in byte `i % 8` of the twelve (lower nibble for `i < 8`, upper one above) and its high two bits at bit
//! `2 (i / 4)` of byte `8 + i % 4`.

use super::blocks::{decode_blocks, read_f16};
use crate::{Activation, Format};

pub(super) static Q3_K: Format = Format {
    name: "Q3_K",
    gguf_id: Some(11),
    block_weights: 256,
    block_bytes: 110,
    activation: Activation::Int8,
    largest: 31.0 * 3.0 * 65504.0,
    dequantize: |bytes, values| decode_blocks(bytes, values, decode),
    quantize: None,
};

fn decode(bytes: &[u8; 110], values: &mut [f32; 256]) {
    let d = read_f16(bytes, 108);
    let (third_bits, low_bits, packed) = (&bytes[..32], &bytes[32..96], &bytes[96..108]);
    for group in 0..16 {
        let low = packed[group % 8] >> (4 * (group / 8)) & 15;
        let high = packed[8 + group % 4] >> (2 * (group / 4)) & 3;
        let step = d * f32::from((low | high << 4) as i8 - 32);
        let (half, shift, first) = (group / 8, group % 8 / 2 * 2, 16 * (group % 2));
        let low_bits = &low_bits[32 * half + first..][..16];
        let third_bits = &third_bits[first..][..16];
        for j in 0..16 {
            let third_bit = third_bits[j] >> (group / 2) & 1;
            let code = low_bits[j] >> shift & 3 | third_bit << 2;
            values[16 * group + j] = f32::from(code as i8 - 4) * step;
        }
    }
}
