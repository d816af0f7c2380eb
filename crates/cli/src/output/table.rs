//! Tables without lines around them: columns two spaces apart, numbers to the right.

use std::io::IsTerminal;

use comfy_table::{Cell, CellAlignment, ContentArrangement, Table as Grid, presets};

use super::style::safe_for_terminal;

/// Where a column's text stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Align {
    /// Words.
    Left,
    /// Numbers.
    Right,
}

/// Rows under a head, as wide as they need, folded into the terminal where there is one.
pub(crate) struct Table {
    grid: Grid,
    aligns: Vec<Align>,
}

impl Table {
    /// An empty table with its columns.
    pub(crate) fn new(columns: &[(&str, Align)]) -> Table {
        let mut table = Table::without_head(&columns.iter().map(|(_, align)| *align).collect::<Vec<_>>());
        let head: Vec<Cell> =
            columns.iter().map(|&(name, align)| Cell::new(name).set_alignment(alignment(align))).collect();
        table.grid.set_header(head);
        table
    }

    /// The same for pairs of a name and a value, which need no head.
    pub(crate) fn without_head(aligns: &[Align]) -> Table {
        let mut grid = Grid::new();
        grid.load_style(presets::NOTHING);
        if std::io::stdout().is_terminal() {
            grid.set_content_arrangement(ContentArrangement::Dynamic);
        }
        Table { grid, aligns: aligns.to_vec() }
    }

    /// The same for stderr: talk, not data.
    pub(crate) fn of_talk(aligns: &[Align]) -> Table {
        let mut table = Table::without_head(aligns);
        table.grid.use_stderr();
        if std::io::stderr().is_terminal() {
            table.grid.set_content_arrangement(ContentArrangement::Dynamic);
        }
        table
    }

    /// Adds a row with as many cells as the table has columns. Whatever a cell says, it cannot command the terminal.
    pub(crate) fn row<T: ToString>(&mut self, cells: impl IntoIterator<Item = T>) {
        let cells = cells.into_iter().zip(&self.aligns);
        let cells: Vec<Cell> =
            cells.map(|(text, &align)| cell(&text.to_string()).set_alignment(alignment(align))).collect();
        self.grid.add_row(cells);
    }

    /// Whether the terminal, where stdout is one, has too few columns for the table, so that its cells would be folded.
    pub(crate) fn is_too_wide(&self) -> bool {
        let widths = self.grid.column_max_content_widths();
        let needed = widths.iter().map(|&width| usize::from(width) + 2).sum::<usize>().saturating_sub(2);
        std::io::stdout().is_terminal() && self.grid.width().is_some_and(|width| usize::from(width) < needed)
    }

    /// The table as text, each line ended, without blanks at the ends of lines.
    pub(crate) fn text(&mut self) -> String {
        let last = self.grid.column_count().saturating_sub(1);
        for (index, column) in self.grid.column_iter_mut().enumerate() {
            column.set_padding((0, if index == last { 0 } else { 2 }));
        }
        self.grid.lines().map(|line| format!("{}\n", line.trim_end())).collect()
    }
}

/// Columns of the terminal that stderr is, where it is one.
pub(crate) fn terminal_width() -> Option<usize> {
    Grid::new().use_stderr().width().map(usize::from)
}

fn cell(text: &str) -> Cell {
    Cell::new(safe_for_terminal(text))
}

fn alignment(align: Align) -> CellAlignment {
    match align {
        Align::Left => CellAlignment::Left,
        Align::Right => CellAlignment::Right,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_and_lines_end_without_blanks() {
        let mut table = Table::new(&[("NAME", Align::Left), ("MB", Align::Right), ("", Align::Left)]);
        table.row(["smollm2-135m", "98.4", "here"]);
        table.row(["四字", "253.1", ""]);
        let expected = "NAME             MB\n\
                        smollm2-135m   98.4  here\n\
                        四字          253.1\n";
        assert_eq!(table.text(), expected);
    }

    #[test]
    fn cells_cannot_command_the_terminal() {
        let mut table = Table::without_head(&[Align::Left]);
        table.row(["blk.0.\u{1b}[2J\u{202e}x"]);
        assert_eq!(table.text(), "blk.0.\\u{1b}[2J\\u{202e}x\n");
    }
}
