//! TQ1_0: 256 weights of -1, 0 or 1 times a scale in 54 bytes: 52 bytes of base-3 digits, then the `f16` scale `d`.
//! `weight = (digit - 1) * d`.
//!
//! A byte holds the fraction `0.abcde` in base 3, in 256ths and rounded up, so that the digit `n` is the whole part of
//! the fraction times `3^(n + 1)`, modulo 3. The first 32 bytes have the weights `32 n + j` (`j` the byte), the next 16 the
//! weights `160 + 16 n + j`, and the last four, of four digits each, the weights `240 + 4 n + j`.

use super::blocks::{decode_blocks, read_f16};
use crate::{Activation, Format};

pub(super) static TQ1_0: Format = Format {
    name: "TQ1_0",
    gguf_id: Some(34),
    block_weights: 256,
    block_bytes: 54,
    activation: Activation::Int8,
    largest: 65504.0,
    dequantize: |bytes, values| decode_blocks(bytes, values, decode),
    quantize: None,
    search: None,
};

fn decode(bytes: &[u8; 54], values: &mut [f32; 256]) {
    let d = read_f16(bytes, 52);
    decode_digits(&bytes[..32], d, &mut values[..160]);
    decode_digits(&bytes[32..48], d, &mut values[160..240]);
    decode_digits(&bytes[48..52], d, &mut values[240..]);
}

/// The first digits of all `bytes`, then their second ones, as many as `values` has room for.
fn decode_digits(bytes: &[u8], d: f32, values: &mut [f32]) {
    let mut power = 1u8;
    for values in values.chunks_exact_mut(bytes.len()) {
        for (value, byte) in values.iter_mut().zip(bytes) {
            // What goes beyond eight bits are the digits before this one.
            let digit = (u16::from(byte.wrapping_mul(power)) * 3) >> 8;
            *value = f32::from(digit as i8 - 1) * d;
        }
        power = power.wrapping_mul(3);
    }
}
