//! Ministral 3 and Mistral Small 3: as llama, with YaRN and queries that grow with their position.

use super::llama::like_llama;
use super::{ConfigReader, Family};
use crate::config::{ActivationFunction, AttentionConfig, ModelConfig, RopeStyle, Temperature};
use crate::error::Result;
use crate::hugging_face::{Keys, PLAIN, Tensors, Translation};

pub(super) const FAMILY: Family = Family { name: "mistral3", read, folders: FOLDERS };

const FOLDERS: &[Translation] = &[Translation {
    model_types: &["mistral3", "ministral3"],
    keys,
    tensors: Tensors { pairs: true, ..PLAIN },
    is_tied: false,
}];

fn read(file: &ConfigReader<'_>) -> Result<ModelConfig> {
    let length = file.original_context()?;
    let scale = file.optional_factor("attention.temperature_scale")?;
    let temperature = scale.map(|scale| Temperature { scale, length });
    let attention = AttentionConfig { temperature, window: file.window()?, ..file.attention(0)? };
    file.uniform(RopeStyle::AdjacentPairs, attention, file.gated_or_experts(ActivationFunction::Silu)?)
}

fn keys(keys: &mut Keys<'_>) -> Result<()> {
    keys.activation(&["silu"])?;
    if keys.rope_base()?.is_none() {
        // Its kinds mean different bases.
        return Err(keys.config.wrong("rope_theta", "the base of the rotary embedding", "nothing"));
    }
    like_llama(keys)?;
    keys.window(false)?;
    // Mistral Small 3 has plain frequencies, and no queries that grow.
    let rope = keys.config.get("rope_parameters").or_else(|| keys.config.get("rope_scaling"));
    if rope.is_some_and(|rope| rope.get("llama_4_scaling_beta").is_some()) {
        keys.yarn_of_ministral()?;
    }
    Ok(())
}
