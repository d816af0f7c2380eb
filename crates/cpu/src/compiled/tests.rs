//! What is counted inside a compiled model.

use duan_backend::{Clock, CompileJob, Compiled as _, KvFormat, Limits, PAGE_TOKENS, Packing, Pass, Span, conformance};

use super::*;
use crate::compiled::fusion::Fusion;
use crate::placement::Placement;
use crate::self_test::Picker;

fn compile(model: &Model, no_fuse: &[Fusion]) -> CpuModel {
    let limits = Limits { max_rows: 80, max_wanted_rows: 1, pages: 1, context: PAGE_TOKENS, kv_format: KvFormat::F16 };
    let all = 0..model.graph.nodes.len();
    let job = CompileJob { model, ops: std::slice::from_ref(&all), limits, packing: Packing::InMemory };
    let picker = Picker::new(&Isa::available(), &[]).unwrap();
    CpuModel::new(&job, picker, Threads { prefill: 2, decode: 2 }, Placement::free(2), no_fuse).unwrap()
}

/// Barriers of a pass of `rows` tokens, with two workers, without the fusions `no_fuse`.
fn barriers(model: &Model, rows: usize, no_fuse: &[Fusion]) -> u64 {
    let mut compiled = compile(model, no_fuse);
    let before = compiled.barriers();
    let spans = [Span { sequence: 0, start: 0, count: rows, wanted: 1, pages: &[0] }];
    let pass = Pass { tokens: &vec![3; rows], spans: &spans };
    compiled.submit(&pass, 0..model.graph.nodes.len()).unwrap();
    compiled.barriers() - before
}

/// Like a Llama, with one layer.
fn llama(format: &str) -> Model {
    let tiny = conformance::models().into_iter().find(|tiny| tiny.is_for_format && tiny.name == format);
    tiny.unwrap().model
}

/// Queries, keys and values; attention; its output; gate and up; down: each needs all of the one before. And the logits, where
/// the matrix is worth sharing out. Whoever adds a barrier to the loop over tokens meets this test first.
#[test]
fn a_token_waits_as_often_as_its_data_ask_for() {
    for (format, head) in [("Q8_0", 0), ("F32", 1)] {
        let model = llama(format);
        let layers = model.config.layers.len() as u64;
        let decode = |no_fuse: &[Fusion]| barriers(&model, 1, no_fuse);
        assert_eq!(decode(&[]), 5 * layers + head, "{format}");
        // A token's norms, activations and sums are too short to be shared out: apart they cost time, but no barrier.
        for fusion in [Fusion::Norm, Fusion::GateUp, Fusion::Residual] {
            assert_eq!(decode(&[fusion]), 5 * layers + head, "{format} without {fusion}");
        }
        // Gate and up still run together when the product is made where they are computed.
        assert_eq!(decode(&[Fusion::Qkv]), 7 * layers + head, "{format}");
        assert_eq!(decode(&Fusion::ALL), 8 * layers + head, "{format}");
    }
}

/// Of 80 tokens every op is shared out but the smallest, so what runs together is a barrier less.
#[test]
fn a_prompt_waits_less_often_where_ops_run_together() {
    let model = llama("Q8_0");
    let prefill = |no_fuse: &[Fusion]| barriers(&model, 80, no_fuse);
    let together = prefill(&[]);
    // Both norms of the layer find codes in place of another barrier.
    assert_eq!(prefill(&[Fusion::Norm]), together + 2);
    // Activation and coding of what the next matrix reads.
    assert_eq!(prefill(&[Fusion::GateUp]), together + 2);
    // Attention and MLP join the stream.
    assert_eq!(prefill(&[Fusion::Residual]), together + 2);
    assert_eq!(prefill(&[Fusion::Qkv]), together + 2);
    // Without gate-up, gate and up are two matrices of one op as well.
    assert_eq!(prefill(&Fusion::ALL), together + 9);
}

