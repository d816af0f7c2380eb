//! Groups with a scale and a minimum: `weight = scale * code + minimum`, codes from 0 to `steps`.

use half::f16;

use super::lanes::{LANES, Lanes, Tile, inverse, limit, round, to_f16};

/// A tile whose weights are counted from the mean of their group.
///
/// The scale that fits given codes is then a quotient of two sums without cancellation, also where the weights are alike and
/// far from 0.
pub(crate) struct Centered<'a, const N: usize> {
    pub(crate) tile: &'a Tile<N>,
    /// The mean of each lane, by which its weights were lowered.
    pub(crate) mean: Lanes,
    /// The sum of what errors are multiplied by.
    weight: Lanes,
    /// The lowest and highest weight, as they were before.
    low: Lanes,
    high: Lanes,
}

impl<'a, const N: usize> Centered<'a, N> {
    pub(crate) fn new(tile: &'a mut Tile<N>) -> Self {
        let (low, high) = tile.range();
        let (mut sum, mut weight) = ([0.0; LANES], [0.0; LANES]);
        for i in 0..N {
            for lane in 0..LANES {
                sum[lane] += tile.w[i][lane] * tile.x[i][lane];
                weight[lane] += tile.w[i][lane];
            }
        }
        let mut mean = [0.0; LANES];
        for lane in 0..LANES {
            mean[lane] = sum[lane] / weight[lane];
        }
        for row in &mut tile.x {
            for lane in 0..LANES {
                row[lane] -= mean[lane];
            }
        }
        Self { tile, mean, weight, low, high }
    }
}

/// The sums that decide about scale and minimum when the codes stand.
struct Sums {
    q: Lanes,
    qq: Lanes,
    /// Of weight, counted from the mean, times code.
    xq: Lanes,
}

/// Sums for the codes nearest to `(weight - mean) * inverse + zero`.
#[inline(never)]
fn fit<const STEPS: i32, const N: usize>(tile: &Tile<N>, inverse: &Lanes, zero: &Lanes) -> Sums {
    let mut sums = Sums { q: [0.0; LANES], qq: [0.0; LANES], xq: [0.0; LANES] };
    for i in 0..N {
        for lane in 0..LANES {
            let x = tile.x[i][lane];
            let q = round(limit(x * inverse[lane] + zero[lane], 0.0, STEPS as f32));
            let wq = tile.w[i][lane] * q;
            sums.q[lane] += wq;
            sums.qq[lane] += wq * q;
            sums.xq[lane] += wq * x;
        }
    }
    sums
}

/// The squared error of each lane with the scale `step`, the codes being the nearest, where a code 0 stands for the weight
/// `minimum`, counted from the mean.
#[inline(never)]
fn error<const STEPS: i32, const N: usize>(tile: &Tile<N>, step: &Lanes, minimum: &Lanes) -> Lanes {
    let mut inverses = [0.0; LANES];
    for lane in 0..LANES {
        inverses[lane] = inverse(step[lane]);
    }
    let mut sum = [0.0; LANES];
    for i in 0..N {
        for lane in 0..LANES {
            let x = tile.x[i][lane] - minimum[lane];
            let off = x - round(limit(x * inverses[lane], 0.0, STEPS as f32)) * step[lane];
            sum[lane] += tile.w[i][lane] * off * off;
        }
    }
    sum
}

/// The best scale and minimum of each lane that were met, with sums of their codes.
pub(crate) struct Best {
    scale: Lanes,
    minimum: Lanes,
    gain: Lanes,
    q: Lanes,
    qq: Lanes,
}

/// Where the lowest and the highest weight are put, in codes from the lowest and the highest one.
pub(crate) type Ends = [(f32, f32)];

/// Codes of scale and minimum that are tried around the nearest ones.
const NEIGHBOURS: &[(f32, f32)] =
    &[(0.0, 0.0), (-1.0, 0.0), (1.0, 0.0), (0.0, -1.0), (0.0, 1.0), (-1.0, 1.0), (1.0, -1.0), (-1.0, -1.0), (1.0, 1.0)];

