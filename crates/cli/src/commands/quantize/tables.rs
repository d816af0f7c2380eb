//! What was written, as tables.

use duan::quantize::mixed::Budget;
use duan::quantize::{MeasuredReport, Report};

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
    if let Some(measured) = &report.measured {
        out.push_str(&budget(measured));
    }
    out
}

/// What formats that were found by measuring keep to, and what is expected of them.
fn budget(measured: &MeasuredReport) -> String {
    let budget = match measured.budget {
        Budget::BitsPerWeight(bits) => format!("{bits} bits for each weight"),
        Budget::FileBytes(bytes) => bytes_text(bytes),
    };
    let room = if measured.has_room { ", which has room for the best format of every matrix" } else { "" };
    format!(
        "Found by measuring, for at most {budget}{room}: the output is expected to move by {} nats a token (KL)\n",
        nats(measured.divergence)
    )
}

/// A divergence: "0.01234".
fn nats(divergence: f64) -> String {
    format!("{divergence:.5}")
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
    let is_measured = rows.iter().any(|row| row.divergence.is_some());
    let mut head =
        vec![("LAYER", Align::Left), (unit.name(), Align::Right), ("BITS", Align::Right), ("ERROR", Align::Right)];
    if is_measured {
        head.extend([("SENSITIVITY", Align::Right), ("KL", Align::Right)]);
    }
    head.push(("FORMATS", Align::Left));
    let mut table = Table::new(&head);
    for row in &rows {
        let name = row.name.clone().or_else(|| row.layer.map(|layer| layer.to_string())).unwrap_or_default();
        let formats: Vec<String> = row.formats.iter().map(|(format, count)| format!("{count} {format}")).collect();
        let bits = format!("{:.2}", row.bits_per_weight());
        let mut cells = vec![name, unit.number(row.bytes), bits, percent(row.error)];
        if is_measured {
            let of = |divergence: Option<f64>| divergence.map_or("-".to_owned(), nats);
            cells.extend([of(row.sensitivity), of(row.divergence)]);
        }
        cells.push(formats.join(", "));
        table.row(cells);
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
