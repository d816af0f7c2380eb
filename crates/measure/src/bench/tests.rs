//! Tests run on a tiny model and the reference device: what is counted, not how long it takes.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use duan_backend::{Backend, KvFormat, Precision, Reference};
use duan_engine::{Executor, Offer, Sizes, make_plan};
use duan_model::Model;
use duan_model::gguf::GgufFile;
use duan_system::{Counters, Energy, Reading, State};

use super::conditions::{DoubtKind, Sight, Window};
use super::rigged::{Delays, Rigged};
use super::*;
use crate::ceilings::{CeilingsAt, Peak, Verdict};
use crate::others::{Command, Other, OtherFigures, Printed, Ran, merge_records};

fn model(name: &str) -> Model {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../backend/tests/fixtures").join(name);
    Model::from_gguf(&GgufFile::open(&folder.join("model.gguf")).unwrap()).unwrap()
}

fn executor(model: &Model, context: usize) -> Executor {
    load(&Reference::new(Precision::Coded), model, context)
}

fn load(device: &dyn Backend, model: &Model, context: usize) -> Executor {
    let offer = Offer { device: device.name().to_owned(), refusals: device.refusals(model), last_resort: false };
    let plan = make_plan(&model.graph, &[offer], true).unwrap();
    let sizes = Sizes { context: Some(context), max_rows: 16, kv_format: KvFormat::F16, ..Sizes::default() };
    Executor::load(model, &[device], &plan, &sizes).unwrap()
}

/// A clock that stands still.
struct Still;

impl TimeSource for Still {
    fn now_ns(&self) -> u64 {
        0
    }
}

fn job<'a>(tests: &'a [Test], cancel: &'a AtomicBool) -> Job<'a> {
    Job { tests, repetitions: 3, warm_ups: 1, pause: Duration::ZERO, warm_each_round: false, time: &Still, cancel }
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
                Progress::RoundDone { index, .. } => format!("ran {index}"),
            });
        };
        let is_done = run(&mut executor, &job(&tests, &cancel), note, |outcome| outcomes.push(outcome.clone()));
        assert!(is_done.unwrap());
        assert_eq!(outcomes.iter().map(|outcome| outcome.test).collect::<Vec<_>>(), tests);
        assert!(outcomes.iter().all(|outcome| outcome.rounds.len() == 3));
        let runs = ["run 0", "ran 0", "run 1", "ran 1", "run 2", "ran 2"];
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

/// A clock that only the device moves.
#[derive(Default)]
struct MadeUp(AtomicU64);

