//! Q5_0: 32 weights in 22 bytes: `f16` scale `d`, `u32` with the fifth bit of weight `j` at bit `j`, then 16
//! bytes with the low four bits of the codes as in Q4_0. `weight = (code - 16) * d`.

use half::f16;

use super::blocks::{
    choose_signed_scale, decode_blocks, encode_blocks, nearest_code, read_f16, read_u32, signed_scale,
};
use crate::search::{Even, LANES, Tile, choose, codes, search_blocks};
use crate::{Activation, Format};

pub(super) static Q5_0: Format = Format {
    name: "Q5_0",
    gguf_id: Some(6),
    block_weights: 32,
    block_bytes: 22,
    activation: Activation::Int8,
    largest: 15.0 * 65504.0,
    dequantize: |bytes, values| decode_blocks(bytes, values, decode),
    quantize: Some(|values, bytes| encode_blocks(values, bytes, encode)),
    search: Some(search),
};

fn decode(bytes: &[u8; 22], values: &mut [f32; 32]) {
    let d = read_f16(bytes, 0);
    let fifth_bits = read_u32(bytes, 2);
    let fifth = |weight: usize| ((fifth_bits >> weight & 1) << 4) as i32;
    for j in 0..16 {
        let pair = i32::from(bytes[6 + j]);
        values[j] = ((pair & 15 | fifth(j)) - 16) as f32 * d;
        values[j + 16] = ((pair >> 4 | fifth(j + 16)) - 16) as f32 * d;
    }
}

fn encode(values: &[f32; 32], bytes: &mut [u8; 22]) {
    let stored = choose_signed_scale(values, 16.0);
    let d = stored.to_f32();
    write(stored, &values.map(|x| (nearest_code(x, d, -16, 15) + 16) as u8), bytes);
}

fn write(stored: f16, codes: &[u8; 32], bytes: &mut [u8; 22]) {
    bytes[..2].copy_from_slice(&stored.to_le_bytes());
    write_five_bits(codes, &mut bytes[2..]);
}

/// Writes the codes of 32 weights, five bits each, as the format says: the fifth bits, then the others.
pub(super) fn write_five_bits(codes: &[u8; 32], bytes: &mut [u8]) {
    let mut fifth_bits = 0u32;
    for (weight, &code) in codes.iter().enumerate() {
        fifth_bits |= u32::from(code >> 4) << weight;
    }
    bytes[..4].copy_from_slice(&fifth_bits.to_le_bytes());
    for j in 0..16 {
        bytes[4 + j] = codes[j] & 15 | (codes[j + 16] & 15) << 4;
    }
}

fn search(values: &[f32], importance: Option<&[f32]>, bytes: &mut [u8]) {
    search_blocks(values, importance, bytes, find, |values, stored: &f16, bytes: &mut [u8; 22]| {
        write(*stored, &codes(values, stored.to_f32(), -16.0, 15.0, 16.0), bytes);
    });
}

fn find(tile: &mut Tile<32>, weighted: bool) -> [f16; LANES] {
    let (lowest, highest) = tile.range();
    let plain = std::array::from_fn(|lane| signed_scale(lowest[lane], highest[lane], 16.0));
    let ends: &[f32] = if weighted { &WEIGHTED_ENDS } else { &ENDS };
    choose::<Even<-16, 15>, 32>(tile, ends, &plain)
}

/// Where the extreme weight is put, in codes.
const ENDS: [f32; 12] = [-14.8, -15.1, -15.4, -15.7, -16.0, -16.2, -16.4, 14.7, 15.0, 15.2, 15.4, 15.6];

/// The same where there is importance: the extreme weight may count for little then.
const WEIGHTED_ENDS: [f32; 20] = [
    -13.2, -13.7, -14.2, -14.6, -15.0, -15.3, -15.6, -15.9, -16.2, -16.5, -17.0, -17.6, -18.4, 13.6, 14.2, 14.7, 15.2,
    15.7, 16.3, 17.0,
];
