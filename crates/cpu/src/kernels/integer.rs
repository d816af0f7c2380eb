//! Dot products of quantized weights with coded activations, for every format of [`super::formats`].
//!
//! For one row and one token, whatever the tile: each group of 32 gives eight exact integer sums, which are
//! widened and added to eight lanes with the product of both scales; offsets times the activations' sums go to
//! eight lanes of their own, by group modulo eight; at the end each set of lanes is summed once. So a result does
//! not depend on which rows and tokens were computed beside it.

use std::ops::Range;

use super::formats::Codes;
use super::{Job, Scratch};
use crate::activations::{Coded, CodedRow};
use crate::simd::{LANES, Simd, Task};

/// Rows of weights that a tile takes at once.
const TILE_ROWS: usize = 4;

/// What the memory hands out at once.
const CACHE_LINE_BYTES: usize = 64;

/// Computes rows `rows` of a matrix for all tokens of the job.
pub(crate) struct Rows<'a, C> {
    pub(crate) job: &'a Job<'a>,
    pub(crate) coded: &'a Coded,
    pub(crate) rows: Range<usize>,
    pub(crate) scratch: &'a mut Scratch,
    pub(crate) format: std::marker::PhantomData<C>,
}

/// A row's scales [groups * SCALES] and offsets [padded groups].
#[derive(Clone, Copy)]
struct RowScales<'a> {
    scales: &'a [f32],
    offsets: &'a [f32],
}

impl<C: Codes> Task for Rows<'_, C> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let Self { job, coded, rows, scratch, .. } = self;
        let mut row = rows.start;
        while row < rows.end {
            let size = if rows.end - row >= TILE_ROWS { TILE_ROWS } else { 1 };
            match size {
                TILE_ROWS => row_tile::<S, C, TILE_ROWS>(s, job, coded, row, scratch),
                _ => row_tile::<S, C, 1>(s, job, coded, row, scratch),
            }
            row += size;
        }
    }
}

/// `R` rows for all tokens.
#[inline(always)]
fn row_tile<S: Simd, C: Codes, const R: usize>(s: S, job: &Job<'_>, coded: &Coded, row: usize, scratch: &mut Scratch) {
    let matrix = job.matrix;
    let groups = matrix.columns() / 32;
    let padded = groups.next_multiple_of(LANES);
    let blocks: [&[C::Block]; R] = std::array::from_fn(|r| C::blocks(matrix.row(row + r)));
    let Scratch { codes, scales, offsets, .. } = scratch;

    for r in 0..R {
        let (scales, offsets) = (&mut scales[r * padded * 2..][..padded * 2], &mut offsets[r * padded..][..padded]);
        C::scales(s, blocks[r], scales, offsets);
        // Zeros where the activations' sums are padding.
        offsets[groups..].fill(0.0);
    }
    let row_scales: [RowScales<'_>; R] = std::array::from_fn(|r| RowScales {
        scales: &scales[r * padded * 2..][..groups * C::SCALES],
        offsets: &offsets[r * padded..][..padded],
    });

    if job.tokens == 1 {
        let next = matrix.bytes().get((row + R) * matrix.row_bytes()..).unwrap_or(&[]);
        let sums = from_blocks::<S, C, R>(s, blocks, row_scales, coded.row(job.input(0)), next);
        return job.store(row, 0, &sums);
    }

    for r in 0..R {
        let codes = codes[r * groups..][..groups].chunks_exact_mut(C::GROUPS);
        for (block, codes) in blocks[r].iter().zip(codes) {
            for (group, codes) in codes.iter_mut().enumerate() {
                s.store_bytes(C::group(s, block, group), codes);
            }
        }
    }
    let codes: [&[[u8; 32]]; R] = std::array::from_fn(|r| &codes[r * groups..][..groups]);
    let mut token = 0;
    while token < job.tokens {
        let left = job.tokens - token;
        if S::TILE_TOKENS == 4 && left >= 4 {
            token_tile::<S, C, R, 4>(s, job, coded, row, token, codes, row_scales);
            token += 4;
        } else if left >= 2 {
            token_tile::<S, C, R, 2>(s, job, coded, row, token, codes, row_scales);
            token += 2;
        } else {
            token_tile::<S, C, R, 1>(s, job, coded, row, token, codes, row_scales);
            token += 1;
        }
    }
}

