//! The ops that read matrices: activations are coded once for all of them, rows are shared out among the workers.

use duan_backend::Pass;
use duan_model::graph::{LinearPart, Op, ValueId};
use duan_model::weights::MatrixId;
use duan_quant::Activation;

use super::CpuModel;
use crate::activations::{CodeRow, Coded};
use crate::isa::Isa;
use crate::kernels::{Job, Places, Run};
use crate::pool::Pool;
use crate::shared::SharedSlice;

/// The most matrices that one op may have.
const MAX_PARTS: usize = 4;
/// Rows of a matrix in one piece of work while many tokens are computed.
const PREFILL_ROWS: usize = 32;
/// Pieces of work per worker while one token is computed.
const DECODE_PIECES: usize = 8;

impl CpuModel {
    pub(super) fn embed(&mut self, pass: &Pass<'_>, table: MatrixId, scale: f32, output: ValueId) {
        let workers = self.workers(pass.rows());
        let matrix = self.model.weights.matrix(table);
        let width = matrix.columns();
        let out = &mut self.values[output.0 as usize][..pass.rows() * width];
        Self::each_row(&mut self.pool, workers, out, width, &|first, part| {
            for (row, &token) in part.chunks_exact_mut(width).zip(&pass.tokens[first..]) {
                (matrix.format().dequantize)(matrix.row(token as usize), row);
                if scale != 1.0 {
                    row.iter_mut().for_each(|x| *x *= scale);
                }
            }
        });
    }

    /// `tokens` rows go through each matrix; `pass_rows` decides the phase.
    pub(super) fn linear(&mut self, tokens: usize, pass_rows: usize, input: ValueId, parts: &[LinearPart]) {
        if tokens == 0 {
            return;
        }
        assert!(parts.len() <= MAX_PARTS, "{} matrices in one op", parts.len());
        let (workers, isa) = (self.workers(pass_rows), self.isa);
        let mut outs: [Vec<f32>; MAX_PARTS] = Default::default();
        for (out, part) in outs.iter_mut().zip(parts) {
            *out = self.take(part.output);
        }
        let weights = &self.model.weights;
        let columns = weights.matrix(parts[0].matrix).columns();
        let floats = &self.values[input.0 as usize][..tokens * columns];
        let is_coded = |part: &LinearPart| weights.matrix(part.matrix).format().activation == Activation::Int8;
        let coded = parts.iter().any(is_coded);
        if coded {
            code(&mut self.pool, workers, isa, &mut self.coded, floats, columns);
        }
        let coded = coded.then_some(&self.coded);

        let mut outs_left = outs.iter_mut();
        let jobs: [Option<(Job<'_>, Run)>; MAX_PARTS] = std::array::from_fn(|index| {
            let (part, out) = (parts.get(index)?, outs_left.next()?);
            let matrix = weights.matrix(part.matrix);
            let bias = part.bias.map(|bias| &weights.vector(bias)[..]);
            let out = SharedSlice::new(&mut out[..tokens * matrix.rows()]);
            Some((Job { matrix, bias, floats, tokens, places: None, out }, self.kernels[part.matrix.0 as usize]))
        });
        let total: usize = jobs.iter().flatten().map(|(job, _)| job.matrix.rows()).sum();
        let rows_per_piece = rows_per_piece(total, workers, tokens);
        let pieces = jobs.iter().flatten().map(|(job, _)| job.matrix.rows().div_ceil(rows_per_piece)).sum();
        let scratch = SharedSlice::new(&mut self.scratch);
        self.pool.run(pieces, workers, &|mut piece, worker| {
            // SAFETY: each worker has a number of its own, and uses the scratch of that number only.
            let scratch = &mut unsafe { scratch.part(worker..worker + 1) }[0];
            for (job, run) in jobs.iter().flatten() {
                let own = job.matrix.rows().div_ceil(rows_per_piece);
                if piece < own {
                    let first = piece * rows_per_piece;
                    let rows = first..job.matrix.rows().min(first + rows_per_piece);
                    return run(isa, job, coded, rows, &mut scratch.kernel);
                }
                piece -= own;
            }
        });
        for (out, part) in outs.into_iter().zip(parts) {
            self.give(part.output, out);
        }
    }

