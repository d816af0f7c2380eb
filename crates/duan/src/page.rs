//! Pages of what was measured here: [`duan_page`] with what the folders of this machine know besides.
//!
//! A benchmark is set beside the machine's kept ceilings and beside earlier records of the same model on the same chip. Start reading at
//! [`of_bench`].

use std::path::Path;

use duan_measure::bench::{Row, Setup};
use duan_measure::ceilings::{Ceilings, Kept, Wanted};
use duan_measure::compare::{Answer, Comparison, Side, compare};
use duan_measure::machine;
use duan_measure::records::{Filter, Measured, NewRecord, Record, Records, from_rows};
use duan_page::reports;
use duan_system::{Chip, State};
use serde_json::Value;

pub use duan_page::{BenchReport, Error, Figure, History, Page, Past, ProfileReport, Section, Test};

use crate::ceilings;
use crate::error::Result;
use crate::profile::ModelProfile;
use crate::records;

/// So many earlier runs are shown.
const MOST_PAST: usize = 24;
/// So many of them are asked whether the run can be compared with them.
const MOST_COMPARED: usize = 8;

/// The page of a benchmark that has just run. `setup` is what it ran on, `profile` a profile of the same model, and `kept` the numbers
/// of the records that it became.
///
/// # Errors
/// When the page cannot be written, which would be a fault of duan.
pub fn of_bench(rows: &[Row], setup: Option<&Setup>, profile: Option<&ModelProfile>, kept: &[i64]) -> Result<String> {
    let values =
        rows.iter().map(serde_json::to_value).collect::<std::result::Result<Vec<_>, _>>().map_err(Error::from)?;
    let history = now_of(&values, kept).and_then(|now| history(now, kept));
    let all = setup.and_then(kept_ceilings);
    let report = BenchReport {
        rows: Value::Array(values),
        ceilings: all.as_ref(),
        ceilings_at: setup.and_then(|setup| setup.ceilings.as_ref().ok()),
        profile: profile.map(|profile| &profile.profile),
        history: history.as_ref(),
        ..BenchReport::default()
    };
    Ok(reports::bench_page(&report)?)
}

/// The page of a record, with what its report holds.
///
/// # Errors
/// As [`records::side`] where there is no such record; as [`of_bench`].
pub fn of_record(name: &str) -> Result<String> {
    let missing = || records::Error::NoRecord { name: name.escape_debug().to_string() };
    let records = records::open_existing()?.ok_or_else(missing)?;
    let Record { id, head, results, .. } = records.find(name)?;
    let document = records.document(id)?;
    let figures = results.iter().map(|figure| Test::of_record(&head, figure)).collect();
    let state = records::state(&document);
    let side = Side { name: format!("record {id}"), id: Some(id), head, results, state };
    let history = history(side, &[id]);
    let report = BenchReport { rows: document, figures, history: history.as_ref(), ..BenchReport::default() };
    Ok(reports::bench_page(&report)?)
}

/// The page of a profile.
///
/// # Errors
/// As [`of_bench`].
pub fn of_profile(profile: &ModelProfile) -> Result<String> {
    let settings = &profile.settings;
    let all = wanted_ceilings(
        settings.isa.as_deref(),
        &settings.pinning,
        &[settings.threads_decode, settings.threads_prefill],
        &settings.state,
    );
    let taken_at = machine::utc_now();
    let report = ProfileReport { taken_at: &taken_at, settings, profile: &profile.profile, ceilings: all.as_ref() };
    Ok(reports::profile_page(&report)?)
}

/// The page of a comparison.
///
/// # Errors
/// As [`of_bench`].
pub fn of_comparison(a: &Side, b: &Side, comparison: &Comparison) -> Result<String> {
    Ok(reports::comparison_page(a, b, comparison)?)
}

/// Writes a page to a file, which appears whole or not at all. A file that is there is replaced only with `force`.
///
/// # Errors
/// When there is a file already, or it cannot be written.
pub fn write(path: &Path, html: &str, force: bool) -> Result<()> {
    records::write(path, html, force)
}

/// What is kept of this machine's ceilings for a run, for every number of threads.
fn kept_ceilings(setup: &Setup) -> Option<Ceilings> {
    let threads = [setup.threads_decode, setup.threads_prefill];
    wanted_ceilings(setup.isa.as_deref(), &setup.pinning, &threads, &setup.state)
}

fn wanted_ceilings(isa: Option<&str>, pinning: &str, threads: &[usize], state: &State) -> Option<Ceilings> {
    let chip: Chip = state.chip();
    let wanted = Wanted { duan_version: env!("CARGO_PKG_VERSION"), chip: &chip, isa: isa?, pinning, threads, state };
    Kept::new(&ceilings::folder()?).find(&wanted).ok()
}

/// The run as one side of a comparison: its first record. None where it lacks what a record needs.
fn now_of(rows: &[Value], kept: &[i64]) -> Option<Side> {
    let NewRecord { head, results, document } = from_rows(rows).ok()?.into_iter().next()?;
    let state = records::state(&document);
    Some(Side { name: "this run".to_owned(), id: kept.first().copied(), head, results, state })
}

/// Earlier records of the same model on the same chip. None where there are none, or they cannot be read: a page goes without.
fn history(now: Side, but: &[i64]) -> Option<History> {
    let records = records::open_existing().ok().flatten()?;
    let filter = Filter { model: Some(now.head.model_sha256.clone()?), ..Filter::default() };
    let is_earlier = |record: &Record| {
        let is_before = !but.contains(&record.id) && record.head.taken_unix_s() <= now.head.taken_unix_s();
        is_before && record.head.chip == now.head.chip && record.head.kind == now.head.kind
    };
    // The newest come first.
    let mut earlier: Vec<Record> = records.list(&filter).ok()?.into_iter().filter(is_earlier).take(MOST_PAST).collect();
    let (latest, comparison) = latest(&records, &earlier, &now).unzip();
    earlier.reverse();
    let past = |record: Record| Past {
        id: record.id,
        taken_at: record.head.taken_at,
        tags: record.head.tags,
        doubtful: record.head.doubtful.map(|reasons| !reasons.is_empty()),
        results: record.results,
    };
    let past: Vec<Past> = earlier.into_iter().map(past).collect();
    (!past.is_empty()).then(|| History { past, now, latest: latest.unwrap_or_default(), comparison })
}

/// The newest that the run can be compared with; where there is none, the newest that measured the same.
fn latest(records: &Records, newest_first: &[Record], now: &Side) -> Option<(String, Comparison)> {
    let mut found = None;
    let is_of = |figure: &Measured, other: &Measured| figure.test == other.test && figure.unit == other.unit;
    let measured_the_same = |record: &&Record| {
        let both = record.results.iter().flat_map(|figure| now.results.iter().map(move |other| (figure, other)));
        both.into_iter().any(|(figure, other)| is_of(figure, other))
    };
    for record in newest_first.iter().filter(measured_the_same).take(MOST_COMPARED) {
        let state = records.document(record.id).map(|document| records::state(&document)).unwrap_or_default();
        let name = format!("record {}", record.id);
        let (head, results) = (record.head.clone(), record.results.clone());
        let side = Side { name: name.clone(), id: Some(record.id), head, results, state };
        let comparison = compare(&side, now);
        if comparison.comparable == Answer::Yes {
            return Some((name, comparison));
        }
        found = found.or(Some((name, comparison)));
    }
    found
}
