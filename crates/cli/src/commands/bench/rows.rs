//! Results of a benchmark as text: a table, JSON, or comma-separated values.

use duan::bench::{LoadFigures, MemoryFigures, Quantiles, Row, RunFigures, Setup, StartFigures, merge_records};
use duan::records;
use duan::state::Reading;
use serde_json::Value;

use super::Format;
use super::head::head;
use super::others;
use crate::output::style::on_one_line;
use crate::output::units::{bytes_text, three_digits};
use crate::output::{print, print_json, print_json_line};

/// Writes rows as they come; one JSON document waits for the last.
pub(super) struct Output {
    format: Format,
    rows: Vec<Row>,
    starts: Vec<StartFigures>,
    /// Whether the last thing written is a row below the table's head.
    has_head: bool,
    /// Rows that were written as lines.
    lines_written: usize,
}

impl Output {
    pub(super) fn new(format: Format) -> Output {
        Output { format, rows: Vec::new(), starts: Vec::new(), has_head: false, lines_written: 0 }
    }

    /// What the rows that follow ran on; for people, as programs find it in each row.
    ///
    /// # Errors
    /// Where stdout cannot be written.
    pub(super) fn head(&mut self, setup: &Setup) -> anyhow::Result<()> {
        if self.format != Format::Md {
            return Ok(());
        }
        // A second head ends the table of the first.
        let end = if std::mem::take(&mut self.has_head) { "\n" } else { "" };
        Ok(print(&format!("{end}{}", head(setup)))?)
    }

    /// One more row.
    ///
    /// # Errors
    /// Where stdout cannot be written.
    pub(super) fn row(&mut self, row: &Row) -> anyhow::Result<()> {
        self.rows.push(row.clone());
        let begins_table = !std::mem::replace(&mut self.has_head, true);
        match self.format {
            // These wait for what belongs to all rows of a run.
            Format::Json | Format::Jsonl | Format::Csv => Ok(()),
            Format::Md => {
                let head = if begins_table { table_head() } else { String::new() };
                Ok(print(&(head + &table_line(&cells(row))))?)
            }
        }
    }

    /// Writes rows that wait, where they are a line each.
    fn write_lines(&mut self) -> anyhow::Result<()> {
        let first = std::mem::replace(&mut self.lines_written, self.rows.len());
        for (index, row) in self.rows.iter().enumerate().skip(first) {
            match self.format {
                Format::Jsonl => print_json_line(row)?,
                Format::Csv => print(&csv(row, index == 0)?)?,
                Format::Json | Format::Md => {}
            }
        }
        Ok(())
    }

    /// What belongs to all rows since the last time.
    ///
    /// # Errors
    /// Where stdout cannot be written.
    pub(super) fn run_figures(&mut self, figures: &RunFigures) -> anyhow::Result<()> {
        for row in self.rows.iter_mut().filter(|row| row.load.is_none()) {
            row.load = Some(figures.load.clone());
            row.memory = Some(figures.memory.clone());
        }
        self.write_lines()
    }

    /// What starts of the program took.
    pub(super) fn starts(&mut self, figures: &[StartFigures]) {
        self.starts = figures.to_vec();
        self.rows.iter_mut().for_each(|row| row.starts = figures.to_vec());
    }

    /// Adds the results to the records, and those of other engines that tell their settings; those of equal settings are one. Gives the numbers of those that were kept, and why others
    /// were not: a setting is missing, or the records cannot be written.
    pub(super) fn keep(&self) -> (Vec<i64>, Option<anyhow::Error>) {
        let rows = self.rows.iter().map(serde_json::to_value).collect::<Result<Vec<Value>, _>>();
        let new = rows
            .map_err(anyhow::Error::from)
            .and_then(|rows| Ok(records::from_rows(&rows).map_err(duan::Error::from)?));
        let new = match new {
            Ok(new) => new,
            Err(error) => return (Vec::new(), Some(error)),
        };
        let (mut kept, mut failed) = (Vec::new(), None);
        for record in new.iter().chain(&merge_records(&self.rows)) {
            match records::add(record) {
                Ok(id) => kept.push(id),
                Err(error) => _ = failed.get_or_insert(error.into()),
            }
        }
        (kept, failed)
    }

