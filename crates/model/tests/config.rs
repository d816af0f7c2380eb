//! What files may say of a model, and what is said back.

use duan_model::Model;
use duan_model::config::{RopeConfig, RopeScaling, RopeStyle};
use duan_model::families::read_config;
use duan_model::gguf::write::GgufWriter;
use duan_model::gguf::{GgufFile, Value};
use duan_model::graph::Op;

const HIDDEN: u64 = 16;

/// A llama of one layer with 4 heads of 8 on one kv head, so that the head width is not hidden_size / heads.
fn file(changes: &[(&str, Option<Value>)]) -> GgufFile {
    file_with(changes, &[])
}

/// The same with tensors [dims] of zeros besides.
fn file_with(changes: &[(&str, Option<Value>)], tensors: &[(&str, &[u64])]) -> GgufFile {
    let mut keys: Vec<(String, Value)> = [
        ("llama.embedding_length", 16u32),
        ("llama.block_count", 1),
        ("llama.context_length", 64),
        ("llama.feed_forward_length", 20),
        ("llama.attention.head_count", 4),
        ("llama.attention.head_count_kv", 1),
        ("llama.attention.key_length", 8),
        ("llama.attention.value_length", 8),
    ]
    .into_iter()
    .map(|(key, number)| (key.to_owned(), Value::U32(number)))
    .collect();
    keys.push(("llama.attention.layer_norm_rms_epsilon".into(), Value::F32(1e-5)));
    keys.insert(0, ("general.architecture".into(), Value::String("llama".into())));
    for (key, value) in changes {
        keys.retain(|(name, _)| name != key);
        keys.extend(value.clone().map(|value| ((*key).to_owned(), value)));
    }
    let mut writer = GgufWriter::new("test.gguf");
    for (key, value) in keys {
        writer.key(&key, value).unwrap();
    }
    let shapes: [(&str, &[u64]); 11] = [
        ("token_embd.weight", &[HIDDEN, 16]),
        ("output_norm.weight", &[HIDDEN]),
        ("blk.0.attn_norm.weight", &[HIDDEN]),
        ("blk.0.attn_q.weight", &[HIDDEN, 32]),
        ("blk.0.attn_k.weight", &[HIDDEN, 8]),
        ("blk.0.attn_v.weight", &[HIDDEN, 8]),
        ("blk.0.attn_output.weight", &[32, HIDDEN]),
        ("blk.0.ffn_norm.weight", &[HIDDEN]),
        ("blk.0.ffn_gate.weight", &[HIDDEN, 20]),
        ("blk.0.ffn_up.weight", &[HIDDEN, 20]),
        ("blk.0.ffn_down.weight", &[20, HIDDEN]),
    ];
    for (name, dims) in shapes.iter().chain(tensors) {
        let bytes = vec![0u8; 4 * dims.iter().product::<u64>() as usize];
        writer.tensor(name, dims, 0, bytes).unwrap();
    }
    GgufFile::from_bytes(writer.to_bytes(), "test.gguf").unwrap()
}

fn refusal(key: &str, value: Option<Value>) -> String {
    let file = file(&[(key, value)]);
    let error = Model::from_gguf(&file).expect_err(key).to_string();
    assert!(!error.contains('\n'), "{error}");
    error
}

#[test]
fn a_head_may_be_wider_than_its_share() {
    let model = Model::from_gguf(&file(&[])).unwrap();
    let attention = model.config.layers[0].attention().unwrap();
    assert_eq!((attention.key_dim, attention.value_dim, attention.kv_heads), (8, 8, 1));
    assert_eq!(attention.scale, 1.0 / 8f32.sqrt());
    assert!(model.config.tied_head, "no output.weight");
    assert_eq!(model.config.kv_values_per_position(), 16);
}

#[test]
fn what_contradicts_the_tensors_is_named() {
    // Without the key the width would be 16 / 4.
    assert!(refusal("llama.attention.key_length", None).contains("attn_q.weight"));
    assert!(refusal("llama.embedding_length", Some(Value::U32(24))).contains("token_embd.weight"));
    assert!(refusal("llama.feed_forward_length", Some(Value::U32(1 << 20))).contains("ffn_gate.weight"));
    assert!(refusal("llama.block_count", Some(Value::U32(2))).contains("blk.1."));
}

