//! Dot products of quantized weights with coded activations, for every format of [`super::formats`].
//!
//! For one row and one token, whatever the tile: each group of 32 (or half of one, where it has a scale of its own) gives one
//! exact integer sum, which is added to the row's sum with the product of both scales, group after group; offsets
//! times the activations' sums likewise. So a result does not depend on which rows and tokens were computed beside it.

use std::marker::PhantomData;
use std::ops::Range;

use super::formats::{Codes, Rows};
use super::{Job, Scratch};
use crate::activations::{Coded, Group};
use crate::simd::{PANEL_ROWS, Simd, Task, read_ahead};

/// Bytes of activations that a tile of tokens should find in the cache again with the next panel.
const BLOCK_BYTES: usize = 256 << 10;
/// The most tokens that count as few: panels are read once for them, and unpacked in registers.
pub(crate) const FEW_TOKENS: usize = 4;

/// Computes panels `panels` of a matrix for all tokens of the job.
pub(crate) struct Panels<'a, C> {
    pub(crate) job: &'a Job<'a>,
    pub(crate) coded: &'a Coded,
    pub(crate) panels: Range<usize>,
    pub(crate) scratch: &'a mut Scratch,
    pub(crate) format: PhantomData<C>,
}

impl<C: Codes> Task for Panels<'_, C> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let Self { job, coded, panels, scratch, .. } = self;
        let Scratch { panel, unpacked, .. } = scratch;
        if job.tokens <= FEW_TOKENS {
            for index in panels {
                let tile = Tile { job, coded, index };
                few_tokens::<S, C>(s, &tile, job.weights.panel(index, panel));
            }
            return;
        }
        let row_bytes = job.weights.columns / 32 * size_of::<Group>();
        let block = (BLOCK_BYTES / row_bytes).next_multiple_of(S::CODE_TOKENS).max(S::CODE_TOKENS);
        for first in (0..job.tokens).step_by(block) {
            for index in panels.clone() {
                unpack::<S, C>(s, job.weights.panel(index, panel), unpacked);
                let tile = Tile { job, coded, index };
                many_tokens::<S, C>(s, &tile, unpacked, first..job.tokens.min(first + block));
            }
        }
    }
}

/// A panel of a job, for which tokens are computed.
struct Tile<'a> {
    job: &'a Job<'a>,
    coded: &'a Coded,
    index: usize,
}

impl Tile<'_> {
    /// The activations of `T` tokens.
    #[inline(always)]
    fn tokens<const T: usize>(&self, first: usize) -> [&[Group]; T] {
        let groups = self.job.weights.columns / 32;
        let mut tokens: [&[Group]; T] = [&[]; T];
        for t in 0..T {
            tokens[t] = &self.coded.row(self.job.input(first + t))[..groups];
        }
        tokens
    }

    /// Stores the sums of a vector of rows from `first_row`, for `T` tokens.
    #[inline(always)]
    fn store<S: Simd, const T: usize>(&self, s: S, first_row: usize, first_token: usize, sums: [S::Floats; T]) {
        for t in 0..T {
            let mut panel = [0.0; PANEL_ROWS];
            s.put(sums[t], &mut panel[first_row..]);
            self.job.store(self.index, first_row..first_row + S::ROWS, first_token + t, &panel);
        }
    }
}

/// What is added with a group: its codes, and the scales and offsets of its rows, of both halves where these have their own.
struct GroupWeights<S: Simd> {
    codes: [S::Words; 8],
    scales: [S::Floats; 2],
    offsets: [S::Floats; 2],
}

impl<S: Simd> GroupWeights<S> {
    /// Group `inner` of a block.
    #[inline(always)]
    fn read<C: Codes>(s: S, rows: Rows<'_>, block: &C::Block<S>, inner: usize) -> Self {
        let scale = C::scale(s, block, inner, 0);
        let offset = C::offset(s, block, inner, 0);
        Self {
            codes: C::codes(s, rows, inner),
            scales: [scale, if C::HALVES { C::scale(s, block, inner, 1) } else { scale }],
            offsets: [offset, if C::HALVES && C::OFFSETS { C::offset(s, block, inner, 1) } else { offset }],
        }
    }

