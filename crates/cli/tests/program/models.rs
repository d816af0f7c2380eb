//! Commands on tiny random models: what is printed, in which form, and where.

use std::process::Stdio;

use crate::common::{Home, ran};
use serde_json::json;

/// A template that shows every role, in the words that the tiny vocabulary knows.
const TEMPLATE: &str = "{% for message in messages %}{{ message.role }} {{ message.content }} {% endfor %}\
                        {% if add_generation_prompt %}assistant {% endif %}";

#[test]
fn tokenize_prints_ids_alone_in_a_pipe() {
    let home = Home::new();
    let model = home.fixture("smollm2");
    let plain = home.run(&["tokenize", model, "the a"]);
    let ids: Vec<u32> = plain.done().trim_end().split(' ').map(|id| id.parse().unwrap()).collect();
    assert_eq!(home.run(&["tokenize", model, "the a", "--json"]).json(), json!({ "ids": ids }));
    let with_bos = home.run(&["tokenize", model, "the a", "--bos", "--json"]).json();
    assert_eq!(with_bos["ids"].as_array().unwrap().len(), ids.len() + 1);
    assert_eq!(with_bos["ids"][0], 0);
    assert_eq!(home.run_with_input(&["tokenize", model, "-"], b"the a").stdout, plain.stdout);
    assert_eq!(home.run(&["tokenize", model, ""]).done(), "\n");
    // What looks like a control token is text.
    let control = home.run(&["tokenize", model, "<|endoftext|>", "--json"]).json();
    assert!(!control["ids"].as_array().unwrap().contains(&json!(0)), "{control}");
}

#[test]
fn complete_gives_text_or_json_with_llama_servers_names() {
    let home = Home::new();
    let model = home.fixture("smollm2");
    let arguments = ["complete", model, "-p", "the cat", "-n", "8", "--temp", "0"];
    let plain = home.run(&arguments);
    let json = home.run(&[&arguments[..], &["--json"]].concat()).json();
    assert_eq!(plain.done(), format!("{}\n", json["text"].as_str().unwrap()));
    assert_eq!(plain.stderr, "", "without a terminal nobody asked for figures");
    assert_eq!(json["prompt_tokens"], home.run(&["tokenize", model, "the cat"]).done().split(' ').count());
    assert_eq!(json["timings"]["prompt_n"], json["prompt_tokens"]);
    let tokens = json["tokens"].as_array().unwrap().len();
    match json["finish_reason"].as_str().unwrap() {
        "length" => assert_eq!((tokens, json["timings"]["predicted_n"].as_u64()), (8, Some(8))),
        "stop" => assert_eq!(json["timings"]["predicted_n"].as_u64(), Some(tokens as u64 + 1)),
        other => panic!("{other}"),
    }
    for name in ["prompt_ms", "prompt_per_second", "predicted_ms", "cache_n", "total_ms"] {
        assert!(json["timings"][name].is_number(), "{name}: {json}");
    }
}

#[test]
fn the_same_seed_gives_the_same_text_and_is_reported() {
    let home = Home::new();
    let model = home.fixture("llama3");
    let text = |seed: &str| {
        home.run(&["complete", model, "-p", "the cat", "-n", "12", "--temp", "1.5", "--seed", seed, "--json"]).json()
    };
    let (one, again, other) = (text("1"), text("1"), text("2"));
    assert_eq!(one["tokens"], again["tokens"]);
    assert_eq!(one["seed"], 1);
    assert_ne!(one["tokens"], other["tokens"]);
}

#[test]
fn threads_do_not_change_a_text() {
    let home = Home::new();
    let model = home.fixture("gemma3");
    let text = |threads: &str| {
        let arguments = ["complete", model, "-p", "the cat sat", "-n", "16", "--temp", "0", "--json", "-t", threads];
        home.run(&arguments).json()["tokens"].clone()
    };
    assert_eq!(text("1"), text("2"));
}

