//! Integers in groups of any size: the scale, and the code that stands for 0, with the least squared error.
//!
//! A group is a run of a row, a row, or a whole matrix: whatever shares one scale. `weight = scale * (code - zero)`. How codes
//! and scales are laid out as bytes is no matter here.
//!
//! **What is searched.** The scale at which the outermost weights get the outermost codes wastes codes on a few weights, the
//! more so the larger the group is. So the ends of the range are drawn in, step by step: first both alike, by factors that
//! reach from none to as much as the largest weight of so many is expected to stand out; then more finely about the best, each
//! end for itself where there is a zero point. Each of these scales is rounded as it will be stored, and the squared error with the
//! codes nearest to it is summed up. The least wins. Nothing is sorted or kept, so a matrix goes through piece by piece, once for
//! the range and once for each round.

use half::{bf16, f16};

use crate::importance::usable;
use crate::search::{LANES, LARGEST, LEAST, Lanes, limit, round};

/// How a scale is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stored {
    /// As it is.
    F32,
    /// In a half float.
    F16,
    /// In the upper half of an `f32`.
    BF16,
}

impl Stored {
    /// `scale` as it is read back: finite, and 0 only if it is 0.
    pub fn round(self, scale: f32) -> f32 {
        match self {
            Stored::F32 => scale,
            Stored::F16 => {
                let rounded = f16::from_f32(scale.clamp(-65504.0, 65504.0)).to_f32();
                if rounded == 0.0 && scale != 0.0 { SMALLEST_F16.copysign(scale) } else { rounded }
            }
            Stored::BF16 => bf16::from_f32(scale.clamp(-LARGEST, LARGEST)).to_f32(),
        }
    }
}

/// The smallest half float above 0.
const SMALLEST_F16: f32 = 1.0 / (1 << 24) as f32;

/// What codes there are, and what they stand for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Integers {
    /// The lowest code, at most 0 where there is no zero point.
    pub lowest: i32,
    /// The highest code; both within -255 to 255.
    pub highest: i32,
    /// Whether a group chooses the code that stands for 0. Otherwise it is 0.
    pub zero_point: bool,
    /// How the scale is stored.
    pub stored: Stored,
}

/// What a group has besides its codes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Group {
    /// The scale, as it is read back. Negative where the weight of the largest magnitude is positive and there is one more code
    /// below 0 than above.
    pub scale: f32,
    /// The code that stands for 0.
    pub zero: i32,
}

impl Integers {
    /// Four bits: -8 to 7.
    pub const fn four_bits(zero_point: bool, stored: Stored) -> Self {
        Self { lowest: -8, highest: 7, zero_point, stored }
    }

    /// Eight bits: -128 to 127 with a zero point, else -127 to 127.
    pub const fn eight_bits(zero_point: bool, stored: Stored) -> Self {
        Self { lowest: if zero_point { -128 } else { -127 }, highest: 127, zero_point, stored }
    }

    /// The group with the least squared error that a search finds, weighted by `importance` (as many entries as values, or
    /// as a row has columns, the same for every row) where it says anything, see [`crate::importance`].
    ///
    /// NaN counts as 0. Panics where the number of values is not a multiple of the number of entries.
    pub fn search(self, values: &[f32], importance: Option<&[f32]>) -> Group {
        let mut search = GroupSearch::new(self);
        search.measure(values);
        for _ in 0..GroupSearch::ROUNDS {
            search.add(values, importance);
            search.narrow();
        }
        search.finish()
    }

    /// The codes nearest to `values` `[n]`. Panics where the lengths differ.
    pub fn codes(self, group: Group, values: &[f32], codes: &mut [i16]) {
        assert_eq!(values.len(), codes.len(), "codes and values do not belong together");
        let (inverse, zero) = (crate::search::inverse(group.scale), group.zero as f32);
        let (low, high) = (self.lowest as f32 - zero, self.highest as f32 - zero);
        for (code, &x) in codes.iter_mut().zip(values) {
            let x = if x.is_nan() { 0.0 } else { x };
            *code = (round(limit(x * inverse, low, high)) + zero) as i16;
        }
    }
}

/// Scales tried in a round.
const TRIED: usize = 16;

/// A search whose values come in pieces: [`GroupSearch::measure`] for each piece, then [`GroupSearch::ROUNDS`] times
/// [`GroupSearch::add`] for each and [`GroupSearch::narrow`] once.
#[derive(Debug, Clone)]
pub struct GroupSearch {
    integers: Integers,
    low: f32,
    high: f32,
    count: usize,
    rounds: usize,
    /// The factor from one scale of the first round to the next; 0 until they are chosen, after which the range stands.
    ratio: f32,
    tried: [Tried; TRIED],
    best: Tried,
}

/// The range of weights that codes reach, and its squared error.
#[derive(Debug, Clone, Copy)]
struct Tried {
    low: f32,
    high: f32,
    group: Group,
    error: f64,
}

impl GroupSearch {
    /// How often all values are gone through, after the range was measured.
    pub const ROUNDS: usize = 2;

    /// A search for a group of which nothing is known yet.
    pub fn new(integers: Integers) -> Self {
        let none = Tried { low: 0.0, high: 0.0, group: Group { scale: 0.0, zero: 0 }, error: 0.0 };
        let best = Tried { error: f64::INFINITY, ..none };
        Self { integers, low: 0.0, high: 0.0, count: 0, rounds: 0, ratio: 0.0, tried: [none; TRIED], best }
    }