/// A matrix in the place of another computes what a model that was loaded with it does, and the one before comes back: wherever
/// matrices lie, whatever reads them.
#[test]
fn a_matrix_in_the_place_of_another_computes_what_it_does_in_a_model_of_its_own() {
    let others = |model: &Model| {
        // Rows in another order: weights that are good in any format.
        let weights = model.weights.resident(|_| true).unwrap().with_matrices(|matrix| {
            let mut bytes = vec![0; matrix.bytes()];
            matrix.read_rows(0, &mut bytes).unwrap();
            bytes.rotate_left(matrix.row_bytes());
            matrix.with_bytes(bytes.into())
        });
        Model { weights: Arc::new(weights), ..model.clone() }
    };
    for tiny in conformance::models() {
        let (model, other) = (&tiny.model, others(&tiny.model));
        let spans = [Span { sequence: 0, start: 0, count: 9, wanted: 1, pages: &[0] }];
        let pass = Pass { tokens: &[3, 1, 4, 1, 5, 9, 2, 6, 5], spans: &spans };
        let logits = |compiled: &mut CpuModel| {
            compiled.submit(&pass, 0..model.graph.nodes.len()).unwrap();
            compiled.value(model.graph.logits, model.config.vocab_size).to_vec()
        };
        let mut compiled = compile(model, &[]);
        let own = logits(&mut compiled);
        let expected = logits(&mut compile(&other, &[]));
        assert!(own != expected, "{}", tiny.name);
        let ids = || (0..model.weights.matrices().len() as u32).map(MatrixId);
        let replace = |compiled: &mut CpuModel, of: Option<&Model>| {
            for id in ids() {
                let bytes = of.map(|of| of.weights.matrix(id).resident().unwrap().shared().unwrap().clone());
                compiled.replace_matrix(id, bytes).unwrap();
            }
        };
        replace(&mut compiled, Some(&other));
        assert!(logits(&mut compiled) == expected, "{}: another matrix", tiny.name);
        replace(&mut compiled, Some(model));
        assert!(logits(&mut compiled) == own, "{}: the same in its own place", tiny.name);
        replace(&mut compiled, Some(&other));
        replace(&mut compiled, None);
        assert!(logits(&mut compiled) == own, "{}: its own again", tiny.name);
    }
}

#[test]
fn nothing_is_held_twice_for_products() {
    let model = llama("Q8_0");
    let (together, apart) = (compile(&model, &[]), compile(&model, &Fusion::ALL));
    // Normed rows are 256 wide, products 512.
    assert_eq!(together.products.bytes(), apart.coded.bytes());
    assert_eq!(together.coded.bytes() * 2, together.products.bytes());
    assert_eq!(apart.products.bytes(), 0);
}

/// Every op of a pass is told once, in order, those that run together as one; what rotates queries and keys is prepared before. Neither
/// results nor barriers are others meanwhile.
#[test]
fn times_tell_every_op_once_and_change_nothing() {
    for tiny in conformance::models() {
        for (no_fuse, tokens) in [(&[][..], 1), (&[], 9), (&Fusion::ALL, 1)] {
            let model = &tiny.model;
            let nodes = model.graph.nodes.len();
            let mut compiled = compile(model, no_fuse);
            let spans = [Span { sequence: 0, start: 0, count: tokens, wanted: 1, pages: &[0] }];
            let pass = Pass { tokens: &vec![3; tokens], spans: &spans };
            let run = |compiled: &mut CpuModel| {
                let before = compiled.barriers();
                compiled.submit(&pass, 0..nodes).unwrap();
                let logits = compiled.value(model.graph.logits, model.config.vocab_size).to_vec();
                (compiled.barriers() - before, logits)
            };
            let without = run(&mut compiled);
            assert!(compiled.observed_times().is_empty());
            let now_ns = std::sync::atomic::AtomicU64::new(0);
            let clock = Clock::made_up(move || now_ns.fetch_add(10, std::sync::atomic::Ordering::Relaxed));
            compiled.observe_times(Some(clock), 2).unwrap();
            assert!(run(&mut compiled) == without, "{}", tiny.name);
            assert!(run(&mut compiled) == without, "{}", tiny.name);
            let times = compiled.observed_times();
            let (first, second) = times.split_at(times.len() / 2);
            for times in [first, second] {
                let ops: Vec<usize> = times.iter().flat_map(|time| time.ops.clone()).collect();
                assert_eq!(ops, (0..nodes).collect::<Vec<_>>(), "{}", tiny.name);
                let rotates = model.graph.nodes.iter().any(|node| matches!(node.op, Op::Rope { .. }));
                assert_eq!(times[0].ops.is_empty(), rotates, "{}", tiny.name);
                assert!(times.iter().all(|time| time.ns == 10), "{}", tiny.name);
                let together = times.iter().any(|time| time.ops.len() > 1);
                assert!(!together || no_fuse.is_empty(), "{}", tiny.name);
            }
            compiled.observe_times(None, 0).unwrap();
            assert!(run(&mut compiled) == without && compiled.observed_times().is_empty(), "{}", tiny.name);
        }
    }
    let times_of = |no_fuse: &[Fusion]| {
        let model = llama("Q8_0");
        let mut compiled = compile(&model, no_fuse);
        compiled.observe_times(Some(Clock::made_up(|| 0)), 1).unwrap();
        let spans = [Span { sequence: 0, start: 0, count: 1, wanted: 1, pages: &[0] }];
        compiled.submit(&Pass { tokens: &[3], spans: &spans }, 0..model.graph.nodes.len()).unwrap();
        compiled.observed_times().iter().filter(|time| time.ops.len() > 1).count()
    };
    // In its one layer attention joins the stream, gate and up are activated, and down joins the stream.
    assert_eq!((times_of(&[]), times_of(&Fusion::ALL)), (3, 0));
}
