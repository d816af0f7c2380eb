//! Random weights, made as the file writes them: random bytes for codes, with scales that give values of about N(0, 0.02).
//!
//! The same seed gives the same bytes on every machine: they come from ChaCha8 and exact arithmetic alone.

use std::io::{self, Write};

use duan_quant::Format;
use half::{bf16, f16};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

/// Bytes that are made at a time, at least; a whole number of blocks.
const PIECE_BYTES: usize = 256 << 10;

/// The standard deviation that weights have.
const DEVIATION: f32 = 0.02;

/// A field of a block that is not left to chance.
enum Field {
    /// An `f16` at this byte, of about this value: its low four bits stay random, so that scales differ.
    Half(usize, f32),
    /// The same of either sign, where codes reach further below 0 than above, so that the mean is 0 nevertheless.
    Signed(usize, f32),
    /// The byte at this place.
    Byte(usize, u8),
}

/// The scales of a format. With all codes and small scales equally likely, the mean is about 0 and the standard deviation about
/// 0.02. A mean that is not 0 would grow from layer to layer.
fn fields(format: &str) -> &'static [Field] {
    use Field::{Byte, Half, Signed};
    match format {
        "Q4_0" => &[Signed(0, 0.004_31)],
        "Q4_1" => &[Half(0, 0.004_34), Half(2, -0.032_5)],
        "Q5_0" => &[Signed(0, 0.002_16)],
        "Q5_1" => &[Half(0, 0.002_17), Half(2, -0.033_6)],
        "Q8_0" => &[Signed(0, 0.000_271)],
        "Q2_K" => &[Half(80, 0.001_44), Half(82, 0.002_16)],
        "Q3_K" => &[Signed(108, 0.000_462)],
        "Q4_K" => &[Half(0, 0.000_077_4), Half(2, 0.000_58)],
        "Q5_K" => &[Half(0, 0.000_038), Half(2, 0.000_589)],
        "Q6_K" => &[Signed(208, 0.000_014_6)],
        "IQ4_NL" => &[Signed(0, 0.000_297)],
        "IQ4_XS" => &[Signed(0, 0.000_016)],
        // The code's half step is then 2^-8.
        "MXFP4" => &[Byte(0, 120)],
        _ => &[],
    }
}

/// The random bytes of one tensor: a stream of its own, so that they depend on nothing but seed and index.
fn stream(seed: u64, index: u64) -> ChaCha8Rng {
    let mut key = [0; 32];
    key[..8].copy_from_slice(&seed.to_le_bytes());
    let mut random = ChaCha8Rng::from_seed(key);
    random.set_stream(index);
    random
}

/// What makes the weights of one file.
pub(super) struct Weights {
    seed: u64,
    /// Values of which floats are chosen.
    normal: Vec<f32>,
}

impl Weights {
    pub(super) fn new(seed: u64) -> Weights {
        let mut random = stream(seed, u64::MAX);
        // Twelve equally likely numbers add up to what is nearly normal (Irwin and Hall), in whole numbers.
        let twelve = |random: &mut ChaCha8Rng| (0..12).map(|_| i64::from(random.next_u32() >> 16)).sum::<i64>();
        let value = |sum: i64| (sum - 6 * 65_535) as f32 / 65_536.0 * DEVIATION;
        let normal = (0..1 << 16).map(|_| value(twelve(&mut random))).collect();
        Weights { seed, normal }
    }

    /// Writes `weights` weights, a whole number of blocks of `format`, of the tensor at `index`.
    ///
    /// # Errors
    /// Those of `out`.
    pub(super) fn write(&self, format: &Format, weights: u64, index: u64, out: &mut dyn Write) -> io::Result<()> {
        let mut random = stream(self.seed, index);
        let blocks_of_piece = (PIECE_BYTES / format.block_bytes).max(1) as u64;
        let mut piece = vec![0; blocks_of_piece as usize * format.block_bytes];
        let mut left = weights / format.block_weights as u64;
        while left > 0 {
            let blocks = left.min(blocks_of_piece);
            let bytes = &mut piece[..blocks as usize * format.block_bytes];
            match format.name {
                "F32" => self.fill(bytes, &mut random, f32::to_le_bytes),
                "F16" => self.fill(bytes, &mut random, |x| f16::from_f32(x).to_le_bytes()),
                "BF16" => self.fill(bytes, &mut random, |x| bf16::from_f32(x).to_le_bytes()),
                _ => fill_blocks(bytes, format, &mut random),
            }
            out.write_all(bytes)?;
            left -= blocks;
        }
        Ok(())
    }

