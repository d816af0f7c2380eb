//! A command line with places that the file and each test fill.

use std::ffi::OsString;
use std::path::Path;

use crate::bench::Test;

/// No command has more words.
const WORDS_LIMIT: usize = 1000;

/// A command of another engine, and what it is called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    name: String,
    words: Vec<String>,
}

/// What the places of a command stand for.
#[derive(Debug, Clone, Copy)]
pub struct Values<'a> {
    /// `{model}`: the file.
    pub model: &'a Path,
    /// `{n_prompt}`, `{n_gen}` and `{n_depth}`: tokens in passes of many, tokens one by one, tokens of context before both.
    pub test: Test,
    /// `{threads}`: threads.
    pub threads: usize,
}

impl Command {
    /// From `NAME=COMMAND`. The command is split into words as a shell does it, with quotes; no shell runs it, so that
    /// `{model}` may have any letters.
    ///
    /// # Errors
    /// Where a name or a command is missing, or a quote is not closed.
    pub fn parse(text: &str) -> Result<Command, String> {
        let (name, command) = split(text, "COMMAND")?;
        let words = shlex::split(command).ok_or("a quote in the command is not closed")?;
        if words.first().is_none_or(String::is_empty) {
            return Err("no command stands behind the =".to_owned());
        }
        if words.len() > WORDS_LIMIT {
            return Err(format!("the command has more than {WORDS_LIMIT} words"));
        }
        Ok(Command { name: name.to_owned(), words })
    }

    /// What it is called.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether the file is handed over.
    pub fn names_model(&self) -> bool {
        self.words.iter().any(|word| word.contains("{model}"))
    }

    /// The program and its arguments for one run. Braces around something else are left as they are.
    pub fn filled(&self, values: Values<'_>) -> Vec<OsString> {
        self.words.iter().map(|word| fill(word, values)).collect()
    }
}

/// A name and what stands behind the first `=`.
pub(super) fn split<'a>(text: &'a str, what: &str) -> Result<(&'a str, &'a str), String> {
    let (name, rest) = text.split_once('=').ok_or_else(|| format!("expected NAME={what}, found no ="))?;
    let name = name.trim();
    if name.is_empty() || name.chars().any(char::is_control) {
        return Err("expected a name before the =".to_owned());
    }
    Ok((name, rest))
}

fn fill(word: &str, Values { model, test, threads }: Values<'_>) -> OsString {
    let number = |number: usize| OsString::from(number.to_string());
    let places = [
        ("{model}", model.as_os_str().to_owned()),
        ("{n_prompt}", number(test.prompt)),
        ("{n_gen}", number(test.generate)),
        ("{n_depth}", number(test.depth)),
        ("{threads}", number(threads)),
    ];
    let mut filled = OsString::new();
    let mut rest = word;
    // The place that comes first, until there is none. What a place stands for is not looked at again.
    while let Some((start, place, value)) =
        places.iter().filter_map(|(place, value)| Some((rest.find(place)?, place, value))).min_by_key(|found| found.0)
    {
        filled.push(&rest[..start]);
        filled.push(value);
        rest = &rest[start + place.len()..];
    }
    filled.push(rest);
    filled
}
