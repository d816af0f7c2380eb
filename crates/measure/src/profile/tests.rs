//! Profiles of a tiny model on reference devices, by a clock that goes on by 100 ns with each look at it: every figure is exact.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use duan_backend::{Backend, Clock, CompileJob, Compiled, KvFormat, Precision, Reference, Refusal};
use duan_engine::{Executor, Offer, Phase, Sizes, make_plan};
use duan_model::Model;
use duan_model::gguf::GgufFile;
use serde_json::Value;

use super::*;
use crate::bench::{Bandwidth, cache_bytes, multiply_adds, weights_bytes};
use crate::ceilings::{CeilingsAt, Peak, Verdict};

/// What one look at the clock takes.
const LOOK_NS: u64 = 100;

fn model(name: &str) -> Model {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../backend/tests/fixtures").join(name);
    Model::from_gguf(&GgufFile::open(&folder.join("model.gguf")).unwrap()).unwrap()
}

/// The reference by another name.
struct Named(&'static str, Reference);

impl Backend for Named {
    fn name(&self) -> &'static str {
        self.0
    }

    fn description(&self) -> String {
        self.1.description()
    }

    fn memory_available_bytes(&self) -> Option<u64> {
        None
    }

    fn refusals(&self, model: &Model) -> Vec<Refusal> {
        self.1.refusals(model)
    }

    fn compile(&self, job: &CompileJob<'_>) -> duan_backend::Result<Box<dyn Compiled>> {
        self.1.compile(job)
    }
}

/// On one device, or on two that share the ops out: the second runs those for which `second` is true.
fn executor(model: &Model, second: impl Fn(usize) -> bool) -> Executor {
    let ops = model.graph.nodes.len();
    let offers: Vec<Offer> = (0..2)
        .map(|device| {
            let refused = (0..ops).filter(|&op| second(op) == (device == 0));
            let refusals = refused.map(|op| Refusal { op, reason: "not its turn".into() }).collect();
            Offer { device: format!("device {device}"), refusals, last_resort: false }
        })
        .collect();
    let plan = make_plan(&model.graph, &offers, true).unwrap();
    let sizes = Sizes { context: Some(64), max_rows: 4, kv_format: KvFormat::F16, ..Sizes::default() };
    let named = |name| Named(name, Reference::new(Precision::Coded));
    let (first, second) = (named("device 0"), named("device 1"));
    let backends: [&dyn Backend; 2] = [&first, &second];
    Executor::load(model, &backends, &plan, &sizes).unwrap()
}

fn clock() -> Clock {
    let now_ns = Arc::new(AtomicU64::new(0));
    Clock::made_up(move || now_ns.fetch_add(LOOK_NS, Ordering::Relaxed))
}

/// A prompt of six tokens (two passes) and three tokens, behind two tokens, in two rounds of each kind. Memory is allocated once between
/// two questions.
fn times(executor: &mut Executor) -> Times {
    let (clock, allocated, cancel) = (clock(), AtomicU64::new(0), AtomicBool::new(false));
    let allocations = || Some(allocated.fetch_add(1, Ordering::Relaxed));
    let job =
        Job { prompt: 6, generate: 3, depth: 2, rounds: 2, clock: &clock, allocations: &allocations, cancel: &cancel };
    run(executor, &job, &mut |_| ()).unwrap().unwrap()
}

fn ceilings() -> CeilingsAt {
    let read = Bandwidth { bytes_per_s: 2e9, bytes: 1, reads: 1, threads: 1, pages: String::new(), way: String::new() };
    let peak = |formats: &[&str], per_s| Peak {
        isa: "scalar".into(),
        instruction: "mul".into(),
        formats: formats.iter().map(|&format| format.to_owned()).collect(),
        threads: 1,
        per_s,
    };
    CeilingsAt {
        measured_at: String::new(),
        threads_decode: 1,
        threads_prefill: 1,
        isa: "scalar".into(),
        read: Some(read),
        read_skipped: None,
        multiply_adds: vec![peak(&["F32", "F16"], 1e9)],
        clock: None,
        barrier: None,
    }
}

