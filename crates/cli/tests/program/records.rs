//! `duan records` and `duan compare`, on records that were made up.

use std::path::PathBuf;

use duan::records::{BENCH, DUAN, Head, Measured, NewRecord, Records, TOKENS_PER_S};
use serde_json::{Value, json};

use crate::common::Home;

fn file(home: &Home) -> PathBuf {
    home.path().join("state/records.db")
}

fn run(home: &Home, arguments: &[&str]) -> crate::common::Ran {
    let mut command = home.command(arguments);
    crate::common::ran(command.env("DUAN_STATE", home.path().join("state")).output().expect("the program starts"))
}

/// A report, as far as comparisons look at it.
fn document() -> Value {
    json!({ "state": { "processor": { "model": "A Processor" } } })
}

fn record(taken_at: &str, decode: &[f64]) -> NewRecord {
    let head = Head {
        taken_at: taken_at.into(),
        kind: BENCH.into(),
        engine: DUAN.into(),
        engine_version: "0.1.0".into(),
        build_profile: Some("release".into()),
        chip: Some("A Processor, 4 cores, x86_64".into()),
        model_filename: "tiny.gguf".into(),
        model_sha256: Some("0123456789abcdef".repeat(4)),
        model_type: "llama 135M Q4_1".into(),
        model_size: Some(98_000_000),
        model_n_params: Some(134_515_008),
        bits_per_weight: Some(5.83),
        backend: "cpu".into(),
        fallbacks: Some(Vec::new()),
        isa: Some("avx2".into()),
        threads_prefill: Some(4),
        threads_decode: Some(2),
        pinning: Some("none".into()),
        type_k: "f16".into(),
        type_v: "f16".into(),
        n_batch: Some(512),
        n_ctx: Some(640),
        packed: Some(true),
        fused: Some(vec!["norm".into()]),
        warm_up_runs: Some(2),
        pause_ms: Some(500),
        temperature_before_millicelsius: Some(40_000),
        temperature_after_millicelsius: Some(41_500),
        doubtful: Some(Vec::new()),
        ..Head::default()
    };
    let results = vec![
        Measured::new("pp512", [512, 0, 0], TOKENS_PER_S, vec![400.0, 402.0, 401.0, 399.0, 400.5]),
        Measured::new("tg128", [0, 128, 0], TOKENS_PER_S, decode.to_vec()),
    ];
    NewRecord { head, results, document: document() }
}

/// A home with two records: 1 is slower than 2.
fn home() -> Home {
    let home = Home::new();
    let mut records = Records::open(&file(&home)).unwrap();
    records.add(&record("2026-11-29T12:00:00Z", &[70.0, 71.0, 70.5, 69.5, 70.2])).unwrap();
    records.add(&record("2026-11-30T12:00:00Z", &[77.0, 78.0, 77.5, 76.5, 77.2])).unwrap();
    home
}

/// What llama-bench prints of the same kind of run, the fields that are read.
fn llama_bench() -> String {
    let row = |n_prompt: u64, n_gen: u64| {
        json!({
            "build_commit": "0a1b2c3", "build_number": 9999, "cpu_info": "A Processor", "backends": "CPU",
            "model_filename": "m\u{1b}[2J.gguf", "model_type": "llama ?B Q4_1", "model_size": 98_000_000_u64,
            "model_n_params": 134_515_008_u64, "n_batch": 2048, "n_threads": 2, "type_k": "f16", "type_v": "f16",
            "n_prompt": n_prompt, "n_gen": n_gen, "n_depth": 0, "test_time": "2026-11-30T13:00:00Z",
            "samples_ns": [1_000_000_000_u64],
        })
    };
    serde_json::to_string(&[row(512, 0), row(0, 128)]).unwrap()
}

