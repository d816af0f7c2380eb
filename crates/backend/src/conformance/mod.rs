//! The suite that every device must pass.
//!
//! [`run`] holds a device to the reference, op by op: before each op both get the same values, so that bounds
//! are tight and a failure names the op. [`attention_lengths`] sweeps every length across the borders of
//! pages and tiles. [`same_bits`] holds the promise that neither the cut of a prompt nor its company
//! changes a result. All of them panic with what they found, as tests do. [`run_briefly`] does all of that with
//! fewer tokens.

mod models;
mod tensors;

use std::ops::Range;

use duan_model::Model;
use duan_model::graph::{LinearPart, Node, Op, OpKind, ValueId};
use half::f16;

use crate::contract::{Backend, CompileJob, Compiled, KvFormat, Limits};
use crate::inputs::MatrixInputs;
use crate::packs::Packing;
use crate::pass::{PAGE_TOKENS, Pass, Span};
use crate::reference::{Precision, Reference};

pub use models::{TinyModel, models};

/// Largest relative error of a linear op: sums in f32 against sums in f64, over the largest result.
const LINEAR_BOUND: f32 = 2e-5;
/// Largest relative error of every other op.
const OTHER_BOUND: f32 = 2e-5;

/// What one conversation has fed so far, for building passes.
#[derive(Debug, Clone)]
struct Sequence {
    pages: Vec<u32>,
    length: usize,
}

/// One span of a scripted pass: sequence, tokens, wanted rows.
type Step = (usize, usize, usize);

/// How many tokens the suite feeds.
struct Extent {
    /// Passes that meet the edges: one token, odd counts, several sequences, page borders, nothing wanted.
    script: &'static [&'static [Step]],
    /// Positions that the second sequence has before the first pass; they hold zeros.
    already: usize,
    /// Tokens that are fed in pieces, whose results must be the same bits.
    tokens: usize,
    /// Those pieces.
    pieces: &'static [usize],
    /// The longest sequence that attends, and the pieces that it is fed in.
    attention: (usize, &'static [usize]),
}

const WHOLE: Extent = Extent {
    script: &[
        &[(0, 37, 1)],
        &[(0, 1, 1)],
        &[(1, 5, 5), (0, 1, 1)],
        &[(1, 64, 0)],
        &[(0, 64, 2), (1, 3, 0)],
        &[(1, 64, 1)],
        &[(1, 64, 1)],
        &[(1, 60, 1)],
        &[(0, 2, 2), (1, 9, 3)],
        &[(1, 1, 1)],
    ],
    already: 0,
    tokens: 70,
    pieces: &[1, 7, 64],
    attention: (1100, &[1, 7, 64]),
};

/// Few and many tokens, a page that fills up in the middle of a span, and each of the edges once.
const BRIEF: Extent = Extent {
    script: &[&[(0, 7, 0)], &[(1, 3, 2), (0, 1, 1)], &[(1, 5, 1)], &[(1, 1, 1)]],
    already: PAGE_TOKENS - 5,
    tokens: 9,
    pieces: &[1, 6],
    attention: (300, &[7]),
};

fn limits(kv_format: KvFormat) -> Limits {
    Limits { max_rows: 80, max_wanted_rows: 80, pages: 8, context: 8 * PAGE_TOKENS, kv_format }
}

fn compile(backend: &dyn Backend, model: &Model, kv_format: KvFormat) -> Box<dyn Compiled> {
    let all = 0..model.graph.nodes.len();
    let job =
        CompileJob { model, ops: std::slice::from_ref(&all), limits: limits(kv_format), packing: Packing::InMemory };
    backend.compile(&job).unwrap_or_else(|error| panic!("compile: {error}"))
}

/// Logits far beyond their cap become the cap, without a NaN on the way.
fn capped_extremes(backend: &dyn Backend, tiny: &TinyModel) {
    let model = &tiny.model;
    for (index, node) in model.graph.nodes.iter().enumerate() {
        let Op::Softcap { value, cap } = node.op else { continue };
        let mut compiled = compile(backend, model, KvFormat::F16);
        let logits = [0.0, 0.02 * cap, -2.0 * cap, 20.0 * cap, 100.0 * cap, -200.0 * cap, 1e30, -1e30];
        compiled.value_mut(value, logits.len()).copy_from_slice(&logits);
        let spans = [Span { sequence: 0, start: 0, count: 1, wanted: 1, pages: &[0] }];
        submit(&mut *compiled, model, &Pass { tokens: &[0], spans: &spans }, index..index + 1);
        for (logit, found) in logits.iter().zip(compiled.value(value, logits.len())) {
            let expected = cap * (logit / cap).tanh();
            assert!((found - expected).abs() <= 1e-5 * cap, "{}: {logit} became {found}", tiny.name);
        }
    }
}

