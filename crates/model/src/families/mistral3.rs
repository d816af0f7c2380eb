//! Ministral 3 and Mistral Small 3: as llama, with YaRN and queries that grow with their position.

use super::{ConfigReader, Family};
use crate::config::{ActivationFunction, AttentionConfig, LayerConfig, Mixer, ModelConfig, RopeStyle, Temperature};
use crate::error::Result;

pub(super) const FAMILY: Family = Family { name: "mistral3", read };

fn read(file: &ConfigReader<'_>) -> Result<ModelConfig> {
    let length = file.original_context()?;
    let scale = file.optional_positive("attention.temperature_scale")?;
    let temperature = scale.map(|scale| Temperature { scale, length });
    let attention = AttentionConfig { temperature, window: file.window()?, ..file.attention(0)? };
    let rope = file.rope(RopeStyle::AdjacentPairs, attention.key_dim)?;
    let mlp = file.gated_or_experts(ActivationFunction::Silu)?;
    let layer = LayerConfig::new(Mixer::Attention(attention), mlp);
    file.model(vec![rope], vec![layer; file.layers()?])
}
