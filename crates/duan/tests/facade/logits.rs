//! Logits through the facade: those of the oracle, and the same bits however the work is cut.

use std::fs;
use std::ops::ControlFlow;

use duan::{Engine, EngineOptions, KvFormat, OpKind};

use crate::support::{engine, fixture, fixtures, options};

/// The logits of every position.
fn rows(engine: &mut Engine, tokens: &[u32]) -> Vec<Vec<f32>> {
    let mut rows = Vec::new();
    engine
        .logits(tokens, |position, logits| {
            assert_eq!(position, rows.len());
            rows.push(logits.to_vec());
            ControlFlow::Continue(())
        })
        .unwrap();
    assert_eq!(rows.len(), tokens.len());
    rows
}

fn bits(rows: &[Vec<f32>]) -> Vec<u32> {
    rows.iter().flatten().map(|logit| logit.to_bits()).collect()
}

fn numbers<T: TryFrom<u64>>(value: &serde_json::Value) -> Vec<T> {
    let number = |value: &serde_json::Value| T::try_from(value.as_u64().unwrap()).ok().unwrap();
    value.as_array().unwrap().iter().map(number).collect()
}

#[test]
fn every_fixture_agrees_with_its_oracle() {
    let mut checked = 0;
    for entry in fs::read_dir(fixtures()).unwrap() {
        let folder = entry.unwrap().path();
        let Ok(expected) = fs::read_to_string(folder.join("expected.json")) else { continue };
        let expected: serde_json::Value = serde_json::from_str(&expected).unwrap();
        let kv_format = KvFormat::F32;
        for prompt in expected["prompts"].as_array().unwrap() {
            // The context decides between rotary lists for short and for long ones.
            let context = prompt["context"].as_u64().map(|context| context as usize);
            let options = EngineOptions { kv_format, context, ..options() };
            let mut engine = engine(&folder.join("model.gguf"), options);
            let bytes = fs::read(folder.join(prompt["logits"].as_str().unwrap())).unwrap();
            let oracle: Vec<f32> = bytes.chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect();
            let rows = rows(&mut engine, &numbers::<u32>(&prompt["tokens"]));
            let positions = numbers::<usize>(&prompt["positions"]);
            let vocab_size = oracle.len() / positions.len();
            for (position, oracle) in positions.iter().zip(oracle.chunks_exact(vocab_size)) {
                let largest = oracle.iter().fold(0f32, |largest, x| largest.max(x.abs()));
                let differences = oracle.iter().zip(&rows[*position]).map(|(a, b)| (a - b).abs());
                let error = differences.fold(0f32, f32::max) / largest;
                assert!(error <= 1e-4, "{}: position {position}: {error}", folder.display());
                checked += 1;
            }
        }
    }
    assert!(checked >= 13 * 20, "{checked} positions");
}

#[test]
fn pieces_threads_and_devices_do_not_change_a_bit() {
    let tokens: Vec<u32> = (0..300).map(|index| index * 37 % 60).collect();
    for name in ["smollm2", "gemma3", "lfm2", "granitemoe-shared"] {
        let path = fixture(name);
        let whole = bits(&rows(&mut engine(&path, options()), &tokens));
        for prefill_rows in [1, 7, 64] {
            let pieces = rows(&mut engine(&path, EngineOptions { prefill_rows, ..options() }), &tokens);
            assert!(whole == bits(&pieces), "{name}: pieces of {prefill_rows}");
        }
        for threads in [1, 3] {
            let other = EngineOptions { threads: Some(threads), threads_prefill: Some(threads), ..options() };
            assert!(whole == bits(&rows(&mut engine(&path, other), &tokens)), "{name}: {threads} threads");
        }
    }
}

#[test]
fn ops_that_the_cpu_refuses_run_on_the_reference_and_say_so() {
    let tokens: Vec<u32> = (0..40).map(|index| index * 37 % 96).collect();
    let path = fixture("gemma3");
    // Keys and values as floats: rounded to halves, a difference in the last bit can become one of half a thousandth.
    let options = || EngineOptions { kv_format: KvFormat::F32, ..options() };
    let reference = EngineOptions { device: Some("reference".into()), ..options() };
    let mut reference = engine(&path, reference);
    let all = reference.plan().unwrap().summary();
    let kinds: Vec<&str> = all.segments.iter().flat_map(|segment| segment.kinds.clone()).collect();
    let reference = rows(&mut reference, &tokens);
    for refuse in [vec![OpKind::Attention], vec![OpKind::Norm, OpKind::Add], OpKind::ALL.to_vec()] {
        let mut engine = engine(&path, EngineOptions { refuse: refuse.clone(), ..options() });
        let plan = engine.plan().unwrap().clone();
        assert!(plan.has_fallback());
        let fallbacks = plan.fallbacks();
        for kind in &refuse {
            let expected = format!("cpu refuses {kind}: ");
            let named = fallbacks.iter().any(|row| row.device == "reference" && row.reason.contains(&expected));
            assert_eq!(named, kinds.contains(&kind.name()), "{kind}: {fallbacks:?}");
        }
        let rows = rows(&mut engine, &tokens);
        let largest = reference.iter().flatten().fold(0f32, |largest, x| largest.max(x.abs()));
        let difference = |(a, b): (&f32, &f32)| (a - b).abs();
        let error = reference.iter().flatten().zip(rows.iter().flatten()).map(difference).fold(0f32, f32::max);
        assert!(error <= 1e-5 * largest, "{refuse:?}: {error}");
        if refuse.len() == OpKind::ALL.len() {
            assert!(bits(&rows) == bits(&reference), "all ops on the reference are the reference");
        }
    }
}

#[test]
fn logits_can_be_stopped_and_are_bounded_by_the_context() {
    let mut engine = engine(&fixture("smollm2"), EngineOptions { context: Some(64), ..options() });
    let mut rows = 0;
    engine
        .logits(&[5; 60], |_, _| {
            rows += 1;
            if rows == 3 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })
        .unwrap();
    assert_eq!(rows, 3);
    let error = engine.logits(&[5; 65], |_, _| ControlFlow::Continue(())).unwrap_err().to_string();
    assert!(error.contains("65 tokens do not fit") && error.contains("context of 64"), "{error}");
    let error = engine.logits(&[96], |_, _| ControlFlow::Continue(())).unwrap_err().to_string();
    assert_eq!(error, "token 96 is not in the vocabulary of 96 tokens");
    engine.logits(&[], |_, _| panic!("there is no row")).unwrap();
}