/// [`Ends`] for groups of 32 weights whose errors count alike.
pub(crate) const ENDS: &Ends = &[
    (0.0, 0.0),
    (0.3, 0.0),
    (0.0, -0.3),
    (0.4, -0.4),
    (-0.3, 0.0),
    (0.0, 0.3),
    (-0.3, 0.3),
    (0.2, -0.7),
    (0.7, -0.2),
    (0.8, -0.8),
    (-0.4, -0.4),
    (0.4, 0.4),
];

/// The same where there is importance: the outermost weights may count for little then.
pub(crate) const WEIGHTED_ENDS: &Ends = &[
    (0.0, 0.0),
    (0.3, 0.0),
    (0.0, -0.3),
    (0.4, -0.4),
    (-0.3, 0.0),
    (0.0, 0.3),
    (-0.4, 0.4),
    (0.2, -0.7),
    (0.7, -0.2),
    (0.8, -0.8),
    (-0.4, -0.4),
    (0.4, 0.4),
    (-0.9, 0.1),
    (-0.1, 0.9),
    (-0.8, 0.8),
    (-1.4, 0.3),
    (-0.3, 1.4),
    (-1.2, 1.2),
    (-2.0, 0.6),
    (-0.6, 2.0),
    (-1.8, 1.8),
    (0.5, 1.3),
    (-1.3, -0.5),
    (-3.0, 2.6),
];

/// Goes through codes made by putting the lowest and the highest weight at `ends`, and takes the scale and the minimum that
/// fit the codes best. With `NOT_ABOVE_ZERO` no minimum is above 0.
fn sweep<const STEPS: i32, const NOT_ABOVE_ZERO: bool, const N: usize>(group: &Centered<N>, ends: &Ends) -> Best {
    let mut low = group.low;
    if NOT_ABOVE_ZERO {
        low = low.map(|low| if low < 0.0 { low } else { 0.0 });
    }
    let mut best = Best {
        scale: [0.0; LANES],
        minimum: if NOT_ABOVE_ZERO { group.mean.map(|mean| mean.min(0.0)) } else { group.mean },
        gain: [0.0; LANES],
        q: [0.0; LANES],
        qq: [0.0; LANES],
    };
    for lane in 0..LANES {
        let off = best.minimum[lane] - group.mean[lane];
        best.gain[lane] = -group.weight[lane] * off * off;
    }
    let mut per_range = [0.0; LANES];
    for lane in 0..LANES {
        per_range[lane] = inverse(group.high[lane] - low[lane]);
    }
    for &(first, last) in ends {
        let (mut inverses, mut zeros) = ([0.0; LANES], [0.0; LANES]);
        for lane in 0..LANES {
            inverses[lane] = (STEPS as f32 + last - first) * per_range[lane];
            zeros[lane] = (group.mean[lane] - low[lane]) * inverses[lane] + first;
        }
        let sums = fit::<STEPS, N>(group.tile, &inverses, &zeros);
        for lane in 0..LANES {
            let (mean, weight) = (group.mean[lane], group.weight[lane]);
            let mean_code = sums.q[lane] / weight;
            let spread = sums.qq[lane] - mean_code * sums.q[lane];
            // Where all codes are alike, what is left is the rounding of the sums.
            let mut differ = spread > sums.qq[lane] * 1e-6;
            let mut scale = sums.xq[lane] / spread;
            let mut minimum = mean - scale * mean_code;
            let mut gain = scale * sums.xq[lane];
            if NOT_ABOVE_ZERO {
                let above = (minimum > 0.0) | (!differ & (mean > 0.0));
                let through_zero = (sums.xq[lane] + mean * sums.q[lane]) / sums.qq[lane];
                let off = -(through_zero * sums.qq[lane] * through_zero)
                    + 2.0 * through_zero * (sums.xq[lane] + mean * sums.q[lane])
                    - weight * mean * mean;
                scale = if above { through_zero } else { scale };
                minimum = if above { 0.0 } else { minimum };
                gain = if above { off } else { gain };
                differ |= above;
            }
            let better = (gain > best.gain[lane]) & (scale > 0.0) & differ;
            best.gain[lane] = if better { gain } else { best.gain[lane] };
            best.scale[lane] = if better { scale } else { best.scale[lane] };
            best.minimum[lane] = if better { minimum } else { best.minimum[lane] };
            best.q[lane] = if better { sums.q[lane] } else { best.q[lane] };
            best.qq[lane] = if better { sums.qq[lane] } else { best.qq[lane] };
        }
    }
    best
}