/// Deterministic token ids.
fn token(index: usize, vocab_size: usize) -> u32 {
    (index.wrapping_mul(7919).wrapping_add(index / 3) % vocab_size) as u32
}

/// Runs the whole suite on a device.
///
/// # Panics
/// When the device fails it.
pub fn run(backend: &dyn Backend) {
    run_to(&WHOLE, backend);
}

/// Runs every check of the suite on every model, but with fewer tokens: for a device in an emulator, which computes floats in
/// software.
///
/// # Panics
/// When the device fails it.
pub fn run_briefly(backend: &dyn Backend) {
    run_to(&BRIEF, backend);
}

fn run_to(extent: &Extent, backend: &dyn Backend) {
    for tiny in models() {
        op_by_op(extent, backend, &tiny, KvFormat::F16);
        same_bits(extent, backend, &tiny);
        if tiny.is_for_format {
            // What is not about weights is the same for all formats.
            continue;
        }
        op_by_op(extent, backend, &tiny, KvFormat::F32);
        kv_round_trip(backend, &tiny);
        inputs_are_summed_up(extent, backend, &tiny);
        extremes(backend, &tiny);
    }
    attention_lengths(extent, backend);
    state_of_pages(backend);
}

/// Every op of every scripted pass against the reference, both fed with the reference's values.
fn op_by_op(extent: &Extent, backend: &dyn Backend, tiny: &TinyModel, kv_format: KvFormat) {
    let model = &tiny.model;
    let mut truth = compile(&Reference::new(Precision::Coded), model, kv_format);
    let mut device = compile(backend, model, kv_format);
    // Two sequences with interleaved pages, not in order.
    let mut sequences =
        [Sequence { pages: vec![6, 1, 4], length: 0 }, Sequence { pages: vec![3, 0, 5, 2], length: extent.already }];
    for (number, steps) in extent.script.iter().enumerate() {
        let rows: usize = steps.iter().map(|step| step.1).sum();
        let tokens: Vec<u32> = (0..rows).map(|row| token(number * 101 + row, model.config.vocab_size)).collect();
        let starts: Vec<usize> = steps.iter().map(|&(sequence, ..)| sequences[sequence].length).collect();
        let spans: Vec<Span<'_>> = steps
            .iter()
            .zip(starts)
            .map(|(&(sequence, count, wanted), start)| {
                let pages = &sequences[sequence].pages;
                Span { sequence: sequence as u32, start, count, wanted, pages }
            })
            .collect();
        let pass = Pass { tokens: &tokens, spans: &spans };
        for (index, node) in model.graph.nodes.iter().enumerate() {
            one_op(&mut *truth, &mut *device, model, node, index, &pass, &format!("{} pass {number}", tiny.name));
        }
        for &(sequence, count, _) in *steps {
            sequences[sequence].length += count;
        }
    }
}

/// Numbers that a value holds in this pass.
fn length(model: &Model, value: ValueId, pass: &Pass<'_>) -> usize {
    let value = &model.graph.values[value.0 as usize];
    value.width * if value.wanted_rows_only { pass.wanted_rows() } else { pass.rows() }
}

