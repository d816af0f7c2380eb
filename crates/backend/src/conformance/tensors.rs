//! The tensors of a made-up model: what its configuration asks for, in one format, with numbers that are the same
//! everywhere.

use duan_model::config::{AttentionConfig, ExpertsConfig, Mixer, Mlp, MlpConfig, ModelConfig, NormKind, QkNorm};
use duan_model::gguf::write::GgufWriter;
use duan_quant::Format;

/// Numbers in -1..1 that look random and are the same everywhere (splitmix64).
pub(super) fn noise(index: u64) -> f32 {
    let mut x = index.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((x ^ (x >> 31)) >> 40) as f32 / (1u64 << 23) as f32 - 1.0
}

/// Type id of F32 in GGUF files.
const F32_ID: u32 = 0;

/// Tensors go into the file as they are asked for.
struct Tensors {
    writer: GgufWriter<'static>,
    format: &'static Format,
    id: u32,
    norm: NormKind,
    seed: u64,
}

/// A file with every tensor that `config` asks for, matrices in `format`; in F32 where GGUF does not know the format.
pub(super) fn write(format: &'static Format, config: &ModelConfig) -> Vec<u8> {
    let mut writer = GgufWriter::new("a made-up model");
    let added = writer.key("general.architecture", config.family.to_owned());
    added.unwrap_or_else(|error| panic!("{error}"));
    let f32_format = duan_quant::format_by_gguf_id(F32_ID).expect("F32 is a format");
    let (format, id) = format.gguf_id.map_or((f32_format, F32_ID), |id| (format, id));
    let mut tensors = Tensors { writer, format, id, norm: config.norm.kind, seed: u64::from(id) << 32 };
    let hidden = config.hidden_size;
    tensors.matrix("token_embd", &[hidden, config.vocab_size], false);
    if !config.tied_head {
        tensors.matrix("output", &[hidden, config.vocab_size], false);
    }
    tensors.norm(config.final_norm, hidden);
    for (index, layer) in config.layers.iter().enumerate() {
        let prefix = format!("blk.{index}.");
        if layer.norm_before {
            tensors.norm(&format!("{prefix}attn_norm"), hidden);
            if !layer.parallel {
                tensors.norm(&format!("{prefix}ffn_norm"), hidden);
            }
        }
        if layer.norm_after {
            tensors.norm(&format!("{prefix}post_attention_norm"), hidden);
            tensors.norm(&format!("{prefix}post_ffw_norm"), hidden);
        }
        match &layer.mixer {
            Mixer::Attention(attention) => tensors.attention(&prefix, hidden, attention),
            Mixer::ShortConv(conv) => {
                tensors.matrix(&format!("{prefix}shortconv.in_proj"), &[hidden, 3 * hidden], false);
                tensors.vector(&format!("{prefix}shortconv.conv.weight"), &[conv.taps, hidden], 0.2);
                tensors.matrix(&format!("{prefix}shortconv.out_proj"), &[hidden, hidden], false);
            }
        }
        match &layer.mlp {
            Mlp::Gated(mlp) => tensors.gated(&prefix, "", hidden, mlp),
            Mlp::Experts(experts) => tensors.experts(&prefix, hidden, experts),
        }
    }
    tensors.writer.to_bytes()
}

impl Tensors {
    fn attention(&mut self, prefix: &str, hidden: usize, attention: &AttentionConfig) {
        let AttentionConfig { heads, kv_heads, key_dim, value_dim, qkv_bias, .. } = *attention;
        let (query, key, value) = (heads * key_dim, kv_heads * key_dim, kv_heads * value_dim);
        if attention.fused_qkv {
            self.matrix(&format!("{prefix}attn_qkv"), &[hidden, query + key + value], qkv_bias);
        } else {
            for (part, rows) in [("attn_q", query), ("attn_k", key), ("attn_v", value)] {
                self.matrix(&format!("{prefix}{part}"), &[hidden, rows], qkv_bias);
            }
        }
        if attention.sinks {
            self.vector(&format!("{prefix}attn_sinks.weight"), &[heads], 0.5);
        }
        self.matrix(&format!("{prefix}attn_output"), &[heads * value_dim, hidden], attention.output_bias);
        for (part, heads) in [("attn_q_norm", heads), ("attn_k_norm", kv_heads)] {
            let name = format!("{prefix}{part}.weight");
            match attention.qk_norm {
                None => {}
                Some(QkNorm::PerHead) => self.vector(&name, &[key_dim], 1.0),
                Some(QkNorm::OwnPerHead) => self.vector(&name, &[key_dim, heads], 1.0),
                Some(QkNorm::Whole) => self.vector(&name, &[key_dim * heads], 1.0),
            }
        }
    }

    fn gated(&mut self, prefix: &str, suffix: &str, hidden: usize, mlp: &MlpConfig) {
        let inner = mlp.intermediate_size;
        if mlp.fused_gate {
            self.matrix(&format!("{prefix}ffn_up{suffix}"), &[hidden, 2 * inner], mlp.bias);
        } else {
            self.matrix(&format!("{prefix}ffn_gate{suffix}"), &[hidden, inner], mlp.bias);
            self.matrix(&format!("{prefix}ffn_up{suffix}"), &[hidden, inner], mlp.bias);
        }
        self.matrix(&format!("{prefix}ffn_down{suffix}"), &[inner, hidden], mlp.bias);
    }