    /// Adds the group to the sums of `T` tokens.
    #[inline(always)]
    fn add<C: Codes, const T: usize>(&self, s: S, tokens: &[&[Group]; T], group: usize, sums: &mut [S::Floats; T]) {
        for t in 0..T {
            let token = &tokens[t][group];
            let token_scale = s.all(token.scale);
            if !C::HALVES {
                let dot = s.dot(C::KIND, &self.codes, &token.codes, token.negative);
                sums[t] = s.times_plus(s.floats(dot), s.times(self.scales[0], token_scale), sums[t]);
                if C::OFFSETS {
                    sums[t] = s.times_plus(self.offsets[0], s.all(token.sum), sums[t]);
                }
                continue;
            }
            let (codes, activations) = (self.codes.as_chunks::<4>().0, token.codes.as_chunks::<4>().0);
            for half in 0..2 {
                let negative = i32::from(token.negative_halves[half]);
                let dot = s.dot(C::KIND, &codes[half], &activations[half], negative);
                sums[t] = s.times_plus(s.floats(dot), s.times(self.scales[half], token_scale), sums[t]);
                if C::OFFSETS {
                    sums[t] = s.times_plus(self.offsets[half], s.all(token.scale * -negative as f32), sums[t]);
                }
            }
        }
    }
}

/// One to four tokens: every byte of the panel is read from memory once, and unpacked in registers.
#[inline(always)]
fn few_tokens<S: Simd, C: Codes>(s: S, tile: &Tile<'_>, panel: &[u8]) {
    if const { S::ROWS == PANEL_ROWS } {
        match tile.job.tokens {
            1 => straight::<S, C, 1, 1>(s, tile, panel, 0),
            2 => straight::<S, C, 2, 1>(s, tile, panel, 0),
            3 => {
                straight::<S, C, 2, 1>(s, tile, panel, 0);
                straight::<S, C, 1, 1>(s, tile, panel, 2);
            }
            _ => straight::<S, C, 4, 1>(s, tile, panel, 0),
        }
    } else {
        match tile.job.tokens {
            1 => straight::<S, C, 1, 2>(s, tile, panel, 0),
            2 => straight::<S, C, 2, 2>(s, tile, panel, 0),
            3 => {
                straight::<S, C, 2, 2>(s, tile, panel, 0);
                straight::<S, C, 1, 2>(s, tile, panel, 2);
            }
            _ => straight::<S, C, 4, 2>(s, tile, panel, 0),
        }
    }
}

/// `V` vectors of rows, which are a panel, for `T` tokens.
#[inline(always)]
fn straight<S: Simd, C: Codes, const T: usize, const V: usize>(
    s: S,
    tile: &Tile<'_>,
    panel: &[u8],
    first_token: usize,
) {
    let tokens = tile.tokens::<T>(first_token);
    let mut sums = [[s.all(0.0); T]; V];
    for (index, block) in panel.chunks_exact(PANEL_ROWS * C::BLOCK_BYTES).enumerate() {
        let rows = |v: usize| Rows { block, first: v * S::ROWS };
        let mut ready = [C::block(s, rows(0)); V];
        for v in 1..V {
            ready[v] = C::block(s, rows(v));
        }
        for inner in 0..C::GROUPS {
            let bytes = PANEL_ROWS * C::BLOCK_BYTES / C::GROUPS;
            read_ahead(s, block, inner * bytes, bytes);
            for v in 0..V {
                let weights = GroupWeights::read::<C>(s, rows(v), &ready[v], inner);
                weights.add::<C, T>(s, &tokens, index * C::GROUPS + inner, &mut sums[v]);
            }
        }
    }
    for v in 0..V {
        tile.store(s, v * S::ROWS, first_token, sums[v]);
    }
}

/// A panel with a byte for each code and a float for each scale: what many tokens share. Sized for the widest matrix.
#[derive(Debug, Default)]
pub(crate) struct Unpacked {
    /// [groups, 8 words, 16 rows, 4]
    codes: Vec<[u8; 8 * 4 * PANEL_ROWS]>,
    /// [groups, halves, 16 rows]
    scales: Vec<[[f32; PANEL_ROWS]; 2]>,
    /// [groups, halves, 16 rows]
    offsets: Vec<[[f32; PANEL_ROWS]; 2]>,
}

