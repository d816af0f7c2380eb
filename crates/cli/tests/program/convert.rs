//! `duan convert`: what it writes, tells and refuses. That tensors and logits are the same is tested in `duan-backend`; how it ends when
//! it is ended, in `whole_or_nothing.rs`.

use crate::common::{Home, fixture_path};

/// A folder of a tiny model, by the name of its fixture.
fn folder(home: &Home, fixture: &str) -> &'static str {
    let from = fixture_path(fixture).with_file_name("folder");
    let to = home.path().join("m");
    std::fs::create_dir(&to).unwrap();
    for entry in std::fs::read_dir(from).expect("the fixture has a folder") {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
    "m"
}

#[test]
fn a_folder_becomes_a_file_that_says_the_same() {
    let home = Home::new();
    let source = folder(&home, "smollm2-bf16");
    let ran = home.run(&["convert", source, "a.gguf", "--threads", "1"]);
    assert_eq!(ran.done(), "a.gguf\n");
    assert!(ran.stderr.contains("BF16  BF16  lossless") && !ran.stderr.contains("requantized"), "{ran:?}");
    let told = home.run(&["convert", source, "b.gguf", "--threads", "3", "--json"]).json();
    let bytes = |name: &str| std::fs::read(home.path().join(name)).unwrap();
    assert!(bytes("a.gguf") == bytes("b.gguf"), "threads change the file");
    assert_eq!((&told["path"], &told["family"]), (&"b.gguf".into(), &"llama".into()));
    assert_eq!(told["bytes"], bytes("b.gguf").len());
    assert!(told["tensors"].as_array().unwrap().iter().all(|tensor| tensor["is_lossless"] == true), "{told}");
    let answer = |model: &str| home.run(&["complete", model, "-p", "a b", "-n", "8", "--temp", "0"]).done().to_owned();
    assert_eq!(answer(source), answer("a.gguf"));

    let ran = home.run(&["convert", source, "q.gguf", "--format", "q8_0"]);
    // Its rows are shorter than a block.
    assert!(ran.stderr.contains("BF16  F16  requantized"), "{ran:?}");
    home.run(&["complete", "q.gguf", "-p", "a", "-n", "1"]).done();
    // From a file to a file, nothing changes.
    home.run(&["convert", "a.gguf", "c.gguf"]).done();
    assert_eq!(answer("c.gguf"), answer("a.gguf"));
    assert_eq!(home.names(), ["a.gguf", "b.gguf", "c.gguf", "cache", "m", "q.gguf"]);
}

#[test]
fn what_is_there_stays_and_the_source_most_of_all() {
    let home = Home::new();
    let (source, file) = (folder(&home, "llama3"), home.fixture("llama3"));
    home.file("a.gguf", b"mine");
    let read = |name: &str| std::fs::read(home.path().join(name)).unwrap();
    let ran = home.run(&["convert", source, "a.gguf"]);
    assert!(ran.failed().contains("a.gguf exists already") && ran.failed().contains("--force"), "{ran:?}");
    assert_eq!(read("a.gguf"), b"mine");
    for name in ["config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"] {
        let inside = format!("m/{name}");
        let before = read(&inside);
        for command in [&["convert"][..], &["quantize", "--format", "q8_0"]] {
            let ran = home.run(&[command, &[source, &inside, "--force"]].concat());
            assert!(ran.failed().contains("name another file"), "{ran:?}");
            assert!(read(&inside) == before, "{inside}");
        }
    }
    let before = read(file);
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink(file, home.path().join("link.gguf")).unwrap();
        std::fs::hard_link(home.path().join(file), home.path().join("hard.gguf")).unwrap();
        for name in [file, "link.gguf", "hard.gguf"] {
            assert!(home.run(&["convert", file, name, "--force"]).failed().contains("name another file"), "{name}");
        }
        for name in ["link.gguf", "hard.gguf"] {
            std::fs::remove_file(home.path().join(name)).unwrap();
        }
    }
    assert!(read(file) == before);
    assert!(home.run(&["convert", source, source, "--force"]).failed().contains("is no name for a file"));
    let nowhere = home.run(&["convert", source, "no/a.gguf"]);
    assert!(nowhere.failed().ends_with("there is no folder no; create the folder first"), "{nowhere:?}");
    home.run(&["convert", source, "a.gguf", "--force"]).done();
    assert_eq!(home.names(), ["a.gguf", "m", "tiny.gguf"]);
}

