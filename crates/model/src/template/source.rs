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

/// `source` with string literals replaced where `replace` gives something else for them.
pub(super) fn with_literals(source: &str, mut replace: impl FnMut(&str) -> Option<String>) -> String {
    replaced(source, |piece, text| if piece == Piece::Literal { replace(text) } else { None })
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
            Some(b'{') => scan_expression(tag, 2, "}}", &mut visit),
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
    let rest = scan_expression(&tag[start + length..], 0, "%}", visit);
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

/// Visits up to `end`, which counts only outside string literals; the first `start` bytes are copied.
fn scan_expression<'s>(text: &'s str, start: usize, end: &str, visit: &mut impl FnMut(Piece, &str)) -> &'s str {
    let bytes = text.as_bytes();
    let (mut done, mut index) = (0, start);
    while index < bytes.len() {
        if text[index..].starts_with(end) {
            let end = index + end.len();
            visit(Piece::Other, &text[done..end]);
            return &text[end..];
        }
        let quote = bytes[index];
        index += 1;
        if quote == b'"' || quote == b'\'' {
            let close = literal_length(&text[index..], quote) + index;
            visit(Piece::Other, &text[done..index]);
            visit(Piece::Literal, &text[index..close]);
            (done, index) = (close, (close + 1).min(bytes.len()));
        }
        while !text.is_char_boundary(index) {
            index += 1;
        }
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

    #[test]
    fn literals_are_found_where_they_are_literals() {
        let mut found = Vec::new();
        let source = r#"it's {{ 'a' ~ "b}}\"c" }}{% if x == '中%}' %}"no"{# 'no' #}{ 'no' }{% raw %}{{ 'no' }}{% endraw %}{{ 'open"#;
        let same = with_literals(source, |literal| {
            found.push(literal.to_owned());
            None
        });
        assert_eq!(same, source);
        assert_eq!(found, ["a", r#"b}}\"c"#, "中%}", "open"]);
        assert_eq!(with_literals("{{ 'a' }}a", |_| Some("é".to_owned())), "{{ 'é' }}a");
    }

    #[test]
    fn unfinished_sources_are_copied() {
        for source in ["{", "{{", "{%", "{#", "{% ", "{{ '", "{{ '\\", "{% raw", "{% raw %}", "{{ é", "{%-+ é"] {
            assert_eq!(with_literals(source, |_| None), source);
            assert_eq!(without_generation_tags(source), source);
        }
    }
}