fn one_op(
    truth: &mut dyn Compiled,
    device: &mut dyn Compiled,
    model: &Model,
    node: &Node,
    index: usize,
    pass: &Pass<'_>,
    place: &str,
) {
    for value in node.op.reads() {
        let length = length(model, value, pass);
        device.value_mut(value, length).copy_from_slice(truth.value(value, length));
    }
    submit(truth, model, pass, index..index + 1);
    submit(device, model, pass, index..index + 1);
    let bound = if node.op.kind() == OpKind::Linear { LINEAR_BOUND } else { OTHER_BOUND };
    for value in node.op.writes() {
        let length = length(model, value, pass);
        let (expected, found) = (truth.value(value, length), device.value(value, length));
        let error = relative_error(expected, found);
        let name = model.graph.values[value.0 as usize].name;
        assert!(error <= bound, "{place}: op {index} {} -> {name}: error {error:e} over {bound:e}", node.op.kind());
    }
    if let Op::ShortConv { state, .. } = node.op {
        for span in pass.spans.iter().filter(|span| span.count > 0) {
            let page = span.pages[(span.start + span.count - 1) / PAGE_TOKENS];
            let (mut expected, mut found) = (vec![0.0; model.graph.states[state].width], Vec::new());
            truth.read_state(state, page, &mut expected);
            found.resize(expected.len(), 1.0);
            device.read_state(state, page, &mut found);
            assert!(relative_error(&expected, &found) <= bound, "{place}: op {index}: another state");
        }
    }
}

/// Largest difference over the largest expected number; infinite where something is not finite.
fn relative_error(expected: &[f32], found: &[f32]) -> f32 {
    let largest = expected.iter().fold(f32::MIN_POSITIVE, |largest, x| largest.max(x.abs()));
    let difference = |(expected, found): (&f32, &f32)| {
        let difference = (expected - found).abs();
        if difference.is_finite() { difference } else { f32::INFINITY }
    };
    expected.iter().zip(found).map(difference).fold(0.0, f32::max) / largest
}

/// Feeds `count` tokens of one sequence in passes of at most `piece`; all logits [count, vocab_size].
fn feed(compiled: &mut dyn Compiled, model: &Model, pages: &[u32], count: usize, piece: usize) -> Vec<f32> {
    let vocab_size = model.config.vocab_size;
    let tokens: Vec<u32> = (0..count).map(|index| token(index, vocab_size)).collect();
    let mut logits = Vec::with_capacity(count * vocab_size);
    for (index, tokens) in tokens.chunks(piece).enumerate() {
        let (start, count) = (index * piece, tokens.len());
        let spans = [Span { sequence: 0, start, count, wanted: count, pages }];
        submit(compiled, model, &Pass { tokens, spans: &spans }, 0..model.graph.nodes.len());
        logits.extend_from_slice(compiled.value(model.graph.logits, count * vocab_size));
    }
    logits
}

fn submit(compiled: &mut dyn Compiled, model: &Model, pass: &Pass<'_>, ops: Range<usize>) {
    let name = &model.config.family;
    compiled.submit(pass, ops).unwrap_or_else(|error| panic!("{name}: {error}"));
    compiled.wait().unwrap_or_else(|error| panic!("{name}: {error}"));
}

/// A row's result depends neither on the other rows nor on how the prompt was cut: equal to the bit.
fn same_bits(extent: &Extent, backend: &dyn Backend, tiny: &TinyModel) {
    let (model, count) = (&tiny.model, extent.tokens);
    let with =
        |pages: &[u32], piece: usize| feed(&mut *compile(backend, model, KvFormat::F16), model, pages, count, piece);
    let whole = with(&[0], count);
    for &piece in extent.pieces {
        assert!(whole == with(&[5], piece), "{}: pieces of {piece} give other bits", tiny.name);
    }

    // The last of these tokens once more, in the company of another sequence.
    let mut compiled = compile(backend, model, KvFormat::F16);
    let last = count - 1;
    feed(&mut *compiled, model, &[2], last, 80);
    let vocab_size = model.config.vocab_size;
    let tokens: Vec<u32> = (0..11).map(|row| token(500 + row, vocab_size)).chain([token(last, vocab_size)]).collect();
    let spans = [
        Span { sequence: 1, start: 0, count: 11, wanted: 2, pages: &[1] },
        Span { sequence: 0, start: last, count: 1, wanted: 1, pages: &[2] },
    ];
    submit(&mut *compiled, model, &Pass { tokens: &tokens, spans: &spans }, 0..model.graph.nodes.len());
    let found = &compiled.value(model.graph.logits, 3 * vocab_size)[2 * vocab_size..];
    assert!(found == &whole[last * vocab_size..], "{}: company gives other bits", tiny.name);
}

