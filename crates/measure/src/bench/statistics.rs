//! Numbers about samples.

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
}
