//! What a file is and what it needs, as data, without loading its weights.

use duan_backend::{Backend, KvFormat};
use duan_engine::{MemoryNeed, Sizes};
use duan_model::Model;
use duan_model::checkpoint::Checkpoint;
use duan_model::config::LayerConfig;
use duan_model::tokenizer::Tokenizer;
use serde::Serialize;

use crate::error::Result;
use crate::facts::{self, TypeFacts};

/// What a model's file is and what it needs.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ModelSummary {
    /// The file, as messages show it.
    pub file: String,
    /// Length of the file.
    pub file_bytes: u64,
    /// The model's own name, when the file gives one.
    pub name: Option<String>,
    /// The family's name.
    pub family: String,
    /// Weights in all tensors.
    pub parameters: u64,
    /// How many layers.
    pub layers: usize,
    /// Width of the residual stream.
    pub hidden_size: usize,
    /// Width between the projections of the widest MLP.
    pub intermediate_size: usize,
    /// Query heads of the first layer.
    pub heads: usize,
    /// Key and value heads of the first layer.
    pub kv_heads: usize,
    /// Width of a query or key head of the first layer.
    pub head_dim: usize,
    /// Rows of the embedding table.
    pub vocab_size: usize,
    /// Positions the model was trained for.
    pub context_length: usize,
    /// Formats of the tensors, that of the most weights first.
    pub formats: Vec<FormatCount>,
    /// Bits of all tensors per weight.
    pub bits_per_weight: f64,
    /// The tokenizer.
    pub tokenizer: TokenizerSummary,
    /// Where the chat template comes from; `None` for base models.
    pub template: Option<String>,
    /// Tensors that the forward pass does not use.
    pub unused_tensors: Vec<String>,
    /// What is odd and can be lived with.
    pub warnings: Vec<String>,
    /// What it needs with the context of the options.
    pub memory: MemoryNeed,
    /// Bytes that one more position takes in the KV cache.
    pub kv_bytes_per_token: u64,
    /// What the preferred device could still give, where that can be read.
    pub memory_available_bytes: Option<u64>,
}

/// All tensors of one format.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FormatCount {
    /// Name as in GGUF.
    pub name: String,
    /// How many tensors.
    pub tensors: usize,
    /// Their weights.
    pub parameters: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// A tokenizer, for people.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TokenizerSummary {
    /// How text is cut before merging; empty where it is not.
    pub pre_tokenizer: String,
    /// Tokens of the vocabulary.
    pub tokens: usize,
    /// Begins a text.
    pub bos: Option<SpecialToken>,
    /// Whether texts begin with it.
    pub adds_bos: bool,
    /// Ends a text.
    pub eos: Option<SpecialToken>,
    /// End the model's turn.
    pub end_of_turn: Vec<SpecialToken>,
}

/// A token with a meaning of its own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SpecialToken {
    /// The id.
    pub id: u32,
    /// Its text in the file.
    pub text: String,
}

impl ModelSummary {
    /// Whether the device that is preferred has the memory; `None` where that cannot be read.
    pub fn fits(&self) -> Option<bool> {
        self.memory_available_bytes.map(|available| self.memory.total_bytes <= available)
    }

    pub(crate) fn new(
        file: &Checkpoint,
        model: &Model,
        tokenizer: &Tokenizer,
        template: Option<&str>,
        warnings: &[String],
        sizes: &Sizes,
        device: &dyn Backend,
    ) -> Result<Self> {
        let config = &model.config;
        let formats = count_formats(file);
        let parameters = formats.iter().map(|format| format.parameters).fold(0, u64::saturating_add);
        let bytes = formats.iter().map(|format| format.bytes).fold(0, u64::saturating_add);
        let attention = config.layers.iter().find_map(LayerConfig::attention);
        let limits = sizes.limits_for(config)?;
        Ok(Self {
            file: file.label().to_owned(),
            file_bytes: file.file_bytes(),
            name: config.name.clone(),
            family: config.family.to_owned(),
            parameters,
            layers: config.layers.len(),
            hidden_size: config.hidden_size,
            intermediate_size: config.layers.iter().map(|layer| layer.mlp.intermediate_size()).max().unwrap_or(0),
            heads: attention.map_or(0, |attention| attention.heads),
            kv_heads: attention.map_or(0, |attention| attention.kv_heads),
            head_dim: attention.map_or(0, |attention| attention.key_dim),
            vocab_size: config.vocab_size,
            context_length: config.context_length,
            formats,
            bits_per_weight: if parameters == 0 { 0.0 } else { bytes as f64 * 8.0 / parameters as f64 },
            tokenizer: TokenizerSummary::new(tokenizer),
            template: template.map(str::to_owned),
            unused_tensors: model.unused_tensors.clone(),
            warnings: warnings.to_vec(),
            memory: MemoryNeed::of(model, sizes.context_for(config)?, &limits),
            kv_bytes_per_token: kv_bytes_per_token(model, sizes.kv_format),
            memory_available_bytes: device.memory_available_bytes(),
        })
    }
}

impl TokenizerSummary {
    fn new(tokenizer: &Tokenizer) -> Self {
        let token = |id: u32| SpecialToken { id, text: tokenizer.token_text(id).unwrap_or_default().to_owned() };
        Self {
            pre_tokenizer: tokenizer.pre_tokenizer().to_owned(),
            tokens: tokenizer.vocab_size(),
            bos: tokenizer.bos().map(token),
            adds_bos: tokenizer.adds_bos(),
            eos: tokenizer.eos().map(token),
            end_of_turn: tokenizer.end_of_turn().iter().copied().map(token).collect(),
        }
    }
}

fn kv_bytes_per_token(model: &Model, format: KvFormat) -> u64 {
    model.config.kv_values_per_position() as u64 * format.bytes() as u64
}

fn count_formats(file: &Checkpoint) -> Vec<FormatCount> {
    let count = |row: TypeFacts| FormatCount {
        name: row.name,
        tensors: row.tensors,
        parameters: row.weights,
        bytes: row.bytes.unwrap_or(0),
    };
    facts::types_of(file).into_iter().map(count).collect()
}
