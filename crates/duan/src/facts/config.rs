//! How a model is built: what this version reads of it, or, for families that it does not know, what the usual keys say.

mod keys;

use duan_model::checkpoint::Checkpoint;
use duan_model::config::{
    ActivationFunction, AttentionConfig, ExpertsConfig, Mixer, Mlp, MlpConfig, ModelConfig, NormKind, QkNorm,
    RopeConfig, RopeScaling, RopeStyle,
};
use duan_model::{Model, families};
use serde::Serialize;

/// Where the facts about the build come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ConfigSource {
    /// From keys and tensors, as the forward pass uses them.
    Model,
    /// From the keys that most families have; what the family makes of them is not known here.
    Keys,
}

/// How a model is built. Lists of layers count from 0.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ConfigFacts {
    /// Where these facts come from.
    pub source: ConfigSource,
    /// Positions the model was trained for.
    pub context_length: Option<usize>,
    /// Positions it was trained for before its context was stretched.
    pub original_context_length: Option<usize>,
    /// Rows of the embedding table.
    pub vocab_size: Option<usize>,
    /// Width of the residual stream.
    pub hidden_size: Option<usize>,
    /// How many layers.
    pub layers: Option<usize>,
    /// Query heads of the first layer with attention.
    pub heads: Option<usize>,
    /// Its heads of keys and values.
    pub kv_heads: Option<usize>,
    /// Width of its query and key heads.
    pub head_dim: Option<usize>,
    /// Width between the projections of the first layer's MLP; of one expert in a mixture.
    pub intermediate_size: Option<usize>,
    /// Whether the head reads the embedding table.
    pub tied_head: Option<bool>,
    /// The distinct kinds of attention.
    pub attention: Vec<AttentionFacts>,
    /// The distinct short convolutions.
    pub short_convs: Vec<ShortConvFacts>,
    /// The distinct rotary embeddings that layers use.
    pub ropes: Vec<RopeFacts>,
    /// Layers with attention whose queries and keys are not rotated.
    pub unrotated_layers: Vec<usize>,
    /// The distinct MLPs.
    pub mlps: Vec<MlpFacts>,
    /// The norms.
    pub norm: Option<NormFacts>,
    /// Factor on embeddings.
    pub embedding_scale: f32,
    /// Factor on what joins the residual stream.
    pub residual_scale: f32,
    /// Factor on logits.
    pub logit_scale: f32,
    /// The cap on logits.
    pub logit_softcap: Option<f32>,
}

/// One kind of attention, and the layers that have it.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct AttentionFacts {
    /// Query heads.
    pub heads: usize,
    /// Heads of keys and values.
    pub kv_heads: usize,
    /// Width of a query or key head.
    pub key_dim: usize,
    /// Width of a value head.
    pub value_dim: usize,
    /// How many tokens back it sees, the token itself included; `None` sees all.
    pub window: Option<usize>,
    /// `per_head`, `own_per_head` (a weight for each head) or `whole`, where queries and keys are normalized.
    pub qk_norm: Option<&'static str>,
    /// Whether queries, keys and values are one tensor.
    pub fused_qkv: bool,
    /// Whether their projections have biases.
    pub qkv_bias: bool,
    /// Whether the output's projection has one.
    pub output_bias: bool,
    /// Factor on scores; `None` where the family decides and is not known.
    pub scale: Option<f32>,
    /// The cap on scores.
    pub softcap: Option<f32>,
    /// Whether each head has a score that brings no value.
    pub sinks: bool,
    /// How queries grow with their position.
    pub temperature: Option<TemperatureFacts>,
    /// The layers.
    pub layers: Vec<usize>,
}

/// Queries at position `p` are multiplied by `1 + scale * ln(1 + floor(p / length))`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[non_exhaustive]
pub struct TemperatureFacts {
    /// Factor on the logarithm.
    pub scale: f32,
    /// Tokens after which the factor first grows.
    pub length: usize,
}

/// One kind of short convolution, and the layers that have it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ShortConvFacts {
    /// Tokens that it sees, its own included.
    pub taps: usize,
    /// The layers.
    pub layers: Vec<usize>,
}

/// One rotary embedding, and the layers that use it.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct RopeFacts {
    /// The base of the frequencies.
    pub base: f32,
    /// How many of a head's dimensions are rotated.
    pub dims: Option<usize>,
    /// Width of the heads that are rotated.
    pub head_dim: Option<usize>,
    /// Which dimensions are rotated together: `adjacent` (0 and 1, 2 and 3, ...) or `halves` (0 and d/2, ...).
    pub pairing: Option<&'static str>,
    /// How it was stretched.
    pub scaling: Option<RopeScalingFacts>,
    /// Factor on sines and cosines.
    pub magnitude: f32,
    /// The layers.
    pub layers: Vec<usize>,
}

