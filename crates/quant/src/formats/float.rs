//! F32, F16 and BF16: one weight after the other, little-endian.

use half::{bf16, f16};

use super::blocks::decode_blocks;
use crate::{Activation, Format};

/// IEEE 754 binary32.
pub(super) static F32: Format = Format {
    name: "F32",
    gguf_id: Some(0),
    block_weights: 1,
    block_bytes: 4,
    activation: Activation::F32,
    largest: f32::MAX,
    dequantize: |bytes, values| {
        decode_blocks(bytes, values, |bytes: &[u8; 4], value: &mut [f32; 1]| value[0] = f32::from_le_bytes(*bytes));
    },
    quantize: Some(|values, bytes| encode(values, bytes, f32::to_le_bytes)),
    search: None,
};

/// IEEE 754 binary16.
pub(super) static F16: Format = Format {
    name: "F16",
    gguf_id: Some(1),
    block_weights: 1,
    block_bytes: 2,
    activation: Activation::F32,
    largest: 65504.0,
    dequantize: |bytes, values| {
        decode_blocks(bytes, values, |bytes: &[u8; 2], value: &mut [f32; 1]| {
            value[0] = f16::from_le_bytes(*bytes).to_f32();
        });
    },
    quantize: Some(|values, bytes| encode(values, bytes, |x| f16::from_f32(x).to_le_bytes())),
    search: None,
};

/// The upper half of a binary32.
pub(super) static BF16: Format = Format {
    name: "BF16",
    gguf_id: Some(30),
    block_weights: 1,
    block_bytes: 2,
    activation: Activation::F32,
    // Bits 0x7f7f: the largest finite bf16. Larger magnitudes would round to infinity or down to it.
    largest: f32::from_bits(0x7f7f_0000),
    dequantize: |bytes, values| {
        decode_blocks(bytes, values, |bytes: &[u8; 2], value: &mut [f32; 1]| {
            value[0] = f32::from_bits(u32::from(u16::from_le_bytes(*bytes)) << 16);
        });
    },
    quantize: Some(|values, bytes| encode(values, bytes, |x| bf16::from_f32(x).to_le_bytes())),
    search: None,
};

/// Writes each of `values` with `convert`. Not through the block walk of the others, because NaN and infinities stay.
fn encode<const BYTES: usize>(values: &[f32], bytes: &mut [u8], convert: impl Fn(f32) -> [u8; BYTES]) {
    let (slots, rest) = bytes.as_chunks_mut::<BYTES>();
    assert!(rest.is_empty() && slots.len() == values.len(), "bytes and values do not belong together");
    for (slot, &value) in slots.iter_mut().zip(values) {
        *slot = convert(value);
    }
}
