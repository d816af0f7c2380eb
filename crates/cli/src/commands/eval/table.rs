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
    let compared = rows.iter().any(|row| row.kl_mean.is_some());
    let timed = rows.iter().any(|row| row.decode_ts.is_some());
    let unit = ByteUnit::for_largest(rows.iter().map(|row| row.model_bytes));
    let mut columns = vec![("MODEL", Align::Left), (unit.name(), Align::Right), ("BITS", Align::Right)];
    columns.push(("PERPLEXITY", Align::Right));
    if compared {
        let names = ["RATIO", "KL MEAN", "KL MEDIAN", "KL 99 %", "SAME TOP"];
        columns.extend(names.map(|name| (name, Align::Right)));
    }
    if timed {
        columns.push(("TOKENS/S", Align::Right));
    }
    let mut table = Table::new(&columns);
    for row in rows {
        let mut cells = vec![row.model.clone(), unit.number(row.model_bytes), format!("{:.2}", row.bits_per_weight)];
        cells.push(with_error(row.perplexity, row.perplexity_error));
        if compared {
            let pair = |value: Option<f64>, error: Option<f64>, factor: f64| match (value, error) {
                (Some(value), Some(error)) => with_error(value * factor, error * factor),
                _ => "-".to_owned(),
            };
            cells.push(pair(row.perplexity_ratio, row.perplexity_ratio_error, 1.0));
            cells.push(pair(row.kl_mean, row.kl_mean_error, 1.0));
            cells.push(pair(row.kl_median, row.kl_median_error, 1.0));
            cells.push(pair(row.kl_p99, row.kl_p99_error, 1.0));
            cells.push(
                row.top1_agreement
                    .map_or("-".to_owned(), |_| pair(row.top1_agreement, row.top1_agreement_error, 100.0) + " %"),
            );
        }
        if timed {
            cells.push(row.decode_ts.map_or("-".to_owned(), three_digits));
        }
        table.row(cells);
    }
    let extent = rows.last().map_or(String::new(), |row| {
        let tokens = grouped(row.tokens as u64);
        format!("{}: {tokens} tokens scored in {} windows of {}\n", row.text, row.windows, row.context)
    });
    if rows.is_empty() { format!("{text}: nothing\n") } else { extent + &table.text() }
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
