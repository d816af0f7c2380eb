//! Cutting text into pieces by the patterns of a pre-tokenizer, in time linear in the text.
//!
//! Automata of linear time cannot look around. What patterns of models look around for is little, and stands here as code:
//!
//! - Patterns in GPT-2's style end in `\s+(?!\S)|\s+`: a run of white space in front of a word leaves its last character to
//!   the word. The end is taken off such a pattern, `\s+` is tried after all other alternatives, and a match of it that is
//!   followed by more text gives its last character back where it has two or more. This is the same: white space that `\s+`
//!   matches is followed by the end of the text or by something else than white space, and in the second case the lookahead
//!   backs off by one character.
//! - Jais 2 ends in the same with lengths: what may be taken of a run goes in steps of 512, 256, ..., 4 and 2 characters.
//!   Nothing else matches inside of the run, because all that could would have matched where the run begins.
//! - Digits in groups of three counted from the right are cut by their number.

use regex_automata::meta::Regex;
use regex_automata::{Anchored, Input, Match, PatternID};

use super::pre_tokenizers::PreTokenizer;

/// Ends that are taken off a pattern, and what is done in their place. What no alternative matches is a piece anyway, so
/// that the second means the same as the first.
const WHITE_SPACE_ENDS: [(&str, WhiteSpace); 3] = [
    (r"|\s+(?!\S)|\s+", WhiteSpace::LeavesLast),
    (r"|\s+(?!\S)", WhiteSpace::LeavesLast),
    (
        r"|\s{512}(?!\S)|\s{256}(?!\S)|\s{128}(?!\S)|\s{64}(?!\S)|\s{32}(?!\S)|\s{16}(?!\S)|\s{8}(?!\S)|\s{4}(?!\S)|\s{1,2}(?!\S)|\s{1}",
        WhiteSpace::Steps,
    ),
];

/// Patterns for groups of three digits, counted from the right.
const DIGIT_GROUPS: [(&str, Groups); 3] = [
    // Where digits and a word touch (`123abc`), nothing is cut.
    (r"\d{1,3}(?=(?:\d{3})*\b)", Groups { run: r"\d+", before_no_word: true, first_is_apart: true }),
    (r"\p{N}{1,3}(?=(?:\p{N}{3})*(?!\p{N}))", Groups { run: r"\p{N}+", before_no_word: false, first_is_apart: true }),
    // Matches nothing, in front of each whole group: the digits before the first one stay with what is left of them.
    (r"(?=(\d{3})+(?!\d))", Groups { run: r"\d+", before_no_word: false, first_is_apart: false }),
];

/// A character of a word, as Oniguruma means it in `\b`, with which such models were made: unlike `\w` of the `regex` crate,
/// it has the digits above the line and the fractions of Latin-1, and not the two joiners.
const WORD: &str = r"[[\w²³¹¼½¾]--[\u{200c}\u{200d}]]";

/// The compiled patterns of a pre-tokenizer.
#[derive(Debug)]
pub(super) struct Splitter {
    steps: Vec<Step>,
}

#[derive(Debug)]
enum Step {
    /// Matches of a pattern. With an end for white space, pattern 1 of the two is `\s+`.
    Pattern(Regex, Option<WhiteSpace>),
    /// Groups of three in the matches of `run`; `word` is a character of a word.
    Digits { run: Regex, word: Regex, groups: Groups },
}

/// What a run of white space becomes that no other alternative takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WhiteSpace {
    /// One piece, but for the last character, which is left to what follows.
    LeavesLast,
    /// As that, in pieces of powers of two.
    Steps,
}

/// How digits are grouped.
#[derive(Debug, Clone, Copy)]
struct Groups {
    /// Pattern of the digits.
    run: &'static str,
    /// Whether only digits are cut that are not followed by a character of a word.
    before_no_word: bool,
    /// Whether digits that make no whole group are pieces of their own, and the run is cut from what is around it.
    first_is_apart: bool,
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
        let compile =
            |patterns: &[&str]| Regex::new_many(patterns).map_err(|error| format!("pattern `{pattern}`: {error}"));
        if let Some(&(_, groups)) = DIGIT_GROUPS.iter().find(|known| known.0 == pattern) {
            return Ok(Step::Digits { run: compile(&[groups.run])?, word: compile(&[WORD])?, groups });
        }
        let end =
            WHITE_SPACE_ENDS.iter().find_map(|&(end, white_space)| Some((pattern.strip_suffix(end)?, white_space)));
        match end {
            Some((others, white_space)) => Ok(Step::Pattern(compile(&[others, r"\s+"])?, Some(white_space))),
            None => Ok(Step::Pattern(compile(&[pattern])?, None)),
        }
    }

    fn split<'t>(&self, text: &'t str, part: &mut dyn FnMut(&'t str)) {
        let mut cuts = Cuts { text, done: 0, part };
        match self {
            Step::Pattern(regex, white_space) => split_by_pattern(|input| regex.search(input), *white_space, &mut cuts),
            Step::Digits { run, word, groups } => split_digits(|input| run.search(input), word, *groups, &mut cuts),
        }
        cuts.cut(text.len());
    }
}