#[test]
fn without_records_every_command_says_so_and_makes_nothing() {
    let home = Home::new();
    assert_eq!(run(&home, &["records", "list"]).done(), "");
    assert!(run(&home, &["records", "list"]).stderr.contains("`duan bench` makes one"));
    assert_eq!(run(&home, &["records", "list", "--json"]).json(), json!({ "records": [] }));
    for arguments in [
        &["records", "show", "1"][..],
        &["records", "tag", "1", "x"],
        &["records", "delete", "1"],
        &["records", "export", "1"],
        &["compare", "1", "2"],
    ] {
        let ran = run(&home, arguments);
        assert_eq!(ran.failed(), "duan: error: there is no record 1; `duan records list` shows those that there are");
    }
    assert_eq!(run(&home, &["records", "export"]).json(), json!({ "duan_records": 1, "records": [] }));
    assert!(run(&home, &["records", "delete", "--tag", "x", "--yes"]).stderr.contains("nothing was deleted"));
    assert_eq!(run(&home, &["records", "path"]).done(), format!("{}\n", file(&home).display()));
    assert_eq!(home.names(), [""; 0]);
}

#[test]
fn the_folder_is_that_of_the_system_unless_it_is_named() {
    let home = Home::new();
    let path = |command: &mut std::process::Command| crate::common::ran(command.output().unwrap()).done().to_owned();
    let mut command = home.command(&["records", "path"]);
    if cfg!(target_os = "linux") {
        let expected = home.path().join(".local/state/duan/records.db");
        assert_eq!(path(&mut command), format!("{}\n", expected.display()));
        assert_eq!(path(command.env("XDG_STATE_HOME", "/xdg")), "/xdg/duan/records.db\n");
    }
    assert_eq!(path(command.env("DUAN_STATE", "/there")), "/there/records.db\n");
}

#[test]
fn records_are_listed_and_shown() {
    let home = home();
    let list = run(&home, &["records", "list"]).done().to_owned();
    let lines: Vec<&str> = list.lines().collect();
    assert_eq!(lines.len(), 3);
    assert!(lines[0].starts_with("RECORD") && lines[0].contains("TOKENS/S"), "{list}");
    assert!(lines[1].trim_start().starts_with("2  2026-11-30T12:00:00Z  llama 135M Q4_1  duan 0.1.0  cpu"), "{list}");
    assert!(lines[1].contains("4/2") && lines[1].contains("pp512 400, tg128 77.2"), "{list}");
    let json = run(&home, &["records", "list", "--json", "--since", "2026-11-30"]).json();
    assert_eq!((json["records"].as_array().unwrap().len(), &json["records"][0]["id"]), (1, &2.into()));
    assert_eq!(json["records"][0]["results"][1]["samples"], json!([77.0, 78.0, 77.5, 76.5, 77.2]));
    let limited = run(&home, &["records", "list", "--limit", "1"]);
    assert_eq!((limited.done().lines().count(), &*limited.stderr), (2, ""));
    assert_eq!(run(&home, &["records", "list", "--model", "nothing"]).done(), "");
    let error = run(&home, &["records", "list", "--since", "yesterday"]);
    assert!(error.failed().contains("since: expected 2026-11-30"));

    let page = run(&home, &["records", "show", "last"]).done().to_owned();
    for expected in
        ["RECORD 2", "this one", "llama 135M Q4_1", "tg128", "76.5..78.0", "77.0 78.0 77.5 76.5 77.2", "tokens/s"]
    {
        assert!(page.contains(expected), "{expected}: {page}");
    }
    let shown = run(&home, &["records", "show", "2", "--json"]).json();
    assert_eq!((&shown["head"]["threads_decode"], &shown["document"]), (&2.into(), &document()));
}