/// How a rotary embedding was stretched for longer contexts.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct RopeScalingFacts {
    /// `linear`, `yarn`, `llama3` (divisors in a tensor), `longrope`, or the file's own word.
    pub kind: String,
    /// By how much the slowest frequencies are divided.
    pub factor: Option<f32>,
    /// LongRoPE: contexts with more tokens use the second list of divisors.
    pub long_list_above: Option<usize>,
}

/// One kind of MLP, and the layers that have it.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct MlpFacts {
    /// Width between the projections; of one expert in a mixture.
    pub intermediate_size: usize,
    /// `silu` or `gelu_tanh`.
    pub activation: Option<&'static str>,
    /// Whether gate and up are one tensor.
    pub fused_gate: bool,
    /// Whether the projections have biases.
    pub bias: bool,
    /// The mixture of experts, where it is one.
    pub experts: Option<ExpertsFacts>,
    /// The layers.
    pub layers: Vec<usize>,
}

/// A mixture of experts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ExpertsFacts {
    /// How many there are.
    pub experts: usize,
    /// How many of them each token uses.
    pub used: usize,
    /// Whether the weights of the chosen are made to add up to 1; `None` where the family decides and is not known.
    pub normalize: Option<bool>,
    /// Width of the expert that every token uses.
    pub shared_intermediate_size: Option<usize>,
}

/// The norms.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct NormFacts {
    /// `rms` or `layer`.
    pub kind: &'static str,
    /// The small number under the root.
    pub epsilon: f32,
    /// Whether what goes into attention and MLP is normalized; `None` where the family decides and is not known.
    pub before: Option<bool>,
    /// Whether what comes out of them is.
    pub after: Option<bool>,
    /// Whether attention and MLP of a layer stand side by side.
    pub parallel: Option<bool>,
}

/// The facts about `file`, from its model where it could be read.
pub(super) fn of(file: &Checkpoint, model: Option<&Model>) -> ConfigFacts {
    match model {
        Some(model) => of_model(file, &model.config),
        // Tensors may be of types that are not read, or missing, where the keys are as they should be.
        None => match families::read_config(file) {
            Ok(config) => of_model(file, &config),
            Err(_) => keys::of(file),
        },
    }
}

fn of_model(file: &Checkpoint, config: &ModelConfig) -> ConfigFacts {
    let mut facts = ConfigFacts {
        source: ConfigSource::Model,
        context_length: Some(config.context_length),
        original_context_length: keys::original_context(file, config),
        vocab_size: Some(config.vocab_size),
        hidden_size: Some(config.hidden_size),
        layers: Some(config.layers.len()),
        heads: None,
        kv_heads: None,
        head_dim: None,
        intermediate_size: None,
        tied_head: Some(config.tied_head),
        attention: Vec::new(),
        short_convs: Vec::new(),
        ropes: ropes(file, config),
        unrotated_layers: Vec::new(),
        mlps: Vec::new(),
        norm: norm(config),
        embedding_scale: config.embedding_scale,
        residual_scale: config.layers.first().map_or(1.0, |layer| layer.residual_scale),
        logit_scale: config.logit_scale,
        logit_softcap: config.logit_softcap,
    };
    for (index, layer) in config.layers.iter().enumerate() {
        match &layer.mixer {
            Mixer::Attention(attention) => {
                if attention.rope.is_none() {
                    facts.unrotated_layers.push(index);
                }
                group(&mut facts.attention, attention_facts(attention), index, |facts| &mut facts.layers);
            }
            Mixer::ShortConv(conv) => {
                let conv = ShortConvFacts { taps: conv.taps, layers: Vec::new() };
                group(&mut facts.short_convs, conv, index, |facts| &mut facts.layers);
            }
        }
        group(&mut facts.mlps, mlp_facts(&layer.mlp), index, |facts| &mut facts.layers);
    }
    facts.with_first_of_each()
}

impl ConfigFacts {
    /// Fills the fields that tell of the first attention and MLP.
    fn with_first_of_each(mut self) -> Self {
        let first = self.attention.first();
        self.heads = self.heads.or(first.map(|attention| attention.heads));
        self.kv_heads = self.kv_heads.or(first.map(|attention| attention.kv_heads));
        self.head_dim = self.head_dim.or(first.map(|attention| attention.key_dim));
        self.intermediate_size = self.intermediate_size.or(self.mlps.first().map(|mlp| mlp.intermediate_size));
        self
    }

    /// How many experts there are and how many of them a token uses, where layers have any.
    pub(super) fn experts(&self) -> Option<(usize, usize)> {
        let experts = self.mlps.iter().find_map(|mlp| mlp.experts)?;
        Some((experts.experts, experts.used))
    }
}