fn kernels(device: &str, _op: usize) -> Vec<String> {
    vec![format!("kernel of {device}")]
}

fn profile(model: &Model, times: &Times, ceilings: Option<&CeilingsAt>) -> Profile {
    Profile::of(times, Sources { model, kv_format: KvFormat::F16, ceilings, kernels: &kernels })
}

#[test]
fn everything_has_its_place_and_nothing_is_left() {
    let model = model("smollm2");
    let times = times(&mut executor(&model, |_| false));
    let profile = profile(&model, &times, None);
    let nodes = model.graph.nodes.len() as u64;
    let phases: Vec<_> = profile.phases.iter().map(|phase| (phase.phase, phase.tokens, phase.n_depth)).collect();
    assert_eq!(phases, [(Phase::Prefill, 12, 2), (Phase::Decode, 6, 8)]);
    // Of the prompt in each round two passes.
    for (phase, passes, steps) in [(&profile.phases[0], 4, 2), (&profile.phases[1], 6, 6)] {
        assert_eq!(phase.ops.len() as u64, nodes);
        for (index, op) in phase.ops.iter().enumerate() {
            assert_eq!((op.first, op.count, op.what.calls, op.what.ns), (index, 1, passes, passes * LOOK_NS));
            assert_eq!((op.what.device.as_str(), op.what.kernel.as_str()), ("device 0", "kernel of device 0"));
        }
        let rest: Vec<_> = phase.rest.iter().map(|row| (row.what, row.ns)).collect();
        // The clock is looked at where a pass, a segment and its first op begin and end, beside once for each op; and for each step
        // before, behind its passes, and behind the choice.
        let engine = steps * LOOK_NS + passes * LOOK_NS;
        let expected = [
            ("calling devices", 4 * passes * LOOK_NS),
            ("sessions and ledger", engine),
            ("choosing the token", steps * LOOK_NS),
        ];
        assert_eq!(rest, expected);
        assert_eq!(phase.ops_ns, nodes * passes * LOOK_NS);
        assert_eq!(phase.ns, phase.ops_ns + phase.rest.iter().map(|row| row.ns).sum::<u64>());
        assert_eq!(phase.kinds.iter().map(|kind| kind.ns).sum::<u64>(), phase.ops_ns);
        assert_eq!(phase.layers.iter().map(|layer| layer.ns).sum::<u64>(), phase.ops_ns);
        assert_eq!(phase.allocations, Some(steps), "one for each step");
        assert_eq!((phase.least_ns, phase.share), (None, None));
    }
    // A token without times has two looks, one with them all of those above.
    let overhead = profile.phases[1].overhead.unwrap();
    let expected = (nodes + 7) as f64 / 2.0 - 1.0;
    assert!((overhead.part - expected).abs() < 1e-9 * expected, "{overhead:?} is not {expected}");
    assert_eq!(overhead.interval, None, "of two pairs nobody knows");
}

#[test]
fn the_overhead_is_that_of_pairs_of_rounds() {
    let model = model("smollm2");
    let mut times = times(&mut executor(&model, |_| false));
    // Six pairs, each from another time of the machine: with times a round of decode takes 1 % to 6 % longer.
    let (noted, plain) = (times.noted[0].clone(), times.plain[0].clone());
    (times.noted, times.plain) = (Vec::new(), Vec::new());
    let longer = |round: &RoundTimes, ns: u64| {
        let mut round = round.clone();
        round.steps.iter_mut().for_each(|step| (step.fed_ns, step.chosen_ns) = (ns, 0));
        round
    };
    for part in 1..=6 {
        times.noted.push(longer(&noted, 1000 * part * (100 + part)));
        times.plain.push(longer(&plain, 1000 * part * 100));
    }
    let overhead = profile(&model, &times, None).phases[1].overhead.unwrap();
    let near = |a: f64, b: f64| (a - b).abs() < 1e-9;
    let (low, high) = overhead.interval.unwrap();
    assert!(near(overhead.part, 0.035) && near(low, 0.01) && near(high, 0.06), "{overhead:?}");
}

