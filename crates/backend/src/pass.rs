//! One forward call.

use crate::contract::Limits;
use crate::error::{Error, Result};

/// Positions per page of the KV cache, and the fixed chunk in which attention visits them.
pub const PAGE_TOKENS: usize = 256;

/// A physical page of the KV cache: the same index in every layer of every device.
pub type PageId = u32;

/// Consecutive tokens of one sequence.
#[derive(Debug, Clone)]
pub struct Span<'a> {
    /// The sequence, for state that is not kept in pages.
    pub sequence: u32,
    /// Position of the first token in its sequence; the cache holds everything before it.
    pub start: usize,
    /// How many of the pass's tokens belong to this span.
    pub count: usize,
    /// How many of its last rows results are wanted for: 0 none, 1 the last, `count` all.
    pub wanted: usize,
    /// The sequence's pages: position `p` is in `pages[p / PAGE_TOKENS]`.
    pub pages: &'a [PageId],
}

/// One forward call: tokens, cut into spans in order. A row's result depends neither on the other rows,
/// nor on the thread count, nor on how its sequence was cut into passes.
#[derive(Debug, Clone, Copy)]
pub struct Pass<'a> {
    /// Token ids of all spans, one after the other [rows].
    pub tokens: &'a [u32],
    /// The spans; their counts add up to `tokens.len()`.
    pub spans: &'a [Span<'a>],
}

impl<'a> Pass<'a> {
    /// Rows: one per token.
    pub fn rows(&self) -> usize {
        self.tokens.len()
    }

    /// Rows that results are wanted for.
    pub fn wanted_rows(&self) -> usize {
        self.spans.iter().map(|span| span.wanted).sum()
    }

    /// The rows that results are wanted for, in order.
    pub fn wanted(&self) -> impl Iterator<Item = usize> + 'a {
        self.spans_with_rows().flat_map(|(first, span)| first + span.count - span.wanted..first + span.count)
    }

    /// Each span with its first row.
    pub fn spans_with_rows(&self) -> impl Iterator<Item = (usize, &'a Span<'a>)> + 'a {
        self.spans.iter().scan(0, |next, span| {
            let first = *next;
            *next += span.count;
            Some((first, span))
        })
    }

    /// Checks the pass once, at the door of a device, so that nothing behind it needs to.
    ///
    /// # Errors
    /// When counts, tokens or pages do not fit each other or the limits.
    pub fn check(&self, device: &'static str, limits: &Limits, vocab_size: usize) -> Result<()> {
        let wrong = |message: String| Err(Error::new(device, message));
        let rows = self.spans.iter().try_fold(0usize, |sum, span| sum.checked_add(span.count));
        if rows != Some(self.rows()) || self.rows() == 0 || self.rows() > limits.max_rows {
            return wrong(format!("a pass of {} tokens in spans of {rows:?}, limit {}", self.rows(), limits.max_rows));
        }
        if let Some(token) = self.tokens.iter().find(|&&token| token as usize >= vocab_size) {
            return wrong(format!("token {token} is not in the vocabulary of {vocab_size}"));
        }
        for span in self.spans {
            let end = span.start.checked_add(span.count);
            let reach = span.pages.len().saturating_mul(PAGE_TOKENS);
            if span.wanted > span.count || end.is_none_or(|end| end > reach) {
                return wrong(format!("positions {}+{} do not fit {} pages", span.start, span.count, span.pages.len()));
            }
            if let Some(page) = span.pages.iter().find(|&&page| page as usize >= limits.pages) {
                return wrong(format!("page {page} of {}", limits.pages));
            }
        }
        if self.wanted_rows() > limits.max_wanted_rows {
            return wrong(format!("{} rows of results wanted, limit {}", self.wanted_rows(), limits.max_wanted_rows));
        }
        Ok(())
    }
}
