//! The recorder: [`record`] reads like the forward pass itself.

use super::{CacheConfig, Graph, LinearPart, Node, Op, StateConfig, Value, ValueId};
use crate::config::{
    AttentionConfig, ExpertsConfig, LayerConfig, Mixer, Mlp, MlpConfig, ModelConfig, QkNorm, ShortConvConfig,
};
use crate::error::Result;
use crate::weights::Binder;

/// The registers of the pass, by what they hold. Those that no layer needs are 0 wide.
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
    convolved: ValueId,
    scores: ValueId,
    chosen: ValueId,
    expert_results: ValueId,
    shared: ValueId,
    selected: ValueId,
    logits: ValueId,
}

struct Recorder<'a, 'f> {
    config: &'a ModelConfig,
    binder: &'a mut Binder<'f>,
    nodes: Vec<Node>,
    caches: Vec<CacheConfig>,
    states: Vec<StateConfig>,
    registers: Registers,
    layer: Option<usize>,
}

/// A matrix of an [`Op::Linear`]: rows of a tensor, and where their result goes.
struct Part {
    /// The tensor's name without `.weight`.
    tensor: String,
    /// Rows of the tensor before these.
    before: usize,
    /// Rows, and width of the result.
    rows: usize,
    /// Rows of the tensor in all.
    total: usize,
    /// Whether `.bias` is added.
    bias: bool,
    output: ValueId,
}

impl Part {
    /// A tensor of its own.
    fn whole(tensor: String, rows: usize, bias: bool, output: ValueId) -> Self {
        Self { tensor, before: 0, rows, total: rows, bias, output }
    }

    /// Several matrices below each other in one tensor: (rows, output) of each.
    fn fused<const N: usize>(tensor: &str, bias: bool, parts: [(usize, ValueId); N]) -> [Self; N] {
        let total = parts.iter().map(|part| part.0).sum();
        let mut before = 0;
        parts.map(|(rows, output)| {
            let part = Self { tensor: tensor.to_owned(), before, rows, total, bias, output };
            before += rows;
            part
        })
    }
}

/// Records the forward pass of `config`, binding each weight by its GGUF name as it is met.
///
/// # Errors
/// When a tensor is missing or has another shape than the configuration says.
pub fn record(config: &ModelConfig, binder: &mut Binder<'_>) -> Result<Graph> {
    let (values, registers) = registers_for(config);
    let logits = registers.logits;
    let mut recorder =
        Recorder { config, binder, nodes: Vec::new(), caches: Vec::new(), states: Vec::new(), registers, layer: None };
    recorder.forward()?;
    let Recorder { nodes, caches, states, .. } = recorder;
    Ok(Graph { nodes, values, caches, states, logits })
}

impl Recorder<'_, '_> {
    /// The forward pass.
    fn forward(&mut self) -> Result<()> {
        let config = self.config;
        let table = self.binder.matrix("token_embd.weight", config.vocab_size, config.hidden_size)?;
        let Registers { stream, normed, selected, logits, .. } = self.registers;
        self.push(Op::Embed { table, scale: config.embedding_scale, output: stream }); // stream [rows, hidden_size]

        for (index, layer) in config.layers.iter().enumerate() {
            self.layer = Some(index);
            assert!(
                layer.norm_before || !layer.parallel,
                "what both halves would read is the stream that one of them changes"
            );
            let input = if layer.norm_before { normed } else { stream };
            if layer.norm_before {
                self.norm(&format!("blk.{index}.attn_norm"), config.hidden_size, stream, normed)?;
            }
            match &layer.mixer {
                Mixer::Attention(attention) => self.attention(index, attention, input)?,
                Mixer::ShortConv(conv) => self.short_conv(index, conv, input)?,
            }
            self.join(&format!("blk.{index}.post_attention_norm"), layer)?;

            if layer.norm_before && !layer.parallel {
                self.norm(&format!("blk.{index}.ffn_norm"), config.hidden_size, stream, normed)?;
            }
            match &layer.mlp {
                Mlp::Gated(mlp) => self.gated(index, "", mlp, input, self.registers.projected)?,
                Mlp::Experts(experts) => self.experts(index, experts, input)?,
            }
            self.join(&format!("blk.{index}.post_ffw_norm"), layer)?;
        }
        self.layer = None;

        self.push(Op::SelectRows { input: stream, output: selected }); // selected [wanted rows, hidden_size]
        self.norm(config.final_norm, config.hidden_size, selected, selected)?;
        let head = if config.tied_head { "token_embd" } else { "output" };
        self.linear(selected, config.hidden_size, [Part::whole(head.into(), config.vocab_size, false, logits)])?; // logits [wanted rows, vocab_size]
        if config.logit_scale != 1.0 {
            self.push(Op::Scale { value: logits, factor: config.logit_scale });
        }
        if let Some(cap) = config.logit_softcap {
            self.push(Op::Softcap { value: logits, cap });
        }
        Ok(())
    }