impl Unpacked {
    /// Room for panels of at most `columns`.
    pub(crate) fn new(columns: usize) -> Self {
        let groups = columns / 32;
        let floats = || vec![[[0.0; PANEL_ROWS]; 2]; groups];
        Self { codes: vec![[0; 8 * 4 * PANEL_ROWS]; groups], scales: floats(), offsets: floats() }
    }

    /// Bytes held.
    pub(crate) fn bytes(&self) -> usize {
        size_of_val(&self.codes[..]) + size_of_val(&self.scales[..]) + size_of_val(&self.offsets[..])
    }

    #[inline(always)]
    fn read<S: Simd, C: Codes>(&self, s: S, group: usize, first_row: usize) -> GroupWeights<S> {
        let all = &self.codes[group];
        let mut codes = [s.zeros(); 8];
        for word in 0..8 {
            codes[word] = s.words(&all[(word * PANEL_ROWS + first_row) * 4..]);
        }
        let [scales, offsets] = [&self.scales[group], &self.offsets[group]];
        let scale = s.get(&scales[0][first_row..]);
        let offset = if C::OFFSETS { s.get(&offsets[0][first_row..]) } else { scale };
        GroupWeights {
            codes,
            scales: [scale, if C::HALVES { s.get(&scales[1][first_row..]) } else { scale }],
            offsets: [offset, if C::HALVES && C::OFFSETS { s.get(&offsets[1][first_row..]) } else { offset }],
        }
    }

    #[inline(always)]
    fn write<S: Simd, C: Codes>(&mut self, s: S, group: usize, first_row: usize, weights: &GroupWeights<S>) {
        let all = &mut self.codes[group];
        for word in 0..8 {
            s.put_words(weights.codes[word], &mut all[(word * PANEL_ROWS + first_row) * 4..]);
        }
        for half in 0..if C::HALVES { 2 } else { 1 } {
            s.put(weights.scales[half], &mut self.scales[group][half][first_row..]);
            if C::OFFSETS {
                s.put(weights.offsets[half], &mut self.offsets[group][half][first_row..]);
            }
        }
    }
}

/// Unpacks a panel.
#[inline(always)]
fn unpack<S: Simd, C: Codes>(s: S, panel: &[u8], to: &mut Unpacked) {
    for first in (0..PANEL_ROWS).step_by(S::ROWS) {
        for (index, block) in panel.chunks_exact(PANEL_ROWS * C::BLOCK_BYTES).enumerate() {
            let rows = Rows { block, first };
            let ready = C::block(s, rows);
            for inner in 0..C::GROUPS {
                let weights = GroupWeights::read::<C>(s, rows, &ready, inner);
                to.write::<S, C>(s, index * C::GROUPS + inner, first, &weights);
            }
        }
    }
}

/// Any number of tokens, one vector of rows after the other.
#[inline(always)]
fn many_tokens<S: Simd, C: Codes>(s: S, tile: &Tile<'_>, panel: &Unpacked, tokens: Range<usize>) {
    for first_row in (0..PANEL_ROWS).step_by(S::ROWS) {
        let mut token = tokens.start;
        while token < tokens.end {
            let left = tokens.end - token;
            if const { S::CODE_TOKENS >= 8 } && left >= 8 {
                unpacked::<S, C, 8>(s, tile, panel, first_row, token);
                token += 8;
            } else if const { S::CODE_TOKENS >= 4 } && left >= 4 {
                unpacked::<S, C, 4>(s, tile, panel, first_row, token);
                token += 4;
            } else if left >= 2 {
                unpacked::<S, C, 2>(s, tile, panel, first_row, token);
                token += 2;
            } else {
                unpacked::<S, C, 1>(s, tile, panel, first_row, token);
                token += 1;
            }
        }
    }
}

/// One vector of rows for `T` tokens.
#[inline(always)]
fn unpacked<S: Simd, C: Codes, const T: usize>(
    s: S,
    tile: &Tile<'_>,
    panel: &Unpacked,
    first_row: usize,
    first_token: usize,
) {
    let tokens = tile.tokens::<T>(first_token);
    let mut sums = [s.all(0.0); T];
    for group in 0..tile.job.weights.columns / 32 {
        panel.read::<S, C>(s, group, first_row).add::<C, T>(s, &tokens, group, &mut sums);
    }
    tile.store(s, first_row, first_token, sums);
}
