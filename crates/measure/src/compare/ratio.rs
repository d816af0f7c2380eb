//! How much two samples differ, and how sure that is.
//!
//! The ratio is the median of all ratios of a value of B to a value of A (the estimator of Hodges and Lehmann, on logarithms), and its
//! interval goes from the k-th smallest of these to the k-th greatest, k being such that the rank-sum statistic of Mann and Whitney is
//! below it in at most 5 % of all orders that the samples could have had (Moses). Source: Hollander, Wolfe and Chicken, "Nonparametric
//! Statistical Methods", sections 4.2 and 4.3; R's `wilcox.test(conf.int = TRUE)` gives the same on logarithms.
//!
//! It holds the true ratio in at least 90 % of cases for any number of samples, whatever the noise looks like, as long as it is the same
//! noise times a factor: that is counted, and not an approximation for many samples. On made-up benchmarks of three to twenty
//! rounds a bootstrap of the ratio of medians held the truth as often, with intervals a tenth wider from five rounds on; and it
//! needs random numbers, where here the same samples always give the same interval. Two samples of three are the least: nine ratios,
//! of which the interval is all.
//!
//! What it cannot know: samples of one run share what that run had (the memory's layout, the temperature). It speaks of the noise
//! within the runs.

use crate::bench::median;

/// The chance that the interval begins above the truth, and that it ends below: 90 % are between.
const TAIL: f64 = 0.05;
/// The point of the normal distribution with so much above it.
const NORMAL: f64 = 1.644_853_627;
/// Up to so many samples together the distribution is counted, above it is near enough to the normal one.
const COUNTED_SAMPLES: usize = 100;
/// Of more samples than this, so many are taken, evenly from the sorted ones: ratios of all pairs would not fit. The interval becomes
/// wider by that, never narrower.
const MOST_SAMPLES: usize = 1000;

/// How much B is of A.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ratio {
    /// B's values by A's.
    pub ratio: f64,
    /// The 90 % interval; none of too few samples.
    pub interval: Option<(f64, f64)>,
}

/// The ratio of `b` to `a`; none where a value is missing or not above 0.
pub fn ratio(a: &[f64], b: &[f64]) -> Option<Ratio> {
    let is_fit = |values: &[f64]| !values.is_empty() && values.iter().all(|value| value.is_finite() && *value > 0.0);
    if !is_fit(a) || !is_fit(b) {
        return None;
    }
    let (a, b) = (thinned(a), thinned(b));
    let mut ratios: Vec<f64> = a.iter().flat_map(|a| b.iter().map(move |b| b.ln() - a.ln())).collect();
    ratios.sort_by(f64::total_cmp);
    let interval = rank(a.len(), b.len()).map(|k| (ratios[k - 1].exp(), ratios[ratios.len() - k].exp()));
    Some(Ratio { ratio: median(&ratios).exp(), interval })
}

fn thinned(values: &[f64]) -> Vec<f64> {
    if values.len() <= MOST_SAMPLES {
        return values.to_vec();
    }
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let last = (sorted.len() - 1) as f64;
    (0..MOST_SAMPLES).map(|at| sorted[(at as f64 * last / (MOST_SAMPLES - 1) as f64).round() as usize]).collect()
}

/// The greatest k so that fewer than k of all ratios lie above (or below) the truth in at most 5 % of cases; none where already one
/// happens more often.
fn rank(a: usize, b: usize) -> Option<usize> {
    if a + b > COUNTED_SAMPLES {
        let pairs = (a * b) as f64;
        let deviation = (pairs * (a + b + 1) as f64 / 12.0).sqrt();
        return Some((pairs / 2.0 - NORMAL * deviation).floor() as usize).filter(|&k| k >= 1);
    }
    let counts = orders(a, b);
    let all: f64 = counts.iter().map(|&count| count as f64).sum();
    let mut below = 0.0;
    let k = counts.iter().take_while(|&&count| {
        below += count as f64;
        below / all <= TAIL
    });
    Some(k.count()).filter(|&k| k >= 1)
}

/// In how many orders of two samples the statistic of Mann and Whitney is 0, 1, 2, ...: the coefficients of the Gaussian binomial
/// (a + b over a). They are whole numbers below 2^97 for up to [`COUNTED_SAMPLES`] together.
fn orders(a: usize, b: usize) -> Vec<i128> {
    let mut counts = vec![0_i128; a * b + 1];
    counts[0] = 1;
    for step in 1..=a {
        // Times (1 - x^(b + step)), from the highest power down.
        let up = b + step;
        for power in (up..counts.len()).rev() {
            counts[power] -= counts[power - up];
        }
        // By (1 - x^step), from the lowest power up.
        for power in step..counts.len() {
            counts[power] += counts[power - step];
        }
    }
    counts
}

#[cfg(test)]
mod tests {
    use rand_chacha::ChaCha8Rng;
    use rand_chacha::rand_core::{Rng as _, SeedableRng as _};

    use super::*;

    /// Noise of several kinds around 1, drawn from a generator of a fixed seed.
    struct Noise(ChaCha8Rng);

    impl Noise {
        fn uniform(&mut self) -> f64 {
            (self.0.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
        }

        fn normal(&mut self) -> f64 {
            (-2.0 * (1.0 - self.uniform()).ln()).sqrt() * (std::f64::consts::TAU * self.uniform()).cos()
        }

        /// Rates with symmetric noise, and with the kind that machines have: mostly steady, now and then much slower.
        fn sample(&mut self, count: usize, rate: f64, is_skewed: bool) -> Vec<f64> {
            let mut value = || {
                let steady = rate * (0.02 * self.normal()).exp();
                if is_skewed && self.uniform() < 0.15 { steady * (0.5 + 0.5 * self.uniform()) } else { steady }
            };
            (0..count).map(|_| value()).collect()
        }
    }

