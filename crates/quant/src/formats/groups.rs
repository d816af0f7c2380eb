//! Integers in groups: formats of our own for the weights of compressed-tensors, GPTQ, AWQ and MLX checkpoints, and of `duan quantize`.
//! GGUF does not know them.
//!
//! A block is a group of 32, 64, 128 or 256 weights of a row:
//!
//! | bytes | what |
//! |---|---|
//! | 2 | `scale`, `f16` |
//! | 0, 1 or 2 | nothing, or the code that stands for 0, or a `bias` in `f16` |
//! | 16 or 32 for each 32 weights | their codes |
//!
//! Codes of 4 bits are unsigned and stand as in Q4_0: byte `j` of 16 holds that of weight `j` in its low and that of weight `j + 16`
//! in its high four bits. Codes of 8 bits are signed bytes, in order. Then
//!
//! | name | weight, 4 bits | weight, 8 bits |
//! |---|---|---|
//! | `int4-g64`, `int8-g64` | `(code - 8) * scale` | `code * scale` |
//! | `int4-g64-zp`, `int8-g64-zp` | `(code - zero) * scale`, `zero` a `u8` | `(code - zero) * scale`, `zero` an `i8` |
//! | `int4-g64-bias`, `int8-g64-bias` | `code * scale + bias` | `(code + 128) * scale + bias` |
//!
//! So files whose codes of 8 bits are unsigned, with zero points or biases, have 128 taken off their codes and zero points.
//!
//! A scale for a whole row (*per channel*) or a whole matrix (*per tensor*) is repeated in every block of 256, or of fewer where rows
//! do not divide: 16 bits for 256 weights.

use std::fmt;

use half::f16;

use super::blocks::{choose_scale, choose_scale_and_minimum, choose_signed_scale, finite, nearest_code};
use crate::integers::{Group, Integers, Stored};
use crate::{Activation, Format};

pub(super) const SYMMETRIC: usize = 0;
pub(super) const ZERO_POINT: usize = 1;
pub(super) const BIAS: usize = 2;

/// Bytes of the scale.
const SCALE_BYTES: usize = 2;
/// Weights whose codes stand together.
const RUN: usize = 32;
/// Weights of the largest groups.
const LARGEST_GROUP: usize = 256;

/// What stands beside the scale of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Origin {
    /// Nothing: the middle code stands for 0.
    Symmetric,
    /// The code that stands for 0.
    ZeroPoint,
    /// What code 0 stands for.
    Bias,
}

/// What one of the formats of this module is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Groups {
    /// Bits of a code: 4 or 8.
    pub bits: usize,
    /// Weights in a group: 32, 64, 128 or 256.
    pub weights: usize,
    /// What stands beside its scale.
    pub origin: Origin,
}

/// What a group has besides its codes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Header {
    /// The scale.
    pub scale: f16,
    /// The code that stands for 0, as the block has it: 0 to 255 beside codes of 4 bits, -128 to 127 beside signed ones. Only
    /// [`Origin::ZeroPoint`] has it.
    pub zero: i16,
    /// Only [`Origin::Bias`] has it.
    pub bias: f16,
}

impl Groups {
    /// What `format` is, or `None` where it is none of these.
    pub fn of(format: &Format) -> Option<Self> {
        let all = [4, 8].into_iter().flat_map(|bits| {
            [32, 64, 128, 256].into_iter().flat_map(move |weights| {
                let origins = [Origin::Symmetric, Origin::ZeroPoint, Origin::Bias].into_iter();
                origins.map(move |origin| Self { bits, weights, origin })
            })
        });
        all.into_iter().find(|groups| groups.block_bytes() == format.block_bytes && groups.format() == Some(format))
    }

