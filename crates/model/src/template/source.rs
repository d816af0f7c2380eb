//! The source text of templates: finding tags and string literals, and replacing them.

/// What a piece of a template's source is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Piece {
    /// Anything that is copied as it stands: text, comments, operators, delimiters.
    Other,
    /// The first word of a block tag.
    TagName,
    /// The inside of a string literal in an expression or tag, without its quotes.
    Literal,
    /// The same where the template asks with it and does not write it: beside `==`, `!=` or `in`, in a list behind `in`, or as
    /// an argument of one of [`ASKING`].
    Asking,
}

/// Methods, filters and tests that look for one of their arguments and never give it back, with the place of that argument.
const ASKING: &[(&str, usize)] = &[
    ("count", 0),
    ("endingwith", 0),
    ("endswith", 0),
    ("eq", 0),
    ("equalto", 0),
    ("find", 0),
    ("index", 0),
    ("lstrip", 0),
    ("ne", 0),
    ("rejectattr", 2),
    ("removeprefix", 0),
    ("removesuffix", 0),
    ("replace", 0),
    ("rfind", 0),
    ("rsplit", 0),
    ("rstrip", 0),
    ("sameas", 0),
    ("selectattr", 2),
    ("split", 0),
    ("startingwith", 0),
    ("startswith", 0),
    ("strip", 0),
    ("trim", 0),
];

/// Words that compare what stands behind them.
const COMPARING: &[&str] = &["eq", "equalto", "endingwith", "in", "ne", "sameas", "startingwith"];

/// Whether a literal that stands in front of `rest` is compared with what follows.
fn is_compared_with(rest: &str) -> bool {
    let rest = rest.trim_start();
    let word = &rest[..rest.find(|c: char| !is_word(c)).unwrap_or(rest.len())];
    rest.starts_with("==") || rest.starts_with("!=") || matches!(word, "in" | "is" | "not")
}

fn is_word(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}