#[test]
fn tags_name_a_record_and_can_be_taken_again() {
    let home = home();
    assert_eq!(run(&home, &["records", "tag", "last~1", "base", "old"]).stderr, "record 1 has the tags base, old\n");
    assert!(run(&home, &["records", "show", "base"]).done().starts_with("RECORD 1"));
    assert_eq!(run(&home, &["records", "untag", "base", "old", "--json"]).json(), json!({ "id": 1, "tags": ["base"] }));
    assert!(run(&home, &["records", "untag", "1", "old"]).failed().contains("record 1 has no tag old"));
    assert!(run(&home, &["records", "tag", "1", "12"]).failed().contains("cannot be a tag"));
    assert_eq!(run(&home, &["records", "list", "--tag", "base", "--json"]).json()["records"][0]["id"], 1);
}

#[test]
fn no_text_of_a_record_commands_the_terminal() {
    let home = Home::new();
    let mut new = record("2026-11-29T12:00:00Z", &[70.0; 5]);
    new.head.model_type = "a\u{9b}2Jb\u{202e}c".into();
    Records::open(&file(&home)).unwrap().add(&new).unwrap();
    let is_odd = |text: &str| text.contains(['\u{9b}', '\u{202e}']);
    for arguments in [
        &["records", "list"][..],
        &["records", "list", "--json"],
        &["records", "show", "1"],
        &["records", "show", "1", "--json"],
        &["records", "export"],
        &["records", "export", "--format", "csv"],
        &["records", "export", "--format", "llama-bench"],
        &["compare", "1", "1"],
        &["compare", "1", "1", "--json"],
    ] {
        let text = run(&home, arguments).done().to_owned();
        assert!(!text.is_empty() && !is_odd(&text), "{arguments:?}: {text:?}");
    }
    let exported = run(&home, &["records", "export"]).json();
    assert_eq!(exported["records"][0]["head"]["model_type"], "a\u{9b}2Jb\u{202e}c");
    assert!(run(&home, &["records", "tag", "1", "a\u{202e}b"]).failed().contains("cannot be a tag"));
    // A good one may begin like a name of another kind.
    assert_eq!(run(&home, &["records", "tag", "last", "last-good"]).stderr, "record 1 has the tags last-good\n");
    assert!(run(&home, &["records", "show", "last-good"]).done().starts_with("RECORD 1"));
}

#[test]
fn what_is_deleted_is_said_and_many_need_a_word() {
    let home = home();
    assert!(run(&home, &["records", "delete"]).failed().contains("nothing says which records to delete"));
    assert!(run(&home, &["records", "delete", "1", "--tag", "x"]).refused().contains("cannot be used with"));
    assert!(
        run(&home, &["records", "delete", "--backend", "cpu"])
            .failed()
            .contains("2 records would be deleted; say --yes")
    );
    assert!(run(&home, &["records", "delete", "1", "9"]).failed().contains("there is no record 9"));
    assert_eq!(run(&home, &["records", "list", "--json"]).json()["records"].as_array().unwrap().len(), 2);
    let ran = run(&home, &["records", "delete", "1"]);
    assert_eq!((ran.code, &*ran.stdout), (Some(0), ""));
    let expected = "deleted record 1: 2026-11-29T12:00:00Z, llama 135M Q4_1, duan 0.1.0, pp512 400, tg128 70.2\n";
    assert_eq!(ran.stderr, expected);
    let deleted = run(&home, &["records", "delete", "--backend", "cpu", "--yes", "--json"]).json();
    assert_eq!(deleted["deleted"][0]["id"], 2);
    assert_eq!(run(&home, &["records", "list"]).done(), "");
}