#[test]
fn absurd_numbers_are_refused_by_their_key() {
    for key in ["embedding_length", "block_count", "context_length", "feed_forward_length", "attention.head_count"] {
        let key = format!("llama.{key}");
        for value in [Value::U32(0), Value::String("12".into()), Value::I32(-4), Value::F32(12.0)] {
            assert!(refusal(&key, Some(value)).contains(&key), "{key}");
        }
        assert!(refusal(&key, None).contains(&key), "{key}");
    }
    for key in ["embedding_length", "block_count", "feed_forward_length", "attention.head_count"] {
        assert!(refusal(&format!("llama.{key}"), Some(Value::U32(u32::MAX))).contains(key));
    }
    assert!(refusal("llama.attention.head_count_kv", Some(Value::U32(3))).contains("head_count_kv"));
    assert!(refusal("llama.rope.dimension_count", Some(Value::U32(7))).contains("dimension_count"));
    assert!(refusal("llama.rope.dimension_count", Some(Value::U32(10))).contains("dimension_count"));
    for epsilon in [f32::NAN, f32::INFINITY, -1.0, 0.0] {
        let key = "llama.attention.layer_norm_rms_epsilon";
        assert!(refusal(key, Some(Value::F32(epsilon))).contains(key), "{epsilon}");
    }
    assert!(refusal("llama.rope.freq_base", Some(Value::F32(0.0))).contains("freq_base"));
}

#[test]
fn what_is_not_run_is_told_apart_from_damage() {
    let scaling = refusal("llama.rope.scaling.type", Some(Value::String("dynamic".into())));
    assert!(scaling.contains("dynamic") && scaling.contains("yarn"), "{scaling}");
    let family = refusal("general.architecture", Some(Value::String("mamba".into())));
    assert!(family.contains("mamba") && family.contains("gemma3"), "{family}");
}

#[test]
fn every_refusal_says_what_to_do() {
    let remedy = "get it from another source";
    assert!(refusal("llama.rope.dimension_count", Some(Value::U32(7))).ends_with(remedy));
    assert!(refusal("llama.embedding_length", None).ends_with(remedy));
    assert!(refusal("llama.context_length", Some(Value::String("12".into()))).ends_with(remedy));
    assert!(refusal("llama.attention.key_length", None).ends_with(remedy));
    let f32s = duan_quant::format_by_name("F32").unwrap();
    let q4 = duan_quant::format_by_name("Q4_K").unwrap();
    let matrix = |format, columns| {
        duan_model::weights::Matrix::new(
            "m.gguf",
            "t",
            format,
            1,
            columns,
            duan_model::bytes::SharedBytes::from(vec![0; 12]),
        )
        .unwrap_err()
        .to_string()
    };
    assert!(
        matrix(q4, 100)
            .ends_with("found rows of 100 weights; quantize it again to a format whose blocks divide its rows")
    );
    assert!(matrix(f32s, 4).ends_with(remedy), "{}", matrix(f32s, 4));
}

#[test]
fn counts_may_be_given_once_for_each_layer() {
    use duan_model::gguf::Array;
    let uniform = file(&[
        ("llama.attention.head_count", Some(Value::Array(Array::U32(vec![4])))),
        ("llama.attention.head_count_kv", Some(Value::Array(Array::I32(vec![1])))),
        ("llama.feed_forward_length", Some(Value::Array(Array::U64(vec![20])))),
    ]);
    let config = read_config(&(&uniform).into()).unwrap();
    let layer = &config.layers[0];
    let attention = layer.attention().unwrap();
    assert_eq!((attention.heads, attention.kv_heads, layer.mlp.intermediate_size()), (4, 1, 20));
    let key = "llama.attention.head_count_kv";
    let refused = |counts: &[i32]| refusal(key, Some(Value::Array(Array::I32(counts.to_vec()))));
    assert!(
        refused(&[1, 1]).contains("expected one number for each of 1 layers, found 2 numbers"),
        "{}",
        refused(&[1, 1])
    );
    assert!(refused(&[0]).contains("expected numbers in 1..="), "{}", refused(&[0]));
    assert!(refused(&[-1]).contains(key) && refused(&[]).contains(key));
    let layers = [("llama.block_count", Some(Value::U32(2))), (key, Some(Value::Array(Array::I32(vec![1, 2]))))];
    let error = Model::from_gguf(&file(&layers)).unwrap_err().to_string();
    assert!(error.contains("layers of different sizes (1 to 2)") && error.contains("all alike"), "{error}");
    let error = refusal("llama.embedding_length", Some(Value::Array(Array::U32(vec![16]))));
    assert!(error.contains("expected a whole number"), "{error}");
}

