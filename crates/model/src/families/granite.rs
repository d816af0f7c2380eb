//! Granite 3 and 4, dense: as llama, with factors on embeddings, scores, residuals and logits.

use super::{ConfigReader, Family};
use crate::config::{ActivationFunction, AttentionConfig, LayerConfig, Mixer, Mlp, ModelConfig, RopeStyle};
use crate::error::Result;
use crate::hugging_face::{Keys, PLAIN, Tensors, To, Translation};

pub(super) const FAMILY: Family = Family { name: "granite", read, folders: FOLDERS };

const FOLDERS: &[Translation] = &[
    Translation { model_types: &["granite"], keys, tensors: Tensors { pairs: true, ..PLAIN }, is_tied: true },
    Translation { model_types: &["granitemoehybrid"], keys: hybrid, tensors: HYBRID, is_tied: true },
];

/// Granite 4 calls the one MLP of its dense models a shared one.
const HYBRID: Tensors = Tensors {
    own: &[
        ("shared_mlp.input_linear", To::Halves("ffn_gate", "ffn_up")),
        ("shared_mlp.output_linear", To::Name("ffn_down")),
    ],
    pairs: true,
    ..PLAIN
};

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

fn keys(keys: &mut Keys<'_>) -> Result<()> {
    factors(keys, keys.config.count("intermediate_size")?)
}

fn hybrid(keys: &mut Keys<'_>) -> Result<()> {
    only_attention(keys)?;
    keys.config.get("intermediate_size");
    factors(keys, keys.config.count("shared_intermediate_size")?)
}

/// Fails where layers of Granite 4 are others than attention; notes whether positions are rotated.
pub(super) fn only_attention(keys: &mut Keys<'_>) -> Result<()> {
    let config = keys.config;
    let layers = config.count("num_hidden_layers")?;
    if let Some(types) = config.layer_types(layers)? {
        keys.are_windowed(&types)?;
    }
    for key in ["mamba_n_heads", "mamba_n_groups", "mamba_d_state", "mamba_d_head", "mamba_d_conv", "mamba_expand"] {
        config.get(key);
    }
    for key in ["mamba_chunk_size", "mamba_conv_bias", "mamba_proj_bias", "normalization_function", "init_method"] {
        config.get(key);
    }
    // Nothing said means the same as "nope".
    let is_rotated = config.optional_text("position_embedding_type")? == Some("rope");
    keys.put("rope.scaling.finetuned", is_rotated)
}

/// What all of the family have, their factors above all: none goes without them.
pub(super) fn factors(keys: &mut Keys<'_>, mlp_width: u32) -> Result<()> {
    let config = keys.config;
    keys.activation(&["silu"])?;
    config.flag("attention_bias", false)?;
    config.flag("mlp_bias", false)?;
    keys.sizes_with(mlp_width)?;
    keys.kv_and_head_width()?;
    keys.rms_epsilon()?;
    keys.llama_like()?;
    keys.rope()?;
    for (key, name) in [
        ("attention.scale", "attention_multiplier"),
        ("embedding_scale", "embedding_multiplier"),
        ("residual_scale", "residual_multiplier"),
        ("logit_scale", "logits_scaling"),
    ] {
        keys.put(key, config.number(name)? as f32)?;
    }
    Ok(())
}
