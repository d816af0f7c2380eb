//! Calls written as JSON, whose arguments are passed on as they stand.

use serde::de::IgnoredAny;

use super::format::{Call, Input, Next, is_name, some, unfinished};

/// Keys that name the tool, its arguments and the call.
const NAMES: &[&str] = &["name", "tool_name"];
const ARGUMENTS: &[&str] = &["arguments", "parameters"];
const IDS: &[&str] = &["id", "tool_call_id"];

/// Bytes of the JSON value at the start of `text`, after white space.
fn value_length(text: &str) -> Option<usize> {
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<IgnoredAny>();
    values.next()?.ok()?;
    let length = values.byte_offset();
    // Numbers and words must not run into what follows; the reader says so for none but numbers.
    Some(length).filter(|&length| !text[length..].starts_with(|c: char| c.is_alphanumeric()))
}

/// Whether `text` is one JSON value.
pub(super) fn is_value(text: &str) -> bool {
    serde_json::from_str::<IgnoredAny>(text).is_ok()
}

/// Reads the parts of a text one after the other.
struct Cursor<'t> {
    rest: &'t str,
}

impl<'t> Cursor<'t> {
    fn skip_space(&mut self) {
        self.rest = self.rest.trim_start_matches([' ', '\n', '\t', '\r']);
    }

    /// Whether a character is next; then it is read.
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

    /// The text of the value that is next.
    fn value(&mut self) -> Option<&'t str> {
        self.skip_space();
        let length = value_length(self.rest)?;
        let (value, rest) = self.rest.split_at(length);
        self.rest = rest;
        Some(value)
    }

    /// The entries of the object that is next: keys, and texts of values.
    fn object(&mut self) -> Option<Vec<(String, &'t str)>> {
        let mut entries = Vec::new();
        if !self.takes('{') {
            return None;
        }
        while !self.takes('}') {
            if !entries.is_empty() && !self.takes(',') {
                return None;
            }
            let key = serde_json::from_str(self.value()?).ok()?;
            if !self.takes(':') {
                return None;
            }
            entries.push((key, self.value()?));
        }
        Some(entries)
    }
}

/// The objects in a text: one after the other, with signs between them or not, in lists or not.
fn objects(text: &str) -> Option<Vec<&str>> {
    let mut cursor = Cursor { rest: text };
    let mut objects = Vec::new();
    loop {
        while cursor.takes(',') || cursor.takes(';') {}
        if cursor.rest.is_empty() {
            return Some(objects);
        }
        let value = cursor.value()?;
        if value.starts_with('{') {
            objects.push(value);
            continue;
        }
        let mut list = Cursor { rest: value };
        if !list.takes('[') {
            return None;
        }
        let start = objects.len();
        while !list.takes(']') {
            if objects.len() > start && !list.takes(',') {
                return None;
            }
            objects.push(list.value().filter(|value| value.starts_with('{'))?);
        }
    }
}

/// Arguments as they stand; nothing is an empty object, and a string that holds an object is that object.
fn arguments(value: Option<&str>) -> String {
    match value {
        None | Some("null") => "{}".to_owned(),
        Some(value) if value.starts_with('"') => match serde_json::from_str::<String>(value) {
            Ok(inside) if inside.trim_start().starts_with('{') && is_value(&inside) => inside.trim().to_owned(),
            Ok(inside) if inside.trim().is_empty() => "{}".to_owned(),
            _ => value.to_owned(),
        },
        Some(value) => value.to_owned(),
    }
}

/// The call that an object is: `{"name": ..., "arguments": {...}}`, whose keys may have other names, and which may stand in the
/// key `function`.
fn call(object: &str) -> Option<Call> {
    call_within(object, 1)
}

