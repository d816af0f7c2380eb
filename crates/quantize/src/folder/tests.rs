//! Folders that are written and read back.

use std::collections::BTreeMap;
use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use duan_model::checkpoint::Checkpoint;
use duan_model::hugging_face::Untranslated;
use duan_model::safetensors::SafetensorsFile;
use duan_quant::groups::Groups;
use serde_json::{Value, json};

use super::layout::SHARD_BYTES;
use super::*;
use crate::importance::{Importance, ImportanceData, ImportanceEntry};
use crate::testing::values;
use crate::{KeepRule, QuantizeOptions, Report, Result};

const LAYER: [(&str, [u64; 2]); 7] = [
    ("self_attn.q_proj", [64, 64]),
    ("self_attn.k_proj", [32, 64]),
    ("self_attn.v_proj", [32, 64]),
    ("self_attn.o_proj", [64, 64]),
    ("mlp.gate_proj", [160, 64]),
    ("mlp.up_proj", [160, 64]),
    ("mlp.down_proj", [64, 160]),
];

fn config() -> Value {
    json!({
        "model_type": "llama", "hidden_size": 64, "intermediate_size": 160, "num_hidden_layers": 2, "num_attention_heads": 4,
        "num_key_value_heads": 2, "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "max_position_embeddings": 64,
        "vocab_size": 41, "tie_word_embeddings": false,
    })
}

/// Name, shape, values.
type Made = (String, Vec<u64>, Vec<f32>);

fn tensors() -> Vec<Made> {
    let mut names =
        vec![("model.embed_tokens.weight".to_owned(), vec![41, 64]), ("lm_head.weight".to_owned(), vec![41, 64])];
    for layer in 0..2 {
        let layered = |name: &str| format!("model.layers.{layer}.{name}.weight");
        names.extend(LAYER.iter().map(|(name, shape)| (layered(name), shape.to_vec())));
        names.extend(["input_layernorm", "post_attention_layernorm"].map(|name| (layered(name), vec![64])));
    }
    names.push(("model.norm.weight".to_owned(), vec![64]));
    // Of an odd length, which the places of others must not depend on.
    names.push(("model.layers.0.self_attn.q_proj.odd".to_owned(), vec![7]));
    let made = |(at, (name, shape)): (usize, (String, Vec<u64>))| {
        let count = shape.iter().product::<u64>() as usize;
        (name, shape, values(count, at as u64 + 1))
    };
    names.into_iter().enumerate().map(made).collect()
}

struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    fn new() -> Place {
        Place::of(&tensors())
    }

    fn of(tensors: &[Made]) -> Place {
        let place = Place { folder: tempfile::tempdir().unwrap() };
        fs::create_dir(place.path("in")).unwrap();
        let (mut header, mut data) = (serde_json::Map::new(), Vec::new());
        for (name, shape, values) in tensors {
            let start = data.len();
            data.extend(values.iter().flat_map(|value| value.to_le_bytes()));
            header.insert(name.clone(), json!({"dtype": "F32", "shape": shape, "data_offsets": [start, data.len()]}));
        }
        let header = Value::Object(header).to_string();
        let file = [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &data].concat();
        fs::write(place.path("in/model.safetensors"), file).unwrap();
        fs::write(place.path("in/config.json"), config().to_string()).unwrap();
        fs::write(place.path("in/generation_config.json"), "{}").unwrap();
        fs::write(place.path("in/README.md"), "not carried").unwrap();
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn names(&self, folder: &str) -> Vec<String> {
        let entries = fs::read_dir(self.path(folder)).unwrap();
        let mut names: Vec<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    fn source(&self) -> Untranslated {
        Untranslated::open(&self.path("in")).unwrap()
    }

    fn run(&self, out: &str, format: &str, threads: usize, importance: Option<&Importance>) -> Result<Report> {
        let source = self.source();
        let plan = FolderPlan::new(&source, GroupFormat::by_name(format).unwrap(), &[])?;
        let options = QuantizeOptions { importance, threads, force: false };
        let go_on = |_, _| ControlFlow::Continue(());
        quantize_folder(&source, &plan, &options, &self.path(out), go_on).map(|report| report.unwrap())
    }
}

fn rules(texts: &[&str]) -> Vec<KeepRule> {
    texts.iter().map(|text| KeepRule::parse(text).unwrap()).collect()
}

/// The weights of a folder's tensors, as they stand there.
fn weights(folder: &Path) -> BTreeMap<String, Vec<f32>> {
    let source = Untranslated::open(folder).unwrap();
    let mut all = BTreeMap::new();
    for (index, tensor) in source.tensors().iter().enumerate() {
        let format = tensor.dtype.format().unwrap();
        let columns = tensor.shape.last().map_or(1, |&columns| columns as usize);
        let mut bytes = vec![0; tensor.bytes() as usize];
        source.data(index).unwrap().read_rows(0, columns * format.block_bytes, &mut bytes).unwrap();
        let mut values = vec![0.0; tensor.elements() as usize];
        format.decode(&bytes, &mut values).unwrap();
        all.insert(tensor.name.clone(), values);
    }
    all
}

fn is_linear(name: &str) -> bool {
    name.contains("_proj.weight")
}

/// What the definition makes of a matrix.
fn expected(format: &GroupFormat, values: &[f32], columns: usize) -> Vec<f32> {
    let blocks = format.blocks(columns as u64).unwrap();
    let groups = Groups::of(blocks).unwrap();
    let mut back = values.to_vec();
    let of_matrix = groups.integers().search(values, None);
    for (row, back) in values.chunks(columns).zip(back.chunks_mut(columns)) {
        let mut bytes = vec![0; blocks.row_bytes(columns).unwrap()];
        let group = match format.sharing {
            Sharing::Group(_) => None,
            Sharing::Channel => Some(groups.integers().search(row, None)),
            Sharing::Tensor => Some(of_matrix),
        };
        match group {
            None => blocks.encode_best(row, None, &mut bytes).unwrap(),
            Some(group) => {
                let blocks = row.chunks(groups.weights).zip(bytes.chunks_mut(groups.block_bytes()));
                blocks.for_each(|(values, block)| groups.write_nearest(group, values, block));
            }
        }
        blocks.decode(&bytes, back).unwrap();
    }
    back
}

#[test]
fn every_name_is_a_format_with_blocks_of_every_length() {
    for format in GROUP_FORMATS {
        assert_eq!(GroupFormat::by_name(&format.name.to_uppercase()), Some(format));
        for (columns, weights) in [(256, 256), (128, 128), (192, 64), (96, 32)] {
            let most = if let Sharing::Group(most) = format.sharing { most } else { 256 };
            let blocks = format.blocks(columns).unwrap();
            assert_eq!(blocks.block_weights, weights.min(most), "{} {columns}", format.name);
            assert!(blocks.name.starts_with(if format.bits == 4 { "int4-g" } else { "int8-g" }), "{}", blocks.name);
            assert_eq!(blocks.name.ends_with("-zp"), format.name.ends_with("-zp"));
        }
        assert_eq!(format.blocks(40), None);
        assert!(matches!(format.sharing, Sharing::Group(_)) == (format.wanted().name == format.name));
    }
}

#[test]
fn weights_are_what_the_definition_makes_of_them_however_many_threads() {
    let place = Place::new();
    let before: BTreeMap<String, Vec<f32>> = tensors().into_iter().map(|tensor| (tensor.0, tensor.2)).collect();
    for format in GROUP_FORMATS {
        let [one, three] = [1, 3].map(|threads| {
            let out = format!("{}-{threads}", format.name);
            let report = place.run(&out, format.name, threads, None).unwrap();
            (place.path(&out), report)
        });
        assert_eq!(one.1, three.1, "{}", format.name);
        for name in ["model.safetensors", "config.json"] {
            assert!(fs::read(one.0.join(name)).unwrap() == fs::read(three.0.join(name)).unwrap(), "{}", format.name);
        }
        let after = weights(&one.0);
        assert_eq!(after.keys().collect::<Vec<_>>(), before.keys().collect::<Vec<_>>());
        for (name, before) in &before {
            let columns = if name.contains("down_proj") { 160 } else { 64 };
            let expected = if is_linear(name) { expected(format, before, columns) } else { before.clone() };
            assert!(expected == after[name], "{}: {name}", format.name);
            let row = one.1.tensors.iter().find(|row| &row.name == name).unwrap();
            let square = |x: f32| f64::from(x) * f64::from(x);
            let error: f64 = before.iter().zip(&expected).map(|(a, b)| square(a - b)).sum();
            let relative = (error / before.iter().map(|x| square(*x)).sum::<f64>()).sqrt();
            assert!(
                (row.error - relative).abs() <= 1e-5 * relative,
                "{}: {name}: {} {relative}",
                format.name,
                row.error
            );
        }
        let source = place.source();
        let plan = FolderPlan::new(&source, format, &[]).unwrap();
        let foreseen = foresee_folder(&source, &plan, None).unwrap();
        assert_eq!((foreseen.bytes, foreseen.bits_per_weight), (one.1.bytes, one.1.bits_per_weight));
        assert_eq!(foreseen.bytes, fs::metadata(one.0.join("model.safetensors")).unwrap().len());
    }
}

#[test]
fn the_engine_sees_the_weights_in_the_format_of_the_blocks() {
    let place = Place::new();
    for (format, square, down) in [
        ("int4-g64", "int4-g64", "int4-g32"),
        ("int4-channel-zp", "int4-g64-zp", "int4-g32-zp"),
        ("int8-tensor", "int8-g64", "int8-g32"),
        ("int8-g32-zp", "int8-g32-zp", "int8-g32-zp"),
    ] {
        place.run(format, format, 2, None).unwrap();
        let checkpoint = Checkpoint::open(&place.path(format)).unwrap();
        let name = |tensor: &str| checkpoint.tensor(tensor).unwrap().type_name().into_owned();
        assert_eq!((name("blk.1.attn_q.weight"), name("blk.1.ffn_down.weight")), (square.into(), down.into()));
        assert_eq!([name("output.weight"), name("token_embd.weight")], ["F32", "F32"]);
        assert_eq!(checkpoint.left_out(), ["model.layers.0.self_attn.q_proj.odd"]);
    }
}

#[test]
fn tensors_stand_at_multiples_of_their_numbers_without_holes() {
    let place = Place::new();
    let source = place.source();
    for (format, shard_bytes, files) in [("int4-tensor-zp", SHARD_BYTES, 1), ("int8-channel-zp", 40_000, 3)] {
        let plan = FolderPlan::new(&source, GroupFormat::by_name(format).unwrap(), &[]).unwrap();
        let options = QuantizeOptions { importance: None, threads: 2, force: false };
        let out = place.path(format);
        super::write::write(&source, &plan, &options, &out, shard_bytes, |_, _| ControlFlow::Continue(())).unwrap();
        let mut seen = 0;
        let weights_of = |name: &String| name.ends_with(".safetensors");
        let names: Vec<String> = place.names(format).into_iter().filter(weights_of).collect();
        assert_eq!(names.len(), files, "{names:?}");
        for name in &names {
            let file = SafetensorsFile::open(&out.join(name)).unwrap();
            let mut tensors: Vec<_> = file.tensors().iter().collect();
            tensors.sort_by_key(|tensor| (tensor.offset, tensor.bytes));
            assert_eq!(tensors[0].offset % 8, 0);
            for pair in tensors.windows(2) {
                assert_eq!(pair[0].offset + pair[0].bytes, pair[1].offset);
            }
            let last = tensors.last().unwrap();
            assert_eq!(last.offset + last.bytes, fs::metadata(out.join(name)).unwrap().len());
            assert!(tensors.iter().all(|tensor| tensor.offset % (tensor.dtype.bits() / 8) == 0));
            seen += tensors.len();
        }
        if format == "int4-tensor-zp" {
            // A single zero point is not packed: a signed byte of the range of the codes.
            let (file, bytes) =
                (SafetensorsFile::open(&out.join(&names[0])).unwrap(), fs::read(out.join(&names[0])).unwrap());
            let zeros = file.tensors().iter().filter(|tensor| tensor.name.ends_with("weight_zero_point"));
            let zeros: Vec<i8> = zeros.map(|tensor| bytes[tensor.offset as usize] as i8).collect();
            assert!(zeros.len() == 14 && zeros.iter().all(|zero| (-8..8).contains(zero)), "{zeros:?}");
            assert!(zeros.iter().any(|&zero| zero < 0), "{zeros:?}");
        }
        // Codes, scale, zero point and shape of 14 matrices; 8 others.
        assert_eq!(seen, 14 * 4 + 8);
        let index = fs::read(out.join("model.safetensors.index.json")).ok();
        let index: Option<Value> = index.map(|text| serde_json::from_slice(&text).unwrap());
        assert_eq!(index.map(|index| index["weight_map"].as_object().unwrap().len()), (files > 1).then_some(seen));
        place.run("whole", format, 1, None).unwrap();
        assert!(weights(&out) == weights(&place.path("whole")));
        fs::remove_dir_all(place.path("whole")).unwrap();
    }
}

#[test]
fn the_configuration_says_how_and_words_are_carried_over() {
    let place = Place::new();
    let report = place.run("out", "int4-g64", 2, None).unwrap();
    assert_eq!(place.names("out"), ["config.json", "generation_config.json", "model.safetensors"]);
    let written: Value = serde_json::from_slice(&fs::read(place.path("out/config.json")).unwrap()).unwrap();
    for (key, value) in config().as_object().unwrap() {
        assert_eq!(&written[key], value, "{key}");
    }
    let quantization = &written["quantization_config"];
    assert_eq!(quantization["ignore"], json!(["lm_head"]));
    let scheme = |group: &str, key: &str| quantization["config_groups"][group]["weights"][key].clone();
    assert_eq!(quantization["config_groups"]["group_0"]["targets"], json!(["Linear"]));
    let downs = json!(["model.layers.0.mlp.down_proj", "model.layers.1.mlp.down_proj"]);
    assert_eq!(quantization["config_groups"]["group_1"]["targets"], downs);
    assert_eq!([scheme("group_0", "group_size"), scheme("group_1", "group_size")], [json!(64), json!(32)]);
    let [fallen] = &report.fallbacks[..] else { panic!("{:?}", report.fallbacks) };
    assert_eq!((fallen.from, &*fallen.to, fallen.columns, fallen.tensors), ("int4-g64", "int4-g32", 160, 2));
    let formats: Vec<String> = report.by_format().into_iter().map(|row| row.format).collect();
    assert_eq!(formats, ["int4-g64", "F32", "int4-g32"]);
    assert_eq!(report.by_layer().last().unwrap().layer, Some(1));

    // Once more, from what is quantized already: the way it was quantized in is no matter any more.
    fs::rename(place.path("in"), place.path("first")).unwrap();
    fs::rename(place.path("out"), place.path("in")).unwrap();
    let report = place.run("out", "int8-channel", 2, None).unwrap();
    assert_eq!(report.requantized_from, ["int4-g32", "int4-g64"]);
    let written: Value = serde_json::from_slice(&fs::read(place.path("out/config.json")).unwrap()).unwrap();
    let groups = written["quantization_config"]["config_groups"].as_object().unwrap();
    assert_eq!((groups.len(), &groups["group_0"]["weights"]["strategy"]), (1, &json!("channel")));
    assert_eq!(report.by_format()[0].format, "int8-channel");
    assert_eq!(report.fallbacks, []);
    let q = report.tensors.iter().find(|row| row.name.ends_with("1.self_attn.q_proj.weight")).unwrap();
    assert_eq!((&*q.from, &*q.format), ("int4-g64", "int8-channel"));
}

#[test]
fn rules_give_single_tensors_other_formats() {
    let place = Place::new();
    let source = place.source();
    let format = GroupFormat::by_name("int4-g64").unwrap();
    let keep = rules(&["layers.0.mlp.down=int8-g32-zp", "blk.1.ffn_down=bf16", "^token_embd=f16", "lm_head=f32"]);
    let plan = FolderPlan::new(&source, format, &keep).unwrap();
    let options = QuantizeOptions { importance: None, threads: 2, force: false };
    quantize_folder(&source, &plan, &options, &place.path("out"), |_, _| ControlFlow::Continue(())).unwrap().unwrap();
    let checkpoint = Checkpoint::open(&place.path("out")).unwrap();
    let name = |tensor: &str| checkpoint.tensor(tensor).unwrap().type_name().into_owned();
    let found = ["blk.0.ffn_down.weight", "blk.1.ffn_down.weight", "token_embd.weight", "output.weight"].map(name);
    assert_eq!(found, ["int8-g32-zp", "BF16", "F16", "F32"]);
    let written: Value = serde_json::from_slice(&fs::read(place.path("out/config.json")).unwrap()).unwrap();
    assert_eq!(written["quantization_config"]["ignore"], json!(["lm_head", "model.layers.1.mlp.down_proj"]));
    for (rule, part) in [
        ("mlp=q8_0", "Q8_0 has no place in a folder of integers in groups; keep tensors as f16"),
        ("lm_head=int8-g64", "`lm_head.weight` is no linear layer of the layers, and int8-g64 is for those"),
        ("norm=f16", "it matches no tensor"),
    ] {
        let error = FolderPlan::new(&source, format, &rules(&[rule])).unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }
}

#[test]
fn a_weight_that_is_no_number_is_named_and_nothing_is_left() {
    for (value, format, part) in [
        (f32::NAN, "int4-g64", "is NaN; nothing was written"),
        (f32::INFINITY, "int4-tensor", "is infinite"),
        (9e8, "int8-channel", "holds at most"),
    ] {
        let mut made = tensors();
        let q = made.iter_mut().find(|tensor| tensor.0 == "model.layers.1.self_attn.q_proj.weight").unwrap();
        q.2[64 * 3 + 5] = value;
        let place = Place::of(&made);
        let error = place.run("out", format, 3, None).unwrap_err().to_string();
        let whole = format!("tensor `model.layers.1.self_attn.q_proj.weight`: weight 197 (row 3, column 5) {part}");
        assert!(error.contains(&whole) || (error.contains("weight 197") && error.contains(part)), "{error}");
        assert_eq!(place.names("."), ["in"]);
    }
}

#[test]
fn what_is_there_stays_and_a_break_leaves_nothing() {
    let place = Place::new();
    let source = place.source();
    let plan = FolderPlan::new(&source, GroupFormat::by_name("int4-g32").unwrap(), &[]).unwrap();
    let options = QuantizeOptions { importance: None, threads: 2, force: true };
    for out in [place.path("in"), place.path("in/config.json")] {
        let error = quantize_folder(&source, &plan, &options, &out, |_, _| ControlFlow::Continue(())).unwrap_err();
        assert!(error.to_string().contains("exists already and was not changed; name another folder"), "{error}");
    }
    let stop = |done, _| if done > 20_000 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) };
    assert_eq!(quantize_folder(&source, &plan, &options, &place.path("out"), stop).unwrap(), None);
    assert_eq!(place.names("."), ["in"]);
}

