//! StableLM 3B and 2: layer norms with biases, a part of each head rotated. StableLM 2 12B has no norm before the MLP, which
//! reads what attention reads, and norms on the heads of queries and keys with a weight for each head.

use super::{ConfigReader, Family};
use crate::config::{ActivationFunction, LayerConfig, Mixer, ModelConfig, NormKind, RopeStyle};
use crate::error::Result;

pub(super) const FAMILY: Family = Family { name: "stablelm", read };

fn read(file: &ConfigReader<'_>) -> Result<ModelConfig> {
    let attention = file.attention(0)?;
    let rope = file.rope(RopeStyle::SplitHalves, attention.key_dim)?;
    let layer = LayerConfig {
        parallel: !file.has("blk.0.ffn_norm.weight"),
        ..LayerConfig::new(Mixer::Attention(attention), file.gated(ActivationFunction::Silu)?)
    };
    file.model_with(file.norm(NormKind::Layer)?, vec![rope], vec![layer; file.layers()?])
}
