//! A model as data: what a family's file says, in the terms that the forward pass needs.
//!
//! Features are read from the file and from the tensors that exist, never from the family's name;
//! the family only says how its keys and conventions fill these structs (see [`crate::families`]).

use std::sync::Arc;

/// A whole decoder-only model.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelConfig {
    /// The family's name in GGUF (`general.architecture`), for people.
    pub family: &'static str,
    /// The model's own name, when the file gives one.
    pub name: Option<String>,
    /// Rows of the embedding table; token ids are below it.
    pub vocab_size: usize,
    /// Width of the residual stream.
    pub hidden_size: usize,
    /// Positions the model was trained for.
    pub context_length: usize,
    /// Factor applied to every embedding row (Gemma: the square root of `hidden_size`; others 1).
    pub embedding_scale: f32,
    /// The small number under the root of every RMS norm.
    pub norm_epsilon: f32,
    /// The distinct rotary embeddings; layers refer to them by index.
    pub ropes: Vec<RopeConfig>,
    /// The layers in order.
    pub layers: Vec<LayerConfig>,
    /// Whether the head reads the embedding table because the file has no `output.weight`.
    pub tied_head: bool,
    /// `cap * tanh(logit / cap)` on the logits, where the family has it.
    pub logit_softcap: Option<f32>,
}

/// One layer: attention and MLP, and where norms stand.
#[derive(Debug, Clone, PartialEq)]
pub struct LayerConfig {
    /// The attention half.
    pub attention: AttentionConfig,
    /// The MLP half.
    pub mlp: MlpConfig,
    /// Whether the outputs of attention and MLP are normalized again before they join the residual stream.
    pub norm_after: bool,
}

/// Grouped-query attention.
#[derive(Debug, Clone, PartialEq)]
pub struct AttentionConfig {
    /// Query heads.
    pub heads: usize,
    /// Key and value heads; divides `heads`.
    pub kv_heads: usize,
    /// Width of one query or key head. Not `hidden_size / heads` in general.
    pub key_dim: usize,
    /// Width of one value head.
    pub value_dim: usize,
    /// Index into [`ModelConfig::ropes`].
    pub rope: usize,
    /// How many positions back a query sees, itself included; `None` sees all.
    pub window: Option<usize>,
    /// Whether queries and keys pass an RMS norm per head before the rotation.
    pub qk_norm: bool,
    /// Whether the query, key and value projections have biases.
    pub qkv_bias: bool,
    /// Whether the output projection has a bias.
    pub output_bias: bool,
    /// Factor on the scores before the softmax.
    pub scale: f32,
    /// `cap * tanh(score / cap)` on the scaled scores, where the family has it.
    pub softcap: Option<f32>,
}

/// A gated MLP: `down(activation(gate(x)) * up(x))`.
#[derive(Debug, Clone, PartialEq)]
pub struct MlpConfig {
    /// Width between the projections.
    pub intermediate_size: usize,
    /// The gate's activation.
    pub activation: ActivationFunction,
    /// Whether the three projections have biases.
    pub bias: bool,
}

/// The function on the gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ActivationFunction {
    /// `x * sigmoid(x)`.
    Silu,
    /// GELU in its tanh form, as Gemma was trained with.
    GeluTanh,
}

impl ActivationFunction {
    /// The function itself, in f32: the definition that every machine is tested against.
    pub fn apply(self, x: f32) -> f32 {
        match self {
            Self::Silu => x / (1.0 + (-x).exp()),
            Self::GeluTanh => {
                // tanh saturates by itself, so that no intermediate can overflow.
                let inner = 0.797_884_6 * (x + 0.044715 * x * x * x);
                0.5 * x * (1.0 + inner.tanh())
            }
        }
    }
}

/// Which pairs of a head are rotated together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RopeStyle {
    /// `(0, 1), (2, 3), ...`: GGUF files of the llama architecture, whose Q and K rows the converter reordered.
    AdjacentPairs,
    /// `(0, d/2), (1, d/2 + 1), ...`: everybody else (NeoX).
    SplitHalves,
}

/// One rotary position embedding (Su et al. 2021, RoFormer).
#[derive(Debug, Clone, PartialEq)]
pub struct RopeConfig {
    /// Pairing of the dimensions.
    pub style: RopeStyle,
    /// How many of a head's dimensions are rotated (even); the rest pass unchanged.
    pub dims: usize,
    /// The base of the frequencies.
    pub base: f32,
    /// Positions are divided by this (linear scaling; 1 is none).
    pub position_divisor: f32,
    /// One divisor per pair [dims / 2], from `rope_freqs.weight` (Llama 3's scaling), where the file has it.
    pub frequency_divisors: Option<Arc<[f32]>>,
}

impl RopeConfig {
    /// The angle per position of each pair [dims / 2], in radians:
    /// `base^(-2i / dims) / divisor[i] / position_divisor`.
    pub fn frequencies(&self) -> Vec<f32> {
        (0..self.dims / 2)
            .map(|pair| {
                let exponent = -2.0 * pair as f64 / self.dims as f64;
                let divisor = self.frequency_divisors.as_ref().map_or(1.0, |divisors| f64::from(divisors[pair]));
                (f64::from(self.base).powf(exponent) / divisor / f64::from(self.position_divisor)) as f32
            })
            .collect()
    }
}

impl ModelConfig {
    /// The keys and values that one position adds to the cache over all layers, counted in values (not bytes).
    pub fn kv_values_per_position(&self) -> usize {
        self.layers
            .iter()
            .map(|layer| layer.attention.kv_heads * (layer.attention.key_dim + layer.attention.value_dim))
            .sum()
    }
}
