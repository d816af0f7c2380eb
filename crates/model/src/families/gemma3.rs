//! Gemma 3, the text part: five layers with a window to one that sees everything, each kind with its own
//! RoPE base, norms before and after, norms on queries and keys, embeddings scaled by the root of their width.
//!
//! GGUF stores norm weights with their `+ 1` already added, so they are used as they are.

use super::{ConfigReader, Family};
use crate::config::{ActivationFunction, AttentionConfig, LayerConfig, MlpConfig, ModelConfig, RopeConfig, RopeStyle};
use crate::error::Result;

pub(super) const FAMILY: Family = Family { name: "gemma3", read };

/// Of so many layers the last one sees everything; files made before the key existed mean this too.
const PATTERN: usize = 6;
/// The base of the layers with a window, which files do not carry unless it differs.
const LOCAL_BASE: f32 = 10_000.0;
/// Layers and heads of the 27B, the one size whose score scale is not that of its head width.
const LAYERS_27B: usize = 62;

fn read(file: &ConfigReader<'_>) -> Result<ModelConfig> {
    file.refuse_experts()?;
    let hidden_size = file.count("embedding_length")?;
    let heads = file.count("attention.head_count")?;
    let (key_dim, value_dim) = file.head_dims(hidden_size, heads)?;
    let layers = file.layers()?;
    let global = RopeConfig {
        base: file.optional_positive("rope.freq_base")?.unwrap_or(1_000_000.0),
        ..file.rope(RopeStyle::SplitHalves, key_dim)?
    };
    let local = RopeConfig {
        base: file.optional_positive("rope.freq_base_swa")?.unwrap_or(LOCAL_BASE),
        position_divisor: 1.0,
        frequency_divisors: None,
        ..global.clone()
    };
    // Scores are scaled by query_pre_attn_scalar, which GGUF does not carry: it equals the head width
    // but for the 27B, where it is hidden_size / heads.
    let score_width = if layers == LAYERS_27B { hidden_size / heads } else { key_dim };
    let attention = AttentionConfig {
        heads,
        kv_heads: file.optional_count("attention.head_count_kv")?.unwrap_or(heads),
        key_dim,
        value_dim,
        rope: 0,
        window: None,
        qk_norm: true,
        qkv_bias: false,
        output_bias: false,
        scale: 1.0 / (score_width as f32).sqrt(),
        softcap: None,
    };
    let window = file.window()?;
    let pattern = file.optional_count("attention.sliding_window_pattern")?.unwrap_or(PATTERN);
    let intermediate_size = file.count("feed_forward_length")?;
    let layer = |index: usize| {
        let sees_everything = (index + 1).is_multiple_of(pattern) || window.is_none();
        LayerConfig {
            attention: AttentionConfig {
                rope: usize::from(!sees_everything),
                window: if sees_everything { None } else { window },
                ..attention.clone()
            },
            mlp: MlpConfig { intermediate_size, activation: ActivationFunction::GeluTanh, bias: false },
            norm_after: true,
        }
    };
    Ok(ModelConfig {
        family: FAMILY.name,
        name: file.name()?,
        vocab_size: file.vocab_size(hidden_size)?,
        hidden_size,
        context_length: file.context_length()?,
        embedding_scale: (hidden_size as f32).sqrt(),
        norm_epsilon: file.norm_epsilon()?,
        layers: (0..layers).map(layer).collect(),
        ropes: vec![global, local],
        tied_head: !file.has("output.weight"),
        logit_softcap: file.optional_positive("final_logit_softcapping")?,
    })
}
