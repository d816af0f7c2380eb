//! The constants of the formats, through a whole folder; and what is refused, by name.

use serde_json::{Value, json};

use crate::Error;
use crate::checkpoint::Checkpoint;

/// Name, type, shape, numbers.
type Raw = (&'static str, &'static str, Vec<usize>, Vec<u8>);

const UP: &str = "blk.0.ffn_up.weight";

fn words(name: &'static str, shape: [usize; 2], word: u32) -> Raw {
    (name, "I32", shape.to_vec(), word.to_le_bytes().repeat(shape[0] * shape[1]))
}

fn halves(name: &'static str, shape: [usize; 2], value: impl Fn(usize) -> f32) -> Raw {
    let numbers = (0..shape[0] * shape[1]).flat_map(|at| half::f16::from_f32(value(at)).to_le_bytes());
    (name, "F16", shape.to_vec(), numbers.collect())
}

fn safetensors(tensors: &[Raw]) -> Vec<u8> {
    let mut header = serde_json::Map::new();
    let mut data = Vec::new();
    for (name, dtype, shape, bytes) in tensors {
        let offsets = [data.len(), data.len() + bytes.len()];
        header.insert((*name).to_owned(), json!({"dtype": dtype, "shape": shape, "data_offsets": offsets}));
        data.extend_from_slice(bytes);
    }
    let header = Value::Object(header).to_string();
    [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &data].concat()
}

fn config(key: &str, quantization: &Value) -> Vec<u8> {
    let mut config = json!({
        "model_type": "qwen2", "hidden_size": 64, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 4,
        "num_key_value_heads": 2, "rms_norm_eps": 1e-6, "rope_theta": 10000.0, "max_position_embeddings": 64,
        "vocab_size": 4, "tie_word_embeddings": true,
    });
    config[key] = quantization.clone();
    config.to_string().into_bytes()
}

fn open(quantization: &Value, tensors: &[Raw]) -> Result<Checkpoint, Error> {
    let weights = vec![("model.safetensors".to_owned(), safetensors(tensors))];
    Checkpoint::from_folder("folder", config("quantization_config", quantization), weights)
}

fn error(quantization: &Value, tensors: &[Raw]) -> String {
    open(quantization, tensors).unwrap_err().to_string()
}

/// The weights of a tensor, columns in the common order.
fn values(checkpoint: &Checkpoint, name: &str) -> Vec<f32> {
    let plain = checkpoint.for_gguf(duan_quant::format_by_name("F32")).unwrap();
    let tensor = plain.tensor(name).unwrap();
    let row_bytes = tensor.dims[0] as usize * 4;
    let mut bytes = vec![0; row_bytes * tensor.dims[1] as usize];
    plain.data(tensor).unwrap().read_rows(0, row_bytes, &mut bytes).unwrap();
    bytes.as_chunks().0.iter().map(|&bytes| f32::from_le_bytes(bytes)).collect()
}

fn gptq(format: &str) -> Value {
    json!({"quant_method": "gptq", "bits": 4, "group_size": 32, "desc_act": false, "sym": true, "checkpoint_format": format})
}

/// 16 rows of 64 columns in two groups: all codes are 9, and the scale of the second group is half of the first one's.
fn nines(zeros: u32) -> Vec<Raw> {
    vec![
        words("model.layers.0.mlp.up_proj.qweight", [8, 16], 0x9999_9999),
        words("model.layers.0.mlp.up_proj.qzeros", [2, 2], zeros),
        halves("model.layers.0.mlp.up_proj.scales", [2, 16], |at| if at < 16 { 0.5 } else { 0.25 }),
    ]
}

fn with_groups(groups: impl Fn(usize) -> i32) -> Vec<Raw> {
    let mut tensors = nines(0x7777_7777);
    let numbers = (0..64).flat_map(|column| groups(column).to_le_bytes()).collect();
    tensors.push(("model.layers.0.mlp.up_proj.g_idx", "I32", vec![64], numbers));
    tensors
}

#[test]
fn both_versions_of_gptq_say_the_same() {
    let expected: Vec<f32> = (0..16 * 64).map(|at| if at % 64 < 32 { 0.5 } else { 0.25 }).collect();
    for (format, zeros) in [("gptq", 0x7777_7777), ("gptq_v2", 0x8888_8888)] {
        let checkpoint = open(&gptq(format), &nines(zeros)).unwrap();
        assert_eq!(values(&checkpoint, UP), expected, "{format}");
        assert_eq!(checkpoint.warnings(), Vec::<String>::new(), "{format}");
        assert_eq!(checkpoint.tensor(UP).unwrap().type_name(), "int4-g32");
    }
    // A file of the second version that says that it is of the first: told, and read as it says.
    let checkpoint = open(&gptq("gptq"), &nines(0x8888_8888)).unwrap();
    assert_eq!(values(&checkpoint, UP), vec![0.0; 16 * 64]);
    let [warning] = checkpoint.warnings() else { panic!("{:?}", checkpoint.warnings()) };
    assert!(warning.contains("set checkpoint_format to gptq_v2"), "{warning}");
}

