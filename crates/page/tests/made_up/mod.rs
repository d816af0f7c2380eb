//! Measured data of no machine, for tests and for the example that writes pages of it.

use duan_engine::Phase;
use duan_measure::bench::Bandwidth;
use duan_measure::ceilings::{Barrier, Ceilings, Clock, Peak, Verdict};
use duan_measure::compare::{Side, compare};
use duan_measure::profile::{KindFigures, LayerFigures, OpFigures, Overhead, PhaseProfile, Profile, RestFigures};
use duan_measure::records::{Head, Measured};
use duan_page::{BenchReport, History, Past};
use duan_system::{State, made_up};
use serde_json::{Value, json};

/// Text that wants to be more than text.
pub(crate) const HOSTILE: &str = "</script><script>document.body.dataset.broken='1'</script><img src=x onerror=\"document.body.dataset.broken='1'\">\"'&<b>{{ 7*7 }}";

/// A number between 0 and 1 for each index, always the same.
fn noise(index: usize) -> f64 {
    let mixed = (index as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    ((mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 11) as f64 / (1_u64 << 53) as f64
}

fn samples(count: usize, middle: f64, width: f64) -> Vec<f64> {
    (0..count).map(|index| middle + width * (noise(index) - 0.5)).collect()
}

pub(crate) fn state() -> State {
    State::read(&made_up::laptop())
}

/// The report of a prefill and a decode, as `duan bench --json` writes it. `name` stands wherever a text comes from outside.
pub(crate) fn rows(name: &str) -> Value {
    let token_ns: Vec<Vec<u64>> = (0..9)
        .map(|round| (0..64).map(|token| (13_500_000.0 + 1_200_000.0 * noise(round * 64 + token)) as u64).collect())
        .collect();
    let first_ns: Vec<u64> = (0..9).map(|round| (840_000_000.0 + 9_000_000.0 * noise(round)) as u64).collect();
    let curve: Vec<u64> =
        (0..200).map(|at| if at < 20 { 12_000_000 * at } else { 240_000_000 + 90_000 * at }).collect();
    let common = json!({
        "build_commit": "duan 0.1.0", "build_profile": "release", "cpu_info": name, "backends": "cpu", "isa": "avx2",
        "model_filename": format!("/models/{name}.gguf"), "model_sha256": "5e1f".repeat(16), "model_type": format!("llama 135M {name}"),
        "model_size": 91_000_000_u64, "model_n_params": 134_515_008_u64, "bits_per_weight": 5.41, "n_batch": 512,
        "threads_prefill": 8, "threads_decode": 8, "n_threads": 8, "pinning": "cores", "fallbacks": [name], "packing": "kept",
        "n_ctx": 640, "warm_ups": 2, "pause_ms": 200, "type_k": "f16", "type_v": "f16", "test_time": "2026-01-31T12:00:00Z",
        "warnings": [name], "major_faults": 0, "involuntary_switches": 12,
        "memory": { "peak_bytes": 258_000_000_u64, "proportional_bytes": 250_000_000_u64, "swapped_bytes": { "not_readable": name },
            "curve": { "every_ms": 50, "resident_bytes": curve } },
        "load": { "load_ns": 151_000_000_u64, "file_in_page_cache": 1.0, "weights": "kept" },
        "starts": [
            { "start": "first", "page_cache": "cold", "files_in_page_cache": 0.0, "load_ns": 410_000_000_u64, "warm_up_ns": 9_000_000,
                "prompt_ns": 42_000_000, "first_token_ns": 461_000_000_u64 },
            { "start": "second", "page_cache": "warm", "files_in_page_cache": 1.0, "load_ns": 120_000_000_u64, "warm_up_ns": 8_000_000,
                "prompt_ns": 41_000_000, "first_token_ns": 169_000_000_u64 }
        ],
        "state": state(),
    });
    let with = |own: Value| {
        let mut row = common.as_object().unwrap().clone();
        row.extend(own.as_object().unwrap().clone());
        Value::Object(row)
    };
    let mut decode = samples(9, 71.4, 1.6);
    decode[6] = 58.2;
    json!([
        with(json!({
            "test": "pp512", "n_prompt": 512, "n_gen": 0, "samples_ts": samples(9, 612.0, 9.0), "median_ts": 611.5,
            "interval": { "low": 609.0, "high": 614.25, "level": 0.96 }, "doubtful": false,
            "first_token_ns": { "p50": 838e6, "p95": null, "p99": null, "longest": 849e6, "count": 9 }, "first_token_samples_ns": first_ns,
            "ceiling_ts": 1490.0, "share": 0.4104
        })),
        with(json!({
            "test": "tg64", "n_prompt": 0, "n_gen": 64, "samples_ts": decode, "median_ts": 71.32,
            "interval": { "low": 70.9, "high": 72.05, "level": 0.96 }, "outliers": [{ "round": 6, "ts": 58.2 }],
            "doubtful": true, "doubts": [{ "kind": "neighbour", "evidence": format!("other programs took 0.62 processors: {name}") }],
            "token_ns": { "p50": 14_102_000.0, "p95": 14_640_000.0, "p99": 14_691_000.0, "longest": 14_700_000.0, "count": 576 },
            "token_samples_ns": token_ns, "read_bytes_per_s": 7.42e9, "ceiling_ts": 103.6, "share": 0.6884,
            "with": [{ "name": name, "command": format!("other -m {name}"), "read_by": "pattern", "engine_version": name,
                "samples_ts": [60.0, 61.0, 62.0], "median_ts": 61.0, "differs": [name], "failed": name,
                "ratio": { "median": 1.1656, "interval": { "low": 1.15, "high": 1.18, "level": 0.75 }, "samples": [1.15, 1.1656, 1.18] } }],
            "energy_j_per_token": { "not_readable": name }
        })),
    ])
}

pub(crate) fn ceilings(name: &str) -> Ceilings {
    let read = |(threads, rate): (usize, f64)| Bandwidth {
        bytes_per_s: rate * 1e9,
        bytes: 1 << 28,
        reads: 8,
        threads,
        pages: "large".to_owned(),
        way: "one stream each".to_owned(),
    };
    let peak = |(instruction, formats, rate): (&str, &[&str], f64)| Peak {
        isa: "avx2".to_owned(),
        instruction: instruction.to_owned(),
        formats: formats.iter().map(|format| (*format).to_owned()).collect(),
        threads: 8,
        per_s: rate * 1e9,
    };
    let state = state();
    Ceilings {
        measured_at: "2026-01-31T11:00:00Z".to_owned(),
        duan_version: "0.1.0".to_owned(),
        chip: state.chip(),
        isa: name.to_owned(),
        pinning: "cores".to_owned(),
        threads: (1..=8).collect(),
        read: [(1, 5.1), (2, 8.9), (3, 10.1), (4, 10.6), (5, 10.7), (6, 10.8), (7, 10.7), (8, 10.76)].map(read).into(),
        read_skipped: None,
        multiply_adds: [
            ("pmaddubsw", &["Q4_0", "Q4_1", "Q8_0"][..], 402.0),
            ("vfmadd231ps", &["F32", "F16"], 141.0),
            (name, &["Q6_K"], 288.0),
        ]
        .map(peak)
        .into(),
        clock: vec![
            Clock { threads: 1, best_hz: vec![3.41e9], median_hz: vec![3.4e9] },
            Clock { threads: 8, best_hz: vec![3.1e9; 8], median_hz: vec![3.05e9; 8] },
        ],
        clock_skipped: None,
        barriers: vec![Barrier { threads: 8, median_ns: 2100, best_ns: 1800 }],
        state,
    }
}

fn kind(name: &str, op: &str, weights: &str, ms: f64, share: Option<f64>) -> KindFigures {
    KindFigures {
        op: op.to_owned(),
        weights: weights.to_owned(),
        device: "cpu".to_owned(),
        kernel: name.to_owned(),
        calls: 90,
        ns: (ms * 1e6) as u64,
        bytes: if share.is_some() { 41_000_000 } else { 0 },
        multiply_adds: 1000,
        least_ns: share.map(|share| share * ms * 1e6),
        share,
        verdict: share.map(Verdict::of),
    }
}

pub(crate) fn profile(name: &str) -> Profile {
    let kinds = vec![
        kind(name, "linear", "ffn_gate, ffn_up", 410.0, Some(0.71)),
        kind(name, "linear+add", "ffn_down", 214.0, Some(0.66)),
        kind(name, "attention", "", 96.0, Some(0.15)),
        kind("", "rms_norm", "attn_norm", 11.0, None),
    ];
    let op = |(index, what): (usize, &KindFigures)| OpFigures {
        layer: Some(index),
        first: index,
        count: 1,
        what: what.clone(),
    };
    let phase = |phase, rounds| PhaseProfile {
        phase,
        rounds,
        tokens: 96,
        n_depth: 0,
        ns: 780_000_000,
        ops_ns: 731_000_000,
        least_ns: Some(450e6),
        share: Some(0.577),
        ops: kinds.iter().enumerate().map(op).collect(),
        kinds: kinds.clone(),
        layers: vec![
            LayerFigures {
                layers: (0..30).collect(),
                outside: None,
                ops: 4,
                ns: 700_000_000,
                least_layer_ns: 22_000_000,
                most_layer_ns: 25_000_000,
                most_layer: Some(3),
                bytes: 123,
                least_ns: Some(400e6),
                share: Some(0.571),
            },
            LayerFigures {
                layers: vec![],
                outside: Some(name.to_owned()),
                ops: 1,
                ns: 31_000_000,
                least_layer_ns: 31_000_000,
                most_layer_ns: 31_000_000,
                most_layer: None,
                bytes: 5,
                least_ns: None,
                share: None,
            },
        ],
        rest: vec![RestFigures { what: "the choice of tokens", ns: 49_000_000, bytes: None }],
        allocations: Some(12),
        overhead: Some(Overhead { part: 0.004, interval: Some((-0.002, 0.011)) }),
    };
    Profile { phases: vec![phase(Phase::Prefill, 3), phase(Phase::Decode, 3)] }
}

pub(crate) fn side(name: &str, id: i64, middle: f64) -> Side {
    let head = Head {
        taken_at: format!("2026-01-{:02}T12:00:00Z", id.clamp(1, 31)),
        kind: "bench".to_owned(),
        engine: "duan".to_owned(),
        engine_version: "0.1.0".to_owned(),
        chip: Some(name.to_owned()),
        model_filename: format!("{name}.gguf"),
        model_sha256: Some("5e1f".repeat(16)),
        model_type: name.to_owned(),
        backend: "cpu".to_owned(),
        threads_prefill: Some(8),
        threads_decode: Some(8),
        doubtful: Some(vec![]),
        tags: vec![name.to_owned()],
        ..Head::default()
    };
    let results = vec![
        Measured::new("pp512", [512, 0, 0], "tokens/s", samples(9, middle * 8.57, 9.0)),
        Measured::new("tg64", [0, 64, 0], "tokens/s", samples(9, middle, 1.6)),
    ];
    Side { name: id.to_string(), id: Some(id), head, results, state: serde_json::to_value(state()).unwrap() }
}

pub(crate) fn history(name: &str) -> History {
    let past: Vec<Side> = (1..=6).map(|id| side(name, id, 60.0 + 2.0 * id as f64)).collect();
    let now = side(name, 7, 71.4);
    History {
        comparison: past.last().map(|latest| compare(latest, &now)),
        latest: "record 6".to_owned(),
        past: past
            .into_iter()
            .map(|side| Past {
                id: side.id.unwrap_or_default(),
                taken_at: side.head.taken_at,
                tags: side.head.tags,
                doubtful: side.head.doubtful.map(|reasons| !reasons.is_empty()),
                results: side.results,
            })
            .collect(),
        now,
    }
}

/// The page of a benchmark with every section.
pub(crate) fn bench_page(name: &str) -> String {
    let (ceilings, profile, history) = (ceilings(name), profile(name), history(name));
    let report = BenchReport {
        rows: rows(name),
        ceilings: Some(&ceilings),
        profile: Some(&profile),
        history: Some(&history),
        ..BenchReport::default()
    };
    duan_page::reports::bench_page(&report).unwrap()
}

/// The page of a comparison.
pub(crate) fn comparison_page(name: &str) -> String {
    let (a, b) = (side(name, 3, 66.0), side(name, 4, 71.4));
    duan_page::reports::comparison_page(&a, &b, &compare(&a, &b)).unwrap()
}
