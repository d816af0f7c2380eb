//! MXFP4: 32 weights in 17 bytes: a byte `e` that gives the scale `2^(e - 127)`, then 16 bytes with 4-bit codes as in
//! Q4_0. A code is a float of one sign bit, two exponent bits and one mantissa bit: 0, 0.5, 1, 1.5, 2, 3, 4 or 6.
//!
//! Source: "OCP Microscaling Formats (MX) Specification", version 1.0, sections 5.3.3, 5.4.1 and 6.3. As GGUF files are
//! read everywhere, the scale byte 255, which is NaN there, is the next power of two.

use super::blocks::{decode_blocks, encode_blocks};
use crate::search::{Codes, LANES, LARGEST, Tile, error_of, limit, round_to_integer, search_blocks};
use crate::{Activation, Format};

pub(super) static MXFP4: Format = Format {
    name: "MXFP4",
    gguf_id: Some(39),
    block_weights: 32,
    block_bytes: 17,
    activation: Activation::Int8,
    // 6 times 2^124, the scale that the largest values get which the walk over blocks lets through.
    largest: 6.0 * f32::from_bits(0x7d80_0000),
    dequantize: |bytes, values| decode_blocks(bytes, values, decode),
    quantize: Some(|values, bytes| encode_blocks(values, bytes, encode)),
    search: Some(search),
};

/// Twice what the sixteen codes stand for: whole numbers. Part of the format.
pub(super) const DOUBLED: [i8; 16] = [0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12];

fn decode(bytes: &[u8; 17], values: &mut [f32; 32]) {
    let half_scale = half_scale(bytes[0]);
    for j in 0..16 {
        let pair = bytes[1 + j];
        values[j] = f32::from(DOUBLED[usize::from(pair & 15)]) * half_scale;
        values[j + 16] = f32::from(DOUBLED[usize::from(pair >> 4)]) * half_scale;
    }
}

/// Half of `2^(e - 127)`, which for the two lowest `e` is subnormal.
fn half_scale(e: u8) -> f32 {
    match e {
        0 | 1 => f32::from_bits(0x0020_0000 << e),
        _ => f32::from_bits(u32::from(e - 1) << 23),
    }
}

/// The conversion of section 6.3: the largest magnitude gets the exponent of 4 and 6, the largest codes. What lies above 6
/// then (magnitudes up to 8) becomes 6, so a value can be off by a quarter of itself.
fn encode(values: &[f32; 32], bytes: &mut [u8; 17]) {
    let largest = values.iter().fold(0.0f32, |acc, x| acc.max(x.abs()));
    write(values, &exponent(largest), bytes);
}

/// The scale byte for a block whose largest magnitude is `largest`.
fn exponent(largest: f32) -> u8 {
    // The exponent bits count from 127 as `e` does; 4 is 2^2.
    ((largest.to_bits() >> 23) as u8).saturating_sub(2)
}

fn write(values: &[f32; 32], e: &u8, bytes: &mut [u8; 17]) {
    let half_scale = half_scale(*e);
    let codes = values.map(|x| nearest(x, half_scale));
    bytes[0] = *e;
    for j in 0..16 {
        bytes[1 + j] = codes[j] | codes[j + 16] << 4;
    }
}

/// The code whose value is nearest; of two, the one nearer to zero.
fn nearest(x: f32, half_scale: f32) -> u8 {
    let mut best = 0;
    let mut least = f32::INFINITY;
    for (code, &doubled) in DOUBLED.iter().enumerate() {
        let error = (f32::from(doubled) * half_scale - x).abs();
        if error < least {
            (best, least) = (code as u8, error);
        }
    }
    best
}

/// Twice the magnitudes of the codes, as codes of a search.
struct Floats;

/// The magnitude in [`DOUBLED`] nearest to half of the index: the magnitudes lie so that a half decides.
static MAGNITUDES: [f32; 32] = magnitudes();

const fn magnitudes() -> [f32; 32] {
    let mut magnitudes = [0.0; 32];
    let mut index = 0;
    while index < magnitudes.len() {
        let mut code = 0;
        // The middle of the half that the index stands for, in quarters.
        while code < 7 && 2 * (DOUBLED[code] as usize + DOUBLED[code + 1] as usize) < 2 * index + 1 {
            code += 1;
        }
        magnitudes[index] = DOUBLED[code] as f32;
        index += 1;
    }
    magnitudes
}

impl Codes for Floats {
    #[inline(always)]
    fn nearest(y: f32) -> f32 {
        // In halves, less a half of one, so that rounding to nearest is rounding down.
        let halves = limit(y.abs() * 2.0 - 0.5, 0.0, 31.0);
        MAGNITUDES[round_to_integer(halves) as usize & 31].copysign(y)
    }
}

/// The scale byte of the plain conversion, the next one (nothing is clipped then) or the one before.
fn search(values: &[f32], importance: Option<&[f32]>, bytes: &mut [u8]) {
    if values.iter().any(|x| x.abs() > LARGEST) {
        // The squares would be infinite.
        return encode_blocks(values, bytes, encode);
    }
    search_blocks(values, importance, bytes, find, write);
}

fn find(tile: &mut Tile<32>, _weighted: bool) -> [u8; LANES] {
    let (lowest, highest) = tile.range();
    let plain: [u8; LANES] = std::array::from_fn(|lane| exponent(highest[lane].max(-lowest[lane])));
    let mut chosen = plain;
    let mut least = [f32::INFINITY; LANES];
    for beside in [0, 1, -1] {
        let tried = plain.map(|e| e.saturating_add_signed(beside));
        let off = error_of::<Floats, 32>(tile, &tried.map(half_scale));
        for lane in 0..LANES {
            if off[lane] < least[lane] {
                (chosen[lane], least[lane]) = (tried[lane], off[lane]);
            }
        }
    }
    chosen
}
