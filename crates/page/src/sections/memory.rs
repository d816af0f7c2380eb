//! Memory over the run, the load, and starts of the program.

use duan_measure::bench::{LoadFigures, MemoryFigures, StartFigures};
use duan_system::Reading;
use serde::Serialize;

use crate::chart::{Axis, Chart};
use crate::figure::Figure;
use crate::numbers::{bytes, percent};
use crate::page::Section;
use crate::test::Test;

#[derive(Serialize)]
struct View {
    chart: String,
    /// What it is, the number, or why there is none.
    rows: Vec<(&'static str, Option<Figure>, String)>,
    starts: Vec<StartView>,
}

#[derive(Serialize)]
struct StartView {
    start: String,
    page_cache: String,
    there: String,
    load: Option<Figure>,
    warm_up: Option<Figure>,
    prompt: Option<Figure>,
    first_token: Option<Figure>,
}

/// The section of the first run; none where nothing of it was measured.
pub(crate) fn section(tests: &[Test]) -> Option<Section> {
    let memory = tests.iter().find_map(|test| test.memory.as_ref());
    let load = tests.iter().find_map(|test| test.load.as_ref());
    let starts: &[StartFigures] =
        tests.iter().map(|test| &*test.starts).find(|starts| !starts.is_empty()).unwrap_or(&[]);
    if memory.is_none() && load.is_none() && starts.is_empty() {
        return None;
    }
    let mut rows = memory.map(memory_rows).unwrap_or_default();
    rows.extend(load.map(load_rows).unwrap_or_default());
    let view = View {
        chart: memory.and_then(chart).unwrap_or_default(),
        rows,
        starts: starts.iter().enumerate().map(|(index, start)| start_view(index, start)).collect(),
    };
    let of_starts = view.starts.iter().flat_map(|start| {
        let StartView { load, warm_up, prompt, first_token, .. } = start;
        [load, warm_up, prompt, first_token].map(Clone::clone)
    });
    let figures = view.rows.iter().map(|(_, figure, _)| figure.clone()).chain(of_starts).flatten().collect();
    let title = if view.starts.is_empty() { "Memory and load" } else { "Memory, load and starts" };
    Some(Section::new("memory", title, view, figures))
}

fn memory_rows(memory: &MemoryFigures) -> Vec<(&'static str, Option<Figure>, String)> {
    let row = |what, name: &str, reading: &Reading<u64>| {
        let value = reading.get().map(|&value| value as f64);
        (what, Figure::scaled(format!("memory.{name}_bytes"), value, "MB", 1e6), reason(reading))
    };
    vec![
        row("at the peak", "peak", &memory.peak_bytes),
        row("at the end, in proportion", "proportional", &memory.proportional_bytes),
        row("of it without a file", "proportional_anonymous", &memory.proportional_anonymous_bytes),
        row("of it of files", "proportional_file", &memory.proportional_file_bytes),
        row("in the swap", "swapped", &memory.swapped_bytes),
    ]
}

fn load_rows(load: &LoadFigures) -> Vec<(&'static str, Option<Figure>, String)> {
    let cached = load.file_in_page_cache.get().copied();
    vec![
        ("load", Figure::scaled("load_ns", load.load_ns as f64, "ms", 1e6), String::new()),
        (
            "file in the page cache before",
            Figure::share("load.file_in_page_cache", cached),
            reason(&load.file_in_page_cache),
        ),
        ("weights", None, if load.weights.is_empty() { "not known".to_owned() } else { load.weights.clone() }),
    ]
}

fn reason<T>(reading: &Reading<T>) -> String {
    reading.reason().map_or_else(String::new, |reason| format!("not readable: {reason}"))
}

fn chart(memory: &MemoryFigures) -> Option<String> {
    let curve = memory.curve.as_ref().filter(|curve| curve.resident_bytes.len() > 1 && curve.every_ms > 0)?;
    let every_s = curve.every_ms as f64 / 1e3;
    let points: Vec<(f64, f64)> = curve
        .resident_bytes
        .iter()
        .enumerate()
        .map(|(index, &bytes)| (index as f64 * every_s, bytes as f64 / 1e6))
        .collect();
    let most = curve.resident_bytes.iter().copied().max().unwrap_or(0);
    let long = points.last().map_or(0.0, |(seconds, _)| *seconds);
    let description = format!(
        "Resident memory from before the load to the last test, {} at most, over {} s.",
        bytes(most as f64),
        crate::numbers::three_digits(long)
    );
    let x = Axis::between(0.0, long.max(every_s), "s");
    let y = Axis::from_zero(points.iter().map(|(_, megabytes)| *megabytes), "MB resident");
    Some(Chart::new("memory", "Memory over the run", description, x, y).line(&points, "").svg())
}

fn start_view(index: usize, start: &StartFigures) -> StartView {
    let figure = |what: &str, ns: u64| Figure::scaled(format!("start{}.{what}_ns", index + 1), ns as f64, "ms", 1e6);
    StartView {
        start: start.start.clone(),
        page_cache: start.page_cache.clone(),
        there: start
            .files_in_page_cache
            .get()
            .map_or_else(|| reason(&start.files_in_page_cache), |&share| percent(share)),
        load: figure("load", start.load_ns),
        warm_up: figure("warm_up", start.warm_up_ns),
        prompt: figure("prompt", start.prompt_ns),
        first_token: figure("first_token", start.first_token_ns),
    }
}

#[cfg(test)]
mod tests {
    use duan_measure::bench::MemoryCurve;

    use super::*;

    #[test]
    fn only_what_was_measured_is_told() {
        assert!(section(&[Test::default()]).is_none());
        let curve = MemoryCurve { every_ms: 50, resident_bytes: vec![1_000_000, 9_000_000, 5_000_000] };
        let memory = MemoryFigures { peak_bytes: Reading::Known(9_000_000), curve: Some(curve), ..Default::default() };
        let load = LoadFigures { load_ns: 12_500_000, ..Default::default() };
        let starts = vec![StartFigures { start: "first".to_owned(), load_ns: 3_000_000, ..Default::default() }];
        let test = Test { memory: Some(memory), load: Some(load), starts, ..Test::default() };
        let section = section(&[Test::default(), test]).unwrap();
        assert_eq!(section.title, "Memory, load and starts");
        let all: Vec<_> = section.figures.iter().map(|f| (f.name.as_str(), f.value, f.text.as_str())).collect();
        assert_eq!(
            all[..3],
            [("memory.peak_bytes", 9e6, "9.00"), ("load_ns", 12.5e6, "12.5"), ("start1.load_ns", 3e6, "3.00")]
        );
    }
}
