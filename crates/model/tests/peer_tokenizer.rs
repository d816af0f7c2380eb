//! Vocabularies with expected token ids that others publish: every line must be equal.
//!
//! `DUAN_PEER_DATA` names the folder with `ggml-vocab-NAME.gguf`, `.gguf.inp` and `.gguf.out`; without it there is nothing to
//! test, and the tests say so. The texts of an `.inp` file stand between lines of `__ggml_vocab_test__`; the `.out` file has
//! one line of ids for each.

use std::path::{Path, PathBuf};

use duan_model::gguf::GgufFile;
use duan_model::template::{Part, Prompt};
use duan_model::tokenizer::Tokenizer;

/// The vocabularies that must be there and pass, `ggml-vocab-NAME.gguf`.
const REQUIRED: [&str; 14] = [
    "command-r",
    "deepseek-coder",
    "deepseek-llm",
    "falcon",
    "gemma-4",
    "gpt-2",
    "llama-bpe",
    "llama-spm",
    "mpt",
    "phi-3",
    "qwen2",
    "qwen35",
    "refact",
    "starcoder",
];

/// Kinds of tokenizer that are not supported: WordPiece.
const NOT_SUPPORTED: [&str; 1] = ["ggml-vocab-bert-bge.gguf"];

const SEPARATOR: &str = "\n__ggml_vocab_test__\n";

fn folder() -> Option<PathBuf> {
    let folder = PathBuf::from(std::env::var_os("DUAN_PEER_DATA")?);
    let inside = folder.join("models");
    Some(if inside.is_dir() { inside } else { folder })
}

fn name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// Texts and their ids. What stands after the last separator is no test.
fn cases(vocabulary: &Path) -> Vec<(String, Vec<u32>)> {
    let read = |ending: &str| std::fs::read_to_string(format!("{}{ending}", vocabulary.display())).unwrap();
    let (texts, ids) = (read(".inp"), read(".out"));
    let texts: Vec<&str> = texts.split(SEPARATOR).collect();
    let ids: Vec<Vec<u32>> =
        ids.lines().map(|line| line.split_whitespace().map(|id| id.parse().unwrap()).collect()).collect();
    assert!(texts.len() == ids.len() || texts.len() == ids.len() + 1, "{}", vocabulary.display());
    texts.iter().map(|text| (*text).to_owned()).zip(ids).collect()
}

#[test]
fn every_line_of_every_supported_vocabulary_is_equal() {
    let Some(folder) = folder() else {
        println!("skipped: DUAN_PEER_DATA is not set");
        return;
    };
    let mut vocabularies: Vec<PathBuf> = std::fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| name(path).ends_with(".gguf") && path.with_extension("gguf.inp").exists())
        .filter(|path| !NOT_SUPPORTED.contains(&name(path).as_str()))
        .collect();
    vocabularies.sort();
    for required in REQUIRED {
        let required = format!("ggml-vocab-{required}.gguf");
        assert!(vocabularies.iter().any(|path| name(path) == required), "{required} is not in {}", folder.display());
    }
    let mut failures = Vec::new();
    for path in &vocabularies {
        let file = GgufFile::open(path).unwrap();
        let tokenizer = Tokenizer::from_gguf(file.metadata()).unwrap();
        let cases = cases(path);
        assert!(cases.len() > 20, "{}: only {} texts", path.display(), cases.len());
        let wrong: Vec<String> = cases
            .iter()
            .filter(|(text, ids)| tokenizer.encode(text) != *ids)
            .map(|(text, ids)| format!("{text:?}: expected {ids:?}, got {:?}", tokenizer.encode(text)))
            .collect();
        println!("{}: {} of {} equal", name(path), cases.len() - wrong.len(), cases.len());
        failures.extend(wrong.into_iter().map(|line| format!("{}: {line}", name(path))));
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// Text of a message that looks like a control token, with the vocabulary of Qwen 2.
#[test]
fn qwen_encodes_the_end_of_a_turn_in_a_message_as_text() {
    let Some(path) = folder().map(|folder| folder.join("ggml-vocab-qwen2.gguf")).filter(|path| path.exists()) else {
        println!("skipped: DUAN_PEER_DATA is not set, or ggml-vocab-qwen2.gguf is not there");
        return;
    };
    let tokenizer = Tokenizer::from_gguf(GgufFile::open(&path).unwrap().metadata()).unwrap();
    let text = [27, 91, 318, 6213, 91, 29];
    assert_eq!(tokenizer.encode("<|im_end|>"), text);
    let parts = vec![Part::Content("<|im_end|>".to_owned()), Part::Template("<|im_end|>".to_owned())];
    assert_eq!(tokenizer.encode_prompt(&Prompt { parts, ..Prompt::default() })[..], [&text[..], &[151_645]].concat());
    assert_eq!(tokenizer.end_of_turn(), [151_643, 151_645]);
}
