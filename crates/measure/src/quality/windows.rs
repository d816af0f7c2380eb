//! How a text is cut: windows of equal length, one behind the other, of which the second half is scored.
//!
//! As llama-perplexity does it: a window sees nothing of the one before; where the model begins texts with a token, that stands in
//! place of the window's first; logits at the positions `length / 2..length - 1` are scored with the token behind each. What is
//! left behind the last whole window is not used.

use std::ops::Range;

/// The positions of a window whose logits are scored: each with the token at the next position.
pub fn scored(length: usize) -> Range<usize> {
    length / 2..length.saturating_sub(1)
}

/// The tokens of window `index` of `tokens`, `length` of them, with `bos` in place of the first where there is one. None behind the
/// last whole window.
pub fn window(tokens: &[u32], index: usize, length: usize, bos: Option<u32>) -> Option<Vec<u32>> {
    let start = index.checked_mul(length)?;
    let mut window = tokens.get(start..start.checked_add(length)?)?.to_vec();
    if let (Some(first), Some(bos)) = (window.first_mut(), bos) {
        *first = bos;
    }
    Some(window)
}

/// A pass of a window: its positions, and for how many of the last of them logits are wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// Positions within the window.
    pub positions: Range<usize>,
    /// How many of the last positions are scored.
    pub wanted: usize,
}

/// The passes through a window of `length` tokens: at most `max_rows` tokens each, of which at most `max_wanted` are scored. The
/// last token is not fed, since nothing comes behind it. The limits must not be 0.
pub fn steps(length: usize, max_rows: usize, max_wanted: usize) -> Vec<Step> {
    let scored = scored(length);
    let (mut steps, mut next) = (Vec::new(), 0);
    while next < scored.end {
        // As far as the limit on scored positions allows, counted from where they begin.
        let end = scored.end.min(next + max_rows).min(next.max(scored.start) + max_wanted);
        steps.push(Step { positions: next..end, wanted: end.saturating_sub(next.max(scored.start)) });
        next = end;
    }
    steps
}
