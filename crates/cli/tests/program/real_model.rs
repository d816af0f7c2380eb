//! The default model, from end to end. Fetched through duan's own code into the ordinary cache.

use crate::common::{Home, real_model};

#[test]
fn greedy_text_is_the_same_twice_and_with_any_threads() {
    let Some(model) = real_model() else { return };
    let model = model.to_str().expect("the cache has a printable path");
    let home = Home::new();
    let complete = |threads: &str| {
        let arguments =
            ["complete", model, "-p", "The capital of France is", "-n", "8", "--temp", "0", "--json", "-t", threads];
        home.run(&arguments).json()
    };
    let first = complete("1");
    assert_eq!(first["finish_reason"], "length");
    assert_eq!(first["tokens"].as_array().unwrap().len(), 8);
    assert!(first["text"].as_str().unwrap().contains("Paris"), "{first}");
    for threads in ["1", "2"] {
        assert_eq!(complete(threads)["tokens"], first["tokens"], "{threads} threads");
    }
}

#[test]
fn chat_answers_and_ends_its_turn() {
    let Some(model) = real_model() else { return };
    let model = model.to_str().expect("the cache has a printable path");
    let json = Home::new()
        .run(&["chat", model, "-p", "What is 2+2? Answer with one number.", "-n", "48", "--temp", "0", "--json"])
        .json();
    assert_eq!(json["finish_reason"], "stop", "{json}");
    let text = json["text"].as_str().unwrap();
    assert!(!text.trim().is_empty() && !text.contains("<|im_"), "{json}");
}

#[test]
fn tokenize_agrees_with_the_vocabulary() {
    let Some(model) = real_model() else { return };
    let model = model.to_str().expect("the cache has a printable path");
    let json = Home::new().run(&["tokenize", model, "Hello world", "--json"]).json();
    assert_eq!(json, serde_json::json!({ "ids": [19556, 905] }));
}
