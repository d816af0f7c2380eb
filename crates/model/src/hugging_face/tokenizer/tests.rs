//! Small files, made here: what is wrong with them, and what is taken from which.

use serde_json::json;

use super::*;
use crate::template::{ChatTemplate, RenderOptions};
use crate::tokenizer::Tokenizer;

fn bytes(json: &Json) -> Option<Vec<u8>> {
    Some(json.to_string().into_bytes())
}

/// A byte-level tokenizer with six tokens.
fn small() -> Json {
    json!({
        "added_tokens": [{"id": 5, "content": "<|end|>", "special": true}],
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false},
        "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "c": 2, "ab": 3, "abc": 4}, "merges": [["a", "b"], "ab c"]},
    })
}

fn of(tokenizer: &Json) -> Files {
    Files { folder: "f".to_owned(), tokenizer: bytes(tokenizer), ..Files::default() }
}

fn error(files: &Files) -> String {
    let error = translate(files).unwrap_err().to_string();
    assert!(!error.contains('\n'), "{error}");
    error
}

/// `small` with a change.
fn changed(change: impl FnOnce(&mut Json)) -> Json {
    let mut json = small();
    change(&mut json);
    json
}

fn value(files: &Files, key: &str) -> Option<Value> {
    translate(files).unwrap().entries.into_iter().find(|(other, _)| other == key).map(|(_, value)| value)
}

