//! StableLM 3B and 2: layer norms with biases, a part of each head rotated. StableLM 2 12B has no norm before the MLP, which
//! reads what attention reads, and norms on the heads of queries and keys with a weight for each head.

use super::{ConfigReader, Family};
use crate::config::{ActivationFunction, LayerConfig, Mixer, ModelConfig, NormKind, RopeStyle};
use crate::error::Result;
use crate::hugging_face::{Keys, PLAIN, Tensors, To, Translation};

pub(super) const FAMILY: Family = Family { name: "stablelm", read, folders: FOLDERS };

const FOLDERS: &[Translation] =
    &[Translation { model_types: &["stablelm", "stablelm_epoch"], keys, tensors: TENSORS, is_tied: false }];

/// The part of a head that is rotated where the configuration does not say.
const ROTATED_PART: f64 = 0.25;

/// The norms of the heads are a tensor each.
const TENSORS: Tensors = Tensors {
    own: &[
        ("self_attn.q_layernorm.norms.*", To::Stack("attn_q_norm")),
        ("self_attn.k_layernorm.norms.*", To::Stack("attn_k_norm")),
    ],
    ..PLAIN
};

fn read(file: &ConfigReader<'_>) -> Result<ModelConfig> {
    let attention = file.attention(0)?;
    let rope = file.rope(RopeStyle::SplitHalves, attention.key_dim)?;
    let layer = LayerConfig {
        parallel: !file.has("blk.0.ffn_norm.weight"),
        ..LayerConfig::new(Mixer::Attention(attention), file.gated(ActivationFunction::Silu)?)
    };
    file.model_with(file.norm(NormKind::Layer)?, vec![rope], vec![layer; file.layers()?])
}

fn keys(keys: &mut Keys<'_>) -> Result<()> {
    let config = keys.config;
    keys.activation(&["silu"])?;
    config.flag("use_qkv_bias", false)?;
    config.flag("qk_layernorm", false)?;
    config.get("rope_pct");
    keys.sizes()?;
    keys.kv_and_head_width()?;
    let dims = keys.rotated_part(ROTATED_PART)? * f64::from(keys.head_width()?);
    keys.put("rope.dimension_count", dims as u32)?;
    keys.put("use_parallel_residual", config.flag("use_parallel_residual", true)?)?;
    let epsilon = config.optional_number("layer_norm_eps")?;
    let epsilon = epsilon.map_or_else(|| config.number("norm_eps"), Ok)?;
    keys.put("attention.layer_norm_epsilon", epsilon as f32)?;
    keys.rope()
}
