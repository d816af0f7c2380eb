//! Blocks of several groups with an integer scale each: `weight = d * scale * code`, where `d` is an `f16`.

use half::f16;

use super::lanes::{LANES, Lanes, Tile, inverse, limit, round, to_f16};
use super::scale::{Best, Codes, error, fit, sweep};

/// How the scales of a format are written, and what is tried.
pub(crate) struct Plan {
    /// The lowest integer scale.
    pub(crate) low: f32,
    /// The highest integer scale.
    pub(crate) high: f32,
    /// Where the extreme weight of a group is put, in codes.
    pub(crate) ends: &'static [f32],
    /// The same where there is importance: the extreme weight may count for little then.
    pub(crate) weighted_ends: &'static [f32],
    /// What the largest scale of the block becomes, one for each `d` that is tried.
    pub(crate) tops: &'static [f32],
    /// Integer scales that are tried, counted from the one nearest to the best scale.
    pub(crate) beside: &'static [f32],
}

/// What was found for a block.
pub(crate) struct Scales<const TILES: usize> {
    /// Scale of the scales.
    pub(crate) d: f16,
    /// The integer scale of each group.
    pub(crate) scales: [Lanes; TILES],
    /// The squared error.
    error: f32,
}

/// Searches a block whose groups stand in `tiles`.
pub(crate) fn search_scales<C: Codes, const N: usize, const TILES: usize>(
    tiles: &[Tile<N>; TILES],
    plan: &Plan,
    weighted: bool,
) -> Scales<TILES> {
    let ends = if weighted { plan.weighted_ends } else { plan.ends };
    let best: [Best; TILES] = std::array::from_fn(|tile| sweep::<C, N>(&tiles[tile], ends));
    // The largest scale, with its sign: `d` has the sign that makes it the integer of the larger magnitude.
    let mut largest = 0.0f32;
    for scale in best.each_ref().map(|best| best.scale).as_flattened() {
        largest = if scale.abs() > largest.abs() { *scale } else { largest };
    }
    let mut d = f16::ZERO;
    let mut least = f32::INFINITY;
    for &top in plan.tops {
        let tried = to_f16(largest / top);
        let cost = rounding_cost(tiles, &best, plan, tried.to_f32());
        if cost < least {
            (d, least) = (tried, cost);
        }
    }
    let wanted = best.each_ref().map(|best| best.scale);
    let first = nearest_scales::<C, N, TILES>(tiles, plan, d, &wanted);
    // With these codes and integers, one more `d` fits best.
    let refit = refit_d::<C, N, TILES>(tiles, &first);
    if refit == first.d {
        return first;
    }
    let steps = first.scales.map(|scales| scales.map(|scale| scale * first.d.to_f32()));
    let second = nearest_scales::<C, N, TILES>(tiles, plan, refit, &steps);
    if second.error < first.error { second } else { first }
}

/// What rounding the best scales to whole multiples of `d` adds to the squared error, if the codes stay.
fn rounding_cost<const N: usize, const TILES: usize>(
    tiles: &[Tile<N>; TILES],
    best: &[Best; TILES],
    plan: &Plan,
    d: f32,
) -> f32 {
    let per_d = inverse(d);
    let mut sum = [0.0; LANES];
    for (tile, best) in tiles.iter().zip(best) {
        for lane in 0..LANES {
            let scale = round(limit(best.scale[lane] * per_d, plan.low, plan.high));
            let off = best.scale[lane] - scale * d;
            sum[lane] += tile.share[lane] * best.qq[lane] * off * off;
        }
    }
    sum.iter().sum()
}

/// The best integer scales for `d`, of those near the scales `wanted`.
fn nearest_scales<C: Codes, const N: usize, const TILES: usize>(
    tiles: &[Tile<N>; TILES],
    plan: &Plan,
    d: f16,
    wanted: &[Lanes; TILES],
) -> Scales<TILES> {
    let step = d.to_f32();
    let per_step = inverse(step);
    let mut found = Scales { d, scales: [[0.0; LANES]; TILES], error: 0.0 };
    for ((tile, wanted), chosen) in tiles.iter().zip(wanted).zip(&mut found.scales) {
        let mut least = [f32::INFINITY; LANES];
        for &beside in plan.beside {
            let mut scales = [0.0; LANES];
            let mut steps = [0.0; LANES];
            for lane in 0..LANES {
                let nearest = round(limit(wanted[lane] * per_step, plan.low, plan.high));
                scales[lane] = limit(nearest + beside, plan.low, plan.high);
                steps[lane] = scales[lane] * step;
            }
            let off = error::<C, N>(tile, &steps);
            for lane in 0..LANES {
                let better = off[lane] < least[lane];
                least[lane] = if better { off[lane] } else { least[lane] };
                chosen[lane] = if better { scales[lane] } else { chosen[lane] };
            }
        }
        for lane in 0..LANES {
            found.error += least[lane] * tile.share[lane];
        }
    }
    found
}

/// The `d` that fits best to the codes and integer scales of `found`.
fn refit_d<C: Codes, const N: usize, const TILES: usize>(tiles: &[Tile<N>; TILES], found: &Scales<TILES>) -> f16 {
    let (mut above, mut below) = (0.0, 0.0);
    for (tile, scales) in tiles.iter().zip(&found.scales) {
        let (xq, qq) = fit::<C, N>(tile, &scales.map(|scale| inverse(scale * found.d.to_f32())));
        for lane in 0..LANES {
            let scale = scales[lane];
            above += tile.share[lane] * scale * xq[lane];
            below += tile.share[lane] * scale * scale * qq[lane];
        }
    }
    if below > 0.0 { to_f16(above / below) } else { found.d }
}
