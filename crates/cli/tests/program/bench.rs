//! `duan bench`: names, counts and forms of its results. No time is looked at.

use serde_json::{Value, json};

use crate::common::{Home, Ran};

/// Fields that are another number in each run, or on each machine.
const CHANGING: &[&str] = &[
    "cpu_info",
    "isa",
    "test_time",
    "avg_ns",
    "stddev_ns",
    "avg_ts",
    "stddev_ts",
    "samples_ns",
    "samples_ts",
    "median_ts",
    "min_ts",
    "max_ts",
    "first_token_ns",
    "first_token_samples_ns",
    "token_ns",
    "token_samples_ns",
    "major_faults",
    "voluntary_switches",
    "involuntary_switches",
    "energy_j_per_token",
    "ceiling_measured_at",
    "verdict",
    "doubtful",
    "doubts",
    "movement",
    "clock_hz",
    "memory",
    "load",
    "state",
    "build_profile",
    "read_bytes_per_s",
    "bandwidth",
    "bandwidth_skipped",
    "ceiling_ts",
    "share",
    "processors",
    "load_average",
    "warnings",
];

fn bench(home: &Home, arguments: &[&str]) -> Ran {
    home.run(&[&["bench", home.fixture("smollm2")], arguments].concat())
}

/// The names of an object's fields.
fn fields(row: &Value) -> Vec<&str> {
    row.as_object().expect("a row is an object").keys().map(String::as_str).collect()
}

#[test]
fn rows_carry_what_llama_bench_says_and_more() {
    let home = Home::new();
    let mut rows = bench(&home, &["-p", "6", "-n", "3", "-d", "0,5", "-t", "1", "-r", "2", "--json"]).json();
    for row in rows.as_array_mut().expect("a list of tests") {
        for name in ["samples_ns", "samples_ts"] {
            assert_eq!(row[name].as_array().map(Vec::len), Some(2), "{name}");
        }
        for name in CHANGING {
            assert!(row.get(*name).is_some(), "{name}");
            row[*name] = json!("...");
        }
    }
    insta::assert_snapshot!("bench_json", serde_json::to_string_pretty(&rows).expect("JSON"));
}

#[test]
fn every_form_has_a_row_for_each_test() {
    let home = Home::new();
    let table = bench(&home, &["-p", "4,0", "-n", "2", "-t", "1", "-r", "1"]);
    let lines: Vec<&str> = table.done().lines().collect();
    let begins = |start: &str| lines.iter().position(|line| line.starts_with(start)).expect(start);
    // What it ran on stands before the first number.
    assert_eq!(["model: ", "machine: ", "threads: ", "state: "].map(begins), [0, 1, 2, 3], "{table:?}");
    let head = begins("| model");
    let rows: Vec<Vec<&str>> =
        lines[head..head + 4].iter().map(|line| line.split('|').map(str::trim).collect()).collect();
    insta::assert_snapshot!("bench_table_head", rows[0].join("|"));
    assert_eq!((rows[2][6], rows[3][6]), ("pp4", "tg2"));
    assert_eq!((rows[2][4], rows[2][5]), ("cpu", "1"));
    assert_eq!(
        (rows[2][9], rows[2][10]),
        ("-", "-"),
        "of one round there is no interval, and prefill reads no weights anew"
    );
    for note in ["pp4: first token after ", "tg2: a token takes ", "load: ", "memory: ", "read bandwidth: "] {
        assert_eq!(lines.iter().filter(|line| line.starts_with(note)).count(), 1, "{note} {table:?}");
    }

    let csv = bench(&home, &["-p", "4", "-n", "0", "-r", "1", "-o", "csv"]);
    let lines: Vec<&str> = csv.done().lines().collect();
    assert_eq!(lines.len(), 2);
    let names: Vec<&str> = lines[0].split(',').collect();
    assert_eq!(lines[1].split("\",\"").count(), names.len(), "{csv:?}");
    assert!(names.contains(&"avg_ts") && names.contains(&"median_ts") && !names.contains(&"samples_ts"));
    assert!(!names.contains(&"state") && !csv.done().contains('{'), "{csv:?}");

    let jsonl = bench(&home, &["-p", "4", "-n", "2", "-r", "1", "-o", "JSONL"]);
    let rows: Vec<Value> = jsonl.done().lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(rows.len(), 2);
    assert_eq!(fields(&rows[0]), fields(&rows[1]));
}

