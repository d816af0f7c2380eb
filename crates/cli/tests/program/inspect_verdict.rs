//! `duan inspect`: the verdict that it begins with, for this machine and for others.

use duan::model::gguf::Value;
use serde_json::{Value as Json, json};

use crate::common::{Home, fixture_path};

const TEMPLATE: &str = "{% for message in messages %}{{ message.role }} {{ message.content }} {% endfor %}";

/// The lines of a page up to the first empty one.
fn verdict(page: &str) -> Vec<&str> {
    page.lines().take_while(|line| !line.is_empty()).collect()
}

fn kinds(json: &Json) -> Vec<&str> {
    json["verdict"]["reasons"].as_array().unwrap().iter().map(|reason| reason["kind"].as_str().unwrap()).collect()
}

/// A tiny folder of Hugging Face, copied so that it can be changed.
fn folder(home: &Home, fixture: &str) -> &'static str {
    let from = fixture_path(fixture).with_file_name("folder");
    let to = home.path().join("checkpoint");
    std::fs::create_dir(&to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        std::fs::copy(&path, to.join(path.file_name().unwrap())).unwrap();
    }
    "checkpoint"
}

#[test]
fn a_healthy_chat_model_runs_and_a_base_model_is_told_as_one() {
    let home = Home::new();
    let model = home.chat_fixture("smollm2", TEMPLATE);
    let page = home.run(&["inspect", model]);
    assert_eq!(verdict(page.done()), ["runs: yes"]);
    assert!(page.stdout.starts_with("runs: yes\n\nFILE\n"), "{page:?}");
    let json = home.run(&["inspect", model, "--json"]).json();
    assert_eq!(json["verdict"], json!({ "answer": "yes", "reasons": [], "left_out": 0, "unknown": [] }));
    let page = home.run(&["inspect", home.fixture("smollm2")]);
    insta::assert_snapshot!(verdict(page.done()).join("\n"), @r"
    runs: yes, with something to know
    - it has no chat template: a base model, which continues text and does not converse; use `duan complete`
    ");
}

#[test]
fn a_cache_that_cannot_be_written_is_told() {
    let home = Home::new();
    let model = home.chat_fixture("smollm2", TEMPLATE);
    home.file("cache", b"no folder");
    let page = home.run(&["inspect", model]);
    let lines = verdict(page.done());
    assert!(lines.len() == 2 && lines[0] == "runs: yes, with something to know", "{page:?}");
    assert!(lines[1].starts_with("- the cache ") && lines[1].contains("--model-cache"), "{page:?}");
    // Where nothing is kept, nothing is missed.
    let output = home.command(&["inspect", model]).env("DUAN_PACK_MAX", "0").output().unwrap();
    assert!(String::from_utf8(output.stdout).unwrap().starts_with("runs: yes\n\n"));
}

#[test]
fn another_machine_is_known_by_its_memory() {
    let home = Home::new();
    let model = home.chat_fixture("smollm2", TEMPLATE);
    let page = home.run(&["inspect", model, "--for", "6GiB"]);
    insta::assert_snapshot!(verdict(page.done()).join("\n"), @r"
    runs: yes
    not known: which formats have fast kernels there; which operators its devices run; room and speed of its disk
    ");
    assert!(page.stdout.contains("the other device has 6.44 GB free; "), "{page:?}");
    let json = home.run(&["inspect", model, "--for", "6GiB", "--json"]).json();
    assert_eq!(json["verdict"]["unknown"], json!(["kernels", "operators", "disk"]));
    assert_eq!(json["memory"]["available_bytes"], 6u64 << 30);
    let small = home.run(&["inspect", model, "--for", "64kB", "--json"]).json();
    assert_eq!((&small["verdict"]["answer"], kinds(&small)), (&json!("no"), vec!["memory"]));
    let reason = &small["verdict"]["reasons"][0];
    assert_eq!((&reason["available_bytes"], &reason["largest_context"]), (&json!(64_000), &json!(0)));
    assert_eq!(reason["needed_bytes"], small["need"]["total_bytes"]);
}

#[test]
fn a_smaller_context_is_offered_where_it_would_fit() {
    let home = Home::new();
    let keys = [("tokenizer.chat_template", TEMPLATE.into()), ("llama.context_length", Value::U32(1 << 20))];
    let model = home.changed_fixture("long.gguf", "smollm2", &keys, |_| Some(0));
    let whole = home.run(&["inspect", model, "--json"]).json();
    let need = |context: u64| {
        let rows = whole["memory"]["rows"].as_array().unwrap();
        rows.iter().find(|row| row["context"] == context).unwrap()["total_bytes"].as_u64().unwrap()
    };
    let size = format!("{}kB", need(2048).div_ceil(1000));
    let page = home.run(&["inspect", model, "--for", &size]);
    let lines = verdict(page.done());
    assert!(lines[0] == "runs: yes, with something to know", "{page:?}");
    assert!(lines[1].starts_with("- it needs ") && lines[1].contains("; --context 2"), "{page:?}");
    let json = home.run(&["inspect", model, "--for", &size, "--json"]).json();
    let reason = &json["verdict"]["reasons"][0];
    let largest = reason["largest_context"].as_u64().unwrap();
    assert_eq!((&reason["kind"], &reason["context"]), (&json!("memory"), &json!(4096)));
    assert!((2048..4096).contains(&largest), "{reason}");
    // Whoever asks for this very context is told no.
    let asked = home.run(&["inspect", model, "--for", &size, "--context", "4096", "--json"]).json();
    assert_eq!(asked["verdict"]["answer"], "no");
    // Where the usual context fits and the whole one does not, only that is to be known.
    let size = format!("{}kB", need(4096).div_ceil(1000));
    let json = home.run(&["inspect", model, "--for", &size, "--json"]).json();
    assert_eq!(kinds(&json), ["context"]);
    assert_eq!(json["verdict"]["reasons"][0]["whole"], 1 << 20);
}

#[test]
fn another_machine_is_known_by_what_its_devices_say() {
    let home = Home::new();
    let model = home.chat_fixture("smollm2", TEMPLATE);
    let mut devices = home.run(&["devices", "--json"]).json();
    devices["devices"][0]["memory_available_bytes"] = json!(1_000_000_000);
    devices["devices"][0]["cpu"]["kernel_formats"] = json!(["Q4_0"]);
    home.file("phone.json", devices.to_string().as_bytes());
    let page = home.run(&["inspect", model, "--for", "phone.json"]);
    let lines = verdict(page.done());
    assert_eq!(lines[0], "runs: yes, with something to know");
    assert!(lines[1].starts_with("- 100 % of the weights are in a format without a fast kernel (F32)"), "{page:?}");
    assert_eq!(lines[2], "not known: which operators its devices run; room and speed of its disk");
    assert!(page.stdout.contains("cpu has 1.00 GB free; "), "{page:?}");
    for text in ["{}", "[", "{\"devices\": []}", "{\"devices\": [{\"name\": \"reference\", \"last_resort\": true}]}"] {
        home.file("other.json", text.as_bytes());
        let ran = home.run(&["inspect", model, "--for", "other.json"]);
        assert!(ran.failed().contains("other.json: expected what `duan devices --json` prints"), "{ran:?}");
    }
    let ran = home.run(&["inspect", model, "--for", "toaster"]);
    assert!(ran.failed().contains("expected a device of this machine (cpu, reference), a file"), "{ran:?}");
}

#[test]
fn a_model_that_is_not_here_is_judged_before_it_is_fetched() {
    let home = Home::new();
    let page = home.run(&["inspect", "qwen3-4b", "--for", "1GB"]);
    let lines = verdict(page.done());
    assert_eq!(lines[0], "runs: no");
    assert!(lines[1].starts_with("- it needs about 3.32 GB of memory, and 1.00 GB are free; "), "{page:?}");
    assert!(lines[2].starts_with("not known: what is in the file, which is not fetched yet; "), "{page:?}");
    assert!(page.stdout.ends_with("`duan fetch qwen3-4b` fetches it; then everything is known\n"), "{page:?}");
    let json = home.run(&["inspect", "qwen3-4b", "--for", "64GB", "--json"]).json();
    assert_eq!((&json["verdict"]["answer"], &json["is_fetched"]), (&json!("yes"), &json!(false)));
    assert!(json["catalogue"]["bytes"].as_u64().unwrap() > 2_000_000_000);
    // Of a name that nobody knows here, nothing is claimed.
    let page = home.run(&["inspect", "hf:org/name"]);
    assert_eq!(verdict(page.done()), ["runs: not known", "not known: what is in the file, which is not fetched yet"]);
    assert!(!home.path().join("cache").exists(), "to look leaves nothing behind");
}

#[test]
fn folders_are_told_with_their_files_types_and_template() {
    let home = Home::new();
    let model = folder(&home, "smollm2-bf16");
    std::fs::write(home.path().join("checkpoint/chat_template.jinja"), TEMPLATE).unwrap();
    let json = home.run(&["inspect", model, "--json"]).json();
    assert_eq!(json["verdict"]["answer"], "yes", "{json}");
    let names: Vec<&str> =
        json["files"].as_array().unwrap().iter().map(|file| file["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["config.json", "model.safetensors"]);
    let weights = std::fs::metadata(home.path().join("checkpoint/model.safetensors")).unwrap().len();
    assert_eq!((&json["files"][1]["bytes"], &json["bytes"]), (&json!(weights), &json!(weights)));
    assert_eq!(json["template"]["file"], "chat_template.jinja");
    let on_disk: Vec<&str> =
        json["disk_types"].as_array().unwrap().iter().map(|row| row["type"].as_str().unwrap()).collect();
    assert_eq!(on_disk, ["BF16", "F32"]);
    let page = home.run(&["inspect", model]);
    assert_eq!(verdict(page.done()), ["runs: yes"]);
    assert!(page.stdout.contains("\nfiles          config.json, "), "{page:?}");
    assert!(page.stdout.contains("\nchat template  from chat_template.jinja, "), "{page:?}");
    // They are read as what they are.
    assert!(!page.stdout.contains("on the disk: "), "{page:?}");
}

#[test]
fn what_a_translation_leaves_out_is_among_the_oddities() {
    let home = Home::new();
    let model = folder(&home, "llama3");
    let path = home.path().join("checkpoint/config.json");
    let mut config: Json = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    config["flux_capacitor"] = json!(1.21);
    std::fs::write(&path, config.to_string()).unwrap();
    let json = home.run(&["inspect", model, "--json"]).json();
    let odd = json["odd"].as_array().unwrap().iter().find(|odd| odd["kind"] == "translation").unwrap();
    assert!(odd["text"].as_str().unwrap().contains("`flux_capacitor`"), "{odd}");
    // Without words it does not run, and says so.
    std::fs::remove_file(home.path().join("checkpoint/tokenizer.json")).unwrap();
    let json = home.run(&["inspect", model, "--json"]).json();
    assert_eq!((&json["verdict"]["answer"], kinds(&json)), (&json!("no"), vec!["tokenizer"]));
}
