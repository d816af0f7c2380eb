//! IQ4_XS: 256 weights in 136 bytes: `f16` scale `d`, `u16` with the high two bits of eight 6-bit scales, 4 bytes with
//! their low four bits, then 128 bytes of 4-bit codes. `weight = VALUES[code] * (d * (scale - 32))`, with the values of
//! IQ4_NL.
//!
//! Weights come in eight groups of 32 with a scale and 16 code bytes each, which stand as in Q4_0. Scale `i` has its high
//! bits at bit `2 i` of the `u16` and its low bits in byte `i / 2`, lower nibble first.

use super::blocks::{decode_blocks, nibble, read_f16, read_u16};
use super::iq4_nl::{ENDS, Uneven, VALUES, WEIGHTED_ENDS, uneven_codes, write_nibbles};
use crate::search::{Plan, Scales, search_scales, search_super_blocks};
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
    search: Some(search),
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

fn search(values: &[f32], importance: Option<&[f32]>, bytes: &mut [u8]) {
    search_super_blocks(
        values,
        importance,
        bytes,
        |tiles, weighted| search_scales::<Uneven, 32, 1>(tiles, &PLAN, weighted),
        write,
    );
}

fn write(values: &[f32; 256], found: &Scales<1>, bytes: &mut [u8; 136]) {
    let d = found.d.to_f32();
    let mut high_bits = 0;
    bytes[4..8].fill(0);
    for (group, values) in values.as_chunks::<32>().0.iter().enumerate() {
        let scale = found.scales[0][group];
        let packed = (scale + 32.0) as u16;
        high_bits |= packed >> 4 << (2 * group);
        bytes[4 + group / 2] |= ((packed & 15) as u8) << (4 * (group % 2));
        write_nibbles(&uneven_codes(values, d * scale), &mut bytes[8 + 16 * group..][..16]);
    }
    bytes[..2].copy_from_slice(&found.d.to_le_bytes());
    bytes[2..4].copy_from_slice(&high_bits.to_le_bytes());
}

const PLAN: Plan = Plan {
    low: -32.0,
    high: 31.0,
    ends: &ENDS,
    weighted_ends: &WEIGHTED_ENDS,
    tops: &[-32.0, -31.0, -30.0, -31.5, -30.5],
    beside: &[0.0, -1.0, 1.0, -2.0, 2.0],
};
