//! Packed weights: kept, shown, removed, left out.

use std::path::PathBuf;
use std::time::UNIX_EPOCH;

use serde_json::{Value, json};

use crate::common::{Home, fixture_path, ran};

const ANSWER: [&str; 7] = ["-p", "the cat", "-n", "4", "--temp", "0", "--json"];

/// The text that a model continues with.
fn answer(home: &Home, model: &str, more: &[&str]) -> Value {
    let ran = home.run(&[&["complete", model], more, &ANSWER].concat());
    assert_eq!(ran.stderr, "", "only a person at a terminal is told");
    ran.json()["text"].clone()
}

fn packed(home: &Home) -> PathBuf {
    home.path().join("cache/packed")
}

#[test]
fn weights_are_packed_shown_and_removed() {
    let home = Home::new();
    let model = home.fixture("smollm2");
    let first = answer(&home, model, &[]);
    assert_eq!(answer(&home, model, &[]), first);
    let json = home.run(&["list", "--json"]).json();
    let bytes = json["packed_bytes"].as_u64().unwrap();
    assert!(bytes > 0);
    let path = home.path().canonicalize().unwrap().join(model);
    assert_eq!((&json["packed"][0]["paths"], &json["packed"][0]["bytes"]), (&json!([path]), &json!(bytes)));
    let page = home.run(&["list"]);
    let row = page.done().lines().find(|line| line.contains("tiny.gguf")).unwrap();
    assert!(row.contains("used by its path"), "{row}");
    assert!(page.stderr.contains("of packed weights in") && page.stderr.contains("duan remove --packed"), "{page:?}");

    assert!(home.run(&["remove", "--packed", "other.gguf"]).failed().contains("other.gguf"));
    let removed = home.run(&["remove", "--packed", model, "--json"]).json();
    assert_eq!(removed, json!({ "packed_models": 1, "freed_bytes": bytes }));
    assert!(!packed(&home).exists() && home.path().join(model).exists());
    answer(&home, model, &[]);
    std::fs::remove_file(home.path().join(model)).unwrap();
    assert!(
        home.run(&["remove", "--packed", path.to_str().unwrap()]).stderr.contains("of 1 model,"),
        "also of a file that is gone"
    );
    assert!(home.run(&["remove", "--packed"]).stderr.contains("of 0 models,"));
    assert!(home.run(&["remove"]).refused().contains("NAME"));
}

#[test]
fn all_packed_weights_go_at_once() {
    let home = Home::new();
    answer(&home, home.fixture("smollm2"), &[]);
    answer(&home, home.chat_fixture("qwen2", "a template"), &[]);
    let json = home.run(&["list", "--json"]).json();
    assert_eq!(json["packed"].as_array().unwrap().len(), 2);
    let removed = home.run(&["remove", "--packed", "--json"]).json();
    assert_eq!(removed, json!({ "packed_models": 2, "freed_bytes": json["packed_bytes"] }));
    assert!(!packed(&home).exists());
}

#[test]
fn nothing_is_packed_where_that_is_asked_for() {
    let home = Home::new();
    let model = home.fixture("smollm2");
    let expected = answer(&home, model, &["--no-pack"]);
    let with = |value: &str| {
        let arguments = [&["complete", model][..], &ANSWER].concat();
        ran(home.command(&arguments).env("DUAN_PACK_MAX", value).output().unwrap())
    };
    assert_eq!(with("0").json()["text"], expected);
    assert_eq!(with("1kB").json()["text"], expected);
    assert!(with("much").refused().contains("DUAN_PACK_MAX=much: expected a number of bytes"));
    let bench = ["bench", model, "-p", "8", "-n", "2", "-r", "1", "-o", "json"];
    home.run(&[&bench[..], &["--no-pack"]].concat()).json();
    assert!(!packed(&home).exists() || packed(&home).read_dir().unwrap().next().is_none());
    home.run(&bench).json();
    assert_eq!(home.run(&["list", "--json"]).json()["packed"].as_array().unwrap().len(), 1);
    let mapped =
        ran(home.command(&[&["complete", model][..], &ANSWER].concat()).env("DUAN_PACK_READ", "map").output().unwrap());
    assert_eq!(mapped.json()["text"], expected);
}

#[test]
fn packed_weights_go_with_their_model() {
    let home = Home::new();
    let folder = home.path().join("cache/models/m");
    std::fs::create_dir_all(&folder).unwrap();
    let model = folder.join("model.gguf");
    std::fs::copy(fixture_path("smollm2"), &model).unwrap();
    let metadata = std::fs::metadata(&model).unwrap();
    let verified = metadata.modified().unwrap().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64;
    let sha256 = "ab".repeat(32);
    let manifest = json!({
        "name": "m", "source": "a test", "file": "model.gguf", "bytes": metadata.len(), "sha256": sha256,
        "licence": null, "fetched_unix_s": 1, "verified_mtime_ns": verified,
    });
    std::fs::write(folder.join("manifest.json"), manifest.to_string()).unwrap();
    answer(&home, model.to_str().unwrap(), &[]);
    let json = home.run(&["list", "--json"]).json();
    // What the hub verified is not hashed again.
    assert_eq!((json["packed"][0]["id"].as_str(), &json["models"][0]["name"]), (Some(&*sha256), &json!("m")));
    assert_eq!(json["models"][0]["packed_bytes"], json["packed_bytes"]);
    let page = home.run(&["list"]);
    assert!(!page.done().contains("used by its path"), "{page:?}");
    let (model_bytes, packed_bytes) =
        (metadata.len() + manifest.to_string().len() as u64, json["packed_bytes"].as_u64().unwrap());
    let removed = home.run(&["remove", "m", "--json"]).json();
    assert_eq!(
        removed,
        json!({ "name": "m", "freed_bytes": model_bytes + packed_bytes, "packed_bytes": packed_bytes, "kept": null, "left": [] })
    );
    assert!(!packed(&home).exists());
}
