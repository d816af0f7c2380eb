//! Records are kept, found and given back as they were.

use std::path::Path;

use duan_system::{Chip, ChipCores, Reading};
use proptest::prelude::*;
use rusqlite::Connection;
use serde_json::json;
use tempfile::TempDir;

use super::database::make_current;
use super::schema::STEPS;
use super::*;

/// The settings of a benchmark of duan's own, with nothing missing.
pub(crate) fn head() -> Head {
    Head {
        taken_at: "2026-11-30T12:00:00Z".into(),
        kind: BENCH.into(),
        engine: DUAN.into(),
        engine_version: "0.1.0".into(),
        build_profile: Some("release".into()),
        chip: Some("A Processor, 4 cores, x86_64".into()),
        model_filename: "SmolLM2-135M-Q4_1.gguf".into(),
        model_sha256: Some("ab".repeat(32)),
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
        fused: Some(vec!["norm".into(), "qkv".into()]),
        warm_up_runs: Some(2),
        pause_ms: Some(500),
        doubtful: Some(Vec::new()),
        ..Head::default()
    }
}

pub(crate) fn decode(samples: &[f64]) -> Measured {
    Measured::new("tg128", [0, 128, 0], TOKENS_PER_S, samples.to_vec())
}

pub(crate) fn prefill(samples: &[f64]) -> Measured {
    Measured::new("pp512", [512, 0, 0], TOKENS_PER_S, samples.to_vec())
}

pub(crate) fn record() -> NewRecord {
    NewRecord {
        head: head(),
        results: vec![prefill(&[400.1, 401.0, 399.7]), decode(&[70.0, 71.3, 70.2, 1.0 / 3.0, 70.9])],
        document: json!({"anything": [0.1, 1e300, 7, "text"], "state": null}),
    }
}

fn records() -> (TempDir, Records) {
    let folder = tempfile::tempdir().unwrap();
    let records = Records::open(&folder.path().join("deep/er").join(FILE_NAME)).unwrap();
    (folder, records)
}

#[test]
fn a_record_comes_back_as_it_was() {
    let (_folder, mut records) = records();
    let new = record();
    let id = records.add(&new).unwrap();
    let kept = records.get(id).unwrap().unwrap();
    let machine = records.machine().unwrap();
    assert_eq!(machine.len(), 16);
    assert_eq!(kept.head, Head { machine: Some(machine), ..new.head });
    assert_eq!(kept.results, new.results);
    assert_eq!(kept.uid.len(), 32);
    assert_eq!(records.document(id).unwrap(), new.document);
    // Also by another connection, which only reads.
    let again = Records::open_existing(records.path()).unwrap().unwrap();
    assert_eq!(again.list(&Filter::default()).unwrap(), [kept]);
    assert_eq!(again.get(id + 1).unwrap(), None);
}

