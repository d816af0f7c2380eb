//! Dot products of quantized weights with coded activations, for every format of [`super::formats`].
//!
//! For one row and one token, whatever the tile: each group of 32 (or half of one, where it has a scale of its own) gives one
//! exact integer sum, which is added to the row's sum with the product of both scales, group after group; offsets
//! times the activations' sums likewise. So a result does not depend on which rows and tokens were computed beside it.

use std::marker::PhantomData;
use std::ops::Range;

use super::formats::{Codes, Rows};
use super::{Job, PanelScratch};
use crate::activations::{Coded, Group};
use crate::simd::{PANEL_ROWS, Simd, Task};

/// Bytes of activations that a tile of tokens should find in the cache again with the next panel.
const BLOCK_BYTES: usize = 256 << 10;
/// How far ahead of the kernel the cache is asked for weights while few tokens are computed.
const AHEAD_BYTES: usize = 2048;
/// What the memory hands out at once.
const CACHE_LINE_BYTES: usize = 64;

/// Computes panels `panels` of a matrix for all tokens of the job.
pub(crate) struct Panels<'a, C> {
    pub(crate) job: &'a Job<'a>,
    pub(crate) coded: &'a Coded,
    pub(crate) panels: Range<usize>,
    pub(crate) scratch: &'a mut PanelScratch,
    pub(crate) format: PhantomData<C>,
}

impl<C: Codes> Task for Panels<'_, C> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let Self { job, coded, panels, scratch, .. } = self;
        if job.tokens <= 4 {
            for panel in panels {
                let tile = Tile::<C> {
                    job,
                    coded,
                    index: panel,
                    panel: job.weights.panel(panel, scratch),
                    format: PhantomData,
                };
                tile.few_tokens(s);
            }
            return;
        }
        let block = (BLOCK_BYTES / (job.weights.columns / 32 * size_of::<Group>())).next_multiple_of(S::CODE_TOKENS);
        for first in (0..job.tokens).step_by(block) {
            for panel in panels.clone() {
                let tile = Tile::<C> {
                    job,
                    coded,
                    index: panel,
                    panel: job.weights.panel(panel, scratch),
                    format: PhantomData,
                };
                tile.many_tokens(s, first..job.tokens.min(first + block));
            }
        }
    }
}

/// A panel and the tokens that meet it.
struct Tile<'a, C> {
    job: &'a Job<'a>,
    coded: &'a Coded,
    index: usize,
    panel: &'a [u8],
    format: PhantomData<C>,
}

