//! Granite 3 and 4, dense: as llama, with factors on embeddings, scores, residuals and logits.

use super::{ConfigReader, Family};
use crate::config::{ActivationFunction, AttentionConfig, LayerConfig, Mixer, Mlp, ModelConfig, RopeStyle};
use crate::error::Result;

pub(super) const FAMILY: Family = Family { name: "granite", read };

fn read(file: &ConfigReader<'_>) -> Result<ModelConfig> {
    scaled(file, file.gated(ActivationFunction::Silu)?)
}

/// A model with Granite's factors. The one on logits must be in the file, as no model of the family goes without.
pub(super) fn scaled(file: &ConfigReader<'_>, mlp: Mlp) -> Result<ModelConfig> {
    let attention = file.attention(0)?;
    let scale = file.optional_factor("attention.scale")?.unwrap_or(attention.scale);
    // Granite 4 says by this key that positions are not rotated at all.
    let is_rotated = file.flag("rope.scaling.finetuned")?.unwrap_or(true);
    let rope = file.rope(RopeStyle::AdjacentPairs, attention.key_dim)?;
    let attention = AttentionConfig { scale, rope: is_rotated.then_some(0), ..attention };
    let layer = LayerConfig {
        residual_scale: file.optional_factor("residual_scale")?.unwrap_or(1.0),
        ..LayerConfig::new(Mixer::Attention(attention), mlp)
    };
    Ok(ModelConfig {
        embedding_scale: file.optional_factor("embedding_scale")?.unwrap_or(1.0),
        logit_scale: 1.0 / file.positive("logit_scale")?,
        ..file.model(vec![rope], vec![layer; file.layers()?])?
    })
}