    #[test]
    fn the_distribution_is_that_of_the_tables() {
        // Small enough to write down: three and three.
        assert_eq!(orders(3, 3), [1, 1, 2, 3, 3, 3, 3, 2, 1, 1]);
        assert_eq!(orders(5, 5).iter().sum::<i128>(), 252);
        assert_eq!(orders(50, 50).iter().sum::<i128>(), 100_891_344_545_564_193_334_812_497_256);
        // Critical values of the rank-sum test, one-sided 5 %: Hollander, Wolfe and Chicken, table A.6.
        assert_eq!([(3, 3), (5, 5), (10, 10), (20, 20), (4, 7)].map(|(a, b)| rank(a, b)), [1, 5, 28, 139, 5].map(Some));
        assert_eq!([(1, 1), (2, 2), (1, 18)].map(|(a, b)| rank(a, b)), [None; 3]);
        assert_eq!(rank(1, 19), Some(1));
        // Where counting ends the normal distribution goes on.
        let (counted, normal) = (rank(50, 50).unwrap(), rank(51, 50).unwrap());
        assert!((1010..=1025).contains(&counted) && normal > counted && normal < counted + 30, "{counted} {normal}");
    }

    #[test]
    fn intervals_go_from_one_ratio_to_another() {
        let found = ratio(&[1.0, 2.0, 4.0], &[8.0, 8.0, 8.0]).unwrap();
        let near = |a: f64, b: f64| (a - b).abs() < 1e-12;
        assert!(near(found.ratio, 4.0), "{found:?}");
        let (low, high) = found.interval.unwrap();
        assert!(near(low, 2.0) && near(high, 8.0), "{found:?}");
        assert_eq!(ratio(&[1.0], &[2.0]).unwrap().interval, None);
        for odd in [&[][..], &[0.0], &[-1.0], &[f64::NAN], &[f64::INFINITY]] {
            assert_eq!(ratio(odd, &[1.0]), None);
            assert_eq!(ratio(&[1.0], odd), None);
        }
    }

    /// Of 2,000 made-up pairs of runs the interval must hold the true ratio nine times of ten, less three deviations of that
    /// share.
    #[test]
    fn intervals_hold_the_truth_as_often_as_they_say() {
        const TRIALS: usize = 2000;
        let mut noise = Noise(ChaCha8Rng::seed_from_u64(20_261_130));
        for (count_a, count_b) in [(3, 3), (3, 7), (5, 5), (10, 10), (20, 11)] {
            for is_skewed in [false, true] {
                for truth in [1.0, 1.3] {
                    let held = (0..TRIALS).filter(|_| {
                        let a = noise.sample(count_a, 70.0, is_skewed);
                        let b = noise.sample(count_b, 70.0 * truth, is_skewed);
                        let (low, high) = ratio(&a, &b).unwrap().interval.unwrap();
                        low <= truth && truth <= high
                    });
                    let share = held.count() as f64 / TRIALS as f64;
                    assert!((0.88..=0.955).contains(&share), "{count_a} {count_b} {is_skewed} {truth}: {share}");
                }
            }
        }
    }

    #[test]
    fn many_samples_are_thinned_and_stay_true() {
        let mut noise = Noise(ChaCha8Rng::seed_from_u64(1));
        let (a, b) = (noise.sample(10_000, 70.0, false), noise.sample(10_000, 77.0, false));
        let found = ratio(&a, &b).unwrap();
        let (low, high) = found.interval.unwrap();
        assert!(low <= 1.1 && 1.1 <= high && high - low < 0.01, "{found:?}");
    }

    mod properties {
        use proptest::prelude::*;

        use super::super::*;

        fn samples() -> impl Strategy<Value = Vec<f64>> {
            proptest::collection::vec(0.1_f64..1000.0, 1..30)
        }

        proptest! {
            #[test]
            fn the_other_way_round_is_the_inverse(a in samples(), b in samples()) {
                let (there, back) = (ratio(&a, &b).unwrap(), ratio(&b, &a).unwrap());
                prop_assert!((there.ratio * back.ratio - 1.0).abs() < 1e-9);
                prop_assert_eq!(there.interval.is_some(), back.interval.is_some());
                if let (Some((low, high)), Some((back_low, back_high))) = (there.interval, back.interval) {
                    prop_assert!((low * back_high - 1.0).abs() < 1e-9 && (high * back_low - 1.0).abs() < 1e-9);
                    prop_assert!(low <= there.ratio * (1.0 + 1e-12) && there.ratio <= high * (1.0 + 1e-12));
                }
            }

            #[test]
            fn units_and_order_change_nothing(a in samples(), b in samples(), factor in 0.001_f64..1000.0) {
                let scaled = |values: &[f64]| values.iter().rev().map(|value| value * factor).collect::<Vec<_>>();
                let (plain, other) = (ratio(&a, &b).unwrap(), ratio(&scaled(&a), &scaled(&b)).unwrap());
                prop_assert!((plain.ratio / other.ratio - 1.0).abs() < 1e-9);
                prop_assert_eq!(ratio(&a, &b), ratio(&a, &b));
            }

            #[test]
            fn a_sample_differs_from_itself_by_nothing(a in proptest::collection::vec(0.1_f64..1000.0, 3..30)) {
                let same = ratio(&a, &a).unwrap();
                let (low, high) = same.interval.unwrap();
                prop_assert!((same.ratio - 1.0).abs() < 1e-9 && low <= 1.0 && high >= 1.0);
            }
        }
    }
}
