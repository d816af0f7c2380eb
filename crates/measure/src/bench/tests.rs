//! Tests run on a tiny model and the reference device: what is counted, not how long it takes.

use std::path::Path;

use duan_backend::{Backend, KvFormat, Precision, Reference};
use duan_engine::{Offer, Sizes, make_plan};
use duan_model::Model;
use duan_model::gguf::GgufFile;

use super::*;

fn model(name: &str) -> Model {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../backend/tests/fixtures").join(name);
    Model::from_gguf(&GgufFile::open(&folder.join("model.gguf")).unwrap()).unwrap()
}

fn executor(model: &Model, context: usize) -> Executor {
    let reference = Reference::new(Precision::Coded);
    let offer = Offer { device: reference.name().to_owned(), refusals: reference.refusals(model), last_resort: false };
    let plan = make_plan(&model.graph, &[offer], true).unwrap();
    let sizes = Sizes { context: Some(context), max_rows: 16, kv_format: KvFormat::F16, ..Sizes::default() };
    Executor::load(model, &[&reference], &plan, &sizes).unwrap()
}

fn job<'a>(tests: &'a [Test], cancel: &'a AtomicBool) -> Job<'a> {
    Job { tests, repetitions: 3, warm_up: true, cancel }
}

#[test]
fn tests_are_named_and_ordered_as_llama_bench_does() {
    let names: Vec<String> = Test::all(&[512, 0], &[128, 16], &[0, 4096]).iter().map(Test::name).collect();
    assert_eq!(names, ["pp512", "tg128", "tg16", "pp512 @ d4096", "tg128 @ d4096", "tg16 @ d4096"]);
    assert_eq!(Test { prompt: 3, generate: 4, depth: 5 }.name(), "pp3+tg4 @ d5");
    assert_eq!(Test { prompt: 3, generate: 4, depth: 5 }.positions(), 12);
    assert!(Test::all(&[0], &[0], &[7]).is_empty());
}

#[test]
fn a_context_has_room_for_every_test() {
    let tests = Test::all(&[30], &[40], &[0, 20]);
    assert_eq!(positions(&tests, 64).unwrap(), 60);
    let error = positions(&tests, 50).unwrap_err().to_string();
    assert!(error.starts_with("tg40 @ d20 needs 60 positions, and the model was trained for 50"), "{error}");
    assert_eq!(positions(&Test::all(&[1], &[0], &[0]), 64).unwrap(), 2);
    assert!(matches!(positions(&[], 64), Err(Error::Nothing)));
}

#[test]
fn every_test_is_repeated_from_the_same_context() {
    // One with keys and values alone, one with states beside them, which cannot go back to any position.
    for name in ["smollm2", "lfm2"] {
        let model = model(name);
        let mut executor = executor(&model, 60);
        let tests = Test::all(&[20], &[4], &[0, 33]);
        let (mut steps, mut outcomes) = (Vec::new(), Vec::new());
        let cancel = AtomicBool::new(false);
        let note = |progress: &Progress| {
            steps.push(match progress {
                Progress::WarmingUp { test } => format!("warm {}", test.name()),
                Progress::FillingContext { done, .. } => format!("fill {done}"),
                Progress::Repetition { index, .. } => format!("run {index}"),
            });
        };
        let is_done = run(&mut executor, &job(&tests, &cancel), note, |outcome| outcomes.push(outcome.clone()));
        assert!(is_done.unwrap());
        assert_eq!(outcomes.iter().map(|outcome| outcome.test).collect::<Vec<_>>(), tests);
        assert!(outcomes.iter().all(|outcome| outcome.samples_ns.len() == 3));
        let runs = ["run 0", "run 1", "run 2"];
        let fills = ["fill 0", "fill 16", "fill 32", "fill 33"];
        let expected: Vec<&str> = [
            &["warm pp20"][..],
            &runs,
            &["warm tg4"],
            &runs,
            &["warm pp20 @ d33"],
            &fills,
            &runs,
            &["warm tg4 @ d33"],
            &fills,
            &runs,
        ]
        .concat();
        assert_eq!(steps, expected, "{name}");
        assert_eq!(executor.ledger().pages_free(), executor.ledger().pages_total(), "{name}: everything is given back");
    }
}

