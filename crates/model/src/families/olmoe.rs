//! OLMoE: norms on all heads of queries and keys together; the chosen experts' weights are left as the softmax over all
//! experts gave them.

use super::{ConfigReader, Family};
use crate::config::{ActivationFunction, ModelConfig, RopeStyle};
use crate::error::Result;
use crate::hugging_face::{Keys, PLAIN, Translation};

pub(super) const FAMILY: Family = Family { name: "olmoe", read, folders: FOLDERS };

const FOLDERS: &[Translation] = &[Translation { model_types: &["olmoe"], keys, tensors: PLAIN, is_tied: false }];

fn read(file: &ConfigReader<'_>) -> Result<ModelConfig> {
    file.uniform(RopeStyle::SplitHalves, file.attention(0)?, file.experts(ActivationFunction::Silu, false)?)
}

fn keys(keys: &mut Keys<'_>) -> Result<()> {
    keys.activation(&["silu"])?;
    keys.config.refuse_flags(&["attention_bias", "norm_topk_prob"])?;
    keys.config.refuse(&["clip_qkv"])?;
    keys.sizes()?;
    keys.kv_and_head_width()?;
    keys.rms_epsilon()?;
    keys.experts()?;
    keys.rope()
}