/// The same, with as many objects around it as may stand around one; each of them is read again for the one inside.
fn call_within(object: &str, around: usize) -> Option<Call> {
    let entries = Cursor { rest: object }.object()?;
    let get = |keys: &[&str]| entries.iter().find(|(key, _)| keys.contains(&key.as_str())).map(|(_, value)| *value);
    let text = |value: &str| serde_json::from_str::<String>(value).ok();
    let id = get(IDS).and_then(|id| text(id).or_else(|| serde_json::from_str::<u64>(id).ok().map(|id| id.to_string())));
    if let Some(function) = get(&["function"]).filter(|function| function.starts_with('{')) {
        let inner = call_within(function, around.checked_sub(1)?)?;
        return Some(Call { id: id.or(inner.id), ..inner });
    }
    let name = text(get(NAMES)?)?;
    Some(Call { id, ..Call::new(Some(name.as_str()).filter(|name| is_name(name))?, arguments(get(ARGUMENTS))) })
}

/// Reads calls that are objects with name and arguments.
pub(super) fn read(input: &Input<'_>) -> Option<Next> {
    if input.is_whole {
        return some(objects(input.text)?.into_iter().map(call).collect::<Option<_>>()?);
    }
    let (calls, rest) = cut(input.text);
    unfinished(calls, rest)
}

/// Reads calls that are objects whose key is the name: `{"NAME": {...}}`.
pub(super) fn read_keyed(input: &Input<'_>) -> Option<Next> {
    let keyed = |object: &str| {
        let entries = Cursor { rest: object }.object()?;
        match &entries[..] {
            [(name, value)] if is_name(name) && value.starts_with('{') => Some(Call::new(name, *value)),
            _ => None,
        }
    };
    if input.is_whole {
        return some(objects(input.text)?.into_iter().map(keyed).collect::<Option<_>>()?);
    }
    let mut calls = Vec::new();
    let mut cursor = Cursor { rest: input.text };
    cursor.takes('[');
    let mut rest = cursor.rest;
    while let Some(call) = cursor.value().and_then(keyed) {
        calls.push(call);
        cursor.takes(',');
        rest = cursor.rest;
    }
    // The last one, whose name is known where its arguments have begun.
    let mut last = Cursor { rest };
    let name =
        if last.takes('{') { last.value().and_then(|key| serde_json::from_str::<String>(key).ok()) } else { None };
    if let Some(name) = name.filter(|name| is_name(name) && last.takes(':')) {
        calls.push(Call::incomplete(&name, last.rest.trim()));
        rest = "";
    }
    unfinished(calls, rest.trim().trim_start_matches(']'))
}

/// Reads the arguments of the tool that a header named.
pub(super) fn read_arguments(input: &Input<'_>) -> Option<Next> {
    let name = input.name?;
    // The header is read and gone: what are no arguments are still a call's.
    let call = named(name, input.text, input.is_whole);
    some(vec![call.unwrap_or_else(|| Call::incomplete(name, input.text.trim()))])
}

/// A call by name with JSON for arguments.
pub(super) fn named(name: &str, arguments: &str, is_whole: bool) -> Option<Call> {
    let (name, text) = (name.trim(), arguments.trim());
    if !is_name(name) {
        None
    } else if text.is_empty() && is_whole {
        Some(Call::new(name, "{}"))
    } else if text.starts_with('{') && is_value(text) {
        Some(Call::new(name, text))
    } else if is_whole || !(text.is_empty() || text.starts_with('{')) {
        None
    } else {
        Some(Call::incomplete(name, text))
    }
}

/// The calls of a text that ends before its time, and what is left of it: those that are whole, and one that is not, if its name
/// is known.
fn cut(text: &str) -> (Vec<Call>, &str) {
    let mut calls = Vec::new();
    let mut cursor = Cursor { rest: text };
    while cursor.takes('[') {}
    let mut rest = cursor.rest;
    while let Some(call) = cursor.value().and_then(call) {
        calls.push(call);
        while cursor.takes(',') || cursor.takes(';') {}
        rest = cursor.rest;
    }
    if rest.trim() == "]" {
        return (calls, "");
    }
    match last(rest) {
        Some(last) => {
            calls.push(last);
            (calls, "")
        }
        None => (calls, rest),
    }
}