    fn experts(&mut self, prefix: &str, hidden: usize, config: &ExpertsConfig) {
        let (experts, inner) = (config.experts, config.intermediate_size);
        self.matrix(&format!("{prefix}ffn_gate_inp"), &[hidden, experts], false);
        self.matrix(&format!("{prefix}ffn_gate_exps"), &[hidden, inner, experts], false);
        self.matrix(&format!("{prefix}ffn_up_exps"), &[hidden, inner, experts], false);
        self.matrix(&format!("{prefix}ffn_down_exps"), &[inner, hidden, experts], false);
        if let Some(shared) = &config.shared {
            self.gated(prefix, "_shexp", hidden, shared);
        }
    }

    /// A matrix of dimensions `dims`, fastest first, and perhaps its bias.
    fn matrix(&mut self, name: &str, dims: &[usize], bias: bool) {
        let (columns, rows) = (dims[0], dims[1..].iter().product());
        let bytes = weights(self.format, rows, columns, &mut self.seed);
        self.add(&format!("{name}.weight"), dims, self.id, bytes);
        if bias {
            self.vector(&format!("{name}.bias"), &[rows], 0.0);
        }
    }

    fn norm(&mut self, name: &str, width: usize) {
        self.vector(&format!("{name}.weight"), &[width], 1.0);
        if self.norm == NormKind::Layer {
            self.vector(&format!("{name}.bias"), &[width], 0.0);
        }
    }

    /// Floats around a number.
    fn vector(&mut self, name: &str, dims: &[usize], around: f32) {
        let length = dims.iter().product::<usize>() as u64;
        let values = (0..length).map(|index| around + 0.5 * noise(self.seed + index));
        let bytes: Vec<u8> = values.flat_map(f32::to_le_bytes).collect();
        self.seed += length;
        self.add(name, dims, F32_ID, bytes);
    }

    fn add(&mut self, name: &str, dims: &[usize], format: u32, bytes: Vec<u8>) {
        let dims: Vec<u64> = dims.iter().map(|&dim| dim as u64).collect();
        let added = self.writer.tensor(name, &dims, format, bytes);
        added.unwrap_or_else(|error| panic!("{error}"));
    }
}

/// Weights of order 1 / sqrt(columns), so that values stay of order 1 through the layers.
fn weights(format: &Format, rows: usize, columns: usize, seed: &mut u64) -> Vec<u8> {
    let row_bytes = format.row_bytes(columns).unwrap_or_else(|| panic!("{columns} columns in {}", format.name));
    let mut bytes = vec![0; rows * row_bytes];
    let scale = 1.5 / (columns as f32).sqrt();
    match format.quantize {
        Some(quantize) => {
            let values: Vec<f32> = (0..rows * columns).map(|index| scale * noise(*seed + index as u64)).collect();
            quantize(&values, &mut bytes);
        }
        // Formats that are only read: any bytes are codes; the half floats among them are set to fit.
        None => {
            for (index, byte) in bytes.iter_mut().enumerate() {
                *byte = (noise(*seed + index as u64) * 128.0) as i32 as u8;
            }
            for block in bytes.chunks_exact_mut(format.block_bytes) {
                tame(format, block, scale);
            }
        }
    }
    *seed += (rows * columns) as u64;
    bytes
}

/// Halves the scale of a block of random bytes until the scalar codec says that its weights are small enough.
fn tame(format: &Format, block: &mut [u8], scale: f32) {
    let mut values = vec![0.0; format.block_weights];
    let mut half = half::f16::ONE;
    loop {
        set_scales(format.name, block, half);
        (format.dequantize)(block, &mut values);
        if values.iter().all(|value| value.abs() <= 2.0 * scale) {
            return;
        }
        assert!(half > half::f16::ZERO, "{} stays too large: does set_scales set all its scales?", format.name);
        half = half::f16::from_f32(half.to_f32() * 0.5);
    }
}

/// Writes `half` wherever a block of a format that is only read has a scale.
fn set_scales(format: &str, block: &mut [u8], half: half::f16) {
    let places: &[usize] = match format {
        "Q2_K" => &[80, 82],
        "Q3_K" => &[108],
        "Q4_K" | "Q5_K" => &[0, 2],
        "Q6_K" => &[208],
        "IQ1_S" | "IQ2_XXS" | "IQ2_XS" | "IQ2_S" | "IQ3_XXS" | "IQ3_S" | "IQ4_NL" | "IQ4_XS" => &[0],
        "IQ1_M" => {
            // A quarter of it stands in the top four bits of each of four u16.
            for (quarter, packed) in block[48..].chunks_exact_mut(2).enumerate() {
                let bits = (half.to_bits() >> (4 * quarter) & 15) as u8;
                packed[1] = packed[1] & 15 | bits << 4;
            }
            return;
        }
        "NVFP4" => {
            // Floats with an exponent as wide as a half's less one bit, and the first three bits of its mantissa.
            let byte = half::f16::from_f32(half.to_f32() / 256.0).to_bits() >> 7;
            block[..4].fill(byte as u8);
            return;
        }
        "TQ1_0" => &[52],
        "TQ2_0" => &[64],
        other => panic!("the suite does not know where {other} keeps its scales; add a line here"),
    };
    for &at in places {
        block[at..at + 2].copy_from_slice(&half.to_le_bytes());
    }
}
