//! What is known of one model on one text, by the names that scripts rely on.

use serde::Serialize;

use super::figures::Figures;

/// A model on a text. Figures beside a reference are missing where there was none.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// The model's file.
    pub model: String,
    /// The text's file.
    pub text: String,
    /// Bytes of all tensors.
    pub model_bytes: u64,
    /// Weights of all tensors.
    pub parameters: u64,
    /// Bits of all tensors over the number of weights.
    pub bits_per_weight: f64,
    /// Tokens of a window.
    pub context: usize,
    /// Windows that were computed.
    pub windows: usize,
    /// Tokens that were scored.
    pub tokens: usize,
    /// `exp` of the mean of `-ln p`.
    pub perplexity: f64,
    /// Standard error.
    pub perplexity_error: f64,
    /// The reference's file.
    pub reference: Option<String>,
    /// The reference's perplexity.
    pub reference_perplexity: Option<f64>,
    /// Standard error.
    pub reference_perplexity_error: Option<f64>,
    /// Perplexity over the reference's.
    pub perplexity_ratio: Option<f64>,
    /// Standard error, of the tokens' differences.
    pub perplexity_ratio_error: Option<f64>,
    /// Mean divergence from the reference, in nats.
    pub kl_mean: Option<f64>,
    /// Standard error.
    pub kl_mean_error: Option<f64>,
    /// Median.
    pub kl_median: Option<f64>,
    /// Standard error.
    pub kl_median_error: Option<f64>,
    /// What 99 % of the tokens are below.
    pub kl_p99: Option<f64>,
    /// Standard error.
    pub kl_p99_error: Option<f64>,
    /// Share of the tokens with the same likeliest one, 0 to 1.
    pub top1_agreement: Option<f64>,
    /// Standard error.
    pub top1_agreement_error: Option<f64>,
    /// Tokens per second of decode after an empty context, where it was measured.
    pub decode_ts: Option<f64>,
}

/// What of a row is known before anything is computed.
#[derive(Debug, Clone, PartialEq)]
pub struct About {
    /// As [`Row::model`].
    pub model: String,
    /// As [`Row::model_bytes`].
    pub model_bytes: u64,
    /// As [`Row::parameters`].
    pub parameters: u64,
}

impl Row {
    /// A row of figures over `tokens` tokens in `windows` windows of `context`.
    pub fn new(
        about: &About,
        text: &str,
        (context, windows, tokens): (usize, usize, usize),
        figures: &Figures,
        reference: Option<&str>,
        decode_ts: Option<f64>,
    ) -> Self {
        let About { model, model_bytes, parameters } = about.clone();
        let beside = figures.beside.as_ref();
        Self {
            model,
            text: text.to_owned(),
            model_bytes,
            parameters,
            bits_per_weight: model_bytes as f64 * 8.0 / parameters.max(1) as f64,
            context,
            windows,
            tokens,
            perplexity: figures.perplexity.value,
            perplexity_error: figures.perplexity.error,
            reference: reference.map(str::to_owned),
            reference_perplexity: beside.map(|beside| beside.perplexity.value),
            reference_perplexity_error: beside.map(|beside| beside.perplexity.error),
            perplexity_ratio: beside.map(|beside| beside.perplexity_ratio.value),
            perplexity_ratio_error: beside.map(|beside| beside.perplexity_ratio.error),
            kl_mean: beside.map(|beside| beside.kl_mean.value),
            kl_mean_error: beside.map(|beside| beside.kl_mean.error),
            kl_median: beside.map(|beside| beside.kl_median.value),
            kl_median_error: beside.map(|beside| beside.kl_median.error),
            kl_p99: beside.map(|beside| beside.kl_p99.value),
            kl_p99_error: beside.map(|beside| beside.kl_p99.error),
            top1_agreement: beside.map(|beside| beside.top1_agreement.value),
            top1_agreement_error: beside.map(|beside| beside.top1_agreement.error),
            decode_ts,
        }
    }
}
