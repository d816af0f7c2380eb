//! Q5_K: 256 weights in 176 bytes: `f16` scale `d`, `f16` scale of the minima `dmin`, 12 bytes with scales and minima
//! as in Q4_K, 32 bytes with the fifth bits of the codes, then 128 bytes with their low four bits as in Q4_K.
//! `weight = code * (d * scale) - dmin * minimum`.
//!
//! The fifth bit of weight `32 g + j` is bit `g` of byte `j`.

use super::blocks::{decode_blocks, read_f16};
use super::q4_k::scale_and_minimum;
use crate::{Activation, Format};

pub(super) static Q5_K: Format = Format {
    name: "Q5_K",
    gguf_id: Some(13),
    block_weights: 256,
    block_bytes: 176,
    activation: Activation::Int8,
    // As in Q4_K: 63 steps of dmin.
    largest: 63.0 * 65504.0,
    dequantize: |bytes, values| decode_blocks(bytes, values, decode),
    quantize: None,
};

fn decode(bytes: &[u8; 176], values: &mut [f32; 256]) {
    let d = read_f16(bytes, 0);
    let dmin = read_f16(bytes, 2);
    let (packed, fifth_bits, low_bits) = (&bytes[4..16], &bytes[16..48], &bytes[48..]);
    for group in 0..8 {
        let (scale, minimum) = scale_and_minimum(packed, group);
        let step = d * f32::from(scale);
        let offset = dmin * f32::from(minimum);
        let shift = 4 * (group % 2);
        let low_bits = &low_bits[32 * (group / 2)..][..32];
        for j in 0..32 {
            let code = low_bits[j] >> shift & 15 | (fifth_bits[j] >> group & 1) << 4;
            values[32 * group + j] = f32::from(code) * step - offset;
        }
    }
}
