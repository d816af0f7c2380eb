//! What a user can ask of the sampler.

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// How the next token is chosen. In brackets stand the range and the default of a field. Checked by [`SamplingOptions::validate`]; a sampler is only made of valid ones.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SamplingOptions {
    /// Divides the logits: 0 always takes the best token, 1 leaves them, more flattens (0 to 100; 0.8).
    pub temperature: f32,
    /// Keeps the `top_k` best tokens; 0 keeps all (40).
    pub top_k: usize,
    /// Keeps the fewest best tokens whose probabilities reach this sum; 1 keeps all (0 to 1; 0.95).
    pub top_p: f32,
    /// Keeps tokens that are at least this share as probable as the best one; 0 keeps all (0 to 1; 0.05).
    pub min_p: f32,
    /// Divides positive and multiplies negative logits of recent tokens; 1 is none (0.1 to 10; 1).
    pub repetition_penalty: f32,
    /// Is taken off the logits of recent tokens once; 0 is none (-100 to 100; 0).
    pub presence_penalty: f32,
    /// Is taken off the logits of recent tokens for each time they occur; 0 is none (-100 to 100; 0).
    pub frequency_penalty: f32,
    /// How many of the last tokens, the prompt's included, count as recent (at most 1048576; 64).
    pub penalty_window: usize,
    /// Where the random numbers start; `None` chooses a seed anew for each answer, and reports it.
    pub seed: Option<u64>,
}

impl Default for SamplingOptions {
    fn default() -> Self {
        Self {
            temperature: 0.8,
            top_k: 40,
            top_p: 0.95,
            min_p: 0.05,
            repetition_penalty: 1.0,
            presence_penalty: 0.0,
            frequency_penalty: 0.0,
            penalty_window: 64,
            seed: None,
        }
    }
}

impl SamplingOptions {
    /// Always the best token, without penalties.
    pub fn greedy() -> Self {
        Self { temperature: 0.0, ..Self::default() }
    }

    /// Checks every field.
    ///
    /// # Errors
    /// [`Error::Option`] with the first field that is not finite or out of its range.
    pub fn validate(&self) -> Result<()> {
        let fields = [
            ("temperature", self.temperature, 0.0..=100.0, "a number from 0 to 100"),
            ("top_p", self.top_p, 0.0..=1.0, "a number from 0 to 1"),
            ("min_p", self.min_p, 0.0..=1.0, "a number from 0 to 1"),
            ("repetition_penalty", self.repetition_penalty, 0.1..=10.0, "a number from 0.1 to 10"),
            ("presence_penalty", self.presence_penalty, -100.0..=100.0, "a number from -100 to 100"),
            ("frequency_penalty", self.frequency_penalty, -100.0..=100.0, "a number from -100 to 100"),
        ];
        for (name, value, range, expected) in fields {
            // A range does not contain NaN, and infinities are outside of all of them.
            if !range.contains(&value) {
                return Err(Error::Option { name, expected, found: value.to_string() });
            }
        }
        if self.penalty_window > 1 << 20 {
            let found = self.penalty_window.to_string();
            return Err(Error::Option { name: "penalty_window", expected: "at most 1048576 tokens", found });
        }
        Ok(())
    }

    /// Whether any penalty changes a logit.
    pub fn has_penalties(&self) -> bool {
        let changes = self.repetition_penalty != 1.0 || self.presence_penalty != 0.0 || self.frequency_penalty != 0.0;
        changes && self.penalty_window > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_and_borders_are_valid() {
        SamplingOptions::default().validate().unwrap();
        SamplingOptions::greedy().validate().unwrap();
        let low = SamplingOptions {
            top_p: 0.0,
            min_p: 0.0,
            top_k: 0,
            repetition_penalty: 0.1,
            presence_penalty: -100.0,
            frequency_penalty: -100.0,
            penalty_window: 0,
            ..SamplingOptions::greedy()
        };
        low.validate().unwrap();
        let high = SamplingOptions { temperature: 100.0, top_p: 1.0, min_p: 1.0, top_k: usize::MAX, ..low };
        high.validate().unwrap();
    }

    #[test]
    fn each_field_is_named_for_each_kind_of_nonsense() {
        type Set = fn(&mut SamplingOptions, f32);
        let fields: [(&str, Set); 6] = [
            ("temperature", |options, value| options.temperature = value),
            ("top_p", |options, value| options.top_p = value),
            ("min_p", |options, value| options.min_p = value),
            ("repetition_penalty", |options, value| options.repetition_penalty = value),
            ("presence_penalty", |options, value| options.presence_penalty = value),
            ("frequency_penalty", |options, value| options.frequency_penalty = value),
        ];
        for (field, set) in fields {
            for value in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 999_999.0, -999_999.0] {
                let mut options = SamplingOptions::default();
                set(&mut options, value);
                let message = options.validate().unwrap_err().to_string();
                assert!(message.starts_with(&format!("{field}: expected a number from")), "{message}");
                assert!(message.ends_with(&format!("found {value}")), "{message}");
            }
        }
        for (options, field) in [
            (SamplingOptions { temperature: -1.0, ..Default::default() }, "temperature"),
            (SamplingOptions { top_p: -1.0, ..Default::default() }, "top_p"),
            (SamplingOptions { min_p: 1.5, ..Default::default() }, "min_p"),
            (SamplingOptions { repetition_penalty: 0.0, ..Default::default() }, "repetition_penalty"),
            (SamplingOptions { penalty_window: 1 << 21, ..Default::default() }, "penalty_window"),
        ] {
            assert!(options.validate().unwrap_err().to_string().starts_with(field));
        }
    }
}
