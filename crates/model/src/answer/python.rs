//! Calls and values written as Python writes them.

use super::format::{Call, Input, Next, is_name, some, unfinished};
use super::tools::{object, quoted};

/// Lists nested deeper than this are refused.
const DEEPEST: usize = 64;

/// A literal of Python as JSON; `None` where it is none.
pub(super) fn to_json(text: &str) -> Option<String> {
    let mut cursor = Cursor { rest: text };
    let value = cursor.value(0)?;
    cursor.skip_space();
    cursor.rest.is_empty().then_some(value)
}

/// Reads calls such as `[f(a='x', b=[1]), g()]`, with or without the brackets.
pub(super) fn read(input: &Input<'_>) -> Option<Next> {
    let mut cursor = Cursor { rest: input.text };
    let is_list = cursor.takes('[');
    let mut calls = Vec::new();
    let mut rest;
    loop {
        cursor.skip_space();
        rest = cursor.rest;
        if is_list && cursor.takes(']') || !is_list && cursor.rest.is_empty() {
            cursor.skip_space();
            return if cursor.rest.is_empty() { some(calls) } else { None };
        }
        if !calls.is_empty() && is_list && !cursor.takes(',') {
            break;
        }
        // A list may be cut at its end as well.
        cursor.skip_space();
        let name = cursor.name();
        if !is_name(name) || !cursor.takes('(') {
            break;
        }
        match cursor.arguments() {
            (arguments, true) => calls.push(Call::new(name, object_of(&arguments))),
            (arguments, false) if !input.is_whole => {
                calls.push(Call::incomplete(name, object_of(&arguments)));
                rest = "";
                break;
            }
            _ => return None,
        }
    }
    if input.is_whole { None } else { unfinished(calls, rest.trim_start_matches(',')) }
}

fn object_of(arguments: &[(&str, String)]) -> String {
    object(arguments.iter().map(|(name, value)| (*name, value.clone())))
}

/// Reads one value or call after the other.
struct Cursor<'t> {
    rest: &'t str,
}

impl<'t> Cursor<'t> {
    fn skip_space(&mut self) {
        self.rest = self.rest.trim_start();
    }

    fn takes(&mut self, character: char) -> bool {
        self.skip_space();
        match self.rest.strip_prefix(character) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    /// A name, which may have dots and dashes.
    fn name(&mut self) -> &'t str {
        let is_part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.' | '-');
        let (name, rest) = self.rest.split_at(self.rest.find(|c| !is_part(c)).unwrap_or(self.rest.len()));
        self.rest = rest;
        name
    }

