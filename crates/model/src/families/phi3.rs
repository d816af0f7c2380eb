//! Phi 3, 3.5 and Phi 4 mini: queries, keys and values in one tensor, gate and up in another; long contexts by LongRoPE;
//! Phi 4 mini rotates only a part of each head.

use super::{ConfigReader, Family};
use crate::config::{ActivationFunction, AttentionConfig, ModelConfig, RopeStyle};
use crate::error::Result;

pub(super) const FAMILY: Family = Family { name: "phi3", read };

fn read(file: &ConfigReader<'_>) -> Result<ModelConfig> {
    let attention = AttentionConfig { window: file.window()?, ..file.attention(0)? };
    file.uniform(RopeStyle::SplitHalves, attention, file.gated(ActivationFunction::Silu)?)
}
