//! Tiny models made up in memory: every format, and every feature of the graph.

use duan_model::Model;
use duan_model::gguf::GgufFile;
use duan_model::gguf::write::GgufWriter;
use duan_quant::{FORMATS, Format};

/// A model of the suite.
pub struct TinyModel {
    /// What it is there for.
    pub name: String,
    /// The model.
    pub model: Model,
}

/// The shape of a made-up model.
struct Shape {
    family: &'static str,
    hidden: usize,
    layers: usize,
    heads: usize,
    kv_heads: usize,
    head_dim: usize,
    intermediate: usize,
    vocabulary: usize,
    window: Option<u32>,
    bias: bool,
    softcap: Option<f32>,
}

const LLAMA: Shape = Shape {
    family: "llama",
    hidden: 256,
    layers: 1,
    heads: 4,
    kv_heads: 2,
    head_dim: 64,
    intermediate: 512,
    vocabulary: 97,
    window: None,
    bias: false,
    softcap: None,
};

/// One model for each format, then models for each feature of the graph.
pub fn models() -> Vec<TinyModel> {
    let mut all: Vec<TinyModel> = FORMATS.iter().map(|format| make(format.name, format, &LLAMA)).collect();
    let float = duan_quant::format_by_name("F32").expect("F32 is a format");
    // Widths that are no whole vectors, three query heads a key head, biases.
    let odd =
        Shape { hidden: 44, heads: 6, kv_heads: 2, head_dim: 20, intermediate: 52, bias: true, layers: 2, ..LLAMA };
    all.push(make("odd widths and biases", float, &odd));
    let eight = duan_quant::format_by_name("Q8_0").expect("Q8_0 is a format");
    let gemma = Shape {
        family: "gemma3",
        hidden: 96,
        layers: 7,
        heads: 4,
        kv_heads: 1,
        head_dim: 32,
        intermediate: 160,
        window: Some(8),
        softcap: Some(3.0),
        ..LLAMA
    };
    all.push(make("windows, norms after, norms on heads, soft-capped logits", eight, &gemma));
    all
}

/// A model whose attention is worth a sweep: two key heads, four queries each.
pub(super) fn attention(window: Option<usize>) -> TinyModel {
    let float = duan_quant::format_by_name("F32").expect("F32 is a format");
    let shape = Shape { heads: 8, window: window.map(|window| window as u32), vocabulary: 8, intermediate: 8, ..LLAMA };
    make("attention", float, &shape)
}

/// Numbers in -1..1 that look random and are the same everywhere (splitmix64).
pub(super) fn noise(index: u64) -> f32 {
    let mut x = index.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((x ^ (x >> 31)) >> 40) as f32 / (1u64 << 23) as f32 - 1.0
}

fn make(name: &str, format: &'static Format, shape: &Shape) -> TinyModel {
    let file = GgufFile::from_bytes(write(format, shape), name).unwrap_or_else(|error| panic!("{error}"));
    TinyModel { name: name.to_owned(), model: Model::from_gguf(&file).unwrap_or_else(|error| panic!("{error}")) }
}

/// Tensors go into the file as they are asked for.
struct Tensors {
    writer: GgufWriter<'static>,
    format: &'static Format,
    seed: u64,
}

impl Tensors {
    fn matrix(&mut self, name: &str, rows: usize, columns: usize) {
        let bytes = weights(self.format, rows, columns, &mut self.seed);
        let added = self.writer.tensor(name, &[columns as u64, rows as u64], self.format.gguf_id, bytes);
        added.unwrap_or_else(|error| panic!("{error}"));
    }

    fn vector(&mut self, name: &str, length: usize, around: f32) {
        let values = (0..length).map(|index| around + 0.5 * noise(self.seed + index as u64));
        let bytes: Vec<u8> = values.flat_map(f32::to_le_bytes).collect();
        self.seed += length as u64;
        let added = self.writer.tensor(name, &[length as u64], 0, bytes);
        added.unwrap_or_else(|error| panic!("{error}"));
    }
}

fn write(format: &'static Format, shape: &Shape) -> Vec<u8> {
    let mut writer = GgufWriter::new("a made-up model");
    keys(&mut writer, shape).unwrap_or_else(|error| panic!("{error}"));
    let mut tensors = Tensors { writer, format, seed: u64::from(format.gguf_id) << 32 };
    let (hidden, query, kv) = (shape.hidden, shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim);
    tensors.matrix("token_embd.weight", shape.vocabulary, hidden);
    tensors.vector("output_norm.weight", hidden, 1.0);
    for layer in 0..shape.layers {
        let name = |part: &str| format!("blk.{layer}.{part}");
        let matrices = [
            ("attn_q", query, hidden),
            ("attn_k", kv, hidden),
            ("attn_v", kv, hidden),
            ("attn_output", hidden, query),
            ("ffn_gate", shape.intermediate, hidden),
            ("ffn_up", shape.intermediate, hidden),
            ("ffn_down", hidden, shape.intermediate),
        ];
        for (part, rows, columns) in matrices {
            tensors.matrix(&name(&format!("{part}.weight")), rows, columns);
            if shape.bias {
                tensors.vector(&name(&format!("{part}.bias")), rows, 0.0);
            }
        }
        tensors.vector(&name("attn_norm.weight"), hidden, 1.0);
        tensors.vector(&name("ffn_norm.weight"), hidden, 1.0);
        if shape.family == "gemma3" {
            tensors.vector(&name("attn_q_norm.weight"), shape.head_dim, 1.0);
            tensors.vector(&name("attn_k_norm.weight"), shape.head_dim, 1.0);
            tensors.vector(&name("post_attention_norm.weight"), hidden, 1.0);
            tensors.vector(&name("post_ffw_norm.weight"), hidden, 1.0);
        }
    }
    tensors.writer.to_bytes()
}

fn keys(writer: &mut GgufWriter<'_>, shape: &Shape) -> Result<(), Box<duan_model::Error>> {
    let key = |name: &str| format!("{}.{name}", shape.family);
    writer.key("general.architecture", shape.family.to_owned())?;
    let numbers = [
        ("embedding_length", shape.hidden),
        ("block_count", shape.layers),
        ("context_length", 2048),
        ("feed_forward_length", shape.intermediate),
        ("attention.head_count", shape.heads),
        ("attention.head_count_kv", shape.kv_heads),
        ("attention.key_length", shape.head_dim),
        ("attention.value_length", shape.head_dim),
    ];
    for (name, number) in numbers {
        writer.key(&key(name), number as u32)?;
    }
    writer.key(&key("attention.layer_norm_rms_epsilon"), 1e-5f32)?;
    if let Some(window) = shape.window {
        writer.key(&key("attention.sliding_window"), window)?;
    }
    if let Some(softcap) = shape.softcap {
        writer.key(&key("final_logit_softcapping"), softcap)?;
    }
    Ok(())
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
        half = half::f16::from_f32(half.to_f32() * 0.5);
    }
}

/// Writes `half` wherever a block of a format that is only read has a half float.
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
        "TQ1_0" => &[52],
        "TQ2_0" => &[64],
        other => panic!("the suite does not know where {other} keeps its half floats; add a line here"),
    };
    for &at in places {
        block[at..at + 2].copy_from_slice(&half.to_le_bytes());
    }
}