#[test]
fn ops_read_and_multiply_what_benchmarks_count() {
    for name in ["smollm2", "lfm2", "gemma3", "qwen3moe"] {
        let model = model(name);
        let times = times(&mut executor(&model, |_| false));
        let ceilings = ceilings();
        let profile = profile(&model, &times, Some(&ceilings));
        let [prefill, decode] = &profile.phases[..] else { panic!("two phases") };
        let expected: u64 =
            (8..11).map(|position| weights_bytes(&model) + cache_bytes(&model, KvFormat::F16, position)).sum();
        assert_eq!(decode.ops.iter().map(|op| op.what.bytes).sum::<u64>(), 2 * expected, "{name}");
        let expected = 2 * multiply_adds(&model, 2, 6).total();
        assert_eq!(prefill.ops.iter().map(|op| op.what.multiply_adds).sum::<u64>(), expected, "{name}");
        for op in &decode.ops {
            // 2 bytes a nanosecond.
            let least_ns = (op.what.bytes > 0).then(|| op.what.bytes as f64 / 2.0);
            assert_eq!(op.what.least_ns.map(f64::round), least_ns.map(f64::round), "{name}");
            assert_eq!(op.what.share, op.what.least_ns.map(|least_ns| least_ns / op.what.ns as f64));
            assert_eq!(op.what.verdict, op.what.share.map(Verdict::of));
        }
        for op in &prefill.ops {
            assert_eq!(
                op.what.least_ns.map(f64::round),
                Some(op.what.multiply_adds as f64).filter(|&count| count > 0.0)
            );
        }
        let least_ns: f64 = decode.kinds.iter().filter_map(|kind| kind.least_ns).sum();
        assert!((decode.least_ns.unwrap() - least_ns).abs() < 1e-6 * least_ns);
        assert_eq!(decode.share, Some(decode.least_ns.unwrap() / decode.ns as f64));
    }
}

#[test]
fn layers_that_do_the_same_are_told_once() {
    let model = model("smollm2");
    let profile = profile(&model, &times(&mut executor(&model, |_| false)), None);
    let count = model.config.layers.len();
    let decode = &profile.phases[1];
    let layers: Vec<_> = decode.layers.iter().map(|row| (row.layers.clone(), row.outside.is_some())).collect();
    assert_eq!(layers, [(vec![], true), ((0..count).collect(), false), (vec![], true)]);
    let of_layers = &decode.layers[1];
    assert_eq!(of_layers.ns, (of_layers.ops * count) as u64 * 6 * LOOK_NS);
    assert_eq!(
        (of_layers.least_layer_ns, of_layers.most_layer_ns),
        (of_layers.ns / count as u64, of_layers.ns / count as u64)
    );
    // The same ops of all layers are one kind.
    let up = decode.kinds.iter().find(|kind| kind.weights == "ffn_gate, ffn_up").unwrap();
    assert_eq!((up.op.as_str(), up.calls), ("linear", 6 * count as u64));
    assert!(decode.kinds.is_sorted_by_key(|kind| std::cmp::Reverse(kind.ns)));
}

#[test]
fn copies_between_devices_are_no_ops() {
    let model = model("smollm2");
    let attention = |op: usize| model.graph.nodes[op].op.kind() == duan_model::graph::OpKind::Attention;
    let profile = profile(&model, &times(&mut executor(&model, attention)), None);
    for phase in &profile.phases {
        let copies = phase.rest.iter().find(|row| row.what == "copies between devices").unwrap();
        assert!(copies.ns > 0 && copies.ns % LOOK_NS == 0 && copies.bytes.unwrap() > 0);
        let on_second = phase.kinds.iter().filter(|kind| kind.device == "device 1");
        assert_eq!(on_second.map(|kind| kind.op.as_str()).collect::<Vec<_>>(), ["attention"]);
        assert_eq!(phase.ns, phase.ops_ns + phase.rest.iter().map(|row| row.ns).sum::<u64>());
    }
}

