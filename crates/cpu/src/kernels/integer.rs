//! Dot products of quantized weights with coded activations, for every format of [`super::formats`].
//!
//! For one row and one token, whatever the tile: each group of 32 (or half of one, where it has a scale of its own) gives one
//! exact integer sum, which is added to the row's sum with the product of both scales, group after group; offsets
//! times the activations' sums likewise. So a result does not depend on which rows and tokens were computed beside it.

use std::marker::PhantomData;
use std::ops::Range;

use super::formats::{BlockShape, Codes, Rows};
use super::{Job, PanelScratch, Scratch};
use crate::activations::{Coded, Group};
use crate::simd::{CACHE_LINE_BYTES, PANEL_ROWS, Simd, Task, read_ahead};

/// Tokens whose activations stay in the cache while all panels of a piece of work meet them.
pub(crate) const BLOCK_TOKENS: usize = 256;
/// Groups of a panel that are unpacked at once: with the activations of a tile they fit the nearest cache.
const CHUNK_GROUPS: usize = 32;
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
            // Memory gives more to who reads at two places: two halves, each from its first panel to its last.
            let half = if job.tokens == 1 && job.weights.are_laid_out() { panels.len() / 2 } else { 0 };
            for index in panels.start..panels.start + half {
                let tiles = [0, half].map(|further| Tile { job, coded, index: index + further });
                let halves = [0, half].map(|further| job.weights.laid_out(index + further..index + further + 1));
                straight::<S, C, 1, 2>(s, tiles, halves, 0);
            }
            for index in panels.start + 2 * half..panels.end {
                few_tokens::<S, C>(s, Tile { job, coded, index }, job.weights.panel(index, panel));
            }
            return;
        }
        let at_once = if const { S::STEPWISE } { 2 * S::ROWS / PANEL_ROWS } else { 1 };
        for first in (0..job.tokens).step_by(BLOCK_TOKENS) {
            let tokens = first..job.tokens.min(first + BLOCK_TOKENS);
            for index in panels.clone().step_by(at_once) {
                let panels = index..panels.end.min(index + at_once);
                many_tokens::<S, C>(s, job, coded, panels, tokens.clone(), panel, unpacked);
            }
        }
    }
}

/// A panel of a job, for which tokens are computed.
#[derive(Clone, Copy)]
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
            if !C::HALVES {
                let dot = s.dot(C::KIND, &self.codes, &token.codes, token.minus_eight_sums);
                sums[t] = self.add_dot::<C>(s, token, 0, dot, sums[t]);
                continue;
            }
            let (codes, activations) = (self.codes.as_chunks::<4>().0, token.codes.as_chunks::<4>().0);
            for half in 0..2 {
                let minus_eight_sums = i32::from(token.minus_eight_half_sums[half]);
                let dot = s.dot(C::KIND, &codes[half], &activations[half], minus_eight_sums);
                sums[t] = self.add_dot::<C>(s, token, half, dot, sums[t]);
            }
        }
    }

    /// The same with codes as [`for_two_tokens`] leaves them.
    #[inline(always)]
    fn add_by_two<C: Codes, const T: usize>(
        &self,
        s: S,
        tokens: &[&[Group]; T],
        group: usize,
        sums: &mut [S::Floats; T],
    ) {
        for pair in 0..T.div_ceil(2) {
            // The last of an odd number goes with itself.
            let both = [2 * pair, (2 * pair + 1).min(T - 1)];
            let (a, b) = (&tokens[both[0]][group], &tokens[both[1]][group]);
            let (codes, a_codes, b_codes) =
                (self.codes.as_chunks::<4>().0, a.codes.as_chunks::<4>().0, b.codes.as_chunks::<4>().0);
            for half in 0..if C::HALVES { 2 } else { 1 } {
                let dots = if C::HALVES {
                    let minus_eight_sums = [a.minus_eight_half_sums[half].into(), b.minus_eight_half_sums[half].into()];
                    s.dot_two(C::KIND, &codes[half], [&a_codes[half], &b_codes[half]], minus_eight_sums)
                } else {
                    let minus_eight_sums = [a.minus_eight_sums, b.minus_eight_sums];
                    s.dot_two(C::KIND, &self.codes, [&a.codes, &b.codes], minus_eight_sums)
                };
                sums[both[0]] = self.add_dot::<C>(s, a, half, dots[0], sums[both[0]]);
                if both[1] != both[0] {
                    sums[both[1]] = self.add_dot::<C>(s, b, half, dots[1], sums[both[1]]);
                }
            }
        }
    }

    /// `sum` and what one group of a token, or the half of it that has scales of its own, adds.
    #[inline(always)]
    fn add_dot<C: Codes>(&self, s: S, token: &Group, half: usize, dot: S::Words, sum: S::Floats) -> S::Floats {
        let sum = s.times_plus(s.floats(dot), s.times(self.scales[half], s.all(token.scale)), sum);
        if !C::OFFSETS {
            return sum;
        }
        let sum_of_activations =
            if C::HALVES { token.scale * half_sum(i32::from(token.minus_eight_half_sums[half])) } else { token.sum };
        s.times_plus(self.offsets[half], s.all(sum_of_activations), sum)
    }
}

