//! Gemma 3, the text part: five layers with a window to one that sees everything, each kind with its own
//! RoPE base, norms before and after, norms on queries and keys, embeddings scaled by the root of their width.
//!
//! GGUF stores norm weights with their `+ 1` already added, so they are used as they are.

use super::gemma2::TENSORS;
use super::{ConfigReader, Family};
use crate::config::{ActivationFunction, AttentionConfig, LayerConfig, Mixer, ModelConfig, RopeConfig, RopeStyle};
use crate::error::Result;
use crate::hugging_face::{Keys, Translation};

pub(super) const FAMILY: Family = Family { name: "gemma3", read, folders: FOLDERS };

const FOLDERS: &[Translation] =
    &[Translation { model_types: &["gemma3", "gemma3_text"], keys, tensors: TENSORS, is_tied: true }];

/// What configurations leave out where it is as in the 4B.
const HEADS: u32 = 8;
const KV_HEADS: u32 = 4;
const HEAD_WIDTH: u32 = 256;
const EPSILON: f64 = 1e-6;
const CONTEXT: u32 = 131_072;

/// Of so many layers the last one sees everything; files made before the key existed mean this too.
const PATTERN: usize = 6;
/// The base of the layers that see everything, where the file does not say.
const GLOBAL_BASE: f32 = 1_000_000.0;
/// The base of the layers with a window, which files do not carry unless it differs.
const LOCAL_BASE: f32 = 10_000.0;
/// Layers of the 27B, the one size whose score scale is not that of its head width.
const LAYERS_27B: usize = 62;

fn read(file: &ConfigReader<'_>) -> Result<ModelConfig> {
    let (layers, hidden_size) = (file.layers()?, file.hidden_size()?);
    let attention = file.attention(0)?;
    let global = RopeConfig {
        base: file.optional_positive("rope.freq_base")?.unwrap_or(GLOBAL_BASE),
        ..file.rope(RopeStyle::SplitHalves, attention.key_dim)?
    };
    let local = global.unscaled(file.optional_positive("rope.freq_base_swa")?.unwrap_or(LOCAL_BASE));
    // Scores are scaled by query_pre_attn_scalar, which GGUF does not carry: it equals the head width
    // but for the 27B, where it is hidden_size / heads.
    let score_width = if layers == LAYERS_27B { hidden_size / attention.heads } else { attention.key_dim };
    let attention = AttentionConfig { scale: 1.0 / (score_width as f32).sqrt(), ..attention };
    let window = file.window()?;
    let mlp = file.gated(ActivationFunction::GeluTanh)?;
    let layer = |windowed: bool| {
        let windowed = windowed && window.is_some();
        let attention = AttentionConfig {
            rope: Some(usize::from(windowed)),
            window: window.filter(|_| windowed),
            ..attention.clone()
        };
        LayerConfig { norm_after: true, ..LayerConfig::new(Mixer::Attention(attention), mlp.clone()) }
    };
    let layers = file.windowed_layers(PATTERN)?.into_iter().map(layer).collect();
    Ok(ModelConfig { embedding_scale: (hidden_size as f32).sqrt(), ..file.model(vec![global, local], layers)? })
}

fn keys(keys: &mut Keys<'_>) -> Result<()> {
    let config = keys.config;
    keys.activation(&["gelu_pytorch_tanh"])?;
    config.flag("attention_bias", false)?;
    config.refuse(&["attn_logit_softcapping"])?;
    config.refuse_flags(&["use_bidirectional_attention"])?;
    keys.put("block_count", config.count("num_hidden_layers")?)?;
    keys.put("context_length", config.optional_positions("max_position_embeddings")?.unwrap_or(CONTEXT))?;
    keys.put("embedding_length", config.count("hidden_size")?)?;
    keys.put("feed_forward_length", config.count("intermediate_size")?)?;
    keys.put("attention.head_count", config.optional_count("num_attention_heads")?.unwrap_or(HEADS))?;
    keys.put("attention.head_count_kv", config.optional_count("num_key_value_heads")?.unwrap_or(KV_HEADS))?;
    let width = config.optional_count("head_dim")?.unwrap_or(HEAD_WIDTH);
    keys.put_head_width(width)?;
    keys.put("attention.layer_norm_rms_epsilon", config.optional_number("rms_norm_eps")?.unwrap_or(EPSILON) as f32)?;
    keys.score_width(width, LAYERS_27B as u32)?;
    if let Some(cap) = config.optional_number("final_logit_softcapping")? {
        keys.put("final_logit_softcapping", cap as f32)?;
    }
    keys.window(false)?;
    keys.windowed_layers(PATTERN)?;
    keys.usual_rope_base = f64::from(GLOBAL_BASE);
    keys.rope()
}
