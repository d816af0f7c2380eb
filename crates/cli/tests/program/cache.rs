//! The cache, without a network.

use crate::common::Home;
use duan::hub::{DEFAULT_MODEL, catalogue_entry};
use serde_json::json;

#[test]
fn without_network_and_cache_a_name_is_refused_with_the_remedy() {
    let home = Home::new();
    for arguments in [&["chat", "-p", "hi"][..], &["fetch"], &["plan", "smollm2-135m"]] {
        let ran = home.run(arguments);
        let line = ran.failed();
        assert!(line.contains("smollm2-135m") && line.contains("DUAN_OFFLINE"), "{line}");
    }
    let mut command = home.command(&["fetch", "--offline"]);
    let output = command.env_remove("DUAN_OFFLINE").output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(!home.path().join("cache/models").exists(), "a refusal leaves nothing behind");
}

#[test]
fn a_model_that_changed_in_the_cache_is_refused_with_both_hashes() {
    let home = Home::new();
    let folder = home.path().join("cache/models/smollm2-135m");
    std::fs::create_dir_all(&folder).unwrap();
    let bytes = std::fs::read(crate::common::fixture_path("smollm2")).unwrap();
    std::fs::write(folder.join("model.gguf"), &bytes).unwrap();
    // What the catalogue announces, which the file does not have.
    let expected = catalogue_entry(DEFAULT_MODEL).unwrap().sha256().unwrap();
    let manifest = json!({
        "name": "smollm2-135m", "source": "a test", "file": "model.gguf", "bytes": bytes.len(), "sha256": expected,
        "licence": null, "fetched_unix_s": 1, "verified_mtime_ns": 1,
    });
    std::fs::write(folder.join("manifest.json"), manifest.to_string()).unwrap();
    for arguments in
        [&["chat", "-p", "hi"][..], &["complete", "smollm2-135m", "-p", "hi"], &["inspect", "smollm2-135m"]]
    {
        let ran = home.run(arguments);
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), ""), "{ran:?}");
        // Before it stands that the file is verified again.
        let line = ran.stderr.lines().last().unwrap();
        assert!(line.starts_with("duan: error: ") && line.contains("model.gguf is damaged"), "{line}");
        assert!(line.contains(expected), "{line}");
        assert!(line.contains("duan remove smollm2-135m"), "{line}");
    }
    assert!(home.run(&["list"]).done().contains("smollm2-135m"));
}

#[test]
fn unknown_names_get_the_nearest() {
    let home = Home::new();
    assert!(home.run(&["chat", "smolm2-135m", "-p", "hi"]).failed().contains("smollm2-135m"));
    assert!(home.run(&["fetch", "hf:name"]).failed().contains("hf:org/name"));
    // A name that is one, without a network.
    for name in ["hf:org/name", "ms:org/name:Q8_0", "http://127.0.0.1/x.gguf", "qwen3-0.6b"] {
        let ran = home.run(&["fetch", name]);
        let line = ran.failed();
        assert!(line.contains(name) && line.contains("DUAN_OFFLINE"), "{line}");
    }
}

#[test]
fn list_shows_the_catalogue_where_nothing_is_here() {
    let home = Home::new();
    let json = home.run(&["list", "--json"]).json();
    assert_eq!(json["models"], json!([]));
    assert_eq!(json["available"][0]["name"], "smollm2-135m");
    let page = home.run(&["list"]);
    // Which ones fit depends on the machine, how they are told does not.
    let rows: Vec<String> =
        page.done().lines().map(|line| line.split_whitespace().take(2).collect::<Vec<_>>().join(" ")).collect();
    insta::assert_snapshot!("list_empty", rows.join("\n"));
    assert!(page.stdout.contains("can be fetched") || page.stdout.contains("of memory"), "{page:?}");
    for entry in json["available"].as_array().unwrap() {
        assert!(entry["memory_bytes"].as_u64() > entry["bytes"].as_u64(), "{entry}");
    }
    assert!(page.stderr.contains("duan fetch"), "{page:?}");
    let elsewhere = home.run(&["list", "--json", "--model-cache", "elsewhere"]).json();
    assert_eq!(elsewhere["cache"], "elsewhere");
}

#[test]
fn a_path_is_used_where_it_lies_and_never_removed() {
    let home = Home::new();
    let model = home.fixture("smollm2");
    let json = home.run(&["fetch", model, "--json"]).json();
    assert_eq!((&json["downloaded"], &json["sha256"]), (&json!(false), &json!(null)));
    assert_eq!(home.run(&["fetch", model]).done(), "tiny.gguf\n");
    assert!(home.run(&["remove", model]).failed().contains("tiny.gguf"));
    assert!(home.run(&["remove", "smollm2-135m"]).failed().contains("duan list"));
    assert!(home.path().join(model).exists());
}
