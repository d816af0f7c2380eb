//! Two reference devices that refuse alternate ops must give the same bits as one.

use std::path::PathBuf;

use duan_backend::{KvFormat, PAGE_TOKENS, Precision, Reference, Refusal, Span};
use duan_model::gguf::GgufFile;

use super::*;
use crate::plan::{Offer, make_plan};

const LIMITS: Limits =
    Limits { max_rows: 24, max_wanted_rows: 24, pages: 2, context: 2 * PAGE_TOKENS, kv_format: KvFormat::F16 };

fn model(name: &str) -> Model {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../backend/tests/fixtures");
    Model::from_gguf(&GgufFile::open(&folder.join(name).join("model.gguf")).unwrap()).unwrap()
}

/// A plan for `devices` devices, where each refuses what `refuses` says of op and device.
fn plan(model: &Model, devices: usize, refuses: impl Fn(usize, usize) -> bool) -> Plan {
    let ops = 0..model.graph.nodes.len();
    let offers: Vec<Offer> = (0..devices)
        .map(|device| {
            let refused = ops.clone().filter(|&op| refuses(op, device));
            let refusals = refused.map(|op| Refusal { op, reason: "not its turn".into() }).collect();
            Offer { device: format!("reference {device}"), refusals, last_resort: false }
        })
        .collect();
    make_plan(&model.graph, &offers, true).unwrap()
}

/// The logits of a prompt in two pieces and of three tokens after it, as bits.
fn logits(model: &Model, plan: &Plan) -> Vec<u32> {
    let reference = Reference::new(Precision::Coded);
    let backends: Vec<&dyn Backend> = plan.devices.iter().map(|_| &reference as &dyn Backend).collect();
    let mut runner = Runner::compile(model, &backends, plan, &LIMITS, Packing::InMemory).unwrap();
    let mut bits = Vec::new();
    let tokens: Vec<u32> = (0..27).map(|index| index * 7 % model.config.vocab_size as u32).collect();
    for (start, count, wanted) in [(0, 10, 3), (10, 14, 1), (24, 1, 1), (25, 1, 1), (26, 1, 1)] {
        let spans = [Span { sequence: 0, start, count, wanted, pages: &[1, 0] }];
        runner.run(&Pass { tokens: &tokens[start..start + count], spans: &spans }).unwrap();
        bits.extend(runner.logits(wanted).iter().map(|logit| logit.to_bits()));
    }
    bits
}

#[test]
fn values_are_handed_over_so_that_several_devices_agree_with_one_to_the_bit() {
    for name in ["smollm2", "gemma3", "llama-bias"] {
        let model = model(name);
        let ops = model.graph.nodes.len();
        let one = logits(&model, &plan(&model, 1, |_, _| false));
        assert!(one.iter().any(|&bits| f32::from_bits(bits) != 0.0));
        let alternating = plan(&model, 2, |op, device| op % 2 != device);
        assert_eq!(alternating.prefill.len(), ops, "{name}");
        assert!(one == logits(&model, &alternating), "{name}: alternating devices");
        assert!(one == logits(&model, &plan(&model, 3, |op, device| op % 3 != device)), "{name}: three devices");
        // An irregular cut, so that values live across several segments.
        let irregular = plan(&model, 3, |op, device| op * op * 7 / 5 % 3 != device);
        assert!(one == logits(&model, &irregular), "{name}: irregular devices");
        // One that only refuses attention, as a real device may.
        let no_attention = plan(&model, 2, |op, device| {
            device == 0 && model.graph.nodes[op].op.kind() == duan_model::graph::OpKind::Attention
        });
        assert!(no_attention.has_fallback());
        assert!(one == logits(&model, &no_attention), "{name}: attention elsewhere");
    }
}

#[test]
fn only_what_is_needed_and_not_there_is_handed_over() {
    let model = model("smollm2");
    let alternating = plan(&model, 2, |op, device| op % 2 != device);
    let steps = steps(&model.graph, &alternating.prefill);
    let received: usize = steps.iter().map(|step| step.receives.len()).sum();
    let reads: usize = model.graph.nodes.iter().map(|node| node.op.reads().len()).sum();
    assert!(received < reads, "{received} of {reads}");
    for (step, node) in steps.iter().zip(&model.graph.nodes) {
        for hand_over in &step.receives {
            assert!(node.op.reads().contains(&hand_over.value));
            assert_ne!(hand_over.from, step.device);
        }
    }
    let whole = super::steps(&model.graph, &plan(&model, 1, |_, _| false).prefill);
    assert_eq!((whole.len(), whole[0].receives.len()), (1, 0));
}

#[test]
fn devices_without_ops_hold_nothing_and_keys_lie_where_the_attention_is() {
    let model = model("smollm2");
    let reference = Reference::new(Precision::Coded);
    let compile = |plan: &Plan| {
        let backends: Vec<&dyn Backend> = plan.devices.iter().map(|_| &reference as &dyn Backend).collect();
        Runner::compile(&model, &backends, plan, &LIMITS, Packing::InMemory).unwrap().memory()
    };
    assert_eq!(compile(&plan(&model, 2, |_, device| device == 1)).len(), 1);
    let attention = |op: usize| model.graph.nodes[op].op.kind() == duan_model::graph::OpKind::Attention;
    let memory = compile(&plan(&model, 2, |op, device| attention(op) == (device == 0)));
    // The reference keeps floats, whatever the format of the cache.
    let floats = model.config.kv_values_per_position() * 2 * PAGE_TOKENS;
    assert_eq!((memory[0].kv_bytes, memory[1].kv_bytes), (0, floats as u64 * 4));
}
