//! The forward pass, written once: [`record`] reads like the pass itself and leaves a list of [`Op`]s.
//!
//! Values are registers: each is one buffer of a fixed width that ops read and write in order, the same
//! for every layer. There are no shapes to solve and no control flow; a value has as many rows as the
//! pass has tokens, or as it has wanted rows after [`Op::SelectRows`].

use std::fmt;

use crate::config::{ActivationFunction, AttentionConfig, LayerConfig, ModelConfig};
use crate::error::Result;
use crate::weights::{Binder, MatrixId, VectorId};

/// Index into [`Graph::values`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ValueId(pub u32);

/// A register of the forward pass.
#[derive(Debug, Clone, PartialEq)]
pub struct Value {
    /// What people call it.
    pub name: &'static str,
    /// Numbers per row.
    pub width: usize,
    /// Whether it has one row per wanted row instead of one per token.
    pub wanted_rows_only: bool,
}

/// Keys and values of one attention, as every device must keep them.
#[derive(Debug, Clone, PartialEq)]
pub struct CacheConfig {
    /// The layer it belongs to.
    pub layer: usize,
    /// Key and value heads.
    pub kv_heads: usize,
    /// Width of a key.
    pub key_dim: usize,
    /// Width of a value.
    pub value_dim: usize,
    /// How far back queries look, themselves included.
    pub window: Option<usize>,
}

/// One of several matrices that a [`Op::Linear`] applies to the same input.
#[derive(Debug, Clone, PartialEq)]
pub struct LinearPart {
    /// The weights [output width, input width].
    pub matrix: MatrixId,
    /// Added to each row [output width].
    pub bias: Option<VectorId>,
    /// Where the result goes.
    pub output: ValueId,
}

/// One step of the forward pass. Shapes: rows are tokens unless said otherwise.
#[derive(Debug, Clone, PartialEq)]
pub enum Op {
    /// `output = table[token] * scale` [rows, hidden_size].
    Embed {
        /// The embedding table [vocab_size, hidden_size].
        table: MatrixId,
        /// Factor on every row.
        scale: f32,
        /// Where the rows go.
        output: ValueId,
    },
    /// RMS norm of each group of `weight.len()` numbers: `x / sqrt(mean(x^2) + epsilon) * weight`
    /// [rows, groups * weight.len()] (Zhang and Sennrich 2019).
    Norm {
        /// What is normalized; may be the output.
        input: ValueId,
        /// Factors [group].
        weight: VectorId,
        /// Groups per row: 1 for the stream, the heads for queries and keys.
        groups: usize,
        /// The small number under the root.
        epsilon: f32,
        /// Where the result goes.
        output: ValueId,
    },
    /// `output = input * matrix^T + bias` for each part; one input, several matrices.
    Linear {
        /// What all parts read.
        input: ValueId,
        /// The matrices and where their results go.
        parts: Vec<LinearPart>,
    },
    /// Rotates each head of `value` in place by its token's position.
    Rope {
        /// Queries or keys [rows, heads * head_dim].
        value: ValueId,
        /// How many heads.
        heads: usize,
        /// Width of a head; the dimensions that the rotation does not cover pass unchanged.
        head_dim: usize,
        /// Index into [`ModelConfig::ropes`].
        rope: usize,
    },
    /// Stores keys and values of this pass in the cache, then attends from each query to what it may see.
    Attention {
        /// Queries [rows, heads * key_dim].
        query: ValueId,
        /// Keys [rows, kv_heads * key_dim].
        key: ValueId,
        /// Values [rows, kv_heads * value_dim].
        value: ValueId,
        /// Results [rows, heads * value_dim].
        output: ValueId,
        /// Query heads.
        heads: usize,
        /// Factor on the scores.
        scale: f32,
        /// `cap * tanh(score / cap)` on the scaled scores.
        softcap: Option<f32>,
        /// Index into [`Graph::caches`].
        cache: usize,
    },
    /// `output = activation(gate) * up`; the output may be one of the inputs.
    GatedAct {
        /// What goes through the activation.
        gate: ValueId,
        /// What is gated.
        up: ValueId,
        /// Numbers per row.
        width: usize,
        /// Where the result goes.
        output: ValueId,
        /// The function.
        activation: ActivationFunction,
    },
    /// `target += addend`.
    Add {
        /// Numbers per row.
        width: usize,
        /// The residual stream.
        target: ValueId,
        /// What joins it.
        addend: ValueId,
    },
    /// Keeps the rows that the pass wants results for.
    SelectRows {
        /// One row per token.
        input: ValueId,
        /// One row per wanted row.
        output: ValueId,
    },
    /// `value = cap * tanh(value / cap)`.
    Softcap {
        /// The logits.
        value: ValueId,
        /// The bound.
        cap: f32,
    },
}