/// What a device says its matrices were multiplied with is what stood in its values before each op, and changes no result.
fn inputs_are_summed_up(extent: &Extent, backend: &dyn Backend, tiny: &TinyModel) {
    let (model, name) = (&tiny.model, &tiny.name);
    let tokens: Vec<u32> = (0..extent.tokens).map(|index| token(index, model.config.vocab_size)).collect();
    let spans = [Span { sequence: 0, start: 0, count: tokens.len(), wanted: 2, pages: &[3] }];
    let pass = Pass { tokens: &tokens, spans: &spans };
    // Op by op, and summed up here.
    let mut plain = compile(backend, model, KvFormat::F16);
    let mut expected = Vec::new();
    for (index, node) in model.graph.nodes.iter().enumerate() {
        let numbers = |value: ValueId| plain.value(value, length(model, value, &pass));
        // A register may be wider than what an op reads of it, whose rows stand close together at its beginning.
        let rows_of = |value: ValueId| length(model, value, &pass) / model.graph.values[value.0 as usize].width;
        let summed = match &node.op {
            Op::Linear { input, parts } => {
                let columns = model.weights.matrix(parts[0].matrix).columns();
                Some((
                    parts,
                    1,
                    numbers(*input).chunks_exact(columns).take(rows_of(*input)).map(|row| (0, row)).collect::<Vec<_>>(),
                ))
            }
            Op::ExpertLinear { input, input_per_choice, chosen, experts, used, parts } => {
                let columns = model.weights.matrix(parts[0].matrix).columns();
                let chosen = numbers(*chosen).chunks_exact(2 * used).take(pass.rows()).flat_map(|row| &row[..*used]);
                let rows: Vec<&[f32]> = numbers(*input).chunks_exact(columns).collect();
                let row_of = |choice: usize| rows[if *input_per_choice { choice } else { choice / used }];
                let rows = chosen.enumerate().map(|(choice, expert)| (*expert as usize, row_of(choice)));
                Some((parts, *experts, rows.collect()))
            }
            _ => None,
        };
        if let Some((parts, experts, rows)) = summed {
            for (place, part) in parts.iter().enumerate() {
                let name = |part: &LinearPart| model.weights.matrix(part.matrix).name();
                if parts[..place].iter().any(|before| name(before) == name(part)) {
                    continue;
                }
                let columns = model.weights.matrix(part.matrix).columns();
                let (mut squares, mut counts) = (vec![0.0; experts * columns], vec![0; experts]);
                for (expert, row) in &rows {
                    counts[*expert] += 1;
                    for (column, x) in row.iter().enumerate() {
                        squares[expert * columns + column] += f64::from(*x).powi(2);
                    }
                }
                expected.push(MatrixInputs { matrix: part.matrix, squares, counts });
            }
        }
        submit(&mut *plain, model, &pass, index..index + 1);
    }
    let logits = 2 * model.config.vocab_size;
    let all = 0..model.graph.nodes.len();
    let mut observing = compile(backend, model, KvFormat::F16);
    for _ in 0..2 {
        // The second time anew.
        observing.observe_inputs(true).unwrap_or_else(|error| panic!("{name}: {error}"));
        submit(&mut *observing, model, &pass, all.clone());
        assert!(
            observing.value(model.graph.logits, logits) == plain.value(model.graph.logits, logits),
            "{name}: other bits"
        );
        assert!(observing.observed_inputs() == expected, "{name}: other sums of inputs");
    }
    observing.observe_inputs(false).unwrap_or_else(|error| panic!("{name}: {error}"));
    submit(&mut *observing, model, &pass, all);
    assert!(observing.observed_inputs().is_empty(), "{name}: still observed");
}

