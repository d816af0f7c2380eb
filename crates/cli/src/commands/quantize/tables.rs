//! What was written, as tables.

use duan::quantize::Report;

use crate::output::units::{ByteUnit, bytes_text, counted, grouped};
use crate::output::{Align, Table};

/// The closing text: tensors by format, layers where asked for, formats that gave way, and the whole.
pub(super) fn text(report: &Report, source_bytes: u64, has_layers: bool) -> String {
    let mut out = formats(report);
    if has_layers {
        out.push('\n');
        out.push_str(&layers(report));
    }
    if !report.fallbacks.is_empty() {
        out.push_str("\nRows that do not divide into the blocks of a format have another:\n");
        out.push_str(&fallbacks(report));
    }
    out.push_str(&format!(
        "\n{}: {} in place of {}, {:.2} bits for each of {} weights\n",
        report.format,
        bytes_text(report.bytes),
        bytes_text(source_bytes),
        report.bits_per_weight,
        grouped(report.weights)
    ));
    out
}

fn formats(report: &Report) -> String {
    let rows = report.by_format();
    let unit = ByteUnit::for_largest(rows.iter().map(|row| row.bytes));
    let mut table = Table::new(&[
        ("FORMAT", Align::Left),
        ("TENSORS", Align::Right),
        (unit.name(), Align::Right),
        ("BITS", Align::Right),
        ("ERROR", Align::Right),
    ]);
    for row in &rows {
        table.row([
            row.format.clone(),
            row.tensors.to_string(),
            unit.number(row.bytes),
            format!("{:.2}", row.bits_per_weight()),
            percent(row.error),
        ]);
    }
    table.text()
}

fn layers(report: &Report) -> String {
    let rows = report.by_layer();
    let unit = ByteUnit::for_largest(rows.iter().map(|row| row.bytes));
    let mut table = Table::new(&[
        ("LAYER", Align::Left),
        (unit.name(), Align::Right),
        ("BITS", Align::Right),
        ("ERROR", Align::Right),
        ("FORMATS", Align::Left),
    ]);
    for row in &rows {
        let name = row.name.clone().or_else(|| row.layer.map(|layer| layer.to_string())).unwrap_or_default();
        let formats: Vec<String> = row.formats.iter().map(|(format, count)| format!("{count} {format}")).collect();
        table.row([
            name,
            unit.number(row.bytes),
            format!("{:.2}", row.bits_per_weight()),
            percent(row.error),
            formats.join(", "),
        ]);
    }
    table.text()
}

fn fallbacks(report: &Report) -> String {
    let mut table = Table::without_head(&[Align::Left, Align::Left, Align::Left]);
    for row in &report.fallbacks {
        table.row([
            format!("  {} -> {}", row.from, row.to),
            counted(row.tensors, "tensor"),
            format!("rows of {}", row.columns),
        ]);
    }
    table.text()
}

/// A root mean square error relative to the weights': "6.10 %", and a dash where nothing was lost.
fn percent(error: f64) -> String {
    if error == 0.0 { "-".to_owned() } else { format!("{:.2} %", error * 100.0) }
}
