//! Qwen 3, mixtures of experts: as the dense ones, with the chosen experts' weights made to add up to 1.

use super::{ConfigReader, Family};
use crate::config::{ActivationFunction, LayerConfig, Mixer, ModelConfig, RopeStyle};
use crate::error::Result;

pub(super) const FAMILY: Family = Family { name: "qwen3moe", read };

fn read(file: &ConfigReader<'_>) -> Result<ModelConfig> {
    let attention = file.attention(0)?;
    let rope = file.rope(RopeStyle::SplitHalves, attention.key_dim)?;
    let layer = LayerConfig::new(Mixer::Attention(attention), file.experts(ActivationFunction::Silu, true)?);
    file.model(vec![rope], vec![layer; file.layers()?])
}
