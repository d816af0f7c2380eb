//! Cutting text into pieces by the patterns of a pre-tokenizer, in time linear in the text.
//!
//! Patterns in GPT-2's style end in `\s+(?!\S)|\s+`: a run of white space in front of a word leaves its last character to
//! the word. Automata of linear time have no lookahead, so that the end is taken off such a pattern, `\s+` is tried after all
//! other alternatives, and a match of it that is followed by more text gives its last character back where it has two or
//! more. This is the same: white space that `\s+` matches is followed by the end of the text or by something else than
//! white space, and in the second case the lookahead backs off by one character.

use regex_automata::meta::Regex;
use regex_automata::{Input, PatternID};

use super::pre_tokenizers::PreTokenizer;

/// The ends that are taken off a pattern; both mean the same here, since what no alternative matches is a piece anyway.
const LOOKAHEAD_ENDS: [&str; 2] = [r"|\s+(?!\S)|\s+", r"|\s+(?!\S)"];

/// The compiled patterns of a pre-tokenizer.
#[derive(Debug)]
pub(super) struct Splitter {
    steps: Vec<Step>,
}

#[derive(Debug)]
struct Step {
    regex: Regex,
    /// Whether white space gives its last character to what follows: pattern 1 of `regex` is then `\s+`.
    gives_back: bool,
}

impl Splitter {
    /// Compiles a row; the message of the pattern's error where one is not a regular expression.
    pub(super) fn new(row: &PreTokenizer) -> Result<Splitter, String> {
        let steps = row.steps.iter().map(|pattern| Step::new(pattern)).collect::<Result<_, _>>()?;
        Ok(Splitter { steps })
    }

    /// Calls `piece` with each piece of `text`, in order. The pieces together are the text, and none is empty.
    pub(super) fn split<'t>(&self, text: &'t str, mut piece: impl FnMut(&'t str)) {
        apply(&self.steps, text, &mut piece);
    }
}

fn apply<'t>(steps: &[Step], text: &'t str, piece: &mut dyn FnMut(&'t str)) {
    match steps.split_first() {
        None if text.is_empty() => {}
        None => piece(text),
        Some((step, rest)) => step.split(text, &mut |part| apply(rest, part, piece)),
    }
}

impl Step {
    fn new(pattern: &str) -> Result<Step, String> {
        let others = LOOKAHEAD_ENDS.iter().find_map(|end| pattern.strip_suffix(end));
        let compiled = match others {
            Some(others) => Regex::new_many(&[others, r"\s+"]),
            None => Regex::new(pattern),
        };
        let regex = compiled.map_err(|error| format!("pattern `{pattern}`: {error}"))?;
        Ok(Step { regex, gives_back: others.is_some() })
    }

    fn split<'t>(&self, text: &'t str, part: &mut dyn FnMut(&'t str)) {
        let mut cut = |start: usize, end: usize| {
            if start < end {
                part(&text[start..end]);
            }
        };
        // Everything before `done` was given out; the search goes on from there.
        let mut done = 0;
        let mut input = Input::new(text);
        while done < text.len() {
            input.set_start(done);
            let Some(found) = self.regex.search(&input) else { break };
            let mut end = found.end();
            if self.gives_back && found.pattern() == PatternID::must(1) && end < text.len() {
                end = without_last_character(text, found.start(), end);
            }
            if end == found.start() {
                // No pattern here matches nothing; were one to, the search must still go on.
                break;
            }
            cut(done, found.start());
            cut(found.start(), end);
            done = end;
        }
        cut(done, text.len());
    }
}

/// `end` moved one character to the left, unless that would leave nothing from `start` on.
fn without_last_character(text: &str, start: usize, end: usize) -> usize {
    let last = text[start..end].char_indices().next_back().map_or(0, |(index, _)| index);
    if last == 0 { end } else { start + last }
}

#[cfg(test)]
mod tests {
    use super::super::pre_tokenizers::{GEMMA_4, PRE_TOKENIZERS, by_name};
    use super::*;

    fn pieces(name: &str, text: &str) -> Vec<String> {
        let splitter = Splitter::new(by_name(name).unwrap()).unwrap();
        let mut pieces = Vec::new();
        splitter.split(text, |piece| pieces.push(piece.to_owned()));
        pieces
    }

    #[test]
    fn white_space_leaves_its_last_character_to_the_word() {
        assert_eq!(pieces("gpt-2", "a   b"), ["a", "  ", " b"]);
        assert_eq!(pieces("gpt-2", "a b"), ["a", " b"]);
        assert_eq!(pieces("gpt-2", "a\nb"), ["a", "\n", "b"]);
        assert_eq!(pieces("gpt-2", "a \n\nb"), ["a", " \n", "\n", "b"]);
        assert_eq!(pieces("gpt-2", "a   "), ["a", "   "]);
        assert_eq!(pieces("gpt-2", "\u{3000}\u{3000}b"), ["\u{3000}", "\u{3000}", "b"]);
        assert_eq!(pieces("llama-bpe", "a \n\n  b"), ["a", " \n\n", " ", " b"]);
        assert_eq!(pieces("llama-bpe", "a \n\n"), ["a", " \n\n"]);
    }

    #[test]
    fn rows_differ_where_they_should() {
        assert_eq!(pieces("gpt-2", "I'M 12345"), ["I", "'", "M", " 12345"]);
        assert_eq!(pieces("llama-bpe", "I'M 12345"), ["I", "'M", " ", "123", "45"]);
        assert_eq!(pieces("qwen2", "I'M 123"), ["I", "'M", " ", "1", "2", "3"]);
        assert_eq!(pieces("smollm", "I'm 12"), ["I", "'m", " ", "1", "2"]);
        assert_eq!(pieces("gpt-4o", "helloWorld's"), ["hello", "World's"]);
        assert_eq!(pieces("tekken", "helloWorld's"), ["hello", "World", "'s"]);
        assert_eq!(pieces("falcon", "a.. 12345"), ["a", "..", " ", "123", "45"]);
        assert_eq!(pieces("kimi-k2", "中文abc"), ["中文", "abc"]);
    }

    #[test]
    fn pieces_of_every_row_are_the_text() {
        let texts = [
            "",
            " ",
            "Hello, world! 2024 12345 don't  x\n\n y\r\n\t",
            "\u{85}\u{a0} e\u{301} 각 각 한국어 日本語 ไทย العربية \u{200d}👩‍👩‍👧 \u{10ffff}",
            "<sentinel:1>IMGIMGABZ    a  b",
        ];
        for row in PRE_TOKENIZERS.iter().chain([&GEMMA_4]) {
            let splitter = Splitter::new(row).unwrap();
            for text in texts {
                let mut joined = String::new();
                splitter.split(text, |piece| {
                    assert!(!piece.is_empty());
                    joined.push_str(piece);
                });
                assert_eq!(joined, text, "{:?}", row.names);
            }
        }
    }
}