#[test]
fn results_are_kept_with_their_settings() {
    let home = Home::new();
    let run = |arguments: &[&str]| {
        let mut command = home.command(arguments);
        crate::common::ran(command.env("DUAN_STATE", home.path().join("state")).output().expect("the program runs"))
    };
    let model = home.fixture("smollm2");
    let ran = run(&["bench", model, "-p", "4", "-n", "2", "-t", "1,2", "-r", "5", "--pause", "0", "--json"]);
    assert!(ran.stderr.contains("kept as records 1, 2"), "{ran:?}");
    let rows = ran.json();
    assert_eq!(rows[0]["interval"]["level"], json!(0.9375));
    assert_eq!(rows[1]["token_samples_ns"].as_array().map(Vec::len), Some(5));
    assert!(rows[3]["memory"]["curve"]["resident_bytes"][0].as_u64() > Some(0), "{rows}");
    assert!(rows[3]["load"]["load_ns"].as_u64() > Some(0));

    let list = run(&["records", "list", "--json"]).json();
    assert_eq!(list["records"].as_array().map(Vec::len), Some(2), "one for each number of threads: {list}");
    let shown = run(&["records", "show", "1", "--json"]);
    assert!(shown.done().contains("\"movement\""), "{shown:?}");
    let compared = run(&["compare", "1", "2", "--json"]).json();
    let tests: Vec<&str> =
        compared["tests"].as_array().unwrap().iter().map(|test| test["test"].as_str().unwrap()).collect();
    assert_eq!(tests, ["pp4", "pp4 first token", "tg2"]);

    let ran = run(&["bench", model, "-p", "4", "-n", "0", "-r", "1", "--no-record"]);
    assert!(!ran.stderr.contains("kept as"), "{ran:?}");
    assert_eq!(run(&["records", "list", "--json"]).json()["records"].as_array().map(Vec::len), Some(2));
}

#[test]
fn starts_are_measured_from_the_file_on() {
    let home = Home::new();
    let ran = bench(&home, &["-p", "4", "-n", "0", "-r", "1", "--starts", "--no-record"]);
    for start in ["| first  | warm ", "| second | warm "] {
        assert!(ran.done().contains(start), "{ran:?}");
    }
}

#[test]
fn wrong_numbers_are_refused_by_the_options_name() {
    let home = Home::new();
    for (option, name, values) in [
        ("-p", "--n-prompt", &["-1", "x", "1,,2", "99999999999"][..]),
        ("-n", "--n-gen", &["-4", ""]),
        ("-d", "--n-depth", &["-1", "1.5"]),
        ("-t", "--threads", &["0", "1,0", "2000"]),
        ("-r", "--repetitions", &["0", "-1"]),
        ("-o", "--output", &["xml"]),
        ("--warm-ups", "--warm-ups", &["-1", "101"]),
        ("--pause", "--pause", &["-1", "nan", "inf", "3601", "x"]),
    ] {
        for value in values {
            let ran = home.run(&["bench", "m.gguf", option, value]);
            assert!(ran.refused().contains(&format!("'{name} ")), "{ran:?}");
        }
    }
    assert!(home.run(&["bench", "m.gguf", "-p", "0", "-n", "0"]).refused().contains("nothing is left to run"));
    assert!(home.run(&["bench", "m.gguf", "--json", "-o", "csv"]).refused().contains("-o"));
}

#[test]
fn what_cannot_be_measured_is_one_line() {
    let home = Home::new();
    let ran = bench(&home, &["-p", "8", "-n", "0", "-d", "4096"]);
    assert!(ran.failed().contains("pp8 @ d4096 needs 4104 positions"), "{ran:?}");
    let ran = home.run(&["bench", "no.gguf"]);
    assert!(ran.failed().contains("no.gguf"), "{ran:?}");
    let ran = bench(&home, &["--device", "gpu", "-p", "1"]);
    assert!(ran.failed().contains("gpu"), "{ran:?}");
}

