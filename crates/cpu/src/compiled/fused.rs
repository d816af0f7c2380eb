//! Ops that run together, as [`fusion`](super::fusion) found them.
//!
//! A kernel stores the sums of some panels and some tokens as ever, only into the worker's own memory, and what comes next is
//! applied to them there, by a task of its own. The kernels know nothing of it: an epilogue inside of them would be compiled
//! sixteen formats times the instruction sets of a kind of CPU, and the second cache, from which it reads now, is as near as needed. The
//! worker's own memory rather than the values' buffers, because in those the rows of a piece are as far apart as a row is
//! wide, mostly a power of two: hundreds of them would push each other out of the cache.

use std::ops::Range;

use duan_backend::Pass;
use duan_model::config::ActivationFunction;
use duan_model::graph::{LinearPart, Op};
use duan_quant::activation::GROUP;

use super::fusion::{Input, Run, Step, Then};
use super::matrices::{Grain, code_input};
use super::{CpuModel, SMALL, Scratch};
use crate::activations::{CodeRow, Coded, Group};
use crate::isa::Isa;
use crate::kernels::integer::BLOCK_TOKENS;
use crate::kernels::{self, Job, TokenRows, Weights};
use crate::ops::elementwise::{Add, GatedAct};
use crate::ops::norm::Norm;
use crate::self_test::Picked;
use crate::shared::SharedSlice;
use crate::simd::{PANEL_ROWS, Simd, Task};

/// Panels whose sums are passed on together while there are as many tokens as kernels take at once.
const BLOCK_PANELS: usize = 4;
/// Sums of one matrix that a worker has room for.
pub(super) const BLOCK_SUMS: usize = BLOCK_TOKENS * BLOCK_PANELS * PANEL_ROWS;
/// Panels that make up whole groups of codes.
const GROUP_PANELS: usize = GROUP / PANEL_ROWS;

impl CpuModel {
    /// Ops that run together, one line for each kind of step.
    pub(super) fn run_together(&mut self, run: &Run, pass: &Pass<'_>) {
        let (graph, rows) = (self.model.graph.clone(), pass.rows());
        for step in &run.steps {
            match *step {
                Step::Op(node) => self.run(&graph.nodes[node].op, pass),
                Step::Norm { node, keep } => self.norm_and_code(&graph.nodes[node].op, keep, pass),
                Step::Matrices { node, input, then } => match (&graph.nodes[node].op, then) {
                    (Op::Linear { input: value, parts }, Then::Nothing) => {
                        self.linear(self.rows_of(*value, pass), rows, *value, parts, input);
                    }
                    (op @ Op::ExpertLinear { .. }, Then::Nothing) => self.expert_linear(op, rows, input),
                    (op, Then::Gate { node, code, keep }) => {
                        self.matrices_and_gate(op, &graph.nodes[node].op, input, (code, keep), pass);
                    }
                    (op, Then::Add { node }) => self.matrix_and_add(op, &graph.nodes[node].op, input, pass),
                    _ => unreachable!("a step of matrices for another op"),
                },
            }
            self.note_time(step.nodes());
        }
    }

    /// Each row is normalized and coded by the same worker, in its own memory where nobody reads the floats.
    fn norm_and_code(&mut self, op: &Op, keep: bool, pass: &Pass<'_>) {
        let Op::Norm { input, weight, bias, width, groups, norm, output } = *op else { return };
        let rows = self.rows_of(input, pass);
        let (workers, isa) = (self.workers(rows), self.isa);
        let mut out = self.take(output);
        // In place there is no other input.
        let from = if input == output { None } else { Some(&self.values[input.0 as usize]) };
        let weights = &self.model.weights;
        let (weight, bias) = (weights.vector(weight), bias.map(|bias| &weights.vector(bias)[..]));
        let (group, codes) = (width / groups, width / GROUP);
        let shared_out = SharedSlice::new(&mut out[..rows * width]);
        let coded = self.coded.fill(rows, width);
        let scratch = SharedSlice::new(&mut self.scratch);
        let rows_per_piece = if rows * width < SMALL { rows.max(1) } else { rows.div_ceil(workers * 4) };
        self.pool.run(rows.div_ceil(rows_per_piece), workers, &|piece, worker| {
            // SAFETY: each worker has a number of its own, and uses the scratch of that number only.
            let own = &mut unsafe { scratch.part(worker..worker + 1) }[0].row;
            for row in piece * rows_per_piece..rows.min((piece + 1) * rows_per_piece) {
                let place = row * width..(row + 1) * width;
                // SAFETY: each row is in one piece.
                let kept = unsafe { shared_out.part(place.clone()) };
                let values = if keep {
                    if let Some(from) = from {
                        kept.copy_from_slice(&from[place]);
                    }
                    kept
                } else {
                    own[..width].copy_from_slice(from.map_or(&*kept, |from| &from[place]));
                    &mut own[..width]
                };
                isa.run(Norm { values, group, weight, bias, norm });
                // SAFETY: as above.
                let to = unsafe { coded.part(row * codes..(row + 1) * codes) };
                isa.run(CodeRow { from: values, to });
            }
        });
        self.give(output, out);
    }

