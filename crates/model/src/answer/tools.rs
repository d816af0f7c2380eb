//! What is known of the tools of a request, and values that were written without quotes as JSON.

use std::collections::HashMap;

use serde_json::Value;

use super::{json, python};

/// The tools of a request: their names, and which of their parameters are texts.
#[derive(Debug, Default)]
pub(super) struct Tools {
    functions: HashMap<String, HashMap<String, Kind>>,
}

/// What a parameter is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A text and nothing else.
    Text,
    /// A number, a list, and so on, and no text.
    Other,
    /// Not known, or one of several.
    Any,
}

impl Tools {
    /// From definitions as requests have them: `{"type": "function", "function": {"name": ..., "parameters": ...}}`, or what
    /// stands in `function` alone.
    pub(super) fn new(definitions: &[Value]) -> Tools {
        let mut functions = HashMap::new();
        for definition in definitions {
            let function = definition.get("function").unwrap_or(definition);
            let Some(name) = function["name"].as_str() else { continue };
            let properties = function["parameters"]["properties"].as_object();
            let kinds = properties.into_iter().flatten().map(|(name, schema)| (name.clone(), kind(schema))).collect();
            functions.insert(name.to_owned(), kinds);
        }
        Tools { functions }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.functions.is_empty()
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.functions.contains_key(name)
    }

    pub(super) fn kind(&self, function: &str, parameter: &str) -> Kind {
        self.functions.get(function).and_then(|kinds| kinds.get(parameter)).copied().unwrap_or(Kind::Any)
    }
}

fn kind(schema: &Value) -> Kind {
    match &schema["type"] {
        Value::String(name) if name.eq_ignore_ascii_case("string") => Kind::Text,
        Value::String(_) => Kind::Other,
        Value::Array(names) if !names.iter().any(|name| name == "string") => Kind::Other,
        Value::Array(names) if names.len() == 1 => Kind::Text,
        Value::Null if schema["enum"].as_array().is_some_and(|values| values.iter().all(Value::is_string)) => {
            Kind::Text
        }
        _ => Kind::Any,
    }
}

/// A value that was written as it is, as JSON: a text as a string, all else as what it says. What is neither JSON nor Python is
/// a string, whatever it should be.
pub(super) fn to_json(text: &str, kind: Kind) -> String {
    if kind == Kind::Text {
        return quoted(text);
    }
    let trimmed = text.trim();
    // A string in quotes is the text with its quotes, unless something else than a text was asked for.
    if json::is_value(trimmed) && (kind == Kind::Other || !trimmed.starts_with('"')) {
        return trimmed.to_owned();
    }
    match python::to_json(trimmed) {
        Some(value) if kind == Kind::Other || !value.starts_with('"') => value,
        _ => quoted(text),
    }
}

/// A text as a string of JSON.
pub(super) fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

/// An object of JSON from names and values that are JSON already.
pub(super) fn object<'a>(entries: impl IntoIterator<Item = (&'a str, String)>) -> String {
    let entries: Vec<String> = entries.into_iter().map(|(name, value)| format!("{}: {value}", quoted(name))).collect();
    format!("{{{}}}", entries.join(", "))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_become_what_the_schema_says() {
        for (text, kind, expected) in [
            ("3", Kind::Any, "3"),
            ("3", Kind::Text, "\"3\""),
            (" Paris", Kind::Any, "\" Paris\""),
            ("True", Kind::Any, "true"),
            ("None", Kind::Other, "null"),
            ("['a', 1]", Kind::Any, "[\"a\", 1]"),
            ("{\"a\":  1}", Kind::Any, "{\"a\":  1}"),
            ("\"x\"", Kind::Any, "\"\\\"x\\\"\""),
            ("\"x\"", Kind::Other, "\"x\""),
            ("'x'", Kind::Other, "\"x\""),
            ("[1", Kind::Other, "\"[1\""),
            ("", Kind::Other, "\"\""),
        ] {
            assert_eq!(to_json(text, kind), expected, "{text} {kind:?}");
        }
    }

    #[test]
    fn kinds_come_from_both_forms_of_definitions() {
        let parameters = json!({"properties": {"a": {"type": "string"}, "b": {"type": "integer"}, "c": {},
            "d": {"type": ["string", "null"]}, "e": {"enum": ["x"]}, "f": {"type": ["string"]}}});
        let wrapped = json!({"type": "function", "function": {"name": "f", "parameters": parameters}});
        let bare = json!({"name": "g", "parameters": parameters});
        let tools = Tools::new(&[wrapped, bare, json!({}), json!(1)]);
        for name in ["f", "g"] {
            let kinds: Vec<Kind> = ["a", "b", "c", "d", "e", "f", "x"].map(|p| tools.kind(name, p)).to_vec();
            use Kind::{Any, Other, Text};
            assert_eq!(kinds, [Text, Other, Any, Any, Text, Text, Any]);
        }
        assert!(tools.has("f") && !tools.has("h"));
    }
}
