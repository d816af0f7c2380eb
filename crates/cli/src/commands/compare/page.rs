//! A comparison as a page: the two, the five questions, the differences, and a sentence for each.

use duan::records::{Answer, Comparison, Difference, Head, Part, Question, Side, Verdict};

use crate::output::style::{on_one_line, shortened};
use crate::output::units::three_digits;
use crate::output::{Align, Table};

/// A hash is shown by its first digits, and any value cut at so many characters; programs get all.
const HASH_DIGITS: usize = 12;
const VALUE_CHARACTERS: usize = 60;

/// The whole page.
pub(super) fn text(a: &Side, b: &Side, comparison: &Comparison) -> String {
    let mut page = sides(a, b).text();
    page.push('\n');
    page.push_str(&questions(&comparison.questions).text());
    page.push('\n');
    if !comparison.tests.is_empty() {
        page.push_str(&differences(&comparison.tests).text());
        page.push('\n');
    }
    for line in sentences(comparison) {
        page.push_str(&line);
        page.push('\n');
    }
    page
}

fn cell(text: &str) -> String {
    let is_hash = text.len() == 64 && text.chars().all(|c| c.is_ascii_hexdigit());
    let limit = if is_hash { HASH_DIGITS + 3 } else { VALUE_CHARACTERS };
    shortened(&on_one_line(text), limit)
}

fn sides(a: &Side, b: &Side) -> Table {
    let mut table = Table::new(&[("", Align::Left), ("A", Align::Left), ("B", Align::Left)]);
    let name = |side: &Side| match side.id {
        Some(id) if id.to_string() != side.name => format!("record {id} ({})", side.name),
        Some(id) => format!("record {id}"),
        None => side.name.clone(),
    };
    let mut row = |what: &str, a: &str, b: &str| table.row([what.to_owned(), cell(a), cell(b)]);
    row("what", &name(a), &name(b));
    let engine = |head: &Head| format!("{} {}", head.engine, head.engine_version);
    row("taken", &a.head.taken_at, &b.head.taken_at);
    row("engine", &engine(&a.head), &engine(&b.head));
    row("model", &a.head.model_type, &b.head.model_type);
    let chip = |head: &Head| head.chip.clone().unwrap_or_else(|| "not known".to_owned());
    row("chip", &chip(&a.head), &chip(&b.head));
    table
}

fn questions(questions: &[Question]) -> Table {
    let columns = [("QUESTION", Align::Left), ("ANSWER", Align::Left), ("A", Align::Left), ("B", Align::Left)];
    let mut table = Table::new(&columns);
    let value = |value: &Option<String>| value.as_deref().map_or("not known".to_owned(), cell);
    for question in questions {
        table.row([question.question, question.answer.name(), "", ""]);
        for Part { name, answer, a, b } in &question.parts {
            table.row([format!("  {name}"), answer.name().to_owned(), value(a), value(b)]);
        }
    }
    table
}

fn differences(tests: &[Difference]) -> Table {
    let mut table = Table::new(&[
        ("TEST", Align::Left),
        ("UNIT", Align::Left),
        ("A", Align::Right),
        ("B", Align::Right),
        ("B/A", Align::Right),
        ("90 % INTERVAL", Align::Right),
    ]);
    for test in tests {
        table.row([
            cell(&test.test),
            cell(&test.unit),
            three_digits(test.a),
            three_digits(test.b),
            test.ratio.map_or("-".to_owned(), times),
            interval(test).unwrap_or_else(|| "-".to_owned()),
        ]);
    }
    table
}

/// A ratio: near 1 it has three digits after the point, since one per cent is what people look for.
fn times(ratio: f64) -> String {
    match ratio {
        0.0..0.1 => format!("{ratio:.4}"),
        0.1..10.0 => format!("{ratio:.3}"),
        _ => three_digits(ratio),
    }
}

fn interval(test: &Difference) -> Option<String> {
    Some(format!("{} to {}", times(test.low?), times(test.high?)))
}

/// What the page says in words: first whether the two can be compared.
fn sentences(comparison: &Comparison) -> Vec<String> {
    let named = |answer: Answer| {
        let asked = comparison.questions.iter().filter(|question| question.answer == answer);
        asked.map(|question| question.name).collect::<Vec<_>>().join(", ")
    };
    let (no, unknown) = (named(Answer::No), named(Answer::Unknown));
    let mut lines = Vec::new();
    match comparison.comparable {
        Answer::Yes => lines.push("The two can be compared.".to_owned()),
        Answer::No => lines.push(format!("The two cannot be compared ({no}): the difference has more than one cause.")),
        Answer::Unknown => lines.push(format!("Whether the two can be compared is not known ({unknown}).")),
    }
    lines.extend(comparison.tests.iter().map(sentence));
    let only = |side: &str, tests: &[String]| {
        let tests: Vec<String> = tests.iter().map(|test| cell(test)).collect();
        (!tests.is_empty()).then(|| format!("Only in {side}: {}.", tests.join(", ")))
    };
    lines.extend(only("A", &comparison.only_a));
    lines.extend(only("B", &comparison.only_b));
    if comparison.tests.is_empty() {
        lines.push("No test is in both, so there is no difference to tell.".to_owned());
    }
    lines
}

fn sentence(test: &Difference) -> String {
    let name = cell(&test.test);
    let (ratio, interval) = (test.ratio.map_or("-".to_owned(), times), interval(test).unwrap_or_default());
    match test.verdict {
        Verdict::WithinNoise => {
            format!("{name}: the difference is within the noise; its 90 % interval, {interval}, holds 1.")
        }
        Verdict::Better => format!("{name}: B is better, {ratio} times A (90 % interval {interval})."),
        Verdict::Worse => format!("{name}: B is worse, {ratio} times A (90 % interval {interval})."),
        Verdict::TooFewSamples => format!(
            "{name}: {} and {} samples are too few to tell a difference from noise; take at least 3 of each (-r 3).",
            test.samples_a, test.samples_b
        ),
        Verdict::NoRatio => format!("{name}: the values cannot be divided, since not all are above 0."),
    }
}