    /// `stream += projected`, which is normalized first where the layer does that.
    fn join(&mut self, norm: &str, layer: &LayerConfig) -> Result<()> {
        let Registers { stream, projected, .. } = self.registers;
        let width = self.config.hidden_size;
        if layer.norm_after {
            self.norm(norm, width, projected, projected)?;
        }
        self.push(Op::Add { width, target: stream, addend: projected, factor: layer.residual_scale });
        Ok(())
    }

    /// `projected = attention(input)`.
    fn attention(&mut self, index: usize, attention: &AttentionConfig, input: ValueId) -> Result<()> {
        let AttentionConfig { heads, kv_heads, key_dim, value_dim, qkv_bias, .. } = *attention;
        let hidden = self.config.hidden_size;
        let name = |part: &str| format!("blk.{index}.{part}");
        let Registers { query, key, value, attended, projected, .. } = self.registers;
        // query [rows, heads * key_dim], key [rows, kv_heads * key_dim], value [rows, kv_heads * value_dim]
        let widths = [heads * key_dim, kv_heads * key_dim, kv_heads * value_dim];
        let outputs = [(widths[0], query), (widths[1], key), (widths[2], value)];
        if attention.fused_qkv {
            self.linear(input, hidden, Part::fused(&name("attn_qkv"), qkv_bias, outputs))?;
        } else {
            let names = ["attn_q", "attn_k", "attn_v"];
            let part = |at: usize| Part::whole(name(names[at]), outputs[at].0, qkv_bias, outputs[at].1);
            self.linear(input, hidden, [part(0), part(1), part(2)])?;
        }
        if let Some(kind) = attention.qk_norm {
            self.qk_norm(&name("attn_q_norm"), kind, heads, key_dim, query)?;
            self.qk_norm(&name("attn_k_norm"), kind, kv_heads, key_dim, key)?;
        }
        if let Some(rope) = attention.rope {
            self.push(Op::Rope { value: query, heads, head_dim: key_dim, rope });
            self.push(Op::Rope { value: key, heads: kv_heads, head_dim: key_dim, rope });
        }
        if let Some(temperature) = attention.temperature {
            self.push(Op::PositionScale { value: query, width: heads * key_dim, temperature });
        }

        let cache = self.caches.len();
        let window = attention.window;
        self.caches.push(CacheConfig { layer: index, kv_heads, key_dim, value_dim, window });
        let sinks = name("attn_sinks.weight");
        let sinks = attention.sinks.then(|| self.binder.vector(&sinks, &[heads])).transpose()?;
        let AttentionConfig { scale, softcap, .. } = *attention;
        self.push(Op::Attention { query, key, value, output: attended, heads, scale, softcap, sinks, cache }); // attended [rows, heads * value_dim]

        let output = Part::whole(name("attn_output"), hidden, attention.output_bias, projected);
        self.linear(attended, heads * value_dim, [output]) // projected [rows, hidden_size]
    }

    fn qk_norm(&mut self, name: &str, kind: QkNorm, heads: usize, key_dim: usize, value: ValueId) -> Result<()> {
        let width = heads * key_dim;
        let (dims, groups): (&[usize], usize) = match kind {
            QkNorm::PerHead => (&[key_dim], heads),
            QkNorm::OwnPerHead => (&[key_dim, heads], heads),
            QkNorm::Whole => (&[width], 1),
        };
        self.norm_of(name, dims, width, groups, value, value)
    }

