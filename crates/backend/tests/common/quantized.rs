//! Folders that are quantized already, against logits that `transformers` gives for the weights that they stand for
//! (`fixtures/quantized.py`).

use std::path::{Path, PathBuf};

use duan_backend::{KvFormat, Precision, Reference};
use duan_model::Model;
use duan_model::checkpoint::Checkpoint;
use duan_quant::Format;

use crate::common::{self, Prompt};

/// Every fixture: its name, the folder, and what its logits are.
fn fixtures() -> Vec<(String, PathBuf, Prompt)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join("backend/tests/fixtures/quantized");
    let mut folders: Vec<PathBuf> = std::fs::read_dir(root).unwrap().map(|entry| entry.unwrap().path()).collect();
    folders.sort();
    let read = |folder: PathBuf| {
        let expected = std::fs::read_to_string(folder.join("expected.json")).unwrap();
        let expected: serde_json::Value = serde_json::from_str(&expected).unwrap();
        let tokens = expected["tokens"].as_array().unwrap().iter();
        let tokens: Vec<u32> = tokens.map(|token| token.as_u64().unwrap() as u32).collect();
        let bytes = std::fs::read(folder.join("logits.f32")).unwrap();
        let logits = bytes.as_chunks().0.iter().map(|&bytes| f32::from_le_bytes(bytes)).collect();
        let positions = (0..tokens.len()).collect();
        let name = folder.file_name().unwrap().to_str().unwrap().to_owned();
        (name, folder, Prompt { context: tokens.len(), tokens, positions, logits })
    };
    folders.into_iter().map(read).collect()
}

fn error(checkpoint: &Checkpoint, prompt: &Prompt) -> f32 {
    let model = Model::from_checkpoint(checkpoint).unwrap();
    assert_eq!(model.unused_tensors, Vec::<String>::new());
    let reference = Reference::new(Precision::Exact);
    let count = prompt.tokens.len();
    let logits = common::logits(&reference, &model, prompt, count, 64, KvFormat::F32);
    common::error(prompt, &logits)
}

fn type_of(checkpoint: &Checkpoint, tensor: &str) -> String {
    checkpoint.tensor(tensor).unwrap().type_name().into_owned()
}

#[test]
fn quantized_folders_give_the_logits_of_the_weights_they_stand_for() {
    let fixtures = fixtures();
    assert_eq!(fixtures.len(), 16, "the folders are missing");
    for (name, folder, prompt) in fixtures {
        let checkpoint = Checkpoint::open(&folder).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(checkpoint.left_out(), Vec::<String>::new(), "{name}");
        // That there is no tokenizer.json is all that is odd.
        assert_eq!(checkpoint.warnings().len(), 1, "{name}: {:?}", checkpoint.warnings());
        let (family, way) = name.split_once('-').unwrap();
        let (expected, order) = match way {
            "gptq" => ("int4-g32-zp", true),
            "gptq-v2" => ("int4-g32", true),
            "awq" => ("int4-g32-zp", false),
            "int4" => ("int4-g32", false),
            "int8" => ("int8-g32", false),
            _ => ("int4-g32-bias", false),
        };
        // Phi 3 has queries, keys and values in one matrix, gate and up in another.
        let read_together: &[&str] = match family {
            "phi3" => &["blk.0.attn_qkv.weight", "blk.0.ffn_up.weight"],
            _ => &["blk.0.attn_q.weight", "blk.0.attn_k.weight", "blk.0.ffn_gate.weight"],
        };
        for tensor in read_together {
            assert_eq!(type_of(&checkpoint, tensor), expected, "{name}: {tensor}");
            let info = checkpoint.tensor(tensor).unwrap();
            assert_eq!(checkpoint.column_order(info).is_some(), order, "{name}: {tensor}");
        }
        let down = if way == "mlx" { "int8-g32-bias" } else { expected };
        assert_eq!(type_of(&checkpoint, "blk.0.ffn_down.weight"), down, "{name}");
        let embedding = if way == "mlx" { expected } else { "F16" };
        assert_eq!(type_of(&checkpoint, "token_embd.weight"), embedding, "{name}");
        let error = error(&checkpoint, &prompt);
        println!("{name}: error {error:.1e}");
        assert!(error <= 1e-4, "{name}: error {error:e}");
    }
}

#[test]
fn rows_are_the_same_however_many_are_asked_for() {
    for (name, folder, _) in fixtures() {
        let checkpoint = Checkpoint::open(&folder).unwrap();
        for tensor in checkpoint.tensors().iter().filter(|tensor| tensor.own_format.is_some()) {
            let data = checkpoint.data(tensor).unwrap();
            let row_bytes = checkpoint.format_of(tensor).unwrap().row_bytes(tensor.dims[0] as usize).unwrap();
            let mut whole = vec![0; row_bytes * tensor.dims[1] as usize];
            data.read_rows(0, row_bytes, &mut whole).unwrap();
            for at_once in [1, 3, 4, 11] {
                for (piece, expected) in whole.chunks(at_once * row_bytes).enumerate() {
                    let mut found = vec![0; expected.len()];
                    data.read_rows(piece * at_once, row_bytes, &mut found).unwrap();
                    assert!(found == expected, "{name}: {} from row {}", tensor.name, piece * at_once);
                }
            }
        }
    }
}

#[test]
fn what_gguf_can_hold_of_quantized_folders_is_what_they_stand_for() {
    let format = |name| duan_quant::format_by_name(name).unwrap();
    for (name, folder, prompt) in fixtures() {
        let checkpoint = Checkpoint::open(&folder).unwrap();
        let (_, way) = name.split_once('-').unwrap();
        let (up, down) = match way {
            "int4" => ("Q4_0", "Q4_0"),
            "int8" => ("Q8_0", "Q8_0"),
            "mlx" => ("Q4_1", "F16"),
            _ => ("F16", "F16"),
        };
        let check = |wanted: Option<&'static Format>, expected: [&str; 2], is_lossless: [bool; 2], limit: f32| {
            let gguf = checkpoint.for_gguf(wanted).unwrap();
            assert!(gguf.tensors().iter().all(|tensor| tensor.own_format.is_none()), "{name}");
            for (at, tensor) in ["blk.0.ffn_up.weight", "blk.0.ffn_down.weight"].into_iter().enumerate() {
                assert_eq!(type_of(&gguf, tensor), expected[at], "{name}: {tensor}");
                let (_, found) = checkpoint.origin_of(gguf.tensor(tensor).unwrap());
                assert_eq!(found, is_lossless[at], "{name}: {tensor} in {}", expected[at]);
            }
            let error = error(&gguf, &prompt);
            println!("{name} in {expected:?}: error {error:.1e}");
            assert!(error <= limit, "{name} in {expected:?}: error {error:e}");
        };
        // A half float rounds the products of scales and codes.
        check(None, [up, down], [up != "F16", down != "F16"], if up == "F16" || down == "F16" { 4e-3 } else { 1e-4 });
        check(Some(format("F32")), ["F32"; 2], [true; 2], 1e-4);
    }
}