/// The call at the end of a text that ends before the call does.
fn last(text: &str) -> Option<Call> {
    let mut cursor = Cursor { rest: text };
    let (mut name, mut id) = (None, None);
    if !cursor.takes('{') {
        return None;
    }
    while let Some(key) = cursor.value().and_then(|key| serde_json::from_str::<String>(key).ok()) {
        if !cursor.takes(':') {
            break;
        }
        cursor.skip_space();
        let rest = cursor.rest;
        let value = cursor.value();
        match (key.as_str(), value) {
            (key, None) if ARGUMENTS.contains(&key) => {
                return name.map(|name: String| Call { id, ..Call::incomplete(&name, rest.trim_end()) });
            }
            (key, Some(value)) if ARGUMENTS.contains(&key) => {
                return name.map(|name: String| Call { id, ..Call::incomplete(&name, arguments(Some(value))) });
            }
            (key, Some(value)) if NAMES.contains(&key) => {
                name = serde_json::from_str(value).ok().filter(|name: &String| is_name(name));
            }
            (key, Some(value)) if IDS.contains(&key) => id = serde_json::from_str(value).ok(),
            (_, None) => break,
            _ => {}
        }
        if !cursor.takes(',') {
            break;
        }
    }
    name.map(|name| Call { id, ..Call::incomplete(&name, "") })
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

    fn one(name: &str, arguments: &str, is_complete: bool) -> Vec<(String, String, bool)> {
        vec![(name.to_owned(), arguments.to_owned(), is_complete)]
    }

    #[test]
    fn arguments_stay_as_they_were_written() {
        for arguments in ["{}", "{ \"a\" :1.50}", "{\"a\": {\"b\": [\"\\u00e9\", \"}\"]}}", "[1]"] {
            let expected = one("f", arguments, true);
            assert_eq!(calls(&format!(" {{\"name\": \"f\", \"arguments\": {arguments}}}\n"), true), expected);
            assert_eq!(calls(&format!("[{{\"parameters\":{arguments} , \"tool_name\":\"f\"}}]"), true), expected);
        }
        assert_eq!(calls(r#"{"name": "f", "arguments": "{\"a\": 1}"}"#, true), one("f", "{\"a\": 1}", true));
        assert_eq!(calls(r#"{"name": "f", "arguments": "a"}"#, true), one("f", "\"a\"", true));
        assert_eq!(calls(r#"{"name": "f", "arguments": null}"#, true), one("f", "{}", true));
        assert_eq!(calls(r#"{"name": "f"}"#, true), one("f", "{}", true));
        assert_eq!(
            calls(r#"{"type": "function", "function": {"name": "f", "parameters": {}}}"#, true),
            one("f", "{}", true)
        );
    }

    #[test]
    fn several_calls_may_stand_in_a_list_or_not() {
        let one = r#"{"name": "f", "arguments": {}}"#;
        for text in
            [format!("[{one}, {one}]"), format!("{one}\n{one}"), format!("{one}; {one}"), format!("[{one}][{one}]")]
        {
            assert_eq!(calls(&text, true).len(), 2, "{text}");
        }
    }

    #[test]
    fn what_is_no_call_is_none() {
        for text in [
            "",
            "[]",
            "{}",
            "1",
            "[1]",
            "{\"name\": 1}",
            "{\"name\": \"\"}",
            "{\"name\": \"a b\"}",
            "{\"name\": \"f\"",
            "{name: \"f\"}",
            "{\"name\": \"f\"} x",
            "{\"name\": \"f\",}",
            "[{\"name\": \"f\"}",
            "{\"name\": \"f\" \"arguments\": {}}",
            "{\"arguments\": {}}",
            "{\"name\": \"f\", \"arguments\": {\"a\": \"\n\"}}",
        ] {
            assert_eq!(calls(text, true), [], "{text}");
        }
    }

    #[test]
    fn calls_that_end_early_are_told() {
        assert_eq!(calls(r#"{"name": "f", "arguments": {"a": "b"#, false), one("f", r#"{"a": "b"#, false));
        assert_eq!(calls(r#"{"name": "f", "arguments": {"a": 1}"#, false), one("f", r#"{"a": 1}"#, false));
        assert_eq!(calls(r#"{"name": "f", "#, false), one("f", "", false));
        assert_eq!(calls(r#"{"name": "f"#, false), []);
        let both = calls(r#"[{"name": "f", "arguments": {}}, {"name": "g", "arguments": "#, false);
        assert_eq!(both, [&one("f", "{}", true)[..], &one("g", "", false)].concat());
    }
}