#[test]
fn what_runs_together_does_not_change_a_text_and_shows_in_the_plan() {
    let home = Home::new();
    let model = home.fixture("smollm2");
    let text = |switch: &str| {
        let arguments = ["complete", model, "-p", "the cat sat", "-n", "16", "--temp", "0", "--json", switch];
        home.run(&arguments).json()["tokens"].clone()
    };
    let together = text("--no-warmup");
    for switch in ["--no-fuse", "--no-fuse=norm,residual", "--no-fuse=qkv"] {
        assert_eq!(text(switch), together, "{switch}");
    }
    let counts = |switch: &str| {
        let plan = home.run(&["plan", model, "--json", switch]).json();
        let rows = plan["fusions"].as_array().unwrap().clone();
        assert!(rows.iter().all(|row| row["device"] == "cpu"), "{plan}");
        rows.iter()
            .map(|row| (row["name"].as_str().unwrap().to_owned(), row["count"].as_u64().unwrap()))
            .collect::<Vec<_>>()
    };
    let all = counts("--no-warmup");
    assert_eq!(all.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["norm", "qkv", "gate-up", "residual"]);
    assert!(all[1..].iter().all(|(_, count)| *count > 0), "{all:?}");
    assert!(counts("--no-fuse").iter().all(|(_, count)| *count == 0));
    let some = counts("--no-fuse=residual");
    assert_eq!((&some[..3], some[3].1), (&all[..3], 0));
}

#[test]
fn the_end_of_the_context_is_announced_with_its_remedy() {
    let home = Home::new();
    let model = home.fixture("llama3");
    // A temperature that makes the token that ends the text as unlikely as any other.
    let arguments = ["complete", model, "-p", "the cat", "-n", "1000", "--context", "24", "--temp", "0"];
    let ran = home.run(&arguments);
    let json = home.run(&[&arguments[..], &["--json"]].concat()).json();
    assert_eq!(json["finish_reason"], "context", "{json}");
    assert_eq!(json["context"]["size"], 24);
    assert!(!ran.done().is_empty());
    assert!(ran.stderr.contains("the context of 24 tokens is full") && ran.stderr.contains("--context"), "{ran:?}");
}

#[test]
fn figures_come_on_stderr_where_they_are_asked_for() {
    let home = Home::new();
    let model = home.fixture("smollm2");
    let ran = home.run(&["complete", model, "-p", "the cat", "-n", "4", "--temp", "0", "--stats"]);
    ran.done();
    let line = ran.stderr.trim_end();
    assert!(line.starts_with("prefill ") && line.contains(" · decode ") && line.contains(" · context "), "{ran:?}");
    assert!(!ran.stderr.contains('\x1b'), "colours without a terminal: {ran:?}");
}

#[test]
fn chat_answers_once_and_prints_the_answer_only() {
    let home = Home::new();
    let model = home.chat_fixture("smollm2", TEMPLATE);
    let arguments = ["chat", model, "-p", "hello", "-n", "8", "--temp", "0"];
    let plain = home.run(&arguments);
    let json = home.run(&[&arguments[..], &["--json"]].concat()).json();
    let text = json["text"].as_str().unwrap();
    let ended = if text.ends_with('\n') { text.to_owned() } else { format!("{text}\n") };
    assert_eq!(plain.done(), ended);
    assert!(!plain.stdout.contains("<|endoftext|>"));
    let from_stdin = home.run_with_input(&["chat", model, "-p", "-", "-n", "8", "--temp", "0"], b"hello");
    assert_eq!(from_stdin.done(), plain.stdout);
    let with_system = home.run(&[&arguments[..], &["--system", "be brief", "--json"]].concat()).json();
    assert!(with_system["prompt_tokens"].as_u64() > json["prompt_tokens"].as_u64(), "{with_system}");
    assert_eq!(home.run(&["chat", model, "-p", " "]).failed().matches("-p").count(), 2);
}

#[test]
fn each_line_of_a_pipe_is_a_message_of_one_conversation() {
    let home = Home::new();
    let model = home.chat_fixture("smollm2", TEMPLATE);
    let ran = home.run_with_input(&["chat", model, "-n", "4", "--temp", "0", "--json"], b"hello\n\nagain\n");
    let answers: Vec<serde_json::Value> =
        ran.done().lines().map(|line| serde_json::from_str(line).expect("a JSON document a line")).collect();
    assert_eq!(answers.len(), 2);
    // The second prompt holds the first message and its answer, and what it shares with them is not prefilled again.
    let count = |answer: &serde_json::Value, name: &str| answer[name].as_u64().unwrap();
    assert!(count(&answers[1], "prompt_tokens") > count(&answers[0], "prompt_tokens") + 4);
    assert!(answers[1]["timings"]["cache_n"].as_u64() > Some(count(&answers[0], "prompt_tokens")), "{ran:?}");
}

