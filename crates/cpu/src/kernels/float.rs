//! Dot products of float weights with float activations.
//!
//! For one row and one token, whatever the tile: products are added column after column, in stretches of
//! [`STRETCH`] whose sums are then added up, so that rounding errors grow with neither many columns nor the tile.

use std::marker::PhantomData;
use std::ops::Range;

use super::{Job, PanelScratch};
use crate::simd::{PANEL_ROWS, RowSimd, Simd, Task, read_ahead};

/// Columns whose products are added up by themselves.
const STRETCH: usize = 256;
/// Bytes of activations that a tile of tokens should find in the cache again with the next panel.
const BLOCK_BYTES: usize = 256 << 10;

/// A float format as the kernels see it.
pub(crate) trait Floats: 'static {
    /// The name in [`duan_quant::FORMATS`].
    const FORMAT: &'static str;
    /// Bytes of a weight.
    const BYTES: usize;

    /// One weight of each row.
    fn weights<S: RowSimd>(s: S, from: &[u8]) -> S::Floats;
}

/// Four bytes.
pub(crate) struct F32;

impl Floats for F32 {
    const FORMAT: &'static str = "F32";
    const BYTES: usize = 4;

    #[inline(always)]
    fn weights<S: RowSimd>(s: S, from: &[u8]) -> S::Floats {
        s.floats_of_bits::<0>(s.words(from))
    }
}

/// Half floats.
pub(crate) struct F16;

impl Floats for F16 {
    const FORMAT: &'static str = "F16";
    const BYTES: usize = 2;

    #[inline(always)]
    fn weights<S: RowSimd>(s: S, from: &[u8]) -> S::Floats {
        s.floats_of_f16(from)
    }
}

/// The upper halves of floats.
pub(crate) struct Bf16;

impl Floats for Bf16 {
    const FORMAT: &'static str = "BF16";
    const BYTES: usize = 2;

    #[inline(always)]
    fn weights<S: RowSimd>(s: S, from: &[u8]) -> S::Floats {
        s.floats_of_bits::<16>(s.words_of_u16(from))
    }
}

/// Computes panels `panels` of a matrix for all tokens of the job.
pub(crate) struct Panels<'a, W> {
    pub(crate) job: &'a Job<'a>,
    pub(crate) panels: Range<usize>,
    pub(crate) scratch: &'a mut PanelScratch,
    pub(crate) format: PhantomData<W>,
}

impl<W: Floats> Task for Panels<'_, W> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let Self { job, panels, scratch, .. } = self;
        let row_bytes = job.weights.columns * size_of::<f32>();
        let block = (BLOCK_BYTES / row_bytes).next_multiple_of(S::FLOAT_TOKENS);
        for first in (0..job.tokens).step_by(block) {
            for index in panels.clone() {
                let tile = Tile::<W> { job, index, panel: job.weights.panel(index, scratch), format: PhantomData };
                tile.tokens(s, first..job.tokens.min(first + block));
            }
        }
    }
}

/// A panel and the tokens that meet it.
struct Tile<'a, W> {
    job: &'a Job<'a>,
    index: usize,
    panel: &'a [u8],
    format: PhantomData<W>,
}

impl<W: Floats> Tile<'_, W> {
    #[inline(always)]
    fn tokens<S: Simd>(&self, s: S, tokens: Range<usize>) {
        let mut token = tokens.start;
        while token < tokens.end {
            let left = tokens.end - token;
            token += if const { S::FLOAT_TOKENS >= 12 } && left >= 12 {
                self.each_vector::<S, 12>(s, token)
            } else if const { S::FLOAT_TOKENS >= 8 } && left >= 8 {
                self.each_vector::<S, 8>(s, token)
            } else if left >= 4 {
                self.each_vector::<S, 4>(s, token)
            } else if left >= 2 {
                self.each_vector::<S, 2>(s, token)
            } else if const { S::ROWS == PANEL_ROWS } {
                self.rows::<S, 1, 1>(s, 0, token)
            } else {
                self.rows::<S, 1, 2>(s, 0, token)
            };
        }
    }

    /// `T` tokens, one vector of rows after the other.
    #[inline(always)]
    fn each_vector<S: Simd, const T: usize>(&self, s: S, first_token: usize) -> usize {
        for first_row in (0..PANEL_ROWS).step_by(S::ROWS) {
            self.rows::<S, T, 1>(s, first_row, first_token);
        }
        T
    }

    /// `V` vectors of rows from `first_row` for `T` tokens.
    #[inline(always)]
    fn rows<S: Simd, const T: usize, const V: usize>(&self, s: S, first_row: usize, first_token: usize) -> usize {
        let columns = self.job.weights.columns;
        let mut tokens: [&[f32]; T] = [&[]; T];
        for t in 0..T {
            tokens[t] = self.job.floats(first_token + t);
        }
        let mut totals = [[s.all(0.0); T]; V];
        for (index, stretch) in self.panel.chunks(STRETCH * PANEL_ROWS * W::BYTES).enumerate() {
            let first = index * STRETCH;
            let count = STRETCH.min(columns - first);
            let mut part = tokens;
            for t in 0..T {
                part[t] = &tokens[t][first..first + count];
            }
            let mut sums = [[s.all(0.0); T]; V];
            for (column, weights) in stretch.chunks_exact(PANEL_ROWS * W::BYTES).enumerate().take(count) {
                if const { T == 1 } {
                    read_ahead(s, weights, 0, PANEL_ROWS * W::BYTES);
                }
                for v in 0..V {
                    let weights = W::weights(s, &weights[(first_row + v * S::ROWS) * W::BYTES..]);
                    for t in 0..T {
                        sums[v][t] = s.times_plus(weights, s.all(part[t][column]), sums[v][t]);
                    }
                }
            }
            for v in 0..V {
                for t in 0..T {
                    totals[v][t] = s.plus(totals[v][t], sums[v][t]);
                }
            }
        }
        for t in 0..T {
            let mut panel = [0.0; PANEL_ROWS];
            for v in 0..V {
                s.put(totals[v][t], &mut panel[first_row + v * S::ROWS..]);
            }
            self.job.store(self.index, first_row..first_row + V * S::ROWS, first_token + t, &panel);
        }
        T
    }
}
