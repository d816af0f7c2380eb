//! Qwen 2 and 2.5: biases on queries, keys and values.

use super::{ConfigReader, Family};
use crate::config::{ActivationFunction, LayerConfig, Mixer, ModelConfig, RopeStyle};
use crate::error::Result;

pub(super) const FAMILY: Family = Family { name: "qwen2", read };

fn read(file: &ConfigReader<'_>) -> Result<ModelConfig> {
    let attention = file.attention(0)?;
    let rope = file.rope(RopeStyle::SplitHalves, attention.key_dim)?;
    let layer = LayerConfig::new(Mixer::Attention(attention), file.gated(ActivationFunction::Silu)?);
    file.model(vec![rope], vec![layer; file.layers()?])
}
