//! Gemma 1, with CodeGemma: as llama, with the tanh form of GELU and embeddings scaled by the root of their width.
//!
//! GGUF stores norm weights with their `+ 1` already added, so they are used as they are.

use super::{ConfigReader, Family};
use crate::config::{ActivationFunction, ModelConfig, RopeStyle};
use crate::error::Result;

pub(super) const FAMILY: Family = Family { name: "gemma", read };

fn read(file: &ConfigReader<'_>) -> Result<ModelConfig> {
    let mlp = file.gated(ActivationFunction::GeluTanh)?;
    let model = file.uniform(RopeStyle::SplitHalves, file.attention(0)?, mlp)?;
    Ok(ModelConfig { embedding_scale: (model.hidden_size as f32).sqrt(), ..model })
}
