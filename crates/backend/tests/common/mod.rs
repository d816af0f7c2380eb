//! The fixtures made by `transformers`, and how a device is held to them. Shared with the tests of devices.

use std::path::{Path, PathBuf};

use duan_backend::{Backend, CompileJob, KvFormat, Limits, PAGE_TOKENS, Packing, Pass, Span};
use duan_model::Model;
use duan_model::gguf::GgufFile;

/// One prompt and the logits that `transformers` gives for some of its positions.
pub struct Prompt {
    pub tokens: Vec<u32>,
    /// Positions that the model is loaded for.
    pub context: usize,
    pub positions: Vec<usize>,
    /// [positions, vocab_size]
    pub logits: Vec<f32>,
}

/// One tiny checkpoint.
pub struct Fixture {
    pub name: String,
    pub model: Model,
    pub prompts: Vec<Prompt>,
}

/// Every fixture in the folder beside this crate's tests.
pub fn fixtures() -> Vec<Fixture> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join("backend/tests/fixtures");
    let mut folders: Vec<PathBuf> = std::fs::read_dir(root)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.join("expected.json").exists())
        .collect();
    folders.sort();
    assert!(folders.len() >= 10, "the fixtures are missing");
    folders.iter().map(|folder| read(folder)).collect()
}

fn read(folder: &Path) -> Fixture {
    let file = GgufFile::open(&folder.join("model.gguf")).unwrap();
    let expected: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(folder.join("expected.json")).unwrap()).unwrap();
    let numbers = |value: &serde_json::Value| -> Vec<usize> {
        value.as_array().unwrap().iter().map(|number| number.as_u64().unwrap() as usize).collect()
    };
    let model = Model::from_gguf(&file).unwrap();
    let prompts = expected["prompts"].as_array().unwrap().iter().map(|prompt| {
        let bytes = std::fs::read(folder.join(prompt["logits"].as_str().unwrap())).unwrap();
        Prompt {
            tokens: numbers(&prompt["tokens"]).iter().map(|&token| token as u32).collect(),
            context: prompt["context"].as_u64().map_or(model.config.context_length, |context| context as usize),
            positions: numbers(&prompt["positions"]),
            logits: bytes.as_chunks().0.iter().map(|&bytes| f32::from_le_bytes(bytes)).collect(),
        }
    });
    Fixture { name: folder.file_name().unwrap().to_str().unwrap().to_owned(), prompts: prompts.collect(), model }
}

/// Logits of the first `count` positions [count, vocab_size] when the prompt is cut into passes of at most `piece` tokens.
pub fn logits(
    backend: &dyn Backend,
    model: &Model,
    prompt: &Prompt,
    count: usize,
    piece: usize,
    kv_format: KvFormat,
) -> Vec<f32> {
    let tokens = &prompt.tokens[..count];
    // Pages in an order that is not that of the positions, so that nobody gets by without the table.
    let pages: Vec<u32> = (0..tokens.len().div_ceil(PAGE_TOKENS) as u32).rev().collect();
    let limits =
        Limits { max_rows: piece, max_wanted_rows: piece, pages: pages.len(), context: prompt.context, kv_format };
    let all = 0..model.graph.nodes.len();
    let mut compiled = backend
        .compile(&CompileJob { model, ops: std::slice::from_ref(&all), limits, packing: Packing::InMemory })
        .unwrap();
    let mut logits = Vec::new();
    for (index, tokens) in tokens.chunks(piece).enumerate() {
        let count = tokens.len();
        let spans = [Span { sequence: 0, start: index * piece, count, wanted: count, pages: &pages }];
        compiled.submit(&Pass { tokens, spans: &spans }, 0..model.graph.nodes.len()).unwrap();
        compiled.wait().unwrap();
        logits.extend_from_slice(compiled.value(model.graph.logits, count * model.config.vocab_size));
    }
    logits
}

/// Max over positions of max abs difference / max abs expected logit of that position.
pub fn error(prompt: &Prompt, logits: &[f32]) -> f32 {
    let vocab_size = prompt.logits.len() / prompt.positions.len();
    let largest = |row: &[f32]| row.iter().fold(0.0f32, |a, x| a.max(x.abs()));
    prompt
        .logits
        .chunks(vocab_size)
        .zip(&prompt.positions)
        .map(|(expected, position)| {
            let found = &logits[position * vocab_size..][..vocab_size];
            let difference: Vec<f32> = expected.iter().zip(found).map(|(a, b)| a - b).collect();
            assert!(found.iter().all(|x| x.is_finite()), "position {position}");
            largest(&difference) / largest(expected)
        })
        .fold(0.0, f32::max)
}
