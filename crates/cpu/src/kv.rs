//! Keys and values of one attention on this device.

use std::ops::Range;

use duan_backend::{KvFormat, PAGE_TOKENS, PageId, kv_f16};
use duan_model::graph::CacheConfig;
use half::f16;

use crate::shared::SharedSlice;
use crate::simd::{LANES, Simd};

/// Positions of a key tile, and the multiple that values are padded to.
pub(crate) const TILE: usize = 16;

/// A number as the cache keeps it.
pub(crate) trait Element: Copy + Default + Send + Sync + 'static {
    /// Widens as many as a vector has lanes.
    fn floats<S: Simd>(s: S, from: &[Self]) -> S::Floats;
    /// Narrows eight; what is beyond a half float is held at its largest.
    fn store<S: Simd>(s: S, x: S::F, to: &mut [Self; LANES]);
}

impl Element for f16 {
    #[inline(always)]
    fn floats<S: Simd>(s: S, from: &[Self]) -> S::Floats {
        s.floats_of_halves(from)
    }
    #[inline(always)]
    fn store<S: Simd>(s: S, x: S::F, to: &mut [Self; LANES]) {
        s.store_f16(x, to);
    }
}

impl Element for f32 {
    #[inline(always)]
    fn floats<S: Simd>(s: S, from: &[Self]) -> S::Floats {
        s.get(from)
    }
    #[inline(always)]
    fn store<S: Simd>(s: S, x: S::F, to: &mut [Self; LANES]) {
        s.store(x, to);
    }
}

/// The numbers of a cache. Half floats are kept as bits, so that an empty cache is memory the system
/// has promised but not yet given.
#[derive(Debug)]
pub(crate) enum Numbers {
    F16(Vec<u16>),
    F32(Vec<f32>),
}

impl Numbers {
    fn new(format: KvFormat, length: usize) -> Self {
        match format {
            KvFormat::F16 => Self::F16(vec![0; length]),
            KvFormat::F32 => Self::F32(vec![0.0; length]),
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Self::F16(bits) => bits.len() * 2,
            Self::F32(floats) => floats.len() * 4,
        }
    }

    fn copy_within(&mut self, from: Range<usize>, to: usize) {
        match self {
            Self::F16(bits) => bits.copy_within(from, to),
            Self::F32(floats) => floats.copy_within(from, to),
        }
    }

    fn read(&self, at: usize) -> f16 {
        match self {
            Self::F16(bits) => f16::from_bits(bits[at]),
            Self::F32(floats) => kv_f16(floats[at]),
        }
    }

    fn write(&mut self, at: usize, x: f16) {
        match self {
            Self::F16(bits) => bits[at] = x.to_bits(),
            Self::F32(floats) => floats[at] = x.to_f32(),
        }
    }
}

/// Keys and values, page by page and head by head. Values are [PAGE_TOKENS, width], padded with zeros. Keys lie in tiles of
/// sixteen positions, [PAGE_TOKENS / 16, key_dim, 16]: one vector takes a dimension of many positions, so that scores need no
/// sums across lanes.
#[derive(Debug)]
pub(crate) struct Cache {
    /// What the graph says of it.
    pub(crate) config: CacheConfig,
    /// Keys.
    pub(crate) keys: Numbers,
    /// Values.
    pub(crate) values: Numbers,
}

/// A borrowed view of keys or values.
#[derive(Clone, Copy)]
pub(crate) struct View<'a, E> {
    /// Everything [pages, kv_heads, numbers of a head].
    pub(crate) numbers: &'a [E],
    /// Key and value heads.
    pub(crate) kv_heads: usize,
    /// Numbers of one head in one page.
    pub(crate) head: usize,
}

impl<'a, E> View<'a, E> {
    /// One head's numbers in one page.
    #[inline(always)]
    pub(crate) fn page(&self, page: PageId, kv_head: usize) -> &'a [E] {
        &self.numbers[(page as usize * self.kv_heads + kv_head) * self.head..][..self.head]
    }
}

/// Where workers store new positions.
pub(crate) struct Writer<'a, E> {
    numbers: SharedSlice<'a, E>,
    kv_heads: usize,
    places: Places,
}

impl<'a, E: Element> Writer<'a, E> {
    /// A writer over everything [pages, kv_heads, numbers of a head].
    pub(crate) fn new(numbers: &'a mut [E], kv_heads: usize, places: Places) -> Self {
        Self { numbers: SharedSlice::new(numbers), kv_heads, places }
    }

