//! The path for every format that has no kernel of its own: the format's scalar codec, then plain sums.
//!
//! A row is dequantized once for all tokens of the job. For one row and one token, whatever stands beside them, eight lanes
//! take every eighth column and are summed once at the end, so the result is the same however a prompt was cut.

use std::ops::Range;

use duan_quant::Activation;
use duan_quant::activation::GROUP;

use super::{Job, Scratch};
use crate::activations::{Coded, Group};
use crate::simd::{LANES, PANEL_ROWS, Simd, Task};

/// Computes panels `panels` of a matrix for all tokens of the job.
pub(crate) struct Panels<'a> {
    pub(crate) job: &'a Job<'a>,
    pub(crate) coded: Option<&'a Coded>,
    pub(crate) panels: Range<usize>,
    pub(crate) scratch: &'a mut Scratch,
}

impl Task for Panels<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let Self { job, coded, panels, scratch } = self;
        let weights = job.weights;
        let coded = coded.filter(|_| weights.format.activation == Activation::Int8);
        let Scratch { row, row_bytes, .. } = scratch;
        let row = &mut row[..weights.columns];
        for index in panels.start * PANEL_ROWS..weights.rows.min(panels.end * PANEL_ROWS) {
            (weights.format.dequantize)(weights.row(index, row_bytes), row);
            for token in 0..job.tokens {
                let sum = match coded {
                    Some(coded) => coded_dot(s, row, coded.row(job.input(token))),
                    None => dot(s, row, job.floats(token)),
                };
                let (panel, place) = (index / PANEL_ROWS, index % PANEL_ROWS);
                let mut sums = [0.0; PANEL_ROWS];
                sums[place] = sum;
                job.store(panel, place..place + 1, token, &sums);
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
fn coded_dot<S: Simd>(s: S, weights: &[f32], token: &[Group]) -> f32 {
    let mut lanes = s.splat(0.0);
    for (weights, group) in weights.as_chunks::<GROUP>().0.iter().zip(token) {
        let mut products = s.splat(0.0);
        let codes = group.codes.as_flattened().as_chunks::<LANES>().0;
        for (weights, codes) in weights.as_chunks::<LANES>().0.iter().zip(codes) {
            products = s.mul_add(s.load(weights), s.load(&codes.map(f32::from)), products);
        }
        lanes = s.mul_add(products, s.splat(group.scale), lanes);
    }
    s.sum(lanes)
}
