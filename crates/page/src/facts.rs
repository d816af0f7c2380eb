//! JSON of a machine's state as names and values, whatever is in it.
//!
//! What a later version reads besides is shown too, and nothing has to be known of it but the rule that quantities end in their
//! unit.

use serde::Serialize;
use serde_json::{Map, Value};

use crate::numbers::{bytes, percent, three_digits};

/// So many entries of a list are shown; the data for programs has all.
const MOST_ENTRIES: usize = 64;
/// Values inside values, no deeper than this.
const MOST_DEPTH: usize = 6;

/// A part of the state.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Group {
    name: String,
    rows: Vec<Row>,
    /// How many of them could not be read.
    pub(crate) not_readable: usize,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
struct Row {
    name: String,
    value: String,
    is_readable: bool,
}

/// Each field of an object that is one itself; other fields are in a group of their own.
pub(crate) fn groups(state: &Value) -> Vec<Group> {
    let Value::Object(fields) = state else { return Vec::new() };
    let mut groups: Vec<Group> = Vec::new();
    let mut others = Map::new();
    for (name, value) in fields {
        match value {
            Value::Object(inner) if reason(value).is_none() => groups.push(group(&words(name), inner)),
            other => _ = others.insert(name.clone(), other.clone()),
        }
    }
    if !others.is_empty() {
        groups.push(group("more", &others));
    }
    groups
}

fn group(name: &str, fields: &Map<String, Value>) -> Group {
    let mut rows = Vec::new();
    for (name, value) in fields {
        add(&mut rows, &words(name), name, value, 0);
    }
    let not_readable = rows.iter().filter(|row| !row.is_readable).count();
    Group { name: name.to_owned(), rows, not_readable }
}

/// Why a value is not there, where it is not.
fn reason(value: &Value) -> Option<&str> {
    let Value::Object(fields) = value else { return None };
    fields.get("not_readable")?.as_str().filter(|_| fields.len() == 1)
}

fn add(rows: &mut Vec<Row>, shown: &str, name: &str, value: &Value, depth: usize) {
    let mut push = |value: String, is_readable: bool| rows.push(Row { name: shown.to_owned(), value, is_readable });
    if let Some(reason) = reason(value) {
        return push(format!("not readable: {reason}"), false);
    }
    match value {
        Value::Object(fields) if depth < MOST_DEPTH => {
            for (inner, value) in fields {
                add(rows, &format!("{shown}: {}", words(inner)), inner, value, depth + 1);
            }
        }
        Value::Array(items) if items.iter().any(|item| item.is_object() || item.is_array()) => {
            for (index, item) in items.iter().take(MOST_ENTRIES).enumerate() {
                let what = format!("{shown} {}", index + 1);
                rows.push(Row { name: what, value: on_one_line(item), is_readable: true });
            }
            if items.len() > MOST_ENTRIES {
                let more = format!("and {} more", items.len() - MOST_ENTRIES);
                rows.push(Row { name: shown.to_owned(), value: more, is_readable: true });
            }
        }
        _ => push(value_text(name, value), true),
    }
}

/// An entry of a list: its fields, but for those that are not readable.
fn on_one_line(value: &Value) -> String {
    match value {
        Value::Object(fields) => {
            let known = fields.iter().filter(|(_, value)| reason(value).is_none() && !value.is_null());
            let field = |(name, value): (&String, &Value)| match value {
                Value::Object(_) => format!("{}: ({})", words(name), on_one_line(value)),
                _ => format!("{} {}", words(name), value_text(name, value)),
            };
            known.map(field).collect::<Vec<_>>().join(", ")
        }
        other => value_text("", other),
    }
}

/// A value that is none of others, in the unit that its name ends in.
pub(crate) fn value_text(name: &str, value: &Value) -> String {
    match value {
        Value::Null => "none".to_owned(),
        Value::Bool(yes) => if *yes { "yes" } else { "no" }.to_owned(),
        Value::String(text) if text.is_empty() => "not known".to_owned(),
        Value::String(text) => text.clone(),
        Value::Number(number) => number.as_f64().map_or_else(|| number.to_string(), |number| number_text(name, number)),
        Value::Array(items) if items.is_empty() => "none".to_owned(),
        Value::Array(items) => {
            let mut texts: Vec<String> = items.iter().take(MOST_ENTRIES).map(|item| value_text(name, item)).collect();
            if items.len() > MOST_ENTRIES {
                texts.push(format!("and {} more", items.len() - MOST_ENTRIES));
            }
            texts.join(", ")
        }
        object => on_one_line(object),
    }
}

fn number_text(name: &str, number: f64) -> String {
    let in_unit = |scale: f64, unit: &str| format!("{} {unit}", three_digits(number / scale));
    match name.rsplit('_').next().unwrap_or_default() {
        "bytes" => bytes(number),
        "khz" => in_unit(1e6, "GHz"),
        "hz" => in_unit(1e9, "GHz"),
        "millicelsius" => format!("{:.1} °C", number / 1e3),
        "share" => percent(number),
        "percent" => format!("{number} %"),
        "us" => in_unit(1e6, "s"),
        "ms" => in_unit(1e3, "s"),
        "ns" => in_unit(1e6, "ms"),
        _ if number.fract() == 0.0 && number.abs() >= 1e4 => three_digits(number),
        _ if number.fract() == 0.0 => number.to_string(),
        _ => three_digits(number),
    }
}

/// A name of JSON as words, without the unit that its value has then.
fn words(name: &str) -> String {
    if name == "millicelsius" {
        return "temperature".to_owned();
    }
    let units = ["_bytes", "_khz", "_hz", "_millicelsius", "_us", "_ms", "_ns", "_percent"];
    let name = units.iter().find_map(|unit| name.strip_suffix(unit)).unwrap_or(name);
    name.replace('_', " ")
}

#[cfg(test)]
mod tests {
    use duan_system::{State, made_up};
    use serde_json::json;

    use super::*;

    #[test]
    fn values_are_in_the_unit_of_their_name() {
        let state = json!({
            "memory": { "total_bytes": 8_000_000_000_u64, "page_bytes": { "not_readable": "no such file" }, "limit_bytes": null },
            "thermal": { "zones": [{ "name": "cpu", "millicelsius": 41_500, "kind": { "not_readable": "denied" } }] },
            "steal_share": 0.25,
        });
        let groups = groups(&state);
        let rows = |group: &Group| {
            group.rows.iter().map(|row| (row.name.clone(), row.value.clone(), row.is_readable)).collect::<Vec<_>>()
        };
        let row = |name: &str, value: &str, is_readable| (name.to_owned(), value.to_owned(), is_readable);
        assert_eq!(
            rows(&groups[0]),
            [
                row("total", "8.00 GB", true),
                row("page", "not readable: no such file", false),
                row("limit", "none", true)
            ]
        );
        assert_eq!(groups[0].not_readable, 1);
        assert_eq!(rows(&groups[1]), [row("zones 1", "name cpu, temperature 41.5 °C", true)]);
        assert_eq!((groups[2].name.as_str(), rows(&groups[2])), ("more", vec![row("steal share", "25 %", true)]));
        assert_eq!(super::groups(&json!(null)), []);
    }

    #[test]
    fn every_made_up_machine_has_its_groups() {
        for machine in [made_up::phone(), made_up::laptop(), made_up::container(), made_up::raspberry_pi()] {
            let state = serde_json::to_value(State::read(&machine)).unwrap();
            let groups = groups(&state);
            assert_eq!(groups.len(), state.as_object().unwrap().len());
            assert!(groups.iter().all(|group| !group.rows.is_empty()), "{groups:?}");
        }
    }
}
