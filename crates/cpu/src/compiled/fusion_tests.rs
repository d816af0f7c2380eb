//! Runs of made-up graphs: what fits, and everything that must keep ops apart.

use duan_model::config::{ActivationFunction, NormConfig, NormKind};
use duan_model::graph::{Node, Value};
use duan_model::weights::VectorId;

use super::*;

const STREAM: ValueId = ValueId(0);
const NORMED: ValueId = ValueId(1);
const GATE: ValueId = ValueId(2);
const UP: ValueId = ValueId(3);
const PROJECTED: ValueId = ValueId(4);
const SCORES: ValueId = ValueId(5);
const CHOSEN: ValueId = ValueId(6);
const RESULTS: ValueId = ValueId(7);
const LOGITS: ValueId = ValueId(8);

/// Matrices by number: whether they read codes, and their shapes.
const INNER: MatrixId = MatrixId(0); // [96, 64]
const DOWN: MatrixId = MatrixId(1); // [64, 96]
const FLOAT_INNER: MatrixId = MatrixId(2);
const FLOAT_DOWN: MatrixId = MatrixId(3);
const EXPERTS_INNER: MatrixId = MatrixId(4); // 5 of [96, 64]
const EXPERTS_DOWN: MatrixId = MatrixId(5); // 5 of [64, 96]
const ROUTER: MatrixId = MatrixId(6); // [5, 64], floats

fn facts(id: MatrixId) -> MatrixFacts {
    let (rows, columns, coded) = match id {
        INNER => (96, 64, true),
        DOWN => (64, 96, true),
        FLOAT_INNER => (96, 64, false),
        FLOAT_DOWN => (64, 96, false),
        EXPERTS_INNER => (5 * 96, 64, true),
        EXPERTS_DOWN => (5 * 64, 96, true),
        ROUTER => (5, 64, false),
        other => panic!("no matrix {other:?}"),
    };
    MatrixFacts { rows, columns, coded, order: None }
}

fn norm(input: ValueId, output: ValueId) -> Op {
    let norm = NormConfig { kind: NormKind::Rms, epsilon: 1e-5 };
    Op::Norm { input, weight: VectorId(0), bias: None, width: 64, groups: 1, norm, output }
}

fn linear<const N: usize>(input: ValueId, parts: [(MatrixId, ValueId); N]) -> Op {
    Op::Linear { input, parts: parts.map(|(matrix, output)| LinearPart { matrix, bias: None, output }).into() }
}

fn gated(width: usize) -> Op {
    Op::GatedAct { gate: GATE, up: UP, width, output: GATE, activation: ActivationFunction::Silu }
}

fn add(target: ValueId, addend: ValueId) -> Op {
    Op::Add { width: 64, factor: 1.0, target, addend }
}

/// An MLP as most families have it.
fn mlp() -> Vec<Op> {
    vec![
        norm(STREAM, NORMED),
        linear(NORMED, [(INNER, GATE), (INNER, UP)]),
        gated(96),
        linear(GATE, [(DOWN, PROJECTED)]),
        add(STREAM, PROJECTED),
    ]
}

fn graph(ops: Vec<Op>) -> Graph {
    let value = |index| Value { name: "made up", width: 200, wanted_rows_only: index == LOGITS.0 };
    let nodes = ops.into_iter().map(|op| Node { layer: None, op }).collect();
    Graph { nodes, values: (0..9).map(value).collect(), caches: vec![], states: vec![], logits: LOGITS }
}

/// The runs of ops that one device runs.
fn runs(ops: Vec<Op>, off: &[Fusion]) -> Vec<Run> {
    let count = ops.len();
    find(&graph(ops), std::slice::from_ref(&(0..count)), &facts, off).runs
}

fn matrices(node: usize, input: Input, then: Then) -> Step {
    Step::Matrices { node, input, then }
}

const fn gate(node: usize, code: bool, keep: bool) -> Then {
    Then::Gate { node, code, keep }
}

#[test]
fn a_whole_mlp_is_one_run() {
    let steps = vec![
        Step::Norm { node: 0, keep: false },
        matrices(1, Input::Normed, gate(2, true, false)),
        matrices(3, Input::Products, Then::Add { node: 4 }),
    ];
    assert_eq!(runs(mlp(), &[]), [Run { nodes: 0..5, steps }]);
}

