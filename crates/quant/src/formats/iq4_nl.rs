//! IQ4_NL: 32 weights in 18 bytes: `f16` scale `d`, then 16 bytes with 4-bit codes as in Q4_0. A code names one of
//! sixteen values that lie closer together near zero. `weight = VALUES[code] * d`.

use half::f16;

use super::blocks::{decode_blocks, read_f16};
use crate::search::{Codes, LANES, Tile, choose, inverse, limit, round_to_integer, search_blocks};
use crate::{Activation, Format};

pub(super) static IQ4_NL: Format = Format {
    name: "IQ4_NL",
    gguf_id: Some(20),
    block_weights: 32,
    block_bytes: 18,
    activation: Activation::Int8,
    largest: 113.0 * 65504.0,
    dequantize: |bytes, values| decode_blocks(bytes, values, decode),
    quantize: None,
    search: Some(search),
};

/// What the sixteen codes stand for, part of the format.
pub(super) const VALUES: [i8; 16] = [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113];

fn decode(bytes: &[u8; 18], values: &mut [f32; 32]) {
    let d = read_f16(bytes, 0);
    for j in 0..16 {
        let pair = bytes[2 + j];
        values[j] = f32::from(VALUES[usize::from(pair & 15)]) * d;
        values[j + 16] = f32::from(VALUES[usize::from(pair >> 4)]) * d;
    }
}

/// The code nearest to half of the index, counted from -128: the values lie so that a half decides.
static NEAREST: [u8; 512] = nearest();

/// [`VALUES`] of the codes in [`NEAREST`].
static NEAREST_VALUES: [f32; 512] = nearest_values();

const fn nearest() -> [u8; 512] {
    let mut codes = [0; 512];
    let mut index = 0;
    while index < codes.len() {
        // The middle of the half that the index stands for, in quarters.
        let quarters = 2 * index as i32 - 4 * 128 + 1;
        let mut code = 0;
        while code + 1 < VALUES.len() && 2 * (VALUES[code] as i32 + VALUES[code + 1] as i32) < quarters {
            code += 1;
        }
        codes[index] = code as u8;
        index += 1;
    }
    codes
}

const fn nearest_values() -> [f32; 512] {
    let mut values = [0.0; 512];
    let mut index = 0;
    while index < values.len() {
        values[index] = VALUES[NEAREST[index] as usize] as f32;
        index += 1;
    }
    values
}

/// Where the nearest code to `y` stands in [`NEAREST`].
#[inline(always)]
fn place(y: f32) -> usize {
    // In halves, less a half of one, so that rounding to nearest is rounding down; from 0 to 511.
    let halves = limit(y * 2.0 + 255.5, 0.0, 511.0);
    round_to_integer(halves) as usize & 511
}

/// The sixteen values as codes of a search.
pub(super) struct Uneven;

impl Codes for Uneven {
    #[inline(always)]
    fn nearest(y: f32) -> f32 {
        NEAREST_VALUES[place(y)]
    }
}

/// The codes nearest to `values / step`.
pub(super) fn uneven_codes(values: &[f32; 32], step: f32) -> [u8; 32] {
    let inverse = inverse(step);
    values.map(|x| NEAREST[place(x * inverse)])
}

/// Two codes a byte, as in Q4_0.
pub(super) fn write_nibbles(codes: &[u8; 32], bytes: &mut [u8]) {
    for j in 0..16 {
        bytes[j] = codes[j] | codes[j + 16] << 4;
    }
}

fn search(values: &[f32], importance: Option<&[f32]>, bytes: &mut [u8]) {
    search_blocks(values, importance, bytes, find, |values, stored: &f16, bytes: &mut [u8; 18]| {
        bytes[..2].copy_from_slice(&stored.to_le_bytes());
        write_nibbles(&uneven_codes(values, stored.to_f32()), &mut bytes[2..]);
    });
}

fn find(tile: &mut Tile<32>, weighted: bool) -> [f16; LANES] {
    let ends: &[f32] = if weighted { &WEIGHTED_ENDS } else { &ENDS };
    choose::<Uneven, 32>(tile, ends, &[f16::ZERO; LANES])
}

/// Where the extreme weight is put.
pub(super) const ENDS: [f32; 12] =
    [-106.0, -112.0, -117.0, -122.0, -127.0, -131.0, 97.0, 103.0, 108.0, 113.0, 117.0, -100.0];

/// The same where there is importance: the extreme weight may count for little then.
pub(super) const WEIGHTED_ENDS: [f32; 18] = [
    -90.0, -97.0, -103.0, -109.0, -115.0, -121.0, -127.0, -133.0, -141.0, -150.0, 84.0, 91.0, 97.0, 103.0, 109.0,
    115.0, 123.0, 133.0,
];