impl TimeSource for MadeUp {
    fn now_ns(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Some outcomes on a device with known delays, on a clock that only the device moves.
fn rigged(tests: &[Test], delays: Delays) -> Vec<Outcome> {
    let clock = Arc::new(MadeUp::default());
    let moved = clock.clone();
    let pass_by = move |_, ns| {
        moved.0.fetch_add(ns, Ordering::Relaxed);
    };
    let model = model("smollm2");
    let mut executor = load(&Rigged::new(delays, Arc::new(pass_by)), &model, 60);
    assert_eq!(clock.now_ns(), delays.load_ns, "a model is loaded once");
    let cancel = AtomicBool::new(false);
    let mut outcomes = Vec::new();
    let job = Job { warm_ups: 2, time: &*clock, ..job(tests, &cancel) };
    assert!(run(&mut executor, &job, |_| (), |outcome| outcomes.push(outcome.clone())).unwrap());
    outcomes
}

const DELAYS: Delays = Delays {
    load_ns: 7_000_000,
    batch_ns: 3_000_000,
    batch_token_ns: 100_000,
    token_ns: 5_000_000,
    position_ns: 1_000,
};

#[test]
fn known_delays_come_out_where_they_belong() {
    let tests = Test::all(&[20, 3, 1], &[4, 1], &[0, 33]);
    let outcomes = rigged(&tests, DELAYS);
    let one = |name: &str| outcomes.iter().find(|outcome| outcome.test.name() == name).unwrap();
    for depth in [0u64, 33] {
        let behind = |name: &str| if depth == 0 { name.to_owned() } else { format!("{name} @ d{depth}") };
        // Twenty tokens are two passes, of 16 and 4; three are less than a batch, and one is a pass of decode.
        for (name, ns) in [("pp20", 8_000_000), ("pp3", 3_300_000), ("pp1", 5_000_000 + depth * 1000)] {
            for round in &one(&behind(name)).rounds {
                assert_eq!((round.ns, round.first_token_ns, &round.token_ns[..]), (ns, Some(ns), &[][..]), "{name}");
            }
        }
        for (name, count) in [("tg4", 4), ("tg1", 1)] {
            let tokens: Vec<u64> = (depth..depth + count).map(|position| 5_000_000 + position * 1000).collect();
            for round in &one(&behind(name)).rounds {
                assert_eq!((round.ns, round.first_token_ns), (tokens.iter().sum(), None), "no prompt is in it");
                assert_eq!(round.token_ns, tokens);
            }
        }
    }
    let both = rigged(&[Test { prompt: 20, generate: 2, depth: 0 }], DELAYS);
    let round = &both[0].rounds[0];
    assert_eq!(round.first_token_ns, Some(8_000_000), "the first token comes out of the prompt");
    assert_eq!(round.token_ns, [5_020_000, 5_021_000]);
    assert_eq!(round.ns, 8_000_000 + 5_020_000 + 5_021_000);
}

#[test]
fn beside_others_each_round_is_warmed_up_and_takes_as_long() {
    let tests = Test::all(&[20], &[18], &[0, 7]);
    let measured = |warm_each_round: bool| {
        let clock = Arc::new(MadeUp::default());
        let moved = clock.clone();
        let pass_by = move |_, ns| _ = moved.0.fetch_add(ns, Ordering::Relaxed);
        let model = model("smollm2");
        let mut executor = load(&Rigged::new(DELAYS, Arc::new(pass_by)), &model, 60);
        let cancel = AtomicBool::new(false);
        let mut outcomes = Vec::new();
        let job = Job { warm_each_round, time: &*clock, ..job(&tests, &cancel) };
        assert!(run(&mut executor, &job, |_| (), |outcome| outcomes.push(outcome.clone())).unwrap());
        (outcomes, clock.now_ns())
    };
    let ((plain, plain_ns), (warmed, warmed_ns)) = (measured(false), measured(true));
    assert_eq!(plain, warmed);
    // Three rounds of each test: the prompt again, and the first 16 tokens again.
    let prompt = 8_000_000;
    let tokens = |depth: u64| (depth..depth + 16).map(|position| 5_000_000 + position * 1000).sum::<u64>();
    assert_eq!(warmed_ns - plain_ns, 3 * (2 * prompt + tokens(0) + tokens(7)));
}

#[test]
fn earlier_runs_widen_what_the_rounds_say() {
    let mut row = row(&setup(), TG, &[1_000_000; 5]);
    assert_eq!((row.median_ts, row.doubtful), (4000.0, false));
    row.set_beside(&[4000.0; 4]);
    assert_eq!((row.earlier, row.interval), (None, row.rounds_interval));
    row.set_beside(&[3900.0, 4000.0, 4000.0, 4100.0, 4000.0]);
    assert!(row.interval.unwrap().low < 4000.0 && !row.doubtful, "{:?}", row.interval);
    row.set_beside(&[3000.0, 4000.0, 4000.0, 5000.0, 4000.0]);
    let (interval, earlier) = (row.interval.unwrap(), row.earlier.unwrap());
    assert_eq!(Some(interval), row.rounds_interval.map(|rounds| earlier.widened(4000.0, rounds)));
    assert!(interval.low < 3000.0 && interval.high > 5000.0, "{interval:?}");
    assert_eq!(row.doubts.iter().map(|doubt| doubt.kind).collect::<Vec<_>>(), [DoubtKind::Runs]);
    let evidence = &row.doubts[0].evidence;
    assert!(
        evidence.starts_with("after the last 5 runs with these settings, nine of ten lie between 25"),
        "{evidence}"
    );
}

#[test]
fn other_engines_stand_beside_a_row() {
    let row = row(&setup(), TG, &[1_000_000, 2_000_000, 4_000_000]);
    let theirs = |threads: u64, samples_ns: u64| {
        let row = serde_json::json!([{
            "build_commit": "0a1b2c3", "build_number": 7, "cpu_info": "a processor", "backends": "CPU", "model_filename": "m.gguf",
            "model_type": "llama ?B Q4_1", "model_size": 1000, "model_n_params": 2000, "n_batch": 2048, "n_threads": threads,
            "type_k": "f16", "type_v": "f16", "n_prompt": 0, "n_gen": 4, "n_depth": 3, "test_time": "2026-01-01T00:00:00Z",
            "samples_ns": [samples_ns],
        }]);
        Printed { stdout: row.to_string(), stderr: String::new() }
    };
    let other = Other { command: Command::parse("llama.cpp=llama-bench -m {model}").unwrap(), pattern: None };
    let figures = |threads: u64| {
        let ran: Vec<Ran> = [2_000_000, 2_000_000].map(|ns| other.read(&theirs(threads, ns), TG).unwrap()).to_vec();
        OtherFigures::new(&other, &["llama-bench".into(), "a b".into()], TG, &row, &ran, Some("it crashed".to_owned()))
    };
    let same = figures(1);
    assert_eq!((&same.name[..], &same.command[..], same.read_by), ("llama.cpp", "llama-bench 'a b'", "llama-bench"));
    assert_eq!((same.samples_ts.as_slice(), same.engine_version.as_deref()), (&[2000.0; 2][..], Some("b7 (0a1b2c3)")));
    let ratio = same.ratio.clone().unwrap();
    assert_eq!((ratio.samples, ratio.median, ratio.interval), (vec![2.0, 1.0], 1.5, None));
    assert_eq!((&same.differs[..], same.failed.as_deref()), (&[][..], Some("it crashed")));
    let never = OtherFigures::new(&other, &["llama-bench".into()], TG, &row, &[], Some("it crashed".to_owned()));
    assert_eq!((never.median_ts, never.ratio, same.median_ts), (None, None, Some(2000.0)));
    assert_eq!(figures(2).differs, ["threads of decode: 1 and 2"]);
    // Two tests of the same settings are one record, and its file is ours.
    let other_test = Row { with: vec![figures(1)], ..row.clone() };
    let mut longer = figures(1);
    longer.record.as_mut().unwrap().results[0].test = "tg9".to_owned();
    let records = merge_records(&[Row { with: vec![longer], ..row.clone() }, other_test]);
    assert_eq!(records.len(), 1);
    assert_eq!((records[0].results.len(), records[0].document.as_array().map(Vec::len)), (2, Some(4)));
    assert_eq!(records[0].head.model_sha256.as_deref(), row.model_sha256.get().map(String::as_str));
    assert_eq!(records[0].head.missing(), [""; 0]);
    let apart = [Row { with: vec![figures(1)], ..row.clone() }, Row { with: vec![figures(2)], ..row.clone() }];
    assert_eq!(merge_records(&apart).len(), 2);
}

#[test]
fn rates_follow_from_delays() {
    let outcomes = rigged(&Test::all(&[20], &[4], &[0]), DELAYS);
    let rows: Vec<Row> = outcomes.iter().map(|outcome| row_of(&setup(), outcome, &[])).collect();
    assert_eq!((rows[0].median_ts, rows[0].avg_ns), (2500.0, 8_000_000));
    let first = rows[0].first_token_ns.unwrap();
    assert_eq!((first.p50, first.longest, first.count), (8e6, 8e6, 3));
    assert_eq!((first.p95, first.p99), (None, None), "of three nobody knows what 95 of 100 are");
    assert_eq!(rows[0].token_ns, None);
    assert_eq!(rows[1].median_ts, 4e9 / 20_006_000.0);
    let token = rows[1].token_ns.unwrap();
    assert_eq!((token.p50, token.count), (5_001_500.0, 12));
    assert_eq!((token.longest, token.p95), (5_003_000.0, None));
    let many = Outcome { test: TG, rounds: vec![Round { token_ns: (1..=100).collect(), ..Round::default() }] };
    let many = row_of(&setup(), &many, &[]).token_ns.unwrap();
    assert_eq!((many.p50, many.p95, many.count), (50.5, Some(95.05), 100));
    assert!(many.p99.is_some_and(|p99| (p99 - 99.01).abs() < 1e-9), "{many:?}");
    assert_eq!(rows[1].first_token_ns, None);
}

#[test]
fn a_pause_ends_when_it_is_cancelled() {
    let model = model("smollm2");
    let mut executor = executor(&model, 60);
    let tests = Test::all(&[20], &[], &[0]);
    let cancel = AtomicBool::new(false);
    // A pause of a day is never waited for.
    let job = Job { pause: Duration::from_secs(86_400), ..job(&tests, &cancel) };
    let stop = |progress: &Progress| {
        if matches!(progress, Progress::WarmingUp { .. }) {
            cancel.store(true, Ordering::Relaxed);
        }
    };
    assert!(!run(&mut executor, &job, stop, |_| ()).unwrap());
}

fn setup() -> Setup {
    Setup {
        build: "duan-1".to_owned(),
        build_profile: "release",
        state: State::default(),
        cpu_info: "a processor".to_owned(),
        backends: "cpu".to_owned(),
        isa: Some("scalar".to_owned()),
        model_filename: "m.gguf".to_owned(),
        model_sha256: Reading::Known("ab".repeat(32)),
        model_type: "llama 135M Q4_1".to_owned(),
        model_bytes: 1000,
        parameters: 2000,
        max_rows: 512,
        threads_prefill: 2,
        threads_decode: 1,
        pinning: "class".to_owned(),
        fallbacks: Vec::new(),
        no_fuse: Vec::new(),
        packing: "in memory",
        context: 60,
        warm_ups: 2,
        pause: Duration::from_millis(250),
        kv_format: KvFormat::F16,
        processors_on: 4,
        processors: 4,
        load_average: Some(0.3),
        ceilings: Ok(ceilings()),
        ceilings_load_of_others: None,
    }
}

/// A memory of 2 GB/s, and a multiplier of 10 thousand million floats and twice as many codes.
fn ceilings() -> CeilingsAt {
    let read = Bandwidth {
        bytes_per_s: 2e9,
        bytes: 1 << 30,
        reads: 5,
        threads: 1,
        pages: "ordinary".into(),
        way: "1 stream".into(),
    };
    let peak = |formats: &[&str], per_s: f64| Peak {
        isa: "scalar".to_owned(),
        instruction: "mul".to_owned(),
        formats: formats.iter().map(|&name| name.to_owned()).collect(),
        threads: 2,
        per_s,
    };
    CeilingsAt {
        measured_at: "2026-01-01T00:00:00Z".to_owned(),
        threads_decode: 1,
        threads_prefill: 2,
        isa: "scalar".to_owned(),
        read: Some(read),
        read_skipped: None,
        multiply_adds: vec![peak(&["F32", "F16", "BF16"], 1e10), peak(&["Q8_0", "Q4_0", "Q4_1", "Q5_1", "Q6_K"], 2e10)],
        clock: None,
        barrier: None,
    }
}

fn row_of(setup: &Setup, outcome: &Outcome, windows: &[Window]) -> Row {
    Row::new(setup, &model("smollm2"), outcome, windows, "2026-01-01T00:00:00Z".to_owned())
}

fn row(setup: &Setup, test: Test, samples_ns: &[u64]) -> Row {
    let round = |&ns: &u64| match test.prompt {
        0 => Round { ns, first_token_ns: None, token_ns: vec![ns / 4; 4] },
        _ => Round { ns, first_token_ns: Some(ns + 1), token_ns: Vec::new() },
    };
    row_of(setup, &Outcome { test, rounds: samples_ns.iter().map(round).collect() }, &[])
}

const TG: Test = Test { prompt: 0, generate: 4, depth: 3 };

#[test]
fn rows_have_the_names_that_scripts_read() {
    let samples = [1_000_000, 2_000_000, 4_000_000];
    let rows = [row(&setup(), TG, &samples), row(&setup(), Test { prompt: 8, generate: 0, depth: 0 }, &samples)];
    let mut rows = serde_json::to_value(&rows).unwrap();
    for row in rows.as_array_mut().unwrap() {
        // What the machine is has tests of its own.
        assert!(row["state"]["processor"].is_object() && row["movement"]["steal_share"].is_object());
        row["state"] = "as duan_system has it".into();
        row["movement"] = "as duan_system has it".into();
    }
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
    assert_eq!((slow.warnings.len(), slow.verdict), (0, Some(Verdict::Setting)));
    let busy = Setup { ceilings_load_of_others: Some(3.0), ..setup() };
    assert!(busy.warnings()[0].contains("measure them again with --again"), "{:?}", busy.warnings());
    // Four tokens in two nanoseconds.
    let fast = row(2);
    assert!(fast.share.unwrap() > 1.0 && fast.verdict == Some(Verdict::Fault));
    assert!(fast.warnings[0].contains("is a fault of the measurement"), "{:?}", fast.warnings);
}

#[test]
fn what_was_not_measured_is_said() {
    let skipped = Setup { ceilings: Err("no memory".to_owned()), load_average: Some(3.4), ..setup() };
    let row = row(&skipped, TG, &[1000]);
    assert_eq!((row.bandwidth, row.ceiling_ts, row.share), (None, None, None));
    assert_eq!(row.bandwidth_skipped.as_deref(), Some("no memory"));
    assert!(row.bytes_per_token.is_some());
    // Two of four processors are ours, so 3.4 leaves too few.
    assert!(row.warnings[0].starts_with("others are using this machine"), "{:?}", row.warnings);
    assert_eq!((row.stddev_ts, row.median_ts), (0.0, row.avg_ts));
}

#[test]
fn what_moved_makes_a_row_doubtful() {
    let quiet = row(&setup(), TG, &[1000, 1001, 1002, 1003, 1004]);
    assert_eq!((quiet.doubtful, quiet.doubts.len(), quiet.outliers.len()), (false, 0, 0));
    let interval = quiet.interval.unwrap();
    assert!(interval.low == quiet.min_ts && interval.high == quiet.max_ts, "{interval:?}");
    assert_eq!(row(&setup(), TG, &[1000; 4]).interval, None, "of four rounds nobody knows");

    let wide = row(&setup(), TG, &[1000, 1001, 1002, 1003, 1400]);
    assert!(wide.doubtful && wide.doubts[0].kind == DoubtKind::Spread, "{:?}", wide.doubts);
    assert_eq!(wide.outliers.iter().map(|outlier| outlier.round).collect::<Vec<_>>(), [4]);
}

#[test]
fn energy_is_that_of_packages() {
    let counters = |uj: u64| {
        let energy =
            |domain: &str, uj| Energy { domain: domain.to_owned(), energy_uj: Reading::Known(uj), ..Energy::default() };
        let all = ["intel-rapl:0 package-0", "intel-rapl:0:0 core", "intel-rapl:1 package-1", "intel-rapl:2 psys"];
        Counters { energy: Reading::Known(all.map(|domain| energy(domain, uj)).to_vec()), ..Counters::default() }
    };
    let sight = |uj| Sight { counters: counters(uj), clock_hz: None };
    // Between rounds others used four times as much.
    let sights = [0, 10_000_000, 20_000_000].map(|uj| Window { before: sight(uj), after: sight(uj + 2_000_000) });
    let round = Round { ns: 1000, first_token_ns: None, token_ns: vec![250; 4] };
    let outcome = Outcome { test: TG, rounds: vec![round; 3] };
    // Twelve joules for twelve tokens.
    assert_eq!(row_of(&setup(), &outcome, &sights).energy_j_per_token, Reading::Known(1.0));
    let unread = row_of(&setup(), &outcome, &[]);
    assert_eq!(unread.energy_j_per_token.reason(), Some("not recorded"));
}

#[test]
fn the_multiplier_is_the_ceiling_of_prefill() {
    let model = model("smollm2");
    let test = Test { prompt: 20, generate: 0, depth: 0 };
    let all = multiply_adds(&model, 0, 20);
    let ceiling = ceilings().prefill_ceiling_ts(&all).unwrap();
    // Twice as long as the multiplier needs.
    let ns = (20.0 / ceiling * 2e9) as u64;
    let row = row(&setup(), test, &[ns; 5]);
    assert_eq!(row.ceiling_ts, Some(ceiling));
    assert!((row.share.unwrap() - 0.5).abs() < 1e-3 && row.verdict == Some(Verdict::Room), "{:?}", row.share);
    assert_eq!(row.multiply_adds_per_token, Some(all.total() as f64 / 20.0));
    assert_eq!((row.bytes_per_token, row.read_bytes_per_s), (None, None));
}
