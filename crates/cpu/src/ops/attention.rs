//! Attention over pages: one pass with a running softmax, up to four queries that share a key and value head at a time.
//!
//! A query's result is the same to the bit whichever queries are computed beside it: pages are visited in the
//! order of their positions, sums within a page run over lanes counted from the page's start, and what a query
//! may not see has a weight of exactly 0.

use std::ops::Range;

use duan_backend::{PAGE_TOKENS, PageId};

use crate::kv::{Element, View};
use crate::simd::{LANES, Simd, Task, exp, tanh};

/// The most queries of one block.
pub(crate) const BLOCK_QUERIES: usize = 4;

/// What one worker needs.
#[derive(Debug)]
pub(crate) struct Scratch {
    queries: Vec<f32>,                           // [BLOCK_QUERIES, key width]
    sums: Vec<f32>,                              // [BLOCK_QUERIES, value width]
    scores: [[f32; PAGE_TOKENS]; BLOCK_QUERIES], // [BLOCK_QUERIES, PAGE_TOKENS]
}

impl Scratch {
    /// Scratch for heads of at most these widths.
    pub(crate) fn new(key_dim: usize, value_dim: usize) -> Self {
        Self {
            queries: vec![0.0; BLOCK_QUERIES * key_dim.next_multiple_of(LANES)],
            sums: vec![0.0; BLOCK_QUERIES * value_dim.next_multiple_of(LANES)],
            scores: [[0.0; PAGE_TOKENS]; BLOCK_QUERIES],
        }
    }

    /// Bytes held.
    pub(crate) fn bytes(&self) -> usize {
        (self.queries.len() + self.sums.len()) * size_of::<f32>() + size_of_val(&self.scores)
    }
}

/// What is the same for all queries of an op.
#[derive(Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) key_dim: usize,
    pub(crate) value_dim: usize,
    pub(crate) scale: f32,
    pub(crate) softcap: Option<f32>,
    pub(crate) window: Option<usize>,
}

/// One query: a head of a row.
pub(crate) struct Query<'a> {
    /// Its position in the sequence.
    pub(crate) position: usize,
    /// [key_dim]
    pub(crate) query: &'a [f32],
    /// [value_dim]
    pub(crate) out: &'a mut [f32],
}

/// Up to [`BLOCK_QUERIES`] queries of one sequence that read the same key and value head.
pub(crate) struct Block<'a, E, const Q: usize> {
    pub(crate) shape: Shape,
    pub(crate) keys: View<'a, E>,
    pub(crate) values: View<'a, E>,
    pub(crate) kv_head: usize,
    pub(crate) pages: &'a [PageId],
    pub(crate) queries: [Query<'a>; Q],
    pub(crate) scratch: &'a mut Scratch,
}

/// The running softmax of one query.
#[derive(Clone, Copy)]
struct Running {
    /// First position it sees, and the one after its own.
    from: usize,
    to: usize,
    largest: f32,
    total: f32,
}

impl<E: Element, const Q: usize> Task for Block<'_, E, Q> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let Self { shape, keys, values, kv_head, pages, queries, scratch } = self;
        let key_width = keys.width;
        let value_width = values.width;
        for (query, padded) in queries.iter().zip(scratch.queries.chunks_exact_mut(key_width)) {
            padded[..shape.key_dim].copy_from_slice(query.query);
            padded[shape.key_dim..].fill(0.0);
        }
        scratch.sums[..Q * value_width].fill(0.0);
        let mut running = std::array::from_fn::<_, Q, _>(|q| {
            let to = queries[q].position + 1;
            let from = shape.window.map_or(0, |window| to.saturating_sub(window));
            Running { from, to, largest: f32::NEG_INFINITY, total: 0.0 }
        });
        let from = running.iter().map(|running| running.from).min().unwrap_or(0);
        let to = running.iter().map(|running| running.to).max().unwrap_or(0);

        for index in from / PAGE_TOKENS..to.div_ceil(PAGE_TOKENS) {
            let base = index * PAGE_TOKENS;
            let seen = from.max(base) - base..to.min(base + PAGE_TOKENS) - base;
            let page = pages[index];
            let scores = scratch.scores.first_chunk_mut::<Q>().expect("a block has at most as many queries");
            page_scores::<S, E, Q>(s, &shape, keys.page(page, kv_head), &scratch.queries, seen.clone(), scores);
            let mut weighted = [false; Q];
            let mut corrections = [1.0; Q];
            for q in 0..Q {
                let own = running[q].from.saturating_sub(base)..running[q].to.saturating_sub(base);
                let correction = if own.start.max(seen.start) < own.end.min(seen.end) {
                    mask(&mut scores[q], &seen, own);
                    Some(softmax_step(s, &mut scores[q], &seen, &mut running[q]))
                } else {
                    // What others see and this query does not has no weight.
                    scores[q][seen.clone()].fill(0.0);
                    None
                };
                weighted[q] = correction.is_some();
                corrections[q] = correction.unwrap_or(1.0);
            }
            if weighted.contains(&true) {
                add_values::<S, E, Q>(
                    s,
                    values.page(page, kv_head),
                    value_width,
                    seen,
                    scores,
                    corrections,
                    &mut scratch.sums,
                );
            }
        }
        for (q, query) in queries.into_iter().enumerate() {
            // A query that saw nothing gets zeros; NaN in the scores goes on into the result.
            let factor = if running[q].total == 0.0 { 0.0 } else { 1.0 / running[q].total };
            let sums = &scratch.sums[q * value_width..][..shape.value_dim];
            query.out.iter_mut().zip(sums).for_each(|(out, sum)| *out = sum * factor);
        }
    }
}

