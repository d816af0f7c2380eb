//! Ministral 3 and Mistral Small 3: as llama, with YaRN and queries that grow with their position.

use super::{ConfigReader, Family};
use crate::config::{ActivationFunction, AttentionConfig, ModelConfig, RopeStyle, Temperature};
use crate::error::Result;

pub(super) const FAMILY: Family = Family { name: "mistral3", read };

fn read(file: &ConfigReader<'_>) -> Result<ModelConfig> {
    let length = file.original_context()?;
    let scale = file.optional_factor("attention.temperature_scale")?;
    let temperature = scale.map(|scale| Temperature { scale, length });
    let attention = AttentionConfig { temperature, window: file.window()?, ..file.attention(0)? };
    file.uniform(RopeStyle::AdjacentPairs, attention, file.gated_or_experts(ActivationFunction::Silu)?)
}
