//! What another engine printed, and the rates in it.

use regex::{Captures, Regex, RegexBuilder};
use serde_json::Value;

use super::command::split;
use crate::bench::{Test, median};
use crate::records::{Head, read as read_records};

/// A compiled pattern is no larger.
const PATTERN_LIMIT_BYTES: usize = 1 << 20;
/// Of what stands in a message, no more letters.
const QUOTED_LETTERS: usize = 60;

/// What a command printed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Printed {
    /// For programs.
    pub stdout: String,
    /// For people.
    pub stderr: String,
}

/// What was measured in one run of a command.
#[derive(Debug, Clone, PartialEq)]
pub struct Ran {
    /// Tokens per second: the median, where it measured more than once.
    pub ts: f64,
    /// Its settings, as far as it tells them.
    pub head: Option<Head>,
    /// The row it was read from, where it was a row.
    pub row: Option<Value>,
}

/// Where rates stand in what a program prints.
#[derive(Debug, Clone)]
pub struct Pattern {
    name: String,
    regex: Regex,
    /// The groups that count, by name, the first being the one without a name.
    groups: Vec<Group>,
}

/// What stands in a group of a pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Group {
    /// Tokens per second of any test; the first group where it has no name.
    Rate(usize),
    /// Tokens per second of prefill.
    Prefill(usize),
    /// Tokens per second of decode.
    Decode(usize),
    /// Seconds of all tokens of the test.
    Seconds(usize),
    /// Milliseconds of all tokens of the test.
    Milliseconds(usize),
}

impl Pattern {
    /// From `NAME=REGEX`, the name being that of a command. Of the groups of the regular expression one at least must say
    /// what it holds: `(?<prefill>...)`, `(?<decode>...)` and `(?<rate>...)` tokens per second, `(?<s>...)` and `(?<ms>...)`
    /// the time of all tokens; a group without a name is a rate. Each line is looked at for itself (`^` and `$`).
    ///
    /// # Errors
    /// Where it is no regular expression, or has no such group.
    pub fn parse(text: &str) -> Result<Pattern, String> {
        let (name, pattern) = split(text, "REGEX")?;
        let regex = RegexBuilder::new(pattern).multi_line(true).size_limit(PATTERN_LIMIT_BYTES).build();
        let regex = regex.map_err(|error| {
            // The library draws the expression with a mark on lines before the last.
            let error = error.to_string();
            format!("no regular expression: {}", error.lines().last().unwrap_or_default().trim())
        })?;
        let group = |(index, name): (usize, Option<&str>)| match name {
            Some("prefill") => Some(Group::Prefill(index)),
            Some("decode") => Some(Group::Decode(index)),
            Some("rate") => Some(Group::Rate(index)),
            Some("s") => Some(Group::Seconds(index)),
            Some("ms") => Some(Group::Milliseconds(index)),
            _ => None,
        };
        let mut groups: Vec<Group> = regex.capture_names().enumerate().filter_map(group).collect();
        if groups.is_empty() && regex.capture_names().nth(1) == Some(None) {
            groups.push(Group::Rate(1));
        }
        if groups.is_empty() {
            return Err(
                "no group of the pattern holds a rate: write one as (?<decode>[0-9.]+), or as prefill, rate, s or ms"
                    .to_owned(),
            );
        }
        Ok(Pattern { name: name.to_owned(), regex, groups })
    }

    /// The name of the command whose output it reads.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The rate of a test in what was printed; the median where the pattern is found more than once.
    pub(super) fn read(&self, printed: &Printed, test: Test) -> Result<Ran, String> {
        let mut rates = Vec::new();
        for text in [&printed.stdout, &printed.stderr] {
            for found in self.regex.captures_iter(text) {
                rates.extend(self.rate(&found, test)?);
            }
        }
        if rates.is_empty() {
            let what = format!("the pattern finds no rate of {} in what it printed", test.name());
            return Err(with_last_line(what, printed));
        }
        Ok(Ran { ts: median(&rates), head: None, row: None })
    }

    /// What one place says of a test; nothing where it speaks of another.
    fn rate(&self, found: &Captures<'_>, test: Test) -> Result<Option<f64>, String> {
        for group in &self.groups {
            let (index, rate): (usize, fn(f64, f64) -> f64) = match *group {
                Group::Rate(index) => (index, |number, _| number),
                Group::Prefill(index) if test.generate == 0 => (index, |number, _| number),
                Group::Decode(index) if test.prompt == 0 => (index, |number, _| number),
                Group::Prefill(_) | Group::Decode(_) => continue,
                Group::Seconds(index) => (index, |number, tokens| tokens / number),
                Group::Milliseconds(index) => (index, |number, tokens| tokens * 1e3 / number),
            };
            let Some(text) = found.get(index) else { continue };
            let number = text.as_str().trim().parse::<f64>().ok().filter(|number| *number > 0.0);
            let rate = number.map(|number| rate(number, test.tokens() as f64)).filter(|rate| rate.is_finite());
            return rate.map(Some).ok_or_else(|| {
                format!("the pattern finds {:?} where a number above 0 should stand", quoted(text.as_str()))
            });
        }
        Ok(None)
    }
}

/// The row of a test in what `llama-bench -o json` or `-o jsonl` writes.
pub(super) fn llama_bench(printed: &Printed, test: Test) -> Result<Ran, String> {
    let records = read_records(printed.stdout.as_bytes(), "its output").map_err(|_| {
        let what = "it printed no rows of llama-bench; add -o json to a llama-bench, or say with --pattern where the rate of \
                    another program stands";
        with_last_line(what.to_owned(), printed)
    })?;
    let name = test.name();
    let mut others = Vec::new();
    for record in records {
        if let Some(figure) = record.results.iter().find(|figure| figure.test == name && figure.is_rate()) {
            let row = record.document.as_array().and_then(|rows| rows.iter().find(|row| is_of(row, test)));
            return Ok(Ran { ts: figure.median, row: row.cloned(), head: Some(record.head) });
        }
        others.extend(record.results.into_iter().map(|figure| figure.test));
    }
    let others = quoted(&others.join(", "));
    Err(format!(
        "it measured {others} and not {name}; write -p {{n_prompt}} -n {{n_gen}} -d {{n_depth}} into its command"
    ))
}

/// Whether a row is of a test.
fn is_of(row: &Value, test: Test) -> bool {
    let tokens = |name: &str| row.get(name).and_then(Value::as_u64).unwrap_or(0);
    [tokens("n_prompt"), tokens("n_gen"), tokens("n_depth")]
        == [test.prompt, test.generate, test.depth].map(|tokens| tokens as u64)
}

/// What programs say last is mostly what was the matter.
fn with_last_line(what: String, printed: &Printed) -> String {
    let last = |text: &str| text.lines().rev().find(|line| !line.trim().is_empty()).map(quoted);
    match last(&printed.stderr).or_else(|| last(&printed.stdout)) {
        Some(line) => format!("{what} (its last line: {line:?})"),
        None => format!("{what} (it printed nothing)"),
    }
}

/// The beginning of a text that may be long.
fn quoted(text: &str) -> String {
    let text = text.trim();
    let mut letters = text.chars();
    let mut quoted: String = letters.by_ref().take(QUOTED_LETTERS).collect();
    if letters.next().is_some() {
        quoted.push('…');
    }
    quoted
}
