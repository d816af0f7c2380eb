//! Finding tokens in text by their own text: those that are matched before anything is merged.

use std::collections::HashSet;

use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};

use super::vocabulary::{TokenKind, Vocabulary};

/// Finds some tokens of a vocabulary in text: the leftmost, and of several there the longest.
#[derive(Debug)]
pub(super) struct Finder {
    /// `None` where there is no token to find.
    automaton: Option<AhoCorasick>,
    ids: Vec<u32>,
}

/// A token that stands in a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) id: u32,
    pub(super) start: usize,
    pub(super) end: usize,
}

impl Finder {
    /// For the tokens of these kinds. Tokens without text are left out. Of tokens with equal text the first counts.
    ///
    /// # Errors
    /// The automaton's own words where the tokens are too much for it (about two thousand million bytes).
    pub(super) fn new(vocabulary: &Vocabulary, kinds: &[TokenKind]) -> Result<Finder, String> {
        // Each text once: the automaton keeps a list of all that end in one place.
        let mut texts = HashSet::new();
        let ids: Vec<u32> = (0..vocabulary.len() as u32)
            .filter(|&id| kinds.contains(&vocabulary.kind(id)))
            .filter(|&id| vocabulary.text(id).is_some_and(|text| !text.is_empty() && texts.insert(text)))
            .collect();
        if ids.is_empty() {
            return Ok(Finder { automaton: None, ids });
        }
        let automaton = AhoCorasick::builder()
            .match_kind(MatchKind::LeftmostLongest)
            .kind(Some(AhoCorasickKind::ContiguousNFA))
            .build(ids.iter().map(|&id| vocabulary.text(id).unwrap_or_default()))
            .map_err(|error| error.to_string())?;
        Ok(Finder { automaton: Some(automaton), ids })
    }

    /// The tokens that stand in `text`, from left to right; they do not overlap.
    pub(super) fn find<'t>(&'t self, text: &'t str) -> impl Iterator<Item = Found> + 't {
        self.automaton.iter().flat_map(move |automaton| automaton.find_iter(text)).map(|found| Found {
            id: self.ids[found.pattern().as_usize()],
            start: found.start(),
            end: found.end(),
        })
    }
}

/// Names by which models end a turn. A token of such a name stops an answer, and is a control token even where the file
/// says that it is a normal one, as files of careless conversions do.
const END_OF_TURN: &[&str] = &[
    "<|eot_id|>",
    "<|eom_id|>",
    "<|im_end|>",
    "<|end|>",
    "<|return|>",
    "<|call|>",
    "<|end_of_turn|>",
    "<end_of_turn>",
    "<|endoftext|>",
    "<|end_of_text|>",
    "<｜end▁of▁sentence｜>",
    "<end_of_utterance>",
];

/// Names by which models begin a turn, or enclose who speaks. They are control tokens even where the file says otherwise.
const START_OF_TURN: &[&str] = &[
    "<|im_start|>",
    "<|start_header_id|>",
    "<|end_header_id|>",
    "<start_of_turn>",
    "<|start_of_turn|>",
    "<|turn>",
    "<|start_of_role|>",
    "<|end_of_role|>",
    "<|START_OF_TURN_TOKEN|>",
    "<|END_OF_TURN_TOKEN|>",
];

/// Names that end a turn where the file says that they are control tokens. Elsewhere they are text: Gemma has `</s>` for
/// struck-out text.
const END_OF_TURN_IF_CONTROL: &[&str] = &["</s>", "<eos>", "<EOT>", "_<EOT>", "[EOT]", "[EOS]", "<turn|>", "[e~["];

/// Tokens that begin a turn by their name, and that the file does not call control tokens.
pub(super) fn miscast_starts_of_turn(texts: &crate::gguf::StringArray, kinds: &[TokenKind]) -> Vec<u32> {
    let tokens = texts.iter().enumerate();
    let miscast = tokens.filter(|&(id, text)| kinds[id] != TokenKind::Control && START_OF_TURN.contains(&text));
    miscast.map(|(id, _)| id as u32).collect()
}