    /// Gate, up and activation, of a `Linear` or of the experts that rows chose. `kinds`: whether the products are coded, and
    /// whether their floats are kept.
    fn matrices_and_gate(&mut self, op: &Op, gated: &Op, input: Input, kinds: (bool, bool), pass: &Pass<'_>) {
        let Op::GatedAct { gate, width, output, activation, .. } = *gated else { return };
        let (value, parts) = match op {
            Op::Linear { input, parts } | Op::ExpertLinear { input, parts, .. } => (*input, parts),
            _ => return,
        };
        let experts = if let Op::ExpertLinear { chosen, experts, used, .. } = *op {
            self.assignment.sort(&self.values[chosen.0 as usize][..pass.rows() * 2 * used], used, experts);
            Some(used)
        } else {
            None
        };
        let used = experts.unwrap_or(1);
        let tokens = self.rows_of(value, pass);
        if tokens == 0 {
            return;
        }
        let (workers, isa, inner) = (self.workers(pass.rows()), self.isa, width / used);
        let mut out = self.take(output);
        let columns = self.weights.get(parts[0].matrix).columns;
        let floats = &self.values[value.0 as usize][..tokens * columns];
        let matrices = parts.iter().map(|part| self.weights.get(part.matrix));
        let (pool, buffers) = (&mut self.pool, [&mut self.coded, &mut self.products]);
        let order = self.weights.order(parts[0].matrix);
        let (codes, products) = code_input(pool, workers, isa, (input, order), buffers, matrices, floats);
        let (code, keep) = kinds;
        let products = Products {
            inner,
            floats: keep.then(|| SharedSlice::new(&mut out[..tokens * width])),
            codes: match (code, products) {
                (true, Some(products)) => Some(products.fill(tokens * used, inner)),
                (true, None) => unreachable!("the activations lie where their products are to go"),
                (false, _) => None,
            },
        };
        // The gate may be the second part.
        let gate_first = parts[0].output == gate;
        let (gate, up) = if gate_first { (&parts[0], &parts[1]) } else { (&parts[1], &parts[0]) };
        let (weights, vectors, assignment) = (&self.weights, &self.model.weights, &self.assignment);
        let of = |part: &LinearPart, index: usize| Source {
            weights: weights.part(part.matrix, index),
            bias: part.bias.map(|bias| &vectors.vector(bias)[index * inner..(index + 1) * inner]),
            kernel: weights.kernel(part.matrix),
        };
        let times = if experts.is_some() { assignment.active().len() } else { 1 };
        let shape = weights.get(gate.matrix);
        let grain = Grain::of_two(&shape, pass.rows(), GROUP_PANELS);
        let units_each = grain.units(&shape);
        let scratch = SharedSlice::new(&mut self.scratch);
        pool.run_ranges(units_each * times, grain.least, workers, &|units, worker| {
            // SAFETY: each worker has a number of its own, and uses the scratch of that number only.
            let scratch = &mut unsafe { scratch.part(worker..worker + 1) }[0];
            for at in units.start / units_each..units.end.div_ceil(units_each) {
                let Some(panels) = grain.panels(&shape, at * units_each, &units) else { continue };
                let (index, tokens, inputs, outputs) = if experts.is_some() {
                    let expert = assignment.active()[at] as usize;
                    let (choices, rows) = assignment.of(expert);
                    (expert, choices.len(), TokenRows::Listed(rows), TokenRows::Listed(choices))
                } else {
                    (0, tokens, TokenRows::From(0), TokenRows::From(0))
                };
                let activations = Activations { floats, codes, tokens, inputs };
                let (gate, up) = (of(gate, index), of(up, index));
                let piece = Gating { isa, gate, up, activations, outputs, activation, products: &products };
                piece.compute(panels, scratch);
            }
        });
        self.give(output, out);
    }