/// The eight lanes of one group: exact integer sums, widened.
#[inline(always)]
fn group_dot<S: Simd, C: Codes>(s: S, weights: S::B, activations: S::B) -> S::F {
    s.to_f32(if C::SIGNED { s.dot_signed(weights, activations) } else { s.dot_unsigned(weights, activations) })
}

/// A row's scale of one group in each lane.
#[inline(always)]
fn group_scale<S: Simd, C: Codes>(s: S, row: RowScales<'_>, group: usize) -> S::F {
    if C::SCALES == 2 { s.halves(row.scales[2 * group], row.scales[2 * group + 1]) } else { s.splat(row.scales[group]) }
}

/// `R` rows for one token, straight from the blocks. Meanwhile the cache is asked for `next`, the bytes of the rows after
/// them: as many for each group as the group itself has.
#[inline(always)]
fn from_blocks<S: Simd, C: Codes, const R: usize>(
    s: S,
    blocks: [&[C::Block]; R],
    rows: [RowScales<'_>; R],
    token: CodedRow<'_>,
    next: &[u8],
) -> [f32; R] {
    let group_bytes = R * size_of::<C::Block>() / C::GROUPS;
    let mut lanes = [s.splat(0.0); R];
    for block in 0..blocks[0].len() {
        for inner in 0..C::GROUPS {
            let group = block * C::GROUPS + inner;
            for line in (0..group_bytes).step_by(CACHE_LINE_BYTES) {
                s.prefetch(next, group * group_bytes + line);
            }
            let activations = s.load_codes(&token.codes[group]);
            let scale = s.splat(token.scales[group]);
            for r in 0..R {
                let dot = group_dot::<S, C>(s, C::group(s, &blocks[r][block], inner), activations);
                lanes[r] = s.mul_add(dot, s.mul(group_scale::<S, C>(s, rows[r], group), scale), lanes[r]);
            }
        }
    }
    finish::<S, C, R>(s, lanes, rows, token)
}

/// `R` rows for `T` tokens, from unpacked codes.
#[inline(always)]
fn token_tile<S: Simd, C: Codes, const R: usize, const T: usize>(
    s: S,
    job: &Job<'_>,
    coded: &Coded,
    row: usize,
    first_token: usize,
    codes: [&[[u8; 32]]; R],
    rows: [RowScales<'_>; R],
) {
    let groups = codes[0].len();
    let tokens: [CodedRow<'_>; T] = std::array::from_fn(|t| coded.row(job.input(first_token + t)));
    let activations: [&[[i8; 32]]; T] = std::array::from_fn(|t| &tokens[t].codes[..groups]);
    let scales: [&[f32]; T] = std::array::from_fn(|t| &tokens[t].scales[..groups]);
    let codes: [&[[u8; 32]]; R] = std::array::from_fn(|r| &codes[r][..groups]);
    let mut lanes = [[s.splat(0.0); R]; T];
    for group in 0..groups {
        let weights: [S::B; R] = std::array::from_fn(|r| s.load_bytes(&codes[r][group]));
        let weight_scales: [S::F; R] = std::array::from_fn(|r| group_scale::<S, C>(s, rows[r], group));
        for t in 0..T {
            let activations = s.load_codes(&activations[t][group]);
            let scale = s.splat(scales[t][group]);
            for r in 0..R {
                let dot = group_dot::<S, C>(s, weights[r], activations);
                lanes[t][r] = s.mul_add(dot, s.mul(weight_scales[r], scale), lanes[t][r]);
            }
        }
    }
    for t in 0..T {
        let sums = finish::<S, C, R>(s, lanes[t], rows, tokens[t]);
        job.store(row, first_token + t, &sums);
    }
}

/// Sums the lanes and adds the offsets' part.
#[inline(always)]
fn finish<S: Simd, C: Codes, const R: usize>(
    s: S,
    lanes: [S::F; R],
    rows: [RowScales<'_>; R],
    token: CodedRow<'_>,
) -> [f32; R] {
    let mut result = [0.0; R];
    if C::OFFSETS {
        let sums = token.sums.as_chunks::<LANES>().0;
        for r in 0..R {
            let mut offset_lanes = s.splat(0.0);
            for (offsets, sums) in rows[r].offsets.as_chunks::<LANES>().0.iter().zip(sums) {
                offset_lanes = s.mul_add(s.load(offsets), s.load(sums), offset_lanes);
            }
            result[r] = s.sum(lanes[r]) + s.sum(offset_lanes);
        }
    } else {
        for r in 0..R {
            result[r] = s.sum(lanes[r]);
        }
    }
    result
}