    /// The format, or `None` where there is none of these bits and weights.
    pub fn format(self) -> Option<&'static Format> {
        crate::format_by_name(&self.to_string())
    }

    /// Bytes of a block.
    pub fn block_bytes(self) -> usize {
        block_bytes(self.bits, self.weights, self.origin_bytes())
    }

    /// Writes one block: `codes` [weights], as bits of a code, into `block` [block_bytes]. Codes of 8 bits are the signed ones.
    ///
    /// Panics where the lengths are others.
    pub fn write(self, header: Header, codes: &[u8], block: &mut [u8]) {
        assert!(codes.len() == self.weights && block.len() == self.block_bytes(), "a block of {self}");
        block[..SCALE_BYTES].copy_from_slice(&header.scale.to_le_bytes());
        match self.origin {
            Origin::Symmetric => {}
            Origin::ZeroPoint => block[SCALE_BYTES] = header.zero as u8,
            Origin::Bias => block[SCALE_BYTES..SCALE_BYTES + 2].copy_from_slice(&header.bias.to_le_bytes()),
        }
        let to = &mut block[SCALE_BYTES + self.origin_bytes()..];
        if self.bits == 8 {
            return to.copy_from_slice(codes);
        }
        for (codes, to) in codes.as_chunks::<RUN>().0.iter().zip(to.as_chunks_mut::<{ RUN / 2 }>().0) {
            for j in 0..RUN / 2 {
                to[j] = codes[j] & 15 | codes[j + RUN / 2] << 4;
            }
        }
    }

    /// Reads one block: what [`Groups::write`] wrote.
    ///
    /// Panics where the lengths are others.
    pub fn read(self, block: &[u8], codes: &mut [u8]) -> Header {
        assert!(codes.len() == self.weights && block.len() == self.block_bytes(), "a block of {self}");
        let from = &block[SCALE_BYTES + self.origin_bytes()..];
        if self.bits == 8 {
            codes.copy_from_slice(from);
        } else {
            for (codes, from) in codes.as_chunks_mut::<RUN>().0.iter_mut().zip(from.as_chunks::<{ RUN / 2 }>().0) {
                for j in 0..RUN / 2 {
                    (codes[j], codes[j + RUN / 2]) = (from[j] & 15, from[j] >> 4);
                }
            }
        }
        let mut header = Header { scale: f16_at(block, 0), zero: 0, bias: f16::ZERO };
        match self.origin {
            Origin::Symmetric => {}
            Origin::ZeroPoint => header.zero = zero_of(self.bits, block[SCALE_BYTES]),
            Origin::Bias => header.bias = f16_at(block, SCALE_BYTES),
        }
        header
    }

    /// The codes of a group, for a search of its scale; those of 4 bits without a zero point count from -8. Groups with a bias have
    /// none that fit.
    pub fn integers(self) -> Integers {
        match (self.origin, self.bits) {
            (Origin::ZeroPoint, 4) => Integers { lowest: 0, highest: 15, zero_point: true, stored: Stored::F16 },
            (_, 4) => Integers::four_bits(false, Stored::F16),
            _ => Integers::eight_bits(self.origin == Origin::ZeroPoint, Stored::F16),
        }
    }

    /// Writes one block: the codes nearest to `values` [weights], with scale and zero point of a `group` of [`Groups::integers`].
    ///
    /// Panics where the lengths are others, or the format has biases.
    pub fn write_nearest(self, group: Group, values: &[f32], block: &mut [u8]) {
        assert!(self.origin != Origin::Bias && values.len() == self.weights, "a block of {self}");
        // What the block has, less what the search has, for a code.
        let first = if (self.origin, self.bits) == (Origin::Symmetric, 4) { 8 } else { 0 };
        let (mut codes, mut bytes) = ([0; LARGEST_GROUP], [0; LARGEST_GROUP]);
        let (codes, bytes) = (&mut codes[..self.weights], &mut bytes[..self.weights]);
        self.integers().codes(group, values, codes);
        bytes.iter_mut().zip(codes).for_each(|(byte, code)| *byte = (*code + first) as u8);
        let header = Header { scale: f16::from_f32(group.scale), zero: group.zero as i16, bias: f16::ZERO };
        self.write(header, bytes, block);
    }

    fn origin_bytes(self) -> usize {
        match self.origin {
            Origin::Symmetric => SYMMETRIC,
            Origin::ZeroPoint => ZERO_POINT,
            Origin::Bias => BIAS,
        }
    }
}