/// Changes one file of a folder, and gives what is said then.
fn with_changed(name: &str, change: impl Fn(Vec<u8>) -> Option<Vec<u8>>) -> String {
    let home = Home::new();
    let path = home.path().join(folder(&home, "llama3")).join(name);
    match change(std::fs::read(&path).unwrap()) {
        Some(bytes) => std::fs::write(&path, bytes).unwrap(),
        None => std::fs::remove_file(&path).unwrap(),
    }
    let line = home.run(&["convert", "m", "a.gguf"]).failed().to_owned();
    assert_eq!(home.names(), ["m"], "{line}");
    line
}

#[test]
fn a_damaged_folder_is_one_line_that_names_the_file() {
    let replaced = |from: &'static str, to: &'static str| {
        move |bytes: Vec<u8>| {
            let text = String::from_utf8(bytes).unwrap();
            assert!(text.contains(from), "{text}");
            Some(text.replacen(from, to, 1).into_bytes())
        }
    };
    let half = |bytes: Vec<u8>| Some(bytes[..bytes.len() / 2].to_vec());
    for (line, words) in [
        (with_changed("config.json", |_| None), "config.json"),
        (with_changed("config.json", half), "config.json"),
        (with_changed("config.json", |_| Some(b"[]".to_vec())), "config.json"),
        (with_changed("config.json", replaced("\"llama\"", "\"lhama\"")), "lhama"),
        (with_changed("config.json", replaced("\"num_hidden_layers\": ", "\"num_hidden_layers\": 9")), "9"),
        (with_changed("model.safetensors", |_| None), "safetensors"),
        (with_changed("model.safetensors", half), "model.safetensors"),
        (with_changed("model.safetensors", |_| Some(b"<!DOCTYPE html>".to_vec())), "model.safetensors"),
    ] {
        assert!(line.contains(words), "{words}: {line}");
    }
}

#[test]
fn a_folder_without_a_tokenizer_is_written_and_told_of() {
    let home = Home::new();
    let source = folder(&home, "llama3");
    let tokenizer = home.path().join("m/tokenizer.json");
    let half = std::fs::read(&tokenizer).unwrap();
    std::fs::write(&tokenizer, &half[..half.len() / 2]).unwrap();
    for command in [&["convert"][..], &["quantize", "--format", "q8_0"]] {
        let ran = home.run(&[command, &[source, "a.gguf", "--force"]].concat());
        assert!(ran.stderr.contains("warning: without a tokenizer: m/tokenizer.json: "), "{ran:?}");
        ran.done();
    }
    assert!(home.run(&["complete", "a.gguf", "-p", "a"]).failed().contains("a.gguf"));
}

#[test]
fn a_quantized_file_stays_as_it_is_and_says_so() {
    let home = Home::new();
    let source = folder(&home, "llama3");
    home.run(&["convert", source, "a.gguf", "--format", "q8_0"]).done();
    let ran = home.run(&["convert", "a.gguf", "b.gguf", "--format", "f16"]);
    assert!(ran.stderr.contains("are quantized already (Q8_0 first) and stay as they are; `duan quantize`"), "{ran:?}");
    ran.done();
}

#[test]
fn a_folder_that_is_called_like_a_model_of_the_catalogue_is_the_folder() {
    let home = Home::new();
    std::fs::rename(home.path().join(folder(&home, "llama3")), home.path().join("smollm2-135m")).unwrap();
    assert_eq!(home.run(&["inspect", "smollm2-135m", "--json"]).json()["runs"], true);
    // Any other folder of that name is none.
    std::fs::remove_file(home.path().join("smollm2-135m/config.json")).unwrap();
    assert!(home.run(&["complete", "smollm2-135m", "-p", "a"]).failed().contains("is not in the cache"));
}