#[test]
fn a_number_without_its_settings_is_refused() {
    let (_folder, mut records) = records();
    let mut new = record();
    new.head.model_sha256 = None;
    new.head.threads_decode = None;
    new.head.backend.clear();
    assert_eq!(new.head.missing(), ["backend", "threads_decode", "model_sha256"]);
    let error = records.add(&new).unwrap_err().to_string();
    assert!(error.contains("not known: backend, threads_decode, model_sha256; a number without"), "{error}");
    // What another engine does not say of itself is not asked of it.
    let other = Head { engine: "llama.cpp".into(), isa: None, model_sha256: None, packed: None, ..head() };
    assert_eq!(other.missing(), [""; 0]);
    assert_eq!(Head { taken_at: String::new(), ..other }.missing(), ["taken_at"]);
    assert_eq!(Head::default().missing().len(), 14);

    let long = "x".repeat(5000);
    type Spoil = fn(&mut NewRecord);
    let odd: [(&str, Spoil); 7] = [
        ("taken_at is no time", |new| new.head.taken_at = "yesterday".into()),
        ("it has no figures", |new| new.results.clear()),
        ("has no samples", |new| new.results[0].samples.clear()),
        ("is no number", |new| new.results[0].samples[1] = f64::NAN),
        ("is no number", |new| new.results[0].low = Some(f64::INFINITY)),
        ("no name or no unit", |new| new.results[0].unit.clear()),
        ("more tokens than there can be", |new| new.results[0].n_depth = u64::MAX),
    ];
    for (expected, spoil) in odd {
        let mut new = record();
        spoil(&mut new);
        let error = records.add(&new).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
    let mut new = record();
    new.head.model_type = long;
    assert!(records.add(&new).unwrap_err().to_string().contains("model_type is longer than 4096 bytes"));
    assert_eq!(records.count(&Filter::default()).unwrap(), 0);
}

/// Three records that differ: the first is the oldest.
fn three(records: &mut Records) -> [i64; 3] {
    let mut add = |taken_at: &str, change: fn(&mut Head)| {
        let mut new = record();
        new.head.taken_at = taken_at.into();
        change(&mut new.head);
        records.add(&new).unwrap()
    };
    [
        add("2026-01-01T00:00:00Z", |head| head.tags = vec!["base".into(), "old".into()]),
        add("2026-03-01T00:00:00+02:00", |head| head.model_filename = "Llama-1B.gguf".into()),
        add("2026-02-01T00:00:00Z", |head| {
            head.backend = "cpu,reference".into();
            head.chip = Some("Another Chip".into());
            head.model_sha256 = Some("12".repeat(32));
        }),
    ]
}

#[test]
fn filters_leave_out_and_the_newest_is_first() {
    let (_folder, mut records) = records();
    let [old, new, middle] = three(&mut records);
    let ids = |filter: Filter| -> Vec<i64> {
        let listed: Vec<i64> = records.list(&filter).unwrap().iter().map(|record| record.id).collect();
        assert_eq!(records.count(&filter).unwrap(), listed.len());
        listed
    };
    let some = |text: &str| Some(text.to_owned());
    assert_eq!(ids(Filter::default()), [new, middle, old]);
    assert_eq!(ids(Filter { limit: Some(2), ..Filter::default() }), [new, middle]);
    assert_eq!(ids(Filter { model: some("LLAMA-1b"), ..Filter::default() }), [new]);
    assert_eq!(ids(Filter { model: some("121212"), ..Filter::default() }), [middle]);
    assert_eq!(ids(Filter { model: some("%"), ..Filter::default() }), [0; 0]);
    assert_eq!(ids(Filter { chip: some("a proc"), ..Filter::default() }), [new, old]);
    assert_eq!(ids(Filter { test: some("tg128"), ..Filter::default() }), [new, middle, old]);
    assert_eq!(ids(Filter { test: some("tg"), ..Filter::default() }), [0; 0]);
    assert_eq!(ids(Filter { tag: some("base"), ..Filter::default() }), [old]);
    assert_eq!(ids(Filter { backend: some("reference"), ..Filter::default() }), [middle]);
    let since = parse_since("2026-02-01").unwrap();
    assert_eq!(ids(Filter { since_unix_s: Some(since), ..Filter::default() }), [new, middle]);
    let both = Filter { since_unix_s: Some(since), backend: some("cpu"), limit: Some(1), ..Filter::default() };
    assert_eq!(ids(both), [new]);
}

#[test]
fn a_record_is_found_by_what_it_is_called() {
    let (_folder, mut records) = records();
    let [old, new, middle] = three(&mut records);
    let id =
        |records: &Records, name: &str| records.find(name).map(|record| record.id).map_err(|error| error.to_string());
    assert_eq!(
        ["last", "last~0", "last~1", "last~2"].map(|name| id(&records, name).unwrap()),
        [middle, middle, new, old]
    );
    assert_eq!(id(&records, &middle.to_string()), Ok(middle));
    assert_eq!(id(&records, "base"), Ok(old));
    for name in
        ["last~3", "last~x", "lastly", "99", "none", "", "\u{1b}[2J", "last~-1", "-1", "last~", "last~99999999999"]
    {
        let error = id(&records, name).unwrap_err();
        assert!(error.starts_with("there is no record ") && !error.contains('\u{1b}'), "{error}");
    }
    records.tag(middle, &["base".into(), "base".into(), "x".into()]).unwrap();
    let error = id(&records, "base").unwrap_err();
    assert_eq!(error, format!("2 records have the tag base: {old}, {middle}; name one by its number"));
    assert_eq!(records.untag(old, &["base".into(), "never".into()]).unwrap(), 1);
    assert_eq!(id(&records, "base"), Ok(middle));
    assert_eq!(records.get(middle).unwrap().unwrap().head.tags, ["base", "x"]);
    // What can be a tag is found by it.
    for tag in ["last-good", "lastly", "+1", "1.0", "名"] {
        records.tag(old, &[tag.to_owned()]).unwrap();
        assert_eq!(id(&records, tag), Ok(old));
    }
    let unseen = ["a\u{200b}", "\u{202e}a", "\u{2066}a", "a\u{feff}", "a\u{9b}", "a\u{2060}"];
    let odd = ["", "last", "12", "-x", "a b", "a,b", "last~1", "a/b", "\u{7}", "99999999999999999999"];
    let long = "x".repeat(65);
    for tag in odd.into_iter().chain(unseen).chain([&*long]) {
        let error = records.tag(old, &[tag.to_owned()]).unwrap_err().to_string();
        assert!(error.contains("cannot be a tag"), "{error}");
    }
    assert!(records.tag(99, &["x".into()]).unwrap_err().to_string().starts_with("there is no record 99"));
}

#[test]
fn what_is_deleted_is_gone_with_all_its_rows() {
    let (_folder, mut records) = records();
    let [old, new, middle] = three(&mut records);
    assert_eq!(records.delete(&[old, new, 99]).unwrap(), 2);
    assert_eq!(records.list(&Filter::default()).unwrap().len(), 1);
    let rows = |table: &str| -> i64 {
        let query = format!("SELECT count(*) FROM {table}");
        records.connection.query_row(&query, [], |row| row.get(0)).unwrap()
    };
    assert_eq!([rows("records"), rows("results"), rows("samples"), rows("tags")], [1, 2, 8, 0]);
    assert_eq!(records.delete(&[middle]).unwrap(), 1);
    // No number is given twice.
    assert_eq!(records.add(&record()).unwrap(), 4);
}

#[test]
fn what_is_exported_comes_back_whole_and_only_once() {
    let (_folder, mut here) = records();
    three(&mut here);
    let mut odd = record();
    odd.head.more.insert("of_later".into(), json!({"deep": [1, 2.5]}));
    odd.head.model_filename = "\u{1b}[2J\"名,\n.gguf".into();
    here.add(&odd).unwrap();
    let text = json(&here.export(&Filter::default()).unwrap());
    let read_back = read(text.as_bytes(), "x.json").unwrap();
    assert_eq!(read_back, here.export(&Filter::default()).unwrap());

    let (_other, mut there) = records();
    let report = there.import(&read_back).unwrap();
    assert_eq!((report.added.len(), report.known), (4, 0));
    assert_ne!(there.machine().unwrap(), here.machine().unwrap());
    assert_eq!(json(&there.export(&Filter::default()).unwrap()).len(), text.len());
    assert_eq!(there.import(&read_back).unwrap(), ImportReport { added: Vec::new(), known: 4 });
    // And home again.
    let back = read(json(&there.export(&Filter::default()).unwrap()).as_bytes(), "y.json").unwrap();
    assert_eq!(here.import(&back).unwrap(), ImportReport { added: Vec::new(), known: 4 });
}

#[test]
fn an_import_is_all_or_nothing() {
    let (_folder, mut records) = records();
    records.add(&record()).unwrap();
    let mut exported = records.export(&Filter::default()).unwrap();
    exported.push(exported[0].clone());
    exported[0].uid = "0".repeat(32);
    exported[1].uid = "1".repeat(32);
    exported[1].head.isa = None;
    assert!(records.import(&exported).unwrap_err().to_string().contains("not known: isa"));
    assert_eq!(records.count(&Filter::default()).unwrap(), 1);
}

#[test]
fn an_import_believes_samples_alone() {
    let (_folder, mut records) = records();
    records.add(&record()).unwrap();
    let honest = records.export(&Filter::default()).unwrap();
    let change = |change: &dyn Fn(&mut Exported)| {
        let mut changed = honest.clone();
        changed[0].uid = "1".repeat(32);
        change(&mut changed[0]);
        changed
    };
    let lies = change(&|lies| {
        for figure in &mut lies.results {
            (figure.median, figure.low, figure.high) = (1e9, Some(1e9), None);
        }
    });
    assert_eq!(read(json(&lies).as_bytes(), "x").unwrap()[0].results, honest[0].results);
    let added = records.import(&lies).unwrap().added;
    assert_eq!(records.get(added[0]).unwrap().unwrap().results, honest[0].results);
    let error = |records: &mut Records, changed: Vec<Exported>| records.import(&changed).unwrap_err().to_string();
    for rate in [0.0, -1.0] {
        let changed = change(&|odd| odd.results[1].samples[2] = rate);
        let told = "no record was made: the figure \"tg128\" has a rate that is not above 0";
        assert_eq!(error(&mut records, changed), told);
    }
    let nan = change(&|odd| odd.results[1].samples[2] = f64::INFINITY);
    assert!(error(&mut records, nan).contains("is no number"));
    let future = change(&|odd| odd.head.taken_at = "9000-01-01T00:00:00Z".into());
    assert!(error(&mut records, future).contains("taken_at is 9000-01-01T00:00:00Z, more than a day in the future"));
    let many = change(&|odd| odd.results = vec![decode(&[1.0]); 1001]);
    assert!(error(&mut records, many).contains("more than 1000 figures"));
    let more = change(&|odd| {
        odd.head.more.insert("more".into(), "x".repeat(64 << 10).into());
    });
    assert!(error(&mut records, more).contains("longer than 65536 bytes"));
}

#[test]
fn the_last_record_is_the_last_that_was_measured_here() {
    let (_folder, mut records) = records();
    let import = |records: &mut Records, digit: &str, taken_at: &str| {
        let head = Head { taken_at: taken_at.into(), machine: Some("elsewhere".into()), ..head() };
        let NewRecord { results, document, .. } = record();
        records.import(&[Exported { uid: digit.repeat(32), head, results, document }]).unwrap();
    };
    import(&mut records, "a", "2026-11-30T00:00:00Z");
    import(&mut records, "b", "2026-01-01T00:00:00Z");
    // Nothing was measured here yet.
    assert_eq!(["last", "last~1"].map(|name| records.find(name).unwrap().id), [2, 1]);
    let own = records.add(&record()).unwrap();
    import(&mut records, "c", "2026-11-30T13:00:00Z");
    assert_eq!(records.find("last").unwrap().id, own);
    assert!(matches!(records.find("last~1"), Err(Error::NoRecord { .. })));
}

#[test]
fn csv_has_a_line_for_each_figure_and_quotes_every_value() {
    let (_folder, mut records) = records();
    let mut new = record();
    new.head.model_filename = "a\"b\u{1b}.gguf".into();
    new.head.tags = vec!["x".into(), "y".into()];
    new.head.doubtful = Some(vec!["one".into(), "two".into()]);
    records.add(&new).unwrap();
    let text = csv(&records.export(&Filter::default()).unwrap());
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 3);
    assert!(lines[0].starts_with("uid,taken_at,kind,engine,") && lines[0].ends_with(",samples,median,low,high"));
    let columns = lines[0].split(',').count();
    for line in &lines[1..] {
        assert_eq!(line.split("\",\"").count(), columns, "{line}");
        assert!(line.contains("\"a\"\"b\\u{1b}.gguf\"") && line.contains("\"x; y\"") && line.contains("\"one; two\""));
    }
    assert!(
        lines[2].ends_with("\"70.0; 71.3; 70.2; 0.3333333333333333; 70.9\",\"70.2\",\"0.3333333333333333\",\"71.3\"")
    );
}

