//! SmolLM 3: as llama, but every fourth layer leaves queries and keys unrotated.

use super::llama::like_llama;
use super::{ConfigReader, Family};
use crate::config::{ActivationFunction, AttentionConfig, LayerConfig, Mixer, ModelConfig, RopeStyle};
use crate::error::Result;
use crate::hugging_face::{Keys, PLAIN, Tensors, Translation};

pub(super) const FAMILY: Family = Family { name: "smollm3", read, folders: FOLDERS };

const FOLDERS: &[Translation] =
    &[Translation { model_types: &["smollm3"], keys, tensors: Tensors { pairs: true, ..PLAIN }, is_tied: true }];

/// Of so many layers the last one is not rotated. No key of the file says so.
const PATTERN: usize = 4;
/// What configurations mean that name no base.
const ROPE_BASE: f64 = 2_000_000.0;

fn read(file: &ConfigReader<'_>) -> Result<ModelConfig> {
    let attention = file.attention(0)?;
    let rope = file.rope(RopeStyle::AdjacentPairs, attention.key_dim)?;
    let mlp = file.gated(ActivationFunction::Silu)?;
    let layer = |index: usize| {
        let rotated = !(index + 1).is_multiple_of(PATTERN);
        let attention = AttentionConfig { rope: rotated.then_some(0), ..attention.clone() };
        LayerConfig::new(Mixer::Attention(attention), mlp.clone())
    };
    file.model(vec![rope], (0..file.layers()?).map(layer).collect())
}

fn keys(keys: &mut Keys<'_>) -> Result<()> {
    let config = keys.config;
    keys.activation(&["silu"])?;
    config.flag("attention_bias", false)?;
    config.flag("mlp_bias", false)?;
    keys.no_window()?;
    // Which layers are not rotated has no key in GGUF.
    let interval = config.optional_count("no_rope_layer_interval")?;
    if interval.is_some_and(|interval| interval as usize != PATTERN) {
        return Err(config.unsupported("no_rope_layer_interval"));
    }
    if let Some(rotated) = config.get("no_rope_layers").and_then(|layers| layers.as_array()) {
        let is_usual = |(index, layer): (usize, &serde_json::Value)| {
            let expected = u64::from(!(index + 1).is_multiple_of(PATTERN));
            layer.as_u64() == Some(expected)
        };
        if !rotated.iter().enumerate().all(is_usual) {
            return Err(config.unsupported("no_rope_layers"));
        }
    }
    keys.usual_rope_base = ROPE_BASE;
    like_llama(keys)
}
