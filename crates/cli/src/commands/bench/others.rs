//! Other engines beside ours: what the command line says of them, and what came of them as text.

use duan::bench::{Other, OtherCommand, OtherFigures, Pattern, Row};

use super::wrong_usage;
use crate::output::style::on_one_line;
use crate::output::warn;

/// Each command with its pattern. Ends the program where they do not go together.
pub(super) fn others(commands: &[OtherCommand], patterns: &[Pattern]) -> Vec<Other> {
    let names: Vec<&str> = commands.iter().map(OtherCommand::name).collect();
    let of_patterns: Vec<&str> = patterns.iter().map(Pattern::name).collect();
    if let Some(name) = twice(&names) {
        wrong_usage(&format!("two --with are called {name}; give each a name of its own"));
    }
    if let Some(name) = twice(&of_patterns) {
        wrong_usage(&format!(
            "two --pattern are for {name}; one may have a group (?<prefill>..) and a group (?<decode>..)"
        ));
    }
    if let Some(name) = of_patterns.iter().find(|name| !names.contains(name)) {
        wrong_usage(&format!("a --pattern is for {name}, and no --with is called that"));
    }
    let other = |command: &OtherCommand| {
        let pattern = patterns.iter().find(|pattern| pattern.name() == command.name()).cloned();
        Other { command: command.clone(), pattern }
    };
    commands.iter().map(other).collect()
}

/// The first name that was there before.
fn twice<'a>(names: &[&'a str]) -> Option<&'a str> {
    names.iter().enumerate().find_map(|(at, name)| names[..at].contains(name).then_some(*name))
}

/// Tells of commands that may run something else.
pub(super) fn warn_of(others: &[Other]) {
    for other in others.iter().filter(|other| !other.command.names_model()) {
        let name = on_one_line(other.command.name());
        warn(&format!("the command of {name} has no {{model}}, so nobody knows whether it runs the same file"));
    }
}

/// The columns: name, and whether numbers stand in it.
const COLUMNS: [(&str, bool); 8] = [
    ("test", false),
    ("engine", false),
    ("its t/s", true),
    ("90 % interval", true),
    ("duan t/s", true),
    ("duan / engine", true),
    ("90 % interval", true),
    ("pairs", true),
];

/// A table of all pairs, and what they say; empty where there were no other engines.
pub(super) fn table(rows: &[Row]) -> String {
    let pairs: Vec<(&Row, &OtherFigures)> =
        rows.iter().flat_map(|row| row.with.iter().map(move |other| (row, other))).collect();
    if pairs.is_empty() {
        return String::new();
    }
    let cells: Vec<[String; 8]> = std::iter::once(COLUMNS.map(|(name, _)| name.to_owned()))
        .chain(pairs.iter().map(|(row, other)| cells(row, other)))
        .collect();
    let widths: [usize; 8] =
        std::array::from_fn(|column| cells.iter().map(|row| row[column].chars().count()).max().unwrap_or(0));
    let line = |cells: &[String; 8]| {
        let cells = cells.iter().zip(widths).zip(COLUMNS).map(|((cell, width), (_, is_number))| {
            if is_number { format!(" {cell:>width$} |") } else { format!(" {cell:width$} |") }
        });
        format!("|{}\n", cells.collect::<String>())
    };
    let rules = widths.iter().zip(COLUMNS).map(|(&width, (_, is_number))| {
        if is_number { format!(" {}: |", "-".repeat(width - 1)) } else { format!(" {} |", "-".repeat(width)) }
    });
    let mut text = format!("\n{}|{}\n", line(&cells[0]), rules.collect::<String>());
    cells[1..].iter().for_each(|cells| text.push_str(&line(cells)));
    let said: Vec<String> = pairs.iter().flat_map(|(row, other)| sentences(row, other)).collect();
    text.push_str(&format!("\n{}\n", said.join("\n")));
    text
}

fn cells(row: &Row, other: &OtherFigures) -> [String; 8] {
    let or_none = |cell: Option<String>| cell.unwrap_or_else(|| "-".to_owned());
    let ratio = other.ratio.as_ref();
    [
        row.test.clone(),
        // A bar would end the cell.
        on_one_line(&other.name).replace('|', "\\|"),
        or_none(other.median_ts.map(|ts| format!("{ts:.2}"))),
        or_none(other.interval.map(|interval| format!("{:.2}..{:.2}", interval.low, interval.high))),
        format!("{:.2}", row.median_ts),
        or_none(ratio.map(|ratio| format!("{:.3}", ratio.median))),
        or_none(
            ratio.and_then(|ratio| ratio.interval).map(|interval| format!("{:.3}..{:.3}", interval.low, interval.high)),
        ),
        ratio.map_or(0, |ratio| ratio.samples.len()).to_string(),
    ]
}

/// What a ratio means, and what speaks against it.
fn sentences(row: &Row, other: &OtherFigures) -> Vec<String> {
    let (test, name) = (&row.test, on_one_line(&other.name));
    let mut said = Vec::new();
    if let Some(ratio) = &other.ratio {
        let (times, who) =
            if ratio.median >= 1.0 { (ratio.median, "duan") } else { (1.0 / ratio.median, name.as_str()) };
        said.push(match ratio.is_within_noise() {
            Some(true) => {
                format!("{test}: no difference between duan and {name} that is larger than the noise of these pairs")
            }
            Some(false) => format!("{test}: {who} is {times:.2} times as fast"),
            None => format!(
                "{test}: of fewer than five pairs nobody knows how far the ratio to {name} is off; ask for more with -r"
            ),
        });
    }
    let differs = other.differs.iter().map(|what| {
        format!(
            "{test}: duan and {name} do not have the same {}, so the ratio is not one of the engines alone",
            on_one_line(what)
        )
    });
    said.extend(differs);
    if let Some(what) = &other.failed {
        said.push(format!("{test}: {name} has fewer runs: {}", on_one_line(what)));
    }
    said
}
