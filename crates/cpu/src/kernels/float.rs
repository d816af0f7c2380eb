//! Dot products of float weights with float activations.
//!
//! For one row and one token, whatever the tile: eight lanes take every eighth column, then are summed once; columns
//! beyond the last whole vector are added one by one.

use std::marker::PhantomData;
use std::ops::Range;

use half::{bf16, f16};

use super::Job;
use crate::simd::{LANES, Simd, Task};

/// A float format as the kernels see it.
pub(crate) trait Floats: 'static {
    /// The name in [`duan_quant::FORMATS`].
    const FORMAT: &'static str;
    /// Eight weights' bytes.
    type Eight: Copy;

    /// A row's whole vectors, and the bytes after them.
    fn vectors(row: &[u8]) -> (&[Self::Eight], &[u8]);
    /// Eight weights.
    fn load<S: Simd>(s: S, from: &Self::Eight) -> S::F;
    /// The weight at `index` of the bytes after the vectors.
    fn single(bytes: &[u8], index: usize) -> f32;
}

macro_rules! float_format {
    ($name:ident, $format:literal, $bytes:literal, $load:ident, $one:expr) => {
        pub(crate) struct $name;

        impl Floats for $name {
            const FORMAT: &'static str = $format;
            type Eight = [u8; $bytes * LANES];

            #[inline(always)]
            fn vectors(row: &[u8]) -> (&[Self::Eight], &[u8]) {
                row.as_chunks()
            }
            #[inline(always)]
            fn load<S: Simd>(s: S, from: &Self::Eight) -> S::F {
                s.$load(from)
            }
            #[inline(always)]
            fn single(bytes: &[u8], index: usize) -> f32 {
                $one(bytes.as_chunks::<$bytes>().0[index])
            }
        }
    };
}

float_format!(F32, "F32", 4, load_f32_bytes, f32::from_le_bytes);
float_format!(F16, "F16", 2, load_f16_bytes, |bytes| f16::from_le_bytes(bytes).to_f32());
float_format!(Bf16, "BF16", 2, load_bf16_bytes, |bytes| bf16::from_le_bytes(bytes).to_f32());

/// Rows of weights that a tile takes at once.
const TILE_ROWS: usize = 4;

/// Computes rows `rows` of a matrix for all tokens of the job.
pub(crate) struct Rows<'a, W> {
    pub(crate) job: &'a Job<'a>,
    pub(crate) rows: Range<usize>,
    pub(crate) format: PhantomData<W>,
}

impl<W: Floats> Task for Rows<'_, W> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let Self { job, rows, .. } = self;
        let mut row = rows.start;
        while row < rows.end {
            let size = if rows.end - row >= TILE_ROWS { TILE_ROWS } else { 1 };
            let mut token = 0;
            while token < job.tokens {
                match (size, job.tokens - token) {
                    (TILE_ROWS, 1) => tile::<S, W, TILE_ROWS, 1>(s, job, row, token),
                    (TILE_ROWS, _) => tile::<S, W, TILE_ROWS, 2>(s, job, row, token),
                    _ => tile::<S, W, 1, 1>(s, job, row, token),
                }
                token += if size == TILE_ROWS { 2 } else { 1 };
            }
            row += size;
        }
    }
}

/// `R` rows for `T` tokens.
#[inline(always)]
fn tile<S: Simd, W: Floats, const R: usize, const T: usize>(s: S, job: &Job<'_>, row: usize, first_token: usize) {
    let columns = job.matrix.columns();
    let vectors = columns / LANES;
    let weights: [(&[W::Eight], &[u8]); R] = std::array::from_fn(|r| W::vectors(job.matrix.row(row + r)));
    let whole: [&[W::Eight]; R] = std::array::from_fn(|r| &weights[r].0[..vectors]);
    let tokens: [&[f32]; T] = std::array::from_fn(|t| job.floats(first_token + t));
    let inputs: [&[[f32; LANES]]; T] = std::array::from_fn(|t| &tokens[t].as_chunks().0[..vectors]);
    let mut lanes = [[s.splat(0.0); R]; T];
    for index in 0..vectors {
        let loaded: [S::F; R] = std::array::from_fn(|r| W::load(s, &whole[r][index]));
        for t in 0..T {
            let x = s.load(&inputs[t][index]);
            for r in 0..R {
                lanes[t][r] = s.mul_add(loaded[r], x, lanes[t][r]);
            }
        }
    }
    for t in 0..T {
        let rest = &tokens[t][vectors * LANES..];
        let sums: [f32; R] = std::array::from_fn(|r| {
            let tail: f32 = rest.iter().enumerate().map(|(index, x)| x * W::single(weights[r].1, index)).sum();
            s.sum(lanes[t][r]) + tail
        });
        job.store(row, first_token + t, &sums);
    }
}
