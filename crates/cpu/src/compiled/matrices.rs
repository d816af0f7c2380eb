//! The ops that read matrices: activations are coded once for all of them, rows are shared out among the workers.

use std::ops::Range;

use duan_backend::Pass;
use duan_model::graph::{LinearPart, Op, ValueId};
use duan_model::weights::MatrixId;
use duan_quant::Activation;
use duan_quant::activation::GROUP;

use super::fusion::Input;
use super::{CpuModel, SMALL};
use crate::activations::{CodeOrdered, CodeRow, Coded};
use crate::isa::Isa;
use crate::kernels::integer::FEW_TOKENS;
use crate::kernels::{self, Job, TokenRows, Weights};
use crate::pool::Pool;
use crate::self_test::Picked;
use crate::shared::SharedSlice;
use crate::simd::PANEL_ROWS;

/// The most matrices that one op may have.
const MAX_PARTS: usize = 4;
/// Panels of a matrix in a unit of work while many tokens are computed: kernels take them by twos.
const PREFILL_PANELS: usize = 4;
/// The fewest bytes of weights in a piece of work while few tokens are computed: less is read before the next piece is taken.
const LEAST_BYTES: usize = 32 << 10;

impl CpuModel {
    /// Whether matrices read their input in the same order, so that it can be coded once for all.
    fn share_an_order(&self, parts: &[LinearPart]) -> bool {
        let order = |part: &LinearPart| self.weights.order(part.matrix);
        // The first of two equal ones is mostly the second too.
        let are_same = |a: Option<&[u32]>, b: Option<&[u32]>| match (a, b) {
            (None, None) => true,
            (Some(a), Some(b)) => std::ptr::eq(a, b) || a == b,
            _ => false,
        };
        parts.windows(2).all(|pair| are_same(order(&pair[0]), order(&pair[1])))
    }

    pub(super) fn embed(&mut self, pass: &Pass<'_>, table: MatrixId, scale: f32, output: ValueId) {
        let workers = self.workers(pass.rows());
        let (table, order) = (self.weights.get(table), self.weights.order(table));
        let width = table.columns;
        let out = &mut self.values[output.0 as usize][..pass.rows() * width];
        let scratch = SharedSlice::new(&mut self.scratch);
        let rows_per_piece = if out.len() < SMALL { pass.rows() } else { pass.rows().div_ceil(workers * 4) };
        let out = SharedSlice::new(out);
        self.pool.run(pass.rows().div_ceil(rows_per_piece), workers, &|piece, worker| {
            // SAFETY: each worker has a number of its own, and uses the scratch of that number only.
            let kernels::Scratch { row_bytes, row: sorted, .. } =
                &mut unsafe { scratch.part(worker..worker + 1) }[0].kernel;
            for row in piece * rows_per_piece..pass.rows().min((piece + 1) * rows_per_piece) {
                // SAFETY: each row is in one piece.
                let out = unsafe { out.part(row * width..(row + 1) * width) };
                let bytes = table.row(pass.tokens[row] as usize, row_bytes);
                match order {
                    None => (table.format.dequantize)(bytes, out),
                    Some(order) => {
                        let sorted = &mut sorted[..width];
                        (table.format.dequantize)(bytes, sorted);
                        sorted.iter().zip(order).for_each(|(x, &column)| out[column as usize] = *x);
                    }
                }
                if scale != 1.0 {
                    out.iter_mut().for_each(|x| *x *= scale);
                }
            }
        });
    }

