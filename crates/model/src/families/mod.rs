//! How the files of each family fill a [`ModelConfig`].
//!
//! A family made of known parts is one file here, its `mod` and its place in [`FAMILIES`]; what its files say is
//! read through [`ConfigReader`], so that every family gets the same checks and the same error lines.

mod gemma;
mod gemma2;
mod gemma3;
mod granite;
mod granitemoe;
mod lfm2;
mod llama;
mod mistral3;
mod olmo2;
mod olmoe;
mod parts;
mod phi3;
mod qwen2;
mod qwen3;
mod qwen3moe;
mod reader;
mod rope;
mod smollm3;
mod stablelm;

use crate::checkpoint::Checkpoint;
use crate::config::{Mixer, Mlp, ModelConfig};
use crate::error::{Error, Result, quoted};
use crate::hugging_face::Translation;

pub use reader::ConfigReader;

/// One family of models.
pub struct Family {
    /// `general.architecture` of its GGUF files.
    pub name: &'static str,
    /// Fills the configuration from a file's keys and tensors.
    pub read: fn(&ConfigReader<'_>) -> Result<ModelConfig>,
    /// How checkpoints of Hugging Face are translated to what `read` reads.
    pub folders: &'static [Translation],
}

/// Every family that is read here.
pub static FAMILIES: &[Family] = &[
    gemma::FAMILY,
    gemma2::FAMILY,
    gemma3::FAMILY,
    granite::FAMILY,
    granitemoe::FAMILY,
    lfm2::FAMILY,
    llama::FAMILY,
    mistral3::FAMILY,
    olmo2::FAMILY,
    olmoe::FAMILY,
    phi3::FAMILY,
    qwen2::FAMILY,
    qwen3::FAMILY,
    qwen3moe::FAMILY,
    smollm3::FAMILY,
    stablelm::FAMILY,
];

/// Far above any model; choosing experts takes their number times the number of those that are used.
const MOST_EXPERTS: usize = 1 << 16;
const MOST_USED_EXPERTS: usize = 256;

/// Reads the configuration of `file`.
///
/// # Errors
/// When the family is unknown, a key is missing, has another type or contradicts another.
pub fn read_config(file: &Checkpoint) -> Result<ModelConfig> {
    const KEY: &str = "general.architecture";
    let name = file.metadata().string(KEY)?.ok_or_else(|| {
        Error::key(file.label(), KEY, "the family of the model", "no such key")
            .with_remedy("the file is incomplete; fetch or convert it again")
    })?;
    let family = FAMILIES.iter().find(|family| family.name == name).ok_or_else(|| {
        let known: Vec<_> = FAMILIES.iter().map(|family| family.name).collect();
        Error::key(file.label(), KEY, format!("one of {}", known.join(", ")), format!("{:?}", quoted(name)))
            .with_remedy("this version does not run that family")
    })?;
    let config = (family.read)(&ConfigReader { file, prefix: family.name })?;
    check(file, &config)?;
    Ok(config)
}

/// What every model must satisfy, whatever its family.
fn check(file: &Checkpoint, config: &ModelConfig) -> Result<()> {
    let require = |holds: bool, key: &str, expected: &str, found: String| {
        let key = format!("{}.{key}", config.family);
        if holds { Ok(()) } else { Err(Error::key(file.label(), &key, expected, found)) }
    };
    for layer in &config.layers {
        match &layer.mixer {
            Mixer::Attention(attention) => {
                let (heads, kv_heads) = (attention.heads, attention.kv_heads);
                let found = format!("{kv_heads} for {heads} heads");
                let divides = kv_heads > 0 && heads % kv_heads == 0;
                require(divides, "attention.head_count_kv", "a divisor of the heads", found)?;
                if let Some(rope) = attention.rope {
                    let (dims, key_dim) = (config.ropes[rope].dims, attention.key_dim);
                    let rotates = dims.is_multiple_of(2) && dims <= key_dim;
                    let found = format!("{dims} of {key_dim}");
                    require(rotates, "rope.dimension_count", "an even number within a head", found)?;
                }
            }
            Mixer::ShortConv(conv) => {
                let found = conv.taps.to_string();
                require(conv.taps >= 2, "shortconv.l_cache", "2 positions or more", found)?;
            }
        }
        if let Mlp::Experts(experts) = &layer.mlp {
            let found = format!("{} of {}", experts.used, experts.experts);
            require(experts.experts <= MOST_EXPERTS, "expert_count", "at most 65536", found.clone())?;
            let limit = experts.experts.min(MOST_USED_EXPERTS);
            require(experts.used <= limit, "expert_used_count", "at most all experts, and 256", found)?;
        }
    }
    Ok(())
}