impl fmt::Display for Groups {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let suffix = match self.origin {
            Origin::Symmetric => "",
            Origin::ZeroPoint => "-zp",
            Origin::Bias => "-bias",
        };
        write!(f, "int{}-g{}{suffix}", self.bits, self.weights)
    }
}

/// One format: `ORIGIN` bytes stand beside the scale of a group.
pub(super) const fn format<const BITS: usize, const GROUP: usize, const ORIGIN: usize>(name: &'static str) -> Format {
    assert!((BITS == 4 || BITS == 8) && GROUP.is_multiple_of(RUN) && ORIGIN <= BIAS);
    let steps = match (BITS, ORIGIN) {
        (_, BIAS) => 1.0,
        (4, _) => 7.0,
        _ => 127.0,
    };
    Format {
        name,
        gguf_id: None,
        block_weights: GROUP,
        block_bytes: block_bytes(BITS, GROUP, ORIGIN),
        activation: Activation::Int8,
        largest: steps * 65504.0,
        dequantize: decode::<BITS, GROUP, ORIGIN>,
        quantize: Some(encode::<BITS, GROUP, ORIGIN>),
        search: if ORIGIN == BIAS { None } else { Some(search::<BITS, GROUP, ORIGIN>) },
    }
}

const fn block_bytes(bits: usize, group: usize, origin: usize) -> usize {
    SCALE_BYTES + origin + group * bits / 8
}

fn f16_at(bytes: &[u8], at: usize) -> f16 {
    f16::from_le_bytes([bytes[at], bytes[at + 1]])
}

/// The code that stands for 0, from its byte.
fn zero_of(bits: usize, byte: u8) -> i16 {
    if bits == 4 { i16::from(byte) } else { i16::from(byte as i8) }
}

fn decode<const BITS: usize, const GROUP: usize, const ORIGIN: usize>(bytes: &[u8], values: &mut [f32]) {
    let size = block_bytes(BITS, GROUP, ORIGIN);
    assert!(values.len().is_multiple_of(GROUP), "not a whole number of blocks");
    assert_eq!(bytes.len(), values.len() / GROUP * size, "bytes and values do not belong together");
    for (block, values) in bytes.chunks_exact(size).zip(values.chunks_exact_mut(GROUP)) {
        let scale = f16_at(block, 0).to_f32();
        let zero = match (ORIGIN, BITS) {
            (ZERO_POINT, _) => i32::from(zero_of(BITS, block[SCALE_BYTES])),
            (BIAS, 8) => -128,
            (SYMMETRIC, 4) => 8,
            _ => 0,
        };
        let codes = &block[SCALE_BYTES + ORIGIN..];
        if BITS == 4 {
            for (pairs, values) in codes.as_chunks::<16>().0.iter().zip(values.as_chunks_mut::<RUN>().0) {
                for j in 0..16 {
                    values[j] = (i32::from(pairs[j] & 15) - zero) as f32 * scale;
                    values[j + 16] = (i32::from(pairs[j] >> 4) - zero) as f32 * scale;
                }
            }
        } else {
            for (&code, value) in codes.iter().zip(&mut *values) {
                *value = (i32::from(code as i8) - zero) as f32 * scale;
            }
        }
        if ORIGIN == BIAS {
            let bias = f16_at(block, SCALE_BYTES).to_f32();
            values.iter_mut().for_each(|value| *value += bias);
        }
    }
}

fn encode<const BITS: usize, const GROUP: usize, const ORIGIN: usize>(values: &[f32], bytes: &mut [u8]) {
    let size = block_bytes(BITS, GROUP, ORIGIN);
    let (groups, rest) = values.as_chunks::<GROUP>();
    assert!(rest.is_empty(), "not a whole number of blocks");
    assert_eq!(bytes.len(), groups.len() * size, "bytes and values do not belong together");
    let origin = [Origin::Symmetric, Origin::ZeroPoint, Origin::Bias][ORIGIN];
    let format = Groups { bits: BITS, weights: GROUP, origin };
    for (values, block) in groups.iter().zip(bytes.chunks_exact_mut(size)) {
        let mut codes = [0; GROUP];
        let header = round::<BITS, GROUP, ORIGIN>(&finite(values), &mut codes);
        format.write(header, &codes, block);
    }
}

