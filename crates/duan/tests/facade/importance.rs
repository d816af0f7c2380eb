//! What matrices are multiplied with, gathered through the engine.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use duan::eval::EvalText;
use duan::importance::{Gathered, ImportanceEvent, ImportanceOptions, gather};
use duan::{EngineOptions, KvFormat};

use crate::support::{fixture, options};

const WINDOW: usize = 16;

fn options_for(model: &Path, device: &str, head: bool) -> ImportanceOptions {
    let text = (0..90).map(|index| ["the ", "and a ", "model ", "is it ", "of "][index * index % 5]).collect();
    ImportanceOptions {
        engine: EngineOptions { device: Some(device.into()), kv_format: KvFormat::F32, ..options() },
        model: model.to_owned(),
        texts: vec![EvalText { label: "text".into(), text }],
        context: WINDOW,
        windows: Some(3),
        head,
    }
}

fn run(options: &ImportanceOptions) -> Gathered {
    gather(options, |_| {}).unwrap().unwrap()
}

/// Largest difference of the means, over the largest mean.
fn difference(a: &[f64], b: &[f64]) -> f64 {
    let largest = a.iter().fold(0f64, |largest, x| largest.max(*x));
    a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max) / largest
}

#[test]
fn the_cpu_gathers_what_the_reference_does() {
    for name in ["smollm2", "gemma3", "phi3", "lfm2", "qwen3moe", "granitemoe-shared"] {
        let [cpu, reference] = ["cpu", "reference"].map(|device| run(&options_for(&fixture(name), device, true)));
        assert_eq!((cpu.windows, cpu.context, cpu.texts.len()), (3, WINDOW, 1));
        assert!(cpu.matrices.keys().eq(reference.matrices.keys()), "{name}");
        assert!(cpu.matrices.len() > 8, "{name}: {:?}", cpu.matrices.keys());
        for (tensor, of_cpu) in &cpu.matrices {
            let of_reference = &reference.matrices[tensor];
            assert_eq!(of_cpu.counts, of_reference.counts, "{name}: {tensor}");
            let error = difference(&of_reference.sums, &of_cpu.sums);
            assert!(error < 1e-3, "{name}: {tensor}: {error}");
        }
    }
}

#[test]
fn every_position_counts_and_experts_are_counted_each() {
    for (name, experts, used) in [("smollm2", 1, 1), ("qwen3moe", 8, 3)] {
        let gathered = run(&options_for(&fixture(name), "cpu", false));
        let mut stacks = 0;
        for (tensor, one) in &gathered.matrices {
            let all: u64 = one.counts.iter().sum();
            let tokens = 3 * WINDOW as u64;
            if tensor.contains("_exps") {
                stacks += 1;
                assert_eq!((one.counts.len(), all), (experts, tokens * used), "{tensor}");
            } else {
                assert_eq!((one.counts.len(), all), (1, tokens), "{tensor}");
            }
            assert!(one.sums.iter().all(|sum| *sum >= 0.0) && one.sums.iter().any(|sum| *sum > 0.0), "{tensor}");
        }
        assert_eq!(stacks > 0, experts > 1, "{name}");
        // Gate and up read the same.
        let first = |part: &str| gathered.matrices.iter().find(|(tensor, _)| tensor.contains(part)).unwrap().1;
        assert_eq!(first("ffn_gate"), first("ffn_up"));
    }
}

#[test]
fn the_head_is_looked_at_where_that_is_asked_for() {
    for (name, tensor) in [("smollm2", "token_embd.weight"), ("phi3", "output.weight")] {
        let without = run(&options_for(&fixture(name), "cpu", false));
        let with = run(&options_for(&fixture(name), "cpu", true));
        assert!(!without.matrices.contains_key(tensor), "{name}");
        assert_eq!(with.matrices[tensor].counts, [3 * WINDOW as u64]);
        let others = with.matrices.iter().filter(|(name, _)| *name != tensor);
        assert!(others.eq(without.matrices.iter()), "{name}: the head changes the others");
    }
}

#[test]
fn a_cancelled_gathering_gives_nothing() {
    let cancel = Arc::new(AtomicBool::new(false));
    let mut options = options_for(&fixture("smollm2"), "cpu", false);
    options.engine.cancel = cancel.clone();
    let mut windows = 0;
    let found = gather(&options, |event| {
        if matches!(event, ImportanceEvent::Progress { .. }) {
            windows += 1;
            cancel.store(true, Ordering::Relaxed);
        }
    });
    assert_eq!((found.unwrap(), windows), (None, 1));
    options.engine.cancel = Arc::default();
    options.texts[0].text = "the".into();
    assert!(gather(&options, |_| {}).unwrap_err().to_string().contains("a window has 16"));
}
