//! Granite 3 and 4, mixtures of experts: as the dense ones; weights are a softmax over the chosen experts, which is the one
//! over all experts made to add up to 1.

use super::granite::{factors, only_attention, scaled};
use super::{ConfigReader, Family};
use crate::config::{ActivationFunction, ModelConfig};
use crate::error::Result;
use crate::hugging_face::{Keys, PLAIN, Tensors, To, Translation};

pub(super) const FAMILY: Family = Family { name: "granitemoe", read, folders: FOLDERS };

const FOLDERS: &[Translation] = &[
    Translation { model_types: &["granitemoe", "granitemoeshared"], keys, tensors: TENSORS, is_tied: true },
    Translation { model_types: &["granitemoehybrid with experts"], keys: hybrid, tensors: TENSORS, is_tied: true },
];

const TENSORS: Tensors = Tensors {
    own: &[
        ("block_sparse_moe.router.layer", To::Name("ffn_gate_inp")),
        ("block_sparse_moe.router", To::Name("ffn_gate_inp")),
        ("block_sparse_moe.input_linear", To::Halves("ffn_gate_exps", "ffn_up_exps")),
        ("block_sparse_moe.output_linear", To::Name("ffn_down_exps")),
        ("block_sparse_moe.experts.gate_up_proj", To::Halves("ffn_gate_exps", "ffn_up_exps")),
        ("block_sparse_moe.experts.down_proj", To::Name("ffn_down_exps")),
        ("shared_mlp.input_linear", To::Halves("ffn_gate_shexp", "ffn_up_shexp")),
        ("shared_mlp.output_linear", To::Name("ffn_down_shexp")),
    ],
    pairs: true,
    ..PLAIN
};

fn read(file: &ConfigReader<'_>) -> Result<ModelConfig> {
    scaled(file, file.experts(ActivationFunction::Silu, true)?)
}

fn keys(keys: &mut Keys<'_>) -> Result<()> {
    factors(keys, keys.config.count("intermediate_size")?)?;
    keys.experts()?;
    if let Some(width) = keys.config.optional_count("shared_intermediate_size")? {
        keys.put("expert_shared_feed_forward_length", width)?;
    }
    Ok(())
}

fn hybrid(keys: &mut Keys<'_>) -> Result<()> {
    only_attention(keys)?;
    self::keys(keys)
}