    /// `tokens` rows go through each matrix; `pass_rows` decides the phase.
    pub(super) fn linear(
        &mut self,
        tokens: usize,
        pass_rows: usize,
        value: ValueId,
        parts: &[LinearPart],
        input: Input,
    ) {
        if tokens == 0 {
            return;
        }
        assert!(parts.len() <= MAX_PARTS, "{} matrices in one op", parts.len());
        if !self.share_an_order(parts) {
            // What they read is coded for each anew; so nobody left it coded.
            parts.chunks(1).for_each(|part| self.linear(tokens, pass_rows, value, part, input));
            return;
        }
        let (workers, isa) = (self.workers(pass_rows), self.isa);
        let mut outs: [Vec<f32>; MAX_PARTS] = Default::default();
        for (out, part) in outs.iter_mut().zip(parts) {
            *out = self.take(part.output);
        }
        let weights = &self.weights;
        let columns = weights.get(parts[0].matrix).columns;
        let floats = &self.values[value.0 as usize][..tokens * columns];
        let (pool, buffers) = (&mut self.pool, [&mut self.coded, &mut self.products]);
        let matrices = parts.iter().map(|part| weights.get(part.matrix));
        let order = weights.order(parts[0].matrix);
        let (codes, _) = code_input(pool, workers, isa, (input, order), buffers, matrices, floats);

        let vectors = &self.model.weights;
        let mut outs_left = outs.iter_mut();
        let jobs: [Option<(Job<'_>, Picked)>; MAX_PARTS] = std::array::from_fn(|index| {
            let (part, out) = (parts.get(index)?, outs_left.next()?);
            let matrix = weights.get(part.matrix);
            let bias = part.bias.map(|bias| &vectors.vector(bias)[..]);
            let out = SharedSlice::new(&mut out[..tokens * matrix.rows]);
            Some((Job::whole(matrix, bias, floats, tokens, out), weights.kernel(part.matrix)))
        });
        let grain = Grain::of(&weights.get(parts[0].matrix), tokens);
        let scratch = SharedSlice::new(&mut self.scratch);
        let at_once = if self.runs.together { MAX_PARTS } else { 1 };
        for jobs in jobs.chunks(at_once) {
            let units = jobs.iter().flatten().map(|(job, _)| grain.units(&job.weights)).sum();
            pool.run_ranges(units, grain.least, workers, &|units, worker| {
                // SAFETY: each worker has a number of its own, and uses the scratch of that number only.
                let scratch = &mut unsafe { scratch.part(worker..worker + 1) }[0];
                let mut first = 0;
                for (job, kernel) in jobs.iter().flatten() {
                    if let Some(panels) = grain.panels(&job.weights, first, &units) {
                        kernel.run(job, codes, panels, &mut scratch.kernel);
                    }
                    first += grain.units(&job.weights);
                }
            });
        }
        for (out, part) in outs.into_iter().zip(parts) {
            self.give(part.output, out);
        }
    }

    /// Each expert computes all rows that chose it, so that its weights are read once.
    pub(super) fn expert_linear(&mut self, op: &Op, rows: usize, input: Input) {
        let Op::ExpertLinear { chosen, experts, used, ref parts, .. } = *op else { return };
        assert!(parts.len() <= MAX_PARTS, "{} matrices in one op", parts.len());
        self.assignment.sort(&self.values[chosen.0 as usize][..rows * 2 * used], used, experts);
        let at_once = if self.share_an_order(parts) { MAX_PARTS } else { 1 };
        parts.chunks(at_once).for_each(|parts| self.expert_matrices(op, parts, rows, input));
    }

    /// Some of the matrices of an op of experts, which read their input in one order.
    fn expert_matrices(&mut self, op: &Op, parts: &[LinearPart], rows: usize, input: Input) {
        let Op::ExpertLinear { input: value, input_per_choice, used, .. } = *op else { return };
        let (workers, isa) = (self.workers(rows), self.isa);
        let mut outs: [Vec<f32>; MAX_PARTS] = Default::default();
        for (out, part) in outs.iter_mut().zip(parts) {
            *out = self.take(part.output);
        }
        let weights = &self.weights;
        let matrix_of = |part: &LinearPart| weights.get(part.matrix);
        let columns = matrix_of(&parts[0]).columns;
        let input_rows = if input_per_choice { rows * used } else { rows };
        let floats = &self.values[value.0 as usize][..input_rows * columns];
        let (pool, buffers) = (&mut self.pool, [&mut self.coded, &mut self.products]);
        let order = weights.order(parts[0].matrix);
        let (codes, _) = code_input(pool, workers, isa, (input, order), buffers, parts.iter().map(matrix_of), floats);

        let (assignment, vectors) = (&self.assignment, &self.model.weights);
        let mut outs_left = outs.iter_mut();
        let outputs: [Option<(&LinearPart, Weights<'_>, SharedSlice<'_, f32>)>; MAX_PARTS] =
            std::array::from_fn(|index| {
                let (part, out) = (parts.get(index)?, outs_left.next()?);
                let first = matrix_of(part);
                Some((part, first, SharedSlice::new(&mut out[..rows * used * first.rows])))
            });
        let grain = Grain::of(&matrix_of(&parts[0]), rows);
        let units_per_expert: usize = outputs.iter().flatten().map(|output| grain.units(&output.1)).sum();
        let scratch = SharedSlice::new(&mut self.scratch);
        pool.run_ranges(units_per_expert * assignment.active().len(), grain.least, workers, &|units, worker| {
            // SAFETY: each worker has a number of its own, and uses the scratch of that number only.
            let scratch = &mut unsafe { scratch.part(worker..worker + 1) }[0];
            for index in units.start / units_per_expert..units.end.div_ceil(units_per_expert) {
                let expert = assignment.active()[index] as usize;
                let (choices, choosers) = assignment.of(expert);
                let inputs = TokenRows::Listed(if input_per_choice { choices } else { choosers });
                let mut first_unit = index * units_per_expert;
                for &(part, first, out) in outputs.iter().flatten() {
                    if let Some(panels) = grain.panels(&first, first_unit, &units) {
                        let bias = part.bias.map(|bias| &vectors.vector(bias)[expert * first.rows..][..first.rows]);
                        let (weights, kernel) = (weights.part(part.matrix, expert), weights.kernel(part.matrix));
                        let outputs = TokenRows::Listed(choices);
                        let job = Job { inputs, outputs, ..Job::whole(weights, bias, floats, choices.len(), out) };
                        kernel.run(&job, codes, panels, &mut scratch.kernel);
                    }
                    first_unit += grain.units(&first);
                }
            }
        });
        for (out, part) in outs.into_iter().zip(parts) {
            self.give(part.output, out);
        }
    }
}