    /// `projected = output(c * conv(b * x))`.
    fn short_conv(&mut self, index: usize, conv: &ShortConvConfig, input: ValueId) -> Result<()> {
        let width = self.config.hidden_size;
        let taps = conv.taps;
        let name = |part: &str| format!("blk.{index}.shortconv.{part}");
        let Registers { convolved, attended, projected, .. } = self.registers;
        self.linear(input, width, [Part::whole(name("in_proj"), 3 * width, false, convolved)])?; // convolved [rows, 3 * hidden_size]
        let kernel = self.binder.vector(&name("conv.weight"), &[taps, width])?;
        let state = self.states.len();
        self.states.push(StateConfig { layer: index, width: (taps - 1) * width });
        self.push(Op::ShortConv { input: convolved, kernel, taps, width, state, output: attended }); // attended [rows, hidden_size]
        self.linear(attended, width, [Part::whole(name("out_proj"), width, false, projected)])
    }

    /// `output = down(activation(gate(input)) * up(input))`; the tensors' names end in `suffix`.
    fn gated(&mut self, index: usize, suffix: &str, mlp: &MlpConfig, input: ValueId, output: ValueId) -> Result<()> {
        let (hidden, inner) = (self.config.hidden_size, mlp.intermediate_size);
        let name = |part: &str| format!("blk.{index}.{part}{suffix}");
        let Registers { gate, up, .. } = self.registers;
        // gate and up [rows, intermediate_size]
        if mlp.fused_gate {
            self.linear(input, hidden, Part::fused(&name("ffn_up"), mlp.bias, [(inner, gate), (inner, up)]))?;
        } else {
            let parts = [("ffn_gate", gate), ("ffn_up", up)];
            self.linear(input, hidden, parts.map(|(part, output)| Part::whole(name(part), inner, mlp.bias, output)))?;
        }
        self.push(Op::GatedAct { gate, up, width: inner, output: gate, activation: mlp.activation });
        self.linear(gate, inner, [Part::whole(name("ffn_down"), hidden, mlp.bias, output)])
    }

    /// `projected = sum of the chosen experts' weighted results`, and the shared expert's where there is one.
    fn experts(&mut self, index: usize, config: &ExpertsConfig, input: ValueId) -> Result<()> {
        let ExpertsConfig { experts, used, intermediate_size: inner, activation, normalize, .. } = *config;
        let hidden = self.config.hidden_size;
        let name = |part: &str| format!("blk.{index}.{part}");
        let Registers { gate, up, projected, scores, chosen, expert_results, shared, .. } = self.registers;
        self.linear(input, hidden, [Part::whole(name("ffn_gate_inp"), experts, false, scores)])?; // scores [rows, experts]
        self.push(Op::Route { scores, experts, used, normalize, output: chosen }); // chosen [rows, 2 * used]

        let mut part = |tensor: &str, rows: usize, columns: usize, output: ValueId| {
            let matrix = self.binder.experts(&name(tensor), experts, rows, columns)?;
            Ok(LinearPart { matrix, bias: None, output })
        };
        let inner_parts =
            vec![part("ffn_gate_exps.weight", inner, hidden, gate)?, part("ffn_up_exps.weight", inner, hidden, up)?];
        let down = part("ffn_down_exps.weight", hidden, inner, expert_results)?;
        // gate and up [rows, used, intermediate_size], expert_results [rows, used, hidden_size]
        self.push(Op::ExpertLinear { input, input_per_choice: false, chosen, experts, used, parts: inner_parts });
        self.push(Op::GatedAct { gate, up, width: used * inner, output: gate, activation });
        let parts = vec![down];
        self.push(Op::ExpertLinear { input: gate, input_per_choice: true, chosen, experts, used, parts });
        self.push(Op::Mix { input: expert_results, chosen, used, width: hidden, output: projected });
        if let Some(mlp) = &config.shared {
            self.gated(index, "_shexp", mlp, input, shared)?;
            self.push(Op::Add { width: hidden, target: projected, addend: shared, factor: 1.0 });
        }
        Ok(())
    }

