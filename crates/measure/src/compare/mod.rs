//! Two runs beside each other: first whether they can be compared, then by how much they differ.
//!
//! Five questions come before the difference, each answered yes, no or unknown with the values of both: who compares a model of four
//! bits on four threads with one of sixteen bits on one thread learns nothing about an engine. What was not noted is unknown, never
//! taken for the same.
//!
//! Start reading at [`compare`]; `questions.rs` asks, `ratio.rs` has the statistics.

mod questions;
mod ratio;
#[cfg(test)]
mod tests;

use serde::Serialize;
use serde_json::Value;

use crate::records::{Head, Measured};

pub use questions::{Answer, Part, Question};
pub use ratio::{Ratio, ratio};

/// One of the two.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Side {
    /// What a person calls it: the number of a record, a tag, a file.
    pub name: String,
    /// Its number among the records, where it is one.
    pub id: Option<i64>,
    /// The settings.
    pub head: Head,
    /// The figures.
    pub results: Vec<Measured>,
    /// The machine's state, as the report has it under `state`; null where it has none.
    #[serde(skip)]
    pub state: Value,
}

/// What comes out.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    /// The settings of A.
    pub a: Head,
    /// The settings of B.
    pub b: Head,
    /// The five questions.
    pub questions: Vec<Question>,
    /// Yes where all answers are, no where one is.
    pub comparable: Answer,
    /// What both measured, in A's order.
    pub tests: Vec<Difference>,
    /// Names of tests that only A has.
    pub only_a: Vec<String>,
    /// Names of tests that only B has.
    pub only_b: Vec<String>,
}

/// The difference of one test that both have.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Difference {
    /// The test.
    pub test: String,
    /// The unit of both.
    pub unit: String,
    /// A's median.
    pub a: f64,
    /// B's median.
    pub b: f64,
    /// How many samples A has.
    pub samples_a: usize,
    /// How many samples B has.
    pub samples_b: usize,
    /// B's value by A's; none where a value is not above 0.
    pub ratio: Option<f64>,
    /// The lower end of its 90 % interval; none of too few samples.
    pub low: Option<f64>,
    /// The upper end.
    pub high: Option<f64>,
    /// What that says.
    pub verdict: Verdict,
}

/// What a difference says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// B is better: faster, or with less of what is a cost.
    Better,
    /// B is worse.
    Worse,
    /// The interval holds 1: these samples show no difference.
    WithinNoise,
    /// There are too few samples for an interval.
    TooFewSamples,
    /// Nothing can be divided by these values.
    NoRatio,
}

/// Asks the five questions and takes the differences.
pub fn compare(a: &Side, b: &Side) -> Comparison {
    let questions = questions::ask(a, b);
    let comparable = Answer::of_all(questions.iter().map(|question| question.answer));
    let is_in = |side: &Side, figure: &Measured| same_in(side, figure).is_some();
    let only = |here: &Side, there: &Side| -> Vec<String> {
        let only = here.results.iter().filter(|figure| !is_in(there, figure));
        only.map(|figure| figure.test.clone()).collect()
    };
    let tests = a.results.iter().filter_map(|figure| Some(difference(figure, same_in(b, figure)?))).collect();
    Comparison {
        a: a.head.clone(),
        b: b.head.clone(),
        questions,
        comparable,
        tests,
        only_a: only(a, b),
        only_b: only(b, a),
    }
}

/// The figure of the same test in the same unit.
fn same_in<'a>(side: &'a Side, figure: &Measured) -> Option<&'a Measured> {
    side.results.iter().find(|other| other.test == figure.test && other.unit == figure.unit)
}

fn difference(a: &Measured, b: &Measured) -> Difference {
    let ratio = ratio(&a.samples, &b.samples);
    let interval = ratio.and_then(|ratio| ratio.interval);
    let verdict = match (ratio, interval) {
        (None, _) => Verdict::NoRatio,
        (_, None) => Verdict::TooFewSamples,
        (_, Some((low, high))) if low <= 1.0 && high >= 1.0 => Verdict::WithinNoise,
        (_, Some((low, _))) if (low > 1.0) == a.is_rate() => Verdict::Better,
        _ => Verdict::Worse,
    };
    Difference {
        test: a.test.clone(),
        unit: a.unit.clone(),
        a: a.median,
        b: b.median,
        samples_a: a.samples.len(),
        samples_b: b.samples.len(),
        ratio: ratio.map(|ratio| ratio.ratio),
        low: interval.map(|(low, _)| low),
        high: interval.map(|(_, high)| high),
        verdict,
    }
}
