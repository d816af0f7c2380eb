//! Plans on invented devices.

use duan_model::config::{ActivationFunction, NormConfig, NormKind};
use duan_model::graph::{LinearPart, Op, Value, ValueId};
use duan_model::weights::{MatrixId, VectorId};

use super::*;

const STREAM: ValueId = ValueId(0);
const OTHER: ValueId = ValueId(1);

/// Embed, then in each of `layers` layers a linear, a gate and an add, then a norm: 3 * layers + 2 ops.
fn graph(layers: usize) -> Graph {
    let value = |name| Value { name, width: 4, wanted_rows_only: false };
    let mut nodes = vec![Node { layer: None, op: Op::Embed { table: MatrixId(0), scale: 1.0, output: STREAM } }];
    for layer in 0..layers {
        let part = LinearPart { matrix: MatrixId(1), bias: None, output: OTHER };
        let activation = ActivationFunction::Silu;
        for op in [
            Op::Linear { input: STREAM, parts: vec![part] },
            Op::GatedAct { gate: OTHER, up: OTHER, width: 4, output: OTHER, activation },
            Op::Add { width: 4, factor: 1.0, target: STREAM, addend: OTHER },
        ] {
            nodes.push(Node { layer: Some(layer), op });
        }
    }
    let norm = NormConfig { kind: NormKind::Rms, epsilon: 1e-5 };
    let norm = Op::Norm { input: STREAM, weight: VectorId(0), bias: None, width: 4, groups: 1, norm, output: STREAM };
    nodes.push(Node { layer: None, op: norm });
    Graph {
        nodes,
        values: vec![value("stream"), value("other")],
        caches: Vec::new(),
        states: Vec::new(),
        logits: STREAM,
    }
}

fn offer(device: &str, refused: &[(usize, &str)], last_resort: bool) -> Offer {
    let refusals = refused.iter().map(|&(op, reason)| Refusal { op, reason: reason.into() }).collect();
    Offer { device: device.into(), refusals, last_resort }
}

#[test]
fn one_device_that_runs_all_gets_one_segment_per_phase() {
    let plan = make_plan(&graph(3), &[offer("cpu", &[], false), offer("reference", &[], true)], false).unwrap();
    assert_eq!(plan.prefill.len(), 1);
    assert_eq!(plan.prefill, plan.decode);
    assert_eq!((plan.prefill[0].ops.clone(), plan.prefill[0].device), (0..11, 0));
    assert!(!plan.has_fallback());
    let all = plan.ops_of(0);
    assert_eq!((all.len(), all[0].clone(), plan.ops_of(1).len()), (1, 0..11, 0));
    let json = serde_json::to_value(plan.summary()).unwrap();
    let expected = serde_json::json!({"segments": [
        {"phase": "prefill", "layers": "0-2", "ops": 11, "kinds": ["embed", "linear", "gated-act", "add", "norm"],
         "device": "cpu", "reason": "first choice", "fallback": false, "cost_ns": null},
        {"phase": "decode", "layers": "0-2", "ops": 11, "kinds": ["embed", "linear", "gated-act", "add", "norm"],
         "device": "cpu", "reason": "first choice", "fallback": false, "cost_ns": null},
    ], "fusions": []});
    assert_eq!(json, expected);
}

#[test]
fn refused_ops_fall_back_with_the_reason_and_neighbours_merge() {
    let cpu = offer("cpu", &[(2, "told so"), (3, "no kernel"), (5, "told so")], false);
    let plan = make_plan(&graph(2), &[cpu, offer("reference", &[], true)], true).unwrap();
    let shape: Vec<_> = plan.prefill.iter().map(|segment| (segment.ops.clone(), segment.device)).collect();
    assert_eq!(shape, [(0..2, 0), (2..4, 1), (4..5, 0), (5..6, 1), (6..8, 0)]);
    assert_eq!(plan.prefill[1].reason, "cpu refuses gated-act: told so; cpu refuses add: no kernel");
    assert_eq!(plan.prefill[3].reason, "cpu refuses gated-act: told so");
    assert_eq!(plan.ops_of(0), [0..2, 4..5, 6..8]);
    assert_eq!(plan.ops_of(1), [2..4, 5..6]);
    assert!(plan.has_fallback());
    let fallbacks = plan.fallbacks();
    assert_eq!(fallbacks.len(), 4, "two in each phase");
    assert_eq!((fallbacks[0].layers.as_str(), fallbacks[0].ops, fallbacks[0].device.as_str()), ("0", 2, "reference"));
    assert!(plan.summary().segments[0].layers == "0", "embed and the first op of layer 0");
    assert_eq!(plan.summary().segments[4].layers, "1", "the last op of layer 1 and the norm");
}

#[test]
fn the_same_reason_is_said_once() {
    let refused: Vec<(usize, &str)> = (0..8).map(|op| (op, "off")).collect();
    let plan = make_plan(&graph(2), &[offer("cpu", &refused, false), offer("reference", &[], true)], true).unwrap();
    assert_eq!(plan.prefill.len(), 1);
    let expected = ["embed", "linear", "gated-act", "add", "norm"].map(|kind| format!("cpu refuses {kind}: off"));
    assert_eq!(plan.prefill[0].reason, expected.join("; "));
}

#[test]
fn the_last_resort_waits_until_all_others_refuse() {
    let offers =
        [offer("npu", &[(4, "shape")], false), offer("cpu", &[(5, "x")], false), offer("reference", &[], true)];
    let plan = make_plan(&graph(2), &offers, true).unwrap();
    let shape: Vec<_> = plan.prefill.iter().map(|segment| (segment.ops.clone(), segment.device)).collect();
    assert_eq!(shape, [(0..4, 0), (4..5, 1), (5..8, 0)]);
    let both = [offer("npu", &[(4, "shape")], false), offer("cpu", &[(4, "x")], false), offer("reference", &[], true)];
    let plan = make_plan(&graph(2), &both, true).unwrap();
    assert_eq!(plan.prefill[1].device, 2);
    assert_eq!(plan.prefill[1].reason, "npu refuses linear: shape; cpu refuses linear: x");
    // Alone, it is a choice like any other.
    let plan = make_plan(&graph(2), &[offer("reference", &[], true)], false).unwrap();
    assert!(!plan.has_fallback());
}

#[test]
fn forbidden_fallback_names_the_op() {
    let cpu = || offer("cpu", &[(6, "told so")], false);
    let error = make_plan(&graph(2), &[cpu(), offer("reference", &[], true)], false).unwrap_err();
    assert_eq!(
        error.to_string(),
        "op 6 (add, layer 1) would fall back to reference: cpu: told so; allow fallback, or choose another device"
    );
    let error = make_plan(&graph(2), &[cpu()], true).unwrap_err();
    assert_eq!(error.to_string(), "no device runs op 6 (add, layer 1): cpu: told so");
    let first = offer("cpu", &[(0, "told so")], false);
    let error = make_plan(&graph(2), &[first], true).unwrap_err().to_string();
    assert!(error.contains("op 0 (embed, outside of the layers)"), "{error}");
    assert!(make_plan(&graph(1), &[], true).unwrap_err().to_string().contains("there is no device"));
}
