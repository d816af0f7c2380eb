//! Pairs of a name and a value under a heading, in one column over all groups of a page.

use crate::output::style::{on_one_line, shortened};
use crate::output::{Align, Style, Table};

/// Columns of the names: the longest is `chat template`.
const NAME_COLUMNS: usize = 13;

/// Longest text from a file that is shown whole, in characters.
const LONGEST_TEXT: usize = 160;

/// A group of a page.
pub(super) struct Group {
    heading: &'static str,
    rows: Vec<(&'static str, String)>,
}

impl Group {
    pub(super) fn new(heading: &'static str) -> Self {
        Self { heading, rows: Vec::new() }
    }

    /// Adds a row; one without a name goes on with the row above.
    pub(super) fn row(&mut self, name: &'static str, value: impl Into<String>) {
        self.rows.push((name, value.into()));
    }

    /// Adds a row where there is a value.
    pub(super) fn maybe(&mut self, name: &'static str, value: Option<String>) {
        self.rows.extend(value.map(|value| (name, value)));
    }

    /// Adds several rows of one name, which stands in front of the first.
    pub(super) fn rows(&mut self, name: &'static str, values: impl IntoIterator<Item = String>) {
        let mut name = name;
        for value in values {
            self.row(std::mem::take(&mut name), value);
        }
    }

    /// The group with its heading and an empty line behind it; nothing where it has no rows.
    pub(super) fn text(self, style: Style) -> String {
        if self.rows.is_empty() {
            return String::new();
        }
        let mut table = Table::without_head(&[Align::Left, Align::Left]);
        for (name, value) in self.rows {
            table.row([format!("{name:NAME_COLUMNS$}"), value]);
        }
        format!("{}\n{}\n", style.bold(self.heading), table.text())
    }
}

/// Text from a file as a page shows it.
pub(super) fn shown(text: &str) -> String {
    shortened(&on_one_line(text), LONGEST_TEXT)
}

/// The parts that are there, one after the other.
pub(super) fn joined(parts: impl IntoIterator<Item = Option<String>>) -> String {
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}
