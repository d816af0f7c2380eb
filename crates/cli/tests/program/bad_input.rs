//! Whatever file is given: one line that names it and what to do, exit code 1.

use crate::common::Home;

/// All commands that open a model.
fn commands(model: &str) -> Vec<Vec<&str>> {
    vec![
        vec!["chat", model, "-p", "hi"],
        vec!["complete", model, "-p", "hi"],
        vec!["tokenize", model, "hi"],
        vec!["inspect", model],
        vec!["plan", model],
    ]
}

#[track_caller]
fn each_fails(home: &Home, model: &str, words: &[&str]) {
    for arguments in commands(model) {
        let ran = home.run(&arguments);
        let line = ran.failed();
        for word in words.iter().chain(&[model]) {
            assert!(line.contains(word), "{arguments:?} does not say {word}: {line}");
        }
    }
}

#[test]
fn a_missing_file_is_named() {
    each_fails(&Home::new(), "no/such/file.gguf", &[]);
}

#[test]
fn a_folder_is_no_model() {
    let home = Home::new();
    std::fs::create_dir(home.path().join("folder.gguf")).unwrap();
    each_fails(&home, "folder.gguf", &["folder"]);
}

#[test]
fn other_files_are_told_apart() {
    let home = Home::new();
    for (bytes, word) in [
        (&b"<!DOCTYPE html>\n<html><body>Sign in</body></html>"[..], "HTML"),
        (&b""[..], "empty"),
        (&b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n"[..], "LFS"),
        (&b"PK\x03\x04 and so on and so on and so on"[..], "zip"),
    ] {
        let model = home.file("wrong.gguf", bytes);
        each_fails(&home, model, &[word]);
    }
}

#[test]
fn a_cut_file_is_named_as_cut() {
    let home = Home::new();
    let whole = std::fs::read(crate::common::fixture_path("smollm2")).unwrap();
    for length in [20, 200, whole.len() / 2, whole.len() - 1] {
        let model = home.file("cut.gguf", &whole[..length]);
        for arguments in commands(model) {
            let ran = home.run(&arguments);
            let line = ran.failed();
            assert!(line.contains(model), "{line}");
        }
    }
}

#[test]
fn a_family_that_is_not_read_is_no_reason_not_to_look_into_the_file() {
    let home = Home::new();
    let bytes = std::fs::read(crate::common::fixture_path("smollm2")).unwrap();
    // The name keeps its length, so the rest of the file stays where it is.
    let at = bytes.windows(5).position(|window| window == b"llama").unwrap();
    let mut changed = bytes.clone();
    changed[at..at + 5].copy_from_slice(b"lhama");
    let model = home.file("other.gguf", &changed);

    let line_of_chat = home.run(&["chat", model, "-p", "hi"]);
    assert!(line_of_chat.failed().contains("lhama"), "{line_of_chat:?}");
    let page = home.run(&["inspect", model]);
    assert!(page.done().contains("lhama") && page.stdout.contains("runs: no"), "{page:?}");
    let json = home.run(&["inspect", model, "--json"]).json();
    assert_eq!(json["runs"], false);
    assert_eq!(json["architecture"], "lhama");
    assert!(json["problems"][0].as_str().unwrap().contains("general.architecture"), "{json}");
}

#[test]
fn text_that_is_not_utf8_is_named_with_its_place() {
    let home = Home::new();
    let model = home.fixture("smollm2");
    let ran = home.run_with_input(&["complete", model, "-p", "-"], b"ab\xff");
    assert!(ran.failed().contains("stdin: byte 2"), "{ran:?}");
    home.file("prompt.txt", b"\xff\xfe");
    let ran = home.run(&["complete", model, "-f", "prompt.txt"]);
    assert!(ran.failed().contains("prompt.txt: byte 0"), "{ran:?}");
    let ran = home.run(&["complete", model, "-f", "none.txt"]);
    assert!(ran.failed().contains("none.txt"), "{ran:?}");
}

#[test]
fn a_prompt_longer_than_the_context_is_refused_with_the_numbers() {
    let home = Home::new();
    let model = home.fixture("smollm2");
    let long = "abcdefgh".repeat(50);
    let ran = home.run(&["complete", model, "-p", &long, "--context", "64"]);
    assert!(ran.failed().contains("400 tokens") && ran.stderr.contains("the context holds 64"), "{ran:?}");
    assert!(!ran.stderr.contains("conversation"), "{ran:?}");
    // Beyond the context however it is cut into tokens, so it is not cut.
    let longer = "abcdefgh".repeat(500);
    let ran = home.run(&["complete", model, "-p", &longer, "--context", "64"]);
    assert!(ran.failed().contains("4000 bytes") && ran.stderr.contains("a context of 64 tokens"), "{ran:?}");
}
