//! SentencePiece's `unigram` model, as T5, XLM-RoBERTa and their kin use it: of all ways to write a text in tokens, the one
//! with the best sum of scores.
//!
//! The scores are logarithms of probabilities, so that the best way is the most probable one (Kudo 2018, "Subword
//! Regularization"). It is found in one pass from left to right: what is known of each place is the best way to it. Sums are
//! 64-bit, as in Hugging Face's `tokenizers`.

use super::bpe::{append_byte_tokens, byte_tokens};
use super::charsmap::Charsmap;
use super::merge::Merger;
use super::prefixes::Prefixes;
use super::vocabulary::{METASPACE, TokenKind, Vocabulary};

/// How much worse than the worst token a character is that no token covers.
const UNKNOWN_PENALTY: f64 = 10.0;

/// A tokenizer by probabilities, without its vocabulary.
#[derive(Debug)]
pub(super) struct Unigram {
    prefixes: Prefixes,
    scores: Vec<f64>,
    unknown_score: f64,
    byte_tokens: Box<[u32; 256]>,
    /// Stands for a run of characters without byte tokens; without it, they are left out.
    unknown: Option<u32>,
    charsmap: Option<Charsmap>,
    /// Whether spaces at both ends are dropped, and runs of them are one.
    removes_extra_spaces: bool,
}

/// The best way to a place in the text.
#[derive(Debug, Clone, Copy)]
struct Way {
    score: f64,
    /// Where the last token begins.
    start: usize,
    /// The last token; `None` where no token covers that character.
    token: Option<u32>,
}

impl Unigram {
    /// `scores` has one score for each token; one that is no number counts as none.
    pub(super) fn new(
        vocabulary: &Vocabulary,
        scores: &[f32],
        unknown: Option<u32>,
        charsmap: Option<Charsmap>,
        removes_extra_spaces: bool,
    ) -> Unigram {
        let is_used = |id: u32| {
            matches!(vocabulary.kind(id), TokenKind::Normal | TokenKind::UserDefined) && scores[id as usize].is_finite()
        };
        let worst = vocabulary.of_kind(TokenKind::Normal).filter(|&id| is_used(id)).map(|id| scores[id as usize]);
        let worst = worst.min_by(f32::total_cmp).unwrap_or(0.0);
        Unigram {
            prefixes: Prefixes::new(vocabulary, (0..vocabulary.len() as u32).filter(|&id| is_used(id))),
            scores: scores.iter().map(|&score| f64::from(score)).collect(),
            unknown_score: f64::from(worst) - UNKNOWN_PENALTY,
            byte_tokens: byte_tokens(vocabulary),
            unknown,
            charsmap,
            removes_extra_spaces,
        }
    }

    /// Appends the tokens of `text`, as it came; `prefix` goes in front of what normalization leaves of it.
    pub(super) fn encode(
        &self,
        vocabulary: &Vocabulary,
        prefix: &str,
        text: &str,
        merger: &mut Merger,
        ids: &mut Vec<u32>,
    ) {
        let text = self.normalize(prefix, text);
        let ways = self.best_ways(vocabulary, &text, merger);
        let first = ids.len();
        let (mut end, mut after_unknown) = (text.len(), false);
        while end > 0 {
            let way = ways[end];
            match way.token {
                Some(id) => ids.push(id),
                None => {
                    let bytes = &text.as_bytes()[way.start..end];
                    // A run of unknown characters is one unknown token. All of this is turned round in the end.
                    let from = ids.len();
                    if !append_byte_tokens(bytes, &self.byte_tokens, ids) && !after_unknown {
                        ids.extend(self.unknown);
                    }
                    ids[from..].reverse();
                }
            }
            after_unknown = way.token.is_none();
            end = way.start;
        }
        ids[first..].reverse();
    }

    /// The best way to each place between two characters: [bytes of the text + 1], the other places stay empty.
    fn best_ways(&self, vocabulary: &Vocabulary, text: &str, merger: &mut Merger) -> Vec<Way> {
        let mut ways = vec![Way { score: f64::NEG_INFINITY, start: 0, token: None }; text.len() + 1];
        ways[0].score = 0.0;
        for (start, character) in text.char_indices() {
            let reached = ways[start].score;
            let character_end = start + character.len_utf8();
            let mut is_token = false;
            merger.steps += self.prefixes.find(vocabulary, &text.as_bytes()[start..], |id, bytes| {
                let end = start + bytes;
                is_token |= end == character_end;
                improve(&mut ways[end], reached + self.scores[id as usize], start, Some(id));
            });
            if !is_token {
                improve(&mut ways[character_end], reached + self.unknown_score, start, None);
            }
        }
        ways
    }

    /// Applies the rules of the file, and writes spaces as `▁`. Source: `Normalizer::Normalize` of SentencePiece.
    fn normalize(&self, prefix: &str, mut text: &str) -> String {
        let mut out = String::with_capacity(prefix.len() + text.len());
        let removes = self.removes_extra_spaces;
        let mut after_space = removes;
        while !text.is_empty() {
            let (mut part, bytes) = self.normalize_prefix(text);
            text = &text[bytes..];
            if after_space {
                part = part.trim_start_matches(' ');
            }
            if part.is_empty() {
                continue;
            }
            if out.is_empty() {
                out.push_str(prefix);
            }
            after_space = removes && part.ends_with(' ');
            part.split_inclusive(' ').for_each(|piece| match piece.strip_suffix(' ') {
                Some(word) => out.extend([word, METASPACE]),
                None => out.push_str(piece),
            });
        }
        if removes {
            out.truncate(out.trim_end_matches(METASPACE).len());
        }
        out
    }

    fn normalize_prefix<'t>(&'t self, text: &'t str) -> (&'t str, usize) {
        match &self.charsmap {
            Some(charsmap) => charsmap.normalize_prefix(text),
            None => {
                let bytes = text.find(' ').map_or(text.len(), |space| space.max(1));
                (&text[..bytes], bytes)
            }
        }
    }
}

/// Replaces a way by one with a better score.
fn improve(way: &mut Way, score: f64, start: usize, token: Option<u32>) {
    if score > way.score {
        *way = Way { score, start, token };
    }
}