/// Tokens that end a turn by their name. Those that the file does not call control tokens stand in the second list.
pub(super) fn end_of_turn_by_name(texts: &crate::gguf::StringArray, kinds: &[TokenKind]) -> (Vec<u32>, Vec<u32>) {
    let (mut ids, mut miscast) = (Vec::new(), Vec::new());
    for (id, text) in texts.iter().enumerate() {
        let is_control = kinds[id] == TokenKind::Control;
        if END_OF_TURN.contains(&text) || is_control && END_OF_TURN_IF_CONTROL.contains(&text) {
            ids.push(id as u32);
            if !is_control {
                miscast.push(id as u32);
            }
        }
    }
    // In the format of gpt-oss, <|end|> ends a message and the turn goes on; <|return|> and <|call|> end it.
    let has = |name: &str| ids.iter().any(|&id| texts.get(id as usize) == Some(name));
    if has("<|return|>") && has("<|call|>") {
        ids.retain(|&id| texts.get(id as usize) != Some("<|end|>"));
    }
    (ids, miscast)
}

/// Tokens that swallow the white space after them, ascending.
///
/// GGUF does not say which do. They are known for Phi-3, whose `tokenizer.json` has `"rstrip": true` for them, so that the
/// newline that its template writes after each is no token: `</s>`, and 32001 to 32010 with `<|user|>`, `<|assistant|>`,
/// `<|system|>` and `<|end|>`. No other vocabulary has these names in these places.
pub(super) fn strips_right(texts: &crate::gguf::StringArray) -> Vec<u32> {
    let phi_3 = [
        (2, "</s>"),
        (32_000, "<|endoftext|>"),
        (32_001, "<|assistant|>"),
        (32_002, "<|placeholder1|>"),
        (32_006, "<|system|>"),
        (32_007, "<|end|>"),
        (32_010, "<|user|>"),
    ];
    if phi_3.iter().any(|&(id, text)| texts.get(id) != Some(text)) {
        return Vec::new();
    }
    std::iter::once(2).chain(32_001..=32_010).collect()
}

#[cfg(test)]
mod tests {
    use super::super::vocabulary::Spelling;
    use super::*;

    fn vocabulary(tokens: &[&str]) -> Vocabulary {
        Vocabulary::new(tokens.iter().collect(), vec![TokenKind::UserDefined; tokens.len()], Spelling::ByteLevel)
    }

    fn ids(finder: &Finder, text: &str) -> Vec<u32> {
        finder.find(text).map(|found| found.id).collect()
    }

    #[test]
    fn the_leftmost_and_then_the_longest_is_found() {
        let finder = Finder::new(&vocabulary(&["a", "ab", "bcd", "", "a"]), &[TokenKind::UserDefined]).unwrap();
        assert_eq!(ids(&finder, "abcd"), [1]);
        assert_eq!(ids(&finder, "xaabcd"), [0, 1]);
        assert_eq!(ids(&finder, "bcda"), [2, 0]);
        assert_eq!(ids(&finder, ""), [0u32; 0]);
    }

    #[test]
    fn a_finder_without_tokens_finds_nothing() {
        let finder = Finder::new(&vocabulary(&["", "a"]), &[TokenKind::Control]).unwrap();
        assert_eq!(ids(&finder, "a"), [0u32; 0]);
    }

    #[test]
    fn ends_of_turn_are_known_by_name() {
        use TokenKind::{Control, Normal};
        let of = |tokens: &[(&str, TokenKind)]| {
            let kinds: Vec<TokenKind> = tokens.iter().map(|token| token.1).collect();
            end_of_turn_by_name(&tokens.iter().map(|token| token.0).collect(), &kinds)
        };
        assert_eq!(of(&[("a", Normal), ("<|im_end|>", Control)]), (vec![1], vec![]));
        assert_eq!(of(&[("<|eot_id|>", Normal)]), (vec![0], vec![0]));
        assert_eq!(of(&[("</s>", Normal)]), (vec![], vec![]));
        assert_eq!(of(&[("</s>", Control)]), (vec![0], vec![]));
        assert_eq!(of(&[("<|end|>", Control), ("<|return|>", Control), ("<|call|>", Control)]), (vec![1, 2], vec![]));
        assert_eq!(of(&[("<|end|>", Control), ("<|return|>", Control)]), (vec![0, 1], vec![]));
    }
}
