//! From scores of tokens to figures with their standard errors.
//!
//! Errors take tokens as independent of each other, as llama-perplexity's do. Neighbours in a text are not quite, so that true
//! errors are somewhat larger.

use super::rows::{Comparison, Score};

/// A number and its standard error.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// The number.
    pub value: f64,
    /// Its standard error.
    pub error: f64,
}

/// The mean of samples and its standard error: their deviation over the square root of their number less one. 0 of none.
pub fn mean(samples: impl ExactSizeIterator<Item = f64> + Clone) -> Estimate {
    let count = samples.len();
    if count == 0 {
        return Estimate { value: 0.0, error: 0.0 };
    }
    let value = samples.clone().sum::<f64>() / count as f64;
    let variance = samples.map(|sample| (sample - value).powi(2)).sum::<f64>() / count as f64;
    let error = if count > 1 { (variance / (count - 1) as f64).sqrt() } else { 0.0 };
    Estimate { value, error }
}

/// The quantile `at`, from 0 to 1, of samples in ascending order, between two of them in proportion. Its error is half the distance
/// between the quantiles one standard error of a share below and above (Woodruff 1952). 0 of none.
pub fn quantile(sorted: &[f64], at: f64) -> Estimate {
    let of = |at: f64| {
        let place = at.clamp(0.0, 1.0) * sorted.len().saturating_sub(1) as f64;
        let (below, part) = (place.floor() as usize, place.fract());
        let next = sorted.get(below + 1).or(sorted.last()).copied().unwrap_or(0.0);
        sorted.get(below).map_or(0.0, |below| below + part * (next - below))
    };
    let aside = (at * (1.0 - at) / sorted.len().max(1) as f64).sqrt();
    Estimate { value: of(at), error: (of(at + aside) - of(at - aside)) / 2.0 }
}

/// The share of `hits` among `count`. 0 of none.
pub fn share(hits: usize, count: usize) -> Estimate {
    let value = if count == 0 { 0.0 } else { hits as f64 / count as f64 };
    let error = if count > 1 { (value * (1.0 - value) / (count - 1) as f64).sqrt() } else { 0.0 };
    Estimate { value, error }
}

/// What is kept of each scored token of a text: a few numbers.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Tally {
    log_probabilities: Vec<f64>,
    divergences: Vec<f64>,
    same_top: usize,
}

impl Tally {
    /// Notes scored tokens, in order.
    pub fn score(&mut self, scores: &[Score]) {
        self.log_probabilities.extend(scores.iter().map(|score| score.log_probability));
    }

    /// Notes how far the same tokens' rows are from the reference's.
    pub fn compare(&mut self, comparisons: &[Comparison]) {
        self.divergences.extend(comparisons.iter().map(|comparison| comparison.divergence));
        self.same_top += comparisons.iter().filter(|comparison| comparison.same_top).count();
    }

    /// Tokens that were scored.
    pub fn tokens(&self) -> usize {
        self.log_probabilities.len()
    }

    /// The perplexity: `exp` of the mean of `-ln p`. Its error is that of the mean, carried through `exp`.
    pub fn perplexity(&self) -> Estimate {
        exp(mean(self.log_probabilities.iter().map(|ln_p| -ln_p)))
    }

    /// All figures; those beside the reference need what it made of the same tokens.
    pub fn figures(&self, reference: Option<&Tally>) -> Figures {
        let Some(reference) = reference else { return Figures { perplexity: self.perplexity(), beside: None } };
        let pairs = reference.log_probabilities.iter().zip(&self.log_probabilities);
        let mut sorted = self.divergences.clone();
        sorted.sort_by(f64::total_cmp);
        let beside = Beside {
            perplexity: reference.perplexity(),
            perplexity_ratio: exp(mean(pairs.map(|(reference, own)| reference - own))),
            kl_mean: mean(self.divergences.iter().copied()),
            kl_median: quantile(&sorted, 0.5),
            kl_p99: quantile(&sorted, 0.99),
            top1_agreement: share(self.same_top, self.divergences.len()),
        };
        Figures { perplexity: self.perplexity(), beside: Some(beside) }
    }
}

fn exp(estimate: Estimate) -> Estimate {
    let value = estimate.value.exp();
    Estimate { value, error: value * estimate.error }
}

/// What is known of a model on a text.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Figures {
    /// The perplexity.
    pub perplexity: Estimate,
    /// The figures beside a reference.
    pub beside: Option<Beside>,
}

/// Figures beside a reference.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Beside {
    /// The reference's own perplexity.
    pub perplexity: Estimate,
    /// Perplexity over the reference's. Its error is that of the tokens' differences, far smaller than those of the two.
    pub perplexity_ratio: Estimate,
    /// Divergence from the reference in nats: the mean over the tokens.
    pub kl_mean: Estimate,
    /// The median.
    pub kl_median: Estimate,
    /// What 99 % of the tokens are below.
    pub kl_p99: Estimate,
    /// Share of the tokens for which both find the same one the likeliest.
    pub top1_agreement: Estimate,
}
