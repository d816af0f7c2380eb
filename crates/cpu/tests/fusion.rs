//! Ops that run together give the same bits as ops that run one by one: each fusion alone, all, in prefill and decode.

use duan_backend::{Backend as _, CompileJob, KvFormat, Limits, PAGE_TOKENS, Packing, Pass, Span, conformance};
use duan_cpu::{Cpu, CpuOptions, Fusion};
use duan_model::Model;

/// Rows and wanted rows of passes: more than a block of 256 tokens, one by one, a few, a last block of three; the head meets
/// several rows, one and none.
const PASSES: &[(usize, usize)] = &[(300, 2), (1, 1), (3, 0), (259, 2), (40, 0), (1, 1)];
const MOST_ROWS: usize = 300;

/// Logits of all passes, with `threads`; each pass cut into ranges of at most `ops` ops.
fn logits(model: &Model, isa: &str, threads: usize, no_fuse: &[Fusion], ops: usize) -> Vec<u32> {
    let options = CpuOptions {
        threads_decode: Some(threads),
        isa: Some(isa.into()),
        no_fuse: no_fuse.to_vec(),
        ..CpuOptions::default()
    };
    let limits = Limits {
        max_rows: MOST_ROWS,
        max_wanted_rows: 2,
        pages: 3,
        context: 3 * PAGE_TOKENS,
        kv_format: KvFormat::F16,
    };
    let count = model.graph.nodes.len();
    let all = 0..count;
    let job = CompileJob { model, ops: std::slice::from_ref(&all), limits, packing: Packing::InMemory };
    let mut compiled = Cpu::new(options).unwrap().compile(&job).unwrap();
    let (mut bits, mut start) = (Vec::new(), 0);
    for &(rows, wanted) in PASSES {
        let tokens: Vec<u32> = (start..start + rows).map(|at| (at * 31 % model.config.vocab_size) as u32).collect();
        let spans = [Span { sequence: 0, start, count: rows, wanted, pages: &[2, 0, 1] }];
        for first in (0..count).step_by(ops) {
            compiled.submit(&Pass { tokens: &tokens, spans: &spans }, first..count.min(first + ops)).unwrap();
        }
        let logits = compiled.value(model.graph.logits, wanted * model.config.vocab_size);
        assert!(logits.iter().all(|logit| logit.is_finite()));
        bits.extend(logits.iter().map(|logit| logit.to_bits()));
        start += rows;
    }
    bits
}

#[test]
fn together_or_apart_the_bits_are_the_same() {
    let everything = usize::MAX;
    let isas = Cpu::isas_available();
    let best = isas[isas.len() - 1];
    for isa in [isas[0], best] {
        for tiny in conformance::models() {
            let with = |no_fuse: &[Fusion], threads, ops| logits(&tiny.model, isa, threads, no_fuse, ops);
            let apart = with(&Fusion::ALL, 1, everything);
            let place = format!("{isa} {}", tiny.name);
            assert!(apart == with(&[], 2, everything), "{place}: all together");
            // Between formats only the kernels differ, and between instruction sets what they share is written once.
            if isa != best || tiny.is_for_format && !["Q4_0", "F16"].contains(&tiny.name.as_str()) {
                continue;
            }
            for fusion in Fusion::ALL {
                let others: Vec<Fusion> = Fusion::ALL.into_iter().filter(|&other| other != fusion).collect();
                assert!(apart == with(&others, 2, everything), "{place}: {fusion} alone");
                assert!(apart == with(&[fusion], 3, everything), "{place}: all but {fusion}");
            }
            // Ranges that cut through runs, at every place of a layer.
            for ops in [1, 3, 5, 7] {
                assert!(apart == with(&[], 2, ops), "{place}: ranges of {ops} ops");
            }
        }
    }
}

/// A test that compares what is the same anyway would say nothing.
#[test]
fn every_fusion_applies_to_some_model() {
    let cpu = Cpu::new(CpuOptions::default()).unwrap();
    for fusion in Fusion::ALL {
        let count = |model: &Model| {
            let all = cpu.fusions(model, std::slice::from_ref(&(0..model.graph.nodes.len())));
            all.into_iter().find(|(name, _)| *name == fusion.name()).map_or(0, |(_, count)| count)
        };
        let models: Vec<String> = conformance::models()
            .into_iter()
            .filter(|tiny| !tiny.is_for_format && count(&tiny.model) > 0)
            .map(|tiny| tiny.name)
            .collect();
        assert!(models.len() > 1, "{fusion}: {models:?}");
    }
}
