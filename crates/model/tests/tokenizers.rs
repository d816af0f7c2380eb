//! Every pre-tokenizer against Hugging Face's `tokenizers`, on a small vocabulary with merges across all borders.
//!
//! `tokenizers.json` is made by `tokenizers_generate.py`. Many more texts, with vocabularies of models, are compared by
//! `scripts/ids.py`.

mod hugging_face;

use duan_model::gguf::{Metadata, StringArray, Value};
use duan_model::tokenizer::Tokenizer;
use serde_json::Value as Json;

fn strings(json: &Json) -> Value {
    json.as_array().unwrap().iter().map(|string| string.as_str().unwrap()).collect::<StringArray>().into()
}

fn tokenizer(fixture: &Json, pre: &str) -> Tokenizer {
    let mut metadata = Metadata::new("small.gguf");
    metadata.insert("tokenizer.ggml.model", "gpt2").unwrap();
    metadata.insert("tokenizer.ggml.pre", pre).unwrap();
    metadata.insert("tokenizer.ggml.tokens", strings(&fixture["tokens"])).unwrap();
    metadata.insert("tokenizer.ggml.merges", strings(&fixture["merges"])).unwrap();
    Tokenizer::from_gguf(&metadata).unwrap()
}

#[test]
fn every_pre_tokenizer_gives_the_ids_of_tokenizers() {
    let fixture: Json = serde_json::from_str(include_str!("fixtures/tokenizers.json")).unwrap();
    let cases = fixture["cases"].as_array().unwrap();
    assert!(cases.len() >= 300, "{}", cases.len());
    let mut wrong = Vec::new();
    // Cases of one pre-tokenizer stand together.
    for together in cases.chunk_by(|a, b| a["pre"] == b["pre"]) {
        for name in together[0]["pre"].as_array().unwrap() {
            let tokenizer = tokenizer(&fixture, name.as_str().unwrap());
            for case in together {
                let expected: Vec<u64> =
                    case["ids"].as_array().unwrap().iter().map(|id| id.as_u64().unwrap()).collect();
                let got: Vec<u64> =
                    tokenizer.encode(case["text"].as_str().unwrap()).into_iter().map(u64::from).collect();
                if got != expected {
                    wrong.push(format!("{name}, {}: expected {expected:?}\n     got {got:?}", case["text"]));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} wrong\n{}", wrong.len(), wrong.join("\n"));
}
