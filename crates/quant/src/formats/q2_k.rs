//! Q2_K: 256 weights in 84 bytes: 16 bytes with a 4-bit scale (low) and a 4-bit minimum (high) for 16 weights each,
//! 64 bytes of 2-bit codes, `f16` scale `d`, `f16` scale of the minima `dmin`.
//! `weight = code * (d * scale) - dmin * minimum`.
//!
//! The two halves of 128 weights are alike, with 32 code bytes each. Weight `32 q + j` of a half (`q` in 0..4, `j` in
//! 0..32) has its code at bit `2 q` of code byte `j`.

use super::blocks::{decode_blocks, read_f16};
use super::q3_k::write_two_bits;
use crate::search::{Minima, MinimumPlan, codes_above, search_minima, search_super_blocks};
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
    search: Some(search),
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

fn search(values: &[f32], importance: Option<&[f32]>, bytes: &mut [u8]) {
    search_super_blocks(
        values,
        importance,
        bytes,
        |tiles, weighted| search_minima::<3, 16, 2>(tiles, &PLAN, weighted),
        write,
    );
}

fn write(values: &[f32; 256], found: &Minima<2>, bytes: &mut [u8; 84]) {
    let (d, dmin) = (found.d.to_f32(), found.dmin.to_f32());
    let (scales, minima) = (found.scales.as_flattened(), found.minima.as_flattened());
    let mut all = [0; 256];
    for (group, (values, all)) in values.as_chunks::<16>().0.iter().zip(all.as_chunks_mut::<16>().0).enumerate() {
        bytes[group] = scales[group] as u8 | (minima[group] as u8) << 4;
        *all = codes_above(values, d * scales[group], -dmin * minima[group], 3.0);
    }
    write_two_bits(&all, &mut bytes[16..80]);
    bytes[80..82].copy_from_slice(&found.d.to_le_bytes());
    bytes[82..].copy_from_slice(&found.dmin.to_le_bytes());
}

const PLAN: MinimumPlan = MinimumPlan {
    highest: 15.0,
    ends: &[
        (0.0, 0.0),
        (0.2, 0.0),
        (0.0, -0.2),
        (0.3, -0.3),
        (-0.2, 0.0),
        (0.0, 0.2),
        (-0.2, 0.2),
        (-0.3, 0.3),
        (0.4, 0.0),
        (0.0, -0.4),
        (-0.4, -0.2),
        (0.2, 0.4),
        (-0.4, 0.1),
        (-0.1, 0.4),
        (0.1, -0.1),
        (0.4, -0.4),
    ],
    weighted_ends: &[
        (0.0, 0.0),
        (0.2, 0.0),
        (0.0, -0.2),
        (0.3, -0.3),
        (-0.2, 0.0),
        (0.0, 0.2),
        (-0.2, 0.2),
        (-0.3, 0.3),
        (0.4, 0.0),
        (0.0, -0.4),
        (-0.4, -0.2),
        (0.2, 0.4),
        (-0.4, 0.1),
        (-0.1, 0.4),
        (0.1, -0.1),
        (0.4, -0.4),
        (-0.6, 0.3),
        (-0.3, 0.6),
        (-0.5, 0.5),
        (-0.8, 0.8),
        (-1.0, 0.2),
        (-0.2, 1.0),
        (-0.7, -0.2),
        (0.2, 0.7),
    ],
    tops: &[15.0, 14.5, 14.0, 13.5, 13.0, 12.5],
    refits: 2,
};
