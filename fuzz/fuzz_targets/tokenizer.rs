//! Builds a tokenizer from an arbitrary vocabulary, and encodes and decodes arbitrary text with it.
//!
//! Text must never become a control token, a prompt may have none but those of its template parts, and streamed output must
//! equal output at once.

#![no_main]

use duan_model::gguf::{Array, Metadata, StringArray};
use duan_model::template::{Part, Prompt};
use duan_model::tokenizer::Tokenizer;
use libfuzzer_sys::arbitrary::{self, Arbitrary};
use libfuzzer_sys::fuzz_target;

#[derive(Debug, Arbitrary)]
struct Input {
    model: u8,
    pre: Option<u8>,
    tokens: Vec<String>,
    /// Whether the alphabet of bytes stands before `tokens`.
    has_alphabet: bool,
    kinds: Option<Vec<u8>>,
    scores: Option<Vec<f32>>,
    merges: Option<Vec<String>>,
    charsmap: Option<Vec<u8>>,
    special: [Option<u32>; 5],
    flags: [Option<bool>; 2],
    parts: Vec<(bool, String)>,
    ids: Vec<u32>,
}

const MODELS: [&str; 7] = ["gpt2", "llama", "gemma4", "t5", "rwkv", "whitespace", "unknown"];
const PRES: [&str; 11] = [
    "gpt-2",
    "llama-bpe",
    "qwen2",
    "deepseek-llm",
    "gpt-4o",
    "falcon",
    "chameleon",
    "jais-2",
    "tiny_aya",
    "superbpe",
    "unknown",
];
const SPECIAL: [&str; 5] = ["bos", "eos", "eot", "eom", "unknown"];

fuzz_target!(|input: Input| {
    let Some(metadata) = metadata(&input) else { return };
    match Tokenizer::from_gguf(&metadata) {
        Ok(tokenizer) => check(&tokenizer, &input),
        Err(error) => assert!(!error.to_string().contains('\n'), "a message of several lines: {error}"),
    }
});

fn metadata(input: &Input) -> Option<Metadata> {
    let mut metadata = Metadata::new("fuzz");
    let mut tokens: StringArray = if input.has_alphabet {
        (0x21..0x144).filter_map(char::from_u32).map(String::from).collect()
    } else {
        StringArray::new()
    };
    input.tokens.iter().for_each(|token| tokens.push(token));
    let count = tokens.len();
    let mut set =
        |key: &str, value: duan_model::gguf::Value| metadata.insert(format!("tokenizer.ggml.{key}"), value).ok();
    set("model", MODELS[input.model as usize % MODELS.len()].into())?;
    set("tokens", tokens.into())?;
    if let Some(pre) = input.pre {
        set("pre", PRES[pre as usize % PRES.len()].into())?;
    }
    if let Some(kinds) = &input.kinds {
        let kinds = (0..count).map(|id| kinds.get(id % kinds.len().max(1)).map_or(1, |&kind| i32::from(kind % 8)));
        set("token_type", Array::I32(kinds.collect()).into())?;
    }
    if let Some(scores) = &input.scores {
        let scores = (0..count).map(|id| scores.get(id % scores.len().max(1)).copied().unwrap_or_default());
        set("scores", Array::F32(scores.collect()).into())?;
    }
    if let Some(merges) = &input.merges {
        set("merges", merges.iter().collect::<StringArray>().into())?;
    }
    if let Some(charsmap) = &input.charsmap {
        set("precompiled_charsmap", Array::U8(charsmap.clone()).into())?;
    }
    for (name, id) in SPECIAL.iter().zip(input.special) {
        if let Some(id) = id {
            set(&format!("{name}_token_id"), id.into())?;
        }
    }
    for (name, flag) in ["add_bos_token", "add_space_prefix"].iter().zip(input.flags) {
        if let Some(flag) = flag {
            set(name, flag.into())?;
        }
    }
    Some(metadata)
}

fn check(tokenizer: &Tokenizer, input: &Input) {
    let size = tokenizer.vocab_size() as u32;
    let controls = |ids: &[u32]| ids.iter().filter(|&&id| tokenizer.is_control(id)).count();
    let in_range = |ids: &[u32]| assert!(ids.iter().all(|&id| id < size), "an id beyond the vocabulary");
    in_range(tokenizer.end_of_turn());
    let mut parts = Vec::new();
    for (is_template, text) in &input.parts {
        let ids = tokenizer.encode(text);
        in_range(&ids);
        assert_eq!(controls(&ids), 0, "text became a control token");
        parts.push(if *is_template { Part::Template(text.clone()) } else { Part::Content(text.clone()) });
    }
    let with_template = tokenizer.encode_prompt(&Prompt { parts: parts.clone(), ..Prompt::default() });
    in_range(&with_template);
    let contents = parts.into_iter().filter(|part| matches!(part, Part::Content(_))).collect();
    let without = tokenizer.encode_prompt(&Prompt { parts: contents, ..Prompt::default() });
    let bos = usize::from(tokenizer.adds_bos());
    assert!(controls(&without) <= bos, "contents became control tokens");
    let ids: Vec<u32> = input.ids.iter().map(|&id| id % size.saturating_add(2)).collect();
    let (mut decoder, mut streamed) = (tokenizer.decoder(), String::new());
    for &id in &ids {
        decoder.push(id, &mut streamed);
    }
    decoder.finish(&mut streamed);
    assert_eq!(streamed, tokenizer.decode(&ids));
}
