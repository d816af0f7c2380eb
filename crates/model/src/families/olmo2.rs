//! OLMo 2 and 3: norms stand only behind attention and MLP, and on all heads of queries and keys together. OLMo 3 has a
//! window in three of four layers; those are rotated without the scaling of the others.

use super::{ConfigReader, Family};
use crate::config::{ActivationFunction, AttentionConfig, LayerConfig, Mixer, ModelConfig, RopeStyle};
use crate::error::Result;

pub(super) const FAMILY: Family = Family { name: "olmo2", read };

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