    /// A matrix, whose result joins another value.
    fn matrix_and_add(&mut self, op: &Op, add: &Op, input: Input, pass: &Pass<'_>) {
        let (Op::Linear { input: value, parts }, &Op::Add { factor, target, .. }) = (op, add) else { return };
        let tokens = self.rows_of(*value, pass);
        if tokens == 0 {
            return;
        }
        let (workers, isa, part) = (self.workers(pass.rows()), self.isa, &parts[0]);
        let mut out = self.take(target);
        let weights = self.weights.get(part.matrix);
        let floats = &self.values[value.0 as usize][..tokens * weights.columns];
        let (pool, buffers) = (&mut self.pool, [&mut self.coded, &mut self.products]);
        let input = (input, self.weights.order(part.matrix));
        let (codes, _) = code_input(pool, workers, isa, input, buffers, std::iter::once(weights), floats);
        let bias = part.bias.map(|bias| &self.model.weights.vector(bias)[..]);
        let matrix = Source { weights, bias, kernel: self.weights.kernel(part.matrix) };
        let activations = Activations { floats, codes, tokens, inputs: TokenRows::From(0) };
        let sums = SharedSlice::new(&mut out[..tokens * weights.rows]);
        let piece = Adding { isa, matrix, activations, target: sums, factor };
        let scratch = SharedSlice::new(&mut self.scratch);
        let grain = Grain::of(&weights, tokens);
        pool.run_ranges(grain.units(&weights), grain.least, workers, &|units, worker| {
            let Some(panels) = grain.panels(&weights, 0, &units) else { return };
            // SAFETY: each worker has a number of its own, and uses the scratch of that number only.
            piece.compute(panels, &mut unsafe { scratch.part(worker..worker + 1) }[0]);
        });
        self.give(target, out);
    }
}

/// What matrices are multiplied with.
#[derive(Clone, Copy)]
struct Activations<'a> {
    floats: &'a [f32],
    codes: Option<&'a Coded>,
    tokens: usize,
    inputs: TokenRows<'a>,
}

/// A matrix whose sums are passed on.
#[derive(Clone, Copy)]
struct Source<'a> {
    weights: Weights<'a>,
    bias: Option<&'a [f32]>,
    kernel: Picked,
}

impl Source<'_> {
    /// The sums of some panels for some of the tokens [tokens, rows], at the beginning of `to`.
    fn sums<'a>(
        &self,
        activations: &Activations<'_>,
        (tokens, panels): (Range<usize>, Range<usize>),
        scratch: &mut kernels::Scratch,
        to: &'a mut [f32],
    ) -> &'a mut [f32] {
        let Activations { floats, codes, inputs, .. } = *activations;
        let Source { weights, bias, kernel } = *self;
        let out_rows = panels.start * PANEL_ROWS..weights.rows.min(panels.end * PANEL_ROWS);
        let to = &mut to[..tokens.len() * out_rows.len()];
        let job = Job {
            weights,
            bias,
            floats,
            tokens: tokens.len(),
            inputs: inputs.part(tokens),
            outputs: TokenRows::From(0),
            out: SharedSlice::new(to),
            out_rows,
        };
        kernel.run(&job, codes, panels, scratch);
        to
    }
}

/// Cuts tokens and panels into blocks whose sums a worker has room for, in the order in which kernels go through them.
fn blocks(tokens: usize, panels: Range<usize>) -> impl Iterator<Item = (Range<usize>, Range<usize>)> {
    (0..tokens).step_by(BLOCK_TOKENS).flat_map(move |first| {
        let tokens = first..tokens.min(first + BLOCK_TOKENS);
        // An even number, as kernels take panels in pairs.
        let count = BLOCK_SUMS / (PANEL_ROWS * tokens.len()) / 2 * 2;
        let end = panels.end;
        panels.clone().step_by(count).map(move |first| (tokens.clone(), first..end.min(first + count)))
    })
}

