//! Several programs with the same records: at once, and killed in the middle.
//!
//! The test starts itself again as children that write; the parent kills them without a word. With `DUAN_KILLS=N` it does so N times.

#![allow(clippy::unwrap_used)]

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use duan_measure::records::{BENCH, DUAN, Filter, Head, Measured, NewRecord, Records, TOKENS_PER_S};
use rusqlite::Connection;

const FILE: &str = "DUAN_TEST_RECORDS_FILE";
/// How many records a child adds; none means that it goes on.
const COUNT: &str = "DUAN_TEST_RECORDS_COUNT";
const SAMPLES: usize = 50;

fn record(name: &str) -> NewRecord {
    let head = Head {
        taken_at: "2026-11-30T12:00:00Z".into(),
        kind: BENCH.into(),
        engine: DUAN.into(),
        engine_version: "0.1.0".into(),
        build_profile: Some("release".into()),
        chip: Some("A Processor".into()),
        model_filename: name.into(),
        model_sha256: Some("ab".repeat(32)),
        model_type: "llama 135M Q4_1".into(),
        model_size: Some(1),
        model_n_params: Some(1),
        bits_per_weight: Some(8.0),
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
        fused: Some(Vec::new()),
        warm_up_runs: Some(2),
        pause_ms: Some(0),
        doubtful: Some(Vec::new()),
        tags: vec!["child".into()],
        ..Head::default()
    };
    let samples = (0..SAMPLES).map(|sample| sample as f64).collect();
    let results = vec![Measured::new("tg128", [0, 128, 0], TOKENS_PER_S, samples)];
    // Larger than a page, so that a record is never one write.
    NewRecord { head, results, document: serde_json::json!({ "filler": "x".repeat(20_000) }) }
}

/// Asserts that every record is whole, and gives their numbers.
fn whole(records: &Records) -> Vec<i64> {
    let listed = records.list(&Filter::default()).unwrap();
    for record in &listed {
        assert_eq!(record.results.len(), 1);
        assert_eq!(record.results[0].samples.len(), SAMPLES);
        assert_eq!(record.head.tags, ["child"]);
        assert_eq!(records.document(record.id).unwrap()["filler"].as_str().unwrap().len(), 20_000);
    }
    let mut ids: Vec<i64> = listed.iter().map(|record| record.id).collect();
    ids.sort_unstable();
    ids
}

/// A child: adds records, and says each number when it is kept. Run by itself it does nothing.
#[test]
fn child_that_adds() {
    let (Ok(file), Ok(count)) = (std::env::var(FILE), std::env::var(COUNT)) else { return };
    let count: usize = count.parse().unwrap();
    let mut added = 0;
    while count == 0 || added < count {
        let mut records = Records::open(Path::new(&file)).unwrap();
        let id = records.add(&record(&format!("{}.gguf", std::process::id()))).unwrap();
        // Not captured by the harness, and at once.
        let mut out = std::io::stdout().lock();
        writeln!(out, "kept {id}").unwrap();
        out.flush().unwrap();
        added += 1;
    }
}

/// A child that is killed inside a transaction: what it wrote is in the file already. Run by itself it does nothing.
#[test]
fn child_that_stops_in_the_middle() {
    let Ok(file) = std::env::var(FILE) else { return };
    let mut connection = Connection::open(file).unwrap();
    // Pages go to the file before the end of the transaction.
    connection.pragma_update(None, "cache_size", 1).unwrap();
    let transaction = connection.transaction().unwrap();
    transaction.execute("UPDATE records SET document = hex(randomblob(40000))", []).unwrap();
    transaction.execute("DELETE FROM tags", []).unwrap();
    let mut out = std::io::stdout().lock();
    writeln!(out, "kept half").unwrap();
    out.flush().unwrap();
    std::thread::sleep(std::time::Duration::from_secs(600));
}

fn start(test: &str, file: &Path, count: usize) -> (Child, BufReader<ChildStdout>) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([test, "--exact", "--nocapture", "--test-threads=1"]);
    command.env(FILE, file).env(COUNT, count.to_string());
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn().unwrap();
    let out = BufReader::new(child.stdout.take().unwrap());
    (child, out)
}

/// What a child says that it has kept, from the next lines on.
fn kept(out: &mut BufReader<ChildStdout>) -> impl Iterator<Item = String> {
    out.lines().map_while(Result::ok).filter_map(|line| Some(line.split_once("kept ")?.1.to_owned()))
}

#[test]
fn programs_that_write_at_once_lose_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("state/records.db");
    // Nobody has made the file before, so they also make it at once.
    let mut children: Vec<_> = (0..4).map(|_| start("child_that_adds", &file, 15)).collect();
    let mut said: Vec<i64> = Vec::new();
    for (child, out) in &mut children {
        said.extend(kept(out).map(|id| id.parse::<i64>().unwrap()));
        assert!(child.wait().unwrap().success());
    }
    said.sort_unstable();
    assert_eq!(said, (1..=60).collect::<Vec<i64>>());
    assert_eq!(whole(&Records::open_existing(&file).unwrap().unwrap()), said);
}

#[test]
fn a_program_that_is_killed_loses_nothing_that_it_kept() {
    let kills: usize = std::env::var("DUAN_KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(6);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("records.db");
    let mut said: Vec<i64> = Vec::new();
    for kill in 0..kills {
        let (mut child, mut out) = start("child_that_adds", &file, 0);
        said.extend(kept(&mut out).take(kill % 3 + 1).map(|id| id.parse::<i64>().unwrap()));
        // Somewhere in the next record: each time at another place.
        std::thread::sleep(std::time::Duration::from_micros(300 * kill as u64));
        child.kill().unwrap();
        child.wait().unwrap();
        said.extend(kept(&mut out).map(|id| id.parse::<i64>().unwrap()));
        let ids = whole(&Records::open(&file).unwrap());
        assert!(said.iter().all(|id| ids.contains(id)), "kill {kill}: {said:?} of {ids:?}");
        // At most the one that was kept and not said any more.
        assert!(ids.len() <= said.len() + kill + 1, "kill {kill}");
    }
}

#[test]
fn what_a_killed_program_had_half_written_is_taken_back() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("records.db");
    let mut records = Records::open(&file).unwrap();
    let ids: Vec<i64> = (0..5).map(|_| records.add(&record("a.gguf")).unwrap()).collect();
    drop(records);
    let before = std::fs::read(&file).unwrap();
    let (mut child, mut out) = start("child_that_stops_in_the_middle", &file, 0);
    assert_eq!(kept(&mut out).next().as_deref(), Some("half"));
    child.kill().unwrap();
    child.wait().unwrap();
    assert_ne!(std::fs::read(&file).unwrap(), before, "the half was in the file");
    assert!(folder.path().join("records.db-journal").exists());
    // Whoever only reads takes it back, too.
    let records = Records::open_existing(&file).unwrap().unwrap();
    assert_eq!(whole(&records), ids);
    drop(records);
    assert_eq!(std::fs::read(&file).unwrap(), before);
}
