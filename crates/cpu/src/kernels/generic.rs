//! The path for every format that has no kernel of its own: the format's scalar codec, then plain sums.
//!
//! A row is dequantized once for all tokens of the job. For one row and one token, whatever stands beside them, eight lanes
//! take every eighth column and are summed once at the end, so the result is the same however a prompt was cut.

use std::ops::Range;

use duan_quant::Activation;
use duan_quant::activation::GROUP;

use super::{Job, Scratch};
use crate::activations::{Coded, CodedRow};
use crate::simd::{LANES, Simd, Task};

/// Computes rows `rows` of a matrix for all tokens of the job.
pub(crate) struct Rows<'a> {
    pub(crate) job: &'a Job<'a>,
    pub(crate) coded: Option<&'a Coded>,
    pub(crate) rows: Range<usize>,
    pub(crate) scratch: &'a mut Scratch,
}

impl Task for Rows<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let Self { job, coded, rows, scratch } = self;
        let (format, columns) = (job.matrix.format(), job.matrix.columns());
        let coded = coded.filter(|_| format.activation == Activation::Int8);
        let weights = &mut scratch.row[..columns];
        for row in rows {
            (format.dequantize)(job.matrix.row(row), weights);
            for token in 0..job.tokens {
                let sum = match coded {
                    Some(coded) => coded_dot(s, weights, coded.row(job.input(token))),
                    None => dot(s, weights, job.floats(token)),
                };
                job.store(row, token, &[sum]);
            }
        }
    }
}

#[inline(always)]
fn dot<S: Simd>(s: S, weights: &[f32], x: &[f32]) -> f32 {
    let ((weights, weights_rest), (x, x_rest)) = (weights.as_chunks::<LANES>(), x.as_chunks::<LANES>());
    let mut lanes = s.splat(0.0);
    for (weights, x) in weights.iter().zip(x) {
        lanes = s.mul_add(s.load(weights), s.load(x), lanes);
    }
    let rest: f32 = weights_rest.iter().zip(x_rest).map(|(w, x)| w * x).sum();
    s.sum(lanes) + rest
}

/// The same with activations as they were coded: each group's products are summed before its scale is applied.
#[inline(always)]
fn coded_dot<S: Simd>(s: S, weights: &[f32], token: CodedRow<'_>) -> f32 {
    let groups = weights.as_chunks::<GROUP>().0.iter().zip(token.codes).zip(token.scales);
    let mut lanes = s.splat(0.0);
    for ((weights, codes), &scale) in groups {
        let mut products = s.splat(0.0);
        for (weights, codes) in weights.as_chunks::<LANES>().0.iter().zip(codes.as_chunks::<LANES>().0) {
            products = s.mul_add(s.load(weights), s.load(&codes.map(f32::from)), products);
        }
        lanes = s.mul_add(products, s.splat(scale), lanes);
    }
    s.sum(lanes)
}
