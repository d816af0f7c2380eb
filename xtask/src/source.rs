//! Rust source as text: telling code from comments and strings, without parsing it.

/// The text with comments, strings and characters blanked out. Every line keeps its number, every column its place in bytes.
pub(crate) fn code_only(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut code = bytes.to_vec();
    let mut at = 0;
    while at < bytes.len() {
        let end = span_end(bytes, at);
        if end > at {
            code[at..end].iter_mut().filter(|byte| **byte != b'\n').for_each(|byte| *byte = b' ');
            at = end;
        } else {
            at += 1;
        }
    }
    // Whole comments and strings were replaced, so what is left is what the text had, unless it is not Rust.
    String::from_utf8_lossy(&code).into_owned()
}

/// Where the comment, string or character that begins at `at` ends; `at` if none begins there.
fn span_end(bytes: &[u8], at: usize) -> usize {
    let rest = &bytes[at..];
    if rest.starts_with(b"//") {
        return at + rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
    }
    if rest.starts_with(b"/*") {
        return at + block_comment(rest);
    }
    if rest[0] == b'"' {
        return at + quoted(rest);
    }
    let is_in_word = at > 0 && is_word(bytes[at - 1]);
    if !is_in_word && let Some(length) = raw_string(rest) {
        return at + length;
    }
    if rest[0] == b'\'' {
        return at + character(rest);
    }
    at
}

/// Block comments nest.
fn block_comment(rest: &[u8]) -> usize {
    let (mut depth, mut at) = (0usize, 0);
    while at < rest.len() {
        if rest[at..].starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if rest[at..].starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    rest.len()
}

fn quoted(rest: &[u8]) -> usize {
    let mut at = 1;
    while at < rest.len() {
        match rest[at] {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    rest.len()
}

/// `r"..."`, `r#"..."#`, and the same after `b` or `c`. `r#name` is no string.
fn raw_string(rest: &[u8]) -> Option<usize> {
    let letters = usize::from(matches!(rest[0], b'b' | b'c'));
    if rest.get(letters) != Some(&b'r') {
        return None;
    }
    let hashes = rest[letters + 1..].iter().take_while(|byte| **byte == b'#').count();
    let open = letters + 1 + hashes;
    if rest.get(open) != Some(&b'"') {
        return None;
    }
    let mut close = vec![b'"'];
    close.resize(hashes + 1, b'#');
    let inside = &rest[open + 1..];
    let length = inside.windows(close.len()).position(|window| window == close);
    Some(length.map_or(rest.len(), |length| open + 1 + length + close.len()))
}

/// The length of `'x'` or `'\n'`; 0 for a lifetime.
fn character(rest: &[u8]) -> usize {
    if rest.get(1) == Some(&b'\\') {
        let end = rest.iter().skip(3).position(|byte| *byte == b'\'');
        return end.map_or(0, |end| end + 4);
    }
    // One character takes up to four bytes; a lifetime has no quote after its first letter.
    let end = rest.iter().take(6).skip(2).position(|byte| *byte == b'\'');
    match end {
        Some(0) => 3,
        Some(more) if rest[1] >= 0x80 => more + 3,
        _ => 0,
    }
}

/// Whether this byte can be part of a name.
pub(crate) fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80
}

/// Where `word` stands as a whole word in `code`, as offsets in bytes.
pub(crate) fn words<'a>(code: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    let bytes = code.as_bytes();
    code.match_indices(word).map(|(at, _)| at).filter(move |at| {
        let before = at.checked_sub(1).map(|before| bytes[before]);
        let after = bytes.get(at + word.len()).copied();
        !before.is_some_and(is_word) && !after.is_some_and(is_word)
    })
}

/// The line, from 1, of the byte at `at`.
pub(crate) fn line_of(text: &str, at: usize) -> usize {
    text.as_bytes()[..at.min(text.len())].iter().filter(|byte| **byte == b'\n').count() + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_strings_and_characters_are_blank() {
        // A dot in the expected code is a byte that was blanked.
        for (text, code) in [
            ("a // unsafe\nb", "a .........\nb"),
            ("a /* x /* y */ z */ b", "a ................. b"),
            (r#"f("un\"safe", x)"#, "f(.........., x)"),
            ("r#\"a\"b\"# c", "........ c"),
            ("br\"a\\\" c", "...... c"),
            ("for r in x", "for r in x"),
            ("r#type = 1", "r#type = 1"),
            ("'a' 'b", "... 'b"),
            ("<'a>(x: &'a str)", "<'a>(x: &'a str)"),
            ("'\\'' x '\\\\' y '\\u{1f}' z", ".... x .... y ........ z"),
            ("'é' x", ".... x"),
            ("'\"' x \"y\"", "... x ..."),
        ] {
            assert_eq!(code_only(text), code.replace('.', " "), "{text}");
        }
    }

    #[test]
    fn what_is_never_closed_ends_with_the_text() {
        for text in ["\"abc", "/* abc", "r#\"abc", "'\\", "\"\\"] {
            assert_eq!(code_only(text).len(), text.len(), "{text}");
        }
    }

    #[test]
    fn words_are_whole() {
        let found: Vec<usize> = words("unsafe_code unsafe{ not_unsafe unsafe", "unsafe").collect();
        assert_eq!(found, [12, 31]);
        assert_eq!(line_of("a\nb\nc", 4), 3);
    }
}
