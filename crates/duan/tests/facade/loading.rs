//! Loading, inspecting and planning, and what can be wrong then.

use std::fs;
use std::ops::ControlFlow;

use duan::{Engine, EngineOptions, OpKind, SamplingOptions};

use crate::support::{Told, engine, fixture, options};

#[test]
fn loading_tells_its_stages_in_order() {
    let mut told = Told::default();
    let mut engine = Engine::new(options()).unwrap();
    engine.load_model_with(fixture("smollm2"), |event| told.note(event)).unwrap();
    let stages: Vec<&str> = told.words.iter().map(String::as_str).filter(|word| !word.starts_with("warning")).collect();
    assert_eq!(stages, ["load", "planned false", "loaded 512", "warm"]);
    let mut told = Told::default();
    let mut cold = Engine::new(EngineOptions { warm_up: false, refuse: vec![OpKind::Add], ..options() }).unwrap();
    cold.load_model_with(fixture("smollm2"), |event| told.note(event)).unwrap();
    let stages: Vec<&str> = told.words.iter().map(String::as_str).filter(|word| !word.starts_with("warning")).collect();
    assert_eq!(stages, ["load", "planned true", "loaded 512"]);
    assert_eq!((engine.context().unwrap(), engine.context_used().unwrap()), (512, 0));
    assert_eq!(engine.memory().unwrap().len(), 1);
    assert_eq!(cold.memory().unwrap().len(), 2);
}

/// A kernel that fails its self-test is replaced before anything runs, and never silently.
#[test]
fn a_kernel_that_is_not_trusted_is_replaced_and_told_of() {
    let trusting = engine(&fixture("smollm2-f16"), options());
    let isa = trusting.devices()[0].cpu.as_ref().unwrap().isa.clone();
    let mut told = Told::default();
    let mut engine = Engine::new(EngineOptions { distrust: vec!["f16".into()], ..options() }).unwrap();
    engine.load_model_with(fixture("smollm2-f16"), |event| told.note(event)).unwrap();
    let warnings: Vec<&String> = told.words.iter().filter(|word| word.starts_with("DeviceWarning")).collect();
    if isa == "scalar" {
        assert_eq!(warnings.len(), 0, "{warnings:?}");
        return;
    }
    assert!(!warnings.is_empty(), "{:?}", told.words);
    for part in ["device: \"cpu\"", "F16", "scalar is used instead", "please report it"] {
        assert!(warnings.iter().all(|warning| warning.contains(part)), "{part}: {warnings:?}");
    }
    assert!(warnings.iter().any(|warning| warning.contains(&isa)), "{isa}: {warnings:?}");
    let stage = |word: &str| told.words.iter().position(|told| told.starts_with(word)).unwrap();
    assert!(stage("planned") < stage("DeviceWarning") && stage("DeviceWarning") < stage("loaded"), "{:?}", told.words);
}

#[test]
fn inspecting_counts_what_is_in_the_file() {
    let engine = Engine::new(EngineOptions { context: Some(300), ..options() }).unwrap();
    let summary = engine.inspect(fixture("smollm2")).unwrap();
    assert_eq!((summary.family.as_str(), summary.layers, summary.hidden_size), ("llama", 2, 48));
    assert_eq!((summary.heads, summary.kv_heads, summary.head_dim, summary.intermediate_size), (3, 1, 16, 56));
    assert_eq!((summary.vocab_size, summary.context_length), (96, 512));
    // Embedding; per layer two norms, q, k, v, o, gate, up and down; the last norm.
    let layer = 2 * 48 + 48 * 48 * 2 + 48 * 16 * 2 + 3 * 48 * 56;
    assert_eq!(summary.parameters, 96 * 48 + 2 * layer + 48);
    assert_eq!((summary.formats.len(), summary.formats[0].name.as_str(), summary.formats[0].tensors), (1, "F32", 20));
    assert_eq!(summary.bits_per_weight, 32.0);
    assert_eq!(summary.file_bytes, fs::metadata(fixture("smollm2")).unwrap().len());
    assert_eq!((summary.template.as_deref(), summary.name.as_deref()), (None, Some("duan test fixture smollm2")));
    assert_eq!(summary.tokenizer.end_of_turn[0].text, "<|endoftext|>");
    // Keys and values of 16 in two layers, two bytes each; 300 positions are two pages of 256.
    assert_eq!(summary.kv_bytes_per_token, 2 * 2 * 16 * 2);
    assert_eq!((summary.memory.context, summary.memory.kv_bytes), (300, 512 * 128));
    assert_eq!(summary.memory.weights_bytes, summary.parameters * 4);
    let mixed = engine.inspect(fixture("smollm2-f16")).unwrap();
    let names: Vec<&str> = mixed.formats.iter().map(|format| format.name.as_str()).collect();
    assert_eq!(names, ["F16", "F32"]);
    assert!(mixed.bits_per_weight > 16.0 && mixed.bits_per_weight < 17.0);
    let json = serde_json::to_value(&summary).unwrap();
    assert_eq!((json["layers"].as_u64(), json["memory"]["context"].as_u64()), (Some(2), Some(300)));
}