#[test]
fn long_contexts_and_absent_windows_are_read() {
    let file = file(&[
        ("llama.context_length", Some(Value::U32(4_194_304))),
        ("llama.attention.sliding_window", Some(Value::U32(0))),
        ("llama.expert_count", Some(Value::U32(0))),
    ]);
    let config = read_config(&(&file).into()).unwrap();
    assert_eq!((config.context_length, config.layers[0].attention().unwrap().window), (4_194_304, None));
}

/// The divisors of Llama 3's scaling: low and high frequency factors 1 and 4, original context 8192.
fn llama3_divisors(head_dim: usize, base: f64, factor: f64) -> Vec<f32> {
    (0..head_dim / 2)
        .map(|pair| {
            let wavelength = std::f64::consts::TAU * base.powf(2.0 * pair as f64 / head_dim as f64);
            let smooth = ((8192.0 / wavelength - 1.0) / 3.0).clamp(0.0, 1.0);
            (1.0 / ((1.0 - smooth) / factor + smooth)) as f32
        })
        .collect()
}

#[test]
fn llama_3_frequencies_are_scaled_by_band() {
    let frequencies = |head_dim: usize, factor: f64| {
        let scaled = RopeConfig {
            style: RopeStyle::AdjacentPairs,
            dims: head_dim,
            base: 500_000.0,
            position_divisor: 1.0,
            frequency_divisors: Some(llama3_divisors(head_dim, 500_000.0, factor).into()),
            long: None,
            magnitude: 1.0,
            scaling: RopeScaling::Llama3,
        };
        let plain = RopeConfig { frequency_divisors: None, ..scaled.clone() };
        (scaled.frequencies(8192), plain.frequencies(8192))
    };
    let near = |found: f32, expected: f32| assert!((found / expected - 1.0).abs() < 1e-5, "{found} {expected}");
    let (scaled, plain) = frequencies(64, 32.0);
    (0..=14).for_each(|pair| near(scaled[pair], plain[pair]));
    near(scaled[15], 0.001_290_547_9);
    near(scaled[16], 0.000_429_556_8);
    near(scaled[17], 0.000_097_082_88);
    (18..=31).for_each(|pair| near(scaled[pair], plain[pair] / 32.0));
    let (scaled, plain) = frequencies(128, 8.0);
    (0..=28).for_each(|pair| near(scaled[pair], plain[pair]));
    near(scaled[29], 0.002_166_570_8);
    (35..=63).for_each(|pair| near(scaled[pair], plain[pair] / 8.0));
}

/// The keys of [`file`] under another family's name, with changes (keys without prefix).
fn as_family(family: &str, changes: &[(&str, Value)], tensors: &[(&str, &[u64])]) -> Result<Model, String> {
    let llama = file(&[]);
    let mut keys: Vec<(String, Option<Value>)> = vec![("general.architecture".into(), Some(family.to_owned().into()))];
    for (key, value) in llama.metadata().iter() {
        if let Some(key) = key.strip_prefix("llama.") {
            keys.push((format!("{family}.{key}"), Some(value.clone())));
        }
    }
    for (key, value) in changes {
        let key = format!("{family}.{key}");
        keys.retain(|(known, _)| *known != key);
        keys.push((key, Some(value.clone())));
    }
    let keys: Vec<(&str, Option<Value>)> = keys.iter().map(|(key, value)| (key.as_str(), value.clone())).collect();
    Model::from_gguf(&file_with(&keys, tensors)).map_err(|error| error.to_string())
}

#[test]
fn a_factor_that_every_model_of_a_family_needs_must_be_in_the_file() {
    let error = as_family("granite", &[], &[]).unwrap_err();
    assert!(error.contains("granite.logit_scale") && error.contains("no such key"), "{error}");
    let scales = [
        ("logit_scale", Value::F32(8.0)),
        ("residual_scale", Value::F32(0.22)),
        ("attention.scale", Value::F32(0.0078125)),
        ("embedding_scale", Value::F32(12.0)),
    ];
    let config = as_family("granite", &scales, &[]).unwrap().config;
    assert_eq!((config.logit_scale, config.embedding_scale), (0.125, 12.0));
    assert_eq!(config.layers[0].residual_scale, 0.22);
    assert_eq!(config.layers[0].attention().unwrap().scale, 0.0078125);
    assert_eq!(config.layers[0].attention().unwrap().rope, Some(0));
    let mut unrotated = scales.to_vec();
    unrotated.push(("rope.scaling.finetuned", Value::Bool(false)));
    assert_eq!(as_family("granite", &unrotated, &[]).unwrap().config.layers[0].attention().unwrap().rope, None);
    let zero = as_family("granite", &[("logit_scale", Value::F32(0.0))], &[]).unwrap_err();
    assert!(zero.contains("a positive number"), "{zero}");
}

