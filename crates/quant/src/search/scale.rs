//! Groups with a scale and no minimum: `weight = scale * code`.

use half::f16;

use super::lanes::{LANES, Lanes, Tile, inverse, limit, round, to_f16};

/// What the codes of a group stand for.
pub(crate) trait Codes {
    /// What the code nearest to `y` stands for.
    fn nearest(y: f32) -> f32;
}

/// Evenly spaced codes from `LOW` to `HIGH`.
pub(crate) struct Even<const LOW: i32, const HIGH: i32>;

impl<const LOW: i32, const HIGH: i32> Codes for Even<LOW, HIGH> {
    #[inline(always)]
    fn nearest(y: f32) -> f32 {
        round(limit(y, LOW as f32, HIGH as f32))
    }
}

/// The weight of the largest magnitude in each lane, with its sign.
pub(crate) fn extremes<const N: usize>(tile: &Tile<N>) -> Lanes {
    let (low, high) = tile.range();
    let mut extreme = [0.0; LANES];
    for lane in 0..LANES {
        extreme[lane] = if high[lane] > -low[lane] { high[lane] } else { low[lane] };
    }
    extreme
}

/// The sums that decide about a scale when the codes stand: of weight times code, and of code squared.
///
/// The best scale is `xq / qq`, and it takes `xq * xq / qq` from the squared error.
#[inline(never)]
pub(crate) fn fit<C: Codes, const N: usize>(tile: &Tile<N>, inverse: &Lanes) -> (Lanes, Lanes) {
    let mut xq = [0.0; LANES];
    let mut qq = [0.0; LANES];
    for i in 0..N {
        for lane in 0..LANES {
            let x = tile.x[i][lane];
            let q = C::nearest(x * inverse[lane]);
            let wq = tile.w[i][lane] * q;
            xq[lane] += wq * x;
            qq[lane] += wq * q;
        }
    }
    (xq, qq)
}

/// The squared error of each lane with the scale `step`, its codes being the nearest.
#[inline(never)]
pub(crate) fn error<C: Codes, const N: usize>(tile: &Tile<N>, step: &Lanes) -> Lanes {
    let mut inverses = [0.0; LANES];
    for lane in 0..LANES {
        inverses[lane] = inverse(step[lane]);
    }
    let mut sum = [0.0; LANES];
    for i in 0..N {
        for lane in 0..LANES {
            let x = tile.x[i][lane];
            let off = x - C::nearest(x * inverses[lane]) * step[lane];
            sum[lane] += tile.w[i][lane] * off * off;
        }
    }
    sum
}

/// The best scales that were met, and what each takes from the squared error.
pub(crate) struct Best {
    pub(crate) scale: Lanes,
    pub(crate) gain: Lanes,
    /// The sum of squares of the codes.
    pub(crate) qq: Lanes,
}

/// Goes through codes made with scales near the one at which the extreme weight gets the outermost code, and takes the
/// scale that fits the codes best: the outermost weight is met by `end` for each `end` in `ends`.
pub(crate) fn sweep<C: Codes, const N: usize>(tile: &Tile<N>, ends: &[f32]) -> Best {
    let extreme = extremes(tile);
    let mut per_end = [0.0; LANES];
    for lane in 0..LANES {
        per_end[lane] = inverse(extreme[lane]);
    }
    let mut best = Best { scale: [0.0; LANES], gain: [0.0; LANES], qq: [0.0; LANES] };
    for &end in ends {
        let mut inverses = [0.0; LANES];
        for lane in 0..LANES {
            inverses[lane] = end * per_end[lane];
        }
        let (xq, qq) = fit::<C, N>(tile, &inverses);
        for lane in 0..LANES {
            // Where all codes are 0 this is NaN, which is never more than the best.
            let scale = xq[lane] / qq[lane];
            let gain = xq[lane] * scale;
            let better = gain > best.gain[lane];
            best.gain[lane] = if better { gain } else { best.gain[lane] };
            best.scale[lane] = if better { scale } else { best.scale[lane] };
            best.qq[lane] = if better { qq[lane] } else { best.qq[lane] };
        }
    }
    best
}

/// How many scales in a row, each fitted to the codes of the one before, are rounded to `f16` and tried.
const ROUNDS: usize = 2;

/// The scales to store as `f16`, one for each lane: the best of a sweep over `ends`, or `plain` where that is better.
pub(crate) fn choose<C: Codes, const N: usize>(tile: &Tile<N>, ends: &[f32], plain: &[f16; LANES]) -> [f16; LANES] {
    let mut chosen = *plain;
    let mut least = error::<C, N>(tile, &chosen.map(f16::to_f32));
    let mut scale = sweep::<C, N>(tile, ends).scale;
    for round in 0..ROUNDS {
        let stored = scale.map(to_f16);
        let step = stored.map(f16::to_f32);
        let off = error::<C, N>(tile, &step);
        for lane in 0..LANES {
            if off[lane] < least[lane] {
                (chosen[lane], least[lane]) = (stored[lane], off[lane]);
            }
        }
        if round + 1 < ROUNDS {
            // Codes of the rounded scale, and the scale that fits them.
            let (xq, qq) = fit::<C, N>(tile, &step.map(inverse));
            for lane in 0..LANES {
                scale[lane] = if qq[lane] > 0.0 { xq[lane] / qq[lane] } else { 0.0 };
            }
        }
    }
    chosen
}