/// What `write_kv` wrote, `read_kv` reads, on its own page only; `copy_page` copies that and no more.
fn kv_round_trip(backend: &dyn Backend, tiny: &TinyModel) {
    let model = &tiny.model;
    let mut compiled = compile(backend, model, KvFormat::F16);
    for (cache, config) in model.graph.caches.iter().enumerate() {
        let numbers = |width: usize, seed: usize| -> Vec<f16> {
            (0..20 * config.kv_heads * width).map(|i| f16::from_f32((i * 31 + seed) as f32 % 97.0 - 48.0)).collect()
        };
        let (keys, values) = (numbers(config.key_dim, cache), numbers(config.value_dim, cache + 5));
        compiled.write_kv(cache, 3, 236..PAGE_TOKENS, &keys, &values);
        let read = |compiled: &dyn Compiled, page: u32| {
            let (mut k, mut v) = (vec![f16::ONE; keys.len()], vec![f16::ONE; values.len()]);
            compiled.read_kv(cache, page, 236..PAGE_TOKENS, &mut k, &mut v);
            (k, v)
        };
        assert!(read(&*compiled, 3) == (keys.clone(), values.clone()), "{}: cache {cache}", tiny.name);
        assert!(read(&*compiled, 4).0.iter().all(|x| *x == f16::ZERO), "{}: page 4 was written", tiny.name);
    }
    compiled.copy_page(3, 6, 240);
    for (cache, config) in model.graph.caches.iter().enumerate() {
        let width = config.kv_heads * config.key_dim;
        let read = |page: u32| {
            let (mut k, mut v) = (vec![f16::ONE; 20 * width], vec![f16::ONE; 20 * config.kv_heads * config.value_dim]);
            compiled.read_kv(cache, page, 236..PAGE_TOKENS, &mut k, &mut v);
            k
        };
        let (from, to) = (read(3), read(6));
        assert!(from[..4 * width] == to[..4 * width], "{}: page was not copied", tiny.name);
        assert!(to[4 * width..].iter().all(|x| *x == f16::ZERO), "{}: too much was copied", tiny.name);
    }
}

/// State beside keys and values is kept for each page: a sequence can go back to the end of a full page, pages are copied
/// with their state, and what `write_state` wrote, `read_state` reads.
fn state_of_pages(backend: &dyn Backend) {
    let TinyModel { model, .. } = models::state_model();
    let mut compiled = compile(backend, &model, KvFormat::F16);
    let first = feed(&mut *compiled, &model, &[4, 1], PAGE_TOKENS + 20, 80);
    let vocab_size = model.config.vocab_size;
    let tokens: Vec<u32> = (PAGE_TOKENS..PAGE_TOKENS + 20).map(|index| token(index, vocab_size)).collect();
    let again = |compiled: &mut dyn Compiled, pages: &[u32]| {
        let spans = [Span { sequence: 0, start: PAGE_TOKENS, count: 20, wanted: 20, pages }];
        submit(compiled, &model, &Pass { tokens: &tokens, spans: &spans }, 0..model.graph.nodes.len());
        compiled.value(model.graph.logits, 20 * vocab_size).to_vec()
    };
    let behind = &first[PAGE_TOKENS * vocab_size..];
    assert!(again(&mut *compiled, &[4, 1]) == behind, "back at the end of a page: other bits");
    compiled.copy_page(4, 6, PAGE_TOKENS);
    assert!(again(&mut *compiled, &[6, 3]) == behind, "after a copy: other bits");
    for (state, config) in model.graph.states.iter().enumerate() {
        let numbers: Vec<f32> = (0..config.width).map(|index| index as f32 - 3.5).collect();
        compiled.write_state(state, 2, &numbers);
        let mut read = vec![0.0; config.width];
        compiled.read_state(state, 2, &mut read);
        assert_eq!(read, numbers, "state {state}");
    }
}