/// Encodes each group with the scale and zero point of [`Integers::search`], or as [`encode`] does where that is nearer.
fn search<const BITS: usize, const GROUP: usize, const ORIGIN: usize>(
    values: &[f32],
    importance: Option<&[f32]>,
    bytes: &mut [u8],
) {
    encode::<BITS, GROUP, ORIGIN>(values, bytes);
    let importance = crate::importance::usable(importance);
    if let Some(importance) = importance {
        assert_eq!(importance.len(), values.len(), "importance and values do not belong together");
    }
    let format =
        Groups { bits: BITS, weights: GROUP, origin: [Origin::Symmetric, Origin::ZeroPoint, Origin::Bias][ORIGIN] };
    let integers = format.integers();
    let blocks = bytes.chunks_exact_mut(block_bytes(BITS, GROUP, ORIGIN));
    for (index, (values, block)) in values.as_chunks::<GROUP>().0.iter().zip(blocks).enumerate() {
        let importance = importance.map(|importance| &importance[GROUP * index..][..GROUP]);
        let group = integers.search(values, importance);
        let mut found = block.to_vec();
        format.write_nearest(group, values, &mut found);
        let error = |block: &[u8]| {
            let mut decoded = [0.0; GROUP];
            decode::<BITS, GROUP, ORIGIN>(block, &mut decoded);
            let off = values.iter().zip(&decoded).map(|(x, y)| f64::from(x - y).powi(2));
            off.enumerate().map(|(i, off)| off * importance.map_or(1.0, |w| f64::from(w[i]))).sum::<f64>()
        };
        // Where a weight is NaN both are, and the block stays.
        if error(&found) < error(block) {
            block.copy_from_slice(&found);
        }
    }
}

