//! What goes where: data to stdout, talk to stderr, and how both look.

pub(crate) mod page;
pub(crate) mod progress;
pub(crate) mod style;
pub(crate) mod table;
pub(crate) mod units;
pub(crate) mod work;
mod wrap;

use std::io::{self, IsTerminal, Write};

use serde::Serialize;

pub(crate) use style::Style;
pub(crate) use table::{Align, Table};

/// Writes data to stdout and sends it on its way at once.
///
/// # Errors
/// Where nobody reads any more, or the disk behind stdout is full.
pub(crate) fn print(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    written.map_err(|error| io::Error::new(error.kind(), format!("cannot write to stdout: {error}")))
}

/// Writes one JSON document, indented, to stdout.
///
/// # Errors
/// As [`print`].
pub(crate) fn print_json(value: &impl Serialize) -> anyhow::Result<()> {
    let mut text = json_for_terminal(serde_json::to_string_pretty(value)?);
    text.push('\n');
    Ok(print(&text)?)
}

/// Writes one JSON document on one line, for streams of documents.
///
/// # Errors
/// As [`print`].
pub(crate) fn print_json_line(value: &impl Serialize) -> anyhow::Result<()> {
    let mut text = json_for_terminal(serde_json::to_string(value)?);
    text.push('\n');
    Ok(print(&text)?)
}

/// The same JSON with the characters escaped that JSON allows in texts and that command a terminal: control characters beyond ASCII, and
/// what turns the direction of writing. They can stand nowhere else than in texts.
pub(crate) fn json_for_terminal(text: String) -> String {
    let commands = |c: char| {
        let turns =
            matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        turns || matches!(c, '\u{7f}'..='\u{9f}')
    };
    if !text.contains(commands) {
        return text;
    }
    text.chars().fold(String::with_capacity(text.len() + 16), |mut out, c| {
        if commands(c) {
            // All of them have four digits at most.
            out.push_str(&format!("\\u{:04x}", u32::from(c)));
        } else {
            out.push(c);
        }
        out
    })
}

/// Says something to the person, on stderr. Nobody may be there to read it, and that is no failure.
pub(crate) fn say(text: &str) {
    let width = if io::stderr().is_terminal() { table::terminal_width() } else { None };
    let _ = match width {
        Some(width) => writeln!(io::stderr().lock(), "{}", wrap::wrapped(text, width)),
        None => writeln!(io::stderr().lock(), "{text}"),
    };
}

/// Says what may go wrong, with its remedy.
pub(crate) fn warn(text: &str) {
    let word = Style::stderr().warning("warning:");
    say(&format!("duan: {word} {}", style::on_one_line(text)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_cannot_command_the_terminal_and_says_the_same() {
        let value = "a\u{1b}\u{9b}2J\u{85}\u{7f}\u{202e}b\u{2067}\u{200f} 你好 \u{a0}é".to_owned();
        let text = json_for_terminal(serde_json::to_string(&value).unwrap());
        assert_eq!(text, "\"a\\u001b\\u009b2J\\u0085\\u007f\\u202eb\\u2067\\u200f 你好 \u{a0}é\"");
        assert_eq!(serde_json::from_str::<String>(&text).unwrap(), value);
        assert_eq!(json_for_terminal("{\"a\": 1}".to_owned()), "{\"a\": 1}");
    }
}
