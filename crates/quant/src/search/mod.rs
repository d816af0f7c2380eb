//! The search for the scales, minima and codes of a block that give the least squared error.
//!
//! **What is minimized.** The sum over the weights of a block of `importance * (weight - decoded)^2`, without importance all
//! alike. If the importance of a column is the mean square of what the column is multiplied by, this is the squared error that
//! the block causes in a matrix product, as far as columns are independent. What counts is the decoded weight: errors are those
//! of the scales as they are stored, so no rounding is left out.
//!
//! **Why a search.** With the scale given, the best codes are the nearest ones. With the codes given, the best scale is a
//! quotient of two sums (and scale and minimum the solution of two equations). But the error as a function of the scale has a
//! local minimum for nearly every assignment of codes, some tens to hundreds in a block, and they differ by a fifth and more:
//! whether the rounding of 16 or 32 weights happens to go well. So several scales are tried, far enough apart that the codes of
//! many weights change. The range from which they come is narrow: the extreme weight ends within about half a code of the outermost
//! code. With importance the extreme weight may count for little, and the range is wider.
//!
//! 1. *Sweep* (`scale.rs`, `minimum.rs`): for each place of the extreme weight (of both ends, where there is a minimum), the
//!    nearest codes, and the scale that fits these best. Its gain follows from the sums, without a second look at the weights.
//! 2. *Rounding*: a block of one group rounds the best scale to `f16`, takes the codes anew, fits and rounds once more. The
//!    scale of the plain encoder is one of those compared, so a search is never worse.
//!    In a block of several groups (`scales.rs`, `minimum.rs`) some `d` are compared by what rounding every group's scale to a
//!    multiple of it costs, a quadratic function that needs no weights. Then each group tries the integers next to its best
//!    scale (and minimum) with their own codes and true errors, which is one more set of draws.
//! 3. *Fitting `d`* once codes and integers stand: again a quotient, or two equations, over the whole block; kept if the error
//!    of what is then nearest is less.
//!
//! **How it is fast.** Eight groups go side by side, a lane each ([`lanes`]). All of it is arithmetic on arrays of
//! eight numbers without branches, which compilers make vector instructions of, on every machine, without a word about them here.
//!
//! **Edges.** NaN counts as 0, magnitudes above `2^30` count as it (no format here but MXFP4 holds them). A scale that would be
//! rounded to 0 becomes the smallest `f16`. Importance is relative within a group; entries below `2^-20` of the largest count as
//! that, so that no sum is 0 and none loses the rest beside the largest.

mod lanes;
mod minimum;
mod scale;
mod scales;

use crate::importance::usable;
pub(crate) use lanes::{LANES, LARGEST, LEAST, Lanes, Tile, inverse, limit, round, round_to_byte, round_to_integer};
pub(crate) use minimum::{ENDS, Minima, Plan as MinimumPlan, WEIGHTED_ENDS, choose_with_minimum, search_minima};
pub(crate) use scale::{Codes, Even, choose, error as error_of};
pub(crate) use scales::{Plan, Scales, search_scales};

/// Searches eight blocks of 32 weights at a time, and writes them.
///
/// `find` gives what `write` needs for each of the eight lanes; `write` gets the weights of one block.
#[inline(always)]
pub(crate) fn search_blocks<T, const BYTES: usize>(
    values: &[f32],
    importance: Option<&[f32]>,
    bytes: &mut [u8],
    find: impl Fn(&mut Tile<32>, bool) -> [T; LANES],
    write: impl Fn(&[f32; 32], &T, &mut [u8; BYTES]),
) {
    let importance = usable(importance);
    let (blocks, rest) = values.as_chunks::<32>();
    let (slots, rest_bytes) = bytes.as_chunks_mut::<BYTES>();
    assert!(rest.is_empty() && rest_bytes.is_empty() && blocks.len() == slots.len(), "not a whole number of blocks");
    if let Some(importance) = importance {
        assert_eq!(importance.len(), values.len(), "importance and values do not belong together");
    }
    let mut tile = Tile::new();
    for (index, (blocks, slots)) in blocks.chunks(LANES).zip(slots.chunks_mut(LANES)).enumerate() {
        tile.load(blocks.as_flattened());
        if let Some(importance) = importance {
            let first = index * LANES * 32;
            // Blocks are not compared with each other, so it does not matter what the largest is.
            tile.weigh(&importance[first..first + blocks.len() * 32], 0.0);
        }
        let found = find(&mut tile, importance.is_some());
        for ((block, found), slot) in blocks.iter().zip(&found).zip(slots) {
            write(&finite(block), found, slot);
        }
    }
}