#[test]
fn llama_benchs_columns_are_in_its_order() {
    let (_folder, mut records) = records();
    let mut new = record();
    new.results.push(Measured::new("first token", [0; 3], "ms", vec![10.0]));
    records.add(&new).unwrap();
    let text = llama_bench(&records.export(&Filter::default()).unwrap());
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 3, "times are none of its figures: {text}");
    let names: Vec<&str> = lines[0].split(',').collect();
    assert_eq!((names.len(), names[0], names[37]), (40, "build_commit", "stddev_ns"));
    let value = |line: usize, name: &str| {
        let at = names.iter().position(|column| *column == name).unwrap();
        lines[line].trim_matches('"').split("\",\"").nth(at).unwrap().to_owned()
    };
    assert_eq!((value(1, "n_prompt"), value(1, "n_threads")), ("512".into(), "4".into()));
    assert_eq!((value(2, "n_gen"), value(2, "n_threads")), ("128".into(), "2".into()));
    assert_eq!((value(1, "split_mode"), value(1, "build_commit")), ("".into(), "duan-0.1.0".into()));
    let mean_ts = (400.1 + 401.0 + 399.7) / 3.0;
    assert_eq!(value(1, "avg_ts").parse::<f64>().unwrap(), mean_ts);
}

#[test]
fn a_damaged_file_is_named_and_left_as_it_is() {
    let (_folder, mut records) = records();
    for _ in 0..30 {
        records.add(&record()).unwrap();
    }
    let path = records.path().to_owned();
    drop(records);
    let whole = std::fs::read(&path).unwrap();
    let mut torn = whole.clone();
    let pages = 4096..torn.len();
    torn[pages].fill(0xa5);
    let cut = whole[..whole.len() / 2 / 4096 * 4096].to_vec();
    for bytes in [b"this is no database, but a text that is long enough to be one".repeat(20), torn, cut] {
        std::fs::write(&path, &bytes).unwrap();
        let error = Records::open(&path).unwrap_err().to_string();
        assert!(error.contains("are damaged (") && error.contains("move the file away"), "{error}");
        let read = Records::open_existing(&path).and_then(|records| records.unwrap().list(&Filter::default()));
        assert!(matches!(read, Err(Error::Damaged { .. })), "{read:?}");
        assert_eq!(std::fs::read(&path).unwrap(), bytes, "nothing was written");
    }
    // A text of ours that is not ours any more.
    std::fs::write(&path, &whole).unwrap();
    let mut records = Records::open(&path).unwrap();
    records.connection.execute("UPDATE records SET head = '{' WHERE id = 3", []).unwrap();
    assert!(matches!(records.get(3), Err(Error::Damaged { .. })));
    assert!(records.get(2).unwrap().is_some());
    records.delete(&[3]).unwrap();
    assert_eq!(records.list(&Filter::default()).unwrap().len(), 29);
}

