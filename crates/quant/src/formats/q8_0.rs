//! Q8_0: 32 weights in 34 bytes: `f16` scale `d`, then 32 codes as `i8`. `weight = code * d`.
//! The code -128 can be read and is never written.

use half::f16;

use super::blocks::{choose_scale, decode_blocks, encode_blocks, nearest_code, read_f16};
use crate::search::{Even, LANES, Tile, choose, codes, search_blocks};
use crate::{Activation, Format};

pub(super) static Q8_0: Format = Format {
    name: "Q8_0",
    gguf_id: Some(8),
    block_weights: 32,
    block_bytes: 34,
    activation: Activation::Int8,
    largest: 127.0 * 65504.0,
    dequantize: |bytes, values| decode_blocks(bytes, values, decode),
    quantize: Some(|values, bytes| encode_blocks(values, bytes, encode)),
    search: Some(search),
};

fn decode(bytes: &[u8; 34], values: &mut [f32; 32]) {
    let d = read_f16(bytes, 0);
    for j in 0..32 {
        values[j] = f32::from(bytes[2 + j] as i8) * d;
    }
}

fn encode(values: &[f32; 32], bytes: &mut [u8; 34]) {
    let largest = values.iter().fold(0.0f32, |acc, x| acc.max(x.abs()));
    let stored = choose_scale(largest / 127.0, largest / 127.5);
    let d = stored.to_f32();
    write(stored, &values.map(|x| nearest_code(x, d, -127, 127) as i8 as u8), bytes);
}

fn write(stored: f16, codes: &[u8; 32], bytes: &mut [u8; 34]) {
    bytes[..2].copy_from_slice(&stored.to_le_bytes());
    bytes[2..].copy_from_slice(codes);
}

fn search(values: &[f32], importance: Option<&[f32]>, bytes: &mut [u8]) {
    search_blocks(values, importance, bytes, find, |values, stored: &f16, bytes: &mut [u8; 34]| {
        write(*stored, &codes(values, stored.to_f32(), -127.0, 127.0, 0.0), bytes);
    });
}

fn find(tile: &mut Tile<32>, weighted: bool) -> [f16; LANES] {
    let (lowest, highest) = tile.range();
    let plain = std::array::from_fn(|lane| {
        let largest = highest[lane].max(-lowest[lane]);
        choose_scale(largest / 127.0, largest / 127.5)
    });
    choose::<Even<-127, 127>, 32>(tile, if weighted { &WEIGHTED_ENDS } else { &ENDS }, &plain)
}

/// Where the extreme weight is put, in codes.
const WEIGHTED_ENDS: [f32; 6] = [124.6, 125.2, 125.8, 126.3, 126.7, 127.4];
/// Without importance fewer are enough, as the errors are small.
const ENDS: [f32; 2] = [125.6, 126.6];
