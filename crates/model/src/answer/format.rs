//! What a format is: markers, and what each of them begins.

use super::formats::{FORMATS, PLAIN};
use super::tools::Tools;

/// The longest call, in bytes; what is longer becomes content.
pub const LONGEST_CALL_BYTES: usize = 1 << 20;

/// How the models of a family write thoughts and calls of tools.
#[derive(Debug)]
pub struct Format {
    /// A short name, such as `hermes`.
    pub name: &'static str,
    /// How a template is known: its source has all texts of one of these rows.
    pub(super) signs: &'static [&'static [&'static str]],
    /// What the markers mean, in rows that formats share.
    pub(super) rules: &'static [&'static [Rule]],
}

impl Format {
    /// The format in which a template with this source asks the model to answer: the first one whose signs the source has. Where
    /// none is known, only thoughts in `<think>` are looked for.
    pub fn of(source: &str) -> &'static Format {
        let is_of =
            |format: &&&'static Format| format.signs.iter().any(|signs| signs.iter().all(|sign| source.contains(sign)));
        FORMATS.iter().find(is_of).copied().unwrap_or(&PLAIN)
    }

    /// All formats, in the order in which they are tried; the last one knows no calls.
    pub fn all() -> impl Iterator<Item = &'static Format> {
        FORMATS.iter().copied().chain([&PLAIN])
    }

    pub(super) fn all_rules(&self) -> impl Iterator<Item = &'static Rule> {
        self.rules.iter().flat_map(|rules| rules.iter())
    }
}

/// A marker, and what it means.
#[derive(Debug)]
pub(super) struct Rule {
    pub(super) marker: &'static str,
    pub(super) within: Within,
    pub(super) then: Then,
}

/// Where a marker counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Within {
    /// In thoughts and in content: control tokens, which are never text.
    Any,
    /// In content.
    Content,
    /// In thoughts.
    Reasoning,
    /// Where content begins, or goes on after a call.
    Start,
    /// The same, where the request has tools: what could as well be text.
    StartWithTools,
    /// In content, where the request has tools.
    ContentWithTools,
    /// Directly after a call.
    AfterCall,
}

/// What follows a marker.
#[derive(Debug)]
pub(super) enum Then {
    /// Thoughts.
    Reasoning,
    /// Content.
    Content,
    /// What was before it: the marker means nothing.
    Nothing,
    /// A call, or several.
    Calls(Section),
    /// What says what follows. The generation prompt may have begun it.
    Header(Section),
}

/// A piece of an answer that is read as a whole.
#[derive(Debug)]
pub(super) struct Section {
    pub(super) end: End,
    /// Whether the marker is a part of what is read.
    pub(super) has_marker: bool,
    /// The most bytes.
    pub(super) longest: usize,
    pub(super) read: fn(&Input<'_>) -> Option<Next>,
}

impl Section {
    /// A section of calls.
    pub(super) const fn calls(end: End, read: fn(&Input<'_>) -> Option<Next>) -> Section {
        Section { end, has_marker: false, longest: LONGEST_CALL_BYTES, read }
    }

    /// The same, whose marker is a part of the calls.
    pub(super) const fn with_marker(end: End, read: fn(&Input<'_>) -> Option<Next>) -> Section {
        Section { end, has_marker: true, longest: LONGEST_CALL_BYTES, read }
    }

    /// A header, which is short.
    pub(super) const fn header(end: &'static [&'static str], read: fn(&Input<'_>) -> Option<Next>) -> Section {
        Section { end: End::Text { texts: end, quotes: &[], is_left: false }, has_marker: false, longest: 256, read }
    }
}

/// Where a section ends.
#[derive(Debug)]
pub(super) enum End {
    /// At one of these texts outside of quotes.
    Text {
        texts: &'static [&'static str],
        quotes: &'static [Quote],
        /// Whether the text at the end is left for what follows.
        is_left: bool,
    },
    /// Where a JSON list or object ends, which follows this text, if any.
    Json { after: &'static str },
}

/// What is between these says nothing about the end of a section.
#[derive(Debug)]
pub(super) struct Quote {
    pub(super) open: &'static str,
    pub(super) close: &'static str,
    /// Whether a backslash takes the meaning from the next character.
    pub(super) has_escapes: bool,
}

/// Strings of JSON.
pub(super) const JSON: &[Quote] = &[Quote { open: "\"", close: "\"", has_escapes: true }];

/// Strings of Python.
pub(super) const PYTHON: &[Quote] =
    &[Quote { open: "\"", close: "\"", has_escapes: true }, Quote { open: "'", close: "'", has_escapes: true }];

/// What a section is read from.
pub(super) struct Input<'a> {
    /// What stands in the section, without what ends it.
    pub(super) text: &'a str,
    /// The tool that is called, where a header said so.
    pub(super) name: Option<&'a str>,
    /// Whether the section has its end. If not, the answer ends in it, and a call without its end is one that is not complete.
    pub(super) is_whole: bool,
    pub(super) tools: &'a Tools,
}

/// What a section turned out to be.
pub(super) enum Next {
    /// Calls, one at least.
    Calls(Vec<Call>),
    /// Calls of a section without its end, and what of it belongs to none.
    Unfinished(Vec<Call>, String),
    /// The header of thoughts.
    Reasoning,
    /// The header of content.
    Content,
    /// The header of a call of this tool, and how its arguments are read.
    Arguments(String, &'static Section),
}

/// A call as it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Call {
    pub(super) id: Option<String>,
    pub(super) name: String,
    pub(super) arguments: String,
    pub(super) is_complete: bool,
}

impl Call {
    pub(super) fn new(name: &str, arguments: impl Into<String>) -> Call {
        Call { id: None, name: name.to_owned(), arguments: arguments.into(), is_complete: true }
    }

    pub(super) fn incomplete(name: &str, arguments: impl Into<String>) -> Call {
        Call { is_complete: false, ..Call::new(name, arguments) }
    }
}

/// Calls, or nothing where there is none.
pub(super) fn some(calls: Vec<Call>) -> Option<Next> {
    unfinished(calls, "")
}

/// Calls of a section without its end, and what is left of it; nothing where there is no call.
pub(super) fn unfinished(calls: Vec<Call>, rest: &str) -> Option<Next> {
    match (calls.is_empty(), rest.trim()) {
        (true, _) => None,
        (false, "") => Some(Next::Calls(calls)),
        (false, rest) => Some(Next::Unfinished(calls, rest.to_owned())),
    }
}

/// Whether a text can be the name of a tool.
pub(super) fn is_name(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= 256
        && name.chars().all(|c| !c.is_whitespace() && !c.is_control() && !"<>{}[]()\"'`,;=|".contains(c))
}

/// Thoughts between `<think>` and `</think>`, where the answer begins.
pub(super) const THINK: &[Rule] = &[
    Rule { marker: "<think>", within: Within::Start, then: Then::Reasoning },
    Rule { marker: "</think>", within: Within::Reasoning, then: Then::Content },
    Rule { marker: "</think>", within: Within::Start, then: Then::Content },
];