/// The kinds of ops, for plans and refusals.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names are those of the ops")]
pub enum OpKind {
    Embed,
    Norm,
    Linear,
    Rope,
    Attention,
    GatedAct,
    Add,
    SelectRows,
    Softcap,
}

impl OpKind {
    /// All kinds.
    pub const ALL: [OpKind; 9] = [
        Self::Embed,
        Self::Norm,
        Self::Linear,
        Self::Rope,
        Self::Attention,
        Self::GatedAct,
        Self::Add,
        Self::SelectRows,
        Self::Softcap,
    ];

    /// The name as people type it, in lower case with dashes.
    pub fn name(self) -> &'static str {
        match self {
            Self::Embed => "embed",
            Self::Norm => "norm",
            Self::Linear => "linear",
            Self::Rope => "rope",
            Self::Attention => "attention",
            Self::GatedAct => "gated-act",
            Self::Add => "add",
            Self::SelectRows => "select-rows",
            Self::Softcap => "softcap",
        }
    }
}

impl fmt::Display for OpKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Op {
    /// Its kind.
    pub fn kind(&self) -> OpKind {
        match self {
            Self::Embed { .. } => OpKind::Embed,
            Self::Norm { .. } => OpKind::Norm,
            Self::Linear { .. } => OpKind::Linear,
            Self::Rope { .. } => OpKind::Rope,
            Self::Attention { .. } => OpKind::Attention,
            Self::GatedAct { .. } => OpKind::GatedAct,
            Self::Add { .. } => OpKind::Add,
            Self::SelectRows { .. } => OpKind::SelectRows,
            Self::Softcap { .. } => OpKind::Softcap,
        }
    }

    /// The values it reads.
    pub fn reads(&self) -> Vec<ValueId> {
        match *self {
            Self::Embed { .. } => vec![],
            Self::Norm { input, .. } | Self::Linear { input, .. } | Self::SelectRows { input, .. } => vec![input],
            Self::Rope { value, .. } | Self::Softcap { value, .. } => vec![value],
            Self::Attention { query, key, value, .. } => vec![query, key, value],
            Self::GatedAct { gate, up, .. } => vec![gate, up],
            Self::Add { target, addend, .. } => vec![target, addend],
        }
    }

    /// The values it writes.
    pub fn writes(&self) -> Vec<ValueId> {
        match self {
            Self::Embed { output, .. }
            | Self::Norm { output, .. }
            | Self::Attention { output, .. }
            | Self::GatedAct { output, .. }
            | Self::SelectRows { output, .. } => vec![*output],
            Self::Linear { parts, .. } => parts.iter().map(|part| part.output).collect(),
            Self::Rope { value, .. } | Self::Softcap { value, .. } => vec![*value],
            Self::Add { target, .. } => vec![*target],
        }
    }
}

/// An op and the layer it belongs to (`None` before the first and after the last).
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// The layer.
    pub layer: Option<usize>,
    /// The op.
    pub op: Op,
}

/// The recorded forward pass.
#[derive(Debug, Clone, PartialEq)]
pub struct Graph {
    /// Ops in the order in which they run.
    pub nodes: Vec<Node>,
    /// The registers.
    pub values: Vec<Value>,
    /// One per attention.
    pub caches: Vec<CacheConfig>,
    /// Where the logits of the wanted rows end up [wanted rows, vocab_size].
    pub logits: ValueId,
}