#[test]
fn a_base_model_is_told_apart_and_points_to_complete() {
    let home = Home::new();
    let model = home.fixture("smollm2");
    let ran = home.run(&["chat", model, "-p", "hello"]);
    assert!(ran.failed().contains("template") && ran.stderr.contains(&format!("duan complete {model}")), "{ran:?}");
}

#[test]
fn a_templates_refusal_is_shown_in_its_words() {
    let home = Home::new();
    let model = home.chat_fixture("smollm2", "{{ raise_exception('Only the weather, please') }}");
    assert!(home.run(&["chat", model, "-p", "hello"]).failed().contains("Only the weather, please"));
}

#[test]
fn the_environment_chooses_the_instruction_set() {
    let home = Home::new();
    let model = home.fixture("smollm2");
    let with = |isa: &str, arguments: &[&str]| ran(home.command(arguments).env("DUAN_ISA", isa).output().unwrap());
    let json = with("scalar", &["complete", model, "-p", "the cat", "-n", "4", "--temp", "0", "--json"]).json();
    assert_eq!(json["prompt_tokens"], home.run(&["tokenize", model, "the cat"]).done().split(' ').count());
    assert!(with("scalar", &["devices"]).done().contains("scalar"));
    for arguments in [&["complete", model, "-p", "the cat"][..], &["chat", model, "-p", "the cat"]] {
        let refused = with("sse9", arguments);
        let line = refused.failed();
        assert!(line.contains("sse9") && line.contains("scalar"), "{line}");
    }
}

#[test]
fn a_context_that_no_memory_holds_is_refused_with_the_numbers() {
    let home = Home::new();
    let keys = [("llama.context_length", u32::MAX.into())];
    let model = home.changed_fixture("long.gguf", "smollm2", &keys, |_| Some(0));
    let context = u32::MAX.to_string();
    let ran = home.run(&["complete", model, "-p", "the cat", "--context", &context]);
    let line = ran.failed();
    assert!(line.contains("the model needs") && line.contains(" GB") && line.contains(&context), "{line}");
    let page = home.run(&["inspect", model, "--context", &context]);
    let verdict: Vec<&str> = page.done().lines().take(2).collect();
    assert!(page.stdout.contains("does not fit") && verdict[0] == "runs: no", "{page:?}");
    assert!(verdict[1].starts_with("- it needs ") && verdict[1].contains(" tokens, and "), "{page:?}");
}

#[test]
fn devices_names_the_processor_and_the_last_resort() {
    let home = Home::new();
    let json = home.run(&["devices", "--json"]).json();
    let names: Vec<&str> =
        json["devices"].as_array().unwrap().iter().map(|row| row["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["cpu", "reference"]);
    let page = home.run(&["devices"]);
    assert!(names.iter().all(|name| page.done().contains(name)), "{page:?}");
}

#[test]
fn plan_gives_every_op_a_device() {
    let home = Home::new();
    let model = home.fixture("smollm2");
    let json = home.run(&["plan", model, "--json"]).json();
    let segments = json["segments"].as_array().unwrap();
    assert_eq!(segments.iter().map(|row| row["phase"].as_str().unwrap()).collect::<Vec<_>>(), ["prefill", "decode"]);
    for name in ["layers", "ops", "device", "reason", "cost_ns"] {
        assert!(segments[0].get(name).is_some(), "{name}: {json}");
    }
    let refused = home.run(&["plan", model, "--refuse", "attention", "--json"]).json();
    let rows = refused["segments"].as_array().unwrap();
    assert!(rows.iter().any(|row| row["device"] == "reference" && row["fallback"] == true), "{refused}");
    assert!(rows.iter().any(|row| row["device"] == "cpu"), "{refused}");
    let page = home.run(&["plan", model, "--refuse", "attention"]);
    assert_eq!(page.done().lines().count(), 1 + 4 + 2, "a head, two devices in two phases, ops together: {page:?}");
    let forbidden = home.run(&["plan", model, "--refuse", "attention", "--no-fallback"]);
    assert!(forbidden.failed().contains("attention"), "{forbidden:?}");
    assert!(home.run(&["plan", model, "--refuse", "teleport"]).refused().contains("attention"));
}

#[test]
fn a_reader_that_has_seen_enough_is_no_failure() {
    let home = Home::new();
    let model = home.fixture("gemma3-27b");
    let mut child = home
        .command(&["inspect", model, "--tensors", "--metadata", "--json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // The document is larger than a pipe holds, so the program is still writing when its reader goes.
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), String::from_utf8(output.stderr).unwrap()), (Some(0), String::new()));
}
