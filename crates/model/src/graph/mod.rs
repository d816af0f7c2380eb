//! The forward pass as a list of [`Op`]s, which [`record`] leaves behind.
//!
//! Values are registers: each is one buffer of a fixed width that ops read and write in order, the same
//! for every layer. There are no shapes to solve and no control flow; a value has as many rows as the
//! pass has tokens, or as it has wanted rows after [`Op::SelectRows`].

mod record;

use std::fmt;

use crate::config::{ActivationFunction, NormConfig, Temperature};
use crate::weights::{MatrixId, VectorId};

pub use record::record;

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

/// State of one layer that is no keys and values, as every device must keep it: what the layer needs of the positions
/// before a pass. It is kept once for each page of the KV cache, and is that after the last position written in the page;
/// so a sequence can go back to the end of any full page, and pages are shared and copied with their state.
#[derive(Debug, Clone, PartialEq)]
pub struct StateConfig {
    /// The layer it belongs to.
    pub layer: usize,
    /// Numbers of one state.
    pub width: usize,
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
    /// Normalizes each of `groups` equal parts of a row by itself [rows, width].
    Norm {
        /// What is normalized; may be the output.
        input: ValueId,
        /// Factors: [width / groups] for every group the same, or [width].
        weight: VectorId,
        /// Added at the end, as long as the weight; only layer norms have it.
        bias: Option<VectorId>,
        /// Numbers per row.
        width: usize,
        /// Groups per row: 1 for the stream, the heads for queries and keys.
        groups: usize,
        /// The formula.
        norm: NormConfig,
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
    /// Multiplies each row by what [`Temperature::at`] gives for its token's position.
    PositionScale {
        /// Queries [rows, width].
        value: ValueId,
        /// Numbers per row.
        width: usize,
        /// The formula.
        temperature: Temperature,
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
        /// One more score for each head [heads], neither scaled nor capped, which weighs in the softmax like that of a position
        /// whose value is 0.
        sinks: Option<VectorId>,
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
    /// Of a row `[b, c, x]`, three parts of `width`: `output = c * conv`, where `conv` of a channel is the sum over the taps
    /// `k` of `kernel[channel, k] * (b * x)` of the position `taps - 1 - k` before; before the sequence's first position
    /// `b * x` is 0. Keeps the last `taps - 1` of `b * x` as its state.
    ShortConv {
        /// What is mixed [rows, 3 * width].
        input: ValueId,
        /// The kernels [width, taps].
        kernel: VectorId,
        /// Positions that the convolution sees.
        taps: usize,
        /// Channels.
        width: usize,
        /// Index into [`Graph::states`]: [taps - 1, width], the latest position last.
        state: usize,
        /// Results [rows, width].
        output: ValueId,
    },
    /// Chooses the `used` experts with the largest scores, the first of equals; their weights are what a softmax over all
    /// scores gives them.
    Route {
        /// Scores [rows, experts].
        scores: ValueId,
        /// Experts to choose from.
        experts: usize,
        /// How many are chosen.
        used: usize,
        /// Whether the weights of the chosen are divided by their sum.
        normalize: bool,
        /// For each row the chosen experts' indices, then their weights, largest first [rows, 2 * used].
        output: ValueId,
    },
    /// Applies the matrices of the chosen experts: for each row and each choice a result of its own.
    ExpertLinear {
        /// What all parts read: [rows, columns], or [rows, used, columns] where each choice has a row of its own.
        input: ValueId,
        /// Whether each choice has a row of its own.
        input_per_choice: bool,
        /// What [`Op::Route`] left [rows, 2 * used].
        chosen: ValueId,
        /// Experts in each matrix.
        experts: usize,
        /// How many are chosen.
        used: usize,
        /// Matrices [experts * width, columns], all experts below each other, with results [rows, used, width].
        parts: Vec<LinearPart>,
    },
    /// `output = sum over the choices of weight * input`.
    Mix {
        /// What the experts gave [rows, used, width].
        input: ValueId,
        /// What [`Op::Route`] left [rows, 2 * used].
        chosen: ValueId,
        /// How many are chosen.
        used: usize,
        /// Numbers per row of the output.
        width: usize,
        /// Where the sums go [rows, width].
        output: ValueId,
    },
    /// `target += factor * addend`.
    Add {
        /// Numbers per row.
        width: usize,
        /// Factor on what joins.
        factor: f32,
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
    /// `value *= factor`.
    Scale {
        /// The logits.
        value: ValueId,
        /// The factor.
        factor: f32,
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
    PositionScale,
    Attention,
    ShortConv,
    GatedAct,
    Route,
    ExpertLinear,
    Mix,
    Add,
    SelectRows,
    Scale,
    Softcap,
}

impl OpKind {
    /// All kinds.
    pub const ALL: [OpKind; 15] = [
        Self::Embed,
        Self::Norm,
        Self::Linear,
        Self::Rope,
        Self::PositionScale,
        Self::Attention,
        Self::ShortConv,
        Self::GatedAct,
        Self::Route,
        Self::ExpertLinear,
        Self::Mix,
        Self::Add,
        Self::SelectRows,
        Self::Scale,
        Self::Softcap,
    ];

    /// The name as people type it, in lower case with dashes.
    pub fn name(self) -> &'static str {
        match self {
            Self::Embed => "embed",
            Self::Norm => "norm",
            Self::Linear => "linear",
            Self::Rope => "rope",
            Self::PositionScale => "position-scale",
            Self::Attention => "attention",
            Self::ShortConv => "short-conv",
            Self::GatedAct => "gated-act",
            Self::Route => "route",
            Self::ExpertLinear => "expert-linear",
            Self::Mix => "mix",
            Self::Add => "add",
            Self::SelectRows => "select-rows",
            Self::Scale => "scale",
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
            Self::PositionScale { .. } => OpKind::PositionScale,
            Self::Attention { .. } => OpKind::Attention,
            Self::ShortConv { .. } => OpKind::ShortConv,
            Self::GatedAct { .. } => OpKind::GatedAct,
            Self::Route { .. } => OpKind::Route,
            Self::ExpertLinear { .. } => OpKind::ExpertLinear,
            Self::Mix { .. } => OpKind::Mix,
            Self::Add { .. } => OpKind::Add,
            Self::SelectRows { .. } => OpKind::SelectRows,
            Self::Scale { .. } => OpKind::Scale,
            Self::Softcap { .. } => OpKind::Softcap,
        }
    }

    /// The values it reads.
    pub fn reads(&self) -> Vec<ValueId> {
        match *self {
            Self::Embed { .. } => vec![],
            Self::Norm { input, .. }
            | Self::Linear { input, .. }
            | Self::ShortConv { input, .. }
            | Self::SelectRows { input, .. } => vec![input],
            Self::Rope { value, .. }
            | Self::PositionScale { value, .. }
            | Self::Scale { value, .. }
            | Self::Softcap { value, .. } => vec![value],
            Self::Route { scores, .. } => vec![scores],
            Self::ExpertLinear { input, chosen, .. } | Self::Mix { input, chosen, .. } => vec![input, chosen],
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
            | Self::ShortConv { output, .. }
            | Self::Route { output, .. }
            | Self::Mix { output, .. }
            | Self::GatedAct { output, .. }
            | Self::SelectRows { output, .. } => vec![*output],
            Self::Linear { parts, .. } | Self::ExpertLinear { parts, .. } => {
                parts.iter().map(|part| part.output).collect()
            }
            Self::Rope { value, .. }
            | Self::PositionScale { value, .. }
            | Self::Scale { value, .. }
            | Self::Softcap { value, .. } => vec![*value],
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
    /// One per layer that keeps another kind of state.
    pub states: Vec<StateConfig>,
    /// Where the logits of the wanted rows end up [wanted rows, vocab_size].
    pub logits: ValueId,
}
