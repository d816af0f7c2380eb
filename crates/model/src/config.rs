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
    /// Factor applied to every embedding row (Gemma: the square root of `hidden_size`; most others 1).
    pub embedding_scale: f32,
    /// The kind of every norm.
    pub norm: NormConfig,
    /// The distinct rotary embeddings; layers refer to them by index.
    pub ropes: Vec<RopeConfig>,
    /// The layers in order.
    pub layers: Vec<LayerConfig>,
    /// The tensor that holds the weight of the norm before the head.
    pub final_norm: &'static str,
    /// Whether the head reads the embedding table because the file has no `output.weight`.
    pub tied_head: bool,
    /// Factor on the logits (Granite; others 1).
    pub logit_scale: f32,
    /// `cap * tanh(logit / cap)` on the logits, where the family has it.
    pub logit_softcap: Option<f32>,
}

/// The norms of a model.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct NormConfig {
    /// Which formula.
    pub kind: NormKind,
    /// The small number under the root.
    pub epsilon: f32,
}

/// What a norm computes of a group `x`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NormKind {
    /// `x / sqrt(mean(x^2) + epsilon) * weight` (Zhang and Sennrich 2019).
    Rms,
    /// `(x - mean(x)) / sqrt(variance(x) + epsilon) * weight + bias`, where there is a bias (Ba et al. 2016).
    Layer,
}

/// One layer: what mixes positions, the MLP, and where norms stand.
#[derive(Debug, Clone, PartialEq)]
pub struct LayerConfig {
    /// The half that lets a position see others.
    pub mixer: Mixer,
    /// The half that treats each position by itself.
    pub mlp: Mlp,
    /// Whether the inputs of mixer and MLP are normalized.
    pub norm_before: bool,
    /// Whether the outputs of mixer and MLP are normalized before they join the residual stream.
    pub norm_after: bool,
    /// Whether the MLP reads what the mixer reads, so that both join the stream side by side. Only with a norm before, whose
    /// output both read.
    pub parallel: bool,
    /// Factor on what joins the residual stream (Granite; others 1).
    pub residual_scale: f32,
}

impl LayerConfig {
    /// A layer with a norm before mixer and MLP, as most have.
    pub fn new(mixer: Mixer, mlp: Mlp) -> Self {
        Self { mixer, mlp, norm_before: true, norm_after: false, parallel: false, residual_scale: 1.0 }
    }

    /// Its attention, where it has one.
    pub fn attention(&self) -> Option<&AttentionConfig> {
        match &self.mixer {
            Mixer::Attention(attention) => Some(attention),
            Mixer::ShortConv(_) => None,
        }
    }
}

/// What lets a position see others.
#[derive(Debug, Clone, PartialEq)]
pub enum Mixer {
    /// Attention over a KV cache.
    Attention(AttentionConfig),
    /// A gated causal convolution over the last few positions (LFM2).
    ShortConv(ShortConvConfig),
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
    /// Index into [`ModelConfig::ropes`]; `None` where queries and keys are not rotated.
    pub rope: Option<usize>,
    /// How many positions back a query sees, itself included; `None` sees all.
    pub window: Option<usize>,
    /// How queries and keys are normalized before the rotation.
    pub qk_norm: Option<QkNorm>,
    /// Whether the query, key and value projections are the rows of one tensor, `attn_qkv`.
    pub fused_qkv: bool,
    /// Whether the query, key and value projections have biases.
    pub qkv_bias: bool,
    /// Whether the output projection has a bias.
    pub output_bias: bool,
    /// Factor on the scores before the softmax.
    pub scale: f32,
    /// `cap * tanh(score / cap)` on the scaled scores, where the family has it.
    pub softcap: Option<f32>,
    /// Whether each head has a sink: a learned score that takes part in the softmax and brings no value, tensor
    /// `attn_sinks` [heads] (gpt-oss).
    pub sinks: bool,
    /// How queries grow with their position, where the family has it.
    pub temperature: Option<Temperature>,
}

/// How queries and keys are normalized.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QkNorm {
    /// Each head by itself, with one weight [key_dim] for all heads (Qwen 3, Gemma 3).
    PerHead,
    /// Each head by itself, with a weight of its own [heads, key_dim] (StableLM 2).
    OwnPerHead,
    /// All heads together, weight [heads * key_dim] (OLMo 2).
    Whole,
}

/// Queries at position `p` are multiplied by `1 + scale * ln(1 + floor(p / length))` (Llama 4, Ministral 3).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Temperature {
    /// Factor on the logarithm.
    pub scale: f32,
    /// Positions after which the factor first grows.
    pub length: usize,
}

impl Temperature {
    /// The factor at a position, in f32: the definition that every machine is tested against.
    pub fn at(self, position: usize) -> f32 {
        1.0 + self.scale * ((1 + position / self.length) as f32).ln()
    }
}

