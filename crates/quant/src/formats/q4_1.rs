//! Q4_1: 32 weights in 20 bytes: `f16` scale `d`, `f16` minimum `m`, then 16 bytes with the codes as in Q4_0.
//! `weight = code * d + m`.

use half::f16;

use super::blocks::{choose_scale, decode_blocks, encode_blocks, nearest_code, read_f16};
use crate::{Activation, Format};

pub(super) static Q4_1: Format = Format {
    name: "Q4_1",
    gguf_id: 3,
    block_weights: 32,
    block_bytes: 20,
    activation: Activation::Int8,
    largest: 65504.0,
    dequantize: |bytes, values| decode_blocks(bytes, values, decode),
    quantize: Some(|values, bytes| encode_blocks(values, bytes, encode)),
};

fn decode(bytes: &[u8; 20], values: &mut [f32; 32]) {
    let d = read_f16(bytes, 0);
    let m = read_f16(bytes, 2);
    for j in 0..16 {
        let pair = bytes[4 + j];
        values[j] = f32::from(pair & 15) * d + m;
        values[j + 16] = f32::from(pair >> 4) * d + m;
    }
}

fn encode(values: &[f32; 32], bytes: &mut [u8; 20]) {
    let lowest = values.iter().fold(f32::INFINITY, |acc, &x| acc.min(x));
    let highest = values.iter().fold(f32::NEG_INFINITY, |acc, &x| acc.max(x));
    let stored_m = round_down(lowest);
    let m = stored_m.to_f32();
    // From the stored minimum, so that its rounding, which can be several steps, makes the scale larger instead
    // of clipping.
    let range = (highest - m).max(0.0);
    let stored_d = choose_scale(range / 15.0, range / 15.5);
    let d = stored_d.to_f32();
    bytes[..2].copy_from_slice(&stored_d.to_le_bytes());
    bytes[2..4].copy_from_slice(&stored_m.to_le_bytes());
    for j in 0..16 {
        let low = nearest_code(values[j] - m, d, 0, 15);
        let high = nearest_code(values[j + 16] - m, d, 0, 15);
        bytes[4 + j] = (low | high << 4) as u8;
    }
}

/// The largest finite `f16` that is not above `value`, or the lowest one.
fn round_down(value: f32) -> f16 {
    let nearest = f16::from_f32(value.clamp(f16::MIN.to_f32(), f16::MAX.to_f32()));
    if nearest.to_f32() <= value || nearest == f16::MIN {
        return nearest;
    }
    let bits = nearest.to_bits();
    match bits {
        // The next value below zero, of either sign, is the smallest negative subnormal.
        0 | 0x8000 => f16::from_bits(0x8001),
        _ if nearest.is_sign_negative() => f16::from_bits(bits + 1),
        _ => f16::from_bits(bits - 1),
    }
}