#[test]
fn records_travel_whole_and_arrive_once() {
    let here = home();
    run(&here, &["records", "tag", "2", "fast"]);
    let text = run(&here, &["records", "export"]).done().to_owned();
    let ran = run(&here, &["records", "export", "-o", "out.json"]);
    assert_eq!((ran.done(), &*ran.stderr), ("", "wrote 2 records to out.json\n"));
    assert_eq!(std::fs::read_to_string(here.path().join("out.json")).unwrap(), text);
    let again = run(&here, &["records", "export", "-o", "out.json"]);
    assert!(again.failed().contains("out.json exists already"));
    run(&here, &["records", "export", "2", "-o", "out.json", "--force"]).done();

    let there = Home::new();
    std::fs::write(there.path().join("all.json"), &text).unwrap();
    assert_eq!(run(&there, &["records", "import", "all.json"]).stderr, "added 2 records, 1 to 2\n");
    assert_eq!(run(&there, &["records", "import", "all.json"]).stderr, "nothing new; 2 were here already\n");
    assert_eq!(run(&there, &["records", "export"]).done(), text);
    assert!(run(&there, &["records", "show", "fast"]).done().contains("another one: "));

    let csv = run(&here, &["records", "export", "--format", "csv"]).done().to_owned();
    assert_eq!(csv.lines().count(), 5);
    let columns = run(&here, &["records", "export", "--format", "llama-bench", "last"]).done().to_owned();
    assert!(columns.starts_with("build_commit,build_number,cpu_info,gpu_info,backends,model_filename,"), "{columns}");
    assert!(columns.lines().nth(2).unwrap().starts_with("\"duan-0.1.0\",\"0\",\"A Processor, 4 cores, x86_64\""));
}

#[test]
fn results_of_llama_bench_become_records() {
    let home = home();
    let text = llama_bench();
    let ran = {
        let mut command = home.command(&["records", "import", "-"]);
        command.env("DUAN_STATE", home.path().join("state"));
        command.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
        let mut child = command.stderr(std::process::Stdio::piped()).spawn().unwrap();
        std::io::Write::write_all(&mut child.stdin.take().unwrap(), text.as_bytes()).unwrap();
        crate::common::ran(child.wait_with_output().unwrap())
    };
    assert_eq!((ran.done(), &*ran.stderr), ("", "added record 3\n"));
    home.file("lb.json", text.as_bytes());
    assert_eq!(run(&home, &["records", "import", "lb.json", "--json"]).json(), json!({ "added": [], "known": 1 }));
    let list = run(&home, &["records", "list"]).done().to_owned();
    assert!(list.contains("llama.cpp b9999 (0a1b2c3)"), "{list}");
    // A name cannot command the terminal.
    let page = run(&home, &["records", "show", "3"]).done().to_owned();
    assert!(page.contains("m\\u{1b}[2J.gguf") && !page.contains('\u{1b}'), "{page}");
    let csv = run(&home, &["records", "export", "3", "--format", "csv"]).done().to_owned();
    assert!(!csv.contains('\u{1b}'));
    // A number without its settings.
    let bare = json!([{ "n_prompt": 0, "n_gen": 8, "samples_ns": [5], "test_time": "2026-11-30T13:00:00Z" }]);
    home.file("bare.json", bare.to_string().as_bytes());
    let ran = run(&home, &["records", "import", "bare.json"]);
    let line = ran.failed();
    assert!(
        line.starts_with("duan: error: bare.json: no record was made") && line.contains("model_filename"),
        "{line}"
    );
    for (name, bytes) in [("x.json", &b"{"[..]), ("y.json", b"\xff\xfe"), ("z.json", b"7")] {
        home.file(name, bytes);
        assert!(run(&home, &["records", "import", name]).failed().contains(name));
    }
    assert!(run(&home, &["records", "import", "none.json"]).failed().contains("none.json"));
}

#[test]
fn a_damaged_file_is_named_and_kept() {
    let home = home();
    std::fs::write(file(&home), "no database, but long enough to look like one".repeat(40)).unwrap();
    let before = std::fs::read(file(&home)).unwrap();
    home.file("lb.json", llama_bench().as_bytes());
    for arguments in [&["records", "list"][..], &["records", "import", "lb.json"], &["compare", "1", "2"]] {
        let ran = run(&home, arguments);
        let line = ran.failed();
        assert!(line.contains("are damaged (") && line.contains("move the file away"), "{line}");
    }
    assert_eq!(std::fs::read(file(&home)).unwrap(), before);
}

