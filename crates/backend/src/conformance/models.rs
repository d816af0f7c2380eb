//! Tiny models made up in memory: every format, and every feature of the graph.
//!
//! They are made from configurations and not by the families of [`duan_model::families`], so that features can stand
//! together that no family has.

use std::sync::Arc;

use duan_model::Model;
use duan_model::bytes::SharedBytes;
use duan_model::checkpoint::Checkpoint;
use duan_model::config::{
    ActivationFunction, AttentionConfig, ExpertsConfig, LayerConfig, LongRope, Mixer, Mlp, MlpConfig, ModelConfig,
    NormConfig, NormKind, QkNorm, RopeConfig, RopeScaling, RopeStyle, ShortConvConfig, Temperature,
};
use duan_model::gguf::GgufFile;
use duan_model::graph::record;
use duan_model::weights::{Binder, Matrix};
use duan_quant::{Activation, FORMATS, Format};

use super::tensors::write;

/// A model of the suite.
pub struct TinyModel {
    /// What it is there for.
    pub name: String,
    /// Whether that is the format of its weights only.
    pub is_for_format: bool,
    /// The model.
    pub model: Model,
}

/// One model for each format, then models for each feature of the graph.
pub fn models() -> Vec<TinyModel> {
    let plain = || config(256, vec![layer(attention(4, 2, 64), 512)]);
    // Of integers in groups one size stands for all: sizes differ in a count of a loop.
    let formats = FORMATS.iter().filter(|format| format.gguf_id.is_some() || format.name.contains("-g64"));
    let mut all: Vec<TinyModel> = formats.map(|format| make(format.name, format, plain())).collect();
    all.iter_mut().for_each(|tiny| tiny.is_for_format = true);
    let float = format("F32");
    all.push(make("odd widths and biases", float, odd()));
    all.push(make("windows, norms after, norms on heads, capped scores and logits", format("Q8_0"), capped()));
    all.push(make("layer norms, norms of each head, two halves side by side, a part rotated", float, side_by_side()));
    all.push(make("fused matrices, factors, two rotary lists, growing queries", format("Q4_K"), scaled()));
    all.push(make("sinks, with a window and without", float, sunk()));
    all.push(ordered(
        "orders of columns",
        format("int4-g64-zp"),
        config(256, vec![layer(attention(4, 2, 64), 512); 3]),
    ));
    all.push(ordered("orders of columns before experts", format("int4-g32"), experts()));
    for name in ["F32", "Q4_0", "Q6_K"] {
        all.push(make(&format!("experts in {name}"), format(name), experts()));
    }
    all.push(make("short convolutions", format("Q4_0"), convolutions(64)));
    all.push(make("short convolutions of odd width", float, convolutions(44)));
    all
}

/// A model whose attention is worth a sweep: two key heads, four queries each.
pub(super) fn attention_model(window: Option<usize>, sinks: bool) -> TinyModel {
    let attention = AttentionConfig { window, sinks, ..attention(8, 2, 64) };
    let config = ModelConfig { vocab_size: 8, ..config(256, vec![layer(attention, 8)]) };
    make("attention", format("F32"), config)
}

/// A model that keeps state.
pub(super) fn state_model() -> TinyModel {
    make("state", format("F32"), convolutions(44))
}

fn format(name: &str) -> &'static Format {
    duan_quant::format_by_name(name).unwrap_or_else(|| panic!("{name} is a format"))
}

fn make(name: &str, format: &'static Format, config: ModelConfig) -> TinyModel {
    let fail = |error: duan_model::Error| -> ! { panic!("{name}: {error}") };
    let file = GgufFile::from_bytes(write(format, &config), name).unwrap_or_else(|error| fail(error));
    let checkpoint = Checkpoint::from(&file);
    let mut binder = Binder::new(&checkpoint);
    let graph = record(&config, &mut binder).unwrap_or_else(|error| fail(error));
    let (mut weights, unused_tensors) = binder.finish();
    assert!(unused_tensors.is_empty(), "{name}: {unused_tensors:?}");
    if format.gguf_id.is_none() {
        weights = weights.with_matrices(|matrix| in_format(&matrix, format));
    }
    let model = Model { config: Arc::new(config), graph: Arc::new(graph), weights: Arc::new(weights), unused_tensors };
    TinyModel { name: name.to_owned(), is_for_format: false, model }
}