/// Adds a layer to the group of its equals, whose lists of layers do not count.
fn group<T: PartialEq>(groups: &mut Vec<T>, mut facts: T, layer: usize, layers: fn(&mut T) -> &mut Vec<usize>) {
    for group in groups.iter_mut() {
        let own = std::mem::take(layers(group));
        let is_equal = *group == facts;
        *layers(group) = own;
        if is_equal {
            return layers(group).push(layer);
        }
    }
    layers(&mut facts).push(layer);
    groups.push(facts);
}

fn attention_facts(attention: &AttentionConfig) -> AttentionFacts {
    AttentionFacts {
        heads: attention.heads,
        kv_heads: attention.kv_heads,
        key_dim: attention.key_dim,
        value_dim: attention.value_dim,
        window: attention.window,
        qk_norm: attention.qk_norm.map(|norm| match norm {
            QkNorm::PerHead => "per_head",
            QkNorm::OwnPerHead => "own_per_head",
            QkNorm::Whole => "whole",
        }),
        fused_qkv: attention.fused_qkv,
        qkv_bias: attention.qkv_bias,
        output_bias: attention.output_bias,
        scale: Some(attention.scale),
        softcap: attention.softcap,
        sinks: attention.sinks,
        temperature: attention.temperature.map(|it| TemperatureFacts { scale: it.scale, length: it.length }),
        layers: Vec::new(),
    }
}

fn mlp_facts(mlp: &Mlp) -> MlpFacts {
    let (activation, gated, experts) = match mlp {
        Mlp::Gated(gated) => (gated.activation, Some(gated), None),
        Mlp::Experts(experts) => (experts.activation, None, Some(experts_facts(experts))),
    };
    MlpFacts {
        intermediate_size: mlp.intermediate_size(),
        activation: Some(match activation {
            ActivationFunction::Silu => "silu",
            ActivationFunction::GeluTanh => "gelu_tanh",
        }),
        fused_gate: gated.is_some_and(|gated: &MlpConfig| gated.fused_gate),
        bias: gated.is_some_and(|gated| gated.bias),
        experts,
        layers: Vec::new(),
    }
}

fn experts_facts(experts: &ExpertsConfig) -> ExpertsFacts {
    ExpertsFacts {
        experts: experts.experts,
        used: experts.used,
        normalize: Some(experts.normalize),
        shared_intermediate_size: experts.shared.as_ref().map(|shared| shared.intermediate_size),
    }
}

fn norm(config: &ModelConfig) -> Option<NormFacts> {
    let layer = config.layers.first()?;
    Some(NormFacts {
        kind: match config.norm.kind {
            NormKind::Rms => "rms",
            NormKind::Layer => "layer",
        },
        epsilon: config.norm.epsilon,
        before: Some(layer.norm_before),
        after: Some(layer.norm_after),
        parallel: Some(layer.parallel),
    })
}

/// The rotary embeddings that layers use, each with its layers.
fn ropes(file: &Checkpoint, config: &ModelConfig) -> Vec<RopeFacts> {
    let facts = |(index, rope): (usize, &RopeConfig)| {
        let attention = config.layers.iter().enumerate().filter_map(|(layer, row)| Some((layer, row.attention()?)));
        let users: Vec<(usize, &AttentionConfig)> =
            attention.filter(|(_, attention)| attention.rope == Some(index)).collect();
        let head_dim = users.first()?.1.key_dim;
        Some(RopeFacts {
            base: rope.base,
            dims: Some(rope.dims),
            head_dim: Some(head_dim),
            pairing: Some(match rope.style {
                RopeStyle::AdjacentPairs => "adjacent",
                RopeStyle::SplitHalves => "halves",
            }),
            scaling: scaling(file, rope, config),
            magnitude: rope.magnitude,
            layers: users.iter().map(|user| user.0).collect(),
        })
    };
    config.ropes.iter().enumerate().filter_map(facts).collect()
}

/// How a rotary embedding was stretched: what its numbers say, and what the file calls it.
fn scaling(file: &Checkpoint, rope: &RopeConfig, config: &ModelConfig) -> Option<RopeScalingFacts> {
    let largest = |divisors: &[f32]| divisors.iter().copied().reduce(f32::max);
    let divisors = rope.frequency_divisors.as_deref();
    let (kind, factor) = match rope.scaling {
        RopeScaling::None => return None,
        RopeScaling::Linear => ("linear", Some(rope.position_divisor)),
        RopeScaling::Llama3 => ("llama3", divisors.and_then(largest)),
        RopeScaling::Yarn => ("yarn", keys::scaling_factor(file).or_else(|| divisors.and_then(largest))),
        RopeScaling::LongRope => {
            let above = rope.long.as_ref().map(|long| long.above as f32);
            ("longrope", above.map(|above| config.context_length as f32 / above))
        }
    };
    let long_list_above = rope.long.as_ref().map(|long| long.above);
    Some(RopeScalingFacts {
        kind: kind.to_owned(),
        factor: factor.filter(|factor| factor.is_finite()),
        long_list_above,
    })
}