#[test]
fn a_folder_that_cannot_be_written_is_one_line() {
    let home = Home::new();
    home.file("lb.json", llama_bench().as_bytes());
    home.file("state", b"no folder");
    let ran = run(&home, &["records", "import", "lb.json"]);
    assert!(ran.failed().contains("cannot make the folder ") && ran.failed().contains("DUAN_STATE"), "{ran:?}");
}

#[test]
fn a_comparison_asks_first_and_then_tells_the_difference() {
    let home = home();
    let page = run(&home, &["compare", "1", "2"]).done().to_owned();
    insta::assert_snapshot!("compare", page);
    let json = run(&home, &["compare", "last~1", "last", "--json"]).json();
    assert_eq!((&json["comparable"], &json["questions"][0]["answer"]), (&"yes".into(), &"yes".into()));
    let answers: Vec<&Value> = json["questions"].as_array().unwrap().iter().map(|asked| &asked["answer"]).collect();
    assert_eq!(answers, [&Value::from("yes"); 5]);
    assert_eq!(
        (&json["tests"][0]["verdict"], &json["tests"][1]["verdict"]),
        (&"within_noise".into(), &"better".into())
    );
}

#[test]
fn files_are_compared_like_records() {
    let home = home();
    run(&home, &["records", "export", "1", "-o", "one.json"]).done();
    run(&home, &["records", "export", "-o", "two.json"]).done();
    home.file("lb.json", llama_bench().as_bytes());
    let same = run(&home, &["compare", "1", "one.json", "--json"]).json();
    assert_eq!((&same["comparable"], &same["tests"][1]["ratio"]), (&"yes".into(), &1.0.into()));
    let other = run(&home, &["compare", "2", "lb.json"]).done().to_owned();
    for expected in [
        "The two cannot be compared (threads): the difference has more than one cause.",
        "llama.cpp b9999 (0a1b2c3)",
        "tg128: 5 and 1 samples are too few to tell a difference from noise",
    ] {
        assert!(other.contains(expected), "{expected}: {other}");
    }
    let ran = run(&home, &["compare", "1", "two.json"]);
    assert!(ran.failed().contains("two.json: it holds 2 records"), "{ran:?}");
    assert!(run(&home, &["compare", "1", "none"]).failed().contains("there is no record none"));
    assert_eq!(run(&home, &["compare", "1"]).code, Some(2));
}

#[test]
fn records_of_the_same_chip_from_another_machine_are_where_a_new_one_begins() {
    let home = Home::new();
    assert_eq!(run(&home, &["devices", "--json"]).json()["profile"], Value::Null);
    let chip = duan::Engine::new(duan::EngineOptions::default()).unwrap().state().machine.chip();
    if chip.model.get().is_none() {
        // Nobody knows what such a machine is, so no record can be of the same.
        return;
    }
    let mut records = Records::open(&file(&home)).unwrap();
    let mut own = record("2026-11-29T12:00:00Z", &[70.0; 5]);
    own.head.chip = Some(chip.to_string());
    records.add(&own).unwrap();
    // What this machine found itself is no news to it.
    assert_eq!(run(&home, &["devices", "--json"]).json()["profile"], Value::Null);
    let mut other = record("2026-11-28T12:00:00Z", &[80.0; 5]);
    other.head.chip = Some(chip.to_string());
    other.head.machine = Some("another".into());
    other.head.threads_decode = Some(3);
    records.add(&other).unwrap();
    let profile = run(&home, &["devices", "--json"]).json()["profile"].take();
    assert_eq!((&profile["records"], &profile["from_elsewhere"]), (&2.into(), &1.into()));
    assert_eq!((&profile["decode"]["threads"], &profile["decode"]["tokens_per_s"]), (&3.into(), &80.0.into()));
    let page = run(&home, &["devices"]).done().to_owned();
    let line = page.lines().last().unwrap();
    assert!(
        line.starts_with("2 records of this chip, 1 of them from other machines: decode was fastest with 3 threads"),
        "{line}"
    );
}