#[test]
fn other_engines_run_in_turn() {
    let home = Home::new();
    let run = |arguments: &[&str]| {
        let mut command = home.command(arguments);
        crate::common::ran(command.env("DUAN_STATE", home.path().join("state")).output().expect("the program runs"))
    };
    let model = home.fixture("smollm2");
    let itself = format!(
        "itself='{}' bench {{model}} -p {{n_prompt}} -n {{n_gen}} -d {{n_depth}} -t {{threads}} -r 1 --no-warmup --pause 0 --no-record --json",
        env!("CARGO_BIN_EXE_duan")
    );
    let counting =
        "a script=sh -c 'echo run >> runs; echo \"$0: ${1}0 t/s, ${2}0 t/s\" >&2' {model} {n_prompt} {n_gen}";
    let pattern = "a script=(?<prefill>[0-9.]+) t/s, (?<decode>[0-9.]+) t/s";
    let base = ["bench", model, "-p", "4", "-n", "2", "-d", "3", "-t", "1", "-r", "5", "--pause", "0"];
    let ran = run(&[&base[..], &["--with", &itself, "--with", counting, "--pattern", pattern, "--json"]].concat());
    let rows = ran.json();
    for (row, rate) in rows.as_array().expect("a list of tests").iter().zip([40.0, 20.0]) {
        let with = row["with"].as_array().expect("a list of engines");
        assert_eq!(with.len(), 2, "{row}");
        assert_eq!((&with[0]["name"], &with[0]["read_by"]), (&json!("itself"), &json!("llama-bench")));
        assert_eq!(with[0]["engine_version"], json!(env!("CARGO_PKG_VERSION")));
        assert_eq!(with[0]["differs"], json!([]), "{}", with[0]);
        assert_eq!(with[1]["samples_ts"], json!(vec![rate; 5]));
        for one in with {
            let ratios = one["ratio"]["samples"].as_array().expect("ratios");
            let own = row["samples_ts"].as_array().expect("samples");
            let quotient = |at: usize| own[at].as_f64().unwrap() / one["samples_ts"][at].as_f64().unwrap();
            assert_eq!(ratios.len(), 5);
            assert!(ratios.iter().enumerate().all(|(at, ratio)| *ratio == json!(quotient(at))), "{one}");
            assert_eq!((&one["failed"], &one["ratio"]["interval"]["level"]), (&Value::Null, &json!(0.9375)));
        }
    }
    // Two tests of five rounds, and one run to try each kind out.
    let runs = std::fs::read_to_string(home.path().join("runs")).expect("it ran");
    assert_eq!(runs.lines().count(), 12);
    // What tells its settings is kept as well, here two runs with contexts as long as their tests; a script does not.
    assert!(ran.stderr.contains("kept as records 1, 2, 3;"), "{}", ran.stderr);
    let compared = run(&["compare", "1", "2", "--json"]).json();
    let hash = &compared["questions"][0]["parts"][0];
    assert_eq!((&hash["name"], &hash["answer"]), (&json!("SHA-256"), &json!("yes")));

    let table = run(&[&base[..], &["--with", counting, "--pattern", pattern, "--no-record"]].concat());
    let lines: Vec<&str> = table.done().lines().collect();
    let head = lines.iter().position(|line| line.contains("| duan / engine |")).expect("a second table");
    let cells: Vec<&str> = lines[head + 2].split('|').map(str::trim).collect();
    assert_eq!((cells[1], cells[2], cells[3], cells[8]), ("pp4 @ d3", "a script", "40.00", "5"), "{table:?}");
    let said = lines.iter().filter(|line| line.starts_with("tg2 @ d3: ")).count();
    assert!(said >= 2, "times of tokens, and what the ratio says: {table:?}");
}

#[test]
fn other_engines_that_cannot_run_are_told_before_anything_is_measured() {
    let home = Home::new();
    let model = home.fixture("smollm2");
    let failed = |with: &[&str]| {
        let ran = home.run(&[&["bench", model, "-p", "4", "-n", "2", "-r", "1", "--no-record"], with].concat());
        ran.failed().to_owned()
    };
    assert_eq!(
        failed(&["--with", "x=duan-no-such-program {model}"]),
        "duan: error: x: there is no program duan-no-such-program; name one that is in the PATH, or give its path"
    );
    assert_eq!(
        failed(&["--with", "x=sh -c 'echo one; echo cannot open >&2; exit 3' {model}"]),
        "duan: error: x: sh failed with exit status: 3 and said: cannot open"
    );
    let line = failed(&["--with", "x=echo {model}"]);
    assert!(line.starts_with("duan: error: x: it printed no rows of llama-bench; add -o json"), "{line}");
    let line = failed(&["--with", "x=echo {model}", "--pattern", "x=([0-9.]+) t/s"]);
    assert!(line.ends_with("(its last line: \"tiny.gguf\")"), "{line}");
    // The first test works, the second does not.
    let ran = home.run(&[
        "bench",
        model,
        "-p",
        "4,5",
        "-n",
        "0",
        "-r",
        "2",
        "--no-record",
        "--with",
        "x=sh -c 'test $1 = 4 && echo 7 t/s' {model} {n_prompt}",
        "--pattern",
        "x=(.*) t/s",
    ]);
    assert_eq!(ran.code, Some(1));
    assert!(ran.stdout.contains("| pp5 ") && ran.stdout.contains("pp5: x has fewer runs: sh failed"), "{ran:?}");
    assert!(ran.stderr.lines().last().unwrap().starts_with("duan: error: x: sh failed with exit status: 1"), "{ran:?}");
}

#[test]
fn other_engines_without_sense_are_refused() {
    let home = Home::new();
    let model = home.fixture("smollm2");
    let refused = |with: &[&str]| home.run(&[&["bench", model][..], with].concat()).refused().to_owned();
    assert!(refused(&["--with", "llama-bench"]).contains("expected NAME=COMMAND, found no ="));
    assert!(refused(&["--pattern", "x=(.)"]).contains("--with"));
    assert!(refused(&["--with", "x=a", "--with", "x=b"]).contains("two --with are called x"));
    assert!(
        refused(&["--with", "x=a", "--pattern", "y=(.)"])
            .contains("a --pattern is for y, and no --with is called that")
    );
    assert!(refused(&["--with", "x=a", "--pattern", "x=("]).contains("no regular expression"));
}
