//! `duan records show RECORD`

use std::path::PathBuf;

use duan::records::{Measured, Record};
use serde_json::{Value, json};

use crate::args::Common;
use crate::output::page::PageFile;
use crate::output::style::{on_one_line, shortened};
use crate::output::units::{counted, three_digits};
use crate::output::{Align, Table, print, print_json};

/// So many samples of a figure are shown to people; programs get all.
const SAMPLES: usize = 12;
/// A value is cut at so many characters; programs get all.
const VALUE_CHARACTERS: usize = 2000;

/// Which record, and where else it is shown.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The record
    record: String,
    /// Write it as one HTML page too, beside earlier records of its model and chip
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Replace the page's file if it is there
    #[arg(long, requires = "html")]
    force: bool,
}

/// Shows one record.
pub(super) fn run(args: &Args, common: &Common) -> anyhow::Result<()> {
    let file = PageFile::checked(args.html.as_deref(), args.force, &[])?;
    print_record(&args.record, common)?;
    match file {
        Some(file) => file.write(&duan::page::of_record(&args.record)?),
        None => Ok(()),
    }
}

fn print_record(name: &str, common: &Common) -> anyhow::Result<()> {
    let missing = || duan::records::Error::NoRecord { name: name.escape_debug().to_string() };
    let records = duan::records::open_existing()?.ok_or_else(missing)?;
    let record = records.find(name)?;
    if common.json {
        let document = records.document(record.id)?;
        let Record { id, uid, head, results } = record;
        return print_json(&json!({ "id": id, "uid": uid, "head": head, "results": results, "document": document }));
    }
    let is_here = record.head.machine == Some(records.machine()?);
    print(&settings(&record, is_here)?.text())?;
    print("\n")?;
    Ok(print(&figures(&record.results).text())?)
}

fn settings(record: &Record, is_here: bool) -> anyhow::Result<Table> {
    let mut table = Table::new(&[(&format!("RECORD {}", record.id), Align::Left), ("", Align::Left)]);
    table.row(["name everywhere".to_owned(), record.uid.clone()]);
    let Value::Object(head) = serde_json::to_value(&record.head)? else { return Ok(table) };
    for (name, value) in head {
        let value = match (name.as_str(), text(&value)) {
            ("machine", _) if is_here => "this one".to_owned(),
            ("machine", id) if record.head.machine.is_some() => format!("another one: {id}"),
            (_, value) => value,
        };
        table.row([on_one_line(&name).replace('_', " "), value]);
    }
    Ok(table)
}

fn text(value: &Value) -> String {
    let text = match value {
        Value::Null => "not known".to_owned(),
        Value::Bool(value) => if *value { "yes" } else { "no" }.to_owned(),
        Value::String(text) if text.is_empty() => "not known".to_owned(),
        Value::String(text) => on_one_line(text),
        Value::Array(items) if items.is_empty() => "none".to_owned(),
        Value::Array(items) => items.iter().map(self::text).collect::<Vec<_>>().join("; "),
        other => on_one_line(&other.to_string()),
    };
    shortened(&text, VALUE_CHARACTERS)
}

fn figures(results: &[Measured]) -> Table {
    let mut table = Table::new(&[
        ("TEST", Align::Left),
        ("MEDIAN", Align::Right),
        ("90 % INTERVAL", Align::Right),
        ("UNIT", Align::Left),
        ("SAMPLES", Align::Left),
    ]);
    for figure in results {
        let interval = match (figure.low, figure.high) {
            (Some(low), Some(high)) => format!("{}..{}", three_digits(low), three_digits(high)),
            _ => "too few".to_owned(),
        };
        let mut samples: Vec<String> = figure.samples.iter().take(SAMPLES).map(|&value| three_digits(value)).collect();
        if figure.samples.len() > SAMPLES {
            samples.push(format!("... ({})", counted(figure.samples.len(), "sample")));
        }
        table.row([
            on_one_line(&figure.test),
            three_digits(figure.median),
            interval,
            on_one_line(&figure.unit),
            samples.join(" "),
        ]);
    }
    table
}
