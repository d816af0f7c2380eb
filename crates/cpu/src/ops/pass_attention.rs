//! Attention of a whole pass: new keys and values into the pages, then queries in blocks over the workers.

use duan_backend::{PAGE_TOKENS, Pass, Span};

use super::attention::{BLOCK_QUERIES, Block, Query, Shape};
use crate::compiled::Scratch;
use crate::isa::Isa;
use crate::kv::{Element, View, Writer};
use crate::pool::Pool;
use crate::shared::SharedSlice;
use crate::simd::{LANES, Simd, Task};

/// Positions that one worker stores at once.
const STORE_ROWS: usize = 16;

/// One attention over all spans of a pass.
pub(crate) struct PassAttention<'a> {
    pub(crate) isa: Isa,
    pub(crate) workers: usize,
    pub(crate) pass: &'a Pass<'a>,
    pub(crate) heads: usize,
    pub(crate) kv_heads: usize,
    pub(crate) shape: Shape,
    /// [rows, heads * key_dim]
    pub(crate) query: &'a [f32],
    /// [rows, kv_heads * key_dim]
    pub(crate) key: &'a [f32],
    /// [rows, kv_heads * value_dim]
    pub(crate) value: &'a [f32],
    /// [rows, heads * value_dim]
    pub(crate) out: SharedSlice<'a, f32>,
    /// One for each worker.
    pub(crate) scratch: SharedSlice<'a, Scratch>,
}

/// The span, key and value head and worker of a block of queries.
#[derive(Clone, Copy)]
struct Place<'a> {
    first_row: usize,
    span: &'a Span<'a>,
    kv_head: usize,
    worker: usize,
}

impl PassAttention<'_> {
    pub(crate) fn run<E: Element>(&self, pool: &mut Pool, keys: &mut [E], values: &mut [E]) {
        let (key_width, value_width) =
            (self.shape.key_dim.next_multiple_of(LANES), self.shape.value_dim.next_multiple_of(LANES));
        for (first_row, span) in self.pass.spans_with_rows() {
            let (key_row, value_row) = (self.kv_heads * self.shape.key_dim, self.kv_heads * self.shape.value_dim);
            self.store(pool, first_row, span, self.key, key_row, &Writer::new(keys, self.kv_heads, key_width));
            self.store(pool, first_row, span, self.value, value_row, &Writer::new(values, self.kv_heads, value_width));
        }
        let keys = View { numbers: &*keys, kv_heads: self.kv_heads, width: key_width };
        let values = View { numbers: &*values, kv_heads: self.kv_heads, width: value_width };
        for (first_row, span) in self.pass.spans_with_rows() {
            // Queries of one key and value head: row after row, the heads of a row side by side.
            let queries = span.count * (self.heads / self.kv_heads);
            let keeps_all_busy = |size: usize| queries.div_ceil(size) * self.kv_heads >= self.workers;
            let size = [BLOCK_QUERIES, 2].into_iter().find(|&size| keeps_all_busy(size)).unwrap_or(1);
            let blocks = queries.div_ceil(size);
            pool.run(blocks * self.kv_heads, self.workers, &|piece, worker| {
                let place = Place { first_row, span, kv_head: piece / blocks, worker };
                let mut query = piece % blocks * size;
                let end = queries.min(query + size);
                while query < end {
                    match end - query {
                        BLOCK_QUERIES.. => self.block::<E, BLOCK_QUERIES>(keys, values, place, query),
                        2.. => self.block::<E, 2>(keys, values, place, query),
                        _ => self.block::<E, 1>(keys, values, place, query),
                    }
                    query += match end - query {
                        BLOCK_QUERIES.. => BLOCK_QUERIES,
                        2.. => 2,
                        _ => 1,
                    };
                }
            });
        }
    }

    /// Stores a span's keys or values, `from` [rows, width], in its pages.
    fn store<E: Element>(
        &self,
        pool: &mut Pool,
        first_row: usize,
        span: &Span<'_>,
        from: &[f32],
        width: usize,
        to: &Writer<'_, E>,
    ) {
        pool.run(span.count.div_ceil(STORE_ROWS), self.workers, &|piece, _| {
            let rows = piece * STORE_ROWS..span.count.min((piece + 1) * STORE_ROWS);
            let from = &from[(first_row + rows.start) * width..(first_row + rows.end) * width];
            self.isa.run(Store { from, width, start: span.start + rows.start, span, to });
        });
    }

    /// `Q` queries from number `query` of a span's queries of one key and value head.
    fn block<E: Element, const Q: usize>(
        &self,
        keys: View<'_, E>,
        values: View<'_, E>,
        place: Place<'_>,
        query: usize,
    ) {
        let Place { first_row, span, kv_head, worker } = place;
        let group = self.heads / self.kv_heads;
        let Shape { key_dim, value_dim, .. } = self.shape;
        let queries = std::array::from_fn(|index| {
            let (row, head) = ((query + index) / group, kv_head * group + (query + index) % group);
            let at = (first_row + row) * self.heads + head;
            Query {
                position: span.start + row,
                query: &self.query[at * key_dim..][..key_dim],
                // SAFETY: each head of each row belongs to one query, and each query to one block.
                out: unsafe { self.out.part(at * value_dim..(at + 1) * value_dim) },
            }
        });
        // SAFETY: each worker has a number of its own, and uses the scratch of that number only.
        let scratch = &mut unsafe { self.scratch.part(worker..worker + 1) }[0].attention;
        let pages = span.pages;
        self.isa.run(Block::<E, Q> { shape: self.shape, keys, values, kv_head, pages, queries, scratch });
    }
}

/// Stores consecutive positions of one span.
struct Store<'a, E> {
    /// [positions, width]
    from: &'a [f32],
    width: usize,
    start: usize,
    span: &'a Span<'a>,
    to: &'a Writer<'a, E>,
}

impl<E: Element> Task for Store<'_, E> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        for (position, row) in (self.start..).zip(self.from.chunks_exact(self.width)) {
            let page = self.span.pages[position / PAGE_TOKENS];
            // SAFETY: a position is in one piece of work, and `Pass::check` saw that no page is written twice.
            unsafe { self.to.store(s, page, position % PAGE_TOKENS, row) };
        }
    }
}