fn texts(files: &Files) -> Vec<String> {
    match value(files, keys::TOKENS) {
        Some(Value::Array(Array::String(texts))) => texts.iter().map(str::to_owned).collect(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_list_is_padded_and_named() {
    let files = Files { config: bytes(&json!({"vocab_size": 8})), ..of(&small()) };
    assert_eq!(texts(&files), ["a", "b", "c", "ab", "abc", "<|end|>", "[PAD6]", "[PAD7]"]);
    assert_eq!(value(&files, keys::TYPES), Some(Array::I32(vec![1, 1, 1, 1, 1, 3, 5, 5]).into()));
    assert_eq!(value(&files, keys::MERGES), Some([&"a b", &"ab c"].into_iter().collect::<StringArray>().into()));
    // The rows of the model's embedding come before what is said of them.
    let rows = |embedding_rows| Files { embedding_rows, ..files.clone() };
    assert_eq!((texts(&rows(Some(7))).len(), texts(&rows(None)).len()), (7, 8));
    // Holes inside are filled as well.
    let files = of(&changed(|json| json["model"]["vocab"]["d"] = 7.into()));
    assert_eq!(texts(&files)[5..], ["<|end|>", "[PAD6]", "d"]);
    // Tokens beyond the model's rows are left out, and it is said.
    let files = Files { config: bytes(&json!({"text_config": {"vocab_size": 5}})), ..of(&small()) };
    let translation = translate(&files).unwrap();
    assert_eq!(texts(&files).len(), 5);
    assert!(translation.notes[0].contains("1 tokens from 5 `<|end|>` on have no row"), "{:?}", translation.notes);
}

#[test]
fn little_is_said_of_much_that_is_odd() {
    let added = |number: u64| json!({"id": 10 + number, "content": "", "special": true});
    let files = of(&changed(|json| json["added_tokens"] = (0..100).map(added).collect()));
    let notes = translate(&files).unwrap().notes;
    assert_eq!(notes.len(), 17);
    assert_eq!(notes[16], "84 more of the tokenizer's rules or tokens are odd");
}

#[test]
fn parts_of_any_length_and_files_that_are_others_are_refused() {
    let long = of(&changed(|json| json["post_processor"] = "x".repeat(5 << 20).into()));
    assert!(error(&long).contains("a part of more than 4194304 bytes"));
    let pointer =
        Files { tokenizer: Some(b"version https://git-lfs.github.com/spec/v1\noid".to_vec()), ..of(&small()) };
    assert!(error(&pointer).contains("f/tokenizer.json: this is a Git LFS pointer"), "{}", error(&pointer));
}

#[test]
fn what_breaks_the_format_is_named() {
    for (text, expected) in [
        (
            r#"{"model": {"vocab": {"a": 0, "a": 1}, "merges": []}, "pre_tokenizer": {"type": "ByteLevel"}}"#,
            "a duplicate: `a` has ids 0 and 1",
        ),
        (
            r#"{"model": {"vocab": {"a": 0, "b": 0}, "merges": []}, "pre_tokenizer": {"type": "ByteLevel"}}"#,
            "id 0 for `a` and `b`",
        ),
        (
            r#"{"model": {"vocab": {"a": 16777216}, "merges": []}, "pre_tokenizer": {"type": "ByteLevel"}}"#,
            "ids below 16777216, found id 16777216 for `a`",
        ),
        (
            r#"{"model": {"vocab": {"a": 16777215}, "merges": []}, "pre_tokenizer": {"type": "ByteLevel"}}"#,
            "1 tokens for 16777216 places",
        ),
        (r#"{"model": {"vocab": {"a": -1}, "merges": []}}"#, "line 1 column"),
        (r#"{"model": {"vocab": {}, "merges": []}, "pre_tokenizer": {"type": "ByteLevel"}}"#, "0 tokens for 0 places"),
        (r#"{"model": {"vocab": {"a": 0}, "merges": [["a", "b", "c"]]}}"#, "a merge: two strings in a list"),
        (
            r#"{"model": {"vocab": {"a": 0}, "merges": ["ab"]}, "pre_tokenizer": {"type": "ByteLevel"}}"#,
            "`ab` as merge 0",
        ),
        (r#"{"model": {"vocab": {"a": 0}}, "pre_tokenizer": {"type": "ByteLevel"}}"#, "no such key"),
        (r#"{"model": {"type": "WordPiece", "vocab": {"a": 0}}}"#, "the kind of the model is `WordPiece`"),
        (r#"{"vocab": {"a": 0}}"#, "missing field `model`"),
        ("<html>", "this is an HTML page, not a JSON file"),
        ("[what]", "line 1 column 2"),
        ("", "line 1 column 0"),
    ] {
        let files = Files { tokenizer: Some(text.as_bytes().to_vec()), folder: "f".to_owned(), ..Files::default() };
        let error = error(&files);
        assert!(error.starts_with("f/tokenizer.json: ") && error.contains(expected), "{error}");
    }
    let none = Files { folder: "f".to_owned(), ..Files::default() };
    assert!(error(&none).contains("f: there is neither tokenizer.json nor tokenizer.model"));
}

#[test]
fn nesting_is_bounded() {
    for (open, close) in [("[", "]"), (r#"{"type": "Sequence", "normalizers": ["#, "]}")] {
        let deep = format!("{}{}", open.repeat(100_000), close.repeat(100_000));
        let text = format!(r#"{{"normalizer": {deep}, "model": {{"vocab": {{"a": 0}}, "merges": []}}}}"#);
        let files = Files { tokenizer: Some(text.into_bytes()), ..Files::default() };
        assert!(error(&files).contains("recursion limit"));
    }
}

#[test]
fn added_tokens_come_from_all_files() {
    let files = Files {
        tokenizer_config: bytes(&json!({
            "added_tokens_decoder": {
                "5": {"content": "<|end|>", "special": false},
                "6": {"content": "<tool>", "special": false},
                "7": {"content": "<s>", "special": true},
            },
            "bos_token": "<s>",
        })),
        added_tokens: bytes(&json!({"<x>": 8, "a": 0, "ab": 9})),
        special_tokens_map: bytes(&json!({"additional_special_tokens": ["<x>"], "eos_token": {"content": "<|end|>"}})),
        ..of(&small())
    };
    assert_eq!(texts(&files), ["a", "b", "c", "ab", "abc", "<|end|>", "<tool>", "<s>", "<x>"]);
    // `a` is a token that is found before all others now, and what `tokenizer.json` says of <|end|> counts.
    assert_eq!(value(&files, keys::TYPES), Some(Array::I32(vec![4, 1, 1, 1, 1, 3, 4, 3, 3]).into()));
    assert_eq!(value(&files, "tokenizer.ggml.bos_token_id"), Some(7u32.into()));
    assert_eq!(value(&files, "tokenizer.ggml.eos_token_id"), Some(5u32.into()));
    let twice = Files {
        tokenizer: bytes(&changed(|json| {
            json["added_tokens"].as_array_mut().unwrap().push(json!({"id": 5, "content": "<other>"}));
        })),
        ..files
    };
    assert!(error(&twice).contains("id 5 for `<|end|>` and `<other>`"));
}

#[test]
fn ends_of_a_turn_come_from_all_files() {
    let added = |id: u32, text: &str| json!({"id": id, "content": text, "special": true});
    let tokenizer = changed(|json| {
        let more = [added(6, "<|eot_id|>"), added(7, "<|eom_id|>"), added(8, "<|observe|>")];
        json["added_tokens"].as_array_mut().unwrap().extend(more);
    });
    let files = Files {
        tokenizer_config: bytes(&json!({"eos_token": "<|end|>", "add_eos_token": true})),
        config: bytes(&json!({"eos_token_id": [5, 6]})),
        generation_config: bytes(&json!({"eos_token_id": [8, 7, 99, "x", -1]})),
        ..of(&tokenizer)
    };
    let metadata = translate(&files).unwrap().metadata("").unwrap();
    let tokenizer = Tokenizer::from_gguf(&metadata).unwrap();
    assert_eq!(tokenizer.end_of_turn(), [5, 6, 7, 8]);
    assert_eq!(metadata.u32("tokenizer.ggml.eom_token_id").unwrap(), Some(7));
    assert_eq!(metadata.bool(keys::ADDS_EOS).unwrap(), Some(true));
    assert_eq!(metadata.bool(keys::ADDS_BOS).unwrap(), Some(false));
}

#[test]
fn what_is_put_around_a_text_is_what_the_post_processor_says() {
    let around = |first: &[&str], config: Json| {
        let pieces: Vec<Json> = first.iter().map(|name| json!({"SpecialToken": {"id": name}})).collect();
        let single: Vec<Json> = pieces.into_iter().chain([json!({"Sequence": {"id": "A"}})]).collect();
        let tokenizer =
            changed(|json| json["post_processor"] = json!({"type": "TemplateProcessing", "single": single}));
        let files = Files { tokenizer_config: bytes(&config), ..of(&tokenizer) };
        let translation = translate(&files).unwrap();
        let metadata = translation.metadata("").unwrap();
        let bos = metadata.u32("tokenizer.ggml.bos_token_id").unwrap();
        (bos, metadata.bool(keys::ADDS_BOS).unwrap().unwrap(), translation.notes.len())
    };
    assert_eq!(around(&["<|end|>"], json!({"bos_token": "<|end|>", "add_bos_token": false})), (Some(5), true, 0));
    assert_eq!(around(&["<|end|>"], json!({})), (Some(5), true, 0));
    assert_eq!(around(&["<|end|>"], json!({"bos_token": "a"})), (Some(0), false, 1));
    assert_eq!(around(&["<|end|>", "a"], json!({"bos_token": "a"})), (Some(0), false, 1));
    assert_eq!(around(&[], json!({"bos_token": "a", "add_bos_token": true})), (Some(0), false, 0));
    // Without such a step, the settings say it.
    let files = Files { tokenizer_config: bytes(&json!({"bos_token": "a", "add_bos_token": true})), ..of(&small()) };
    assert_eq!(value(&files, keys::ADDS_BOS), Some(true.into()));
}

#[test]
fn templates_come_from_files_first() {
    let render = |files: &Files, name: Option<&str>| {
        let metadata = translate(files).unwrap().metadata("").unwrap();
        let tokenizer = Tokenizer::from_gguf(&metadata).unwrap();
        let template = ChatTemplate::from_gguf(&metadata, &tokenizer).unwrap()?;
        let options = RenderOptions { template: name.map(str::to_owned), ..RenderOptions::default() };
        Some(template.render(&[], &options).unwrap().text())
    };
    let file = |files: &Files| translate(files).unwrap().template_file;
    assert_eq!(render(&of(&small()), None), None);
    assert_eq!(file(&of(&small())), None);
    let files = Files { chat_template_json: bytes(&json!({"chat_template": "json"})), ..of(&small()) };
    assert_eq!(render(&files, None).unwrap(), "json");
    assert_eq!(file(&files), Some("chat_template.json"));
    let list = json!([
        {"name": "default", "template": "listed"}, {"name": "rag chat", "template": "rag"}, {"name": "no"},
        {"name": "tool_use", "template": "tools"},
    ]);
    let files = Files { tokenizer_config: bytes(&json!({"chat_template": list})), ..files };
    assert_eq!(render(&files, None).unwrap(), "listed");
    assert_eq!(file(&files), Some("tokenizer_config.json"));
    assert_eq!(render(&files, Some("rag_chat")).unwrap(), "rag");
    assert_eq!(render(&files, Some("tool_use")).unwrap(), "tools");
    let names: StringArray = ["rag_chat", "tool_use"].into_iter().collect();
    assert_eq!(value(&files, "tokenizer.chat_templates"), Some(names.into()));
    let files = Files {
        chat_template: Some(b"jinja".to_vec()),
        named_chat_templates: vec![("tool_use".to_owned(), b"more".to_vec())],
        ..files
    };
    assert_eq!(render(&files, None).unwrap(), "jinja");
    assert_eq!(file(&files), Some("chat_template.jinja"));
    assert_eq!(file(&Files { chat_template: None, ..files.clone() }), Some("additional_chat_templates"));
    assert_eq!(render(&files, Some("tool_use")).unwrap(), "more");
}

#[test]
fn a_folder_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    write("tokenizer.json", &format!("\u{feff}{}", small()));
    write("config.json", r#"{"vocab_size": 7}"#);
    write("chat_template.jinja", "x");
    write("additional_chat_templates/b.jinja", "2");
    write("additional_chat_templates/a.jinja", "1");
    write("additional_chat_templates/readme.txt", "?");
    let files = Files::read(folder.path()).unwrap();
    assert_eq!(files.named_chat_templates, [("a".to_owned(), b"1".to_vec()), ("b".to_owned(), b"2".to_vec())]);
    assert_eq!(texts(&files).len(), 7);
    std::fs::remove_file(folder.path().join("tokenizer.json")).unwrap();
    std::fs::create_dir(folder.path().join("tokenizer.json")).unwrap();
    assert!(Files::read(folder.path()).unwrap_err().to_string().contains("this is a folder, a device or a pipe"));
}

#[test]
fn merges_act_as_scores_only_where_all_are_there() {
    let of = |vocab: &[&str], merges: &[[&str; 2]]| {
        let vocab: serde_json::Map<String, Json> =
            vocab.iter().enumerate().map(|(id, text)| ((*text).to_owned(), id.into())).collect();
        of(&json!({
            "normalizer": {"type": "Replace", "pattern": {"String": " "}, "content": "▁"},
            "model": {"type": "BPE", "vocab": vocab, "merges": merges},
        }))
    };
    let all = of(&["abc", "a", "b", "c", "bc", "ab"], &[["b", "c"], ["a", "b"], ["ab", "c"], ["a", "bc"]]);
    assert_eq!(value(&all, keys::MODEL), Some("llama".into()));
    let scores = Array::F32(vec![-3.0, -4.0, -5.0, -6.0, -1.0, -2.0]);
    assert_eq!(value(&all, keys::SCORES), Some(scores.into()));
    let kind = |files: &Files| value(files, keys::MODEL);
    // One way to abc is missing; merges to one token stand apart; nothing leads to abc.
    let missing = of(&["abc", "a", "b", "c", "bc", "ab"], &[["b", "c"], ["a", "b"], ["ab", "c"]]);
    assert_eq!(kind(&missing), Some("gemma4".into()));
    let apart = of(&["abc", "a", "b", "c", "bc", "ab"], &[["a", "b"], ["ab", "c"], ["b", "c"], ["a", "bc"]]);
    assert_eq!(kind(&apart), Some("gemma4".into()));
    let unmade = of(&["abc", "a", "b", "c", "ab"], &[["a", "b"]]);
    assert_eq!(kind(&unmade), Some("gemma4".into()));
    let long = "a".repeat(300);
    assert_eq!(kind(&of(&["a", &long], &[])), Some("gemma4".into()));
    let crossing = of(&["\na", "\n", "a", "b", "a\na", "ab"], &[["\n", "a"]]);
    assert!(error(&crossing).contains("newlines"));
}

#[test]
fn tokens_over_a_cut_are_refused() {
    let tokenizer = |splits: bool| {
        of(&json!({
            "pre_tokenizer": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": splits},
            "model": {"type": "BPE", "vocab": {"▁": 0, "a": 1, "a▁": 2}, "merges": [["a", "▁"]]},
        }))
    };
    assert!(error(&tokenizer(true)).contains("token 2 `a▁` goes over a space where text is cut"));
    assert_eq!(value(&tokenizer(false), keys::MODEL), Some("llama".into()));
}
