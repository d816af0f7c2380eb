//! Llama 2 and 3, SmolLM2, TinyLlama, Mistral 7B, Mixtral and everything else that calls itself `llama` in GGUF.
//!
//! The converter reorders Q and K rows so that rotated pairs are adjacent; biases and head widths are
//! whatever the file holds; Llama 3's frequency scaling arrives as `rope_freqs.weight`.

use super::{ConfigReader, Family};
use crate::config::{ActivationFunction, AttentionConfig, ModelConfig, RopeStyle};
use crate::error::Result;
use crate::hugging_face::{Keys, PLAIN, Tensors, To, Translation};

pub(super) const FAMILY: Family = Family { name: "llama", read, folders: FOLDERS };

const FOLDERS: &[Translation] = &[
    Translation { model_types: &["llama", "mistral"], keys, tensors: TENSORS, is_tied: false },
    Translation { model_types: &["mixtral"], keys: mixtral, tensors: TENSORS, is_tied: false },
];

/// What configurations of Mixtral mean that name no base.
const MIXTRAL_ROPE_BASE: f64 = 1_000_000.0;

/// Mixtral calls its experts by names of its own.
const TENSORS: Tensors = Tensors {
    own: &[
        ("block_sparse_moe.gate", To::Name("ffn_gate_inp")),
        ("block_sparse_moe.experts.*.w1", To::Stack("ffn_gate_exps")),
        ("block_sparse_moe.experts.*.w2", To::Stack("ffn_down_exps")),
        ("block_sparse_moe.experts.*.w3", To::Stack("ffn_up_exps")),
    ],
    pairs: true,
    ..PLAIN
};

fn read(file: &ConfigReader<'_>) -> Result<ModelConfig> {
    let attention = AttentionConfig { window: file.window()?, ..file.attention(0)? };
    file.uniform(RopeStyle::AdjacentPairs, attention, file.gated_or_experts(ActivationFunction::Silu)?)
}

fn keys(keys: &mut Keys<'_>) -> Result<()> {
    keys.activation(&["silu", "swish"])?;
    // What these allow is told by the biases that are there.
    keys.config.flag("attention_bias", false)?;
    keys.config.flag("mlp_bias", false)?;
    like_llama(keys)?;
    keys.window(false)?;
    keys.experts()?;
    Ok(())
}

fn mixtral(keys: &mut Keys<'_>) -> Result<()> {
    keys.usual_rope_base = MIXTRAL_ROPE_BASE;
    self::keys(keys)
}

/// What llama and those like it have in common.
pub(super) fn like_llama(keys: &mut Keys<'_>) -> Result<()> {
    keys.sizes()?;
    keys.kv_and_head_width()?;
    keys.rms_epsilon()?;
    keys.llama_like()?;
    keys.rope()
}