/// Scores of the keys `seen` of a page, scaled and capped.
#[inline(always)]
fn page_scores<S: Simd, E: Element, const Q: usize>(
    s: S,
    shape: &Shape,
    keys: &[E],
    queries: &[f32],
    seen: Range<usize>,
    scores: &mut [[f32; PAGE_TOKENS]; Q],
) {
    let width = shape.key_dim.next_multiple_of(LANES);
    let queries: [&[[f32; LANES]]; Q] =
        std::array::from_fn(|q| &queries[q * width..][..width].as_chunks().0[..width / LANES]);
    for position in seen.clone() {
        let key = &keys[position * width..][..width].as_chunks::<LANES>().0[..width / LANES];
        let mut lanes = [s.splat(0.0); Q];
        for index in 0..width / LANES {
            let key = E::load(s, &key[index]);
            for q in 0..Q {
                lanes[q] = s.mul_add(s.load(&queries[q][index]), key, lanes[q]);
            }
        }
        if Q == 4 {
            let sums = s.sum4([lanes[0], lanes[1 % Q], lanes[2 % Q], lanes[3 % Q]]);
            for q in 0..Q {
                scores[q][position] = sums[q];
            }
        } else {
            for q in 0..Q {
                scores[q][position] = s.sum(lanes[q]);
            }
        }
    }
    let (scale, vectors) = (s.splat(shape.scale), seen.start / LANES..seen.end.div_ceil(LANES));
    for scores in scores {
        for scores in &mut scores.as_chunks_mut::<LANES>().0[vectors.clone()] {
            let scaled = s.mul(s.load(scores), scale);
            let capped = match shape.softcap {
                None => scaled,
                Some(cap) => s.mul(s.splat(cap), tanh(s, s.mul(scaled, s.splat(1.0 / cap)))),
            };
            s.store(capped, scores);
        }
    }
}

/// Hides what a query may not see, and what lies between the seen keys and whole vectors.
#[inline(always)]
fn mask(scores: &mut [f32; PAGE_TOKENS], seen: &Range<usize>, own: Range<usize>) {
    let (first, last) = (seen.start / LANES * LANES, seen.end.next_multiple_of(LANES));
    scores[first..own.start.clamp(seen.start, last)].fill(f32::NEG_INFINITY);
    scores[own.end.clamp(first, seen.end)..last].fill(f32::NEG_INFINITY);
}

/// Turns a page's scores into weights under the running maximum; returns the factor on what was summed before.
#[inline(always)]
fn softmax_step<S: Simd>(s: S, scores: &mut [f32; PAGE_TOKENS], seen: &Range<usize>, running: &mut Running) -> f32 {
    let vectors = &mut scores.as_chunks_mut::<LANES>().0[seen.start / LANES..seen.end.div_ceil(LANES)];
    let mut largest = s.splat(f32::NEG_INFINITY);
    for scores in vectors.iter() {
        largest = s.max(largest, s.load(scores));
    }
    let page_largest = s.largest(largest);
    let largest = if page_largest > running.largest { page_largest } else { running.largest };
    let mut correction = [0.0; LANES];
    s.store(exp(s, s.splat(running.largest - largest)), &mut correction);
    let mut total = s.splat(0.0);
    for scores in vectors {
        let weights = exp(s, s.sub(s.load(scores), s.splat(largest)));
        total = s.add(total, weights);
        s.store(weights, scores);
    }
    running.largest = largest;
    running.total = running.total * correction[0] + s.sum(total);
    correction[0]
}

/// `sums = sums * correction + weights * values`.
#[inline(always)]
fn add_values<S: Simd, E: Element, const Q: usize>(
    s: S,
    values: &[E],
    width: usize,
    seen: Range<usize>,
    weights: &[[f32; PAGE_TOKENS]; Q],
    corrections: [f32; Q],
    sums: &mut [f32],
) {
    let mut column = 0;
    while column < width {
        if width - column >= 2 * LANES {
            add_columns::<S, E, Q, 2>(s, values, width, column, seen.clone(), weights, corrections, sums);
            column += 2 * LANES;
        } else {
            add_columns::<S, E, Q, 1>(s, values, width, column, seen.clone(), weights, corrections, sums);
            column += LANES;
        }
    }
}

/// `C` vectors of columns of [`add_values`].
#[inline(always)]
#[allow(clippy::too_many_arguments, reason = "one loop nest, cut in two by the number of columns")]
fn add_columns<S: Simd, E: Element, const Q: usize, const C: usize>(
    s: S,
    values: &[E],
    width: usize,
    column: usize,
    seen: Range<usize>,
    weights: &[[f32; PAGE_TOKENS]; Q],
    corrections: [f32; Q],
    sums: &mut [f32],
) {
    let mut lanes = [[s.splat(0.0); C]; Q];
    for q in 0..Q {
        let from = sums[q * width + column..][..C * LANES].as_chunks::<LANES>().0;
        for c in 0..C {
            lanes[q][c] = s.mul(s.load(&from[c]), s.splat(corrections[q]));
        }
    }
    for position in seen {
        let value = values[position * width + column..][..C * LANES].as_chunks::<LANES>().0;
        for c in 0..C {
            let value = E::load(s, &value[c]);
            for q in 0..Q {
                lanes[q][c] = s.mul_add(s.splat(weights[q][position]), value, lanes[q][c]);
            }
        }
    }
    for q in 0..Q {
        let to = sums[q * width + column..][..C * LANES].as_chunks_mut::<LANES>().0;
        for c in 0..C {
            s.store(lanes[q][c], &mut to[c]);
        }
    }
}
