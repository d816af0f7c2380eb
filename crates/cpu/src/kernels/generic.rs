//! The path for every format that has no kernel of its own: the format's scalar codec, then plain sums.

use std::ops::Range;

use duan_quant::Activation;

use super::{Job, Scratch};
use crate::activations::Coded;

/// Computes rows `rows` of a matrix for all tokens of the job.
pub(crate) fn rows(job: &Job<'_>, coded: Option<&Coded>, rows: Range<usize>, scratch: &mut Scratch) {
    let matrix = job.matrix;
    let columns = matrix.columns();
    let weights = &mut scratch.row[..columns];
    for row in rows {
        (matrix.format().dequantize)(matrix.row(row), weights);
        for token in 0..job.tokens {
            let sum = match (matrix.format().activation, coded) {
                (Activation::Int8, Some(coded)) => coded_dot(weights, coded, job.input(token)),
                _ => dot(weights, job.floats(token)),
            };
            job.store(row, token, &[sum]);
        }
    }
}

fn dot(weights: &[f32], x: &[f32]) -> f32 {
    weights.iter().zip(x).map(|(w, x)| w * x).sum()
}

/// The same with activations as they were coded.
fn coded_dot(weights: &[f32], coded: &Coded, token: usize) -> f32 {
    let row = coded.row(token);
    let groups = weights.as_chunks::<32>().0.iter().zip(row.codes).zip(row.scales);
    groups
        .map(|((weights, codes), scale)| scale * weights.iter().zip(codes).map(|(w, &c)| w * f32::from(c)).sum::<f32>())
        .sum()
}
