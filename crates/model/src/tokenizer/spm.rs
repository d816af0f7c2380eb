//! SentencePiece-style encoding by scores: of all neighbours that make a token, the pair with the best score is joined first.
//!
//! This is the `bpe` model of SentencePiece, as Llama 2, Mistral and Gemma use it: merges are not listed, any two neighbours
//! whose text together is a token may join. Characters that are no token in the end become byte tokens.

use super::bpe::{append_fallback, byte_tokens};
use super::merge::{Join, Merger, NONE, Symbol};
use super::vocabulary::Vocabulary;

/// A tokenizer by scores, without its vocabulary.
#[derive(Debug)]
pub(super) struct Spm {
    /// For each token, how early a join that makes it comes: the best score is 0.
    priorities: Vec<u32>,
    byte_tokens: Box<[u32; 256]>,
    /// Stands for characters without byte tokens; without it, they are left out.
    unknown: Option<u32>,
}

impl Spm {
    /// `scores` has one score for each token.
    pub(super) fn new(vocabulary: &Vocabulary, scores: &[f32], unknown: Option<u32>) -> Spm {
        let priorities = scores.iter().map(|&score| priority(score)).collect();
        Spm { priorities, byte_tokens: byte_tokens(vocabulary), unknown }
    }

    /// Appends the tokens of `text`, whose spaces are written `▁` already.
    pub(super) fn encode(&self, vocabulary: &Vocabulary, text: &str, merger: &mut Merger, ids: &mut Vec<u32>) {
        let bytes = text.as_bytes();
        merger.clear();
        for (start, character) in text.char_indices() {
            let length = character.len_utf8();
            let token = vocabulary.find(&bytes[start..start + length]).unwrap_or(NONE);
            merger.push(length as u32, token);
        }
        merger.merge(|left, right| self.join(vocabulary, bytes, left, right));
        for symbol in merger.symbols() {
            if symbol.token != NONE {
                ids.push(symbol.token);
            } else {
                let start = symbol.start as usize;
                append_fallback(&bytes[start..start + symbol.bytes as usize], &self.byte_tokens, self.unknown, ids);
            }
        }
    }

    fn join(&self, vocabulary: &Vocabulary, text: &[u8], left: &Symbol, right: &Symbol) -> Option<Join> {
        let start = left.start as usize;
        let token = vocabulary.find(&text[start..start + (left.bytes + right.bytes) as usize])?;
        Some((*self.priorities.get(token as usize)?, token))
    }
}

/// Maps scores to numbers that ascend as scores descend. A score that is no number is the worst.
fn priority(score: f32) -> u32 {
    // Adding zero turns -0 into 0, which is the same score.
    let bits = if score.is_nan() { f32::NEG_INFINITY } else { score + 0.0 }.to_bits();
    let ascending = if bits >> 31 == 1 { !bits } else { bits | 1 << 31 };
    !ascending
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn priorities_ascend_as_scores_descend() {
        let scores = [f32::INFINITY, 1e30, 1.5, 0.0, -0.5, -2.0, -1e30, f32::NEG_INFINITY];
        for pair in scores.windows(2) {
            assert!(priority(pair[0]) < priority(pair[1]), "{pair:?}");
        }
        assert_eq!(priority(0.0), priority(-0.0));
        assert_eq!(priority(f32::NAN), priority(f32::NEG_INFINITY));
    }
}