/// What stands in front of a place in an expression: enough to know for what a literal there is used.
struct Before<'s> {
    /// The last two words or operators, the latter one second.
    last: [&'s str; 2],
    /// Open brackets: what stood in front of each, and how many of its arguments are over.
    open: Vec<([&'s str; 2], usize)>,
    /// Whether the next `in` belongs to a loop and compares nothing.
    is_loop: bool,
}

impl<'s> Before<'s> {
    /// Takes note of the word or operator at the start of `rest`, and gives its length.
    fn step(&mut self, rest: &'s str) -> usize {
        let character = rest.chars().next().unwrap_or(' ');
        let mut length = character.len_utf8();
        if is_word(character) {
            length = rest.find(|c: char| !is_word(c)).unwrap_or(rest.len());
        } else if rest.starts_with("==") || rest.starts_with("!=") {
            length = 2;
        }
        let word = &rest[..length];
        match character {
            ' ' | '\n' | '\t' | '\r' => return length,
            '(' | '[' | '{' => self.open.push((self.last, 0)),
            ')' | ']' | '}' => drop(self.open.pop()),
            ',' => self.open.last_mut().into_iter().for_each(|(_, arguments)| *arguments += 1),
            _ => {}
        }
        let is_loops_in = word == "in" && std::mem::take(&mut self.is_loop);
        self.last = [self.last[1], if is_loops_in { "" } else { word }];
        length
    }

    /// Whether the template asks with a literal that stands here.
    fn is_asking(&self) -> bool {
        // What is joined to others inside of an argument is a part of what asks.
        let asks_from = |&([operator, name], argument): &([&str; 2], usize)| {
            name == "in" || matches!(operator, "." | "|" | "is" | "not") && ASKING.contains(&(name, argument))
        };
        let last = self.last[1];
        matches!(last, "==" | "!=") || COMPARING.contains(&last) || self.open.last().is_some_and(asks_from)
    }
}

/// `source` with `{% generation %}` blocks made into blocks that do nothing but keep their variables to themselves.
///
/// Templates mark with them what the model wrote, for training; for inference they have no effect.
pub(super) fn without_generation_tags(source: &str) -> String {
    replaced(source, |piece, text| match (piece, text) {
        (Piece::TagName, "generation") => Some("with duan_generation = true".to_owned()),
        (Piece::TagName, "endgeneration") => Some("endwith".to_owned()),
        _ => None,
    })
}

/// `source` with string literals replaced where `replace` gives something else for them; only those with which the template
/// asks. What it writes stays as it is.
pub(super) fn with_asking_literals(source: &str, mut replace: impl FnMut(&str) -> Option<String>) -> String {
    replaced(source, |piece, text| if piece == Piece::Asking { replace(text) } else { None })
}

fn replaced(source: &str, mut replace: impl FnMut(Piece, &str) -> Option<String>) -> String {
    let mut out = String::with_capacity(source.len());
    scan(source, |piece, text| match replace(piece, text) {
        Some(other) => out.push_str(&other),
        None => out.push_str(text),
    });
    out
}

/// Calls `visit` with the pieces of `source` in order; together they are `source`.
fn scan(source: &str, mut visit: impl FnMut(Piece, &str)) {
    let mut rest = source;
    while let Some(start) = rest.find('{') {
        let (before, tag) = rest.split_at(start);
        visit(Piece::Other, before);
        rest = match tag.as_bytes().get(1) {
            Some(b'#') => {
                let end = tag.find("#}").map_or(tag.len(), |end| end + 2);
                visit(Piece::Other, &tag[..end]);
                &tag[end..]
            }
            Some(b'{') => scan_expression(tag, 2, "}}", false, &mut visit),
            Some(b'%') => scan_block(tag, &mut visit),
            _ => {
                visit(Piece::Other, "{");
                &tag[1..]
            }
        };
    }
    visit(Piece::Other, rest);
}

/// Visits a block tag, and for `{% raw %}` all up to `{% endraw %}`; gives what comes after.
fn scan_block<'s>(tag: &'s str, visit: &mut impl FnMut(Piece, &str)) -> &'s str {
    let inside = tag[2..].trim_start_matches(['-', '+']).trim_start();
    let start = tag.len() - inside.len();
    let length = inside.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(inside.len());
    visit(Piece::Other, &tag[..start]);
    visit(Piece::TagName, &inside[..length]);
    let rest = scan_expression(&tag[start + length..], 0, "%}", &inside[..length] == "for", visit);
    if &inside[..length] != "raw" {
        return rest;
    }
    let end = rest
        .match_indices("{%")
        .map(|(index, _)| index)
        .find(|&index| rest[index + 2..].trim_start_matches(['-', '+']).trim_start().starts_with("endraw"));
    let end = end.unwrap_or(rest.len());
    visit(Piece::Other, &rest[..end]);
    &rest[end..]
}

/// Visits up to `end`, which counts only outside string literals; the first `start` bytes are copied. `is_loop` for the tag that
/// begins one.
fn scan_expression<'s>(
    text: &'s str,
    start: usize,
    end: &str,
    is_loop: bool,
    visit: &mut impl FnMut(Piece, &str),
) -> &'s str {
    let bytes = text.as_bytes();
    let (mut done, mut index) = (0, start);
    let mut before = Before { last: [""; 2], open: Vec::new(), is_loop };
    while index < bytes.len() {
        if text[index..].starts_with(end) {
            let end = index + end.len();
            visit(Piece::Other, &text[done..end]);
            return &text[end..];
        }
        let quote = bytes[index];
        if quote != b'"' && quote != b'\'' {
            index += before.step(&text[index..]);
            continue;
        }
        index += 1;
        let close = literal_length(&text[index..], quote) + index;
        let next = (close + 1).min(bytes.len());
        let is_asking = before.is_asking() || is_compared_with(&text[next..]);
        visit(Piece::Other, &text[done..index]);
        visit(if is_asking { Piece::Asking } else { Piece::Literal }, &text[index..close]);
        before.last = [""; 2];
        (done, index) = (close, next);
    }
    visit(Piece::Other, &text[done..]);
    ""
}

