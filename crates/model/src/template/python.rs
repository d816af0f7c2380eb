//! Values written as Python writes them: `json.dumps`, `repr`, and the shortest form of floats.
//!
//! Templates are made for Python, and models were trained on what Python wrote. Characters that stand for characters of
//! messages (see [`super::marks`]) are escaped as their originals would be, and what comes of them is marked again.

use std::fmt::Write as _;

use minijinja::value::ValueKind;
use minijinja::{Error, ErrorKind, Value};

use super::bounds::check_depth;
use super::marks::Marks;
use super::values::check_written;

/// Where the writers find the marks of a render, and to whom they report what they write, so that a small value that holds
/// itself many times over cannot make an endless text.
pub(super) struct Scope<'a> {
    pub(super) marks: Option<&'a Marks>,
    /// Called with a number of bytes that were written; an error ends the writing.
    pub(super) charge: &'a dyn Fn(usize) -> Result<(), Error>,
}

/// Options of `json.dumps`.
#[derive(Debug, Clone)]
pub(super) struct JsonStyle {
    pub(super) ensure_ascii: bool,
    pub(super) sort_keys: bool,
    /// What each level is indented by; `None` writes all on one line.
    pub(super) indent: Option<String>,
    pub(super) item_separator: String,
    pub(super) key_separator: String,
}

/// `json.dumps(value)`.
pub(super) fn to_json(value: &Value, style: &JsonStyle, scope: &Scope<'_>) -> Result<String, Error> {
    let mut writer = JsonWriter { style, scope, out: String::new(), charged: 0 };
    writer.value(value, 0)?;
    Ok(writer.out)
}

struct JsonWriter<'a> {
    style: &'a JsonStyle,
    scope: &'a Scope<'a>,
    out: String,
    /// Bytes of `out` that were charged for.
    charged: usize,
}

impl JsonWriter<'_> {
    fn value(&mut self, value: &Value, depth: usize) -> Result<(), Error> {
        check_depth(depth)?;
        check_written(value)?;
        match value.kind() {
            ValueKind::String => self.string(value.as_str().unwrap_or_default()),
            ValueKind::Seq | ValueKind::Iterable => self.list(value, depth)?,
            ValueKind::Map => self.map(value, depth)?,
            _ => self.out.push_str(&scalar(value)?),
        }
        self.settle()
    }

    /// Charges for what was written since the last time: after each value, with the separators before it.
    fn settle(&mut self) -> Result<(), Error> {
        let new = self.out.len() - self.charged;
        self.charged = self.out.len();
        (self.scope.charge)(new)
    }

    fn list(&mut self, value: &Value, depth: usize) -> Result<(), Error> {
        self.out.push('[');
        let mut is_empty = true;
        for item in value.try_iter()? {
            self.separate(is_empty, depth + 1)?;
            is_empty = false;
            self.value(&item, depth + 1)?;
        }
        self.close(']', is_empty, depth)
    }

    fn map(&mut self, value: &Value, depth: usize) -> Result<(), Error> {
        let mut entries = Vec::new();
        for key in value.try_iter()? {
            let name = match key.kind() {
                ValueKind::String => key.as_str().unwrap_or_default().to_owned(),
                _ => scalar(&key)?,
            };
            (self.scope.charge)(name.len())?;
            entries.push((name, value.get_item(&key)?));
        }
        if self.style.sort_keys {
            entries.sort_by(|a, b| a.0.cmp(&b.0));
        }
        self.out.push('{');
        for (index, (name, item)) in entries.iter().enumerate() {
            self.separate(index == 0, depth + 1)?;
            self.string(name);
            self.out.push_str(&self.style.key_separator);
            self.value(item, depth + 1)?;
        }
        self.close('}', entries.is_empty(), depth)
    }

    fn separate(&mut self, is_first: bool, depth: usize) -> Result<(), Error> {
        if !is_first {
            self.out.push_str(&self.style.item_separator);
        }
        self.new_line(depth)
    }

    fn close(&mut self, bracket: char, is_empty: bool, depth: usize) -> Result<(), Error> {
        if !is_empty {
            self.new_line(depth)?;
        }
        self.out.push(bracket);
        Ok(())
    }

    /// Charges for the indentation before it is written, as a template chooses its text.
    fn new_line(&mut self, depth: usize) -> Result<(), Error> {
        if let Some(indent) = &self.style.indent {
            self.settle()?;
            let length = 1 + indent.len().saturating_mul(depth);
            (self.scope.charge)(length)?;
            self.out.push('\n');
            self.out.extend(std::iter::repeat_n(indent.as_str(), depth));
            self.charged += length;
        }
        Ok(())
    }

    fn string(&mut self, text: &str) {
        self.out.push('"');
        let ensure_ascii = self.style.ensure_ascii;
        push_escaped(text, self.scope.marks, &mut self.out, |character, out| match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\0'..'\u{20}' => push_utf16(character, out),
            '\u{7f}'.. if ensure_ascii => push_utf16(character, out),
            _ => out.push(character),
        });
        self.out.push('"');
    }
}

