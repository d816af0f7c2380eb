//! The tensors of a shape, by the names that GGUF files have.

use duan_quant::{Format, format_by_name};

use super::mix::{Mix, Role};
use super::shapes::Shape;

/// What a tensor holds.
pub(super) enum Content {
    /// These numbers.
    Floats(Vec<f32>),
    /// Random weights.
    Random,
}

/// A tensor of the file.
pub(super) struct Tensor {
    pub(super) name: String,
    /// The fastest first.
    pub(super) dims: Vec<u64>,
    pub(super) format: &'static Format,
    pub(super) content: Content,
}

/// All tensors of a model, in the order in which a forward pass reads them.
pub(super) fn tensors(shape: &Shape, mix: &Mix) -> Vec<Tensor> {
    let list = List { shape, mix, layer: 0, tensors: Vec::new() };
    list.model()
}

struct List<'a> {
    shape: &'a Shape,
    mix: &'a Mix,
    layer: usize,
    tensors: Vec<Tensor>,
}

impl List<'_> {
    fn model(mut self) -> Vec<Tensor> {
        let shape = self.shape;
        let (hidden, tokens) = (shape.hidden_size, shape.vocabulary.tokens);
        self.matrix("token_embd.weight".into(), Role::Vocabulary, tokens, hidden);
        for (name, divisors) in shape.rope_tensors() {
            self.floats(name.into(), divisors);
        }
        for layer in 0..shape.layers {
            self.layer = layer;
            self.attention();
            self.mlp();
        }
        self.floats("output_norm.weight".into(), vec![1.0; hidden]);
        if !shape.tied {
            self.matrix("output.weight".into(), Role::Vocabulary, tokens, hidden);
        }
        self.tensors
    }

    fn attention(&mut self) {
        let &Shape { hidden_size: hidden, heads, kv_heads, head_dim, qkv_bias, qk_norm, post_norms, fused, .. } =
            self.shape;
        let (query, key) = (heads * head_dim, kv_heads * head_dim);
        self.norm("attn_norm", hidden);
        let parts = if fused {
            vec![("attn_qkv", Role::FusedQkv, query + 2 * key)]
        } else {
            vec![("attn_q", Role::Plain, query), ("attn_k", Role::Plain, key), ("attn_v", Role::Sensitive, key)]
        };
        for (name, role, rows) in parts {
            self.matrix(self.own(&format!("{name}.weight")), role, rows, hidden);
            if qkv_bias {
                let (name, dims) = (self.own(&format!("{name}.bias")), vec![rows as u64]);
                self.tensors.push(Tensor { name, dims, format: f32_format(), content: Content::Random });
            }
        }
        if qk_norm {
            self.norm("attn_q_norm", head_dim);
            self.norm("attn_k_norm", head_dim);
        }
        self.matrix(self.own("attn_output.weight"), Role::Plain, hidden, query);
        if post_norms {
            self.norm("post_attention_norm", hidden);
        }
    }

    fn mlp(&mut self) {
        let &Shape { hidden_size: hidden, intermediate_size: inner, post_norms, fused, .. } = self.shape;
        self.norm("ffn_norm", hidden);
        if fused {
            self.matrix(self.own("ffn_up.weight"), Role::Plain, 2 * inner, hidden);
        } else {
            self.matrix(self.own("ffn_gate.weight"), Role::Plain, inner, hidden);
            self.matrix(self.own("ffn_up.weight"), Role::Plain, inner, hidden);
        }
        self.matrix(self.own("ffn_down.weight"), Role::Sensitive, hidden, inner);
        if post_norms {
            self.norm("post_ffw_norm", hidden);
        }
    }

    fn own(&self, name: &str) -> String {
        format!("blk.{}.{name}", self.layer)
    }

    fn matrix(&mut self, name: String, role: Role, rows: usize, columns: usize) {
        let format = self.mix.format_of(role, self.layer, self.shape.layers, columns);
        let dims = vec![columns as u64, rows as u64];
        self.tensors.push(Tensor { name, dims, format, content: Content::Random });
    }

    fn norm(&mut self, name: &str, width: usize) {
        self.floats(self.own(&format!("{name}.weight")), vec![1.0; width]);
    }

    fn floats(&mut self, name: String, values: Vec<f32>) {
        let dims = vec![values.len() as u64];
        self.tensors.push(Tensor { name, dims, format: f32_format(), content: Content::Floats(values) });
    }
}

fn f32_format() -> &'static Format {
    format_by_name("F32").expect("F32 is a format")
}