    /// Each expert computes all rows that chose it, so that its weights are read once.
    pub(super) fn expert_linear(&mut self, op: &Op, rows: usize) {
        let Op::ExpertLinear { input, input_per_choice, chosen, experts, used, ref parts } = *op else { return };
        assert!(parts.len() <= MAX_PARTS, "{} matrices in one op", parts.len());
        let (workers, isa) = (self.workers(rows), self.isa);
        self.assignment.sort(&self.values[chosen.0 as usize][..rows * 2 * used], used, experts);
        let mut outs: [Vec<f32>; MAX_PARTS] = Default::default();
        for (out, part) in outs.iter_mut().zip(parts) {
            *out = self.take(part.output);
        }
        let weights = &self.model.weights;
        let matrix_of = |part: &LinearPart| weights.matrix(part.matrix);
        let columns = matrix_of(&parts[0]).columns();
        let input_rows = if input_per_choice { rows * used } else { rows };
        let floats = &self.values[input.0 as usize][..input_rows * columns];
        let coded = parts.iter().any(|part| matrix_of(part).format().activation == Activation::Int8);
        if coded {
            code(&mut self.pool, workers, isa, &mut self.coded, floats, columns);
        }
        let coded = coded.then_some(&self.coded);

        let (assignment, kernels, experts_of) = (&self.assignment, &self.kernels, &self.experts);
        let mut outs_left = outs.iter_mut();
        let outputs: [Option<(&LinearPart, usize, SharedSlice<'_, f32>)>; MAX_PARTS] = std::array::from_fn(|index| {
            let (part, out) = (parts.get(index)?, outs_left.next()?);
            let width = matrix_of(part).rows() / experts;
            Some((part, width, SharedSlice::new(&mut out[..rows * used * width])))
        });
        let width: usize = outputs.iter().flatten().map(|output| output.1).sum();
        let rows_per_piece = rows_per_piece(width * assignment.active().len(), workers, rows);
        let pieces_of = |width: usize| width.div_ceil(rows_per_piece);
        let pieces_per_expert: usize = outputs.iter().flatten().map(|output| pieces_of(output.1)).sum();
        let scratch = SharedSlice::new(&mut self.scratch);
        self.pool.run(pieces_per_expert * assignment.active().len(), workers, &|piece, worker| {
            // SAFETY: each worker has a number of its own, and uses the scratch of that number only.
            let scratch = &mut unsafe { scratch.part(worker..worker + 1) }[0];
            let expert = assignment.active()[piece / pieces_per_expert] as usize;
            let mut piece = piece % pieces_per_expert;
            let (choices, choosers) = assignment.of(expert);
            let places = Places { inputs: if input_per_choice { choices } else { choosers }, outputs: choices };
            for &(part, width, out) in outputs.iter().flatten() {
                if piece < pieces_of(width) {
                    let first = piece * rows_per_piece;
                    let matrix = &experts_of[part.matrix.0 as usize][expert];
                    let bias = part.bias.map(|bias| &weights.vector(bias)[expert * width..][..width]);
                    let job = Job { matrix, bias, floats, tokens: choices.len(), places: Some(places), out };
                    let run = kernels[part.matrix.0 as usize];
                    return run(isa, &job, coded, first..width.min(first + rows_per_piece), &mut scratch.kernel);
                }
                piece -= pieces_of(width);
            }
        });
        for (out, part) in outs.into_iter().zip(parts) {
            self.give(part.output, out);
        }
    }
}

/// Codes activations [rows, columns].
fn code(pool: &mut Pool, workers: usize, isa: Isa, coded: &mut Coded, floats: &[f32], columns: usize) {
    let rows = floats.len() / columns;
    let writer = coded.fill(rows, columns);
    // A single row is coded by the caller alone; many are shared out.
    pool.run(rows, workers, &|row, _| {
        // SAFETY: each row is one piece of work.
        let to = unsafe { writer.row(row) };
        isa.run(CodeRow { from: &floats[row * columns..][..columns], to });
    });
}

/// Rows of a matrix in one piece of work: large enough to pay for taking it, small enough that nobody waits long.
fn rows_per_piece(rows: usize, workers: usize, tokens: usize) -> usize {
    let wish = if tokens == 1 { rows.div_ceil(workers * DECODE_PIECES) } else { PREFILL_ROWS };
    wish.next_multiple_of(4)
}
