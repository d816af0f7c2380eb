//! Gemma 3, the text part: five layers with a window to one that sees everything, each kind with its own
//! RoPE base, norms before and after, norms on queries and keys, embeddings scaled by the root of their width.
//!
//! GGUF stores norm weights with their `+ 1` already added, so they are used as they are.

use super::{ConfigReader, Family};
use crate::config::{ActivationFunction, AttentionConfig, LayerConfig, Mixer, ModelConfig, RopeConfig, RopeStyle};
use crate::error::Result;

pub(super) const FAMILY: Family = Family { name: "gemma3", read };

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
