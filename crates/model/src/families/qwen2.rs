//! Qwen 2 and 2.5: biases on queries, keys and values.

use super::{ConfigReader, Family};
use crate::config::{ActivationFunction, ModelConfig, RopeStyle};
use crate::error::Result;
use crate::hugging_face::{Keys, PLAIN, Translation};

pub(super) const FAMILY: Family = Family { name: "qwen2", read, folders: FOLDERS };

const FOLDERS: &[Translation] = &[Translation { model_types: &["qwen2"], keys, tensors: PLAIN, is_tied: false }];

fn read(file: &ConfigReader<'_>) -> Result<ModelConfig> {
    file.uniform(RopeStyle::SplitHalves, file.attention(0)?, file.gated(ActivationFunction::Silu)?)
}

fn keys(keys: &mut Keys<'_>) -> Result<()> {
    like_qwen(keys)
}

/// What the dense and the sparse ones have in common.
pub(super) fn like_qwen(keys: &mut Keys<'_>) -> Result<()> {
    keys.activation(&["silu"])?;
    keys.no_window()?;
    keys.config.flag("attention_bias", false)?;
    keys.sizes()?;
    keys.kv_and_head_width()?;
    keys.rms_epsilon()?;
    keys.rope()
}