impl<C: Codes> Tile<'_, C> {
    /// One to four tokens: every byte of the panel is read from memory once.
    #[inline(always)]
    fn few_tokens<S: Simd>(&self, s: S) {
        if const { S::ROWS == PANEL_ROWS } {
            return self.many_tokens(s, 0..self.job.tokens);
        }
        match self.job.tokens {
            1 => self.rows::<S, 1, 2>(s, 0, 0),
            2 => self.rows::<S, 2, 2>(s, 0, 0),
            3 => {
                self.rows::<S, 2, 2>(s, 0, 0);
                self.rows::<S, 1, 2>(s, 0, 2);
            }
            _ => self.rows::<S, 4, 2>(s, 0, 0),
        }
    }

    /// Any number of tokens, one vector of rows after the other.
    #[inline(always)]
    fn many_tokens<S: Simd>(&self, s: S, tokens: Range<usize>) {
        for first_row in (0..PANEL_ROWS).step_by(S::ROWS) {
            let mut token = tokens.start;
            while token < tokens.end {
                let left = tokens.end - token;
                if const { S::CODE_TOKENS >= 8 } && left >= 8 {
                    self.rows::<S, 8, 1>(s, first_row, token);
                    token += 8;
                } else if const { S::CODE_TOKENS >= 4 } && left >= 4 {
                    self.rows::<S, 4, 1>(s, first_row, token);
                    token += 4;
                } else if left >= 2 {
                    self.rows::<S, 2, 1>(s, first_row, token);
                    token += 2;
                } else {
                    self.rows::<S, 1, 1>(s, first_row, token);
                    token += 1;
                }
            }
        }
    }

    /// `V` vectors of rows from `first_row` for `T` tokens. While tokens are few the cache is asked for what follows.
    #[inline(always)]
    fn rows<S: Simd, const T: usize, const V: usize>(&self, s: S, first_row: usize, first_token: usize) {
        let groups = self.job.weights.columns / 32;
        let mut tokens: [&[Group]; T] = [&[]; T];
        for t in 0..T {
            tokens[t] = &self.coded.row(self.job.input(first_token + t))[..groups];
        }
        let mut sums = [[s.all(0.0); T]; V];
        for (index, block) in self.panel.chunks_exact(PANEL_ROWS * C::BLOCK_BYTES).enumerate() {
            let rows = |v: usize| Rows { block, first: first_row + v * S::ROWS };
            let mut ready = [C::block(s, rows(0)); V];
            for v in 1..V {
                ready[v] = C::block(s, rows(v));
            }
            for inner in 0..C::GROUPS {
                let group = index * C::GROUPS + inner;
                if const { T <= 4 } {
                    let bytes = PANEL_ROWS * C::BLOCK_BYTES / C::GROUPS;
                    for line in (0..bytes).step_by(CACHE_LINE_BYTES) {
                        s.prefetch(block, AHEAD_BYTES + inner * bytes + line);
                    }
                }
                for v in 0..V {
                    let codes = C::codes(s, rows(v), inner);
                    if C::HALVES {
                        add_halves::<S, C, T>(s, &codes, &ready[v], inner, &tokens, group, &mut sums[v]);
                    } else {
                        add_group::<S, C, T>(s, &codes, &ready[v], inner, &tokens, group, &mut sums[v]);
                    }
                }
            }
        }
        for t in 0..T {
            let mut panel = [0.0; PANEL_ROWS];
            for v in 0..V {
                s.put(sums[v][t], &mut panel, first_row + v * S::ROWS);
            }
            self.job.store(self.index, first_row..first_row + V * S::ROWS, first_token + t, &panel);
        }
    }
}

/// Adds one group of one vector of rows to the sums of `T` tokens.
#[inline(always)]
fn add_group<S: Simd, C: Codes, const T: usize>(
    s: S,
    codes: &[S::Words; 8],
    block: &C::Block<S>,
    inner: usize,
    tokens: &[&[Group]; T],
    group: usize,
    sums: &mut [S::Floats; T],
) {
    let scale = C::scale(s, block, inner, 0);
    let offset = C::offset(s, block, inner, 0);
    for t in 0..T {
        let token = &tokens[t][group];
        let dot = s.dot(C::KIND, codes, &token.codes, token.negative);
        sums[t] = s.times_plus(s.floats(dot), s.times(scale, s.all(token.scale)), sums[t]);
        if C::OFFSETS {
            sums[t] = s.times_plus(offset, s.all(token.sum), sums[t]);
        }
    }
}

/// The same where each half has its own scale.
#[inline(always)]
fn add_halves<S: Simd, C: Codes, const T: usize>(
    s: S,
    codes: &[S::Words; 8],
    block: &C::Block<S>,
    inner: usize,
    tokens: &[&[Group]; T],
    group: usize,
    sums: &mut [S::Floats; T],
) {
    let codes = codes.as_chunks::<4>().0;
    for half in 0..2 {
        let scale = C::scale(s, block, inner, half);
        let offset = C::offset(s, block, inner, half);
        for t in 0..T {
            let token = &tokens[t][group];
            let negative = i32::from(token.negative_halves[half]);
            let dot = s.dot(C::KIND, &codes[half], &token.codes.as_chunks::<4>().0[half], negative);
            sums[t] = s.times_plus(s.floats(dot), s.times(scale, s.all(token.scale)), sums[t]);
            if C::OFFSETS {
                sums[t] = s.times_plus(offset, s.all(token.scale * -negative as f32), sums[t]);
            }
        }
    }
}
