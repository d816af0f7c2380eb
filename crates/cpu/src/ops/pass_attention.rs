//! Attention of a whole pass: new keys and values into the pages, then queries in blocks over the workers.

use std::ops::Range;

use duan_backend::{PAGE_TOKENS, Pass, Span};

use super::attention::{BLOCK_QUERIES, Block, Query, Shape};
use crate::compiled::Scratch;
use crate::isa::Isa;
use crate::kv::{Element, Places, View, Writer};
use crate::pool::Pool;
use crate::shared::SharedSlice;
use crate::simd::{Simd, Task};

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
    /// [heads]
    pub(crate) sinks: Option<&'a [f32]>,
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
        let (key_places, value_places) = (Places::keys(self.shape.key_dim), Places::values(self.shape.value_dim));
        for (first_row, span) in self.pass.spans_with_rows() {
            let (key_row, value_row) = (self.kv_heads * self.shape.key_dim, self.kv_heads * self.shape.value_dim);
            self.store(pool, first_row, span, self.key, key_row, &Writer::new(keys, self.kv_heads, key_places));
            self.store(pool, first_row, span, self.value, value_row, &Writer::new(values, self.kv_heads, value_places));
        }
        let keys = View { numbers: &*keys, kv_heads: self.kv_heads, head: key_places.head() };
        let values = View { numbers: &*values, kv_heads: self.kv_heads, head: value_places.head() };
        for (first_row, span) in self.pass.spans_with_rows() {
            // Queries of one key and value head: row after row, the heads of a row side by side.
            let queries = span.count * (self.heads / self.kv_heads);
            let size = self.block_queries(queries);
            let blocks = queries.div_ceil(size);
            pool.run(blocks * self.kv_heads, self.workers, &|piece, worker| {
                let place = Place { first_row, span, kv_head: piece / blocks, worker };
                let first = piece % blocks * size;
                let own = first..queries.min(first + size);
                match own.len() {
                    1 => self.block::<E, 1>(keys, values, place, own),
                    2 => self.block::<E, 2>(keys, values, place, own),
                    3..=4 => self.block::<E, 4>(keys, values, place, own),
                    _ => self.block::<E, BLOCK_QUERIES>(keys, values, place, own),
                }
            });
        }
    }

    /// How many of `queries` of one key and value head are computed together: as many as can be, unless a worker would have
    /// nothing to do.
    fn block_queries(&self, queries: usize) -> usize {
        let keeps_all_busy = |size: usize| queries.div_ceil(size) * self.kv_heads >= self.workers;
        [BLOCK_QUERIES, 4, 2].into_iter().find(|&size| keeps_all_busy(size)).unwrap_or(1)
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

    /// The queries `own` of a span's queries of one key and value head, at most `Q`.
    fn block<E: Element, const Q: usize>(
        &self,
        keys: View<'_, E>,
        values: View<'_, E>,
        place: Place<'_>,
        own: Range<usize>,
    ) {
        let Place { first_row, span, kv_head, worker } = place;
        let group = self.heads / self.kv_heads;
        let Shape { key_dim, value_dim, .. } = self.shape;
        let row_and_head = |query: usize| (query / group, kv_head * group + query % group);
        let queries = std::array::from_fn(|index| {
            // Where there are fewer, the last one is computed again.
            let (row, head) = row_and_head((own.start + index).min(own.end - 1));
            let at = ((first_row + row) * self.heads + head) * key_dim;
            let sink = self.sinks.map_or(f32::NEG_INFINITY, |sinks| sinks[head]);
            Query { position: span.start + row, query: &self.query[at..at + key_dim], sink }
        });
        // SAFETY: each worker has a number of its own, and uses the scratch of that number only.
        let scratch = &mut unsafe { self.scratch.part(worker..worker + 1) }[0].attention;
        let pages = span.pages;
        let (shape, once) = (self.shape, span.count == 1);
        self.isa.run(Block::<E, Q> { shape, keys, values, kv_head, pages, queries, once, scratch: &mut *scratch });
        for (index, query) in own.enumerate() {
            let (row, head) = row_and_head(query);
            let at = ((first_row + row) * self.heads + head) * value_dim;
            // SAFETY: each head of each row belongs to one query, and each query to one block.
            unsafe { self.out.part(at..at + value_dim) }.copy_from_slice(scratch.result(index, value_dim));
        }
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
