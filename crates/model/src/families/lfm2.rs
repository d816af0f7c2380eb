//! LFM2: short convolutions in most layers, attention with norms on queries and keys in the others, which are those that have
//! key and value heads.

use super::{ConfigReader, Family};
use crate::config::{ActivationFunction, AttentionConfig, LayerConfig, Mixer, ModelConfig, RopeStyle, ShortConvConfig};
use crate::error::Result;
use crate::gguf::{Array, Value};
use crate::hugging_face::{Keys, PLAIN, Tensors, To, Translation};

pub(super) const FAMILY: Family = Family { name: "lfm2", read, folders: FOLDERS };

const FOLDERS: &[Translation] = &[Translation { model_types: &["lfm2"], keys, tensors: TENSORS, is_tied: true }];

/// What configurations mean that name no base.
const ROPE_BASE: f64 = 1_000_000.0;

const TENSORS: Tensors = Tensors {
    own: &[
        ("operator_norm", To::Name("attn_norm")),
        ("ffn_norm", To::Name("ffn_norm")),
        ("self_attn.q_layernorm", To::Name("attn_q_norm")),
        ("self_attn.k_layernorm", To::Name("attn_k_norm")),
        ("self_attn.out_proj", To::Name("attn_output")),
        ("feed_forward.w1", To::Name("ffn_gate")),
        ("feed_forward.w2", To::Name("ffn_down")),
        ("feed_forward.w3", To::Name("ffn_up")),
        ("conv.conv", To::Name("shortconv.conv")),
        ("conv.in_proj", To::Name("shortconv.in_proj")),
        ("conv.out_proj", To::Name("shortconv.out_proj")),
        ("embedding_norm", To::Name("token_embd_norm")),
    ],
    ..PLAIN
};

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

fn keys(keys: &mut Keys<'_>) -> Result<()> {
    let config = keys.config;
    config.refuse_flags(&["conv_bias"])?;
    keys.sizes_with(mlp_width(keys)?)?;
    let layers = config.count("num_hidden_layers")?;
    let kv_heads = keys.kv_heads()?;
    let has_attention: Vec<bool> = match config.layer_types(layers)? {
        Some(types) => types.iter().map(|&kind| kind != "conv").collect(),
        None => {
            let key = "full_attn_idxs";
            let list = config.get(key).and_then(|list| list.as_array());
            let list = list.ok_or_else(|| config.wrong(key, "the layers that have attention", "nothing"))?;
            (0..u64::from(layers)).map(|layer| list.iter().any(|index| index.as_u64() == Some(layer))).collect()
        }
    };
    let kv_heads = has_attention.into_iter().map(|has| if has { kv_heads as i32 } else { 0 }).collect();
    keys.put("attention.head_count_kv", Value::Array(Array::I32(kv_heads)))?;
    keys.put("vocab_size", config.count("vocab_size")?)?;
    keys.put("shortconv.l_cache", config.count("conv_L_cache")?)?;
    keys.put("attention.layer_norm_rms_epsilon", config.number("norm_eps")? as f32)?;
    keys.usual_rope_base = ROPE_BASE;
    keys.rope()
}

/// The width of the MLP, which configurations may give as one that it is computed from.
fn mlp_width(keys: &Keys<'_>) -> Result<u32> {
    let config = keys.config;
    let width = config.count_of(&["block_ff_dim", "intermediate_size"])?;
    for key in ["intermediate_size", "block_dim", "block_mlp_init_scale", "block_norm_eps", "block_out_init_scale"] {
        config.get(key);
    }
    for key in ["block_use_swiglu", "block_use_xavier_init", "conv_dim", "conv_dim_out", "conv_use_xavier_init"] {
        config.get(key);
    }
    let is_adjusted = config.flag("block_auto_adjust_ff_dim", true)?;
    let multiple = config.optional_count("block_multiple_of")?.unwrap_or(256);
    let factor = config.optional_number("block_ffn_dim_multiplier")?.unwrap_or(1.0);
    if !is_adjusted {
        return Ok(width);
    }
    let scaled = (factor * f64::from(2 * width / 3)) as u32;
    Ok(scaled.div_ceil(multiple) * multiple)
}