#[test]
fn each_fusion_can_be_off() {
    use Fusion::{GateUp, Norm, Residual};
    let without = |off: &[Fusion]| runs(mlp(), off);
    let steps =
        vec![matrices(1, Input::Value, gate(2, true, false)), matrices(3, Input::Products, Then::Add { node: 4 })];
    assert_eq!(without(&[Norm]), [Run { nodes: 1..5, steps }]);
    let normed = Run {
        nodes: 0..2,
        steps: vec![Step::Norm { node: 0, keep: false }, matrices(1, Input::Normed, Then::Nothing)],
    };
    let added = Run { nodes: 3..5, steps: vec![matrices(3, Input::Value, Then::Add { node: 4 })] };
    assert_eq!(without(&[GateUp]), [normed.clone(), added]);
    let products = vec![
        Step::Norm { node: 0, keep: false },
        matrices(1, Input::Normed, gate(2, true, false)),
        matrices(3, Input::Products, Then::Nothing),
    ];
    assert_eq!(without(&[Residual]), [Run { nodes: 0..4, steps: products }]);
    assert_eq!(without(&[GateUp, Residual]), [normed]);
    assert_eq!(without(&Fusion::ALL), []);
}

#[test]
fn a_range_finds_only_runs_that_it_holds_whole() {
    let ops = mlp();
    let found = find(&graph(ops), std::slice::from_ref(&(0..5)), &facts, &[]);
    assert!(found.at(0, 5).is_some());
    assert_eq!(found.at(0, 4), None);
    assert_eq!(found.at(1, 5), None);
}

/// Another device runs the sum: the run ends before it, and the matrix's result is stored.
#[test]
fn runs_end_where_another_device_goes_on() {
    let ops = 0..4;
    let found = find(&graph(mlp()), std::slice::from_ref(&ops), &facts, &[]).runs;
    let steps = vec![
        Step::Norm { node: 0, keep: false },
        matrices(1, Input::Normed, gate(2, true, false)),
        matrices(3, Input::Products, Then::Nothing),
    ];
    assert_eq!(found, [Run { nodes: 0..4, steps }]);
    // It may also run the matrix: then the product is kept as floats.
    let found = find(&graph(mlp()), &[0..3, 4..5], &facts, &[]).runs;
    let steps = vec![Step::Norm { node: 0, keep: false }, matrices(1, Input::Normed, gate(2, false, true))];
    assert_eq!(found, [Run { nodes: 0..3, steps }]);
    // Or the matrices behind the norm.
    assert_eq!(find(&graph(mlp()), &[0..1, 3..4], &facts, &[]).runs, []);
}

#[test]
fn what_is_read_later_is_kept() {
    let with_reader = |reader: Op| {
        let mut ops = mlp();
        ops.push(reader);
        runs(ops, &[]).remove(0)
    };
    // The norm's result, as where two halves stand side by side.
    let run = with_reader(linear(NORMED, [(INNER, UP)]));
    assert_eq!(run.steps[0], Step::Norm { node: 0, keep: true });
    // The product.
    let run = with_reader(linear(GATE, [(DOWN, UP)]));
    assert_eq!(run.steps[1], matrices(1, Input::Normed, gate(2, true, true)));
    // The up's result: they stay apart.
    let run = with_reader(add(STREAM, UP));
    assert_eq!(run.steps[1], matrices(1, Input::Normed, Then::Nothing));
    // What joins the stream: likewise.
    let run = with_reader(norm(PROJECTED, NORMED));
    assert_eq!(run.steps[2], matrices(3, Input::Products, Then::Nothing));
    // Written anew before it is read: nobody misses it.
    let mut ops = mlp();
    ops.extend(mlp());
    assert_eq!(runs(ops, &[]).len(), 2);
}

#[test]
fn floats_are_kept_for_matrices_that_read_them() {
    let mut ops = mlp();
    ops[1] = linear(NORMED, [(INNER, GATE), (FLOAT_INNER, UP)]);
    ops[3] = linear(GATE, [(FLOAT_DOWN, PROJECTED)]);
    let steps = vec![Step::Norm { node: 0, keep: true }, matrices(1, Input::Normed, gate(2, false, true))];
    let added = vec![matrices(3, Input::Value, Then::Add { node: 4 })];
    assert_eq!(runs(ops, &[]), [Run { nodes: 0..3, steps }, Run { nodes: 3..5, steps: added }]);
    // Nobody reads codes: the norm stays as it is.
    let mut ops = mlp();
    ops[1] = linear(NORMED, [(FLOAT_INNER, UP), (FLOAT_INNER, GATE)]);
    assert_eq!(runs(ops, &[])[0].nodes, 1..5);
}

#[test]
fn a_norm_behind_the_matrix_keeps_the_sum_apart() {
    let mut ops = mlp();
    ops.insert(4, norm(PROJECTED, PROJECTED));
    let run = runs(ops, &[]).remove(0);
    assert_eq!((run.nodes, &run.steps[2]), (0..4, &matrices(3, Input::Products, Then::Nothing)));
}