/// The registers of the pass, by what they hold.
struct Registers {
    stream: ValueId,
    normed: ValueId,
    query: ValueId,
    key: ValueId,
    value: ValueId,
    attended: ValueId,
    projected: ValueId,
    gate: ValueId,
    up: ValueId,
    selected: ValueId,
    logits: ValueId,
}

struct Recorder<'a, 'f> {
    config: &'a ModelConfig,
    binder: &'a mut Binder<'f>,
    nodes: Vec<Node>,
    caches: Vec<CacheConfig>,
    registers: Registers,
    layer: Option<usize>,
}

/// Records the forward pass of `config`, binding each weight by its GGUF name as it is met.
///
/// # Errors
/// When a tensor is missing or has another shape than the configuration says.
pub fn record(config: &ModelConfig, binder: &mut Binder<'_>) -> Result<Graph> {
    let (values, registers) = registers_for(config);
    let logits = registers.logits;
    let mut recorder = Recorder { config, binder, nodes: Vec::new(), caches: Vec::new(), registers, layer: None };
    recorder.forward()?;
    Ok(Graph { nodes: recorder.nodes, values, caches: recorder.caches, logits })
}

impl Recorder<'_, '_> {
    /// The forward pass.
    fn forward(&mut self) -> Result<()> {
        let config = self.config;
        let table = self.binder.matrix("token_embd.weight", config.vocab_size, config.hidden_size)?;
        let Registers { stream, selected, logits, .. } = self.registers;
        self.push(Op::Embed { table, scale: config.embedding_scale, output: stream }); // stream [rows, hidden_size]

        for (index, layer) in config.layers.iter().enumerate() {
            self.layer = Some(index);
            self.attention(index, layer)?;
            self.mlp(index, layer)?;
        }
        self.layer = None;

        self.push(Op::SelectRows { input: stream, output: selected }); // selected [wanted rows, hidden_size]
        self.norm("output_norm.weight", config.hidden_size, 1, selected, selected)?;
        let head = if config.tied_head { "token_embd.weight" } else { "output.weight" };
        self.linear(selected, config.hidden_size, &[(head, None, config.vocab_size, logits)])?; // logits [wanted rows, vocab_size]
        if let Some(cap) = config.logit_softcap {
            self.push(Op::Softcap { value: logits, cap });
        }
        Ok(())
    }

    /// `stream += attention(norm(stream))`.
    fn attention(&mut self, index: usize, layer: &LayerConfig) -> Result<()> {
        let hidden = self.config.hidden_size;
        let name = |part: &str| format!("blk.{index}.{part}");
        let Registers { stream, normed, query, key, value, attended, projected, .. } = self.registers;
        let AttentionConfig { heads, kv_heads, key_dim, value_dim, rope, .. } = layer.attention;
        let bias = |part: &str| layer.attention.qkv_bias.then(|| name(part));

        self.norm(&name("attn_norm.weight"), hidden, 1, stream, normed)?; // normed [rows, hidden_size]
        self.linear(
            normed,
            hidden,
            &[
                (&name("attn_q.weight"), bias("attn_q.bias"), heads * key_dim, query), // query [rows, heads * key_dim]
                (&name("attn_k.weight"), bias("attn_k.bias"), kv_heads * key_dim, key), // key [rows, kv_heads * key_dim]
                (&name("attn_v.weight"), bias("attn_v.bias"), kv_heads * value_dim, value), // value [rows, kv_heads * value_dim]
            ],
        )?;
        if layer.attention.qk_norm {
            self.norm(&name("attn_q_norm.weight"), key_dim, heads, query, query)?;
            self.norm(&name("attn_k_norm.weight"), key_dim, kv_heads, key, key)?;
        }
        self.push(Op::Rope { value: query, heads, head_dim: key_dim, rope });
        self.push(Op::Rope { value: key, heads: kv_heads, head_dim: key_dim, rope });

        let cache = self.caches.len();
        let window = layer.attention.window;
        self.caches.push(CacheConfig { layer: index, kv_heads, key_dim, value_dim, window });
        let AttentionConfig { scale, softcap, .. } = layer.attention;
        self.push(Op::Attention { query, key, value, output: attended, heads, scale, softcap, cache }); // attended [rows, heads * value_dim]

        let bias = layer.attention.output_bias.then(|| name("attn_output.bias"));
        self.linear(attended, heads * value_dim, &[(&name("attn_output.weight"), bias, hidden, projected)])?; // projected [rows, hidden_size]
        if layer.norm_after {
            self.norm(&name("post_attention_norm.weight"), hidden, 1, projected, projected)?;
        }
        self.push(Op::Add { width: hidden, target: stream, addend: projected });
        Ok(())
    }