/// `output(c * conv(b * x))` with `b`, `c` and `x` from one projection, `conv` causal and for each channel by itself.
#[derive(Debug, Clone, PartialEq)]
pub struct ShortConvConfig {
    /// Positions that the convolution sees, its own included; at least 2.
    pub taps: usize,
}

/// The MLP half of a layer.
#[derive(Debug, Clone, PartialEq)]
pub enum Mlp {
    /// One gated MLP.
    Gated(MlpConfig),
    /// A mixture of experts.
    Experts(ExpertsConfig),
}

impl Mlp {
    /// Width between the projections: of one expert in a mixture.
    pub fn intermediate_size(&self) -> usize {
        match self {
            Self::Gated(mlp) => mlp.intermediate_size,
            Self::Experts(experts) => experts.intermediate_size,
        }
    }
}

/// A gated MLP: `down(activation(gate(x)) * up(x))`.
#[derive(Debug, Clone, PartialEq)]
pub struct MlpConfig {
    /// Width between the projections.
    pub intermediate_size: usize,
    /// The gate's activation.
    pub activation: ActivationFunction,
    /// Whether gate and up are the rows of one tensor, `ffn_up`, the gate's first.
    pub fused_gate: bool,
    /// Whether the three projections have biases.
    pub bias: bool,
}

impl MlpConfig {
    /// An MLP with three tensors and no biases, as most have.
    pub fn new(intermediate_size: usize, activation: ActivationFunction) -> Self {
        Self { intermediate_size, activation, fused_gate: false, bias: false }
    }
}

/// A mixture of experts: a router chooses some gated MLPs for each position; their weighted results are added.
#[derive(Debug, Clone, PartialEq)]
pub struct ExpertsConfig {
    /// How many there are.
    pub experts: usize,
    /// How many of them each position uses.
    pub used: usize,
    /// Width between the projections of one expert.
    pub intermediate_size: usize,
    /// The gates' activation.
    pub activation: ActivationFunction,
    /// Whether the weights of the chosen experts are made to add up to 1. Weights are a softmax over all experts.
    pub normalize: bool,
    /// An expert that every position uses, with weight 1.
    pub shared: Option<MlpConfig>,
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
    /// One divisor per pair [dims / 2] (Llama 3's scaling, YaRN, the short list of LongRoPE), where there are any.
    pub frequency_divisors: Option<Arc<[f32]>>,
    /// Other divisors for long contexts.
    pub long: Option<LongRope>,
    /// Factor on sines and cosines (YaRN, LongRoPE; others 1).
    pub magnitude: f32,
    /// How the context was stretched; for people, as the fields above hold the numbers.
    pub scaling: RopeScaling,
}

/// Ways to stretch a context beyond the one of the first training.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RopeScaling {
    /// None.
    None,
    /// Positions are divided.
    Linear,
    /// Divisors for bands of frequencies (Llama 3).
    Llama3,
    /// Divisors and a magnitude (Peng et al. 2023).
    Yarn,
    /// A list of divisors for short contexts and one for long ones (Ding et al. 2024).
    LongRope,
}

impl RopeScaling {
    /// The tensors of a file that it reads.
    pub fn tensors(self) -> &'static [&'static str] {
        match self {
            Self::None | Self::Yarn => &[],
            Self::Linear | Self::Llama3 => &["rope_freqs.weight"],
            Self::LongRope => &["rope_factors_short.weight", "rope_factors_long.weight"],
        }
    }
}

/// The long list of LongRoPE (Ding et al. 2024). One list holds for all positions of a context, so it is chosen when the
/// context is, at load.
#[derive(Debug, Clone, PartialEq)]
pub struct LongRope {
    /// Contexts with more positions than this use the divisors below.
    pub above: usize,
    /// One divisor per pair [dims / 2].
    pub frequency_divisors: Arc<[f32]>,
}

impl RopeConfig {
    /// The angle per position of each pair [dims / 2], in radians, in a context of so many positions:
    /// `base^(-2i / dims) / divisor[i] / position_divisor`.
    pub fn frequencies(&self, context: usize) -> Vec<f32> {
        let divisors = match &self.long {
            Some(long) if context > long.above => Some(&long.frequency_divisors),
            _ => self.frequency_divisors.as_ref(),
        };
        (0..self.dims / 2)
            .map(|pair| {
                let exponent = -2.0 * pair as f64 / self.dims as f64;
                let divisor = divisors.map_or(1.0, |divisors| f64::from(divisors[pair]));
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
            .filter_map(LayerConfig::attention)
            .map(|attention| attention.kv_heads * (attention.key_dim + attention.value_dim))
            .sum()
    }
}