/// Bytes up to the quote that closes a literal.
fn literal_length(text: &str, quote: u8) -> usize {
    let mut is_escaped = false;
    for (index, byte) in text.bytes().enumerate() {
        if is_escaped {
            is_escaped = false;
        } else if byte == b'\\' {
            is_escaped = true;
        } else if byte == quote {
            return index;
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generation_tags_become_scopes() {
        assert_eq!(
            without_generation_tags("a{%- generation -%}x{%endgeneration%}b{{ generation }}{# {% generation %} #}"),
            "a{%- with duan_generation = true -%}x{%endwith%}b{{ generation }}{# {% generation %} #}"
        );
        let raw = "{% raw %}{% generation %}{% endraw %}{{ 'x' }}";
        assert_eq!(without_generation_tags(raw), raw);
    }

    /// All literals of a source, and of these the ones with which it asks.
    fn literals(source: &str) -> (Vec<String>, Vec<String>) {
        let (mut all, mut asking) = (Vec::new(), Vec::new());
        scan(source, |piece, text| {
            if matches!(piece, Piece::Literal | Piece::Asking) {
                all.push(text.to_owned());
            }
            if piece == Piece::Asking {
                asking.push(text.to_owned());
            }
        });
        (all, asking)
    }

    #[test]
    fn literals_are_found_where_they_are_literals() {
        let source = r#"it's {{ 'a' ~ "b}}\"c" }}{% if x == '中%}' %}"no"{# 'no' #}{ 'no' }{% raw %}{{ 'no' }}{% endraw %}{{ 'open"#;
        assert_eq!(with_asking_literals(source, |_| None), source);
        let (all, asking) = literals(source);
        assert_eq!(all, ["a", r#"b}}\"c"#, "中%}", "open"]);
        assert_eq!(asking, ["中%}"]);
        assert_eq!(
            with_asking_literals("{{ 'a' ~ ('b' == c) }}a", |_| Some("é".to_owned())),
            "{{ 'a' ~ ('é' == c) }}a"
        );
    }

    #[test]
    fn what_a_template_writes_is_no_question() {
        for (expression, expected) in [
            ("'no' + ('a' in c)", vec!["a"]),
            ("'no' if '</think>' in c else 'no'", vec!["</think>"]),
            ("c == 'a' or 'b' != c or 'no'", vec!["a", "b"]),
            ("'a' not in c and c not in ['b', 'c'] and c in ('d',)", vec!["a", "b", "c", "d"]),
            ("c.split('a')[-1].strip('b') ~ 'no'", vec!["a", "b"]),
            ("c.replace('a', 'no') | replace('b', 'no') | join('no') | default('no')", vec!["a", "b"]),
            ("f('no', ['no'], {'no': 'no'}) ~ strip('no') ~ c.startswith('a')", vec!["a"]),
            ("m['no'] is eq 'a' and m is in(['no'])", vec!["a"]),
            ("m | selectattr('a', 'equalto', 'b') | map(attribute='no')", vec!["b"]),
        ] {
            let (_, asking) = literals(&format!("{{{{ {expression} }}}}"));
            assert_eq!(asking, expected, "{expression}");
        }
        assert_eq!(literals("{% for c in ['no'] if c in ['a'] %}{% set x = 'no' %}").1, ["a"]);
    }

    #[test]
    fn unfinished_sources_are_copied() {
        for source in
            ["{", "{{", "{%", "{#", "{% ", "{{ '", "{{ '\\", "{% raw", "{% raw %}", "{{ é", "{%-+ é", "{{ )]}"]
        {
            assert_eq!(with_asking_literals(source, |_| None), source);
            assert_eq!(without_generation_tags(source), source);
        }
    }
}