/// A matrix of F32 in another format.
fn in_format(matrix: &Matrix, format: &'static Format) -> Matrix {
    let (rows, columns) = (matrix.rows(), matrix.columns());
    let mut values = vec![0.0; rows * columns];
    let f32_bytes = matrix.shared().expect("the file is in memory");
    (matrix.format().dequantize)(f32_bytes, &mut values);
    let bytes = format.row_bytes(columns).unwrap_or_else(|| panic!("{columns} columns in {}", format.name));
    let mut bytes = vec![0; rows * bytes];
    format.encode(&values, &mut bytes).unwrap_or_else(|error| panic!("{error}"));
    let made = Matrix::new("a made-up model", matrix.name(), format, rows, columns, SharedBytes::from(bytes));
    made.unwrap_or_else(|error| panic!("{error}"))
}

/// A model whose matrices have orders of columns: the same, others and none where they read the same.
fn ordered(name: &str, format: &'static Format, config: ModelConfig) -> TinyModel {
    let mut tiny = make(name, format, config);
    let weights = Arc::try_unwrap(std::mem::take(&mut tiny.model.weights)).expect("nobody else has the weights");
    let mut index = 0;
    tiny.model.weights = Arc::new(weights.with_matrices(|matrix| {
        index += 1;
        let columns = matrix.columns() as u32;
        // Odd factors name each column once, as the widths are powers of two.
        let factor = [1, 37, 37, 91][index % 4];
        if factor == 1 || matrix.format().activation != Activation::Int8 {
            return matrix;
        }
        let order = (0..columns).map(|column| (column * factor + 5) % columns).collect();
        matrix.with_column_order(name, order).unwrap_or_else(|error| panic!("{error}"))
    }));
    tiny
}

/// Layers and nothing special.
fn config(hidden_size: usize, layers: Vec<LayerConfig>) -> ModelConfig {
    ModelConfig {
        family: "made-up",
        name: None,
        vocab_size: 97,
        hidden_size,
        context_length: 2048,
        embedding_scale: 1.0,
        norm: NormConfig { kind: NormKind::Rms, epsilon: 1e-5 },
        ropes: vec![rope(RopeStyle::AdjacentPairs, 64)],
        layers,
        final_norm: "output_norm",
        tied_head: true,
        logit_scale: 1.0,
        logit_softcap: None,
    }
}

fn layer(attention: AttentionConfig, intermediate_size: usize) -> LayerConfig {
    let mlp = MlpConfig::new(intermediate_size, ActivationFunction::Silu);
    LayerConfig::new(Mixer::Attention(attention), Mlp::Gated(mlp))
}

fn attention(heads: usize, kv_heads: usize, head_dim: usize) -> AttentionConfig {
    AttentionConfig {
        heads,
        kv_heads,
        key_dim: head_dim,
        value_dim: head_dim,
        rope: Some(0),
        window: None,
        qk_norm: None,
        fused_qkv: false,
        qkv_bias: false,
        output_bias: false,
        scale: 1.0 / (head_dim as f32).sqrt(),
        softcap: None,
        sinks: false,
        temperature: None,
    }
}

fn rope(style: RopeStyle, dims: usize) -> RopeConfig {
    RopeConfig {
        style,
        dims,
        base: 10_000.0,
        position_divisor: 1.0,
        frequency_divisors: None,
        long: None,
        magnitude: 1.0,
        scaling: RopeScaling::None,
    }
}

/// Widths that are no whole vectors, three query heads a key head, values of another width than keys, biases.
fn odd() -> ModelConfig {
    let attention = AttentionConfig { value_dim: 12, qkv_bias: true, output_bias: true, ..attention(6, 2, 20) };
    let mlp = MlpConfig { bias: true, ..MlpConfig::new(52, ActivationFunction::Silu) };
    let layer = LayerConfig::new(Mixer::Attention(attention), Mlp::Gated(mlp));
    ModelConfig { ropes: vec![rope(RopeStyle::AdjacentPairs, 20)], ..config(44, vec![layer; 2]) }
}

