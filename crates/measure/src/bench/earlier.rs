//! What earlier runs with the same settings say about how far the median of one run is off.
//!
//! Rounds of one run share what that run had: the layout of the memory, the clock of those seconds, what neighbours did. Their interval
//! cannot know how a run an hour later differs. The medians of earlier runs can.

use serde::{Deserialize, Serialize};

use super::statistics::{Interval, deviation, mean};

/// Of fewer runs nobody knows how far they lie apart.
const LEAST_RUNS: usize = 5;
/// Student's t, of which one twentieth lies above, for 4, 5, ... degrees of freedom. With more it becomes hardly less.
const STUDENT: [f64; 16] =
    [2.132, 2.015, 1.943, 1.895, 1.860, 1.833, 1.812, 1.796, 1.782, 1.771, 1.761, 1.753, 1.746, 1.740, 1.734, 1.729];

/// Earlier runs with the same settings, by their medians.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct EarlierRuns {
    /// How many there are.
    pub runs: usize,
    /// The (geometric) mean of their medians, in tokens per second.
    pub mean_ts: f64,
    /// One further run of twenty is slower.
    pub low_ts: f64,
    /// One further run of twenty is faster.
    pub high_ts: f64,
}

impl EarlierRuns {
    /// Of their medians, in tokens per second, in any order; none of fewer than five.
    ///
    /// Where a further run lies is the prediction interval of a normal distribution, of logarithms, since what slows a machine down is a
    /// factor. Source: Hahn and Meeker, *Statistical Intervals*, section 4.7.
    pub fn of(medians_ts: &[f64]) -> Option<EarlierRuns> {
        let is_fit = |ts: &f64| ts.is_finite() && *ts > 0.0;
        let runs = medians_ts.len();
        let student = STUDENT[runs.checked_sub(LEAST_RUNS)?.min(STUDENT.len() - 1)];
        if !medians_ts.iter().all(is_fit) {
            return None;
        }
        let logarithms: Vec<f64> = medians_ts.iter().map(|ts| ts.ln()).collect();
        let mean = mean(&logarithms);
        let apart = student * deviation(&logarithms) * (1.0 + 1.0 / runs as f64).sqrt();
        Some(EarlierRuns { runs, mean_ts: mean.exp(), low_ts: (mean - apart).exp(), high_ts: (mean + apart).exp() })
    }

    /// An interval that holds, beside what the rounds of a run say, where the middle of many runs lies if this one is as far off as
    /// earlier ones were.
    pub fn widened(&self, median_ts: f64, interval: Interval) -> Interval {
        let (below, above) = (median_ts * self.mean_ts / self.high_ts, median_ts * self.mean_ts / self.low_ts);
        Interval { low: interval.low.min(below), high: interval.high.max(above), ..interval }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_few_runs_nothing_is_concluded() {
        assert_eq!(EarlierRuns::of(&[100.0; 4]), None);
        assert_eq!(EarlierRuns::of(&[100.0, 100.0, 100.0, 100.0, f64::NAN]), None);
        assert_eq!(EarlierRuns::of(&[100.0, 100.0, 100.0, 100.0, 0.0]), None);
        assert!(EarlierRuns::of(&[100.0; 5]).is_some());
    }

    #[test]
    fn an_interval_becomes_as_wide_as_runs_lie_apart_and_never_narrower() {
        // Logarithms -0.1, -0.05, 0, 0.05, 0.1 around that of 100.
        let runs: Vec<f64> = (-2..=2).map(|step| 100.0 * (0.05 * f64::from(step)).exp()).collect();
        let earlier = EarlierRuns::of(&runs).unwrap();
        let apart = 2.132 * (0.025f64 / 4.0).sqrt() * 1.2f64.sqrt();
        let near = |a: f64, b: f64| (a / b - 1.0).abs() < 1e-9;
        assert_eq!(earlier.runs, 5);
        assert!(near(earlier.mean_ts, 100.0) && near(earlier.low_ts, 100.0 * (-apart).exp()), "{earlier:?}");
        let wide = earlier.widened(110.0, Interval { low: 109.5, high: 110.5, level: 0.9375 });
        assert!(near(wide.low, 110.0 * (-apart).exp()) && near(wide.high, 110.0 * apart.exp()), "{wide:?}");
        let own = Interval { low: 50.0, high: 200.0, level: 0.9375 };
        assert_eq!(earlier.widened(110.0, own), own);
        // Runs that never differ add nothing.
        let same = EarlierRuns::of(&[100.0; 30]).unwrap();
        assert!(near(same.low_ts, 100.0) && near(same.high_ts, 100.0), "{same:?}");
    }

    #[test]
    fn intervals_hold_the_middle_of_runs_that_the_rounds_know_nothing_of() {
        // Runs lie 8 % to each side, rounds of one run 1 %: deterministic noise, evenly.
        let noise = |index: u64, part: f64| 1.0 + part * ((index * 2_654_435_761 % 1000) as f64 / 500.0 - 1.0);
        let runs: Vec<f64> = (1..=200).map(|run| 100.0 * noise(run, 0.08)).collect();
        let (mut held, mut held_by_rounds) = (0, 0);
        for (at, &run) in runs.iter().enumerate().skip(20) {
            let rounds = Interval { low: run * 0.99, high: run * 1.01, level: 0.9375 };
            let widened = EarlierRuns::of(&runs[at - 20..at]).unwrap().widened(run, rounds);
            held += usize::from(widened.low <= 100.0 && 100.0 <= widened.high);
            held_by_rounds += usize::from(rounds.low <= 100.0 && 100.0 <= rounds.high);
        }
        assert!(held >= 162 && held_by_rounds < 45, "of 180: {held}, and by the rounds alone {held_by_rounds}");
    }
}
