//! Folders made up here: what goes wrong with them, and what the translation does to rows.

use serde_json::{Value, json};

use crate::Model;
use crate::checkpoint::Checkpoint;
use crate::gguf::TensorInfo;

/// A tensor of a folder: name, shape, values.
type Tensor = (&'static str, Vec<u64>, Vec<f32>);

/// A safetensors file of tensors in F32.
fn weights(tensors: &[Tensor]) -> Vec<u8> {
    let (mut header, mut data) = (serde_json::Map::new(), Vec::new());
    for (name, shape, values) in tensors {
        let begin = data.len();
        values.iter().for_each(|value| data.extend_from_slice(&value.to_le_bytes()));
        header.insert((*name).into(), json!({"dtype": "F32", "shape": shape, "data_offsets": [begin, data.len()]}));
    }
    let header = serde_json::to_vec(&header).unwrap();
    [&(header.len() as u64).to_le_bytes()[..], &header, &data].concat()
}

/// Values that tell rows apart: row r is filled with r.
fn rows(rows: u64, columns: u64) -> Vec<f32> {
    (0..rows * columns).map(|at| (at / columns) as f32).collect()
}

/// A llama of one layer: 6 heads on 2, 8 values each, as case C025 has it.
fn llama() -> (Value, Vec<Tensor>) {
    let config = json!({
        "model_type": "llama", "hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1, "num_attention_heads": 6,
        "num_key_value_heads": 2, "head_dim": 8, "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "vocab_size": 5,
        "tie_word_embeddings": false, "hidden_act": "silu"
    });
    let matrix = |name, r, c| (name, vec![r, c], rows(r, c));
    let norm = |name| (name, vec![8], vec![1.0; 8]);
    let tensors = vec![
        matrix("model.embed_tokens.weight", 5, 8),
        matrix("model.layers.0.self_attn.q_proj.weight", 48, 8),
        matrix("model.layers.0.self_attn.k_proj.weight", 16, 8),
        matrix("model.layers.0.self_attn.v_proj.weight", 16, 8),
        matrix("model.layers.0.self_attn.o_proj.weight", 8, 48),
        matrix("model.layers.0.mlp.gate_proj.weight", 8, 8),
        matrix("model.layers.0.mlp.up_proj.weight", 8, 8),
        matrix("model.layers.0.mlp.down_proj.weight", 8, 8),
        norm("model.layers.0.input_layernorm.weight"),
        norm("model.layers.0.post_attention_layernorm.weight"),
        norm("model.norm.weight"),
        ("lm_head.weight", vec![5, 8], rows(5, 8).iter().map(|row| 7.0 - row).collect()),
    ];
    (config, tensors)
}

fn open(config: &Value, tensors: &[Tensor]) -> crate::Result<Checkpoint> {
    let files = vec![("model.safetensors".to_owned(), weights(tensors))];
    Checkpoint::from_folder("m", serde_json::to_vec(config).unwrap(), files)
}

fn error(config: &Value, tensors: &[Tensor]) -> String {
    let text = open(config, tensors).unwrap_err().to_string();
    assert!(!text.contains('\n'), "{text}");
    text
}

fn with(changes: Value) -> Value {
    let (mut config, _) = llama();
    for (key, value) in changes.as_object().unwrap() {
        config[key] = value.clone();
    }
    config
}

/// All values of a tensor in F32.
fn values(checkpoint: &Checkpoint, name: &str) -> Vec<f32> {
    let tensor = checkpoint.tensor(name).unwrap();
    crate::weights::read_vector(checkpoint, tensor, tensor.elements() as usize).unwrap()
}

#[test]
fn queries_are_re_ordered_by_heads_and_keys_by_kv_heads() {
    let (config, mut tensors) = llama();
    tensors.push(("model.layers.0.self_attn.q_proj.bias", vec![48], (0..48).map(|at| at as f32).collect()));
    tensors.push(("model.layers.0.self_attn.k_proj.bias", vec![16], (0..16).map(|at| at as f32).collect()));
    tensors.push(("model.layers.0.self_attn.v_proj.bias", vec![16], vec![0.5; 16]));
    let checkpoint = open(&config, &tensors).unwrap();
    let widened: Vec<Tensor> = tensors
        .iter()
        .map(|(name, shape, _)| match shape[..] {
            [r, 8] => (*name, vec![r, 32], rows(r, 32)),
            _ => (*name, shape.clone(), vec![1.0; shape.iter().product::<u64>() as usize]),
        })
        .collect();
    let wide = open(&with(json!({"hidden_size": 32, "intermediate_size": 32})), &widened).unwrap();
    // A pair is a row of the first half of a head beside the one of the second half.
    let head = [0, 4, 1, 5, 2, 6, 3, 7];
    for (name, heads) in [("attn_q", 6), ("attn_k", 2)] {
        let expected: Vec<f32> = (0..heads).flat_map(|h| head.map(|row| (8 * h + row) as f32)).collect();
        let found = values(&checkpoint, &format!("blk.0.{name}.weight"));
        assert_eq!(found.chunks(8).map(|row| row[0]).collect::<Vec<_>>(), expected, "{name}");
        assert_eq!(values(&checkpoint, &format!("blk.0.{name}.bias")), expected, "{name}");
        // Straight to another format the order is the same.
        for (checkpoint, format) in [(&checkpoint, "F16"), (&wide, "Q4_0"), (&wide, "Q8_0")] {
            let quantized = checkpoint.in_formats(|tensor: &TensorInfo| {
                (tensor.name.ends_with("_q.weight") || tensor.name.ends_with("_k.weight"))
                    .then(|| duan_quant::format_by_name(format))?
            });
            let found = values(&quantized.unwrap(), &format!("blk.0.{name}.weight"));
            let columns = found.len() / expected.len();
            // Of a row of one value each of these formats keeps the value nearly.
            let rows: Vec<f32> = found.chunks(columns).map(|row| row[columns - 1].round()).collect();
            assert_eq!(rows, expected, "{name} {format}");
        }
    }
    assert_eq!(values(&checkpoint, "blk.0.attn_v.weight"), rows(16, 8));
}

#[test]
fn the_head_is_tied_where_it_is_said_or_missing() {
    let (_, tensors) = llama();
    let without: Vec<Tensor> = tensors.iter().filter(|tensor| tensor.0 != "lm_head.weight").cloned().collect();
    for (flag, has_head, is_tied) in [
        // A head of its own counts, whatever the configuration says.
        (json!(true), true, Some(false)),
        (json!(true), false, Some(true)),
        (json!(null), true, Some(false)),
        (json!(null), false, Some(true)),
        (json!(false), true, Some(false)),
        (json!(false), false, None),
    ] {
        let config = with(json!({"tie_word_embeddings": flag}));
        let opened = open(&config, if has_head { &tensors } else { &without });
        match is_tied {
            Some(is_tied) => {
                let model = Model::from_checkpoint(&opened.unwrap()).unwrap();
                assert_eq!(model.config.tied_head, is_tied, "{flag} {has_head}");
                assert_eq!(model.unused_tensors, Vec::<String>::new());
            }
            None => assert!(opened.unwrap_err().to_string().contains("`tie_word_embeddings` is false")),
        }
    }
    // The same weights twice are one.
    let config = with(json!({"tie_word_embeddings": true}));
    let other = open(&config, &tensors).unwrap();
    assert!(other.warnings()[0].contains("a head with other weights, which is used"), "{:?}", other.warnings());
    let mut same = tensors.clone();
    same.last_mut().unwrap().2 = rows(5, 8);
    let same = open(&config, &same).unwrap();
    assert_eq!((same.tensor("output.weight"), same.warnings()), (None, &[][..]));
}

/// `tensors` but for those whose names begin with one of `names`, and with `others`.
fn changed(tensors: &[Tensor], names: &[&str], others: Vec<Tensor>) -> Vec<Tensor> {
    let rest = tensors.iter().filter(|tensor| !names.iter().any(|name| tensor.0.starts_with(name))).cloned();
    rest.chain(others).collect()
}

#[test]
fn gemma_3_leaves_out_what_is_as_in_the_4b() {
    let config = json!({
        "model_type": "gemma3", "image_token_index": 3, "mm_tokens_per_image": 256,
        "text_config": {
            "model_type": "gemma3_text", "hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1,
            "rope_scaling": {"factor": 8.0, "rope_type": "linear"}, "sliding_window": 1024
        },
        "vision_config": {"hidden_size": 1152}
    });
    let prefix = |name: &str| -> &'static str { format!("language_model.{name}").leak() };
    let tensors: Vec<Tensor> = changed(&llama().1, &["lm_head", "model.layers.0.self_attn"], Vec::new())
        .into_iter()
        .map(|(name, shape, values)| (prefix(name), shape, values))
        .collect();
    let attention = |name: &str, r, c| (prefix(&format!("model.layers.0.self_attn.{name}")), vec![r, c], rows(r, c));
    let norm =
        |name: &str, width| (prefix(&format!("model.layers.0.{name}.weight")), vec![width], vec![0.0; width as usize]);
    let others = vec![
        attention("q_proj.weight", 2048, 8),
        attention("k_proj.weight", 1024, 8),
        attention("v_proj.weight", 1024, 8),
        attention("o_proj.weight", 8, 2048),
        norm("self_attn.q_norm", 256),
        norm("self_attn.k_norm", 256),
        norm("pre_feedforward_layernorm", 8),
        norm("post_feedforward_layernorm", 8),
    ];
    let checkpoint = open(&config, &changed(&tensors, &[], others)).unwrap();
    assert_eq!(checkpoint.warnings(), &[] as &[String]);
    let model = Model::from_checkpoint(&checkpoint).unwrap();
    let crate::config::Mixer::Attention(attention) = &model.config.layers[0].mixer else { panic!("no attention") };
    assert_eq!((attention.heads, attention.kv_heads, attention.key_dim), (8, 4, 256));
    let metadata = checkpoint.metadata();
    assert_eq!(metadata.f32("gemma3.rope.freq_base").unwrap(), Some(1e6));
    assert_eq!(metadata.f32("gemma3.rope.scaling.factor").unwrap(), Some(8.0));
}

#[test]
fn what_a_configuration_leaves_out_is_what_its_family_means() {
    let base = |config: &Value, family: &str| {
        let checkpoint = open(config, &llama().1).unwrap();
        checkpoint.metadata().f32(&format!("{family}.rope.freq_base")).unwrap()
    };
    for (changes, family, expected) in [
        (json!({}), "llama", None),
        (json!({"rope_theta": 5e5}), "llama", Some(5e5)),
        (json!({"model_type": "mixtral"}), "llama", Some(1e6)),
        (json!({"model_type": "mixtral", "rope_parameters": {"rope_theta": 3e4}}), "llama", Some(3e4)),
        (json!({"model_type": "smollm3"}), "smollm3", Some(2e6)),
        (json!({"model_type": "olmo3"}), "olmo2", Some(5e5)),
        (json!({"model_type": "olmo2"}), "olmo2", None),
    ] {
        assert_eq!(base(&with(changes.clone()), family), expected, "{changes}");
    }
    let text = error(&with(json!({"model_type": "ministral3"})), &llama().1);
    assert!(text.contains("key `rope_theta`: expected the base of the rotary embedding, found nothing"), "{text}");
    // A quarter of a head of 8 are 2 values.
    let stablelm = with(json!({"model_type": "stablelm", "layer_norm_eps": 1e-5}));
    let dims = open(&stablelm, &llama().1).unwrap().metadata().u32("stablelm.rope.dimension_count").unwrap();
    assert_eq!(dims, Some(2));
}

#[test]
fn keys_that_nobody_reads_are_told_wherever_they_stand() {
    for (changes, found) in [
        (
            json!({"rope_scaling": {"rope_type": "linear", "factor": 2.0, "some_new_scale": 3}}),
            "`rope_parameters.some_new_scale`",
        ),
        (json!({"rope_parameters": {"full_attention": {"rope_theta": 1e4, "bend": 3}}}), "`rope_parameters.bend`"),
        (json!({"text_config": {"some_new_text_scale": 3}, "some_image_scale": 3}), "`some_new_text_scale`"),
    ] {
        let checkpoint = open(&with(changes.clone()), &llama().1).unwrap();
        let [warning] = checkpoint.warnings() else { panic!("{changes}: {:?}", checkpoint.warnings()) };
        assert!(warning.starts_with("1 key ") && warning.contains(found), "{warning}\nlacks {found}");
    }
    let yarn = json!({"rope_type": "yarn", "factor": 2.0, "mscale": 0.7, "mscale_all_dim": 1.0, "original_max_position_embeddings": 32});
    let text = error(&with(json!({"rope_scaling": yarn})), &llama().1);
    assert!(text.contains("key `rope_scaling.mscale` is 0.7"), "{text}");
    // What published configurations have beside what counts.
    let published =
        json!({"is_llama_config": true, "rope_interleaved": false, "hidden_activation": "silu", "top_p": 1.0});
    assert_eq!(open(&with(published), &llama().1).unwrap().warnings(), &[] as &[String]);
}

#[test]
fn what_a_family_does_not_know_is_named() {
    let (_, tensors) = llama();
    for (changes, found) in [
        (json!({"model_type": "made_up"}), "the family `made_up`"),
        (json!({"hidden_act": "relu"}), "key `hidden_act` is \"relu\""),
        (json!({"num_attention_heads": 0}), "key `num_attention_heads`"),
        (json!({"num_attention_heads": "6"}), "key `num_attention_heads`"),
        (json!({"rms_norm_eps": null}), "key `rms_norm_eps`: expected a number, found nothing"),
        (json!({"rope_scaling": {"rope_type": "dynamic", "factor": 2.0}}), "key `rope_scaling.rope_type` is dynamic"),
        (json!({"rope_scaling": {"type": "linear"}}), "key `rope_parameters.factor`: expected a number"),
        (json!({"rope_scaling": 3}), "key `rope_parameters`: expected an object"),
        (
            json!({"num_key_value_heads": 3}),
            "`blk.0.attn_k.weight`: expected an even number of rows for each of 3 heads",
        ),
    ] {
        let text = error(&with(changes), &tensors);
        assert!(text.contains(found), "{text}\nlacks {found}");
    }
    let (config, mut tensors) = llama();
    tensors.push(("model.layers.0.mystery.weight", vec![2], vec![0.0; 2]));
    let checkpoint = open(&config, &tensors).unwrap();
    assert_eq!(checkpoint.left_out(), ["model.layers.0.mystery.weight"]);
    assert_eq!(Model::from_checkpoint(&checkpoint).unwrap().unused_tensors, ["model.layers.0.mystery.weight"]);
    let checkpoint = open(&with(json!({"some_new_thing": 3})), &llama().1).unwrap();
    assert!(checkpoint.warnings()[0].contains("`some_new_thing`"), "{:?}", checkpoint.warnings());
}

#[test]
fn values_that_do_not_fit_a_format_are_named() {
    let (config, mut tensors) = llama();
    for (value, found) in
        [(f32::NAN, "NaN at index 13"), (f32::INFINITY, "inf at index 13"), (9e6, "9000000 at index 13")]
    {
        tensors[5].2[13] = value;
        let checkpoint = open(&config, &tensors).unwrap();
        let narrow = checkpoint.in_formats(|_| duan_quant::format_by_name("F16")).unwrap();
        let tensor = narrow.tensor("blk.0.ffn_gate.weight").unwrap();
        let text = narrow.data(tensor).unwrap().read_rows(0, 16, &mut [0; 8 * 16]).unwrap_err().to_string();
        assert!(text.contains("`blk.0.ffn_gate.weight`") && text.contains(found), "{text}");
    }
}

#[test]
fn a_format_is_for_matrices_and_the_head_stays_wide() {
    let (mut config, tensors) = llama();
    let widened = |tensors: &[Tensor]| -> Vec<Tensor> {
        let widen = |(name, shape, _): &Tensor| {
            let shape: Vec<u64> = shape.iter().map(|&axis| if axis == 8 { 32 } else { axis }).collect();
            let count: u64 = shape.iter().product();
            (*name, shape, vec![0.25; count as usize])
        };
        tensors.iter().map(widen).collect()
    };
    config["hidden_size"] = json!(32);
    config["intermediate_size"] = json!(32);
    let checkpoint = open(&config, &widened(&tensors)).unwrap();
    let q4_0 = duan_quant::format_by_name("q4_0").unwrap();
    let quantized = checkpoint.in_format(q4_0).unwrap();
    let name = |tensor: &str| quantized.tensor(tensor).unwrap().type_name().into_owned();
    assert_eq!(name("blk.0.attn_q.weight"), "Q4_0");
    assert_eq!(name("token_embd.weight"), "Q4_0");
    assert_eq!(name("output.weight"), "Q8_0");
    // Rows of 48 are no whole blocks.
    assert_eq!(name("blk.0.attn_output.weight"), "F16");
    assert_eq!(name("blk.0.attn_norm.weight"), "F32");
    assert_eq!(quantized.metadata().u32("general.file_type").unwrap(), Some(2));
    assert_eq!(quantized.origin_of(quantized.tensor("output.weight").unwrap()), ("F32".to_owned(), false));
    config["tie_word_embeddings"] = json!(true);
    let tied = open(&config, &widened(&tensors)).unwrap().in_format(q4_0).unwrap();
    assert_eq!(tied.tensor("token_embd.weight").unwrap().type_name(), "Q8_0");
    assert!(tied.tensor("output.weight").is_none());
}