fn push_utf16(character: char, out: &mut String) {
    for unit in character.encode_utf16(&mut [0; 2]) {
        let _ = write!(out, "\\u{unit:04x}");
    }
}

/// Appends `text`, each character as `escape` writes it. What a stand-in's original becomes is marked again, where it is of
/// characters that have a stand-in of their own.
pub(super) fn push_escaped(text: &str, marks: Option<&Marks>, out: &mut String, escape: impl Fn(char, &mut String)) {
    let mut escaped = String::new();
    for character in text.chars() {
        let Some(original) = marks.and_then(|marks| marks.original(character)) else {
            escape(character, out);
            continue;
        };
        escaped.clear();
        escape(original, &mut escaped);
        if escaped.chars().eq([original]) {
            out.push(character);
        } else {
            // Escapes are of ASCII characters, which always have a stand-in.
            let marked = Marks::default().mark(&escaped);
            out.push_str(marked.as_deref().unwrap_or(&escaped));
        }
    }
}

/// A number, a truth value or nothing, as JSON writes it.
fn scalar(value: &Value) -> Result<String, Error> {
    match value.kind() {
        ValueKind::None => Ok("null".to_owned()),
        ValueKind::Bool => Ok(if value.is_true() { "true" } else { "false" }.to_owned()),
        ValueKind::Number if value.is_integer() => Ok(value.to_string()),
        ValueKind::Number => {
            let number = f64::try_from(value.clone())?;
            Ok(if number.is_nan() {
                "NaN".to_owned()
            } else if number.is_infinite() {
                if number > 0.0 { "Infinity" } else { "-Infinity" }.to_owned()
            } else {
                float(number)
            })
        }
        kind => {
            Err(Error::new(ErrorKind::InvalidOperation, format!("a value of kind {kind} cannot be written as JSON")))
        }
    }
}