#[test]
fn other_databases_and_later_schemas_are_left_as_they_are() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(FILE_NAME);
    Connection::open(&path).unwrap().execute_batch("CREATE TABLE notes (text TEXT)").unwrap();
    let before = std::fs::read(&path).unwrap();
    for error in [Records::open(&path).unwrap_err(), Records::open_existing(&path).unwrap_err()] {
        assert!(error.to_string().contains("is a database of another program"), "{error}");
    }
    assert_eq!(std::fs::read(&path).unwrap(), before);

    std::fs::remove_file(&path).unwrap();
    drop(Records::open(&path).unwrap());
    Connection::open(&path).unwrap().pragma_update(None, "user_version", 99).unwrap();
    let error = Records::open(&path).unwrap_err().to_string();
    let known = STEPS.len();
    assert!(error.contains(&format!("have schema 99, and this duan knows schemas up to {known}")), "{error}");
}

#[test]
fn a_version_that_cannot_be_is_damage_and_no_query_is_told() {
    let (_folder, records) = records();
    let path = records.path().to_owned();
    drop(records);
    let set = |version: i64| Connection::open(&path).unwrap().pragma_update(None, "user_version", version).unwrap();
    for version in [-1, 0, 2_000_000_000] {
        set(version);
        for error in [Records::open(&path).unwrap_err(), Records::open_existing(&path).unwrap_err()] {
            let line = error.to_string();
            assert!(line.contains(&format!("are damaged (its schema has the number {version})")), "{line}");
        }
    }
    set(STEPS.len() as i64);
    Connection::open(&path).unwrap().execute_batch("DROP TABLE machine").unwrap();
    let error = Records::open(&path).unwrap().machine().unwrap_err().to_string();
    assert!(error.contains("are damaged (no such table: machine)") && !error.contains("SELECT"), "{error}");
}

