//! Rotary position embedding.

use duan_backend::Pass;
use duan_model::config::{RopeConfig, RopeStyle};

use crate::simd::{Simd, Task};

/// Sines and cosines of every row of a pass, for one rotary embedding. Made once per pass, used by every layer.
#[derive(Debug)]
pub(crate) struct Rotations {
    style: RopeStyle,
    magnitude: f32,
    frequencies: Vec<f32>,  // [dims / 2]
    table: Vec<(f32, f32)>, // [max rows, dims / 2] (sine, cosine)
}

impl Rotations {
    /// Room for passes of at most `max_rows` in a context.
    pub(crate) fn new(config: &RopeConfig, context: usize, max_rows: usize) -> Self {
        let frequencies = config.frequencies(context);
        let table = vec![(0.0, 1.0); max_rows * frequencies.len()];
        Self { style: config.style, magnitude: config.magnitude, frequencies, table }
    }

    /// Fills the table for the positions of a pass.
    pub(crate) fn prepare(&mut self, pass: &Pass<'_>) {
        let pairs = self.frequencies.len();
        if pairs == 0 {
            return;
        }
        let positions = pass.spans.iter().flat_map(|span| span.start..span.start + span.count);
        for (row, position) in self.table.chunks_exact_mut(pairs).zip(positions) {
            for (entry, frequency) in row.iter_mut().zip(&self.frequencies) {
                let (sin, cos) = (position as f32 * frequency).sin_cos();
                *entry = (sin * self.magnitude, cos * self.magnitude);
            }
        }
    }

    /// Bytes held.
    pub(crate) fn bytes(&self) -> usize {
        self.table.len() * 8
    }

    /// The rotation of rows `first_row..`, `values` [rows, heads * head_dim].
    pub(crate) fn rotate<'a>(
        &'a self,
        values: &'a mut [f32],
        first_row: usize,
        heads: usize,
        head_dim: usize,
    ) -> Rotate<'a> {
        let pairs = self.frequencies.len();
        Rotate { style: self.style, table: &self.table[first_row * pairs..], pairs, values, heads, head_dim }
    }
}

/// Rotates each head of each row.
pub(crate) struct Rotate<'a> {
    style: RopeStyle,
    table: &'a [(f32, f32)],
    pairs: usize,
    values: &'a mut [f32],
    heads: usize,
    head_dim: usize,
}

impl Task for Rotate<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        if self.pairs == 0 {
            return;
        }
        let rows = self.values.chunks_exact_mut(self.heads * self.head_dim).zip(self.table.chunks_exact(self.pairs));
        for (row, table) in rows {
            for head in row.chunks_exact_mut(self.head_dim) {
                match self.style {
                    RopeStyle::AdjacentPairs => {
                        for ([x, y], &(sin, cos)) in head.as_chunks_mut::<2>().0.iter_mut().zip(table) {
                            (*x, *y) = (*x * cos - *y * sin, *x * sin + *y * cos);
                        }
                    }
                    RopeStyle::SplitHalves => {
                        let (low, high) = head.split_at_mut(self.pairs);
                        for ((x, y), &(sin, cos)) in low.iter_mut().zip(high).zip(table) {
                            (*x, *y) = (*x * cos - *y * sin, *x * sin + *y * cos);
                        }
                    }
                }
            }
        }
    }
}
