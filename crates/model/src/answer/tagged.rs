//! Calls written with tags: a name, and parameters whose values stand between tags as they are.

use super::format::{Call, Input, Next, is_name, unfinished};
use super::tools::{Kind, object, to_json};

/// What the tags are.
#[derive(Debug)]
pub(super) struct Tags {
    /// In front of a name.
    pub(super) call: &'static str,
    /// Behind a name. If it is a quote, a `>` follows, with attributes before it or not.
    pub(super) name_end: &'static str,
    pub(super) call_end: &'static str,
    /// In front of the name of a parameter.
    pub(super) parameter: &'static str,
    pub(super) parameter_name_end: &'static str,
    /// What ends the tag with a parameter's name, after attributes.
    pub(super) parameter_tag_end: &'static str,
    pub(super) parameter_end: &'static str,
    /// What attributes say of a value.
    pub(super) kind: fn(&str) -> Kind,
    /// Whether a line break at each end of a value is none of its own.
    pub(super) has_lines: bool,
}

/// Attributes that say nothing.
pub(super) fn unknown(_attributes: &str) -> Kind {
    Kind::Any
}

/// Reads all calls of a section.
pub(super) fn read(input: &Input<'_>, tags: &Tags) -> Option<Next> {
    let mut calls = Vec::new();
    let mut rest = input.text.trim_start();
    while !rest.is_empty() {
        match one(rest, tags, input) {
            Some((call, more)) => {
                calls.push(call);
                rest = more.trim_start();
            }
            None if input.is_whole => return None,
            None => break,
        }
    }
    unfinished(calls, rest)
}

/// Reads the call at the start of a text; gives what follows.
fn one<'t>(text: &'t str, tags: &Tags, input: &Input<'_>) -> Option<(Call, &'t str)> {
    let (name, mut rest) = text.strip_prefix(tags.call)?.split_once(tags.name_end)?;
    let name = name.trim();
    if !is_name(name) {
        return None;
    }
    if tags.name_end == "\"" {
        rest = match rest.split_once('>') {
            Some((_, rest)) => rest,
            None if input.is_whole => return None,
            None => return Some((Call::incomplete(name, "{}"), "")),
        };
    }
    let mut arguments = Vec::new();
    // Where no quotation ends behind one parameter, none ends behind the next ones, and nobody looks again.
    let mut quotations_end = true;
    loop {
        rest = rest.trim_start();
        if let Some(rest) = rest.strip_prefix(tags.call_end) {
            return Some((Call::new(name, object(arguments)), rest));
        }
        // The section may end where the call does.
        if rest.is_empty() && input.is_whole {
            return Some((Call::new(name, object(arguments)), rest));
        }
        match parameter(rest, name, tags, input, &mut quotations_end) {
            Some((parameter, value, more)) => {
                arguments.push((parameter, value));
                rest = more;
            }
            None if input.is_whole => return None,
            None => return Some((Call::incomplete(name, object(arguments)), rest)),
        }
    }
}

fn parameter<'t>(
    text: &'t str,
    name: &str,
    tags: &Tags,
    input: &Input<'_>,
    quotations_end: &mut bool,
) -> Option<(&'t str, String, &'t str)> {
    let (parameter, rest) = text.strip_prefix(tags.parameter)?.split_once(tags.parameter_name_end)?;
    let (attributes, rest) =
        if tags.parameter_tag_end.is_empty() { ("", rest) } else { rest.split_once(tags.parameter_tag_end)? };
    let quoted = rest.strip_prefix("<![CDATA[").filter(|_| *quotations_end).and_then(|quoted| {
        let parts = quoted.split_once("]]>");
        *quotations_end = parts.is_some();
        parts
    });
    let (mut value, rest) = match quoted {
        Some((value, rest)) => (value, rest.trim_start().strip_prefix(tags.parameter_end)?),
        None => rest.split_once(tags.parameter_end)?,
    };
    if tags.has_lines {
        value = value.strip_prefix('\n').unwrap_or(value);
        value = value.strip_suffix('\n').unwrap_or(value);
    }
    let parameter = parameter.trim();
    let kind = match (tags.kind)(attributes) {
        Kind::Any => input.tools.kind(name, parameter),
        kind => kind,
    };
    Some((parameter, to_json(value, kind), rest))
}