#[test]
fn columns_belong_to_the_groups_that_are_said() {
    let group = |column: usize| (column * 5 % 64 >= 32) as i32;
    let checkpoint = open(&gptq("gptq"), &with_groups(group)).unwrap();
    let expected: Vec<f32> = (0..16 * 64).map(|at| if group(at % 64) == 0 { 0.5 } else { 0.25 }).collect();
    assert_eq!(values(&checkpoint, UP), expected);
    let tensor = checkpoint.tensor(UP).unwrap();
    assert!(checkpoint.column_order(tensor).is_some());
    let plain = checkpoint.in_common_order().unwrap();
    assert_eq!(plain.tensor(UP).unwrap().type_name(), "F32");
    assert!(plain.column_order(plain.tensor(UP).unwrap()).is_none());

    let text = error(&gptq("gptq"), &with_groups(|column| if column == 7 { 99 } else { 0 }));
    assert!(text.contains("up_proj.g_idx`: expected groups below 2, found 99 for column 7"), "{text}");
}

#[test]
fn nibbles_of_awq_stand_in_its_order() {
    let quantization = json!({"quant_method": "awq", "w_bit": 4, "q_group_size": 32, "version": "GEMM"});
    let tensors = [
        words("model.layers.0.mlp.up_proj.qweight", [64, 1], 0x7531_6420),
        words("model.layers.0.mlp.up_proj.qzeros", [2, 1], 0x7531_6420),
        halves("model.layers.0.mlp.up_proj.scales", [2, 8], |_| 0.5),
    ];
    // Zero points stand in the order of the weights, so that nothing is left.
    assert_eq!(values(&open(&quantization, &tensors).unwrap(), UP), vec![0.0; 8 * 64]);
    let tensors = [tensors[0].clone(), words(tensors[1].0, [2, 1], 0), tensors[2].clone()];
    let expected: Vec<f32> = (0..8 * 64).map(|at| (at / 64) as f32 * 0.5).collect();
    assert_eq!(values(&open(&quantization, &tensors).unwrap(), UP), expected);
}

#[test]
fn modules_may_be_of_other_bits_and_groups() {
    // Codes of 8 bits, one group a row: 64 columns are 16 words, 16 rows 4.
    let tensors = [
        words("model.layers.0.mlp.up_proj.qweight", [16, 16], 0x8282_8282),
        words("model.layers.0.mlp.up_proj.qzeros", [1, 4], 0x7f7f_7f7f),
        halves("model.layers.0.mlp.up_proj.scales", [1, 16], |_| 0.5),
    ];
    let mut quantization = gptq("gptq");
    assert!(error(&quantization, &tensors).contains("up_proj.scales`: expected dimensions [4, 16]"));
    quantization["dynamic"] = json!({"+:.*up_proj.*": {"bits": 8, "group_size": -1}});
    let checkpoint = open(&quantization, &tensors).unwrap();
    assert_eq!(checkpoint.tensor(UP).unwrap().type_name(), "int8-g64");
    assert_eq!(values(&checkpoint, UP), vec![1.0; 16 * 64]);
}

#[test]
fn what_is_missing_is_named() {
    for part in ["qweight", "qzeros", "scales"] {
        let tensors: Vec<Raw> = nines(0).into_iter().filter(|tensor| !tensor.0.ends_with(part)).collect();
        let text = error(&gptq("gptq"), &tensors);
        assert!(text.contains(&format!("`model.layers.0.mlp.up_proj.{part}`: expected it beside")), "{text}");
    }
    let weight = ("model.layers.0.mlp.up_proj.weight", "F8_E4M3", vec![16, 64], vec![0; 16 * 64]);
    let text = error(&gptq("gptq"), &[weight]);
    assert!(text.contains("found F8_E4M3"), "{text}");
}