    /// Takes the range of a piece into account.
    pub fn measure(&mut self, values: &[f32]) {
        let (mut low, mut high) = ([0.0; LANES], [0.0; LANES]);
        let (whole, rest) = values.as_chunks::<LANES>();
        let mut last = [0.0; LANES];
        last[..rest.len()].copy_from_slice(rest);
        for x in whole.iter().chain([&last]) {
            for lane in 0..LANES {
                // Comparisons with NaN are false.
                low[lane] = if x[lane] < low[lane] { x[lane] } else { low[lane] };
                high[lane] = if x[lane] > high[lane] { x[lane] } else { high[lane] };
            }
        }
        self.low = low.iter().fold(self.low, |acc, &x| acc.min(x)).max(-LARGEST);
        self.high = high.iter().fold(self.high, |acc, &x| acc.max(x)).min(LARGEST);
        self.count = self.count.saturating_add(values.len());
    }

    /// Adds the errors of a piece, see [`Integers::search`].
    pub fn add(&mut self, values: &[f32], importance: Option<&[f32]>) {
        self.begin();
        let importance = usable(importance);
        let columns = importance.map_or(values.len(), <[f32]>::len).max(1);
        assert!(values.len().is_multiple_of(columns), "importance and values do not belong together");
        for values in values.chunks(columns) {
            // In runs, so that sums of f32 stay short.
            for (run, values) in values.chunks(RUN).enumerate() {
                let importance = importance.map(|importance| &importance[run * RUN..][..values.len()]);
                // Products with f32 stay finite, whatever the importance is.
                let top = importance.map_or(1.0, |importance| importance.iter().fold(0.0f32, |acc, &w| acc.max(w)));
                if top == 0.0 {
                    continue;
                }
                let mut tiles = [([0.0; LANES], [1.0; LANES]); RUN / LANES];
                for (index, values) in values.chunks(LANES).enumerate() {
                    let (x, w) = &mut tiles[index];
                    for (x, &value) in x.iter_mut().zip(values) {
                        let value = if value.is_nan() { 0.0 } else { value };
                        *x = limit(value, -LARGEST, LARGEST);
                    }
                    if let Some(importance) = importance {
                        for (w, &importance) in w.iter_mut().zip(&importance[index * LANES..][..values.len()]) {
                            *w = (importance / top).max(LEAST);
                        }
                    }
                }
                let tiles = &tiles[..values.len().div_ceil(LANES)];
                for tried in &mut self.tried {
                    let sum = self.integers.error(tried.group, tiles);
                    tried.error += f64::from(top) * sum.iter().map(|&sum| f64::from(sum)).sum::<f64>();
                }
            }
        }
    }

    /// Ends a round.
    pub fn narrow(&mut self) {
        self.begin();
        for tried in &self.tried {
            if tried.error < self.best.error {
                self.best = *tried;
            }
        }
        self.rounds += 1;
        if self.rounds >= Self::ROUNDS {
            return;
        }
        let (low, high) = (self.best.low, self.best.high);
        // The scales next to the best of the first round lie `ratio` away: this goes nearly so far, in 16 steps.
        let step = self.ratio.powf(0.125);
        let mut factors = [step.powf(-7.5); TRIED];
        for index in 1..TRIED {
            factors[index] = factors[index - 1] * step;
        }
        for index in 0..TRIED {
            let (low_factor, high_factor) = match self.integers.zero_point {
                // Four by four about the best.
                true => (factors[4 * (index % 4) + 2], factors[4 * (index / 4) + 2]),
                false => (factors[index], factors[index]),
            };
            self.tried[index] = self.try_range(low * low_factor, high * high_factor);
        }
    }

    /// The best group of those tried.
    pub fn finish(&self) -> Group {
        self.best.group
    }

    /// Chooses the scales of the first round, once.
    fn begin(&mut self) {
        if self.ratio > 0.0 {
            return;
        }
        // The largest of n Gaussian weights is about sqrt(2 ln n) deviations away, with heavy tails far more: the square of it is
        // as much as the range is drawn in.
        let spread_squared = 2.0 * (self.count.max(8) as f32).ln();
        self.ratio = spread_squared.powf(1.0 / (TRIED - 1) as f32);
        // The first is a little wider than the weights, which may fit better than what is exactly as wide.
        let mut drawn_in = self.ratio;
        for index in 0..TRIED {
            self.tried[index] = self.try_range(self.low * drawn_in, self.high * drawn_in);
            drawn_in /= self.ratio;
        }
    }

    /// The group whose codes reach from `low` to `high`, or less far on one side if there is no zero point.
    fn try_range(&self, low: f32, high: f32) -> Tried {
        let Integers { lowest, highest, zero_point, stored } = self.integers;
        let group = if zero_point {
            let scale = stored.round((high - low) / (highest - lowest) as f32);
            let zero = lowest as f32 - low * crate::search::inverse(scale);
            Group { scale, zero: round(limit(zero, lowest as f32, highest as f32)) as i32 }
        } else {
            // The larger end gets the lowest code, of which there is one more.
            let end = if high > -low { high } else { low };
            let scale = if lowest == -highest { end.abs() / highest as f32 } else { end / lowest as f32 };
            Group { scale: stored.round(scale), zero: 0 }
        };
        Tried { low, high, group, error: 0.0 }
    }
}

/// Values whose errors are summed in `f32`.
const RUN: usize = 128;

impl Integers {
    /// The squared error of some values with the codes of `group` nearest to them, in lanes.
    fn error(self, group: Group, tiles: &[(Lanes, Lanes)]) -> Lanes {
        let (inverse, zero) = (crate::search::inverse(group.scale), group.zero as f32);
        let (low, high) = (self.lowest as f32 - zero, self.highest as f32 - zero);
        let mut sum = [0.0; LANES];
        for (x, w) in tiles {
            for lane in 0..LANES {
                let off = x[lane] - round(limit(x[lane] * inverse, low, high)) * group.scale;
                sum[lane] += w[lane] * off * off;
            }
        }
        sum
    }
}
