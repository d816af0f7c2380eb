//! Phi 3, 3.5 and Phi 4 mini: queries, keys and values in one tensor, gate and up in another; long contexts by LongRoPE;
//! Phi 4 mini rotates only a part of each head.

use super::{ConfigReader, Family};
use crate::config::{ActivationFunction, AttentionConfig, ModelConfig, RopeStyle};
use crate::error::Result;
use crate::hugging_face::{Keys, PLAIN, Tensors, To, Translation};

pub(super) const FAMILY: Family = Family { name: "phi3", read, folders: FOLDERS };

const FOLDERS: &[Translation] = &[Translation { model_types: &["phi3"], keys, tensors: TENSORS, is_tied: false }];

/// The fused matrices stay as they are.
const TENSORS: Tensors =
    Tensors { own: &[("self_attn.qkv_proj", To::Name("attn_qkv")), ("mlp.gate_up_proj", To::Name("ffn_up"))], ..PLAIN };

fn read(file: &ConfigReader<'_>) -> Result<ModelConfig> {
    let attention = AttentionConfig { window: file.window()?, ..file.attention(0)? };
    file.uniform(RopeStyle::SplitHalves, attention, file.gated(ActivationFunction::Silu)?)
}

fn keys(keys: &mut Keys<'_>) -> Result<()> {
    keys.activation(&["silu"])?;
    keys.config.refuse_flags(&["attention_bias", "mlp_bias", "lm_head_bias"])?;
    keys.sizes()?;
    keys.kv_and_head_width()?;
    keys.rms_epsilon()?;
    let width = keys.head_width()?;
    let dims = (keys.rotated_part(1.0)? * f64::from(width)) as u32;
    keys.put("rope.dimension_count", dims)?;
    if let Some(base) = keys.rope_base()? {
        keys.put("rope.freq_base", base as f32)?;
    }
    keys.window(true)?;
    keys.long_rope(dims)
}