/// The scales and minima to store as `f16`: the best of a sweep over `ends`, or `plain` where that is better.
pub(crate) fn choose_with_minimum<const STEPS: i32>(
    tile: &mut Tile<32>,
    ends: &Ends,
    plain: &[(f16, f16); LANES],
) -> [(f16, f16); LANES] {
    let group = Centered::new(tile);
    let mut chosen = *plain;
    let mut least = [f32::INFINITY; LANES];
    let best = sweep::<STEPS, false, 32>(&group, ends);
    let mut tried = *plain;
    for round in 0..3 {
        let (mut steps, mut minima) = ([0.0; LANES], [0.0; LANES]);
        for lane in 0..LANES {
            steps[lane] = tried[lane].0.to_f32();
            minima[lane] = tried[lane].1.to_f32() - group.mean[lane];
        }
        let off = error::<STEPS, 32>(group.tile, &steps, &minima);
        for lane in 0..LANES {
            if off[lane] < least[lane] {
                (chosen[lane], least[lane]) = (tried[lane], off[lane]);
            }
            if round == 0 {
                tried[lane] = (to_f16(best.scale[lane]), to_f16(best.minimum[lane]));
            }
        }
        if round == 1 {
            // The minimum is rounded now: the scale that fits with it.
            let mut zeros = [0.0; LANES];
            let inverses = steps.map(inverse);
            for lane in 0..LANES {
                zeros[lane] = -minima[lane] * inverses[lane];
            }
            let sums = fit::<STEPS, 32>(group.tile, &inverses, &zeros);
            for lane in 0..LANES {
                let scale = (sums.xq[lane] - minima[lane] * sums.q[lane]) / sums.qq[lane];
                tried[lane].0 = if scale > 0.0 { to_f16(scale) } else { tried[lane].0 };
            }
        }
    }
    chosen
}

/// How the scales and minima of a format are written, and what is tried.
pub(crate) struct Plan {
    /// The highest integer scale and minimum.
    pub(crate) highest: f32,
    /// Where the lowest and the highest weight of a group are put.
    pub(crate) ends: &'static Ends,
    /// The same where there is importance.
    pub(crate) weighted_ends: &'static Ends,
    /// What the largest scale, and the lowest minimum, of the block become, for each pair of `d` and `dmin` that is tried.
    pub(crate) tops: &'static [f32],
    /// How often `d` and `dmin` are fitted anew.
    pub(crate) refits: usize,
}

/// What was found for a block.
#[derive(Clone, Copy)]
pub(crate) struct Minima<const TILES: usize> {
    /// Scale of the scales.
    pub(crate) d: f16,
    /// Scale of the minima.
    pub(crate) dmin: f16,
    /// The integer scale of each group.
    pub(crate) scales: [Lanes; TILES],
    /// The integer minimum of each group.
    pub(crate) minima: [Lanes; TILES],
    /// The squared error.
    error: f32,
}