/// Attention at every length from 1 to 300 and 1000 to 1100 (as far as the extent goes), with and without a window, however
/// the prompt is cut: within 1e-4 of the reference, and finite.
fn attention_lengths(extent: &Extent, backend: &dyn Backend) {
    for window in [None, Some(16)] {
        // What a sink changes shows in a window, where it is one of few.
        let TinyModel { model, .. } = models::attention_model(window, window.is_some());
        let attends = |node: &Node| matches!(node.op, Op::Attention { .. });
        let index = model.graph.nodes.iter().position(attends).expect("the model attends");
        let Op::Attention { query, key, value, output, .. } = model.graph.nodes[index].op else { unreachable!() };
        let (count, pieces) = extent.attention;
        let pages: Vec<u32> = (0..5).rev().collect();
        let run = |backend: &dyn Backend, piece: usize| {
            let limits = Limits {
                max_rows: piece,
                max_wanted_rows: 1,
                pages: 5,
                context: 5 * PAGE_TOKENS,
                kv_format: KvFormat::F16,
            };
            let all = 0..model.graph.nodes.len();
            let job = CompileJob { model: &model, ops: std::slice::from_ref(&all), limits, packing: Packing::InMemory };
            let mut compiled = backend.compile(&job).unwrap_or_else(|error| panic!("compile: {error}"));
            let mut found = Vec::new();
            for start in (0..count).step_by(piece) {
                let rows = piece.min(count - start);
                for (salt, value) in [query, key, value].into_iter().enumerate() {
                    let width = model.graph.values[value.0 as usize].width;
                    let out = compiled.value_mut(value, rows * width);
                    for (at, x) in out.iter_mut().enumerate() {
                        *x = tensors::noise((start * width + at) as u64 * 3 + salt as u64) * 2.0;
                    }
                }
                let spans = [Span { sequence: 0, start, count: rows, wanted: 0, pages: &pages }];
                submit(&mut *compiled, &model, &Pass { tokens: &vec![0; rows], spans: &spans }, index..index + 1);
                let width = model.graph.values[output.0 as usize].width;
                found.extend_from_slice(compiled.value(output, rows * width));
            }
            found
        };
        let width = model.graph.values[output.0 as usize].width;
        let expected = run(&Reference::new(Precision::Coded), 128);
        let whole = run(backend, 128);
        for length in (1..=count).filter(|length| !(301..1000).contains(length)) {
            let row = (length - 1) * width..length * width;
            let error = relative_error(&expected[row.clone()], &whole[row]);
            assert!(error <= 1e-4, "window {window:?}: {length} keys: error {error:e}");
        }
        for &piece in pieces {
            assert!(run(backend, piece) == whole, "window {window:?}: pieces of {piece} give other bits");
        }
    }
}

/// Values beyond half floats are held at the largest in the cache; NaN in keys shows in the result; scores and logits far
/// beyond a cap are the cap.
fn extremes(backend: &dyn Backend, tiny: &TinyModel) {
    let model = &tiny.model;
    let attends = |node: &Node| matches!(node.op, Op::Attention { .. });
    let index = model.graph.nodes.iter().position(attends).expect("the model attends");
    let Op::Attention { query, key, value, output, sinks, .. } = model.graph.nodes[index].op else { unreachable!() };
    let config = &model.graph.caches[0];
    let attend = |query_number: f32, key_number: f32, value_number: f32| {
        let mut compiled = compile(backend, model, KvFormat::F16);
        for (target, number) in [(query, query_number), (key, key_number), (value, value_number)] {
            let width = model.graph.values[target.0 as usize].width;
            compiled.value_mut(target, width).fill(number);
        }
        let spans = [Span { sequence: 0, start: 0, count: 1, wanted: 0, pages: &[0] }];
        submit(&mut *compiled, model, &Pass { tokens: &[0], spans: &spans }, index..index + 1);
        let (mut keys, mut values) =
            (vec![f16::ZERO; config.kv_heads * config.key_dim], vec![f16::ZERO; config.kv_heads * config.value_dim]);
        compiled.read_kv(0, 0, 0..1, &mut keys, &mut values);
        (compiled.value(output, 1)[0], keys[0].to_f32(), values[0].to_f32())
    };
    // All of the only value, less what the sink takes.
    let sink = sinks.map(|sinks| model.weights.vector(sinks)[0]);
    let share = |score: f32| sink.map_or(1.0, |sink| 1.0 / (1.0 + (sink - score).exp()));
    let is_share =
        |found: f32, expected: f32| (found - expected).abs() <= if sink.is_some() { 1e-5 * expected } else { 0.0 };
    let (found, kept_key, kept_value) = attend(0.0, -1e6, 70_000.0);
    assert_eq!((kept_key, kept_value), (-65504.0, 65504.0), "{}: beyond half floats", tiny.name);
    assert!(is_share(found, 65504.0 * share(0.0)), "{}: {found} of a value beyond half floats", tiny.name);
    assert!(attend(0.0, f32::NAN, 1.0).0.is_nan(), "{}: NaN in a key was hidden", tiny.name);
    assert!(attend(0.0, 1.0, f32::NAN).0.is_nan(), "{}: NaN in a value was hidden", tiny.name);
    for score in [1e10, -1e10] {
        let found = attend(1e5, score * 6e-6, 2.0).0;
        assert_eq!(found, 2.0 * share(score), "{}: a score of the order of {score:e}", tiny.name);
    }
    capped_extremes(backend, tiny);
}
