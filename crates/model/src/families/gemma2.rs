//! Gemma 2: every other layer, the first included, has a window; scores and logits are capped; norms before and after;
//! embeddings scaled by the root of their width.
//!
//! GGUF stores norm weights with their `+ 1` already added, so they are used as they are.

use super::gemma::sizes;
use super::{ConfigReader, Family};
use crate::config::{ActivationFunction, AttentionConfig, LayerConfig, Mixer, ModelConfig, RopeStyle};
use crate::error::Result;
use crate::hugging_face::{Keys, PLAIN, Tensors, To, Translation};

pub(super) const FAMILY: Family = Family { name: "gemma2", read, folders: FOLDERS };

const FOLDERS: &[Translation] = &[Translation { model_types: &["gemma2"], keys, tensors: TENSORS, is_tied: true }];

/// With norms behind attention and MLP, the name of the one behind attention is that of the one before the MLP elsewhere.
pub(super) const TENSORS: Tensors = Tensors {
    own: &[
        ("post_attention_layernorm", To::Name("post_attention_norm")),
        ("pre_feedforward_layernorm", To::Name("ffn_norm")),
        ("post_feedforward_layernorm", To::Name("post_ffw_norm")),
    ],
    norms_plus_one: true,
    ..PLAIN
};

/// Of so many layers the last one sees everything, where the file does not say.
const PATTERN: usize = 2;
/// The window, where the file does not say.
const WINDOW: usize = 4096;
/// Layers of the 27B, the one size whose score scale is not that of its head width.
const LAYERS_27B: usize = 46;

fn read(file: &ConfigReader<'_>) -> Result<ModelConfig> {
    let (layers, hidden_size) = (file.layers()?, file.hidden_size()?);
    let attention = file.attention(0)?;
    let rope = file.rope(RopeStyle::SplitHalves, attention.key_dim)?;
    // Scores are scaled by query_pre_attn_scalar, which GGUF does not carry: it equals the head width
    // but for the 27B, where it is hidden_size / heads.
    let score_width = if layers == LAYERS_27B { hidden_size / attention.heads } else { attention.key_dim };
    let attention = AttentionConfig {
        scale: 1.0 / (score_width as f32).sqrt(),
        softcap: file.optional_factor("attn_logit_softcapping")?,
        ..attention
    };
    let window = file.window()?.unwrap_or(WINDOW);
    let mlp = file.gated(ActivationFunction::GeluTanh)?;
    let layer = |windowed: bool| {
        let attention = AttentionConfig { window: windowed.then_some(window), ..attention.clone() };
        LayerConfig { norm_after: true, ..LayerConfig::new(Mixer::Attention(attention), mlp.clone()) }
    };
    let layers = file.windowed_layers(PATTERN)?.into_iter().map(layer).collect();
    Ok(ModelConfig { embedding_scale: (hidden_size as f32).sqrt(), ..file.model(vec![rope], layers)? })
}

fn keys(keys: &mut Keys<'_>) -> Result<()> {
    let config = keys.config;
    keys.activation(&["gelu_pytorch_tanh"])?;
    config.flag("attention_bias", false)?;
    sizes(keys)?;
    keys.kv_and_head_width()?;
    keys.rms_epsilon()?;
    keys.score_width(keys.head_width()?, LAYERS_27B as u32)?;
    for (key, name) in
        [("attn_logit_softcapping", "attn_logit_softcapping"), ("final_logit_softcapping", "final_logit_softcapping")]
    {
        if let Some(cap) = config.optional_number(name)? {
            keys.put(key, cap as f32)?;
        }
    }
    keys.window(false)?;
    keys.windowed_layers(PATTERN)?;
    keys.rope()
}
