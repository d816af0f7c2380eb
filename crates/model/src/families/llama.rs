//! Llama 2 and 3, SmolLM2, TinyLlama, Mistral 7B and everything else that calls itself `llama` in GGUF.
//!
//! The converter reorders Q and K rows so that rotated pairs are adjacent; biases and head widths are
//! whatever the file holds; Llama 3's frequency scaling arrives as `rope_freqs.weight`.

use super::{ConfigReader, Family};
use crate::config::{ActivationFunction, AttentionConfig, LayerConfig, MlpConfig, ModelConfig, RopeStyle};
use crate::error::Result;

pub(super) const FAMILY: Family = Family { name: "llama", read };

fn read(file: &ConfigReader<'_>) -> Result<ModelConfig> {
    file.refuse_experts()?;
    let hidden_size = file.count("embedding_length")?;
    let heads = file.count("attention.head_count")?;
    let (key_dim, value_dim) = file.head_dims(hidden_size, heads)?;
    let layer = LayerConfig {
        attention: AttentionConfig {
            heads,
            kv_heads: file.optional_count("attention.head_count_kv")?.unwrap_or(heads),
            key_dim,
            value_dim,
            rope: 0,
            window: file.window()?,
            qk_norm: false,
            qkv_bias: file.has("blk.0.attn_q.bias"),
            output_bias: file.has("blk.0.attn_output.bias"),
            scale: 1.0 / (key_dim as f32).sqrt(),
            softcap: None,
        },
        mlp: MlpConfig {
            intermediate_size: file.count("feed_forward_length")?,
            activation: ActivationFunction::Silu,
            bias: file.has("blk.0.ffn_gate.bias"),
        },
        norm_after: false,
    };
    Ok(ModelConfig {
        family: FAMILY.name,
        name: file.name()?,
        vocab_size: file.vocab_size(hidden_size)?,
        hidden_size,
        context_length: file.context_length()?,
        embedding_scale: 1.0,
        norm_epsilon: file.norm_epsilon()?,
        ropes: vec![file.rope(RopeStyle::AdjacentPairs, key_dim)?],
        layers: vec![layer; file.layers()?],
        tied_head: !file.has("output.weight"),
        logit_softcap: None,
    })
}
