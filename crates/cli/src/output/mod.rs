//! What goes where: data to stdout, talk to stderr, and how both look.

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
    let mut text = serde_json::to_string_pretty(value)?;
    text.push('\n');
    Ok(print(&text)?)
}

/// Writes one JSON document on one line, for streams of documents.
///
/// # Errors
/// As [`print`].
pub(crate) fn print_json_line(value: &impl Serialize) -> anyhow::Result<()> {
    let mut text = serde_json::to_string(value)?;
    text.push('\n');
    Ok(print(&text)?)
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
