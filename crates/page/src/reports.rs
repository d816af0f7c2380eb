//! Pages put together from sections: one function for each kind.

use duan_measure::ceilings::{Ceilings, CeilingsAt};
use duan_measure::compare::{Comparison, Side};
use duan_measure::profile::{Profile, Settings};
use duan_measure::records::Measured;
use serde_json::{Value, json};

use crate::error::Result;
use crate::page::Page;
use crate::sections::{bench, ceilings, comparison, headline, memory, others, profile, records, state};
use crate::test::Test;

/// An earlier run.
#[derive(Debug, Clone, PartialEq)]
pub struct Past {
    /// Its number among the records.
    pub id: i64,
    /// When it was taken.
    pub taken_at: String,
    /// Its tags.
    pub tags: Vec<String>,
    /// Whether it was doubtful, where that is known.
    pub doubtful: Option<bool>,
    /// Its figures.
    pub results: Vec<Measured>,
}

/// A run among earlier ones of the same model on the same chip.
#[derive(Debug, Clone, PartialEq)]
pub struct History {
    /// Earlier runs, oldest first.
    pub past: Vec<Past>,
    /// This run.
    pub now: Side,
    /// What the latest of them is called, where there is one.
    pub latest: String,
    /// The latest of them as A, and this run as B.
    pub comparison: Option<Comparison>,
}

/// What a page of a benchmark is made of.
#[derive(Debug, Clone, Default)]
pub struct BenchReport<'a> {
    /// The report, as `duan bench --json` writes it: a list of rows.
    pub rows: Value,
    /// The figures as records have them, where the report is another's.
    pub figures: Vec<Test>,
    /// What the machine can do, for each number of threads.
    pub ceilings: Option<&'a Ceilings>,
    /// The same for the threads of the run alone, where all are not known.
    pub ceilings_at: Option<&'a CeilingsAt>,
    /// Where the time goes.
    pub profile: Option<&'a Profile>,
    /// Earlier runs.
    pub history: Option<&'a History>,
}

/// What a page of a profile is made of.
#[derive(Debug, Clone, Copy)]
pub struct ProfileReport<'a> {
    /// When it was taken, in UTC.
    pub taken_at: &'a str,
    /// The settings beside it.
    pub settings: &'a Settings,
    /// The profile.
    pub profile: &'a Profile,
    /// What the machine can do, for each number of threads.
    pub ceilings: Option<&'a Ceilings>,
}

/// The page of a benchmark, or of a record of one.
///
/// # Errors
/// When a template cannot be filled.
pub fn bench_page(report: &BenchReport<'_>) -> Result<String> {
    let tests = Test::of_report(&report.rows).unwrap_or_else(|| report.figures.clone());
    let model = tests.first().map(|test| test.model_filename.clone()).unwrap_or_default();
    let name = headline::file_name(&model);
    let mut page = Page::new(if name.is_empty() { "benchmark".to_owned() } else { format!("benchmark of {name}") });
    page.push(headline::of_tests(&tests));
    page.push(bench::section(&tests));
    page.push(others::section(&tests));
    page.push(memory::section(&tests));
    page.push(match (report.ceilings, report.ceilings_at) {
        (Some(all), _) => Some(ceilings::of_all(all)),
        (None, one) => one.map(ceilings::of_one),
    });
    page.push(report.profile.and_then(profile::section));
    page.push(report.history.and_then(records::section));
    if let Some(first) = tests.first() {
        page.push(state::section(state::model_of(first), &first.state));
    }
    page.data("bench", report.rows.clone());
    if let Some(ceilings) = report.ceilings {
        page.data("ceilings", serde_json::to_value(ceilings)?);
    }
    if let Some(profile) = report.profile {
        page.data("profile", serde_json::to_value(profile)?);
    }
    if let Some(history) = report.history {
        page.data("records", history_data(history)?);
    }
    page.html()
}

fn history_data(history: &History) -> Result<Value> {
    let past: Vec<Value> = history
        .past
        .iter()
        .map(|past| json!({ "id": past.id, "taken_at": past.taken_at, "tags": past.tags, "results": past.results }))
        .collect();
    Ok(json!({ "past": past, "now": history.now, "latest": history.latest, "comparison": history.comparison }))
}

/// The page of a profile.
///
/// # Errors
/// When a template cannot be filled.
pub fn profile_page(report: &ProfileReport<'_>) -> Result<String> {
    let ProfileReport { taken_at, settings, profile: profiled, ceilings: all } = report;
    let name = headline::file_name(&settings.model_filename);
    let mut page = Page::new(format!("profile of {name}"));
    // Settings are named as rows of benchmarks name them.
    let rows = serde_json::to_value(settings)?;
    let mut test: Test = serde::Deserialize::deserialize(&rows).unwrap_or_default();
    test.test_time = (*taken_at).to_owned();
    page.push(headline::of_profile(headline::facts(&test), profiled));
    page.push(profile::section(profiled));
    page.push(match (all, &settings.ceilings) {
        (Some(all), _) => Some(ceilings::of_all(all)),
        (None, one) => one.as_ref().map(ceilings::of_one),
    });
    page.push(state::section(state::model_of(&test), &test.state));
    page.data("taken_at", json!(taken_at));
    page.data("settings", rows);
    page.data("profile", serde_json::to_value(profiled)?);
    page.html()
}

/// The page of a comparison.
///
/// # Errors
/// When a template cannot be filled.
pub fn comparison_page(a: &Side, b: &Side, compared: &Comparison) -> Result<String> {
    let mut page = Page::new(format!("{} and {} compared", comparison::name(a), comparison::name(b)));
    page.push(comparison::section(a, b, compared));
    page.data("a", serde_json::to_value(a)?);
    page.data("b", serde_json::to_value(b)?);
    page.data("comparison", serde_json::to_value(compared)?);
    page.html()
}
