//! Finding the end of a section while it is written, in one pass.

use super::format::{End, Quote};

/// The most bytes before the text that a JSON value follows: a name.
const LONGEST_NAME_BYTES: usize = 512;

/// How far a section was looked at, and what was found.
#[derive(Debug, Default)]
pub(super) struct Scan {
    at: usize,
    quote: Option<&'static Quote>,
    /// Brackets of JSON that are open.
    depth: usize,
    is_in_json: bool,
    is_in_string: bool,
}

/// Whether a section has its end.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// It ends before this byte, and what follows begins at that one.
    Yes(usize, usize),
    /// Not yet.
    More,
    /// It cannot be what it should be.
    Malformed,
}

impl Scan {
    /// Bytes of the section that are no part of an end or a quote that has begun: the section, where it goes no further.
    pub(super) fn certain(&self, text: &str) -> usize {
        if self.quote.is_some() { text.len() } else { self.at.min(text.len()) }
    }

    /// Looks at what `text`, the section so far, has more than before. The same text must come again with more at its end.
    pub(super) fn advance(&mut self, text: &str, end: &End) -> Found {
        match end {
            End::Text { texts, quotes, is_left } => self.text(text.as_bytes(), texts, quotes, *is_left),
            End::Json { after } => self.json(text.as_bytes(), after.as_bytes()),
        }
    }

    fn text(&mut self, text: &[u8], ends: &[&str], quotes: &'static [Quote], is_left: bool) -> Found {
        while self.at < text.len() {
            let rest = &text[self.at..];
            if let Some(quote) = self.quote {
                if quote.has_escapes && rest[0] == b'\\' {
                    if rest.len() == 1 {
                        return Found::More;
                    }
                    self.at += 2;
                } else if rest.starts_with(quote.close.as_bytes()) {
                    self.quote = None;
                    self.at += quote.close.len();
                } else if quote.close.as_bytes().starts_with(rest) {
                    return Found::More;
                } else {
                    self.at += 1;
                }
                continue;
            }
            if let Some(end) = ends.iter().find(|end| rest.starts_with(end.as_bytes())) {
                return Found::Yes(self.at, if is_left { self.at } else { self.at + end.len() });
            }
            if let Some(quote) = quotes.iter().find(|quote| rest.starts_with(quote.open.as_bytes())) {
                self.quote = Some(quote);
                self.at += quote.open.len();
                continue;
            }
            let mut starts = ends.iter().copied().chain(quotes.iter().map(|quote| quote.open));
            if starts.any(|start| start.as_bytes().starts_with(rest)) {
                return Found::More;
            }
            self.at += 1;
        }
        Found::More
    }

    fn json(&mut self, text: &[u8], after: &[u8]) -> Found {
        if !self.is_in_json {
            while !text[self.at..].starts_with(after) {
                if self.at >= text.len() || after.starts_with(&text[self.at..]) {
                    return Found::More;
                }
                self.at += 1;
                if self.at > LONGEST_NAME_BYTES {
                    return Found::Malformed;
                }
            }
            self.at += after.len();
            self.is_in_json = true;
        }
        while let Some(&byte) = text.get(self.at) {
            self.at += 1;
            match byte {
                b'\\' if self.is_in_string => {
                    if self.at == text.len() {
                        self.at -= 1;
                        return Found::More;
                    }
                    self.at += 1;
                }
                b'"' if self.depth > 0 => self.is_in_string = !self.is_in_string,
                _ if self.is_in_string => {}
                b'{' | b'[' => self.depth += 1,
                b'}' | b']' if self.depth > 0 => {
                    self.depth -= 1;
                    if self.depth == 0 {
                        return Found::Yes(self.at, self.at);
                    }
                }
                b' ' | b'\n' | b'\t' | b'\r' => {}
                _ if self.depth == 0 => return Found::Malformed,
                _ => {}
            }
        }
        Found::More
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::format::JSON;

    /// The end of a section, found at once; the same must come of every way of cutting.
    fn end(text: &str, end: &End) -> Found {
        let at_once = Scan::default().advance(text, end);
        let mut scan = Scan::default();
        let steps = (0..=text.len()).filter(|&length| text.is_char_boundary(length));
        let found = steps.map(|length| scan.advance(&text[..length], end)).find(|found| *found != Found::More);
        assert_eq!(found.unwrap_or(Found::More), at_once, "{text}");
        at_once
    }

    #[test]
    fn ends_in_strings_do_not_count() {
        let tag = End::Text { texts: &["</t>"], quotes: JSON, is_left: false };
        assert_eq!(end("{\"a\": \"</t>\\\"</t>\"}</t>x", &tag), Found::Yes(19, 23));
        assert_eq!(end("é</t", &tag), Found::More);
        assert_eq!(end("\"</t>", &tag), Found::More);
        let left = End::Text { texts: &["</t>"], quotes: &[], is_left: true };
        assert_eq!(end("\"</t>", &left), Found::Yes(1, 1));
    }

    #[test]
    fn json_ends_with_its_last_bracket() {
        let json = End::Json { after: "" };
        assert_eq!(end(" {\"a\": [1, \"}\\\"\"]} x", &json), Found::Yes(18, 18));
        assert_eq!(end("[[]", &json), Found::More);
        assert_eq!(end("x[]", &json), Found::Malformed);
        assert_eq!(end("", &json), Found::More);
        let named = End::Json { after: "[ARGS]" };
        assert_eq!(end("f[ARGS]{}{}", &named), Found::Yes(9, 9));
        assert_eq!(end("f[ARGS", &named), Found::More);
        assert_eq!(end(&"f".repeat(600), &named), Found::Malformed);
    }
}