#[cfg(unix)]
#[test]
fn a_pipe_or_a_folder_is_no_file_of_records() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe.db");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    for (path, what) in [(pipe.as_path(), "a pipe, a device or a socket"), (folder.path(), "a folder")] {
        for error in [Records::open(path).unwrap_err(), Records::open_existing(path).unwrap_err()] {
            let line = error.to_string();
            assert!(line.contains(&format!(" is {what}, where")) && line.contains("DUAN_STATE"), "{line}");
        }
    }
}

#[test]
fn nothing_is_made_by_looking() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("none").join(FILE_NAME);
    assert!(Records::open_existing(&path).unwrap().is_none());
    assert!(!path.parent().unwrap().exists());
    // What a program leaves that was killed before its first page.
    let empty = folder.path().join(FILE_NAME);
    std::fs::write(&empty, "").unwrap();
    assert!(Records::open_existing(&empty).unwrap().is_none());
    assert_eq!(Records::open(&empty).unwrap().add(&record()).unwrap(), 1);
}

#[test]
fn what_the_first_schema_kept_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(FILE_NAME);
    Connection::open(&path).unwrap().execute_batch(include_str!("version_1.sql")).unwrap();
    let mut records = Records::open(&path).unwrap();
    let kept = records.find("base").unwrap();
    assert_eq!((kept.id, &*kept.uid), (7, "00112233445566778899aabbccddeeff"));
    assert_eq!((kept.head.threads_decode, &kept.head.more["of_then"]), (Some(2), &1.into()));
    assert_eq!((&kept.results[0].samples[..], kept.results[0].low), (&[70.0, 71.0][..], None));
    assert_eq!(records.machine().unwrap(), "0011223344556677");
    assert_eq!(records.add(&record()).unwrap(), 8);
    assert_eq!(records.find("last~1").unwrap().id, 7);
}

