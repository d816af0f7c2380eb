//! SmolLM 3: as llama, but every fourth layer leaves queries and keys unrotated.

use super::{ConfigReader, Family};
use crate::config::{ActivationFunction, AttentionConfig, LayerConfig, Mixer, ModelConfig, RopeStyle};
use crate::error::Result;

pub(super) const FAMILY: Family = Family { name: "smollm3", read };

/// Of so many layers the last one is not rotated. No key of the file says so.
const PATTERN: usize = 4;

fn read(file: &ConfigReader<'_>) -> Result<ModelConfig> {
    let attention = file.attention(0)?;
    let rope = file.rope(RopeStyle::AdjacentPairs, attention.key_dim)?;
    let mlp = file.gated(ActivationFunction::Silu)?;
    let layer = |index: usize| {
        let rotated = !(index + 1).is_multiple_of(PATTERN);
        let attention = AttentionConfig { rope: rotated.then_some(0), ..attention.clone() };
        LayerConfig::new(Mixer::Attention(attention), mlp.clone())
    };
    file.model(vec![rope], (0..file.layers()?).map(layer).collect())
}
