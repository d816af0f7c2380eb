//! Models beside each other, as people read them.

use duan::eval::{EvalRow, Evaluation};

use crate::output::table::{Align, Table};
use crate::output::units::{ByteUnit, grouped, three_digits};

/// A table for each text. The reference comes first, and has no figures beside itself.
pub(crate) fn text(evaluation: &Evaluation) -> String {
    let mut texts: Vec<&str> = Vec::new();
    for row in &evaluation.rows {
        if !texts.contains(&row.text.as_str()) {
            texts.push(&row.text);
        }
    }
    let one = |text: &str| {
        let rows = evaluation.reference.iter().chain(&evaluation.rows).filter(|row| row.text == text);
        of_text(text, &rows.collect::<Vec<_>>())
    };
    texts.into_iter().map(one).collect::<Vec<_>>().join("\n")
}

fn of_text(text: &str, rows: &[&EvalRow]) -> String {
    let Some(last) = rows.last() else { return format!("{text}: nothing\n") };
    let columns = columns(rows);
    let mut whole = table(&columns, rows.len());
    // Folded numbers cannot be read, so a narrow terminal gets two tables, with the models' names before each.
    let middle = columns.iter().position(|column| column.name.starts_with("KL")).filter(|_| whole.is_too_wide());
    let figures = match middle {
        None => whole.text(),
        Some(middle) => {
            let (first, second) = columns.split_at(middle);
            let second: Vec<Column> = columns[..1].iter().chain(second).cloned().collect();
            format!("{}\n{}", table(first, rows.len()).text(), table(&second, rows.len()).text())
        }
    };
    let tokens = grouped(last.tokens as u64);
    format!("{}: {tokens} tokens scored in {} windows of {}\n{figures}", last.text, last.windows, last.context)
}

/// A column with a cell for each row.
#[derive(Clone)]
struct Column {
    name: &'static str,
    align: Align,
    cells: Vec<String>,
}

fn table(columns: &[Column], rows: usize) -> Table {
    let head: Vec<(&str, Align)> = columns.iter().map(|column| (column.name, column.align)).collect();
    let mut table = Table::new(&head);
    for row in 0..rows {
        table.row(columns.iter().map(|column| &column.cells[row]));
    }
    table
}

/// What is known of models: of those that were compared, and of those that were timed, more.
fn columns(rows: &[&EvalRow]) -> Vec<Column> {
    let unit = ByteUnit::for_largest(rows.iter().map(|row| row.model_bytes));
    let column = |name, align, cell: &dyn Fn(&EvalRow) -> String| Column {
        name,
        align,
        cells: rows.iter().map(|&row| cell(row)).collect(),
    };
    let pair = |value: Option<f64>, error: Option<f64>| match (value, error) {
        (Some(value), Some(error)) => with_error(value, error),
        _ => "-".to_owned(),
    };
    let mut columns = vec![
        column("MODEL", Align::Left, &|row| row.model.clone()),
        column(unit.name(), Align::Right, &|row| unit.number(row.model_bytes)),
        column("BITS", Align::Right, &|row| format!("{:.2}", row.bits_per_weight)),
        column("PERPLEXITY", Align::Right, &|row| with_error(row.perplexity, row.perplexity_error)),
    ];
    if rows.iter().any(|row| row.kl_mean.is_some()) {
        let percent = |row: &EvalRow| match (row.top1_agreement, row.top1_agreement_error) {
            (Some(value), Some(error)) => with_error(value * 100.0, error * 100.0) + " %",
            _ => "-".to_owned(),
        };
        columns.extend([
            column("RATIO", Align::Right, &|row| pair(row.perplexity_ratio, row.perplexity_ratio_error)),
            column("KL MEAN", Align::Right, &|row| pair(row.kl_mean, row.kl_mean_error)),
            column("KL MEDIAN", Align::Right, &|row| pair(row.kl_median, row.kl_median_error)),
            column("KL 99 %", Align::Right, &|row| pair(row.kl_p99, row.kl_p99_error)),
            column("SAME TOP", Align::Right, &percent),
        ]);
    }
    if rows.iter().any(|row| row.decode_ts.is_some()) {
        columns.push(column("TOKENS/S", Align::Right, &|row| row.decode_ts.map_or("-".to_owned(), three_digits)));
    }
    columns
}

/// "12.34 ± 0.05": the error with two digits that mean something, the number as far as these go.
fn with_error(value: f64, error: f64) -> String {
    if !(value.is_finite() && error.is_finite()) {
        return format!("{value} ± {error}");
    }
    let digits = if error > 0.0 { (1.0 - error.log10().floor()).clamp(0.0, 9.0) as usize } else { 4 };
    format!("{value:.digits$} ± {error:.digits$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_go_as_far_as_their_errors() {
        let cases = [(12.3456, 0.0512), (0.000123, 0.0000045), (96.0, 12.0), (1.0, 0.0), (3.2, 0.098)];
        let texts = cases.map(|(value, error)| with_error(value, error));
        assert_eq!(texts, ["12.346 ± 0.051", "0.0001230 ± 0.0000045", "96 ± 12", "1.0000 ± 0.0000", "3.200 ± 0.098"]);
        assert_eq!(with_error(f64::INFINITY, f64::NAN), "inf ± NaN");
    }
}
