//! Keys and values of one attention on this device.

use std::ops::Range;

use duan_backend::{KvFormat, PAGE_TOKENS, PageId, kv_f16};
use duan_model::graph::CacheConfig;
use half::f16;
use half::slice::{HalfBitsSliceExt, HalfFloatSliceExt};

use crate::shared::SharedSlice;
use crate::simd::{LANES, Simd};

/// A number as the cache keeps it.
pub(crate) trait Element: Copy + Send + Sync + 'static {
    /// Widens eight.
    fn load<S: Simd>(s: S, from: &[Self; LANES]) -> S::F;
    /// Narrows eight; what is beyond a half float is held at its largest.
    fn store<S: Simd>(s: S, x: S::F, to: &mut [Self; LANES]);
}

impl Element for f16 {
    #[inline(always)]
    fn load<S: Simd>(s: S, from: &[Self; LANES]) -> S::F {
        s.load_f16(from)
    }
    #[inline(always)]
    fn store<S: Simd>(s: S, x: S::F, to: &mut [Self; LANES]) {
        s.store_f16(x, to);
    }
}

impl Element for f32 {
    #[inline(always)]
    fn load<S: Simd>(s: S, from: &[Self; LANES]) -> S::F {
        s.load(from)
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

    fn read(&self, range: Range<usize>, to: &mut [f16]) {
        match self {
            Self::F16(bits) => to.copy_from_slice(bits[range].reinterpret_cast()),
            Self::F32(floats) => to.iter_mut().zip(&floats[range]).for_each(|(to, &x)| *to = kv_f16(x)),
        }
    }

    fn write(&mut self, range: Range<usize>, from: &[f16]) {
        match self {
            Self::F16(bits) => bits[range].copy_from_slice(from.reinterpret_cast()),
            Self::F32(floats) => floats[range].iter_mut().zip(from).for_each(|(to, x)| *to = x.to_f32()),
        }
    }
}

/// Keys and values, page by page: [pages, kv_heads, PAGE_TOKENS, width], each head's positions one after the other and
/// each padded with zeros to whole vectors.
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
    /// Everything [pages, kv_heads, PAGE_TOKENS, width].
    pub(crate) numbers: &'a [E],
    /// Key and value heads.
    pub(crate) kv_heads: usize,
    /// Padded width of a head.
    pub(crate) width: usize,
}

impl<'a, E> View<'a, E> {
    /// One head's positions in one page [PAGE_TOKENS, width].
    #[inline(always)]
    pub(crate) fn page(&self, page: PageId, kv_head: usize) -> &'a [E] {
        let length = PAGE_TOKENS * self.width;
        &self.numbers[(page as usize * self.kv_heads + kv_head) * length..][..length]
    }
}

/// Where workers store new positions.
pub(crate) struct Writer<'a, E> {
    numbers: SharedSlice<'a, E>,
    kv_heads: usize,
    width: usize,
}

impl<'a, E: Element> Writer<'a, E> {
    /// A writer over everything [pages, kv_heads, PAGE_TOKENS, width].
    pub(crate) fn new(numbers: &'a mut [E], kv_heads: usize, width: usize) -> Self {
        Self { numbers: SharedSlice::new(numbers), kv_heads, width }
    }

    /// Stores one position's heads, `row` [kv_heads, head width].
    ///
    /// # Safety
    /// No two workers may store the same position at the same time.
    #[inline(always)]
    pub(crate) unsafe fn store<S: Simd>(&self, s: S, page: PageId, position: usize, row: &[f32]) {
        let head_width = row.len() / self.kv_heads;
        for (kv_head, head) in row.chunks_exact(head_width).enumerate() {
            let at = ((page as usize * self.kv_heads + kv_head) * PAGE_TOKENS + position) * self.width;
            // SAFETY: the part belongs to this position and head alone, and the caller keeps positions apart.
            let to = unsafe { self.numbers.part(at..at + self.width) };
            let (whole, rest) = head.as_chunks::<LANES>();
            let to = to.as_chunks_mut::<LANES>().0;
            for (x, to) in whole.iter().zip(to.iter_mut()) {
                E::store(s, s.load(x), to);
            }
            if !rest.is_empty() {
                let mut last = [0.0; LANES];
                last[..rest.len()].copy_from_slice(rest);
                E::store(s, s.load(&last), &mut to[whole.len()]);
            }
        }
    }
}

impl Cache {
    /// An empty cache of `pages`.
    pub(crate) fn new(config: &CacheConfig, pages: usize, format: KvFormat) -> Self {
        let length = |dim: usize| pages * config.kv_heads * PAGE_TOKENS * dim.next_multiple_of(LANES);
        Self {
            config: config.clone(),
            keys: Numbers::new(format, length(config.key_dim)),
            values: Numbers::new(format, length(config.value_dim)),
        }
    }

    /// Bytes when it is full.
    pub(crate) fn bytes(&self) -> usize {
        self.keys.bytes() + self.values.bytes()
    }

    /// See [`duan_backend::Compiled::read_kv`].
    pub(crate) fn read(&self, page: PageId, positions: Range<usize>, keys: &mut [f16], values: &mut [f16]) {
        assert!(positions.end <= PAGE_TOKENS, "positions {positions:?} of a page of {PAGE_TOKENS}");
        for (at, canonical) in places(page, positions.clone(), self.config.kv_heads, self.config.key_dim) {
            self.keys.read(at, &mut keys[canonical]);
        }
        for (at, canonical) in places(page, positions, self.config.kv_heads, self.config.value_dim) {
            self.values.read(at, &mut values[canonical]);
        }
    }

    /// See [`duan_backend::Compiled::write_kv`].
    pub(crate) fn write(&mut self, page: PageId, positions: Range<usize>, keys: &[f16], values: &[f16]) {
        assert!(positions.end <= PAGE_TOKENS, "positions {positions:?} of a page of {PAGE_TOKENS}");
        for (at, canonical) in places(page, positions.clone(), self.config.kv_heads, self.config.key_dim) {
            self.keys.write(at, &keys[canonical]);
        }
        for (at, canonical) in places(page, positions, self.config.kv_heads, self.config.value_dim) {
            self.values.write(at, &values[canonical]);
        }
    }

    /// See [`duan_backend::Compiled::copy_page`].
    pub(crate) fn copy_page(&mut self, from: PageId, to: PageId, count: usize) {
        for (numbers, dim) in [(&mut self.keys, self.config.key_dim), (&mut self.values, self.config.value_dim)] {
            let width = dim.next_multiple_of(LANES);
            for kv_head in 0..self.config.kv_heads {
                let start = |page: PageId| (page as usize * self.config.kv_heads + kv_head) * PAGE_TOKENS * width;
                numbers.copy_within(start(from)..start(from) + count * width, start(to));
            }
        }
    }
}

/// Each head of each position: where it is in the cache, and where in the canonical [positions, kv_heads, dim].
fn places(
    page: PageId,
    positions: Range<usize>,
    kv_heads: usize,
    dim: usize,
) -> impl Iterator<Item = (Range<usize>, Range<usize>)> {
    let width = dim.next_multiple_of(LANES);
    let first = positions.start;
    positions.flat_map(move |position| {
        (0..kv_heads).map(move |kv_head| {
            let at = ((page as usize * kv_heads + kv_head) * PAGE_TOKENS + position) * width;
            let canonical = ((position - first) * kv_heads + kv_head) * dim;
            (at..at + dim, canonical..canonical + dim)
        })
    })
}
