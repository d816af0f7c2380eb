//! Q5_K: 256 weights in 176 bytes: `f16` scale `d`, `f16` scale of the minima `dmin`, 12 bytes with scales and minima
//! as in Q4_K, 32 bytes with the fifth bits of the codes, then 128 bytes with their low four bits as in Q4_K.
//! `weight = code * (d * scale) - dmin * minimum`.
//!
//! The fifth bit of weight `32 g + j` is bit `g` of byte `j`.

use super::blocks::{decode_blocks, read_f16};
use super::q4_k::{PLAN, group_codes, scale_and_minimum, write_scales_and_minima};
use crate::search::{Minima, search_minima, search_super_blocks};
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
    search: Some(search),
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

fn search(values: &[f32], importance: Option<&[f32]>, bytes: &mut [u8]) {
    search_super_blocks(
        values,
        importance,
        bytes,
        |tiles, weighted| search_minima::<31, 32, 1>(tiles, &PLAN, weighted),
        write,
    );
}

fn write(values: &[f32; 256], found: &Minima<1>, bytes: &mut [u8; 176]) {
    bytes[..2].copy_from_slice(&found.d.to_le_bytes());
    bytes[2..4].copy_from_slice(&found.dmin.to_le_bytes());
    write_scales_and_minima(found, &mut bytes[4..16]);
    let all = group_codes(values, found, 31.0);
    for j in 0..32 {
        let mut fifth_bits = 0;
        for group in 0..8 {
            fifth_bits |= all[group][j] >> 4 << group;
        }
        bytes[16 + j] = fifth_bits;
    }
    for pair in 0..4 {
        for j in 0..32 {
            bytes[48 + 32 * pair + j] = all[2 * pair][j] & 15 | (all[2 * pair + 1][j] & 15) << 4;
        }
    }
}
