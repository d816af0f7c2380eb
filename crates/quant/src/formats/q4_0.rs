//! Q4_0: 32 weights in 18 bytes: `f16` scale `d`, then 16 bytes. Byte `j` holds the code of weight `j` in its
//! low four bits and that of weight `j + 16` in its high four bits. `weight = (code - 8) * d`.

use half::f16;

use super::blocks::{choose_signed_scale, decode_blocks, encode_blocks, nearest_code, read_f16, signed_scale};
use crate::search::{Even, LANES, Tile, choose, codes, search_blocks};
use crate::{Activation, Format};

pub(super) static Q4_0: Format = Format {
    name: "Q4_0",
    gguf_id: Some(2),
    block_weights: 32,
    block_bytes: 18,
    activation: Activation::Int8,
    largest: 7.0 * 65504.0,
    dequantize: |bytes, values| decode_blocks(bytes, values, decode),
    quantize: Some(|values, bytes| encode_blocks(values, bytes, encode)),
    search: Some(search),
};

fn decode(bytes: &[u8; 18], values: &mut [f32; 32]) {
    let d = read_f16(bytes, 0);
    for j in 0..16 {
        let pair = i32::from(bytes[2 + j]);
        values[j] = ((pair & 15) - 8) as f32 * d;
        values[j + 16] = ((pair >> 4) - 8) as f32 * d;
    }
}

fn encode(values: &[f32; 32], bytes: &mut [u8; 18]) {
    let stored = choose_signed_scale(values, 8.0);
    let d = stored.to_f32();
    write(stored, &values.map(|x| (nearest_code(x, d, -8, 7) + 8) as u8), bytes);
}

fn write(stored: f16, codes: &[u8; 32], bytes: &mut [u8; 18]) {
    bytes[..2].copy_from_slice(&stored.to_le_bytes());
    for j in 0..16 {
        bytes[2 + j] = codes[j] | codes[j + 16] << 4;
    }
}

fn search(values: &[f32], importance: Option<&[f32]>, bytes: &mut [u8]) {
    search_blocks(values, importance, bytes, find, |values, stored: &f16, bytes: &mut [u8; 18]| {
        write(*stored, &codes(values, stored.to_f32(), -8.0, 7.0, 8.0), bytes);
    });
}

fn find(tile: &mut Tile<32>, weighted: bool) -> [f16; LANES] {
    let (lowest, highest) = tile.range();
    let plain = std::array::from_fn(|lane| signed_scale(lowest[lane], highest[lane], 8.0));
    let ends: &[f32] = if weighted { &WEIGHTED_ENDS } else { &ENDS };
    choose::<Even<-8, 7>, 32>(tile, ends, &plain)
}

/// Where the extreme weight is put, in codes.
const ENDS: [f32; 8] = [-7.2, -7.5, -7.8, -8.0, -8.2, -8.4, 7.3, 7.6];
/// The same where there is importance: the extreme weight may count for little then.
const WEIGHTED_ENDS: [f32; 18] =
    [-5.8, -6.3, -6.8, -7.2, -7.5, -7.8, -8.0, -8.2, -8.5, -8.9, -9.4, -10.0, 6.0, 6.5, 7.0, 7.4, 7.8, 8.3];