    /// `stream += mlp(norm(stream))`.
    fn mlp(&mut self, index: usize, layer: &LayerConfig) -> Result<()> {
        let hidden = self.config.hidden_size;
        let inner = layer.mlp.intermediate_size;
        let name = |part: &str| format!("blk.{index}.{part}");
        let bias = |part: &str| layer.mlp.bias.then(|| name(part));
        let Registers { stream, normed, projected, gate, up, .. } = self.registers;

        self.norm(&name("ffn_norm.weight"), hidden, 1, stream, normed)?;
        self.linear(
            normed,
            hidden,
            &[
                (&name("ffn_gate.weight"), bias("ffn_gate.bias"), inner, gate), // gate [rows, intermediate_size]
                (&name("ffn_up.weight"), bias("ffn_up.bias"), inner, up),       // up [rows, intermediate_size]
            ],
        )?;
        self.push(Op::GatedAct { gate, up, width: inner, output: gate, activation: layer.mlp.activation });
        self.linear(gate, inner, &[(&name("ffn_down.weight"), bias("ffn_down.bias"), hidden, projected)])?;
        if layer.norm_after {
            self.norm(&name("post_ffw_norm.weight"), hidden, 1, projected, projected)?;
        }
        self.push(Op::Add { width: hidden, target: stream, addend: projected });
        Ok(())
    }

    fn norm(&mut self, name: &str, group: usize, groups: usize, input: ValueId, output: ValueId) -> Result<()> {
        let weight = self.binder.vector(name, group)?;
        self.push(Op::Norm { input, weight, groups, epsilon: self.config.norm_epsilon, output });
        Ok(())
    }

    /// One op for all matrices that read `input` [rows, columns]: (name, bias name, output width, output).
    fn linear(
        &mut self,
        input: ValueId,
        columns: usize,
        parts: &[(&str, Option<String>, usize, ValueId)],
    ) -> Result<()> {
        let parts = parts
            .iter()
            .map(|(name, bias, rows, output)| {
                let matrix = self.binder.matrix(name, *rows, columns)?;
                let bias = bias.as_ref().map(|bias| self.binder.vector(bias, *rows)).transpose()?;
                Ok(LinearPart { matrix, bias, output: *output })
            })
            .collect::<Result<Vec<_>>>()?;
        self.push(Op::Linear { input, parts });
        Ok(())
    }

    fn push(&mut self, op: Op) {
        self.nodes.push(Node { layer: self.layer, op });
    }
}

/// One register for each role, as wide as the widest layer needs.
fn registers_for(config: &ModelConfig) -> (Vec<Value>, Registers) {
    let widest = |width: fn(&LayerConfig) -> usize| config.layers.iter().map(width).max().unwrap_or(0);
    let mut values = Vec::new();
    let mut register = |name, width, wanted_rows_only| {
        values.push(Value { name, width, wanted_rows_only });
        ValueId(values.len() as u32 - 1)
    };
    let registers = Registers {
        stream: register("stream", config.hidden_size, false),
        normed: register("normed", config.hidden_size, false),
        query: register("query", widest(|layer| layer.attention.heads * layer.attention.key_dim), false),
        key: register("key", widest(|layer| layer.attention.kv_heads * layer.attention.key_dim), false),
        value: register("value", widest(|layer| layer.attention.kv_heads * layer.attention.value_dim), false),
        attended: register("attended", widest(|layer| layer.attention.heads * layer.attention.value_dim), false),
        projected: register("projected", config.hidden_size, false),
        gate: register("gate", widest(|layer| layer.mlp.intermediate_size), false),
        up: register("up", widest(|layer| layer.mlp.intermediate_size), false),
        selected: register("selected", config.hidden_size, true),
        logits: register("logits", config.vocab_size, true),
    };
    (values, registers)
}
