//! What came of the pairs.

use std::ffi::OsString;

use serde::Serialize;
use serde_json::Value;

use super::Other;
use super::read::Ran;
use crate::bench::statistics::median_interval;
use crate::bench::{Interval, Row, Test, median};
use crate::compare::{Answer, Side, compare};
use crate::records::{Head, Measured, NewRecord, TOKENS_PER_S, from_rows};

/// What two engines must have in common, as [`compare`] calls it, for their rates to be about the engines. Hashes, contexts and the
/// state of the machine are the same here, or not told by others; how threads are held to processors is an engine's own choice.
const IN_COMMON: [&str; 9] = [
    "bytes of tensors",
    "weights",
    "keys",
    "values",
    "threads of decode",
    "threads of prefill",
    "backend",
    "fallbacks",
    "figures",
];

/// Another engine beside ours in one test.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct OtherFigures {
    /// What it is called.
    pub name: String,
    /// The command of this test, as a shell has it.
    pub command: String,
    /// How its output was read: `llama-bench` or `pattern`.
    pub read_by: &'static str,
    /// Its version, where it tells one.
    pub engine_version: Option<String>,
    /// Its rate in each pair, in tokens per second; those of ours are `samples_ts` of the row.
    pub samples_ts: Vec<f64>,
    /// The middle one; `None` where it never ran.
    pub median_ts: Option<f64>,
    /// Where the median of more runs would lie; `None` of too few to know.
    pub interval: Option<Interval>,
    /// Ours by its; `None` where no pair is whole.
    pub ratio: Option<Ratio>,
    /// What both do not have in common, with both values: then the ratio is not one of the engines.
    pub differs: Vec<String>,
    /// Why it has fewer runs than ours, in one line.
    pub failed: Option<String>,
    /// Whether the command has the file from us.
    #[serde(skip)]
    pub has_our_file: bool,
    /// Its own record, where it tells its settings.
    #[serde(skip)]
    pub record: Option<NewRecord>,
}

/// How much faster ours is, of pairs of runs that followed each other.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Ratio {
    /// The median of the ratios of all pairs, ours by the other's.
    pub median: f64,
    /// Where the median of more pairs would lie; `None` of too few to know.
    pub interval: Option<Interval>,
    /// The ratio of each pair.
    pub samples: Vec<f64>,
}

impl Ratio {
    /// Of runs that followed each other; one without the other is no pair. `None` of none.
    pub fn of(ours: &[f64], theirs: &[f64]) -> Option<Ratio> {
        let pairs = ours.iter().zip(theirs).filter(|(ours, theirs)| **ours > 0.0 && **theirs > 0.0);
        let samples: Vec<f64> = pairs.map(|(ours, theirs)| ours / theirs).collect();
        if samples.is_empty() {
            return None;
        }
        Some(Ratio { median: median(&samples), interval: median_interval(&samples), samples })
    }

    /// Whether the interval holds 1, so that these pairs show no difference; `None` of too few pairs.
    pub fn is_within_noise(&self) -> Option<bool> {
        self.interval.map(|interval| (interval.low..=interval.high).contains(&1.0))
    }
}

impl OtherFigures {
    /// Sums up the runs of another engine that followed the rounds of `row`.
    pub fn new(other: &Other, words: &[OsString], test: Test, row: &Row, ran: &[Ran], failed: Option<String>) -> Self {
        let samples_ts: Vec<f64> = ran.iter().map(|run| run.ts).collect();
        let head = ran.iter().find_map(|run| run.head.clone());
        let record = head.map(|head| record(head, test, &samples_ts, ran));
        Self {
            name: other.command.name().to_owned(),
            command: joined(words),
            read_by: other.read_by(),
            engine_version: record.as_ref().map(|record| record.head.engine_version.clone()),
            median_ts: (!samples_ts.is_empty()).then(|| median(&samples_ts)),
            interval: median_interval(&samples_ts),
            ratio: Ratio::of(&row.samples_ts, &samples_ts),
            differs: record.as_ref().map(|theirs| differs(row, theirs)).unwrap_or_default(),
            failed,
            has_our_file: other.command.names_model(),
            record,
            samples_ts,
        }
    }
}

/// All runs of a test as one record.
fn record(head: Head, test: Test, samples_ts: &[f64], ran: &[Ran]) -> NewRecord {
    let tokens = [test.prompt, test.generate, test.depth].map(|tokens| tokens as u64);
    let figure = Measured::new(&test.name(), tokens, TOKENS_PER_S, samples_ts.to_vec());
    let rows = ran.iter().filter_map(|run| run.row.clone()).collect();
    NewRecord { head, results: vec![figure], document: Value::Array(rows) }
}

/// The records of other engines, those of the same settings as one with several figures, in the order of their first figures.
///
/// What is known of ours is known of them: they ran on the same machine and, where their command has it from us, on the same file.
pub fn merge_records<'a>(rows: impl IntoIterator<Item = &'a Row>) -> Vec<NewRecord> {
    let mut merged: Vec<NewRecord> = Vec::new();
    for (row, other) in rows.into_iter().flat_map(|row| row.with.iter().map(move |other| (row, other))) {
        let Some(mut record) = other.record.clone() else { continue };
        let head = &mut record.head;
        if other.has_our_file && head.model_size == Some(row.model_size) {
            head.model_sha256 = row.model_sha256.get().cloned();
        }
        let is_same = |one: &&mut NewRecord| {
            let taken_at = record.head.taken_at.clone();
            Head { taken_at, ..one.head.clone() } == record.head
                && one.results.iter().all(|figure| figure.test != record.results[0].test)
        };
        match merged.iter_mut().find(is_same) {
            Some(one) => {
                one.results.append(&mut record.results);
                if let (Value::Array(all), Value::Array(more)) = (&mut one.document, &mut record.document) {
                    all.append(more);
                }
            }
            None => merged.push(record),
        }
    }
    merged
}

/// What a row of ours and the record of another engine do not have in common.
fn differs(row: &Row, theirs: &NewRecord) -> Vec<String> {
    let own = serde_json::to_value(row).ok().and_then(|row| from_rows(&[row]).ok()?.into_iter().next());
    let Some(own) = own else { return Vec::new() };
    let side = |record: &NewRecord| Side {
        name: String::new(),
        id: None,
        head: record.head.clone(),
        results: record.results.iter().filter(|figure| figure.unit == TOKENS_PER_S).cloned().collect(),
        state: Value::Null,
    };
    let parts = compare(&side(&own), &side(theirs)).questions.into_iter().flat_map(|question| question.parts);
    let counts = |name: &str| match name {
        // Others have one number of threads for both.
        "threads of decode" => row.n_gen > 0,
        "threads of prefill" => row.n_prompt > 0,
        name => IN_COMMON.contains(&name),
    };
    let or_nothing = |value: Option<String>| value.unwrap_or_else(|| "nothing".to_owned());
    parts
        .filter(|part| part.answer == Answer::No && counts(part.name))
        .map(|part| format!("{}: {} and {}", part.name, or_nothing(part.a), or_nothing(part.b)))
        .collect()
}

/// Words as a shell would have them.
fn joined(words: &[OsString]) -> String {
    let words: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
    // Only a zero byte cannot be quoted, and no word of a command has one.
    shlex::try_join(words.iter().map(AsRef::as_ref)).unwrap_or_else(|_| words.join(" "))
}