#[test]
fn an_older_file_goes_through_the_steps_that_it_lacks() {
    let (_folder, mut records) = records();
    records.add(&record()).unwrap();
    let path = records.path().to_owned();
    drop(records);
    let mut connection = Connection::open(&path).unwrap();
    let version = |connection: &Connection| -> i64 {
        connection.pragma_query_value(None, "user_version", |row| row.get(0)).unwrap()
    };
    assert_eq!(version(&connection), STEPS.len() as i64);
    // A step that fails in its middle changes nothing.
    let next = "ALTER TABLE records ADD COLUMN note TEXT; UPDATE records SET note = 'x';";
    let fails = [STEPS, &[next, "ALTER TABLE records ADD COLUMN note TEXT;"]].concat();
    assert!(make_current(&mut connection, &path, &fails).is_err());
    assert_eq!(version(&connection), STEPS.len() as i64);
    assert!(connection.prepare("SELECT note FROM records").is_err());
    let steps = [STEPS, &[next]].concat();
    make_current(&mut connection, &path, &steps).unwrap();
    make_current(&mut connection, &path, &steps).unwrap();
    assert_eq!(version(&connection), steps.len() as i64);
    let note: String = connection.query_row("SELECT note FROM records", [], |row| row.get(0)).unwrap();
    assert_eq!(note, "x");
    // This duan does not know that step.
    drop(connection);
    assert!(matches!(Records::open(&path), Err(Error::Newer { .. })));
}

#[test]
fn a_folder_that_cannot_be_made_is_one_line() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("file"), "").unwrap();
    let error = Records::open(&folder.path().join("file/x.db")).unwrap_err().to_string();
    assert!(error.starts_with("cannot make the folder ") && error.ends_with("name another with DUAN_STATE"), "{error}");
    // A folder where the file should be.
    let error = Records::open(folder.path()).unwrap_err().to_string();
    assert!(error.contains("DUAN_STATE"), "{error}");
    // What the system says where nothing can be written; tests may run as a user who always can.
    let failure = |code| rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(code), None);
    let of = |code| Error::of(Path::new("r.db"), failure(code)).to_string();
    assert!(of(rusqlite::ffi::SQLITE_READONLY_DIRECTORY).starts_with("cannot write the records in r.db ("));
    assert!(of(rusqlite::ffi::SQLITE_FULL).starts_with("no room for the records in r.db"));
    assert!(of(rusqlite::ffi::SQLITE_BUSY).starts_with("another program has held the records in r.db for 10 s"));
}

#[test]
fn a_file_that_may_only_be_read_is_read() {
    let (_folder, mut records) = records();
    records.add(&record()).unwrap();
    let path = records.path().to_owned();
    drop(records);
    let flags = rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY;
    let connection = Connection::open_with_flags(&path, flags).unwrap();
    let mut records = Records { connection, path };
    assert_eq!(records.list(&Filter::default()).unwrap().len(), 1);
    let error = records.add(&record()).unwrap_err();
    assert!(matches!(error, Error::ReadOnly { .. }), "{error}");
}

