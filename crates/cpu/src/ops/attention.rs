//! Attention over pages: one pass with a running softmax, up to eight queries that share a key and value head at a time.
//!
//! A query's result is the same to the bit whichever queries are computed beside it: pages are visited in the
//! order of their positions, a score is summed dimension after dimension, the sums of a page's weights run over lanes
//! counted from the page's start, and what a query may not see has a weight of exactly 0.

use std::ops::Range;

use duan_backend::{PAGE_TOKENS, PageId};

use crate::kv::{Element, TILE, View};
use crate::simd::{LANES, Simd, Task, exp, read_ahead, tanh};

/// The most queries of one block.
pub(crate) const BLOCK_QUERIES: usize = 8;

/// What one worker needs.
#[derive(Debug)]
pub(crate) struct Scratch {
    queries: Vec<f32>,                           // [key width, queries]
    sums: Vec<f32>,                              // [BLOCK_QUERIES, value width]
    scores: [[f32; PAGE_TOKENS]; BLOCK_QUERIES], // [BLOCK_QUERIES, PAGE_TOKENS]
}

impl Scratch {
    /// Scratch for heads of at most these widths.
    pub(crate) fn new(key_dim: usize, value_dim: usize) -> Self {
        Self {
            queries: vec![0.0; BLOCK_QUERIES * key_dim],
            sums: vec![0.0; BLOCK_QUERIES * value_dim.next_multiple_of(TILE)],
            scores: [[0.0; PAGE_TOKENS]; BLOCK_QUERIES],
        }
    }

    /// Bytes held.
    pub(crate) fn bytes(&self) -> usize {
        (self.queries.len() + self.sums.len()) * size_of::<f32>() + size_of_val(&self.scores)
    }

    /// What the block's query number `query` found [value_dim].
    pub(crate) fn result(&self, query: usize, value_dim: usize) -> &[f32] {
        &self.sums[query * value_dim.next_multiple_of(TILE)..][..value_dim]
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
#[derive(Clone, Copy)]
pub(crate) struct Query<'a> {
    /// Its position in the sequence.
    pub(crate) position: usize,
    /// [key_dim]
    pub(crate) query: &'a [f32],
    /// One more score, of a position whose value is 0; of none it is minus infinity.
    pub(crate) sink: f32,
}

/// Queries of one sequence that read the same key and value head. The results are left in the scratch.
pub(crate) struct Block<'a, E, const Q: usize> {
    pub(crate) shape: Shape,
    pub(crate) keys: View<'a, E>,
    pub(crate) values: View<'a, E>,
    pub(crate) kv_head: usize,
    pub(crate) pages: &'a [PageId],
    pub(crate) queries: [Query<'a>; Q],
    /// Whether keys and values come from memory, since no other block of the pass reads them.
    pub(crate) once: bool,
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
        let Self { shape, keys, values, kv_head, pages, queries, once, scratch } = self;
        let value_width = shape.value_dim.next_multiple_of(TILE);
        for (q, query) in queries.iter().enumerate() {
            for (dim, x) in query.query.iter().enumerate() {
                scratch.queries[dim * Q + q] = *x;
            }
        }
        scratch.sums[..Q * value_width].fill(0.0);
        let mut running = std::array::from_fn::<_, Q, _>(|q| {
            let to = queries[q].position + 1;
            let from = shape.window.map_or(0, |window| to.saturating_sub(window));
            // The sink comes before all positions, so that its place does not depend on where pages and passes end.
            let sink = queries[q].sink;
            Running { from, to, largest: sink, total: if sink == f32::NEG_INFINITY { 0.0 } else { 1.0 } }
        });
        let from = running.iter().map(|running| running.from).min().unwrap_or(0);
        let to = running.iter().map(|running| running.to).max().unwrap_or(0);

        for index in from / PAGE_TOKENS..to.div_ceil(PAGE_TOKENS) {
            let base = index * PAGE_TOKENS;
            let seen = from.max(base) - base..to.min(base + PAGE_TOKENS) - base;
            let page = pages[index];
            let scores = scratch.scores.first_chunk_mut::<Q>().expect("a block has at most as many queries");
            let keys = PageKeys { keys: keys.page(page, kv_head), key_dim: shape.key_dim, seen: seen.clone(), once };
            page_scores(s, &shape, &keys, &scratch.queries, scores);
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
                let values = values.page(page, kv_head);
                let page = PageValues { values, width: value_width, seen, weights: scores, corrections, once };
                page.add(s, &mut scratch.sums);
            }
        }
        for (running, sums) in running.iter().zip(scratch.sums.chunks_exact_mut(value_width)) {
            // A query that saw nothing gets zeros; NaN in the scores goes on into the result.
            let factor = if running.total == 0.0 { 0.0 } else { 1.0 / running.total };
            sums.iter_mut().for_each(|sum| *sum *= factor);
        }
    }
}