#[test]
fn plans_are_made_without_loading() {
    let plan = Engine::new(options()).unwrap().plan_model(fixture("smollm2")).unwrap();
    let json = serde_json::to_value(plan.summary()).unwrap();
    assert_eq!(json["segments"].as_array().unwrap().len(), 2);
    assert_eq!(json["segments"][1]["phase"], "decode");
    assert_eq!((&json["segments"][0]["layers"], &json["segments"][0]["device"]), (&"0-1".into(), &"cpu".into()));
    assert!(json["segments"][0]["cost_ns"].is_null());
    // In each of two layers: queries, keys and values; gate and up; two results that join the stream.
    let fusions = plan.fusions.iter().map(|row| (row.device.as_str(), row.name, row.count));
    assert!(fusions.skip(1).eq([("cpu", "qkv", 2), ("cpu", "gate-up", 2), ("cpu", "residual", 4)]), "{json}");
    let refusing = EngineOptions { refuse: vec![OpKind::Rope], ..options() };
    let plan = Engine::new(refusing.clone()).unwrap().plan_model(fixture("smollm2")).unwrap();
    // Two layers with queries and keys side by side: cpu, reference, cpu, reference, cpu.
    assert_eq!((plan.decode.len(), plan.fallbacks().len()), (5, 4));
    assert!(plan.fallbacks().iter().all(|row| row.kinds == ["rope"] && row.ops == 2));
    let strict = EngineOptions { allow_fallback: false, ..refusing };
    let error = Engine::new(strict).unwrap().load_model(fixture("smollm2")).unwrap_err().to_string();
    assert!(error.contains("(rope, layer 0)") && error.contains("fall back to reference"), "{error}");
}

#[test]
fn wrong_options_name_themselves() {
    let message = |options: EngineOptions| {
        Engine::new(options).and_then(|mut engine| engine.load_model(fixture("smollm2"))).unwrap_err().to_string()
    };
    let error = message(EngineOptions { device: Some("npu".into()), ..options() });
    assert_eq!(error, "device: expected one of cpu, reference, found \"npu\"");
    let error = message(EngineOptions { context: Some(513), ..options() });
    assert!(error.starts_with("context: ") && error.contains("513") && error.contains("512"), "{error}");
    assert!(message(EngineOptions { prefill_rows: 0, ..options() }).starts_with("prefill_rows: "));
    assert!(message(EngineOptions { threads: Some(0), ..options() }).contains("threads"));
    let sampling = SamplingOptions { min_p: 2.0, ..SamplingOptions::default() };
    assert!(message(EngineOptions { sampling, ..options() }).starts_with("min_p: "));
    let mut engine = Engine::new(options()).unwrap();
    let error = engine.set_sampling(SamplingOptions { temperature: -1.0, ..SamplingOptions::default() }).unwrap_err();
    assert!(error.to_string().starts_with("temperature: "));
    assert_eq!(engine.options().sampling, SamplingOptions::greedy(), "the old ones stay");
}

#[test]
fn a_file_that_cannot_be_loaded_leaves_the_model_that_is_there() {
    let mut engine = engine(&fixture("smollm2"), options());
    let options = duan::CompleteOptions { max_tokens: Some(4), sampling: SamplingOptions::greedy(), bos: None };
    let before = engine.complete("abc", &options).unwrap().text;
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("missing.gguf");
    assert!(engine.load_model(&missing).unwrap_err().to_string().contains("missing.gguf"));
    let cut = folder.path().join("cut.gguf");
    let bytes = fs::read(fixture("smollm2")).unwrap();
    fs::write(&cut, &bytes[..bytes.len() - 100]).unwrap();
    assert!(engine.load_model(&cut).unwrap_err().to_string().contains("cut.gguf"));
    assert_eq!(engine.complete("abc", &options).unwrap().text, before);
    engine.load_model(fixture("gemma3")).unwrap();
    assert_eq!(engine.summary().unwrap().family, "gemma3");
}

#[test]
fn without_a_model_everything_says_what_to_do() {
    let mut engine = Engine::new(options()).unwrap();
    let expected = "no model is loaded; call load_model first";
    assert_eq!(engine.chat("hello").unwrap_err().to_string(), expected);
    assert!(engine.history().is_empty());
    let completion = engine.complete("hello", &duan::CompleteOptions::default());
    assert_eq!(completion.unwrap_err().to_string(), expected);
    assert_eq!(engine.logits(&[1], |_, _| ControlFlow::Continue(())).unwrap_err().to_string(), expected);
    assert_eq!(engine.plan().unwrap_err().to_string(), expected);
    assert_eq!(engine.context().unwrap_err().to_string(), expected);
}

#[test]
fn devices_are_listed_with_the_last_resort_last() {
    let devices = Engine::new(options()).unwrap().devices();
    let names: Vec<(&str, bool)> = devices.iter().map(|device| (device.name.as_str(), device.last_resort)).collect();
    assert_eq!(names, [("cpu", false), ("reference", true)]);
    assert!(devices.iter().all(|device| !device.description.is_empty()));
}
