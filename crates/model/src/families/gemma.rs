//! Gemma 1, with CodeGemma: as llama, with the tanh form of GELU and embeddings scaled by the root of their width.
//!
//! GGUF stores norm weights with their `+ 1` already added, so they are used as they are.

use super::{ConfigReader, Family};
use crate::config::{ActivationFunction, ModelConfig, RopeStyle};
use crate::error::Result;
use crate::hugging_face::{Keys, PLAIN, Tensors, Translation};

pub(super) const FAMILY: Family = Family { name: "gemma", read, folders: FOLDERS };

const FOLDERS: &[Translation] = &[Translation { model_types: &["gemma"], keys, tensors: TENSORS, is_tied: true }];

/// Checkpoints of Hugging Face have the weights of norms without the 1, GGUF with it.
pub(super) const TENSORS: Tensors = Tensors { norms_plus_one: true, ..PLAIN };

fn read(file: &ConfigReader<'_>) -> Result<ModelConfig> {
    let mlp = file.gated(ActivationFunction::GeluTanh)?;
    let model = file.uniform(RopeStyle::SplitHalves, file.attention(0)?, mlp)?;
    Ok(ModelConfig { embedding_scale: (model.hidden_size as f32).sqrt(), ..model })
}

fn keys(keys: &mut Keys<'_>) -> Result<()> {
    // Configurations of the first ones say "gelu" and mean the one with a tangent.
    keys.activation(&["gelu", "gelu_pytorch_tanh"])?;
    keys.config.flag("attention_bias", false)?;
    sizes(keys)?;
    keys.kv_and_head_width()?;
    keys.rms_epsilon()?;
    keys.rope()
}

/// Sizes, and what no model of the family does.
pub(super) fn sizes(keys: &mut Keys<'_>) -> Result<()> {
    keys.config.refuse_flags(&["use_bidirectional_attention"])?;
    keys.sizes()
}