#[test]
fn the_best_settings_of_a_chip_are_those_that_won_most_often() {
    let (_folder, mut records) = records();
    let chip = Chip {
        model: Reading::Known("A Processor".into()),
        architecture: Reading::Known("x86_64".into()),
        cores: Reading::Known(vec![ChipCores { count: 4, ..ChipCores::default() }]),
    };
    assert_eq!(Some(chip.to_string()), head().chip);
    assert_eq!(records.profile_for(&chip).unwrap(), None);
    let mut add = |model: &str, threads: u64, rate: f64, change: fn(&mut Head)| {
        let mut new = record();
        new.head.model_sha256 = Some(model.repeat(64));
        new.head.threads_decode = Some(threads);
        new.results = vec![decode(&[rate; 5])];
        change(&mut new.head);
        records.add(&new).unwrap()
    };
    add("a", 1, 40.0, |_| ());
    add("a", 2, 70.0, |_| ());
    let best = add("b", 2, 8.0, |head| head.machine = Some("elsewhere".into()));
    add("b", 4, 7.0, |_| ());
    add("c", 4, 30.0, |_| ());
    // These do not count.
    add("a", 8, 900.0, |head| head.doubtful = Some(vec!["a neighbour".into()]));
    add("a", 8, 900.0, |head| head.chip = Some("A Processor, 4 cores, x86_64 and more".into()));
    add("a", 8, 900.0, |head| head.engine = "llama.cpp".into());
    let profile = records.profile_for(&chip).unwrap().unwrap();
    assert_eq!((profile.records, profile.from_elsewhere, profile.prefill), (5, 1, None));
    let decode = profile.decode.unwrap();
    assert_eq!((decode.threads, decode.best_in, decode.comparisons), (2, 2, 3));
    assert_eq!((decode.tokens_per_s, &*decode.isa, &*decode.test), (70.0, "avx2", "tg128"));
    assert_ne!(decode.record, best);
    let unknown = Chip { model: Reading::NotReadable("x".into()), ..chip };
    assert_eq!(records.profile_for(&unknown).unwrap(), None);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn every_sample_survives_the_way_there_and_back(samples in proptest::collection::vec(proptest::num::f64::NORMAL, 1..20)) {
        // Rates are above 0, and the sum of two is a number, too.
        let samples: Vec<f64> = samples.iter().map(|sample| sample.abs() / 2.0).collect();
        let (_folder, mut records) = records();
        let mut new = record();
        new.results = vec![decode(&samples)];
        new.document = json!({ "samples": samples });
        records.add(&new).unwrap();
        let exported = records.export(&Filter::default()).unwrap();
        prop_assert_eq!(&exported[0].results, &new.results);
        let back = read(json(&exported).as_bytes(), "x").unwrap();
        prop_assert_eq!(back, exported);
    }

    #[test]
    fn no_bytes_are_more_than_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        prop_assert!(read(&bytes, "x").is_err());
    }
}

#[test]
fn medians_are_those_of_the_same_settings_on_this_machine() {
    let (_folder, mut records) = records();
    let mut add = |change: &dyn Fn(&mut Head), rate: f64| {
        let mut head = head();
        change(&mut head);
        let results = vec![decode(&[rate, rate, rate])];
        records.add(&NewRecord { head, results, document: json!({}) }).unwrap()
    };
    add(&|_| (), 50.0);
    add(&|head| head.threads_decode = Some(1), 1.0);
    add(&|head| head.machine = Some("another".to_owned()), 2.0);
    add(&|head| head.engine_version = "0.0.9".to_owned(), 3.0);
    add(&|head| head.model_sha256 = Some("cd".repeat(32)), 4.0);
    // What belongs to one run is no setting.
    let of_one_run = |head: &mut Head| {
        head.taken_at = "2026-11-30T13:00:00Z".to_owned();
        head.n_ctx = Some(128);
        head.doubtful = Some(vec!["tg128: steal".to_owned()]);
        head.tags = vec!["mine".to_owned()];
    };
    add(&of_one_run, 60.0);
    let medians = |test: &str, limit: usize| records.medians(&head(), test, TOKENS_PER_S, limit).unwrap();
    assert_eq!(
        (medians("tg128", 10), medians("tg128", 1), medians("pp512", 10)),
        (vec![60.0, 50.0], vec![60.0], vec![])
    );
    let unknown = Head { model_sha256: None, ..head() };
    assert_eq!(records.medians(&unknown, "tg128", TOKENS_PER_S, 10).unwrap(), [0.0; 0]);
}
