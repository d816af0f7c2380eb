//! The same checkpoints as folders, as `transformers` saved them, against the GGUF files that the scripts made of them.

use std::path::{Path, PathBuf};

use duan_backend::{KvFormat, Precision, Reference};
use duan_model::Model;
use duan_model::checkpoint::Checkpoint;
use duan_model::gguf::TensorInfo;

use crate::common;

/// The fixtures that have a folder, with both.
fn pairs() -> Vec<(String, Checkpoint, Checkpoint)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join("backend/tests/fixtures");
    // Another folder of folders, with all fixtures: `generate.py --folders WHERE`.
    let others = std::env::var_os("DUAN_FOLDER_FIXTURES").map(PathBuf::from);
    let mut names: Vec<String> = std::fs::read_dir(&root)
        .unwrap()
        .map(|entry| entry.unwrap())
        .filter(|entry| entry.path().join("expected.json").exists())
        .map(|entry| entry.file_name().into_string().unwrap())
        .collect();
    names.sort();
    let folder = |name: &str| match &others {
        Some(others) => others.join(name),
        None => root.join(name).join("folder"),
    };
    names
        .into_iter()
        .filter(|name| folder(name).exists())
        .map(|name| {
            let file = Checkpoint::open(&root.join(&name).join("model.gguf")).unwrap();
            let folder = Checkpoint::open(&folder(&name)).unwrap_or_else(|error| panic!("{name}: {error}"));
            (name, file, folder)
        })
        .collect()
}

/// The bytes of a tensor, made row by row and in pieces of three rows.
fn bytes(checkpoint: &Checkpoint, tensor: &TensorInfo) -> Vec<u8> {
    let data = checkpoint.data(tensor).unwrap();
    let format = checkpoint.format_of(tensor).unwrap();
    let row_bytes = format.row_bytes(tensor.dims[0] as usize).unwrap();
    let rows: u64 = tensor.dims[1..].iter().product();
    let mut bytes = vec![0; rows as usize * row_bytes];
    for (piece, to) in bytes.chunks_mut(3 * row_bytes).enumerate() {
        data.read_rows(3 * piece, row_bytes, to).unwrap();
        data.release_pages(3 * piece..3 * piece + to.len() / row_bytes, row_bytes);
    }
    bytes
}

#[test]
fn folders_have_the_tensors_of_the_files() {
    let pairs = pairs();
    assert!(pairs.len() >= 20, "the folders are missing");
    for (name, file, folder) in pairs {
        assert_eq!(folder.left_out(), Vec::<String>::new(), "{name}");
        assert_eq!(folder.warnings(), Vec::<String>::new(), "{name}");
        let mut names = [&file, &folder].map(|checkpoint| {
            let mut names: Vec<&str> = checkpoint.tensors().iter().map(|tensor| tensor.name.as_str()).collect();
            names.sort_unstable();
            names
        });
        assert_eq!(names[0], names[1], "{name}");
        for tensor in names[0].drain(..) {
            let (expected, found) = (file.tensor(tensor).unwrap(), folder.tensor(tensor).unwrap());
            assert_eq!(expected.dims, found.dims, "{name}: {tensor}");
            assert_eq!(expected.type_name(), found.type_name(), "{name}: {tensor}");
            assert_eq!(expected.bytes, found.bytes, "{name}: {tensor}");
            let [expected, found] = [(&file, expected), (&folder, found)].map(|(from, tensor)| bytes(from, tensor));
            assert!(expected == found, "{name}: {tensor}");
        }
    }
}

#[test]
fn folders_give_the_logits_of_the_files() {
    let expected: Vec<common::Fixture> = common::fixtures();
    for (name, _, folder) in pairs() {
        let fixture = expected.iter().find(|fixture| fixture.name == name).unwrap();
        let model = Model::from_checkpoint(&folder).unwrap();
        assert_eq!(model.unused_tensors, Vec::<String>::new(), "{name}");
        let prompt = fixture.prompts.last().unwrap();
        let count = prompt.tokens.len().min(40);
        let logits =
            |model: &Model| common::logits(&Reference::new(Precision::Exact), model, prompt, count, 64, KvFormat::F32);
        assert!(logits(&fixture.model) == logits(&model), "{name}");
    }
}