#[test]
fn windows_follow_a_period_or_a_truth_for_each_layer() {
    use duan_model::gguf::Array;
    let windows = |changes: &[(&str, Value)]| -> Result<Vec<Option<usize>>, String> {
        let mut all = vec![("block_count", Value::U32(1)), ("attention.sliding_window", Value::U32(8))];
        all.extend(changes.iter().cloned());
        let behind: [(&str, &[u64]); 2] =
            [("blk.0.post_attention_norm.weight", &[HIDDEN]), ("blk.0.post_ffw_norm.weight", &[HIDDEN])];
        let config = as_family("gemma2", &all, &behind)?.config;
        Ok(config.layers.iter().map(|layer| layer.attention().unwrap().window).collect())
    };
    let pattern = |value| ("attention.sliding_window_pattern", value);
    assert_eq!(windows(&[]).unwrap(), [Some(8)], "the first of two");
    assert_eq!(windows(&[pattern(Value::U32(1))]).unwrap(), [None]);
    assert_eq!(windows(&[pattern(Value::Array(Array::Bool(vec![false])))]).unwrap(), [None]);
    assert_eq!(windows(&[pattern(Value::Array(Array::I32(vec![1])))]).unwrap(), [Some(8)]);
    let error = windows(&[pattern(Value::Array(Array::Bool(vec![true, false])))]).unwrap_err();
    assert!(error.contains("sliding_window_pattern"), "{error}");
    assert!(error.contains("one truth for each of 1 layers"), "{error}");
    let error = windows(&[pattern(Value::U32(0))]).unwrap_err();
    assert!(error.contains("sliding_window_pattern"), "{error}");
}

#[test]
fn scalings_that_lack_a_part_are_refused() {
    let with =
        |changes: &[(&str, Value)], tensors: &[(&str, &[u64])]| as_family("llama", changes, tensors).unwrap_err();
    let yarn = ("rope.scaling.type", Value::String("yarn".into()));
    let error = with(std::slice::from_ref(&yarn), &[]);
    assert!(error.contains("rope.scaling.factor"), "{error}");
    let error = with(&[yarn.clone(), ("rope.scaling.factor", Value::F32(f32::NAN))], &[]);
    assert!(error.contains("rope.scaling.factor"), "{error}");
    let lists: [(&str, &[u64]); 1] = [("rope_factors_long.weight", &[4])];
    let error = with(&[], &lists);
    assert!(error.contains("rope_factors_short.weight") && error.contains("LongRoPE"), "{error}");
    let error = with(&[("rope.scaling.type", Value::String("longrope".into()))], &[]);
    assert!(error.contains("rope_factors_"), "{error}");
    // Divisors of zeros would make infinite frequencies.
    let lists: [(&str, &[u64]); 2] = [("rope_factors_long.weight", &[4]), ("rope_factors_short.weight", &[4])];
    assert!(with(&[], &lists).contains("positive divisors"));
    let lists: [(&str, &[u64]); 2] = [("rope_factors_long.weight", &[3]), ("rope_factors_short.weight", &[3])];
    assert!(with(&[], &lists).contains("4 divisors"));
}

#[test]
fn a_factor_of_zero_is_none() {
    let zero = || Value::F32(0.0);
    let config = as_family("mistral3", &[("attention.temperature_scale", zero())], &[]).unwrap().config;
    assert_eq!(config.layers[0].attention().unwrap().temperature, None);
    let config = as_family("llama", &[("rope.scaling.factor", zero())], &[]).unwrap().config;
    assert_eq!((config.ropes[0].position_divisor, config.ropes[0].scaling), (1.0, RopeScaling::None));
    let error = as_family("mistral3", &[("attention.temperature_scale", Value::F32(-1.0))], &[]).unwrap_err();
    assert!(error.contains("temperature_scale"), "{error}");
}

#[test]
fn sinks_are_seen_from_their_tensor() {
    let sinks = |dims: &[u64]| as_family("llama", &[], &[("blk.0.attn_sinks.weight", dims)]);
    let of_attention = |model: &Model| {
        let sinks = model.graph.nodes.iter().find_map(|node| match node.op {
            Op::Attention { sinks, .. } => Some(sinks),
            _ => None,
        });
        sinks.unwrap().map(|sinks| model.weights.vector(sinks).len())
    };
    assert_eq!(of_attention(&sinks(&[4]).unwrap()), Some(4));
    assert_eq!(of_attention(&as_family("llama", &[], &[]).unwrap()), None);
    let error = sinks(&[1]).unwrap_err();
    assert!(error.contains("blk.0.attn_sinks.weight") && error.contains("[4]"), "{error}");
}