/// Rounds a group to the codes nearest to it, with the smallest scale that clips nothing.
fn round<const BITS: usize, const GROUP: usize, const ORIGIN: usize>(
    values: &[f32; GROUP],
    codes: &mut [u8; GROUP],
) -> Header {
    let lowest = values.iter().fold(0.0f32, |acc, &x| acc.min(x));
    let highest = values.iter().fold(0.0f32, |acc, &x| acc.max(x));
    let last = (1 << BITS) - 1;
    // Taken off unsigned codes, where the block's are signed.
    let middle = if BITS == 8 { 128 } else { 0 };
    let (mut zero, mut bias) = (0, f16::ZERO);
    let scale = match (ORIGIN, BITS) {
        (SYMMETRIC, 4) => choose_signed_scale(values, 8.0),
        (SYMMETRIC, _) => {
            let largest = highest.max(-lowest);
            choose_scale(largest / 127.0, largest / 127.5)
        }
        (ZERO_POINT, _) => {
            // Half of each first: the range of finite values may be infinite.
            let range = (highest / 2.0 - lowest / 2.0) / (last as f32 / 2.0);
            choose_scale(range, range)
        }
        _ => {
            let (scale, minimum) = choose_scale_and_minimum(values, last as f32);
            bias = minimum;
            scale
        }
    };
    let d = scale.to_f32();
    // Of codes that are counted from the one that stands for 0.
    let (low, high) = match (ORIGIN, BITS) {
        (SYMMETRIC, 4) => (-8, 7),
        (SYMMETRIC, _) => (-127, 127),
        (ZERO_POINT, _) => {
            zero = nearest_code(-lowest, d, 0, last);
            (-zero, last - zero)
        }
        _ => (0, last),
    };
    let first = match (ORIGIN, BITS) {
        (SYMMETRIC, 4) => 8,
        (SYMMETRIC, _) => 0,
        (ZERO_POINT, _) => zero - middle,
        _ => -middle,
    };
    for (code, value) in codes.iter_mut().zip(values) {
        *code = (nearest_code(value - bias.to_f32(), d, low, high) + first) as u8;
    }
    Header { scale, zero: (zero - middle) as i16, bias }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FORMATS;
    use proptest::prelude::*;

    fn own() -> impl Iterator<Item = (&'static Format, Groups)> {
        FORMATS.iter().filter_map(|&format| Some((format, Groups::of(format)?)))
    }

    /// The definition, weight by weight.
    fn by_definition(groups: Groups, block: &[u8], weight: usize) -> f32 {
        let scale = f16::from_le_bytes([block[0], block[1]]).to_f32();
        let header = match groups.origin {
            Origin::Symmetric => 2,
            Origin::ZeroPoint => 3,
            Origin::Bias => 4,
        };
        let code = if groups.bits == 4 {
            let byte = block[header + weight / 32 * 16 + weight % 16];
            i32::from(if weight % 32 < 16 { byte % 16 } else { byte / 16 })
        } else {
            i32::from(block[header + weight] as i8)
        };
        match (groups.origin, groups.bits) {
            (Origin::Symmetric, 4) => (code - 8) as f32 * scale,
            (Origin::Symmetric, _) => code as f32 * scale,
            (Origin::ZeroPoint, 4) => (code - i32::from(block[2])) as f32 * scale,
            (Origin::ZeroPoint, _) => (code - i32::from(block[2] as i8)) as f32 * scale,
            (Origin::Bias, bits) => {
                let bias = f16::from_le_bytes([block[2], block[3]]).to_f32();
                (if bits == 4 { code } else { code + 128 }) as f32 * scale + bias
            }
        }
    }

    fn round_trip(format: &Format, values: &[f32]) -> (Vec<u8>, Vec<f32>) {
        let mut bytes = vec![0xaa; format.row_bytes(values.len()).unwrap()];
        format.quantize.unwrap()(values, &mut bytes);
        let mut decoded = vec![f32::NAN; values.len()];
        format.decode(&bytes, &mut decoded).unwrap();
        (bytes, decoded)
    }

    /// Finite, and within half a step of the stored scale.
    fn check_bound(format: &Format, values: &[f32]) {
        let (bytes, decoded) = round_trip(format, values);
        let groups = values.chunks_exact(format.block_weights).zip(decoded.chunks_exact(format.block_weights));
        for (block, (values, decoded)) in bytes.chunks_exact(format.block_bytes).zip(groups) {
            let d = f16_at(block, 0).to_f32().abs();
            let largest = values.iter().fold(0.0f32, |acc, x| acc.max(x.abs()));
            let bound = d / 2.0 + largest * 4.0 * f32::EPSILON + 1e-43;
            for (value, decoded) in values.iter().zip(decoded) {
                assert!(decoded.is_finite(), "{}: {value} became {decoded}", format.name);
                assert!((value - decoded).abs() <= bound, "{}: {value} became {decoded}, scale {d}", format.name);
            }
        }
    }

    #[test]
    fn names_sizes_and_bits_belong_together() {
        assert_eq!(own().count(), 22);
        for (format, groups) in own() {
            assert_eq!(format.name, groups.to_string());
            assert_eq!((groups.format(), groups.block_bytes()), (Some(format), format.block_bytes));
            assert_eq!((format.gguf_id, format.block_weights), (None, groups.weights));
        }
        let bits = |name| crate::format_by_name(name).unwrap().bits_per_weight();
        assert_eq!((bits("int4-g32"), bits("int4-g128"), bits("INT4-G128-ZP")), (4.5, 4.125, 4.1875));
        assert_eq!((bits("int4-g64-bias"), bits("int8-g256")), (4.5, 8.0625));
        assert_eq!(Groups::of(crate::format_by_name("Q4_0").unwrap()), None);
    }

    #[test]
    fn a_block_is_read_as_it_was_written() {
        for (_, groups) in own() {
            let codes: Vec<u8> = (0..groups.weights).map(|i| (i * 37 % (1 << groups.bits)) as u8).collect();
            let zero = if groups.origin == Origin::ZeroPoint { if groups.bits == 4 { 9 } else { -7 } } else { 0 };
            let bias = f16::from_f32(if groups.origin == Origin::Bias { -1.5 } else { 0.0 });
            let header = Header { scale: f16::from_f32(0.25), zero, bias };
            let (mut block, mut read) = (vec![0xaa; groups.block_bytes()], vec![0xaa; groups.weights]);
            groups.write(header, &codes, &mut block);
            assert_eq!((groups.read(&block, &mut read), &read), (header, &codes), "{groups}");
        }
    }

    #[test]
    fn values_that_codes_reach_come_back() {
        let decoded = |name: &str, values: &[f32]| round_trip(crate::format_by_name(name).unwrap(), values).1;
        let values: Vec<f32> = (0..64).map(|i| (i % 16 - 8) as f32 * 0.5).collect();
        assert_eq!(decoded("int4-g64", &values), values);
        // From -3 to 12 steps: no code is in the middle.
        let skewed: Vec<f32> = (0..64).map(|i| (i % 16 - 3) as f32 * 0.25).collect();
        assert_eq!(decoded("int4-g32-zp", &skewed), skewed);
        let far: Vec<f32> = (0..64).map(|i| 10.0 + (i % 16) as f32 * 0.5).collect();
        assert_eq!(decoded("int4-g64-bias", &far), far);
        let bytes: Vec<f32> = (0..256).map(|i| (i - 100) as f32 * 0.125).collect();
        assert_eq!(decoded("int8-g256-zp", &bytes), bytes);
        let bytes: Vec<f32> = (0..128).map(|i| 3.0 + (2 * i + i / 127) as f32 * 0.125).collect();
        assert_eq!(decoded("int8-g128-bias", &bytes), bytes);
    }

    #[test]
    fn extreme_groups_stay_within_half_a_step() {
        for (format, _) in own() {
            let of = |value: f32| vec![value; format.block_weights];
            let (mut one_tiny, mut both, mut ramp) = (of(0.0), of(0.25), of(0.0));
            one_tiny[5] = 1e-45;
            (both[0], both[31]) = (-1.0, 1.0);
            ramp.iter_mut().enumerate().for_each(|(i, x)| *x = 1000.3 + i as f32 / 32.0);
            let (mut halves, largest) = (of(format.largest), format.largest);
            halves[..7].fill(-largest);
            for value in [0.0, -0.0, 1e-40, 3e-6, -3e-6, largest, -largest] {
                check_bound(format, &of(value));
            }
            for values in [one_tiny, both, ramp, halves] {
                check_bound(format, &values);
            }
            for zero in [0.0f32, -0.0] {
                let (bytes, decoded) = round_trip(format, &of(zero));
                assert_eq!((f16_at(&bytes, 0).to_f32(), decoded), (0.0, of(0.0)), "{}", format.name);
            }
            for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, f32::MAX, f32::MIN] {
                let mut values = of(0.5);
                values[3] = bad;
                values[4] = -bad;
                let (_, decoded) = round_trip(format, &values);
                assert!(decoded.iter().all(|x| x.is_finite()), "{} {bad}", format.name);
            }
        }
    }

    proptest! {
        #[test]
        fn any_bytes_decode_by_definition(bytes in prop::collection::vec(any::<u8>(), 2 * 260)) {
            for (format, groups) in own() {
                let bytes = &bytes[..2 * format.block_bytes];
                let mut values = vec![0.0; 2 * format.block_weights];
                format.decode(bytes, &mut values).unwrap();
                for (index, value) in values.iter().enumerate() {
                    let block = &bytes[index / groups.weights * format.block_bytes..][..format.block_bytes];
                    let expected = by_definition(groups, block, index % groups.weights);
                    prop_assert!(value.to_bits() == expected.to_bits() || value.is_nan() && expected.is_nan(), "{groups}");
                }
            }
        }

        #[test]
        fn any_group_stays_within_half_a_step(
            exponent in -45i32..5,
            offset in -1.0f32..1.0,
            values in prop::collection::vec(-1.0f32..1.0, 256),
        ) {
            let size = 10f32.powi(exponent);
            let values: Vec<f32> = values.iter().map(|x| (x * 0.3 + offset * 0.3) * size).collect();
            for (format, _) in own() {
                check_bound(format, &values);
            }
        }
    }
}
