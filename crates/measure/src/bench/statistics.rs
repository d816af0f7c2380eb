//! Numbers about samples.
//!
//! Times on a machine that does other things too are no bell curve: most are close together, and some are much longer. So what is
//! told is the median, with an interval that assumes no distribution, and quantiles.

use serde::{Deserialize, Serialize};

/// How sure an interval must be.
pub const INTERVAL_LEVEL: f64 = 0.9;

/// Of the normal distribution, so far from the middle on both sides lies a part of [`INTERVAL_LEVEL`].
const NORMAL_QUANTILE: f64 = 1.645;
/// Up to so many samples are counted exactly: the 500th power of a half is still a number.
const EXACT_SAMPLES: usize = 500;

/// Samples farther from the median than this many (scaled) median deviations are outliers.
///
/// Source: B. Iglewicz and D. Hoaglin, *How to Detect and Handle Outliers* (1993), the modified Z-score.
const OUTLIER_SCORE: f64 = 3.5;
/// A standard deviation of normal samples in median deviations.
const MEDIAN_DEVIATION_SCALE: f64 = 0.6745;
/// However close together the others are: less than this part of the median beside it nobody calls an outlier.
const OUTLIER_PART: f64 = 0.03;
/// Fewer samples have no outliers: nobody knows which of them is usual.
const OUTLIER_SAMPLES: usize = 5;

/// Two samples between which the median lies that infinitely many samples would have.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// The lower end.
    pub low: f64,
    /// The upper end.
    pub high: f64,
    /// How sure that is, at least [`INTERVAL_LEVEL`]; samples are supposed to be independent.
    pub level: f64,
}

impl Interval {
    /// Half its width, as a part of `median`.
    pub fn half_width(&self, median: f64) -> f64 {
        if median > 0.0 { (self.high - self.low) / 2.0 / median } else { 0.0 }
    }
}

/// The mean; 0 of none.
pub fn mean(samples: &[f64]) -> f64 {
    if samples.is_empty() { 0.0 } else { samples.iter().sum::<f64>() / samples.len() as f64 }
}

/// The standard deviation of samples (divided by their number less one); 0 of fewer than two.
pub fn deviation(samples: &[f64]) -> f64 {
    if samples.len() < 2 {
        return 0.0;
    }
    let mean = mean(samples);
    let squares: f64 = samples.iter().map(|sample| (sample - mean).powi(2)).sum();
    (squares / (samples.len() - 1) as f64).sqrt()
}

/// The median: the middle one, or the mean of the two in the middle; 0 of none.
pub fn median(samples: &[f64]) -> f64 {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let half = sorted.len() / 2;
    match sorted.len() {
        0 => 0.0,
        length if length % 2 == 1 => sorted[half],
        _ => (sorted[half - 1] + sorted[half]) / 2.0,
    }
}

/// The least and the greatest; 0 of none.
pub fn range(samples: &[f64]) -> (f64, f64) {
    let least = samples.iter().copied().reduce(f64::min);
    let greatest = samples.iter().copied().reduce(f64::max);
    (least.unwrap_or(0.0), greatest.unwrap_or(0.0))
}

/// The sample below which a part `q` of them lies, from 0 to 1; between two samples in proportion; 0 of none.
///
/// Source: R. Hyndman and Y. Fan, *Sample Quantiles in Statistical Packages* (1996), definition 7.
pub fn quantile(samples: &[f64], q: f64) -> f64 {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let Some(last) = sorted.len().checked_sub(1) else { return 0.0 };
    let place = q.clamp(0.0, 1.0) * last as f64;
    let below = place as usize;
    let above = (below + 1).min(last);
    sorted[below] + (sorted[above] - sorted[below]) * (place - below as f64)
}

/// Where the median lies: between the samples of equal rank from both ends, as far inside as [`INTERVAL_LEVEL`] allows. `None` of
/// fewer than five samples, of which not even the least and the greatest are so sure.
///
/// A sample is below the median or above it like a coin that is tossed, whatever the distribution is: that all but k - 1 of n coins
/// at most fall on one side has a known probability.
///
/// Source: W. J. Conover, *Practical Nonparametric Statistics*, the confidence interval for a quantile.
pub fn median_interval(samples: &[f64]) -> Option<Interval> {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let (index, level) = farthest_inside(sorted.len())?;
    Some(Interval { low: sorted[index], high: sorted[sorted.len() - 1 - index], level })
}

/// Of `count` ordered samples the farthest inside that may be the end of an interval, and how sure that one is.
fn farthest_inside(count: usize) -> Option<(usize, f64)> {
    if count > EXACT_SAMPLES {
        // Coins in such numbers are a bell curve.
        let index = (count as f64 - NORMAL_QUANTILE * (count as f64).sqrt()) / 2.0;
        return Some((index as usize - 1, INTERVAL_LEVEL));
    }
    // Of `count` coins exactly `index` on one side, and at most so many.
    let (mut exactly, mut at_most) = (0.5f64.powi(count as i32), 0.0);
    let mut found = None;
    for index in 0..count / 2 {
        at_most += exactly;
        let level = 1.0 - 2.0 * at_most;
        if level < INTERVAL_LEVEL {
            break;
        }
        found = Some((index, level));
        exactly *= (count - index) as f64 / (index + 1) as f64;
    }
    found
}