    /// Stores one position's heads, `row` [kv_heads, head width].
    ///
    /// # Safety
    /// No two workers may store the same position at the same time.
    #[inline(always)]
    pub(crate) unsafe fn store<S: Simd>(&self, s: S, page: PageId, position: usize, row: &[f32]) {
        let places = &self.places;
        for (kv_head, head) in row.chunks_exact(places.dim).enumerate() {
            let base = (page as usize * self.kv_heads + kv_head) * places.head();
            for (index, x) in head.chunks(LANES).enumerate() {
                let mut eight = [0.0; LANES];
                eight[..x.len()].copy_from_slice(x);
                let mut narrow = [E::default(); LANES];
                E::store(s, s.load(&eight), &mut narrow);
                for (dim, narrow) in (index * LANES..).zip(&narrow[..x.len()]) {
                    let at = base + places.at(position, dim);
                    // SAFETY: the number belongs to this position and head alone, and the caller keeps positions apart.
                    let to = unsafe { self.numbers.part(at..at + 1) };
                    to[0] = *narrow;
                }
            }
        }
    }
}

/// Where a head's numbers are within a page.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Places {
    /// Numbers of a position.
    pub(crate) dim: usize,
    /// Whether they lie in tiles, as keys do.
    tiled: bool,
}

impl Places {
    /// Those of keys of `dim` numbers.
    pub(crate) fn keys(dim: usize) -> Self {
        Self { dim, tiled: true }
    }

    /// Those of values of `dim` numbers.
    pub(crate) fn values(dim: usize) -> Self {
        Self { dim, tiled: false }
    }

    /// Numbers of a position, with padding.
    #[inline(always)]
    pub(crate) fn width(&self) -> usize {
        if self.tiled { self.dim } else { self.dim.next_multiple_of(TILE) }
    }

    /// Numbers of one head in one page.
    pub(crate) fn head(&self) -> usize {
        PAGE_TOKENS * self.width()
    }

    /// The place of one number.
    #[inline(always)]
    fn at(&self, position: usize, dim: usize) -> usize {
        if self.tiled {
            (position / TILE * self.dim + dim) * TILE + position % TILE
        } else {
            position * self.width() + dim
        }
    }
}

impl Cache {
    /// An empty cache of `pages`.
    pub(crate) fn new(config: &CacheConfig, pages: usize, format: KvFormat) -> Self {
        let numbers = |places: Places| Numbers::new(format, pages * config.kv_heads * places.head());
        Self {
            config: config.clone(),
            keys: numbers(Places::keys(config.key_dim)),
            values: numbers(Places::values(config.value_dim)),
        }
    }

    /// Bytes when it is full.
    pub(crate) fn bytes(&self) -> usize {
        self.keys.bytes() + self.values.bytes()
    }

    /// See [`duan_backend::Compiled::read_kv`].
    pub(crate) fn read(&self, page: PageId, positions: Range<usize>, keys: &mut [f16], values: &mut [f16]) {
        assert!(positions.end <= PAGE_TOKENS, "positions {positions:?} of a page of {PAGE_TOKENS}");
        for (at, key) in self.places(page, positions.clone(), Places::keys(self.config.key_dim)).zip(keys) {
            *key = self.keys.read(at);
        }
        for (at, value) in self.places(page, positions, Places::values(self.config.value_dim)).zip(values) {
            *value = self.values.read(at);
        }
    }

    /// See [`duan_backend::Compiled::write_kv`].
    pub(crate) fn write(&mut self, page: PageId, positions: Range<usize>, keys: &[f16], values: &[f16]) {
        assert!(positions.end <= PAGE_TOKENS, "positions {positions:?} of a page of {PAGE_TOKENS}");
        let places = self.places(page, positions.clone(), Places::keys(self.config.key_dim));
        places.zip(keys).for_each(|(at, key)| self.keys.write(at, *key));
        let places = self.places(page, positions, Places::values(self.config.value_dim));
        places.zip(values).for_each(|(at, value)| self.values.write(at, *value));
    }

    /// Where the numbers of some positions are, in the canonical order [positions, kv_heads, dim].
    fn places(&self, page: PageId, positions: Range<usize>, places: Places) -> impl Iterator<Item = usize> + use<> {
        let kv_heads = self.config.kv_heads;
        positions.flat_map(move |position| {
            (0..kv_heads).flat_map(move |kv_head| {
                let base = (page as usize * kv_heads + kv_head) * places.head();
                (0..places.dim).map(move |dim| base + places.at(position, dim))
            })
        })
    }

    /// See [`duan_backend::Compiled::copy_page`]. Of a tile that is begun, all is copied.
    pub(crate) fn copy_page(&mut self, from: PageId, to: PageId, count: usize) {
        let count = count.next_multiple_of(TILE);
        let both = [Places::keys(self.config.key_dim), Places::values(self.config.value_dim)];
        for (numbers, places) in [&mut self.keys, &mut self.values].into_iter().zip(both) {
            for kv_head in 0..self.config.kv_heads {
                let start = |page: PageId| (page as usize * self.config.kv_heads + kv_head) * places.head();
                numbers.copy_within(start(from)..start(from) + count * places.width(), start(to));
            }
        }
    }
}
