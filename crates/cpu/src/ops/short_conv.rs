//! The gated short convolution, and the state that it keeps beside the KV cache.

use duan_backend::{PAGE_TOKENS, PageId, Span};

use crate::simd::{Simd, Task};

/// The last `taps - 1` products of every page, [pages, taps - 1, width]; memory that the system gives when it is written.
#[derive(Debug)]
pub(crate) struct States {
    numbers: Vec<f32>,
    width: usize,
}

impl States {
    /// Zeros for `pages` states of `width` numbers.
    pub(crate) fn new(width: usize, pages: usize) -> Self {
        Self { numbers: vec![0.0; pages * width], width }
    }

    /// Bytes held when every page is written.
    pub(crate) fn bytes(&self) -> usize {
        self.numbers.len() * size_of::<f32>()
    }

    /// One page's state.
    pub(crate) fn page(&self, page: PageId) -> &[f32] {
        &self.numbers[page as usize * self.width..][..self.width]
    }

    /// One page's state, to write.
    pub(crate) fn page_mut(&mut self, page: PageId) -> &mut [f32] {
        &mut self.numbers[page as usize * self.width..][..self.width]
    }

    /// Copies a state.
    pub(crate) fn copy_page(&mut self, from: PageId, to: PageId) {
        let start = from as usize * self.width;
        self.numbers.copy_within(start..start + self.width, to as usize * self.width);
    }
}

/// One span of a pass.
#[derive(Clone, Copy)]
pub(crate) struct ShortConv<'a> {
    /// `[b, c, x]` of the span's rows [count, 3 * width].
    pub(crate) input: &'a [f32],
    /// The products before the span [taps - 1, width].
    pub(crate) past: &'a [f32],
    /// [taps, width]
    pub(crate) kernel: &'a [f32],
    /// Channels.
    pub(crate) width: usize,
}

impl ShortConv<'_> {
    /// Computes rows `first..` of the span, as many as `out` [rows, width] has.
    pub(crate) fn rows<'b>(&'b self, first: usize, out: &'b mut [f32]) -> Rows<'b> {
        Rows { conv: self, first, out }
    }

    /// Leaves the products in every page that the span comes through.
    pub(crate) fn keep(&self, span: &Span<'_>, states: &mut States) {
        let kept = self.past.len() / self.width;
        let end = span.start + span.count;
        for page in span.start / PAGE_TOKENS..end.div_ceil(PAGE_TOKENS) {
            // Rows of the span up to the last position in this page.
            let rows = end.min((page + 1) * PAGE_TOKENS) - span.start;
            let state = states.page_mut(span.pages[page]);
            for (place, to) in state.chunks_exact_mut(self.width).enumerate() {
                match (rows + place).checked_sub(kept) {
                    Some(row) => self.products(row, to),
                    None => to.copy_from_slice(&self.past[(rows + place) * self.width..][..self.width]),
                }
            }
        }
    }

    /// `b * x` of a row [width].
    fn products(&self, row: usize, to: &mut [f32]) {
        let (b, _, x) = self.row(row);
        to.iter_mut().zip(b.iter().zip(x)).for_each(|(to, (b, x))| *to = b * x);
    }

    #[inline(always)]
    fn row(&self, row: usize) -> (&[f32], &[f32], &[f32]) {
        let row = &self.input[row * 3 * self.width..][..3 * self.width];
        let (b, rest) = row.split_at(self.width);
        let (c, x) = rest.split_at(self.width);
        (b, c, x)
    }
}

/// Consecutive rows.
pub(crate) struct Rows<'a> {
    conv: &'a ShortConv<'a>,
    first: usize,
    out: &'a mut [f32],
}

impl Task for Rows<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        let Self { conv, first, out } = self;
        let width = conv.width;
        let kept = conv.past.len() / width;
        for (row, out) in (first..).zip(out.chunks_exact_mut(width)) {
            out.fill(0.0);
            // Products are rounded before they meet the kernel, as those of the state are.
            for (tap, kernel) in conv.kernel.chunks_exact(width).enumerate() {
                match (row + tap).checked_sub(kept) {
                    Some(row) => {
                        let (b, _, x) = conv.row(row);
                        let products = b.iter().zip(x).map(|(b, x)| b * x);
                        out.iter_mut().zip(kernel).zip(products).for_each(|((out, k), product)| *out += k * product);
                    }
                    None => {
                        let products = &conv.past[(row + tap) * width..][..width];
                        out.iter_mut().zip(kernel).zip(products).for_each(|((out, k), product)| *out += k * product);
                    }
                }
            }
            let (_, c, _) = conv.row(row);
            out.iter_mut().zip(c).for_each(|(out, c)| *out *= c);
        }
    }
}