/// The samples, by index, that are so far from the others that something else must have happened; none of fewer than five.
pub fn outliers(samples: &[f64]) -> Vec<usize> {
    if samples.len() < OUTLIER_SAMPLES {
        return Vec::new();
    }
    let median = median(samples);
    let deviations: Vec<f64> = samples.iter().map(|sample| (sample - median).abs()).collect();
    let usual = self::median(&deviations) / MEDIAN_DEVIATION_SCALE;
    let least = (usual * OUTLIER_SCORE).max(median.abs() * OUTLIER_PART);
    (0..samples.len()).filter(|&index| deviations[index] > least).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_summed_up() {
        let samples = [299.868, 305.878];
        assert!((mean(&samples) - 302.873).abs() < 1e-9);
        // As llama-bench gives it for these two.
        assert!((deviation(&samples) - 4.2497).abs() < 1e-3);
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
        assert_eq!(range(&[3.0, 1.0, 2.0]), (1.0, 3.0));
        assert_eq!((mean(&[]), deviation(&[1.0]), median(&[]), range(&[])), (0.0, 0.0, 0.0, (0.0, 0.0)));
    }

    #[test]
    fn quantiles_lie_between_samples() {
        let samples = [40.0, 10.0, 20.0, 30.0, 50.0];
        assert_eq!([0.0, 0.5, 0.95, 1.0].map(|q| quantile(&samples, q)), [10.0, 30.0, 48.0, 50.0]);
        assert_eq!(quantile(&[7.0], 0.99), 7.0);
        assert_eq!(quantile(&[], 0.5), 0.0);
        assert_eq!((quantile(&samples, -1.0), quantile(&samples, 9.0)), (10.0, 50.0));
    }

    #[test]
    fn intervals_are_as_tables_have_them() {
        let of = |count: usize| median_interval(&(1..=count).map(|rank| rank as f64).collect::<Vec<_>>());
        assert_eq!(of(4), None, "the least and the greatest of four hold it in 7 of 8 cases");
        let five = of(5).unwrap();
        assert_eq!((five.low, five.high, five.level), (1.0, 5.0, 0.9375));
        let seven = of(7).unwrap();
        assert_eq!((seven.low, seven.high, seven.level), (1.0, 7.0, 1.0 - 2.0 / 128.0));
        let ranks = |count: usize| of(count).map(|found| (found.low, found.high)).unwrap();
        // From Conover's table of the binomial distribution.
        assert_eq!([8, 11, 20].map(ranks), [(2.0, 7.0), (3.0, 9.0), (6.0, 15.0)]);
        assert!((of(20).unwrap().level - 0.9586).abs() < 1e-4);
        // Both ways of counting agree where one ends.
        assert_eq!(ranks(500), (232.0, 269.0));
        assert_eq!(ranks(501), (232.0, 270.0));
        assert_eq!(five.half_width(3.0), 2.0 / 3.0);
        assert_eq!(five.half_width(0.0), 0.0);
    }

    #[test]
    fn an_interval_holds_the_median_as_often_as_it_says() {
        // A distribution with a long tail, whose median is 1: exp of a number between -1 and 1, some of them far away.
        let mut seed = 1u64;
        let mut uniform = || {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 11) as f64 / (1u64 << 53) as f64
        };
        for count in [5, 9, 20] {
            let mut held = 0;
            let mut level = 0.0;
            for _ in 0..4000 {
                let samples: Vec<f64> = (0..count).map(|_| (2.0 * uniform() - 1.0).powi(3).exp()).collect();
                let interval = median_interval(&samples).unwrap();
                level = interval.level;
                held += usize::from(interval.low <= 1.0 && 1.0 <= interval.high);
            }
            let share = f64::from(held as u32) / 4000.0;
            assert!((share - level).abs() < 0.02, "{count}: {share} of {level}");
        }
    }

    #[test]
    fn outliers_are_far_from_what_is_usual() {
        assert_eq!(outliers(&[100.0, 101.0, 99.0, 100.5, 140.0]), [4]);
        assert_eq!(outliers(&[100.0, 101.0, 99.0, 140.0]), [0; 0], "too few to know");
        assert_eq!(outliers(&[100.0, 100.0, 100.0, 100.0, 102.0]), [0; 0], "two parts of a hundred are nothing");
        assert_eq!(outliers(&[100.0, 100.0, 100.0, 100.0, 104.0]), [4]);
        assert_eq!(outliers(&[90.0, 120.0, 100.0, 110.0, 130.0]), [0; 0]);
        assert_eq!(outliers(&[]), [0; 0]);
    }
}