#[test]
fn it_ends_when_told_to_and_gives_everything_back() {
    let model = model("smollm2");
    let mut executor = executor(&model, |_| false);
    let (clock, cancel) = (clock(), AtomicBool::new(false));
    let allocations = || None;
    let job =
        Job { prompt: 6, generate: 3, depth: 0, rounds: 2, clock: &clock, allocations: &allocations, cancel: &cancel };
    let mut stop = |progress: Progress| {
        if matches!(progress, Progress::Round { index: 3, of: 4 }) {
            cancel.store(true, Ordering::Relaxed);
        }
    };
    assert_eq!(run(&mut executor, &job, &mut stop).unwrap(), None);
    assert_eq!(executor.ledger().pages_free(), executor.ledger().pages_total());
    assert!(executor.observed_times().is_empty());
    let nothing = Job { prompt: 0, generate: 0, ..job };
    assert!(run(&mut executor, &nothing, &mut |_| ()).is_err());
    let too_long = Job { depth: 100, cancel: &AtomicBool::new(false), ..job };
    assert!(run(&mut executor, &too_long, &mut |_| ()).is_err());
}

/// Nanoseconds of a number of microseconds in the trace.
fn ns(number: &Value) -> u64 {
    (number.as_f64().unwrap() * 1000.0).round() as u64
}

/// What the format asks of complete events and of names of tracks, and what viewers need to draw them: events of one track lie in each
/// other or apart, never across each other's ends.
#[test]
fn the_trace_keeps_to_the_format() {
    let model = model("smollm2");
    let attention = |op: usize| model.graph.nodes[op].op.kind() == duan_model::graph::OpKind::Attention;
    let times = times(&mut executor(&model, attention));
    let mut bytes = Vec::new();
    let sources = Sources { model: &model, kv_format: KvFormat::F16, ceilings: None, kernels: &kernels };
    write_trace(&mut bytes, &times, sources).unwrap();
    let trace: Value = serde_json::from_slice(&bytes).unwrap();
    assert_eq!(trace["displayTimeUnit"], "ns");
    let events = trace["traceEvents"].as_array().unwrap();
    let of = |ph: &str| -> Vec<&Value> { events.iter().filter(|event| event["ph"] == ph).collect() };
    assert_eq!(of("M").len() + of("X").len(), events.len());
    let tracks: Vec<(u64, &str)> = of("M")
        .iter()
        .filter(|event| event["name"] == "thread_name")
        .map(|event| (event["tid"].as_u64().unwrap(), event["args"]["name"].as_str().unwrap()))
        .collect();
    assert_eq!(tracks, [(1, "engine"), (2, "device 0"), (3, "device 1")]);
    let mut starts = Vec::new();
    for (tid, _) in &tracks {
        // Each end that has not come yet, the outermost first.
        let mut open: Vec<u64> = Vec::new();
        for event in of("X").into_iter().filter(|event| event["tid"] == *tid) {
            assert_eq!(event["pid"], 1);
            assert!(
                !event["name"].as_str().unwrap().is_empty() && event["cat"].is_string() && event["args"].is_object()
            );
            let (start, length) = (ns(&event["ts"]), ns(&event["dur"]));
            starts.push(start);
            open.retain(|&end| end > start);
            assert!(open.last().is_none_or(|&end| start + length <= end), "{event}");
            open.push(start + length);
        }
    }
    assert_eq!(starts.iter().min(), Some(&0));
    // Of two rounds the prompt in two passes and three tokens; each op of each pass once.
    let count = |name: &str| of("X").iter().filter(|event| event["name"] == name).count();
    assert_eq!((count("pass"), count("token 8"), count("prefill of 6 tokens at 2")), (10, 2, 2));
    let ops: u64 = of("X")
        .iter()
        .filter(|event| event["args"]["first_op"].is_u64())
        .map(|event| event["args"]["ops"].as_u64().unwrap())
        .sum();
    assert_eq!(ops, 10 * model.graph.nodes.len() as u64);
    assert_eq!(count("attention"), 10 * model.config.layers.len());
    let up = of("X").into_iter().find(|event| event["name"] == "linear ffn_gate, ffn_up").unwrap();
    assert_eq!((&up["args"]["layer"], &up["args"]["kernel"]), (&Value::from(0), &Value::from("kernel of device 0")));
    assert!(of("X").iter().any(|event| event["cat"] == "copy" && event["args"]["bytes"].as_u64() > Some(0)));
}
