//! IQ1_M: 256 weights in 56 bytes: 32 bytes with the low eight bits of grid indices (one for eight weights), 16 bytes with
//! a nibble for each index, lower one first (its high three bits, and above them the sign of a shift), then four
//! little-endian `u16`: each has four 3-bit scales, one for 16 weights, and in its top four bits a quarter of the `f16`
//! scale `d`, the lowest quarter first. `weight = (row value ± 0.125) * (d * (2 * scale + 1))`.

use half::f16;

use super::blocks::{decode_blocks, nibble, read_u16};
use super::grids::IQ1;
use super::iq1_s::SHIFT;
use crate::{Activation, Format};

pub(super) static IQ1_M: Format = Format {
    name: "IQ1_M",
    gguf_id: Some(29),
    block_weights: 256,
    block_bytes: 56,
    activation: Activation::Int8,
    largest: 15.0 * 0.875 * 65504.0,
    dequantize: |bytes, values| decode_blocks(bytes, values, decode),
    quantize: None,
    search: None,
};

fn decode(bytes: &[u8; 56], values: &mut [f32; 256]) {
    let packed: [u16; 4] = std::array::from_fn(|i| read_u16(bytes, 48 + 2 * i));
    let bits = packed.iter().enumerate().fold(0, |bits, (i, packed)| bits | packed >> 12 << (4 * i));
    let d = f16::from_bits(bits).to_f32();
    for (k, values) in values.as_chunks_mut::<8>().0.iter_mut().enumerate() {
        let scale = d * f32::from(2 * (packed[k / 8] >> (3 * (k / 2 % 4)) & 7) + 1);
        let high = nibble(&bytes[32..48], k);
        let shift = if high & 8 == 0 { SHIFT } else { -SHIFT };
        let row = usize::from(bytes[k]) | usize::from(high & 7) << 8;
        for (value, &code) in values.iter_mut().zip(&IQ1[row]) {
            *value = (f32::from(code) + shift) * scale;
        }
    }
}
