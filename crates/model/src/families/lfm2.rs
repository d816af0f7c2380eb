//! LFM2: short convolutions in most layers, attention with norms on queries and keys in the others, which are those that have
//! key and value heads.

use super::{ConfigReader, Family};
use crate::config::{ActivationFunction, AttentionConfig, LayerConfig, Mixer, ModelConfig, RopeStyle, ShortConvConfig};
use crate::error::Result;

pub(super) const FAMILY: Family = Family { name: "lfm2", read };

fn read(file: &ConfigReader<'_>) -> Result<ModelConfig> {
    let heads = file.count("attention.head_count")?;
    let taps = file.count("shortconv.l_cache")?;
    let window = file.window()?;
    let mlp = file.gated(ActivationFunction::Silu)?;
    let (key_dim, _) = file.head_dims(file.hidden_size()?, heads)?;
    let rope = file.rope(RopeStyle::SplitHalves, key_dim)?;
    let layer = |(index, kv_heads): (usize, usize)| {
        let mixer = match kv_heads {
            0 => Mixer::ShortConv(ShortConvConfig { taps }),
            _ => Mixer::Attention(AttentionConfig { window, ..file.attention_of(index, heads, kv_heads)? }),
        };
        Ok(LayerConfig::new(mixer, mlp.clone()))
    };
    let kv_heads = file.counts_of_layers("attention.head_count_kv")?;
    let layers = kv_heads.into_iter().enumerate().map(layer).collect::<Result<_>>()?;
    Ok(ModelConfig { final_norm: "token_embd_norm", ..file.model(vec![rope], layers)? })
}