/// Where products go [rows, inner], each kind where it is wanted.
#[derive(Clone, Copy)]
struct Products<'a> {
    inner: usize,
    floats: Option<SharedSlice<'a, f32>>,
    codes: Option<SharedSlice<'a, Group>>,
}

/// Gate and up of one matrix each, and their product.
struct Gating<'a> {
    isa: Isa,
    gate: Source<'a>,
    up: Source<'a>,
    activations: Activations<'a>,
    /// Rows of the products.
    outputs: TokenRows<'a>,
    activation: ActivationFunction,
    products: &'a Products<'a>,
}

impl Gating<'_> {
    /// Some panels for all tokens.
    fn compute(&self, panels: Range<usize>, scratch: &mut Scratch) {
        let Scratch { kernel, sums: [gate, up], .. } = scratch;
        for (tokens, panels) in blocks(self.activations.tokens, panels) {
            let block = || (tokens.clone(), panels.clone());
            let gate = self.gate.sums(&self.activations, block(), kernel, gate);
            let up = self.up.sums(&self.activations, block(), kernel, up);
            let (activation, products) = (self.activation, *self.products);
            let outputs = self.outputs.part(tokens.clone());
            let first = panels.start * PANEL_ROWS;
            self.isa.run(Gate { gate, up, tokens: tokens.len(), first, outputs, activation, products });
        }
    }
}

/// The products of a block.
struct Gate<'a> {
    /// [tokens, rows of the panels]
    gate: &'a mut [f32],
    up: &'a [f32],
    tokens: usize,
    /// The first of the rows.
    first: usize,
    outputs: TokenRows<'a>,
    activation: ActivationFunction,
    products: Products<'a>,
}

impl Task for Gate<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let Self { gate, up, tokens, first, outputs, activation, products } = self;
        GatedAct { gate: &mut *gate, up, activation }.run(s);
        let width = gate.len() / tokens;
        for (token, from) in gate.chunks_exact(width).enumerate() {
            let start = outputs.of(token) * products.inner + first;
            if let Some(floats) = &products.floats {
                // SAFETY: a row of the matrices is in one piece of work, and belongs to one product of each token.
                unsafe { floats.part(start..start + width) }.copy_from_slice(from);
            }
            // Products that are coded are whole groups, and so are the pieces that they are shared out in.
            if let Some(codes) = &products.codes {
                // SAFETY: as above.
                let to = unsafe { codes.part(start / GROUP..(start + width) / GROUP) };
                CodeRow { from, to }.run(s);
            }
        }
    }
}

/// A matrix, and what its sums are added to.
struct Adding<'a> {
    isa: Isa,
    matrix: Source<'a>,
    activations: Activations<'a>,
    /// [tokens, rows]
    target: SharedSlice<'a, f32>,
    factor: f32,
}

impl Adding<'_> {
    /// Some panels for all tokens.
    fn compute(&self, panels: Range<usize>, scratch: &mut Scratch) {
        let Scratch { kernel, sums: [sums, _], .. } = scratch;
        for (tokens, panels) in blocks(self.activations.tokens, panels) {
            let sums = self.matrix.sums(&self.activations, (tokens.clone(), panels.clone()), kernel, sums);
            let (rows, first) = (self.matrix.weights.rows, panels.start * PANEL_ROWS);
            self.isa.run(AddBlock { sums, tokens, first, rows, target: self.target, factor: self.factor });
        }
    }
}

/// Adds a block.
struct AddBlock<'a> {
    /// [tokens, rows of the panels]
    sums: &'a [f32],
    tokens: Range<usize>,
    /// The first of the rows.
    first: usize,
    /// Rows of the matrix.
    rows: usize,
    /// [all tokens, rows]
    target: SharedSlice<'a, f32>,
    factor: f32,
}

impl Task for AddBlock<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let Self { sums, tokens, first, rows, target, factor } = self;
        let width = sums.len() / tokens.len();
        for (token, addend) in tokens.zip(sums.chunks_exact(width)) {
            let start = token * rows + first;
            // SAFETY: a row of the matrix is in one piece of work, and belongs to one number of each token.
            let target = unsafe { target.part(start..start + width) };
            Add { target, addend, factor }.run(s);
        }
    }
}