#[test]
fn what_would_be_written_while_it_is_read_stays_apart() {
    // The product goes where the matrices' input is.
    let mut ops = mlp();
    let activation = ActivationFunction::Silu;
    ops[2] = Op::GatedAct { gate: GATE, up: UP, width: 96, output: NORMED, activation };
    ops[3] = linear(NORMED, [(DOWN, PROJECTED)]);
    assert_eq!(runs(ops, &[])[0].nodes, 0..2);
    // The sum goes there.
    let ops = vec![linear(STREAM, [(DOWN, PROJECTED)]), add(STREAM, PROJECTED)];
    assert_eq!(runs(ops, &[]), []);
    // A matrix writes over what its norm left.
    let ops = vec![norm(STREAM, NORMED), linear(NORMED, [(INNER, NORMED)])];
    assert_eq!(runs(ops, &[]), []);
}

#[test]
fn widths_that_do_not_fit_stay_apart() {
    let mut ops = mlp();
    ops[2] = gated(64);
    assert_eq!(runs(ops, &[])[0].nodes, 0..2);
    let ops = vec![linear(GATE, [(INNER, PROJECTED)]), add(STREAM, PROJECTED)];
    assert_eq!(runs(ops, &[]), []);
}

#[test]
fn experts_find_the_codes_of_their_norm_and_of_their_products() {
    let part = |matrix, output| LinearPart { matrix, bias: None, output };
    let experts = |input, input_per_choice, parts| Op::ExpertLinear {
        input,
        input_per_choice,
        chosen: CHOSEN,
        experts: 5,
        used: 2,
        parts,
    };
    let ops = vec![
        norm(STREAM, NORMED),
        linear(NORMED, [(ROUTER, SCORES)]),
        Op::Route { scores: SCORES, experts: 5, used: 2, normalize: true, output: CHOSEN },
        experts(NORMED, false, vec![part(EXPERTS_INNER, GATE), part(EXPERTS_INNER, UP)]),
        gated(2 * 96),
        experts(GATE, true, vec![part(EXPERTS_DOWN, RESULTS)]),
        Op::Mix { input: RESULTS, chosen: CHOSEN, used: 2, width: 64, output: PROJECTED },
    ];
    let steps = vec![
        // The router reads floats.
        Step::Norm { node: 0, keep: true },
        matrices(1, Input::Normed, Then::Nothing),
        Step::Op(2),
        matrices(3, Input::Normed, gate(4, true, false)),
        matrices(5, Input::Products, Then::Nothing),
    ];
    assert_eq!(runs(ops, &[]), [Run { nodes: 0..6, steps }]);
}

/// The last matrix's norm is in place, its result the logits.
#[test]
fn logits_are_kept() {
    let ops = vec![norm(STREAM, STREAM), linear(STREAM, [(INNER, LOGITS)]), Op::Scale { value: LOGITS, factor: 2.0 }];
    let steps = vec![Step::Norm { node: 0, keep: false }, matrices(1, Input::Normed, Then::Nothing)];
    assert_eq!(runs(ops, &[]), [Run { nodes: 0..2, steps }]);
    let ops = vec![linear(GATE, [(DOWN, LOGITS)]), add(STREAM, LOGITS)];
    assert_eq!(runs(ops, &[]), []);
}

#[test]
fn each_fusion_is_counted() {
    let qkv = linear(NORMED, [(INNER, GATE), (INNER, UP), (INNER, PROJECTED)]);
    let mut ops = vec![norm(STREAM, NORMED), qkv];
    ops.extend(mlp());
    let counts = |off: &[Fusion]| {
        let found = find(&graph(ops.clone()), std::slice::from_ref(&(0..7)), &facts, off);
        found.counts().map(|(_, count)| count).collect::<Vec<_>>()
    };
    assert_eq!(counts(&[]), [2, 1, 1, 1]);
    assert_eq!(counts(&[Fusion::GateUp]), [2, 2, 0, 1]);
    assert_eq!(counts(&Fusion::ALL), [0; 4]);
}

#[test]
fn names_are_read_back_and_wrong_ones_refused() {
    for fusion in Fusion::ALL {
        assert_eq!(fusion.name().parse::<Fusion>().unwrap(), fusion);
    }
    let message = "gate_up".parse::<Fusion>().unwrap_err().to_string();
    assert!(message.contains("norm, qkv, gate-up, residual") && message.contains("\"gate_up\""), "{message}");
}