/// The codes of a group in the order that [`GroupWeights::add_by_two`] wants.
#[inline(always)]
fn for_two_tokens<S: Simd>(s: S, mut codes: [S::Words; 8]) -> [S::Words; 8] {
    for word in [0, 2, 4, 6] {
        [codes[word], codes[word + 1]] = s.for_two([codes[word], codes[word + 1]]);
    }
    codes
}

/// The sum that was stored times minus eight.
#[inline(always)]
fn half_sum(minus_eight_sums: i32) -> f32 {
    minus_eight_sums as f32 * -0.125
}

/// One to four tokens for a panel: every byte is read from memory once, and unpacked in registers.
#[inline(always)]
fn few_tokens<S: Simd, C: Codes>(s: S, tile: Tile<'_>, panel: &[u8]) {
    match tile.job.tokens {
        1 => straight::<S, C, 1, 1>(s, [tile], [panel], 0),
        2 => straight::<S, C, 2, 1>(s, [tile], [panel], 0),
        3 => {
            straight::<S, C, 2, 1>(s, [tile], [panel], 0);
            straight::<S, C, 1, 1>(s, [tile], [panel], 2);
        }
        _ => straight::<S, C, 4, 1>(s, [tile], [panel], 0),
    }
}

/// `P` panels of one matrix, in turn, for `T` tokens.
#[inline(always)]
fn straight<S: Simd, C: Codes, const T: usize, const P: usize>(
    s: S,
    tiles: [Tile<'_>; P],
    panels: [&[u8]; P],
    first_token: usize,
) {
    if const { S::ROWS == PANEL_ROWS } {
        by_vectors::<S, C, T, P, 1>(s, tiles, panels, first_token);
    } else {
        by_vectors::<S, C, T, P, 2>(s, tiles, panels, first_token);
    }
}

/// The same, where a panel is `V` vectors of rows.
#[inline(always)]
fn by_vectors<S: Simd, C: Codes, const T: usize, const P: usize, const V: usize>(
    s: S,
    tiles: [Tile<'_>; P],
    panels: [&[u8]; P],
    first_token: usize,
) {
    let tokens = tiles[0].tokens::<T>(first_token);
    let mut sums = [[[s.all(0.0); T]; V]; P];
    let BlockShape { bytes, groups } = C::shape(tiles[0].job.weights.format);
    let block_bytes = PANEL_ROWS * bytes;
    let group_bytes = block_bytes / groups;
    for index in 0..panels[0].len() / block_bytes {
        for p in 0..P {
            let block = &panels[p][index * block_bytes..][..block_bytes];
            let rows = |v: usize| Rows { block, first: v * S::ROWS };
            let mut ready = [C::block(s, rows(0)); V];
            for v in 1..V {
                ready[v] = C::block(s, rows(v));
            }
            for inner in 0..groups {
                read_ahead(s, block, inner * group_bytes, group_bytes);
                for v in 0..V {
                    let weights = GroupWeights::read::<C>(s, rows(v), &ready[v], inner);
                    weights.add::<C, T>(s, &tokens, index * groups + inner, &mut sums[p][v]);
                }
            }
        }
    }
    for p in 0..P {
        for v in 0..V {
            tiles[p].store(s, v * S::ROWS, first_token, sums[p][v]);
        }
    }
}

/// Some groups of two panels, with a byte for each code and a float for each scale, and what was summed so far: what many
/// tokens share.
#[derive(Debug)]
pub(crate) struct Unpacked {
    panels: [Box<[UnpackedGroup; CHUNK_GROUPS]>; 2],
    /// [tokens, panels, 16 rows]
    sums: Box<[[[f32; PANEL_ROWS]; 2]; BLOCK_TOKENS]>,
}

/// One group of a panel.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(64))]
struct UnpackedGroup {
    /// [8 words, 16 rows, 4]
    codes: [u8; 8 * 4 * PANEL_ROWS],
    /// [halves, 16 rows]
    scales: [[f32; PANEL_ROWS]; 2],
    /// [halves, 16 rows]
    offsets: [[f32; PANEL_ROWS]; 2],
}

impl Unpacked {
    pub(crate) fn new() -> Self {
        let zeros = [[0.0; PANEL_ROWS]; 2];
        let group = UnpackedGroup { codes: [0; 8 * 4 * PANEL_ROWS], scales: zeros, offsets: zeros };
        let panel = || Box::new([group; CHUNK_GROUPS]);
        Self { panels: [panel(), panel()], sums: Box::new([zeros; BLOCK_TOKENS]) }
    }

    /// Bytes held.
    pub(crate) fn bytes(&self) -> usize {
        2 * size_of_val(&*self.panels[0]) + size_of_val(&*self.sums)
    }
}

impl UnpackedGroup {
    #[inline(always)]
    fn write<S: Simd, C: Codes>(&mut self, s: S, first_row: usize, weights: &GroupWeights<S>) {
        let in_order = if const { S::PAIRWISE } { for_two_tokens(s, weights.codes) } else { weights.codes };
        for word in 0..8 {
            let codes = if const { S::STEPWISE } { s.for_steps(C::KIND, in_order[word]) } else { in_order[word] };
            s.put_words(codes, &mut self.codes[(word * PANEL_ROWS + first_row) * 4..]);
        }
        for half in 0..if C::HALVES { 2 } else { 1 } {
            s.put(weights.scales[half], &mut self.scales[half][first_row..]);
            if C::OFFSETS {
                s.put(weights.offsets[half], &mut self.offsets[half][first_row..]);
            }
        }
    }

    #[inline(always)]
    fn read<S: Simd, C: Codes>(&self, s: S, first_row: usize) -> GroupWeights<S> {
        let mut codes = [s.zeros(); 8];
        for word in 0..8 {
            codes[word] = self.word(s, word, first_row);
        }
        let scales = [0, if C::HALVES { 1 } else { 0 }].map(|half| s.get(&self.scales[half][first_row..]));
        let offsets = [0, if C::HALVES { 1 } else { 0 }].map(|half| s.get(&self.offsets[half][first_row..]));
        GroupWeights { codes, scales, offsets }
    }

    #[inline(always)]
    fn word<S: Simd>(&self, s: S, word: usize, first_row: usize) -> S::Words {
        s.words(&self.codes[(word * PANEL_ROWS + first_row) * 4..])
    }
}

/// One or two panels for any number of tokens: chunk after chunk, so that what a tile reads lies in the nearest cache.
#[inline(always)]
fn many_tokens<S: Simd, C: Codes>(
    s: S,
    job: &Job<'_>,
    coded: &Coded,
    panels: Range<usize>,
    tokens: Range<usize>,
    panel: &mut PanelScratch,
    unpacked: &mut Unpacked,
) {
    let groups = job.weights.columns / 32;
    let Unpacked { panels: chunks, sums } = unpacked;
    sums[..tokens.len()].fill([[0.0; PANEL_ROWS]; 2]);
    let shape = C::shape(job.weights.format);
    for first in (0..groups).step_by(CHUNK_GROUPS) {
        let chunk = first..groups.min(first + CHUNK_GROUPS);
        for (index, to) in panels.clone().zip(chunks.iter_mut()) {
            unpack::<S, C>(s, shape, job.weights.panel(index, panel), chunk.clone(), &mut to[..]);
        }
        let next = job.weights.laid_out(panels.end..panels.end + panels.len());
        let next = &next[next.len() * chunk.start / groups..next.len() * chunk.end / groups];
        let tile = ChunkTile { job, coded, chunk, panels: [&chunks[0][..], &chunks[1][..]], next };
        tile.tokens::<S, C>(s, tokens.clone(), &mut sums[..]);
    }
    for (token, sums) in tokens.zip(sums.iter()) {
        for (index, sums) in panels.clone().zip(sums) {
            job.store(index, 0..PANEL_ROWS, token, sums);
        }
    }
}

/// Unpacks some groups of a panel.
#[inline(always)]
fn unpack<S: Simd, C: Codes>(s: S, shape: BlockShape, panel: &[u8], groups: Range<usize>, to: &mut [UnpackedGroup]) {
    let block_bytes = PANEL_ROWS * shape.bytes;
    let blocks = panel[groups.start / shape.groups * block_bytes..].chunks_exact(block_bytes);
    for (block, to) in blocks.zip(to[..groups.len()].chunks_exact_mut(shape.groups)) {
        for first_row in (0..PANEL_ROWS).step_by(S::ROWS) {
            let rows = Rows { block, first: first_row };
            let ready = C::block(s, rows);
            for (inner, to) in to.iter_mut().enumerate() {
                to.write::<S, C>(s, first_row, &GroupWeights::read::<C>(s, rows, &ready, inner));
            }
        }
    }
}

/// Unpacked groups, and the tokens that meet them.
struct ChunkTile<'a> {
    job: &'a Job<'a>,
    coded: &'a Coded,
    chunk: Range<usize>,
    panels: [&'a [UnpackedGroup]; 2],
    /// The same groups of the panels that come next: asked for while these are computed, as they are still in memory.
    next: &'a [u8],
}

impl ChunkTile<'_> {
    /// Adds the chunk to the sums of `tokens` [tokens, panels, 16 rows].
    #[inline(always)]
    fn tokens<S: Simd, C: Codes>(&self, s: S, tokens: Range<usize>, sums: &mut [[[f32; PANEL_ROWS]; 2]]) {
        let tiles = tokens.len().div_ceil(S::CODE_TOKENS);
        let mut next = self.next.chunks(self.next.len().div_ceil(tiles).max(1));
        let mut token = tokens.start;
        while token < tokens.end {
            let part = next.next().unwrap_or(&[]);
            for line in (0..part.len()).step_by(CACHE_LINE_BYTES) {
                s.prefetch_far(part, line);
            }
            let (left, sums) = (tokens.end - token, &mut sums[token - tokens.start..]);
            if const { S::CODE_TOKENS >= 6 } && left >= 6 {
                self.rows::<S, C, 6>(s, token, sums);
                token += 6;
            } else if const { S::CODE_TOKENS >= 4 } && left >= 4 {
                self.rows::<S, C, 4>(s, token, sums);
                token += 4;
            } else if const { S::CODE_TOKENS == 3 } && left >= 3 {
                self.rows::<S, C, 3>(s, token, sums);
                token += 3;
            } else if left >= 2 {
                self.rows::<S, C, 2>(s, token, sums);
                token += 2;
            } else {
                self.rows::<S, C, 1>(s, token, sums);
                token += 1;
            }
        }
    }

    #[inline(always)]
    fn rows<S: Simd, C: Codes, const T: usize>(&self, s: S, first_token: usize, sums: &mut [[[f32; PANEL_ROWS]; 2]]) {
        let mut tokens: [&[Group]; T] = [&[]; T];
        for t in 0..T {
            tokens[t] = &self.coded.row(self.job.input(first_token + t))[self.chunk.clone()];
        }
        let sums = sums.first_chunk_mut::<T>().expect("sums of every token");
        if const { S::STEPWISE } {
            // Two vectors: of two panels, or the halves of one.
            let second = if S::ROWS == PANEL_ROWS { (1, 0) } else { (0, S::ROWS) };
            self.two_vectors::<S, C, T>(s, &tokens, [(0, 0), second], sums);
        } else {
            for first_row in (0..PANEL_ROWS).step_by(S::ROWS) {
                self.one_vector::<S, C, T>(s, &tokens, first_row, sums);
            }
        }
    }

    /// A vector of rows of the first panel.
    #[inline(always)]
    fn one_vector<S: Simd, C: Codes, const T: usize>(
        &self,
        s: S,
        tokens: &[&[Group]; T],
        first_row: usize,
        sums: &mut [[[f32; PANEL_ROWS]; 2]; T],
    ) {
        let mut lanes = [s.all(0.0); T];
        for t in 0..T {
            lanes[t] = s.get(&sums[t][0][first_row..]);
        }
        for (group, weights) in self.panels[0][..self.chunk.len()].iter().enumerate() {
            let weights = weights.read::<S, C>(s, first_row);
            if const { S::PAIRWISE } {
                weights.add_by_two::<C, T>(s, tokens, group, &mut lanes);
            } else {
                weights.add::<C, T>(s, tokens, group, &mut lanes);
            }
        }
        for t in 0..T {
            s.put(lanes[t], &mut sums[t][0][first_row..]);
        }
    }

    /// Two vectors of rows, `places` (panel, first row), which share every broadcast activation.
    #[inline(always)]
    fn two_vectors<S: Simd, C: Codes, const T: usize>(
        &self,
        s: S,
        tokens: &[&[Group]; T],
        places: [(usize, usize); 2],
        sums: &mut [[[f32; PANEL_ROWS]; 2]; T],
    ) {
        let mut lanes = [[s.all(0.0); T]; 2];
        for v in 0..2 {
            for t in 0..T {
                lanes[v][t] = s.get(&sums[t][places[v].0][places[v].1..]);
            }
        }
        let panels = [self.panels[places[0].0], self.panels[places[1].0]];
        let halves = if C::HALVES { 2 } else { 1 };
        for group in 0..self.chunk.len() {
            for half in 0..halves {
                let mut dots = [[s.zeros(); T]; 2];
                for t in 0..T {
                    let token = &tokens[t][group];
                    let minus_eight_sums =
                        if C::HALVES { i32::from(token.minus_eight_half_sums[half]) } else { token.minus_eight_sums };
                    let start = s.start(C::KIND, minus_eight_sums);
                    (dots[0][t], dots[1][t]) = (start, start);
                }
                for word in half * 4..half * 4 + 8 / halves {
                    let first = panels[0][group].word(s, word, places[0].1);
                    let second = panels[1][group].word(s, word, places[1].1);
                    for t in 0..T {
                        let activations = tokens[t][group].codes[word];
                        dots[0][t] = s.step(C::KIND, dots[0][t], first, activations);
                        dots[1][t] = s.step(C::KIND, dots[1][t], second, activations);
                    }
                }
                for v in 0..2 {
                    let weights = &panels[v][group];
                    let scale = s.get(&weights.scales[half][places[v].1..]);
                    for t in 0..T {
                        let scale = s.times(scale, s.all(tokens[t][group].scale));
                        lanes[v][t] = s.times_plus(s.floats(dots[v][t]), scale, lanes[v][t]);
                    }
                    if C::OFFSETS {
                        let offset = s.get(&weights.offsets[half][places[v].1..]);
                        for t in 0..T {
                            let token = &tokens[t][group];
                            let sum = if C::HALVES {
                                token.scale * half_sum(i32::from(token.minus_eight_half_sums[half]))
                            } else {
                                token.sum
                            };
                            lanes[v][t] = s.times_plus(offset, s.all(sum), lanes[v][t]);
                        }
                    }
                }
            }
        }
        for v in 0..2 {
            for t in 0..T {
                s.put(lanes[v][t], &mut sums[t][places[v].0][places[v].1..]);
            }
        }
    }
}