/// Like the Gemmas.
fn capped() -> ModelConfig {
    let layer = |index: usize| {
        let windowed = index != 5;
        let attention = AttentionConfig {
            window: windowed.then_some(8),
            rope: Some(usize::from(windowed)),
            qk_norm: Some(QkNorm::PerHead),
            softcap: Some(2.0),
            ..attention(4, 1, 32)
        };
        let mlp = MlpConfig::new(160, ActivationFunction::GeluTanh);
        LayerConfig { norm_after: true, ..LayerConfig::new(Mixer::Attention(attention), Mlp::Gated(mlp)) }
    };
    let global = rope(RopeStyle::SplitHalves, 32);
    let local = RopeConfig { base: 1000.0, ..global.clone() };
    ModelConfig {
        embedding_scale: 96f32.sqrt(),
        ropes: vec![global, local],
        logit_softcap: Some(3.0),
        ..config(96, (0..7).map(layer).collect())
    }
}

/// Like the attention of gpt-oss.
fn sunk() -> ModelConfig {
    let sunk = |window| layer(AttentionConfig { window, sinks: true, ..attention(6, 2, 20) }, 52);
    ModelConfig { ropes: vec![rope(RopeStyle::SplitHalves, 20)], ..config(44, vec![sunk(Some(8)), sunk(None)]) }
}

/// Like StableLM 2, and a layer that is normalized only behind, as in OLMo 2.
fn side_by_side() -> ModelConfig {
    let with = |qk_norm| AttentionConfig { qk_norm: Some(qk_norm), ..attention(4, 2, 20) };
    let side_by_side = LayerConfig { parallel: true, ..layer(with(QkNorm::OwnPerHead), 52) };
    let behind = LayerConfig { norm_before: false, norm_after: true, ..layer(with(QkNorm::Whole), 52) };
    ModelConfig {
        norm: NormConfig { kind: NormKind::Layer, epsilon: 1e-5 },
        ropes: vec![rope(RopeStyle::SplitHalves, 8)],
        ..config(44, vec![side_by_side, behind])
    }
}

/// Like Phi 3, Granite and Ministral 3 at once; one layer is not rotated.
fn scaled() -> ModelConfig {
    let attention = AttentionConfig {
        fused_qkv: true,
        scale: 0.05,
        temperature: Some(Temperature { scale: 0.2, length: 16 }),
        ..attention(4, 2, 64)
    };
    let mlp = MlpConfig { fused_gate: true, ..MlpConfig::new(256, ActivationFunction::Silu) };
    let layer = |rope| {
        let mixer = Mixer::Attention(AttentionConfig { rope, ..attention.clone() });
        LayerConfig { residual_scale: 0.3, ..LayerConfig::new(mixer, Mlp::Gated(mlp.clone())) }
    };
    let divisors = |factor: f32| (0..32).map(|pair| 1.0 + factor * pair as f32).collect();
    let long = LongRope { above: 64, frequency_divisors: divisors(0.5) };
    let rope = RopeConfig {
        frequency_divisors: Some(divisors(0.1)),
        long: Some(long),
        magnitude: 1.2,
        scaling: RopeScaling::LongRope,
        ..rope(RopeStyle::SplitHalves, 64)
    };
    ModelConfig {
        embedding_scale: 12.0,
        ropes: vec![rope],
        tied_head: false,
        logit_scale: 0.125,
        ..config(256, vec![layer(Some(0)), layer(None)])
    }
}

/// Experts, with and without one that all share.
fn experts() -> ModelConfig {
    let layer = |normalize, shared: Option<usize>| {
        let activation = ActivationFunction::Silu;
        let shared = shared.map(|width| MlpConfig::new(width, activation));
        let mlp = ExpertsConfig { experts: 7, used: 3, intermediate_size: 256, activation, normalize, shared };
        LayerConfig::new(Mixer::Attention(attention(4, 2, 64)), Mlp::Experts(mlp))
    };
    config(256, vec![layer(true, None), layer(false, Some(512))])
}

/// Like LFM2: two convolutions around an attention.
fn convolutions(width: usize) -> ModelConfig {
    let mlp = || Mlp::Gated(MlpConfig::new(width, ActivationFunction::Silu));
    let conv = |taps| LayerConfig::new(Mixer::ShortConv(ShortConvConfig { taps }), mlp());
    let layers = vec![conv(3), layer(attention(2, 1, width / 2), width), conv(4)];
    ModelConfig { ropes: vec![rope(RopeStyle::SplitHalves, width / 2)], ..config(width, layers) }
}
