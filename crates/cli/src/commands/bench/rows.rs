//! Results of a benchmark as text: a table, JSON, or comma-separated values.

use duan::bench::Row;
use serde_json::Value;

use super::Format;
use crate::output::style::on_one_line;
use crate::output::units::three_digits;
use crate::output::{print, print_json, print_json_line};

/// Writes rows as they come; one JSON document waits for the last.
pub(super) struct Output {
    format: Format,
    rows: Vec<Row>,
}

impl Output {
    pub(super) fn new(format: Format) -> Output {
        Output { format, rows: Vec::new() }
    }

    /// One more row.
    ///
    /// # Errors
    /// Where stdout cannot be written.
    pub(super) fn row(&mut self, row: &Row) -> anyhow::Result<()> {
        let is_first = self.rows.is_empty();
        self.rows.push(row.clone());
        match self.format {
            Format::Json => Ok(()),
            Format::Jsonl => print_json_line(row),
            Format::Csv => Ok(print(&csv(row, is_first)?)?),
            Format::Md => {
                let head = if is_first { table_head() } else { String::new() };
                Ok(print(&(head + &table_line(&cells(row))))?)
            }
        }
    }

    /// The end: what is written once.
    ///
    /// # Errors
    /// As [`Output::row`].
    pub(super) fn end(self) -> anyhow::Result<()> {
        match self.format {
            Format::Json => print_json(&self.rows),
            Format::Md => Ok(print(&notes(&self.rows))?),
            Format::Jsonl | Format::Csv => Ok(()),
        }
    }
}

/// The columns: name, width, and whether numbers stand in it. The first seven are llama-bench's.
const COLUMNS: [(&str, usize, bool); 12] = [
    ("model", 30, false),
    ("size", 10, true),
    ("params", 10, true),
    ("backend", 10, false),
    ("threads", 7, true),
    ("test", 15, true),
    ("t/s", 20, true),
    ("median", 8, true),
    ("min..max", 16, true),
    ("GB/s", 6, true),
    ("ceiling t/s", 11, true),
    ("share", 6, true),
];

fn table_head() -> String {
    let names = table_line(&COLUMNS.map(|(name, ..)| name.to_owned()));
    let rules = COLUMNS.map(|(_, width, is_number)| {
        if is_number { format!(" {}: |", "-".repeat(width - 1)) } else { format!(" {} |", "-".repeat(width)) }
    });
    format!("{names}|{}\n", rules.concat())
}

fn table_line(cells: &[String; 12]) -> String {
    let cells = cells.iter().zip(COLUMNS).map(|(cell, (_, width, is_number))| {
        if is_number { format!(" {cell:>width$} |") } else { format!(" {cell:width$} |") }
    });
    format!("|{}\n", cells.collect::<String>())
}

fn cells(row: &Row) -> [String; 12] {
    let or_none = |cell: Option<String>| cell.unwrap_or_else(|| "-".to_owned());
    [
        on_one_line(&row.model_type),
        binary_size(row.model_size),
        parameters(row.model_n_params),
        row.backends.clone(),
        row.n_threads.to_string(),
        row.test.clone(),
        format!("{:.2} ± {:.2}", row.avg_ts, row.stddev_ts),
        format!("{:.2}", row.median_ts),
        format!("{:.2}..{:.2}", row.min_ts, row.max_ts),
        or_none(row.read_bytes_per_s.map(|rate| three_digits(rate / 1e9))),
        or_none(row.ceiling_ts.map(|rate| format!("{rate:.2}"))),
        or_none(row.share.map(|share| format!("{:.0} %", share * 100.0))),
    ]
}

/// In llama-bench's units, so that its tables and ours can be compared.
fn binary_size(bytes: u64) -> String {
    const MIB: f64 = (1u64 << 20) as f64;
    let mib = bytes as f64 / MIB;
    if mib >= 1024.0 { format!("{:.2} GiB", mib / 1024.0) } else { format!("{mib:.2} MiB") }
}

fn parameters(count: u64) -> String {
    let count = count as f64;
    if count >= 1e9 { format!("{:.2} B", count / 1e9) } else { format!("{:.2} M", count / 1e6) }
}

/// What holds for the whole table: one line for each bandwidth that was measured.
fn notes(rows: &[Row]) -> String {
    let mut lines: Vec<String> = Vec::new();
    for row in rows {
        let isa = row.isa.as_deref().map_or(String::new(), |isa| format!(", instruction set {isa}"));
        let line = match &row.bandwidth {
            Some(read) => format!(
                "read bandwidth: {} GB/s with {} threads, best of {} reads of {} GB in {} pages ({}); {}{isa}",
                three_digits(read.bytes_per_s / 1e9),
                read.threads,
                read.reads,
                three_digits(read.bytes as f64 / 1e9),
                read.pages,
                read.way,
                on_one_line(&row.build_commit),
            ),
            None => format!("read bandwidth: not measured; {}{isa}", on_one_line(&row.build_commit)),
        };
        if !lines.contains(&line) {
            lines.push(line);
        }
    }
    lines.iter().map(|line| format!("\n{line}\n")).collect()
}

/// A row in llama-bench's form: every value in quotes. Lists of samples are left out, and `bandwidth` is its rate.
fn csv(row: &Row, with_head: bool) -> anyhow::Result<String> {
    let Value::Object(fields) = serde_json::to_value(row)? else { return Ok(String::new()) };
    let fields: Vec<(String, String)> =
        fields.into_iter().filter(|(name, _)| !name.starts_with("samples_")).map(flat).collect();
    let mut out = String::new();
    if with_head {
        out.push_str(&fields.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(","));
        out.push('\n');
    }
    let quoted = fields.iter().map(|(_, value)| format!("\"{}\"", value.replace('"', "\"\"")));
    out.push_str(&quoted.collect::<Vec<_>>().join(","));
    out.push('\n');
    Ok(out)
}

/// A field as one value.
fn flat((name, value): (String, Value)) -> (String, String) {
    match value {
        Value::Null => (name, String::new()),
        Value::String(text) => (name, on_one_line(&text)),
        Value::Array(items) => {
            let items = items.iter().map(|item| item.as_str().map_or(item.to_string(), on_one_line));
            (name, items.collect::<Vec<_>>().join("; "))
        }
        Value::Object(fields) => (name, fields.get("bytes_per_s").map_or(String::new(), Value::to_string)),
        other => (name, other.to_string()),
    }
}
