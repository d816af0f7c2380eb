//! Llama 2 and 3, SmolLM2, TinyLlama, Mistral 7B, Mixtral and everything else that calls itself `llama` in GGUF.
//!
//! The converter reorders Q and K rows so that rotated pairs are adjacent; biases and head widths are
//! whatever the file holds; Llama 3's frequency scaling arrives as `rope_freqs.weight`.

use super::{ConfigReader, Family};
use crate::config::{ActivationFunction, AttentionConfig, ModelConfig, RopeStyle};
use crate::error::Result;

pub(super) const FAMILY: Family = Family { name: "llama", read };

fn read(file: &ConfigReader<'_>) -> Result<ModelConfig> {
    let attention = AttentionConfig { window: file.window()?, ..file.attention(0)? };
    file.uniform(RopeStyle::AdjacentPairs, attention, file.gated_or_experts(ActivationFunction::Silu)?)
}