#[test]
fn a_cancelled_test_has_no_outcome() {
    let model = model("smollm2");
    let mut executor = executor(&model, 60);
    let tests = Test::all(&[20], &[4], &[0]);
    let cancel = AtomicBool::new(false);
    let mut outcomes = Vec::new();
    let stop = |progress: &Progress| {
        if *progress == (Progress::Repetition { test: tests[1], index: 1 }) {
            cancel.store(true, Ordering::Relaxed);
        }
    };
    let is_done = run(&mut executor, &job(&tests, &cancel), stop, |outcome| outcomes.push(outcome.test)).unwrap();
    assert!(!is_done);
    assert_eq!(outcomes, tests[..1]);
    assert_eq!(executor.ledger().pages_free(), executor.ledger().pages_total());
}

#[test]
fn what_does_not_fit_is_an_error_and_gives_everything_back() {
    let model = model("smollm2");
    let mut executor = executor(&model, 10);
    let tests = Test::all(&[20], &[0], &[0]);
    let cancel = AtomicBool::new(false);
    assert!(run(&mut executor, &job(&tests, &cancel), |_| (), |_| ()).is_err());
    assert_eq!(executor.ledger().pages_free(), executor.ledger().pages_total());
}

fn setup() -> Setup {
    Setup {
        build: "duan-1".to_owned(),
        cpu_info: "a processor".to_owned(),
        backends: "cpu".to_owned(),
        isa: Some("scalar".to_owned()),
        model_filename: "m.gguf".to_owned(),
        model_type: "llama 135M Q4_1".to_owned(),
        model_bytes: 1000,
        parameters: 2000,
        max_rows: 512,
        threads_prefill: 2,
        threads_decode: 1,
        kv_format: KvFormat::F16,
        processors: 4,
        load_average: Some(0.3),
        bandwidth: Ok(Bandwidth {
            bytes_per_s: 2e9,
            bytes: 1 << 30,
            reads: 5,
            threads: 1,
            pages: "ordinary".into(),
            way: "1 stream".into(),
        }),
    }
}

fn row(setup: &Setup, test: Test, samples_ns: &[u64]) -> Row {
    let outcome = Outcome { test, samples_ns: samples_ns.to_vec() };
    Row::new(setup, &model("smollm2"), &outcome, "2026-01-01T00:00:00Z".to_owned())
}

const TG: Test = Test { prompt: 0, generate: 4, depth: 3 };

#[test]
fn rows_have_the_names_that_scripts_read() {
    let samples = [1_000_000, 2_000_000, 4_000_000];
    let rows = [row(&setup(), TG, &samples), row(&setup(), Test { prompt: 8, generate: 0, depth: 0 }, &samples)];
    insta::assert_snapshot!(serde_json::to_string_pretty(&rows).unwrap());
}

#[test]
fn the_share_is_the_median_over_the_ceiling() {
    let bytes = bytes_per_token(&model("smollm2"), KvFormat::F16, 3, 4) as f64;
    let row = |ns: u64| row(&setup(), TG, &[ns; 3]);
    let slow = row(1_000_000_000);
    assert_eq!(slow.ceiling_ts, Some(2e9 / bytes));
    assert_eq!(slow.share, Some(4.0 / (2e9 / bytes)));
    assert_eq!(slow.read_bytes_per_s, Some(4.0 * bytes));
    assert_eq!(slow.warnings, [""; 0]);
    // Four tokens in two nanoseconds.
    let fast = row(2);
    assert!(fast.share.unwrap() > 1.0);
    assert!(fast.warnings[0].contains("is a fault of the measurement"), "{:?}", fast.warnings);
}

#[test]
fn what_was_not_measured_is_said() {
    let skipped = Setup { bandwidth: Err("no memory".to_owned()), load_average: Some(3.4), ..setup() };
    let row = row(&skipped, TG, &[1000]);
    assert_eq!((row.bandwidth, row.ceiling_ts, row.share), (None, None, None));
    assert_eq!(row.bandwidth_skipped.as_deref(), Some("no memory"));
    assert!(row.bytes_per_token.is_some());
    // Two of four processors are ours, so 3.4 leaves too few.
    assert!(row.warnings[0].starts_with("others are using this machine"), "{:?}", row.warnings);
    assert_eq!((row.stddev_ts, row.median_ts), (0.0, row.avg_ts));
}