/// A text that is being cut from left to right.
struct Cuts<'t, 'p> {
    text: &'t str,
    /// Everything before was given out.
    done: usize,
    part: &'p mut dyn FnMut(&'t str),
}

impl Cuts<'_, '_> {
    /// Gives out what stands before `end` and was not given out yet.
    fn cut(&mut self, end: usize) {
        if self.done < end {
            (self.part)(&self.text[self.done..end]);
            self.done = end;
        }
    }
}

/// Cuts around the matches that `search` finds.
fn split_by_pattern(mut search: impl FnMut(&Input) -> Option<Match>, white_space: Option<WhiteSpace>, cuts: &mut Cuts) {
    let text = cuts.text;
    let mut input = Input::new(text);
    while cuts.done < text.len() {
        input.set_start(cuts.done);
        let Some(found) = search(&input) else { break };
        let (start, end) = (found.start(), found.end());
        if start == end {
            // No pattern here matches nothing; were one to, the search must still go on.
            break;
        }
        cuts.cut(start);
        match white_space {
            Some(white_space) if found.pattern() == PatternID::must(1) => {
                // What may be taken: all, or all but the last character where more text follows. A single one is taken.
                let last = last_character(text, start, end);
                let usable = if end == text.len() || last == start { end } else { last };
                if white_space == WhiteSpace::Steps {
                    cut_by_steps(cuts, usable);
                }
                cuts.cut(usable);
            }
            _ => cuts.cut(end),
        }
    }
}

/// Where the last character of `text[start..end]` begins.
fn last_character(text: &str, start: usize, end: usize) -> usize {
    text[start..end].char_indices().next_back().map_or(start, |(index, _)| start + index)
}

/// Cuts the characters before `end` in pieces of 512 as long as there are as many, then 256, and so on down to 4 and 2.
fn cut_by_steps(cuts: &mut Cuts, end: usize) {
    let text = &cuts.text[cuts.done..end];
    let mut left = text.chars().count();
    for character in [512, 256, 128, 64, 32, 16, 8, 4, 2] {
        while left >= character {
            let rest = &cuts.text[cuts.done..end];
            let bytes = rest.char_indices().nth(character).map_or(rest.len(), |(index, _)| index);
            cuts.cut(cuts.done + bytes);
            left -= character;
        }
    }
}

/// Cuts the runs of digits that `search` finds.
fn split_digits(mut search: impl FnMut(&Input) -> Option<Match>, word: &Regex, groups: Groups, cuts: &mut Cuts) {
    let text = cuts.text;
    let mut from = 0;
    while let Some(found) = search(&Input::new(text).range(from..)) {
        from = found.end();
        let next = Input::new(text).range(from..text.ceil_char_boundary(from + 1)).anchored(Anchored::Yes);
        if groups.before_no_word && word.is_match(next) {
            continue;
        }
        let digits = &text[found.range()];
        let count = digits.chars().count();
        for (index, (start, _)) in digits.char_indices().enumerate() {
            let begins_group = (count - index).is_multiple_of(3);
            if begins_group || index == 0 && groups.first_is_apart {
                cuts.cut(found.start() + start);
            }
        }
        if groups.first_is_apart {
            cuts.cut(from);
        }
    }
}

#[cfg(test)]
mod tests {
    use regex_automata::hybrid::dfa::{Cache, DFA};

    use super::super::pre_tokenizers::{PRE_TOKENIZERS, by_name};
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
    fn digits_are_grouped_from_the_right() {
        assert_eq!(pieces("tiny_aya", "1234567 12"), ["1", "234", "567", " ", "12"]);
        assert_eq!(pieces("tiny_aya", "12345abc"), ["123", "45", "abc"], "no border of a word: cut from the left");
        assert_eq!(pieces("tiny_aya", "ab1234"), ["ab", "1", "234"]);
        assert_eq!(pieces("tiny_aya", "1234½"), ["123", "4½"], "a fraction belongs to the word");
        assert_eq!(pieces("tiny_aya", "1234\u{200d}"), ["1", "234", "\u{200d}"]);
        assert_eq!(pieces("afmoe", "x12345y"), ["x", "12", "345", "y"]);
        assert_eq!(pieces("superbpe", "a b12345 12"), ["a b", "12", "345", " ", "12"]);
        assert_eq!(pieces("superbpe", "²12345²"), ["²12", "345²"], "only the groups begin a piece");
        assert_eq!(pieces("superbpe", "123456"), ["123", "456"]);
    }

