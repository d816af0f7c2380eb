//! Q3_K: 256 weights in 110 bytes: 32 bytes with the third bits of the codes, 64 bytes with their low two bits, 12
//! bytes with sixteen 6-bit scales (one for 16 weights), then the `f16` scale `d`.
//! `weight = (code - 4) * (d * (scale - 32))`.
//!
//! The low bits stand as in Q2_K. The third bit of weight `32 g + j` is bit `g` of byte `j`. Scale `i` has its low
//! four bits in byte `i % 8` of the twelve (lower nibble for `i < 8`, upper one above) and its high two bits at bit
//! `2 (i / 4)` of byte `8 + i % 4`.

use super::blocks::{decode_blocks, read_f16};
use crate::search::{Even, Plan, Scales, codes, search_scales, search_super_blocks};
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
    search: Some(search),
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

fn search(values: &[f32], importance: Option<&[f32]>, bytes: &mut [u8]) {
    search_super_blocks(
        values,
        importance,
        bytes,
        |tiles, weighted| search_scales::<Even<-4, 3>, 16, 2>(tiles, &PLAN, weighted),
        write,
    );
}

fn write(values: &[f32; 256], found: &Scales<2>, bytes: &mut [u8; 110]) {
    let d = found.d.to_f32();
    let scales = found.scales.as_flattened();
    bytes.fill(0);
    let mut all = [0u8; 256];
    for (group, (values, all)) in values.as_chunks::<16>().0.iter().zip(all.as_chunks_mut::<16>().0).enumerate() {
        *all = codes(values, d * scales[group], -4.0, 3.0, 4.0);
        let scale = (scales[group] + 32.0) as u8;
        bytes[96 + group % 8] |= (scale & 15) << (4 * (group / 8));
        bytes[104 + group % 4] |= scale >> 4 << (2 * (group / 4));
    }
    for j in 0..32 {
        for group in 0..8 {
            bytes[j] |= all[32 * group + j] >> 2 << group;
        }
    }
    let low_bits = all.map(|code| code & 3);
    write_two_bits(&low_bits, &mut bytes[32..96]);
    bytes[108..].copy_from_slice(&found.d.to_le_bytes());
}

/// Writes 256 codes of two bits each into 64 bytes, as Q2_K and Q3_K have them.
pub(super) fn write_two_bits(codes: &[u8; 256], bytes: &mut [u8]) {
    for half in 0..2 {
        let codes = &codes[128 * half..][..128];
        let bytes = &mut bytes[32 * half..][..32];
        for j in 0..32 {
            bytes[j] = codes[j] | codes[j + 32] << 2 | codes[j + 64] << 4 | codes[j + 96] << 6;
        }
    }
}

const PLAN: Plan = Plan {
    low: -32.0,
    high: 31.0,
    ends: &[-3.1, -3.4, -3.7, -4.0, -4.3, -4.6, 2.7, 3.0, 3.3, 3.6],
    weighted_ends: &[
        -2.2, -2.5, -2.8, -3.1, -3.4, -3.7, -4.0, -4.3, -4.6, -4.9, -5.3, -5.8, 2.4, 2.7, 3.0, 3.3, 3.6, 4.0, 4.5,
    ],
    tops: &[-32.0, -31.0, -30.0, -29.0, -31.5, -30.5, 30.5],
    beside: &[0.0, -1.0, 1.0, -2.0, 2.0],
};