    /// A norm over whole rows of `width`.
    fn norm(&mut self, name: &str, width: usize, input: ValueId, output: ValueId) -> Result<()> {
        self.norm_of(name, &[width], width, 1, input, output)
    }

    /// A norm whose weight has dimensions `dims`, fastest first.
    fn norm_of(
        &mut self,
        name: &str,
        dims: &[usize],
        width: usize,
        groups: usize,
        input: ValueId,
        output: ValueId,
    ) -> Result<()> {
        let weight = self.binder.vector(&format!("{name}.weight"), dims)?;
        let bias_name = format!("{name}.bias");
        let bias = self.binder.has(&bias_name).then(|| self.binder.vector(&bias_name, dims)).transpose()?;
        self.push(Op::Norm { input, weight, bias, width, groups, norm: self.config.norm, output });
        Ok(())
    }

    /// One op for all matrices that read `input` [rows, columns].
    fn linear<const N: usize>(&mut self, input: ValueId, columns: usize, parts: [Part; N]) -> Result<()> {
        let parts = parts.into_iter().map(|part| {
            let rows = part.before..part.before + part.rows;
            let weight = format!("{}.weight", part.tensor);
            let matrix = self.binder.matrix_rows(&weight, part.total, columns, rows.clone())?;
            let bias = format!("{}.bias", part.tensor);
            let bias = part.bias.then(|| self.binder.vector_part(&bias, part.total, rows)).transpose()?;
            Ok(LinearPart { matrix, bias, output: part.output })
        });
        let parts = parts.collect::<Result<Vec<_>>>()?;
        self.push(Op::Linear { input, parts });
        Ok(())
    }

    fn push(&mut self, op: Op) {
        self.nodes.push(Node { layer: self.layer, op });
    }
}

/// One register for each role, as wide as the widest layer needs.
fn registers_for(config: &ModelConfig) -> (Vec<Value>, Registers) {
    let widest = |width: &dyn Fn(&LayerConfig) -> usize| config.layers.iter().map(width).max().unwrap_or(0);
    let attention = |width: fn(&AttentionConfig) -> usize| widest(&|layer| layer.attention().map_or(0, width));
    let experts = |width: &dyn Fn(&ExpertsConfig) -> usize| {
        widest(&|layer| if let Mlp::Experts(experts) = &layer.mlp { width(experts) } else { 0 })
    };
    let hidden = config.hidden_size;
    let conv = widest(&|layer| if matches!(layer.mixer, Mixer::ShortConv(_)) { hidden } else { 0 });
    let shared = experts(&|experts| experts.shared.as_ref().map_or(0, |mlp| mlp.intermediate_size));
    let dense = widest(&|layer| if let Mlp::Gated(mlp) = &layer.mlp { mlp.intermediate_size } else { 0 });
    let inner = dense.max(shared).max(experts(&|experts| experts.used * experts.intermediate_size));
    let mut values = Vec::new();
    let mut register = |name, width, wanted_rows_only| {
        values.push(Value { name, width, wanted_rows_only });
        ValueId(values.len() as u32 - 1)
    };
    let registers = Registers {
        stream: register("stream", hidden, false),
        normed: register("normed", hidden, false),
        query: register("query", attention(|attention| attention.heads * attention.key_dim), false),
        key: register("key", attention(|attention| attention.kv_heads * attention.key_dim), false),
        value: register("value", attention(|attention| attention.kv_heads * attention.value_dim), false),
        attended: register("attended", attention(|attention| attention.heads * attention.value_dim).max(conv), false),
        projected: register("projected", hidden, false),
        gate: register("gate", inner, false),
        up: register("up", inner, false),
        convolved: register("convolved", 3 * conv, false),
        scores: register("scores", experts(&|experts| experts.experts), false),
        chosen: register("chosen", experts(&|experts| 2 * experts.used), false),
        expert_results: register("expert results", experts(&|experts| experts.used * hidden), false),
        shared: register("shared", if shared > 0 { hidden } else { 0 }, false),
        selected: register("selected", hidden, true),
        logits: register("logits", config.vocab_size, true),
    };
    (values, registers)
}