/// Searches a block of groups with integer scales and minima: `weight = d * scale * code - dmin * minimum`.
pub(crate) fn search_minima<const STEPS: i32, const N: usize, const TILES: usize>(
    tiles: &mut [Tile<N>; TILES],
    plan: &Plan,
    weighted: bool,
) -> Minima<TILES> {
    let ends = if weighted { plan.weighted_ends } else { plan.ends };
    let groups: [Centered<N>; TILES] = tiles.each_mut().map(Centered::new);
    let best: [Best; TILES] = std::array::from_fn(|tile| sweep::<STEPS, true, N>(&groups[tile], ends));
    let (mut largest, mut lowest) = (0.0f32, 0.0f32);
    for best in &best {
        largest = best.scale.iter().fold(largest, |acc, &scale| if scale > acc { scale } else { acc });
        lowest = best.minimum.iter().fold(lowest, |acc, &minimum| if minimum < acc { minimum } else { acc });
    }
    let (mut d, mut dmin) = (f16::ZERO, f16::ZERO);
    let mut least = f32::INFINITY;
    for &top in plan.tops {
        let tried_d = to_f16(largest / top);
        for &top in plan.tops {
            let tried_dmin = to_f16(-lowest / top);
            let cost = rounding_cost(&groups, &best, plan, tried_d.to_f32(), tried_dmin.to_f32());
            if cost < least {
                (d, dmin, least) = (tried_d, tried_dmin, cost);
            }
        }
    }
    let mut chosen = nearest::<STEPS, N, TILES>(&groups, &best, plan, d, dmin);
    for _ in 0..plan.refits {
        let (d, dmin) = refit::<STEPS, N, TILES>(&groups, &chosen);
        if (d, dmin) == (chosen.d, chosen.dmin) {
            break;
        }
        let next = nearest::<STEPS, N, TILES>(&groups, &best, plan, d, dmin);
        if next.error >= chosen.error {
            break;
        }
        chosen = next;
    }
    chosen
}

/// The integer nearest to the best minimum once the scale is `step`: with a larger scale, the minimum is lower.
#[inline(always)]
fn minimum_beside<const N: usize>(group: &Centered<N>, best: &Best, lane: usize, step: f32) -> f32 {
    best.minimum[lane] - (step - best.scale[lane]) * best.q[lane] / group.weight[lane]
}

/// What rounding the best scales and minima adds to the squared error, if the codes stay.
fn rounding_cost<const N: usize, const TILES: usize>(
    groups: &[Centered<N>; TILES],
    best: &[Best; TILES],
    plan: &Plan,
    d: f32,
    dmin: f32,
) -> f32 {
    let (per_d, per_dmin) = (inverse(d), inverse(dmin));
    let mut sum = [0.0; LANES];
    for (group, best) in groups.iter().zip(best) {
        for lane in 0..LANES {
            let step = round(limit(best.scale[lane] * per_d, 0.0, plan.highest)) * d;
            let wanted = minimum_beside(group, best, lane, step);
            let minimum = -round(limit(-wanted * per_dmin, 0.0, plan.highest)) * dmin;
            let (step_off, minimum_off) = (step - best.scale[lane], minimum - best.minimum[lane]);
            sum[lane] += group.tile.share[lane]
                * (step_off * step_off * best.qq[lane]
                    + 2.0 * step_off * minimum_off * best.q[lane]
                    + minimum_off * minimum_off * group.weight[lane]);
        }
    }
    sum.iter().sum()
}