/// `repr` of a float: the fewest digits that give it back, with an exponent below 1e-4 and from 1e16 on.
pub(super) fn float(number: f64) -> String {
    if number.is_nan() {
        return "nan".to_owned();
    }
    if number.is_infinite() {
        return if number > 0.0 { "inf" } else { "-inf" }.to_owned();
    }
    let scientific = format!("{number:e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..16).contains(&exponent) {
        let plain = format!("{number}");
        return if plain.contains('.') { plain } else { format!("{plain}.0") };
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{mantissa}e{sign}{:02}", exponent.unsigned_abs())
}

/// `str(value)`: text as it stands, all else as [`push_repr`].
pub(super) fn to_str(value: &Value, scope: &Scope<'_>) -> Result<String, Error> {
    let mut out = String::new();
    match value.kind() {
        ValueKind::Seq | ValueKind::Iterable | ValueKind::Map | ValueKind::Number => {
            push_repr(value, scope, &mut out, 0)?
        }
        _ => out = value.to_string(),
    }
    Ok(out)
}

/// Appends `repr(value)`.
fn push_repr(value: &Value, scope: &Scope<'_>, out: &mut String, depth: usize) -> Result<(), Error> {
    check_depth(depth)?;
    check_written(value)?;
    (scope.charge)(2 + value.as_str().map_or(0, str::len))?;
    match value.kind() {
        ValueKind::Undefined => out.push_str("Undefined"),
        ValueKind::String => push_repr_of_string(value.as_str().unwrap_or_default(), scope.marks, out),
        ValueKind::Number if !value.is_integer() => out.push_str(&float(f64::try_from(value.clone())?)),
        ValueKind::Seq | ValueKind::Iterable => {
            let (open, close) = if value.is_tuple() { ('(', ')') } else { ('[', ']') };
            out.push(open);
            let mut count = 0;
            for item in value.try_iter()? {
                out.push_str(if count > 0 { ", " } else { "" });
                push_repr(&item, scope, out, depth + 1)?;
                count += 1;
            }
            if value.is_tuple() && count == 1 {
                out.push(',');
            }
            out.push(close);
        }
        ValueKind::Map => {
            out.push('{');
            for (index, key) in value.try_iter()?.enumerate() {
                out.push_str(if index > 0 { ", " } else { "" });
                push_repr(&key, scope, out, depth + 1)?;
                out.push_str(": ");
                push_repr(&value.get_item(&key)?, scope, out, depth + 1)?;
            }
            out.push('}');
        }
        _ => {
            let _ = write!(out, "{value}");
        }
    }
    Ok(())
}

fn push_repr_of_string(text: &str, marks: Option<&Marks>, out: &mut String) {
    let has = |quote: char| text.chars().any(|c| marks.and_then(|marks| marks.original(c)).unwrap_or(c) == quote);
    let quote = if has('\'') && !has('"') { '"' } else { '\'' };
    out.push(quote);
    push_escaped(text, marks, out, |character, out| match character {
        '\\' => out.push_str("\\\\"),
        '\n' => out.push_str("\\n"),
        '\r' => out.push_str("\\r"),
        '\t' => out.push_str("\\t"),
        '\0'..'\u{20}' | '\u{7f}'..'\u{a1}' | '\u{ad}' => {
            let _ = write!(out, "\\x{:02x}", character as u32);
        }
        _ if character == quote => out.extend(['\\', character]),
        _ => out.push(character),
    });
    out.push(quote);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_are_those_of_python() {
        let cases = [
            (100.0, "100.0"),
            (0.1, "0.1"),
            (-0.0, "-0.0"),
            (1e16, "1e+16"),
            (9007199254740993.0, "9007199254740992.0"),
            (1.5e300, "1.5e+300"),
            (1e-4, "0.0001"),
            (1e-5, "1e-05"),
            (1.25e-7, "1.25e-07"),
            (123456789.125, "123456789.125"),
            (f64::INFINITY, "inf"),
        ];
        for (number, text) in cases {
            assert_eq!(float(number), text);
        }
    }

    #[test]
    fn escapes_of_marked_text_are_marked() {
        let style = JsonStyle {
            ensure_ascii: true,
            sort_keys: false,
            indent: None,
            item_separator: ", ".to_owned(),
            key_separator: ": ".to_owned(),
        };
        let mut marks = Marks::default();
        let marked = marks.mark("a\"é😊\u{1}").unwrap();
        let scope = Scope { marks: Some(&marks), charge: &|_| Ok(()) };
        let json = to_json(&Value::from(marked), &style, &scope).unwrap();
        let parts = marks.parts(&json);
        let expected = r#"a\"\u00e9\ud83d\ude0a\u0001"#;
        assert_eq!(
            parts,
            [
                crate::template::Part::Template("\"".to_owned()),
                crate::template::Part::Content(expected.to_owned()),
                crate::template::Part::Template("\"".to_owned())
            ]
        );
    }
}
