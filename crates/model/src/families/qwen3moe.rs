//! Qwen 3, mixtures of experts: as the dense ones, with the chosen experts' weights made to add up to 1.

use super::qwen2::like_qwen;
use super::{ConfigReader, Family};
use crate::config::{ActivationFunction, ModelConfig, RopeStyle};
use crate::error::Result;
use crate::hugging_face::{Keys, PLAIN, Translation};

pub(super) const FAMILY: Family = Family { name: "qwen3moe", read, folders: FOLDERS };

const FOLDERS: &[Translation] = &[Translation { model_types: &["qwen3_moe"], keys, tensors: PLAIN, is_tied: false }];

fn read(file: &ConfigReader<'_>) -> Result<ModelConfig> {
    file.uniform(RopeStyle::SplitHalves, file.attention(0)?, file.experts(ActivationFunction::Silu, true)?)
}

fn keys(keys: &mut Keys<'_>) -> Result<()> {
    let config = keys.config;
    if !config.flag("norm_topk_prob", false)? {
        return Err(config.unsupported("norm_topk_prob"));
    }
    if config.optional_count("decoder_sparse_step")?.is_some_and(|step| step != 1) {
        return Err(config.unsupported("decoder_sparse_step"));
    }
    if config.get("mlp_only_layers").is_some_and(|layers| layers.as_array().is_none_or(|layers| !layers.is_empty())) {
        return Err(config.unsupported("mlp_only_layers"));
    }
    like_qwen(keys)?;
    keys.experts()?;
    keys.put("expert_feed_forward_length", config.count("moe_intermediate_size")?)
}