    fn fill<const BYTES: usize>(
        &self,
        bytes: &mut [u8],
        random: &mut ChaCha8Rng,
        to_bytes: impl Fn(f32) -> [u8; BYTES],
    ) {
        for four in bytes.chunks_mut(4 * BYTES) {
            let mut choices = random.next_u64();
            for value in four.chunks_exact_mut(BYTES) {
                value.copy_from_slice(&to_bytes(self.normal[(choices & 0xffff) as usize]));
                choices >>= 16;
            }
        }
    }
}

fn fill_blocks(bytes: &mut [u8], format: &Format, random: &mut ChaCha8Rng) {
    random.fill_bytes(bytes);
    for field in fields(format.name) {
        let blocks = bytes.chunks_exact_mut(format.block_bytes);
        match *field {
            Field::Byte(at, byte) => blocks.for_each(|block| block[at] = byte),
            Field::Half(at, value) => blocks.for_each(half(at, value, 0)),
            Field::Signed(at, value) => blocks.for_each(half(at, value, 0x80)),
        }
    }
}

/// Sets the `f16` at `at`, but for its low four bits and those of `random_sign`, which is the sign's bit or nothing.
fn half(at: usize, value: f32, random_sign: u8) -> impl Fn(&mut [u8]) {
    let [low, high] = f16::from_f32(value).to_le_bytes();
    move |block| {
        block[at] = low & 0xf0 | block[at] & 0x0f;
        block[at + 1] = high | block[at + 1] & random_sign;
    }
}

#[cfg(test)]
mod tests {
    use duan_quant::format_by_name;

    use super::super::mix::MIXES;
    use super::*;

    fn bytes(format: &Format, weights: u64, seed: u64, index: u64) -> Vec<u8> {
        let mut bytes = Vec::new();
        Weights::new(seed).write(format, weights, index, &mut bytes).unwrap();
        bytes
    }

    #[test]
    fn every_format_is_about_normal() {
        for mix in MIXES.iter().filter(|mix| mix.name != "q4_k_m") {
            let format = format_by_name(mix.name).unwrap();
            let count = 256 * 4096;
            let bytes = bytes(format, count, 1, 0);
            let mut values = vec![0.0; count as usize];
            format.decode(&bytes, &mut values).unwrap();
            assert!(values.iter().all(|value| value.is_finite() && value.abs() < 0.15), "{}", mix.name);
            let mean = values.iter().map(|&x| f64::from(x)).sum::<f64>() / values.len() as f64;
            let variance = values.iter().map(|&x| (f64::from(x) - mean).powi(2)).sum::<f64>() / values.len() as f64;
            assert!(mean.abs() < 0.001, "{}: mean {mean}", mix.name);
            assert!((0.018..0.023).contains(&variance.sqrt()), "{}: {}", mix.name, variance.sqrt());
        }
    }

    #[test]
    fn bytes_depend_on_seed_and_tensor_alone() {
        let q4_0 = format_by_name("q4_0").unwrap();
        // More than one piece.
        let weights = 32 * 40_000;
        let once = bytes(q4_0, weights, 1, 3);
        assert_eq!(once.len(), 18 * 40_000);
        assert_eq!(once, bytes(q4_0, weights, 1, 3));
        assert_ne!(once, bytes(q4_0, weights, 2, 3));
        assert_ne!(once, bytes(q4_0, weights, 1, 4));
        assert_eq!(once[..18 * 7], bytes(q4_0, 32 * 7, 1, 3)[..]);
    }
}