/// The weights as a [`Tile`] holds them.
#[inline(always)]
pub(crate) fn finite<const N: usize>(values: &[f32; N]) -> [f32; N] {
    let mut finite = [0.0; N];
    for (finite, &x) in finite.iter_mut().zip(values) {
        let x = if x.is_nan() { 0.0 } else { x };
        *finite = limit(x, -LARGEST, LARGEST);
    }
    finite
}

/// The codes nearest to `values / step` in `low..=high`, plus `bias`; `bias` where `step` is 0.
#[inline(always)]
pub(crate) fn codes<const N: usize>(values: &[f32; N], step: f32, low: f32, high: f32, bias: f32) -> [u8; N] {
    let inverse = inverse(step);
    let mut codes = [0; N];
    for (code, &x) in codes.iter_mut().zip(values) {
        *code = round_to_byte(limit(x * inverse, low, high) + bias);
    }
    codes
}

/// The codes nearest to `(values - minimum) / step` in `0..=steps`; 0 where `step` is 0.
#[inline(always)]
pub(crate) fn codes_above<const N: usize>(values: &[f32; N], step: f32, minimum: f32, steps: f32) -> [u8; N] {
    let inverse = inverse(step);
    let mut codes = [0; N];
    for (code, &x) in codes.iter_mut().zip(values) {
        *code = round_to_byte(limit((x - minimum) * inverse, 0.0, steps));
    }
    codes
}

/// Searches blocks of 256 weights, and writes them.
///
/// `find` gets the groups of `N` weights of a block, eight to a tile, and gives what `write` needs.
#[inline(always)]
pub(crate) fn search_super_blocks<T, const N: usize, const TILES: usize, const BYTES: usize>(
    values: &[f32],
    importance: Option<&[f32]>,
    bytes: &mut [u8],
    find: impl Fn(&mut [Tile<N>; TILES], bool) -> T,
    write: impl Fn(&[f32; 256], &T, &mut [u8; BYTES]),
) {
    let importance = usable(importance);
    let (blocks, rest) = values.as_chunks::<256>();
    let (slots, rest_bytes) = bytes.as_chunks_mut::<BYTES>();
    assert!(rest.is_empty() && rest_bytes.is_empty() && blocks.len() == slots.len(), "not a whole number of blocks");
    if let Some(importance) = importance {
        assert_eq!(importance.len(), values.len(), "importance and values do not belong together");
    }
    let mut tiles: [Tile<N>; TILES] = std::array::from_fn(|_| Tile::new());
    for (index, (block, slot)) in blocks.iter().zip(slots).enumerate() {
        for (tile, values) in tiles.iter_mut().zip(block.chunks_exact(LANES * N)) {
            tile.load(values);
        }
        if let Some(importance) = importance {
            let importance = &importance[index * 256..][..256];
            let top = importance.iter().fold(0.0f32, |acc, &w| if w > acc { w } else { acc });
            for (tile, importance) in tiles.iter_mut().zip(importance.chunks_exact(LANES * N)) {
                tile.weigh(importance, top);
            }
        }
        let found = find(&mut tiles, importance.is_some());
        write(&finite(block), &found, slot);
    }
}
