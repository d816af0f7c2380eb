//! Small tokenizers as folders have them, translated, against Hugging Face's `tokenizers` and SentencePiece.
//!
//! `hugging_face.json` is made by `hugging_face_generate.py`. Tokenizers of models are compared by `scripts/tokenizer_json.py`.

use duan_model::gguf::{Array, Value};
use duan_model::hugging_face::tokenizer::{Files, Translation, translate};
use duan_model::template::ChatTemplate;
use duan_model::tokenizer::Tokenizer;
use serde_json::{Map, Value as Json};

fn fixture() -> Json {
    serde_json::from_str(include_str!("../fixtures/hugging_face.json")).unwrap()
}

fn bytes(json: &Json) -> Option<Vec<u8>> {
    (!json.is_null()).then(|| serde_json::to_vec(json).unwrap())
}

/// Bytes from base64.
fn decoded(text: &str) -> Vec<u8> {
    const DIGITS: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let (mut bytes, mut bits, mut count) = (Vec::new(), 0usize, 0);
    for digit in text.chars().filter_map(|c| DIGITS.find(c)) {
        (bits, count) = ((bits << 6 | digit) & 0xffff, count + 6);
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count) as u8);
        }
    }
    bytes
}

/// The `tokenizer.json` of a case, put together.
fn tokenizer_json(fixture: &Json, case: &Json) -> Json {
    let mut model: Map<String, Json> = fixture["models"][case["model"].as_str().unwrap()].as_object().unwrap().clone();
    model.extend(case["options"].as_object().unwrap().clone());
    let mut tokenizer = case["tokenizer"].clone();
    tokenizer["model"] = model.into();
    tokenizer
}

fn files(fixture: &Json, case: &Json) -> Files {
    let sentencepiece = case["sentencepiece"].as_str().map(decoded);
    Files {
        folder: case["name"].as_str().unwrap().to_owned(),
        tokenizer: sentencepiece.is_none().then(|| bytes(&tokenizer_json(fixture, case)).unwrap()),
        sentencepiece,
        tokenizer_config: bytes(&case["files"]["tokenizer_config.json"]),
        special_tokens_map: bytes(&case["files"]["special_tokens_map.json"]),
        generation_config: bytes(&case["files"]["generation_config.json"]),
        config: bytes(&case["files"]["config.json"]),
        ..Files::default()
    }
}

/// A value as the fixture writes it.
fn json(value: &Value) -> Json {
    match value {
        Value::String(text) => text.as_str().into(),
        Value::Bool(value) => (*value).into(),
        Value::Array(Array::U32(ids)) => ids.iter().copied().collect(),
        other => i64::try_from(other.as_integer().unwrap()).unwrap().into(),
    }
}

fn check_keys(case: &Json, translation: &Translation, wrong: &mut Vec<String>) {
    let metadata = translation.metadata("").unwrap();
    for (key, expected) in case["expected"].as_object().unwrap() {
        let got = metadata.get(key).map_or(Json::Null, json);
        if got != *expected {
            wrong.push(format!("{}: {key}: expected {expected}, got {got}", case["name"]));
        }
    }
    let named = |key: &str| case["expected"].get(key).is_some();
    let own = translation.entries.iter().filter(|(key, _)| key.starts_with("duan.") && !named(key));
    wrong.extend(own.map(|(key, _)| format!("{}: {key} is not needed", case["name"])));
}

#[test]
fn every_kind_gives_the_ids_of_tokenizers() {
    let fixture = fixture();
    let cases = fixture["cases"].as_array().unwrap();
    assert!(cases.len() >= 29, "{}", cases.len());
    let (mut wrong, mut texts) = (Vec::new(), 0);
    for case in cases {
        let name = &case["name"];
        let translation = translate(&files(&fixture, case)).unwrap_or_else(|error| panic!("{name}: {error}"));
        check_keys(case, &translation, &mut wrong);
        let metadata = translation.metadata("").unwrap();
        let tokenizer = Tokenizer::from_gguf(&metadata).unwrap_or_else(|error| panic!("{name}: {error}"));
        if let Some(size) = case["files"]["config.json"]["vocab_size"].as_u64() {
            assert_eq!(tokenizer.vocab_size() as u64, size, "{name}");
        }
        for text in case["texts"].as_array().unwrap() {
            let expected: Vec<u64> = text["ids"].as_array().unwrap().iter().map(|id| id.as_u64().unwrap()).collect();
            let got = tokenizer.encode(text["text"].as_str().unwrap());
            texts += 1;
            if !got.iter().map(|&id| u64::from(id)).eq(expected.iter().copied()) {
                wrong.push(format!("{name}, {}: expected {expected:?}\n     got {got:?}", text["text"]));
            }
        }
    }
    assert!(texts > 500, "{texts}");
    assert!(wrong.is_empty(), "{} wrong\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn merges_as_pairs_and_as_strings_are_the_same() {
    let fixture = fixture();
    for case in fixture["cases"].as_array().unwrap().iter().filter(|case| case["sentencepiece"].is_null()) {
        let as_it_is = files(&fixture, case);
        let mut turned = tokenizer_json(&fixture, case);
        let Some(merges) = turned["model"]["merges"].as_array_mut() else { continue };
        for merge in merges {
            *merge = match &*merge {
                Json::String(text) => {
                    let (left, right) = text.split_once(' ').unwrap();
                    vec![left, right].into()
                }
                pair => format!("{} {}", pair[0].as_str().unwrap(), pair[1].as_str().unwrap()).into(),
            };
        }
        let other = Files { tokenizer: bytes(&turned), ..as_it_is.clone() };
        let (left, right) = (translate(&as_it_is).unwrap(), translate(&other).unwrap());
        assert_eq!(left.entries, right.entries, "{}", case["name"]);
        turned["model"].as_object_mut().unwrap().remove("merges");
        let without = Files { tokenizer: bytes(&turned), ..as_it_is };
        let error = translate(&without).unwrap_err().to_string();
        assert!(error.contains("tokenizer.json: `model.merges`: expected the merges"), "{error}");
    }
}

#[test]
fn the_template_is_read_with_the_tokens_it_names() {
    let fixture = fixture();
    let qwen = fixture["cases"].as_array().unwrap().iter().find(|case| case["name"] == "qwen2").unwrap();
    let metadata = translate(&files(&fixture, qwen)).unwrap().metadata("folder").unwrap();
    let tokenizer = Tokenizer::from_gguf(&metadata).unwrap();
    assert_eq!(tokenizer.token_text(tokenizer.eos().unwrap()), Some("<|im_end|>"));
    let template = ChatTemplate::from_gguf(&metadata, &tokenizer).unwrap().unwrap();
    assert_eq!(template.source(), "{{ messages[0].content }}");
}