    /// What was measured.
    pub(super) fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// The end: what is written once.
    ///
    /// # Errors
    /// As [`Output::row`].
    pub(super) fn end(&mut self) -> anyhow::Result<()> {
        self.write_lines()?;
        match self.format {
            Format::Json => print_json(&self.rows),
            Format::Md => Ok(print(&(others::table(&self.rows) + &notes(&self.rows) + &starts_table(&self.starts)))?),
            Format::Jsonl | Format::Csv => Ok(()),
        }
    }
}

/// The columns: name, width, and whether numbers stand in it. The first seven are llama-bench's.
const COLUMNS: [(&str, usize, bool); 13] = [
    ("model", 30, false),
    ("size", 10, true),
    ("params", 10, true),
    ("backend", 10, false),
    ("threads", 7, true),
    ("test", 15, true),
    ("t/s", 20, true),
    ("median", 8, true),
    ("90 % interval", 16, true),
    ("GB/s", 6, true),
    ("ceiling t/s", 11, true),
    ("share", 6, true),
    ("verdict", 7, false),
];

fn table_head() -> String {
    let names = table_line(&COLUMNS.map(|(name, ..)| name.to_owned()));
    let rules = COLUMNS.map(|(_, width, is_number)| {
        if is_number { format!(" {}: |", "-".repeat(width - 1)) } else { format!(" {} |", "-".repeat(width)) }
    });
    format!("{names}|{}\n", rules.concat())
}

fn table_line(cells: &[String; 13]) -> String {
    let cells = cells.iter().zip(COLUMNS).map(|(cell, (_, width, is_number))| {
        if is_number { format!(" {cell:>width$} |") } else { format!(" {cell:width$} |") }
    });
    format!("|{}\n", cells.collect::<String>())
}