/// The best integer scales and minima for `d` and `dmin`, of those near the best scales and minima.
fn nearest<const STEPS: i32, const N: usize, const TILES: usize>(
    groups: &[Centered<N>; TILES],
    best: &[Best; TILES],
    plan: &Plan,
    d: f16,
    dmin: f16,
) -> Minima<TILES> {
    let zeros = [[0.0; LANES]; TILES];
    let mut found = Minima { d, dmin, scales: zeros, minima: zeros, error: 0.0 };
    let (d, dmin) = (d.to_f32(), dmin.to_f32());
    let (per_d, per_dmin) = (inverse(d), inverse(dmin));
    for (tile, (group, best)) in groups.iter().zip(best).enumerate() {
        let mut least = [f32::INFINITY; LANES];
        for &(scale_beside, minimum_beside_it) in NEIGHBOURS {
            let (mut scales, mut minima) = ([0.0; LANES], [0.0; LANES]);
            let (mut steps, mut offsets) = ([0.0; LANES], [0.0; LANES]);
            for lane in 0..LANES {
                let nearest = round(limit(best.scale[lane] * per_d, 0.0, plan.highest));
                scales[lane] = limit(nearest + scale_beside, 0.0, plan.highest);
                steps[lane] = scales[lane] * d;
                let wanted = minimum_beside(group, best, lane, steps[lane]);
                let nearest = round(limit(-wanted * per_dmin, 0.0, plan.highest));
                minima[lane] = limit(nearest + minimum_beside_it, 0.0, plan.highest);
                offsets[lane] = -minima[lane] * dmin - group.mean[lane];
            }
            let off = error::<STEPS, N>(group.tile, &steps, &offsets);
            for lane in 0..LANES {
                let better = off[lane] < least[lane];
                least[lane] = if better { off[lane] } else { least[lane] };
                found.scales[tile][lane] = if better { scales[lane] } else { found.scales[tile][lane] };
                found.minima[tile][lane] = if better { minima[lane] } else { found.minima[tile][lane] };
            }
        }
        for lane in 0..LANES {
            found.error += least[lane] * group.tile.share[lane];
        }
    }
    found
}

/// The `d` and `dmin` that fit best to the codes, scales and minima of `found`.
fn refit<const STEPS: i32, const N: usize, const TILES: usize>(
    groups: &[Centered<N>; TILES],
    found: &Minima<TILES>,
) -> (f16, f16) {
    let (d, dmin) = (found.d.to_f32(), found.dmin.to_f32());
    // Of the squares of what d and dmin are multiplied by, of their product, and of their products with the weights.
    let (mut dd, mut dm, mut mm, mut xd, mut xm) = (0.0f64, 0.0f64, 0.0f64, 0.0f64, 0.0f64);
    for (tile, group) in groups.iter().enumerate() {
        let (scales, minima) = (&found.scales[tile], &found.minima[tile]);
        let (mut inverses, mut zeros) = ([0.0; LANES], [0.0; LANES]);
        for lane in 0..LANES {
            inverses[lane] = inverse(scales[lane] * d);
            zeros[lane] = (group.mean[lane] + minima[lane] * dmin) * inverses[lane];
        }
        let sums = fit::<STEPS, N>(group.tile, &inverses, &zeros);
        for lane in 0..LANES {
            let share = f64::from(group.tile.share[lane]);
            let (scale, minimum) = (f64::from(scales[lane]), f64::from(minima[lane]));
            let (mean, weight, q) =
                (f64::from(group.mean[lane]), f64::from(group.weight[lane]), f64::from(sums.q[lane]));
            dd += share * scale * scale * f64::from(sums.qq[lane]);
            dm -= share * scale * minimum * q;
            mm += share * minimum * minimum * weight;
            xd += share * scale * (f64::from(sums.xq[lane]) + mean * q);
            xm -= share * minimum * mean * weight;
        }
    }
    let determinant = dd * mm - dm * dm;
    if determinant > dd * mm * 1e-6 {
        let fitted = ((xd * mm - xm * dm) / determinant, (xm * dd - xd * dm) / determinant);
        if fitted.0 > 0.0 && fitted.1 > 0.0 {
            return (to_f16(fitted.0 as f32), to_f16(fitted.1 as f32));
        }
    }
    // Without minima, or with codes that cannot be told from them, d alone.
    if dd > 0.0 && xd - dm * f64::from(dmin) > 0.0 {
        return (to_f16(((xd - dm * f64::from(dmin)) / dd) as f32), found.dmin);
    }
    (found.d, found.dmin)
}
