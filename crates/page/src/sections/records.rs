//! This run among earlier ones of the same model and chip.

use duan_measure::compare::Side;
use duan_measure::records::Measured;
use serde::Serialize;

use super::comparison::{Differences, Questions, differences, questions, sentence, unit_name};
use crate::chart::{Axis, Chart, Dot};
use crate::figure::Figure;
use crate::numbers::three_digits;
use crate::page::Section;
use crate::reports::{History, Past};

#[derive(Serialize)]
struct View {
    tests: Vec<TestView>,
    latest: Option<LatestView>,
}

#[derive(Serialize)]
struct TestView {
    test: String,
    unit: String,
    chart: String,
    runs: Vec<RunRow>,
}

#[derive(Serialize)]
struct RunRow {
    name: String,
    taken_at: String,
    tags: String,
    doubtful: &'static str,
    median: Option<Figure>,
    interval: String,
}

#[derive(Serialize)]
struct LatestView {
    name: String,
    sentences: Vec<String>,
    questions: Questions,
    differences: Differences,
}

/// The section; none where there is nothing to compare with.
pub(crate) fn section(history: &History) -> Option<Section> {
    let tests: Vec<TestView> = history.now.results.iter().filter_map(|figure| test_view(history, figure)).collect();
    if tests.is_empty() && history.comparison.is_none() {
        return None;
    }
    let latest = history.comparison.as_ref().map(|comparison| LatestView {
        name: history.latest.clone(),
        sentences: comparison.tests.iter().map(|test| sentence(test, "A", "this run")).collect(),
        questions: questions(comparison),
        differences: differences(comparison, "latest"),
    });
    let of_tests = tests.iter().flat_map(|test| &test.runs).filter_map(|run| run.median.clone());
    let of_latest = latest.iter().flat_map(|latest| latest.differences.figures());
    let figures = of_tests.chain(of_latest).collect();
    Some(Section::new("records", "Records of this model on this chip", View { tests, latest }, figures))
}

fn test_view(history: &History, now: &Measured) -> Option<TestView> {
    let same =
        |past: &Past| past.results.iter().find(|figure| figure.test == now.test && figure.unit == now.unit).cloned();
    let past: Vec<(&Past, Measured)> = history.past.iter().filter_map(|past| Some((past, same(past)?))).collect();
    if past.is_empty() {
        return None;
    }
    let name_of_test = format!("records.{}", now.test.replace(' ', ""));
    let row = |run: &str, name: String, side: (&str, &[String], Option<bool>), figure: &Measured| {
        let (taken_at, tags, doubtful) = side;
        let value = format!("{name_of_test}.{run}_{}", unit_name(&now.unit));
        let interval =
            figure.low.zip(figure.high).map(|(low, high)| format!("{} to {}", three_digits(low), three_digits(high)));
        RunRow {
            name,
            taken_at: taken_at.to_owned(),
            tags: tags.join(" "),
            doubtful: match doubtful {
                Some(true) => "doubtful",
                Some(false) => "",
                None => "not known",
            },
            median: Figure::new(value, figure.median, ""),
            interval: interval.unwrap_or_else(|| "too few".to_owned()),
        }
    };
    let mut runs: Vec<RunRow> = past
        .iter()
        .map(|(past, figure)| {
            row(
                &past.id.to_string(),
                format!("record {}", past.id),
                (&past.taken_at, &past.tags, past.doubtful),
                figure,
            )
        })
        .collect();
    let Side { head, .. } = &history.now;
    let doubtful = head.doubtful.as_ref().map(|reasons| !reasons.is_empty());
    runs.push(row("now", "this run".to_owned(), (&head.taken_at, &head.tags, doubtful), now));
    let figures: Vec<&Measured> = past.iter().map(|(_, figure)| figure).chain([now]).collect();
    Some(TestView { test: now.test.clone(), unit: now.unit.clone(), chart: chart(now, &figures, &runs), runs })
}

/// Oldest to newest, with intervals; the last is this run.
fn chart(now: &Measured, figures: &[&Measured], runs: &[RunRow]) -> String {
    let ends = figures.iter().flat_map(|figure| [Some(figure.median), figure.low, figure.high]).flatten();
    let dot = |(index, (figure, run)): (usize, (&&Measured, &RunRow))| Dot {
        x: (index + 1) as f64,
        y: figure.median,
        interval: figure.low.zip(figure.high),
        text: format!("{}, {}: {} {}", run.name, run.taken_at, three_digits(figure.median), figure.unit),
        class: if index + 1 == figures.len() { "square" } else { "" },
    };
    let dots: Vec<Dot> = figures.iter().zip(runs).enumerate().map(dot).collect();
    let description = format!(
        "{} runs, oldest to newest, each with the 90 % interval of its median; the last is this run.",
        figures.len()
    );
    let title = format!("{}: records", now.test);
    let x = Axis::counting(figures.len(), "run, oldest to newest");
    Chart::new(&format!("records-{}-{}", now.test, now.unit), &title, description, x, Axis::around(ends, &now.unit))
        .dots(&dots)
        .svg()
}