fn importance(entries: &[(&str, Vec<f32>, Vec<u64>)]) -> Importance {
    let entries = entries.iter().map(|(name, sums, counts)| {
        ((*name).to_owned(), ImportanceEntry { sums: sums.clone(), counts: counts.clone() })
    });
    let data = ImportanceData { chunk_count: 4, chunk_size: 8, entries: entries.collect(), datasets: vec!["t".into()] };
    Importance::from_bytes(data.to_bytes().unwrap(), "i.gguf").unwrap()
}

#[test]
fn importance_weighs_columns_of_matrices_and_of_single_experts() {
    let place = Place::new();
    let mut sums = vec![1.0; 64];
    sums[9] = 1e6;
    let some = importance(&[("blk.0.attn_q.weight", sums.clone(), vec![4])]);
    for format in ["int4-g64", "int4-channel", "int4-tensor"] {
        place.run("plain", format, 2, None).unwrap();
        let report = place.run("out", format, 2, Some(&some)).unwrap();
        let told = report.importance.unwrap();
        assert_eq!((told.slices, told.used, told.missing.len()), (1, 1, 13));
        let [plain, out] = ["plain", "out"].map(|name| weights(&place.path(name)));
        let before = &tensors().into_iter().find(|tensor| tensor.0.contains("0.self_attn.q_proj.weight")).unwrap().2;
        let error = |after: &BTreeMap<String, Vec<f32>>| -> f32 {
            let after = &after["model.layers.0.self_attn.q_proj.weight"];
            (0..64).map(|row| (before[row * 64 + 9] - after[row * 64 + 9]).powi(2)).sum()
        };
        // One scale for all weights leaves less to choose.
        let share = if format == "int4-tensor" { 0.95 } else { 0.5 };
        assert!(error(&out) < share * error(&plain), "{format}: {} {}", error(&out), error(&plain));
        let others = |all: &BTreeMap<String, Vec<f32>>| {
            let mut all = all.clone();
            all.remove("model.layers.0.self_attn.q_proj.weight");
            all
        };
        assert!(others(&plain) == others(&out));
        fs::remove_dir_all(place.path("plain")).unwrap();
        fs::remove_dir_all(place.path("out")).unwrap();
    }
    let strange = importance(&[("blk.9.attn_q.weight", sums, vec![4])]);
    let error = place.run("out", "int4-g64", 2, Some(&strange)).unwrap_err().to_string();
    assert!(error.contains("i.gguf: it has no entry for any tensor that is quantized"), "{error}");

    let experts = Path::new(env!("CARGO_MANIFEST_DIR")).join("../backend/tests/fixtures/qwen3moe/folder");
    let source = Untranslated::open(&experts).unwrap();
    let plan = FolderPlan::new(&source, GroupFormat::by_name("int8-g32").unwrap(), &[]).unwrap();
    let gates: Vec<_> = source.tensors().iter().filter(|tensor| tensor.name.ends_with("mlp.gate.weight")).collect();
    let gate_modules: Vec<&str> = gates.iter().map(|gate| gate.module()).collect();
    assert!(!gates.is_empty() && gates.iter().all(|gate| !gate.is_linear));
    let ignored = plan.ignored(&source);
    assert!(gate_modules.iter().all(|gate| ignored.iter().any(|module| module == gate)), "{ignored:?}");
    let up = source.tensors().iter().find(|tensor| tensor.name.ends_with("0.mlp.experts.1.up_proj.weight")).unwrap();
    let place_of = up.place.clone().unwrap();
    assert_eq!((&*place_of.name, place_of.slice), ("blk.0.ffn_up_exps.weight", 1));
    let (columns, slices) = (up.shape[1] as usize, place_of.slices as usize);
    assert!(slices > 1 && up.is_linear);
    // Only the second expert was ever used.
    let mut sums = vec![0.0; columns * slices];
    sums[columns..2 * columns].fill(2.0);
    let mut counts = vec![0; slices];
    counts[1] = 3;
    let used = importance(&[("blk.0.ffn_up_exps.weight", sums, counts)]);
    let report = foresee_folder(&source, &plan, Some(&used)).unwrap().importance.unwrap();
    assert_eq!((report.slices, report.used), (slices as u64, 1));
    assert!(report.faults.iter().all(|fault| fault.ends_with("the expert was never used")), "{:?}", report.faults);
    assert_eq!(report.faults.len(), slices - 1);
}
