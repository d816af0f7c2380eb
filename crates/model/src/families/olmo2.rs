//! OLMo 2 and 3: norms stand only behind attention and MLP, and on all heads of queries and keys together. OLMo 3 has a
//! window in three of four layers; those are rotated without the scaling of the others.

use super::{ConfigReader, Family};
use crate::config::{ActivationFunction, AttentionConfig, LayerConfig, Mixer, ModelConfig, RopeStyle};
use crate::error::Result;
use crate::gguf::{Array, Value};
use crate::hugging_face::{Keys, PLAIN, Tensors, To, Translation};

pub(super) const FAMILY: Family = Family { name: "olmo2", read, folders: FOLDERS };

const FOLDERS: &[Translation] = &[
    Translation { model_types: &["olmo2"], keys, tensors: TENSORS, is_tied: false },
    Translation { model_types: &["olmo3"], keys: olmo3, tensors: TENSORS, is_tied: false },
];

/// What configurations of OLMo 3 mean that name no base.
const OLMO3_ROPE_BASE: f64 = 500_000.0;

/// Norms stand behind attention and MLP only.
const TENSORS: Tensors = Tensors {
    own: &[
        ("post_attention_layernorm", To::Name("post_attention_norm")),
        ("post_feedforward_layernorm", To::Name("post_ffw_norm")),
    ],
    ..PLAIN
};

/// Of so many layers the last one sees everything, where the file does not say.
const PATTERN: usize = 4;

fn read(file: &ConfigReader<'_>) -> Result<ModelConfig> {
    let attention = file.attention(0)?;
    let global = file.rope(RopeStyle::SplitHalves, attention.key_dim)?;
    let local = global.unscaled(file.optional_positive("rope.freq_base_swa")?.unwrap_or(global.base));
    let window = file.window()?;
    let mlp = file.gated(ActivationFunction::Silu)?;
    let layer = |windowed: bool| {
        let windowed = windowed && window.is_some();
        let attention = AttentionConfig {
            rope: Some(usize::from(windowed)),
            window: window.filter(|_| windowed),
            ..attention.clone()
        };
        let layer = LayerConfig::new(Mixer::Attention(attention), mlp.clone());
        LayerConfig { norm_before: false, norm_after: true, ..layer }
    };
    let layers = file.windowed_layers(PATTERN)?.into_iter().map(layer).collect();
    file.model(vec![global, local], layers)
}

fn keys(keys: &mut Keys<'_>) -> Result<()> {
    let config = keys.config;
    keys.activation(&["silu"])?;
    config.refuse_flags(&["attention_bias"])?;
    config.refuse(&["clip_qkv"])?;
    keys.sizes()?;
    keys.kv_and_head_width()?;
    keys.rms_epsilon()?;
    if keys.window(false)?.is_some() {
        let layers = config.count("num_hidden_layers")?;
        let windowed = match config.layer_types(layers)? {
            Some(types) => keys.are_windowed(&types)?,
            None => (1..=layers as usize).map(|layer| !layer.is_multiple_of(PATTERN)).collect(),
        };
        keys.put("attention.sliding_window_pattern", Value::Array(Array::Bool(windowed)))?;
    }
    keys.rope()
}

fn olmo3(keys: &mut Keys<'_>) -> Result<()> {
    keys.usual_rope_base = OLMO3_ROPE_BASE;
    self::keys(keys)
}
