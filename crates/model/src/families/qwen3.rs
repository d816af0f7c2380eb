//! Qwen 3, dense: norms on the heads of queries and keys, heads of a width of their own.

use super::{ConfigReader, Family};
use crate::config::{ActivationFunction, LayerConfig, Mixer, ModelConfig, RopeStyle};
use crate::error::Result;

pub(super) const FAMILY: Family = Family { name: "qwen3", read };

fn read(file: &ConfigReader<'_>) -> Result<ModelConfig> {
    let attention = file.attention(0)?;
    let rope = file.rope(RopeStyle::SplitHalves, attention.key_dim)?;
    let layer = LayerConfig::new(Mixer::Attention(attention), file.gated(ActivationFunction::Silu)?);
    file.model(vec![rope], vec![layer; file.layers()?])
}