/// Scores of a page's keys, scaled and capped.
#[inline(always)]
fn page_scores<S: Simd, E: Element, const Q: usize>(
    s: S,
    shape: &Shape,
    page: &PageKeys<'_, E>,
    queries: &[f32],
    scores: &mut [[f32; PAGE_TOKENS]; Q],
) {
    // Enough sums at a time that none waits for the one before it.
    if const { Q >= 4 } {
        page.dots::<S, Q, 2>(s, queries, scores);
    } else {
        page.dots::<S, Q, 4>(s, queries, scores);
    }
    let (scale, vectors) = (s.splat(shape.scale), page.seen.start / LANES..page.seen.end.div_ceil(LANES));
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

/// A page of keys [tiles, key_dim, 16].
struct PageKeys<'a, E> {
    keys: &'a [E],
    key_dim: usize,
    seen: Range<usize>,
    once: bool,
}

impl<E: Element> PageKeys<'_, E> {
    /// Products of queries [key_dim, Q] and the keys that are seen, `V` vectors of positions at a time.
    #[inline(always)]
    fn dots<S: Simd, const Q: usize, const V: usize>(
        &self,
        s: S,
        queries: &[f32],
        scores: &mut [[f32; PAGE_TOKENS]; Q],
    ) {
        let (step, key_dim) = (V * S::ROWS, self.key_dim);
        let queries = &queries.as_chunks::<Q>().0[..key_dim];
        for first in (self.seen.start / step * step..self.seen.end).step_by(step) {
            let mut tiles: [&[E]; V] = [&[]; V];
            for v in 0..V {
                let position = first + v * S::ROWS;
                tiles[v] = &self.keys[position / TILE * key_dim * TILE + position % TILE..];
            }
            let mut sums = [[s.all(0.0); Q]; V];
            for (dim, queries) in queries.iter().enumerate() {
                let mut key = [s.all(0.0); V];
                for v in 0..V {
                    key[v] = E::floats(s, &tiles[v][dim * TILE..]);
                    if self.once {
                        // The same dimension of the positions that come next.
                        s.prefetch(tiles[v], (dim * TILE + step * key_dim) * size_of::<E>());
                    }
                }
                for q in 0..Q {
                    let query = s.all(queries[q]);
                    for v in 0..V {
                        sums[v][q] = s.times_plus(key[v], query, sums[v][q]);
                    }
                }
            }
            for v in 0..V {
                for q in 0..Q {
                    s.put(sums[v][q], &mut scores[q][first + v * S::ROWS..]);
                }
            }
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

/// A page of values [PAGE_TOKENS, width], and what its positions weigh for each query.
struct PageValues<'a, E, const Q: usize> {
    values: &'a [E],
    width: usize,
    seen: Range<usize>,
    weights: &'a [[f32; PAGE_TOKENS]; Q],
    corrections: [f32; Q],
    once: bool,
}

impl<E: Element, const Q: usize> PageValues<'_, E, Q> {
    /// `sums = sums * correction + weights * values`, `sums` [Q, width].
    #[inline(always)]
    fn add<S: Simd>(&self, s: S, sums: &mut [f32]) {
        let mut column = 0;
        // As many columns at a time as the registers hold sums of.
        while const { Q <= 4 } && column + 4 * S::ROWS <= self.width {
            self.add_columns::<S, 4>(s, column, sums);
            column += 4 * S::ROWS;
        }
        while column + 2 * S::ROWS <= self.width {
            self.add_columns::<S, 2>(s, column, sums);
            column += 2 * S::ROWS;
        }
        while column < self.width {
            self.add_columns::<S, 1>(s, column, sums);
            column += S::ROWS;
        }
    }

    /// `C` vectors of columns of [`PageValues::add`].
    #[inline(always)]
    fn add_columns<S: Simd, const C: usize>(&self, s: S, column: usize, sums: &mut [f32]) {
        let mut lanes = [[s.all(0.0); C]; Q];
        for q in 0..Q {
            for c in 0..C {
                let from = &sums[q * self.width + column + c * S::ROWS..];
                lanes[q][c] = s.times(s.get(from), s.all(self.corrections[q]));
            }
        }
        for position in self.seen.clone() {
            let row = &self.values[position * self.width + column..];
            if self.once {
                read_ahead(s, row, 0, C * S::ROWS * size_of::<E>());
            }
            let mut value = [s.all(0.0); C];
            for c in 0..C {
                value[c] = E::floats(s, &row[c * S::ROWS..]);
            }
            for q in 0..Q {
                let weight = s.all(self.weights[q][position]);
                for c in 0..C {
                    lanes[q][c] = s.times_plus(weight, value[c], lanes[q][c]);
                }
            }
        }
        for q in 0..Q {
            for c in 0..C {
                s.put(lanes[q][c], &mut sums[q * self.width + column + c * S::ROWS..]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::isa::Isa;
    use crate::kv::{Places, Writer};
    use crate::simd::Portable;

    const DIM: usize = 4;
    const QUERY: [f32; DIM] = [0.5, -1.0, 2.0, 0.25];
    const KEYS: [[f32; DIM]; 3] = [[1.0, 0.5, -0.5, 2.0], [-1.0, 0.0, 1.5, 1.0], [0.25, -2.0, 0.5, -1.0]];
    const VALUES: [[f32; DIM]; 3] = [[1.0, -3.0, 0.25, 8.0], [0.5, 1.5, -2.0, 0.0], [3.0, -0.75, 1.0, -1.0]];

    /// What a query at the last of some positions gets.
    fn attend(isa: Isa, positions: &[([f32; DIM], [f32; DIM])], sink: f32) -> Vec<f32> {
        let (key_places, value_places) = (Places::keys(DIM), Places::values(DIM));
        let (mut keys, mut values) = (vec![0.0f32; key_places.head()], vec![0.0f32; value_places.head()]);
        let (key_writer, value_writer) =
            (Writer::new(&mut keys, 1, key_places), Writer::new(&mut values, 1, value_places));
        for (position, (key, value)) in positions.iter().enumerate() {
            // SAFETY: nobody else stores.
            unsafe {
                key_writer.store(Portable, 0, position, key);
                value_writer.store(Portable, 0, position, value);
            }
        }
        let shape = Shape { key_dim: DIM, value_dim: DIM, scale: 0.5, softcap: None, window: None };
        let mut scratch = Scratch::new(DIM, DIM);
        isa.run(Block::<f32, 1> {
            shape,
            keys: View { numbers: &keys, kv_heads: 1, head: key_places.head() },
            values: View { numbers: &values, kv_heads: 1, head: value_places.head() },
            kv_head: 0,
            pages: &[0],
            queries: [Query { position: positions.len() - 1, query: &QUERY, sink }],
            once: false,
            scratch: &mut scratch,
        });
        scratch.result(0, DIM).to_vec()
    }

    #[test]
    fn a_sink_is_one_more_key_whose_value_is_zero() {
        let positions: Vec<_> = KEYS.into_iter().zip(VALUES).collect();
        let square: f32 = QUERY.iter().map(|x| x * x).sum();
        for isa in Isa::available() {
            for sink in [-3.0, 0.0, 1.25, 40.0] {
                // The key whose product with the query is the sink, after the scale.
                let key = QUERY.map(|x| x * sink / 0.5 / square);
                let with_key = attend(isa, &[&[(key, [0.0; DIM])], &positions[..]].concat(), f32::NEG_INFINITY);
                let with_sink = attend(isa, &positions, sink);
                for (found, expected) in with_sink.iter().zip(&with_key) {
                    assert!((found - expected).abs() <= 2e-6, "{} {sink}: {found}, {expected}", isa.name());
                }
            }
            let without = attend(isa, &positions, f32::NEG_INFINITY);
            assert_eq!(attend(isa, &positions, -1e4), without, "{}: a sink far below the scores", isa.name());
            assert_eq!(attend(isa, &positions, 1e4), [0.0; DIM], "{}: a sink far above the scores", isa.name());
        }
    }
}
