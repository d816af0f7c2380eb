//! TQ2_0: 256 weights of -1, 0 or 1 times a scale in 66 bytes: 64 bytes of 2-bit codes, which stand as in Q2_K, then the
//! `f16` scale `d`. `weight = (code - 1) * d`; the code 3 can be read and has no meaning.

use super::blocks::{decode_blocks, read_f16};
use crate::{Activation, Format};

pub(super) static TQ2_0: Format = Format {
    name: "TQ2_0",
    gguf_id: Some(35),
    block_weights: 256,
    block_bytes: 66,
    activation: Activation::Int8,
    largest: 65504.0,
    dequantize: |bytes, values| decode_blocks(bytes, values, decode),
    quantize: None,
    search: None,
};

fn decode(bytes: &[u8; 66], values: &mut [f32; 256]) {
    let d = read_f16(bytes, 64);
    for (group, values) in values.as_chunks_mut::<32>().0.iter_mut().enumerate() {
        let (half, shift) = (group / 4, group % 4 * 2);
        let codes = &bytes[32 * half..][..32];
        for (value, codes) in values.iter_mut().zip(codes) {
            *value = f32::from((codes >> shift & 3) as i8 - 1) * d;
        }
    }
}
