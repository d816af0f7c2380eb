//! RWKV's "World" tokenizer: the longest token with which the rest of the text begins, again and again.

use super::merge::Merger;
use super::prefixes::Prefixes;
use super::vocabulary::{TokenKind, Vocabulary};

/// A tokenizer by longest match, without its vocabulary.
#[derive(Debug)]
pub(super) struct Rwkv {
    prefixes: Prefixes,
    /// Stands for a byte that no token covers; without it, such bytes are left out.
    unknown: Option<u32>,
}

impl Rwkv {
    pub(super) fn new(vocabulary: &Vocabulary, unknown: Option<u32>) -> Rwkv {
        let text = vocabulary.of_kind(TokenKind::Normal);
        Rwkv { prefixes: Prefixes::new(vocabulary, text), unknown }
    }

    /// Appends the tokens of `text`.
    pub(super) fn encode(&self, vocabulary: &Vocabulary, text: &str, merger: &mut Merger, ids: &mut Vec<u32>) {
        let mut rest = text.as_bytes();
        while !rest.is_empty() {
            let mut longest = (self.unknown, 1);
            merger.steps += self.prefixes.find(vocabulary, rest, |id, bytes| longest = (Some(id), bytes));
            ids.extend(longest.0);
            rest = &rest[longest.1..];
        }
    }
}
