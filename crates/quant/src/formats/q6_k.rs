//! Q6_K: 256 weights in 210 bytes: 128 bytes with the low four bits of the codes, 64 bytes with their high two
//! bits, 16 scales as `i8` (one for 16 weights), then the `f16` scale `d`.
//! `weight = (code - 32) * (d * scale)`.
//!
//! The two halves of 128 weights are alike, with 64 low and 32 high bytes each. Weight `32 q + j` of a half
//! (`q` in 0..4, `j` in 0..32) has its low bits in low byte `32 (q % 2) + j` (lower nibble for `q < 2`, upper
//! one above) and its high bits at bit `2 q` of high byte `j`.

use super::blocks::{decode_blocks, read_f16};
use crate::search::{Even, Plan, Scales, codes, search_scales, search_super_blocks};
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
    search: Some(search),
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

fn search(values: &[f32], importance: Option<&[f32]>, bytes: &mut [u8]) {
    search_super_blocks(
        values,
        importance,
        bytes,
        |tiles, weighted| search_scales::<Even<-32, 31>, 16, 2>(tiles, &PLAN, weighted),
        write,
    );
}

fn write(values: &[f32; 256], found: &Scales<2>, bytes: &mut [u8; 210]) {
    let d = found.d.to_f32();
    let scales = found.scales.as_flattened();
    let mut all = [0u8; 256];
    for (group, (values, all)) in values.as_chunks::<16>().0.iter().zip(all.as_chunks_mut::<16>().0).enumerate() {
        bytes[192 + group] = scales[group] as i8 as u8;
        *all = codes(values, d * scales[group], -32.0, 31.0, 32.0);
    }
    for half in 0..2 {
        let codes = &all[128 * half..][..128];
        for j in 0..32 {
            let four = [codes[j], codes[j + 32], codes[j + 64], codes[j + 96]];
            bytes[64 * half + j] = four[0] & 15 | four[2] << 4;
            bytes[64 * half + 32 + j] = four[1] & 15 | four[3] << 4;
            bytes[128 + 32 * half + j] = four[0] >> 4 | four[1] >> 4 << 2 | four[2] >> 4 << 4 | four[3] >> 4 << 6;
        }
    }
    bytes[208..].copy_from_slice(&found.d.to_le_bytes());
}

/// A scale has eight bits, so that several integers near the best scale are worth trying.
const PLAN: Plan = Plan {
    low: -128.0,
    high: 127.0,
    ends: &[-30.4, -31.0, -31.6, -32.0, -32.4],
    weighted_ends: &[-27.0, -28.3, -29.2, -30.0, -30.7, -31.3, -31.8, -32.3, -33.2, -34.5, -36.0],
    tops: &[-128.0, -127.0, -126.0, -125.0],
    beside: &[0.0, -1.0, 1.0, -2.0, 2.0, -3.0, 3.0],
};