#[test]
fn what_is_not_read_is_named() {
    let groups = |weights: Value| json!({"g": {"targets": ["Linear"], "weights": weights}});
    let compressed = |format: &str, weights: Value| json!({"quant_method": "compressed-tensors", "format": format, "config_groups": groups(weights)});
    let int4 = json!({"num_bits": 4, "type": "int", "strategy": "group", "group_size": 32});
    let mut turned = compressed("pack-quantized", int4.clone());
    turned["transform_config"] = json!({"config_groups": {"u": {"type": "hadamard"}}});
    for (quantization, found) in [
        (json!({"quant_method": "bitsandbytes"}), "quantized already (bitsandbytes)"),
        (json!({"quant_method": "fp8"}), "quantized already (fp8)"),
        (json!({}), "by a method without a name"),
        (json!({"quant_method": "gptq"}), "`quantization_config.bits`"),
        (json!({"quant_method": "gptq", "bits": 4, "group_size": 0}), "`quantization_config.group_size`"),
        (json!({"quant_method": "gptq", "bits": 4, "checkpoint_format": "marlin"}), "gptq, as marlin"),
        (json!({"quant_method": "awq", "bits": 4, "version": "gemv"}), "awq, version gemv"),
        (json!({"quant_method": "awq", "bits": 3}), "awq of 3 bits"),
        (compressed("float-quantized", int4.clone()), "compressed-tensors, float-quantized"),
        (compressed("pack-quantized", json!({"num_bits": 4, "type": "float"})), "weights of float"),
        (compressed("pack-quantized", json!({"num_bits": 4, "strategy": "block"})), "a scale for each block"),
        (json!({"quant_method": "compressed-tensors"}), "without config_groups"),
        (turned, "with a transform_config"),
        (json!({"bits": 4, "group_size": 32, "mode": "mxfp4"}), "MLX mxfp4"),
    ] {
        let text = error(&quantization, &nines(0x7777_7777));
        assert!(text.contains(found), "{text}\nlacks {found}");
    }
}

#[test]
fn early_checkpoints_say_it_in_a_file_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, bytes: &[u8]| std::fs::write(folder.path().join(name), bytes).unwrap();
    write("config.json", &config("nothing", &Value::Null));
    write("model.safetensors", &safetensors(&nines(0x7777_7777)));
    let plain = Checkpoint::open(folder.path()).unwrap();
    assert!(plain.tensor(UP).is_none());
    write("quantize_config.json", br#"{"bits": 4, "group_size": 32, "desc_act": false, "sym": true}"#);
    let checkpoint = Checkpoint::open(folder.path()).unwrap();
    assert_eq!(values(&checkpoint, UP)[..33], [&[0.5; 32][..], &[0.25]].concat());
}

#[test]
fn experts_are_stacked_where_their_columns_stand_in_one_order() {
    let config = json!({
        "model_type": "qwen3_moe", "hidden_size": 64, "intermediate_size": 16, "moe_intermediate_size": 16, "num_experts": 2,
        "num_experts_per_tok": 1, "num_hidden_layers": 1, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16,
        "rms_norm_eps": 1e-6, "rope_theta": 10000.0, "max_position_embeddings": 64, "vocab_size": 4, "norm_topk_prob": true,
        "decoder_sparse_step": 1, "mlp_only_layers": [], "tie_word_embeddings": true, "quantization_config": gptq("gptq"),
    });
    let open = |second: fn(usize) -> i32| {
        let mut tensors = Vec::new();
        for (at, (_, dtype, shape, bytes)) in with_groups(|column| (column % 2) as i32).into_iter().enumerate() {
            const NAMES: [&str; 4] = [
                "model.layers.0.mlp.experts.0.up_proj.qweight",
                "model.layers.0.mlp.experts.0.up_proj.qzeros",
                "model.layers.0.mlp.experts.0.up_proj.scales",
                "model.layers.0.mlp.experts.0.up_proj.g_idx",
            ];
            tensors.push((NAMES[at], dtype, shape, bytes));
        }
        for (at, (_, dtype, shape, bytes)) in with_groups(second).into_iter().enumerate() {
            const NAMES: [&str; 4] = [
                "model.layers.0.mlp.experts.1.up_proj.qweight",
                "model.layers.0.mlp.experts.1.up_proj.qzeros",
                "model.layers.0.mlp.experts.1.up_proj.scales",
                "model.layers.0.mlp.experts.1.up_proj.g_idx",
            ];
            tensors.push((NAMES[at], dtype, shape, bytes));
        }
        let weights = vec![("model.safetensors".to_owned(), safetensors(&tensors))];
        Checkpoint::from_folder("folder", config.to_string().into_bytes(), weights)
    };
    let checkpoint = open(|column| (column % 2) as i32).unwrap();
    let tensor = checkpoint.tensor("blk.0.ffn_up_exps.weight").unwrap();
    assert_eq!((&tensor.dims[..], &*tensor.type_name()), (&[64, 16, 2][..], "int4-g32"));
    let row_bytes = tensor.format().unwrap().row_bytes(64).unwrap();
    let mut bytes = vec![0; 32 * row_bytes];
    checkpoint.data(tensor).unwrap().read_rows(0, row_bytes, &mut bytes).unwrap();
    let (first, second) = bytes.split_at(16 * row_bytes);
    assert!(first == second && first.iter().any(|&byte| byte != 0));

    let text = open(|column| (column / 32) as i32).unwrap_err().to_string();
    assert!(text.contains("experts.1.up_proj.weight`: expected columns in one order for all of a stack"), "{text}");
}
