//! Rotary embeddings and their scalings, as files describe them.

use std::f64::consts::PI;
use std::sync::Arc;

use super::ConfigReader;
use crate::config::{LongRope, RopeConfig, RopeScaling, RopeStyle};
use crate::error::{Error, Result, quoted};
use crate::weights::read_vector;

/// Turns within the original context above which YaRN leaves a frequency alone, where the file does not say.
const BETA_FAST: f32 = 32.0;
/// Turns below which YaRN divides a frequency by the whole factor, where the file does not say.
const BETA_SLOW: f32 = 1.0;

impl RopeConfig {
    /// The same without any scaling, with another base: what layers with a window use where the others are scaled.
    pub(super) fn unscaled(&self, base: f32) -> Self {
        let scaling = RopeScaling::None;
        Self {
            base,
            position_divisor: 1.0,
            frequency_divisors: None,
            long: None,
            magnitude: 1.0,
            scaling,
            ..self.clone()
        }
    }
}

impl ConfigReader<'_> {
    /// The rotary embedding that the file's keys and tensors describe.
    ///
    /// # Errors
    /// When the scaling is of a kind that is not read here, or the divisors do not fit.
    pub fn rope(&self, style: RopeStyle, key_dim: usize) -> Result<RopeConfig> {
        let plain = RopeConfig {
            style,
            dims: self.optional_count("rope.dimension_count")?.unwrap_or(key_dim),
            base: self.optional_positive("rope.freq_base")?.unwrap_or(10_000.0),
            position_divisor: 1.0,
            frequency_divisors: None,
            long: None,
            magnitude: self.optional_positive("rope.scaling.attn_factor")?.unwrap_or(1.0),
            scaling: RopeScaling::None,
        };
        let factor = self.optional_factor("rope.scaling.factor")?;
        let kind = self.file.metadata().string(&self.full("rope.scaling.type"))?;
        match kind {
            // Files of this scaling may leave the type out; the two lists are what it consists of.
            Some("longrope") => self.long_rope(plain),
            _ if self.has("rope_factors_long.weight") => self.long_rope(plain),
            Some("yarn") => self.yarn(plain),
            Some("linear") => {
                let missing = || self.key("rope.scaling.factor", "the factor of linear scaling", "no such key");
                self.divided(plain, factor.ok_or_else(missing)?)
            }
            // Files from before the typed keys carry the linear factor alone.
            None => {
                let position_divisor = factor.or(self.optional_factor("rope.scale_linear")?).unwrap_or(1.0);
                self.divided(plain, position_divisor)
            }
            Some("none") => self.divided(plain, 1.0),
            // Llama 3's scaling arrives as divisors in a tensor; the type is informative there.
            Some("llama3") if self.has("rope_freqs.weight") => self.divided(plain, 1.0),
            Some(other) => {
                let expected = "none, linear, yarn, longrope, or llama3 with its divisors";
                Err(self
                    .key("rope.scaling.type", expected, format!("{:?}", quoted(other)))
                    .with_remedy("this version does not have that scaling, and without it the text would be wrong"))
            }
        }
    }

    /// Positions that the model was trained for before its context was made longer.
    ///
    /// # Errors
    /// When a key makes no sense.
    pub fn original_context(&self) -> Result<usize> {
        match self.optional_count("rope.scaling.original_context_length")? {
            Some(length) => Ok(length),
            None => self.context_length(),
        }
    }

    /// Positions divided, and the divisors of Llama 3's scaling where the file has them.
    fn divided(&self, plain: RopeConfig, position_divisor: f32) -> Result<RopeConfig> {
        let frequency_divisors = self.divisors("rope_freqs.weight", plain.dims)?;
        let scaling = match position_divisor {
            1.0 if frequency_divisors.is_some() => RopeScaling::Llama3,
            1.0 => RopeScaling::None,
            _ => RopeScaling::Linear,
        };
        Ok(RopeConfig { position_divisor, frequency_divisors, scaling, ..plain })
    }

    fn long_rope(&self, plain: RopeConfig) -> Result<RopeConfig> {
        let list = |name: &str| {
            self.divisors(name, plain.dims)?.ok_or_else(|| {
                Error::tensor(self.file.label(), name, "it, which LongRoPE needs", "no such tensor")
                    .with_remedy("the file is incomplete; fetch or convert it again")
            })
        };
        Ok(RopeConfig {
            frequency_divisors: Some(list("rope_factors_short.weight")?),
            long: Some(LongRope {
                above: self.original_context()?,
                frequency_divisors: list("rope_factors_long.weight")?,
            }),
            scaling: RopeScaling::LongRope,
            ..plain
        })
    }

    /// YaRN (Peng et al. 2023): frequencies that turn often within the original context stay, slow ones are divided by the
    /// factor, those between are blended; sines and cosines grow with the logarithm of the factor.
    fn yarn(&self, plain: RopeConfig) -> Result<RopeConfig> {
        let factor = self.positive("rope.scaling.factor")?;
        let fast = self.optional_positive("rope.scaling.yarn_beta_fast")?.unwrap_or(BETA_FAST);
        let slow = self.optional_positive("rope.scaling.yarn_beta_slow")?.unwrap_or(BETA_SLOW);
        let dims = plain.dims as f64;
        let (original, base) = (self.original_context()? as f64, f64::from(plain.base));
        // The pair, as a fraction, that makes so many turns within the original context.
        let pair_of = |turns: f32| dims * (original / (f64::from(turns) * 2.0 * PI)).ln() / (2.0 * base.ln());
        let low = pair_of(fast).floor().max(0.0);
        let high = pair_of(slow).ceil().min(dims - 1.0);
        let width = if high > low { high - low } else { 0.001 };
        let divisor = |pair: usize| {
            let divided = ((pair as f64 - low) / width).clamp(0.0, 1.0);
            (1.0 / (divided / f64::from(factor) + 1.0 - divided)) as f32
        };
        let growth = |multiplier: f32| if factor <= 1.0 { 1.0 } else { 0.1 * multiplier * factor.ln() + 1.0 };
        let magnitude = match self.optional_positive("rope.scaling.yarn_attn_factor")? {
            Some(magnitude) => magnitude,
            None => {
                let multiplier = self.file.metadata().f32(&self.full("rope.scaling.yarn_log_multiplier"))?;
                growth(1.0) / multiplier.filter(|&multiplier| multiplier > 0.0).map_or(1.0, growth)
            }
        };
        let divisors: Vec<f32> = (0..plain.dims / 2).map(divisor).collect();
        Ok(RopeConfig {
            frequency_divisors: Some(divisors.into()),
            magnitude: magnitude * plain.magnitude,
            scaling: RopeScaling::Yarn,
            ..plain
        })
    }

    /// The divisors of a tensor, one for each pair, where the file has it.
    fn divisors(&self, name: &str, dims: usize) -> Result<Option<Arc<[f32]>>> {
        let Some(info) = self.file.tensor(name) else { return Ok(None) };
        if info.dims != [(dims / 2) as u64] {
            let expected = format!("{} divisors", dims / 2);
            return Err(Error::tensor(self.file.label(), name, expected, format!("{:?}", info.dims)));
        }
        let divisors = read_vector(self.file, info, dims / 2)?;
        if let Some(bad) = divisors.iter().find(|divisor| !(divisor.is_finite() && **divisor > 0.0)) {
            return Err(Error::tensor(self.file.label(), name, "positive divisors", bad.to_string()));
        }
        Ok(Some(divisors.into()))
    }
}
