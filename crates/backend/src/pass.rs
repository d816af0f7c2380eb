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
    /// The sequence, for people.
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
        if let Some(page) = self.page_written_twice() {
            return wrong(format!("page {page} would be written twice in one pass"));
        }
        if self.wanted_rows() > limits.max_wanted_rows {
            return wrong(format!("{} rows of results wanted, limit {}", self.wanted_rows(), limits.max_wanted_rows));
        }
        Ok(())
    }

    /// The pages that this pass writes, with repetitions.
    fn pages_written(&self) -> impl Iterator<Item = PageId> + Clone + 'a {
        let written = self.spans.iter().filter(|span| span.count > 0);
        written.flat_map(|span| {
            span.pages[span.start / PAGE_TOKENS..(span.start + span.count).div_ceil(PAGE_TOKENS)].iter().copied()
        })
    }

    /// A page that two places of a span, or two spans, would write: workers rely on there being none.
    fn page_written_twice(&self) -> Option<PageId> {
        let mut pages = self.pages_written();
        while let Some(page) = pages.next() {
            if pages.clone().any(|other| other == page) {
                return Some(page);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::KvFormat;

    fn check(tokens: &[u32], spans: &[Span<'_>]) -> Result<()> {
        let limits = Limits { max_rows: 600, max_wanted_rows: 2, pages: 8, context: 2048, kv_format: KvFormat::F16 };
        Pass { tokens, spans }.check("test", &limits, 10)
    }

    fn span(start: usize, count: usize, wanted: usize, pages: &[PageId]) -> Span<'_> {
        Span { sequence: 0, start, count, wanted, pages }
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let tokens = vec![1; 300];
        assert!(check(&tokens, &[span(0, 300, 1, &[3, 4])]).is_ok());
        assert!(check(&tokens, &[span(0, 299, 1, &[3, 4])]).is_err(), "counts do not add up");
        assert!(check(&tokens, &[span(0, 300, 301, &[3, 4])]).is_err(), "more wanted than there are");
        assert!(check(&tokens, &[span(0, 300, 3, &[3, 4])]).is_err(), "more wanted than the limit");
        assert!(check(&tokens, &[span(0, 300, 1, &[3])]).is_err(), "beyond the pages");
        assert!(check(&tokens, &[span(usize::MAX, 300, 1, &[3])]).is_err(), "positions that wrap");
        assert!(check(&tokens, &[span(0, 300, 1, &[3, 8])]).is_err(), "a page that is not there");
        assert!(check(&[10], &[span(0, 1, 1, &[0])]).is_err(), "a token that is not there");
        assert!(check(&[], &[]).is_err(), "nothing");
    }

    #[test]
    fn no_page_is_written_twice() {
        let tokens = vec![1; 300];
        assert!(check(&tokens, &[span(0, 300, 1, &[3, 3])]).is_err(), "by one span");
        let two = |a, b| check(&tokens[..20], &[a, b]);
        assert!(two(span(0, 10, 1, &[3]), span(0, 10, 1, &[3])).is_err(), "by two spans");
        // A shared page that both only read is what forks are for.
        assert!(two(span(256, 10, 1, &[3, 4]), span(256, 10, 1, &[3, 5])).is_ok());
    }
}