    #[test]
    fn white_space_of_jais_goes_in_powers_of_two() {
        let lengths = |spaces: usize, end: &str| -> Vec<usize> {
            pieces("jais-2", &format!("a{}{end}", " ".repeat(spaces)))[1..].iter().map(String::len).collect()
        };
        assert_eq!(lengths(7, ""), [4, 2, 1]);
        assert_eq!(lengths(7, "b"), [4, 2, 2], "the last one goes to the word");
        assert_eq!(lengths(1, "b"), [2]);
        assert_eq!(lengths(1, "1"), [1, 1]);
        assert_eq!(lengths(1300, "1"), [512, 512, 256, 16, 2, 1, 1, 1]);
        assert_eq!(pieces("jais-2", "a \u{3000} \u{3000}\u{3000}1"), ["a", " \u{3000} \u{3000}", "\u{3000}", "1"]);
    }

    /// Counts the bytes that an automaton looks at in the searches of one step.
    struct Counted {
        automaton: DFA,
        cache: Cache,
        bytes: u64,
    }

    impl Counted {
        fn new(pattern: &str) -> Counted {
            let end = WHITE_SPACE_ENDS.iter().find_map(|&(end, _)| pattern.strip_suffix(end));
            let groups = DIGIT_GROUPS.iter().find(|known| known.0 == pattern).map(|known| known.1.run);
            let config = DFA::config().skip_cache_capacity_check(true);
            let mut builder = DFA::builder();
            builder.configure(config);
            let automaton = match (end, groups) {
                (Some(others), _) => builder.build_many(&[others, r"\s+"]),
                (None, run) => builder.build(run.unwrap_or(pattern)),
            };
            let automaton = automaton.unwrap();
            Counted { cache: automaton.create_cache(), automaton, bytes: 0 }
        }

        /// Searches once more, byte by byte until nothing can change the result, and compares the end of the match.
        fn count(&mut self, input: &Input, found: Option<Match>) -> Option<Match> {
            let (automaton, cache) = (&self.automaton, &mut self.cache);
            let mut state = automaton.start_state_forward(cache, input).unwrap();
            let mut end = None;
            for at in input.start()..input.end() {
                state = automaton.next_state(cache, state, input.haystack()[at]).unwrap();
                self.bytes += 1;
                // A match shows one byte after its end.
                if state.is_match() {
                    end = Some(at);
                }
                if state.is_dead() {
                    assert_eq!(end, found.map(|found| found.end()));
                    return found;
                }
            }
            if automaton.next_eoi_state(cache, state).unwrap().is_match() {
                end = Some(input.end());
            }
            assert_eq!(end, found.map(|found| found.end()));
            found
        }
    }

    /// The number of bytes that all searches of a row look at in a text.
    fn bytes_looked_at(splitter: &Splitter, counted: &mut [Counted], text: &str) -> u64 {
        let mut parts = vec![text];
        for (step, counted) in splitter.steps.iter().zip(counted.iter_mut()) {
            counted.bytes = 0;
            let mut next = Vec::new();
            for part in parts {
                let mut cuts = Cuts { text: part, done: 0, part: &mut |piece| next.push(piece) };
                match step {
                    Step::Pattern(regex, white_space) => {
                        split_by_pattern(|input| counted.count(input, regex.search(input)), *white_space, &mut cuts);
                    }
                    Step::Digits { run, word, groups } => {
                        split_digits(|input| counted.count(input, run.search(input)), word, *groups, &mut cuts);
                    }
                }
                cuts.cut(part.len());
            }
            parts = next;
        }
        counted.iter().map(|counted| counted.bytes).sum()
    }

    const RUNS: [&str; 12] = ["A", " ", "\n", ".", "中", "a1", "\u{301}", "1", "'s", " \n", "\n ", "A "];

    fn all_rows_take_linear_steps(length: usize) {
        for row in PRE_TOKENIZERS {
            let splitter = Splitter::new(row).unwrap();
            let mut counted: Vec<Counted> = row.steps.iter().map(|pattern| Counted::new(pattern)).collect();
            for run in RUNS {
                let [once, twice] = [length, 2 * length]
                    .map(|count| bytes_looked_at(&splitter, &mut counted, &run.repeat(count / run.len())));
                assert!(once >= length as u64 / 2, "{:?}, {run:?}: {once}", row.names);
                assert!(twice * 10 < once * 22, "{:?}, {run:?}: {once} and {twice} bytes", row.names);
                let most = 6 * (row.steps.len() * length) as u64;
                assert!(once <= most, "{:?}, {run:?}: {once} bytes, more than {most}", row.names);
            }
        }
    }

    #[test]
    fn twice_the_text_is_twice_the_work() {
        all_rows_take_linear_steps(1_000);
        all_rows_take_linear_steps(50_000);
    }

    #[test]
    #[ignore = "takes half a minute; run it with --release and --ignored"]
    fn twice_a_long_text_is_twice_the_work() {
        all_rows_take_linear_steps(500_000);
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
        for row in PRE_TOKENIZERS {
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