#[test]
fn divisors_that_a_scaling_does_not_read_are_told() {
    let yarn = [("rope.scaling.type", Value::String("yarn".into())), ("rope.scaling.factor", Value::F32(4.0))];
    let freqs: [(&str, &[u64]); 1] = [("rope_freqs.weight", &[4])];
    let model = as_family("llama", &yarn, &freqs).unwrap();
    assert_eq!(model.config.ropes[0].scaling, RopeScaling::Yarn);
    assert_eq!(model.unused_tensors, ["rope_freqs.weight"]);
}

#[test]
fn the_width_that_is_missing_is_the_one_that_is_named() {
    // Three heads do not divide 16, and the keys' width is there.
    let changes = [
        ("llama.attention.head_count", Some(Value::U32(3))),
        ("llama.attention.head_count_kv", Some(Value::U32(1))),
        ("llama.attention.value_length", None),
    ];
    let error = Model::from_gguf(&file(&changes)).unwrap_err().to_string();
    assert!(error.contains("attention.value_length") && !error.contains("key_length"), "{error}");
}

#[test]
fn yarn_keeps_fast_pairs_and_divides_slow_ones() {
    let keys = [
        ("rope.scaling.type", Value::String("yarn".into())),
        ("rope.scaling.factor", Value::F32(4.0)),
        ("rope.scaling.original_context_length", Value::U32(16)),
        ("rope.scaling.yarn_beta_fast", Value::F32(2.0)),
    ];
    let rope = as_family("llama", &keys, &[]).unwrap().config.ropes[0].clone();
    let divisors = rope.frequency_divisors.unwrap();
    // Two turns within 16 positions are made by pair 0 of 4, one turn by a pair before 1; so 0 stays and the rest is divided.
    assert_eq!(divisors[..], [1.0, 4.0, 4.0, 4.0]);
    assert!((rope.magnitude - (0.1 * 4f32.ln() + 1.0)).abs() < 1e-6);
}

#[test]
fn experts_and_convolutions_that_make_no_sense_are_refused() {
    let experts = |experts: u32, used: u32| {
        let keys = [("expert_count", Value::U32(experts)), ("expert_used_count", Value::U32(used))];
        as_family("qwen3moe", &keys, &[]).unwrap_err()
    };
    assert!(experts(4, 5).contains("expert_used_count"), "{}", experts(4, 5));
    assert!(experts(4, 0).contains("expert_used_count"));
    assert!(experts(0, 0).contains("expert_count"));
    assert!(experts(4, 2).contains("ffn_gate_inp.weight"), "{}", experts(4, 2));
    // Choosing experts takes time in proportion to both.
    assert!(experts(4096, 4096).contains("expert_used_count"), "{}", experts(4096, 4096));
    assert!(experts(1 << 20, 8).contains("expert_count"), "{}", experts(1 << 20, 8));
    // Files that are complete and laid out otherwise are not called incomplete.
    let keys = [
        ("expert_count", Value::U32(2)),
        ("expert_used_count", Value::U32(1)),
        ("expert_shared_feed_forward_length", Value::U32(0)),
    ];
    for (name, what) in
        [("blk.0.ffn_gate.0.weight", "in a tensor each"), ("blk.0.ffn_gate_up_exps.weight", "are one tensor")]
    {
        let error = as_family("qwen3moe", &keys, &[(name, &[HIDDEN, 40])]).unwrap_err();
        assert!(error.contains(what) && !error.contains("incomplete"), "{error}");
    }
    let dense = as_family("qwen2", &[("expert_count", Value::U32(8))], &[]).unwrap_err();
    assert!(dense.contains("8 experts") && !dense.contains("fetch"), "{dense}");

    use duan_model::gguf::Array;
    let lfm2 = |taps: u32, kv_heads: Vec<i32>| {
        let keys =
            [("shortconv.l_cache", Value::U32(taps)), ("attention.head_count_kv", Value::Array(Array::I32(kv_heads)))];
        as_family("lfm2", &keys, &[]).unwrap_err()
    };
    assert!(lfm2(1, vec![0]).contains("shortconv.l_cache"), "{}", lfm2(1, vec![0]));
    assert!(lfm2(3, vec![3]).contains("head_count_kv"));
    assert!(lfm2(3, vec![0, 1]).contains("head_count_kv"));
    assert!(lfm2(3, vec![0]).contains("shortconv.in_proj.weight"), "{}", lfm2(3, vec![0]));
    assert!(lfm2(1 << 20, vec![0]).contains("shortconv."));
}