    /// Named arguments up to and with the closing bracket; whether it is there, and all before it right.
    fn arguments(&mut self) -> (Vec<(&'t str, String)>, bool) {
        let mut arguments = Vec::new();
        loop {
            if self.takes(')') {
                return (arguments, true);
            }
            if !arguments.is_empty() && !self.takes(',') {
                return (arguments, false);
            }
            if self.takes(')') {
                return (arguments, true);
            }
            self.skip_space();
            let name = self.name();
            if name.is_empty() || !self.takes('=') {
                return (arguments, false);
            }
            match self.value(0) {
                Some(value) => arguments.push((name, value)),
                None => return (arguments, false),
            }
        }
    }

    fn value(&mut self, depth: usize) -> Option<String> {
        if depth > DEEPEST {
            return None;
        }
        self.skip_space();
        match self.rest.chars().next()? {
            '"' | '\'' => self.string().map(|text| quoted(&text)),
            '[' => self.list(']', depth).map(|items| format!("[{}]", items.join(", "))),
            '(' => self.list(')', depth).map(|items| format!("[{}]", items.join(", "))),
            '{' => self.dictionary(depth),
            '-' | '+' | '.' | '0'..='9' => self.number(),
            _ => match self.name() {
                "True" | "true" => Some("true".to_owned()),
                "False" | "false" => Some("false".to_owned()),
                "None" | "null" => Some("null".to_owned()),
                _ => None,
            },
        }
    }

    fn list(&mut self, close: char, depth: usize) -> Option<Vec<String>> {
        self.rest = &self.rest[1..];
        let mut items = Vec::new();
        while !self.takes(close) {
            if !items.is_empty() && !self.takes(',') {
                return None;
            }
            if self.takes(close) {
                break;
            }
            items.push(self.value(depth + 1)?);
        }
        Some(items)
    }

    fn dictionary(&mut self, depth: usize) -> Option<String> {
        self.rest = &self.rest[1..];
        let mut entries = Vec::new();
        while !self.takes('}') {
            if !entries.is_empty() && !self.takes(',') {
                return None;
            }
            if self.takes('}') {
                break;
            }
            self.skip_space();
            let key =
                if self.rest.starts_with(['"', '\'']) { quoted(&self.string()?) } else { quoted(&self.number()?) };
            if !self.takes(':') {
                return None;
            }
            entries.push(format!("{key}: {}", self.value(depth + 1)?));
        }
        Some(format!("{{{}}}", entries.join(", ")))
    }

    fn number(&mut self) -> Option<String> {
        let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.' | '_');
        let (number, rest) = self.rest.split_at(self.rest.find(|c| !is_part(c)).unwrap_or(self.rest.len()));
        self.rest = rest;
        if super::json::is_value(number) {
            return Some(number.to_owned());
        }
        let plain = number.replace('_', "");
        let is_decimal = plain.starts_with(|c: char| matches!(c, '+' | '-' | '.' | '0'..='9'));
        let value: f64 = Some(plain).filter(|_| is_decimal)?.parse().ok()?;
        serde_json::Number::from_f64(value).map(|number| number.to_string())
    }

    fn string(&mut self) -> Option<String> {
        let quote = self.rest.chars().next()?;
        let mut characters = self.rest.char_indices().skip(1);
        let mut text = String::new();
        while let Some((index, character)) = characters.next() {
            match character {
                _ if character == quote => {
                    self.rest = &self.rest[index + 1..];
                    return Some(text);
                }
                '\\' => {
                    let (_, escaped) = characters.next()?;
                    let digits = match escaped {
                        'x' => 2,
                        'u' => 4,
                        'U' => 8,
                        _ => 0,
                    };
                    match escaped {
                        'n' => text.push('\n'),
                        't' => text.push('\t'),
                        'r' => text.push('\r'),
                        '\n' => {}
                        '\\' | '\'' | '"' | '/' => text.push(escaped),
                        _ if digits > 0 => {
                            let code: String = characters.by_ref().take(digits).map(|(_, digit)| digit).collect();
                            text.push(char::from_u32(u32::from_str_radix(&code, 16).ok()?)?);
                        }
                        // Python keeps a backslash that means nothing.
                        _ => text.extend(['\\', escaped]),
                    }
                }
                _ => text.push(character),
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::tools::Tools;

    fn calls(text: &str, is_whole: bool) -> Vec<(String, String, bool)> {
        let tools = Tools::default();
        match read(&Input { text, name: None, is_whole, tools: &tools }) {
            Some(Next::Calls(calls) | Next::Unfinished(calls, _)) => {
                calls.into_iter().map(|call| (call.name, call.arguments, call.is_complete)).collect()
            }
            _ => Vec::new(),
        }
    }

    #[test]
    fn literals_become_json() {
        for (python, json) in [
            ("'it\\'s \"x\"\\n\\u00e9'", "\"it's \\\"x\\\"\\né\""),
            ("[1, -2.5, True, None, (1,), {'a': [], 1: 'b'}]", "[1, -2.5, true, null, [1], {\"a\": [], \"1\": \"b\"}]"),
            ("1_000", "1000.0"),
            ("+.5", "0.5"),
            ("'\\d'", "\"\\\\d\""),
        ] {
            assert_eq!(to_json(python).as_deref(), Some(json), "{python}");
        }
        for python in ["", "x", "'a", "[1", "1 2", "{1}", "inf", "nan", "-", "'\\u12'", &"[".repeat(100)] {
            assert_eq!(to_json(python), None, "{python}");
        }
    }

    #[test]
    fn calls_are_read_with_and_without_brackets() {
        let call = |name: &str, arguments: &str| (name.to_owned(), arguments.to_owned(), true);
        let both = [call("f", r#"{"a": "x, )", "b": [1, 2]}"#), call("g.h", "{}")];
        assert_eq!(calls("[f(a='x, )', b=[1, 2]), g.h()]", true), both);
        assert_eq!(calls(" f(a='x, )',b=[1, 2],)\ng.h( ) ", true), both);
        for text in ["", "[]", "f", "f(1)", "f(a=)", "f(a=1", "[f(a=1)", "f(a=1) x", "(a=1)", "f(a=1 b=2)"] {
            assert_eq!(calls(text, true), [], "{text}");
        }
        let cut = calls("[f(a=1), g(b='x', c='y", false);
        assert_eq!(cut, [call("f", r#"{"a": 1}"#), ("g".to_owned(), r#"{"b": "x"}"#.to_owned(), false)]);
    }
}