fn cells(row: &Row) -> [String; 13] {
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
        or_none(row.interval.map(|interval| format!("{:.2}..{:.2}", interval.low, interval.high))),
        or_none(row.read_bytes_per_s.map(|rate| three_digits(rate / 1e9))),
        or_none(row.ceiling_ts.map(|rate| format!("{rate:.2}"))),
        or_none(row.share.map(|share| format!("{:.0} %", share * 100.0))),
        or_none(row.verdict.map(|verdict| verdict.name().to_owned())),
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

/// What stands under the table: times of tokens, what was doubtful, memory, and one line for each bandwidth that was measured.
fn notes(rows: &[Row]) -> String {
    let times = rows.iter().flat_map(times);
    let doubts = rows.iter().flat_map(doubts);
    let load = rows.iter().filter_map(|row| row.load.as_ref()).map(load_line);
    let memory = rows.iter().filter_map(|row| row.memory.as_ref()).map(memory_line);
    let bandwidth = rows.iter().map(bandwidth_line);
    paragraph(times) + &paragraph(doubts) + &paragraph(load.chain(memory).chain(bandwidth))
}

/// Lines after an empty one, each once; nothing where there are none.
fn paragraph(lines: impl Iterator<Item = String>) -> String {
    let mut told: Vec<String> = Vec::new();
    for line in lines {
        if !told.contains(&line) {
            told.push(line);
        }
    }
    if told.is_empty() { String::new() } else { format!("\n{}\n", told.join("\n")) }
}

fn ms(ns: f64) -> String {
    format!("{} ms", three_digits(ns / 1e6))
}

/// To the first token, and from token to token.
fn times(row: &Row) -> Vec<String> {
    let of = |what: &str, times: Quantiles| {
        let quantile = |name: &str, ns: Option<f64>| ns.map_or(String::new(), |ns| format!(", {} ({name})", ms(ns)));
        let (p95, p99) = (quantile("P95", times.p95), quantile("P99", times.p99));
        let (p50, longest) = (ms(times.p50), ms(times.longest));
        format!("{}: {what} {p50} (median){p95}{p99}, {longest} at most, of {}", row.test, times.count)
    };
    let first = row.first_token_ns.map(|times| of("first token after", times));
    let tokens = row.token_ns.map(|times| of("a token takes", times));
    first.into_iter().chain(tokens).collect()
}

/// What speaks against a row, with the evidence and the remedy.
fn doubts(row: &Row) -> Vec<String> {
    let outliers = row.outliers.iter().map(|outlier| {
        format!("{}: round {} had {:.2} t/s, far from the others", row.test, outlier.round + 1, outlier.ts)
    });
    let doubts = row
        .doubts
        .iter()
        .map(|doubt| format!("{} is doubtful: {}; {}", row.test, on_one_line(&doubt.evidence), doubt.kind.remedy()));
    outliers.chain(doubts).collect()
}

fn load_line(load: &LoadFigures) -> String {
    let cached = match &load.file_in_page_cache {
        Reading::Known(share) => format!("{:.0} % of the file in the page cache before", share * 100.0),
        Reading::NotReadable(reason) => format!("page cache not readable: {}", on_one_line(reason)),
    };
    format!("load: {}, weights {}; {cached}", ms(load.load_ns as f64), load.weights)
}

fn memory_line(memory: &MemoryFigures) -> String {
    let of = |reading: &Reading<u64>| match reading {
        Reading::Known(bytes) => bytes_text(*bytes),
        Reading::NotReadable(reason) => format!("not readable ({})", on_one_line(reason)),
    };
    let (peak, proportional) = (of(&memory.peak_bytes), of(&memory.proportional_bytes));
    let (anonymous, file) = (of(&memory.proportional_anonymous_bytes), of(&memory.proportional_file_bytes));
    format!(
        "memory: {peak} at the peak; at the end {proportional} in proportion, {anonymous} of it without a file and {file} of files"
    )
}

fn bandwidth_line(row: &Row) -> String {
    let isa = row.isa.as_deref().map_or(String::new(), |isa| format!(", instruction set {isa}"));
    match &row.bandwidth {
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
    }
}

/// Starts of the program; empty where none was measured.
fn starts_table(starts: &[StartFigures]) -> String {
    if starts.is_empty() {
        return String::new();
    }
    let mut text =
        "\n| start  | page cache | of files there | load | warm-up | prompt | to the first token |\n".to_owned();
    text.push_str("| ------ | ---------- | -------------: | ---: | ------: | -----: | -----------------: |\n");
    for start in starts {
        let there = start.files_in_page_cache.get().map_or("?".to_owned(), |share| format!("{:.0} %", share * 100.0));
        let [load, warm_up, prompt, first] =
            [start.load_ns, start.warm_up_ns, start.prompt_ns, start.first_token_ns].map(|ns| ms(ns as f64));
        let (kind, cache) = (&start.start, &start.page_cache);
        text.push_str(&format!("| {kind:6} | {cache:10} | {there:>14} | {load} | {warm_up} | {prompt} | {first} |\n"));
    }
    text
}

/// A row in llama-bench's form: every value in quotes. Samples and what has parts of its own are left out, but of `bandwidth` its rate and
/// of times their median.
fn csv(row: &Row, with_head: bool) -> anyhow::Result<String> {
    let Value::Object(fields) = serde_json::to_value(row)? else { return Ok(String::new()) };
    let fields: Vec<(String, String)> =
        fields.into_iter().filter(|(name, _)| !NOT_IN_CSV.contains(&name.as_str())).map(flat).collect();
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

/// What is no single value.
const NOT_IN_CSV: [&str; 13] = [
    "earlier",
    "with",
    "samples_ns",
    "samples_ts",
    "first_token_samples_ns",
    "token_samples_ns",
    "movement",
    "clock_hz",
    "memory",
    "load",
    "starts",
    "state",
    "outliers",
];

/// A field as one value.
fn flat((name, value): (String, Value)) -> (String, String) {
    match value {
        Value::Null => (name, String::new()),
        Value::String(text) => (name, on_one_line(&text)),
        Value::Array(items) => {
            let item_text = |item: &Value| item.get("evidence").unwrap_or(item).as_str().map(on_one_line);
            let items = items.iter().map(|item| item_text(item).unwrap_or_else(|| item.to_string()));
            (name, items.collect::<Vec<_>>().join("; "))
        }
        Value::Object(fields) => {
            let value = |key: &str| fields.get(key).map(Value::to_string);
            let range = value("low").zip(value("high")).map(|(low, high)| format!("{low}..{high}"));
            (name, range.or_else(|| value("bytes_per_s")).or_else(|| value("p50")).unwrap_or_default())
        }
        other => (name, other.to_string()),
    }
}
