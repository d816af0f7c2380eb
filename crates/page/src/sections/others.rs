//! Other engines that took turns with ours on the same file.

use serde::Serialize;

use crate::figure::Figure;
use crate::page::Section;
use crate::test::{Other, Test};

#[derive(Serialize)]
struct View {
    rows: Vec<Row>,
}

#[derive(Serialize)]
struct Row {
    test: String,
    name: String,
    version: String,
    command: String,
    pairs: usize,
    ours: Option<Figure>,
    rate: Option<Figure>,
    ratio: Option<Figure>,
    low: Option<Figure>,
    high: Option<Figure>,
    /// What speaks against the ratio, or why there is none.
    notes: Vec<String>,
}

/// The section; none where no other engine ran.
pub(crate) fn section(tests: &[Test]) -> Option<Section> {
    let rows: Vec<Row> =
        tests.iter().flat_map(|test| test.with.iter().enumerate().map(move |other| row(test, other))).collect();
    let of = |row: &Row| [&row.ours, &row.rate, &row.ratio, &row.low, &row.high].map(Clone::clone);
    let figures = rows.iter().flat_map(of).flatten().collect();
    (!rows.is_empty()).then(|| Section::new("others", "Other engines in turn with ours", View { rows }, figures))
}

fn row(test: &Test, (index, other): (usize, &Other)) -> Row {
    let name = |what: &str| format!("{}.with{}.{what}", test.key, index + 1);
    let ratio = |what: &str, value: Option<f64>| {
        let mut figure = Figure::new(name(what), value, "")?;
        if (0.1..10.0).contains(&figure.value) {
            figure.text = format!("{:.3}", figure.value);
        }
        Some(figure)
    };
    let interval = other.ratio.as_ref().and_then(|ratio| ratio.interval);
    let differs = (!other.differs.is_empty()).then(|| format!("not the same in both: {}", other.differs.join("; ")));
    Row {
        test: test.test.clone(),
        name: other.name.clone(),
        version: other.engine_version.clone().unwrap_or_default(),
        command: other.command.clone(),
        pairs: other.samples_ts.len().min(test.samples_ts.len()),
        ours: Figure::new(name("ours_tokens_per_s"), test.median_ts, ""),
        rate: Figure::new(name("tokens_per_s"), other.median_ts, ""),
        ratio: ratio("ratio", other.ratio.as_ref().map(|ratio| ratio.median)),
        low: ratio("low", interval.map(|interval| interval.low)),
        high: ratio("high", interval.map(|interval| interval.high)),
        notes: differs.into_iter().chain(other.failed.clone()).collect(),
    }
}
