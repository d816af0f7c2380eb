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
    let lines: Vec<Vec<&str>> = table.done().lines().map(|line| line.split('|').map(str::trim).collect()).collect();
    insta::assert_snapshot!("bench_table_head", lines[0].join("|"));
    assert_eq!(lines.iter().filter(|cells| cells.len() == 14).count(), 2 + 2, "{table:?}");
    assert_eq!((lines[2][6], lines[3][6]), ("pp4", "tg2"));
    assert_eq!((lines[2][4], lines[2][5]), ("cpu", "1"));
    assert_eq!(lines[2][10..13], ["-"; 3], "prefill has no ceiling");
    assert!(lines[5][0].starts_with("read bandwidth: "), "{table:?}");

    let csv = bench(&home, &["-p", "4", "-n", "0", "-r", "1", "-o", "csv"]);
    let lines: Vec<&str> = csv.done().lines().collect();
    assert_eq!(lines.len(), 2);
    let names: Vec<&str> = lines[0].split(',').collect();
    assert_eq!(lines[1].split("\",\"").count(), names.len(), "{csv:?}");
    assert!(names.contains(&"avg_ts") && names.contains(&"median_ts") && !names.contains(&"samples_ts"));

    let jsonl = bench(&home, &["-p", "4", "-n", "2", "-r", "1", "-o", "JSONL"]);
    let rows: Vec<Value> = jsonl.done().lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(rows.len(), 2);
    assert_eq!(fields(&rows[0]), fields(&rows[1]));
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