/// The codes of activations that `matrices` read in one order, which are made here where nobody left them; and the buffer for
/// products, where these are not what is read.
pub(super) fn code_input<'a, 'w>(
    pool: &mut Pool,
    workers: usize,
    isa: Isa,
    (input, order): (Input, Option<&[u32]>),
    [coded, products]: [&'a mut Coded; 2],
    mut matrices: impl Iterator<Item = Weights<'w>>,
    floats: &[f32],
) -> (Option<&'a Coded>, Option<&'a mut Coded>) {
    let Some(matrix) = matrices.find(|matrix| matrix.format.activation == Activation::Int8) else {
        return (None, Some(products));
    };
    let columns = matrix.columns;
    match input {
        Input::Normed => (Some(coded), Some(products)),
        Input::Products => (Some(products), None),
        Input::Value if coded.has_room(floats.len() / columns, columns) => {
            code(pool, workers, isa, coded, (floats, order), columns);
            (Some(coded), Some(products))
        }
        // What is read as products where ops run together, and has its room there.
        Input::Value => {
            code(pool, workers, isa, products, (floats, order), columns);
            (Some(products), None)
        }
    }
}

/// Codes activations [rows, columns], each row in an order where there is one [columns].
fn code(
    pool: &mut Pool,
    workers: usize,
    isa: Isa,
    coded: &mut Coded,
    (floats, order): (&[f32], Option<&[u32]>),
    columns: usize,
) {
    let rows = floats.len() / columns;
    let groups = columns / GROUP;
    let writer = coded.fill(rows, columns);
    // A single row is coded by the caller alone; many are shared out.
    pool.run(rows, workers, &|row, _| {
        // SAFETY: each row is one piece of work.
        let to = unsafe { writer.part(row * groups..(row + 1) * groups) };
        let from = &floats[row * columns..][..columns];
        match order {
            None => isa.run(CodeRow { from, to }),
            Some(order) => isa.run(CodeOrdered { from, order, to }),
        }
    });
}

/// How the panels of an op's matrices are handed out: in units that stand one matrix after the other.
#[derive(Clone, Copy)]
pub(crate) struct Grain {
    /// Panels of a unit.
    unit: usize,
    /// The fewest units in a piece of work.
    pub(crate) least: usize,
}

impl Grain {
    /// For matrices like `weights` and so many tokens.
    pub(crate) fn of(weights: &Weights<'_>, tokens: usize) -> Self {
        if tokens > FEW_TOKENS {
            return Self { unit: PREFILL_PANELS, least: 1 };
        }
        Self { unit: 1, least: (LEAST_BYTES / (PANEL_ROWS * weights.row_bytes())).max(1) }
    }

    /// For two matrices like `weights`, the same panels of both at once, of which `unit` are not to be parted.
    pub(super) fn of_two(weights: &Weights<'_>, tokens: usize, unit: usize) -> Self {
        let least = if tokens > FEW_TOKENS { 1 } else { LEAST_BYTES / (2 * unit * PANEL_ROWS * weights.row_bytes()) };
        Self { unit, least: least.max(1) }
    }

    /// Units of a matrix.
    pub(crate) fn units(self, weights: &Weights<'_>) -> usize {
        weights.panels().div_ceil(self.unit)
    }

    /// The panels of a matrix, the units of which begin at `first`, that are in `units`.
    pub(crate) fn panels(self, weights: &Weights<'_>, first: usize, units: &Range<usize>) -> Option<Range<usize>> {
        let start = units.start.saturating_sub(first) * self.unit;
        let end = (units.end.saturating_sub(first) * self.unit).min(weights.panels());
        (start < end).then_some(start..end)
    }
}
