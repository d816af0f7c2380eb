//! Two runs beside each other: first whether they can be compared, then by how much they differ.

use duan_measure::compare::{Answer, Comparison, Difference, Side, Verdict};
use duan_measure::records::Measured;
use serde::Serialize;

use crate::chart::{Axis, Chart, Dot};
use crate::figure::Figure;
use crate::numbers::three_digits;
use crate::page::Section;

/// The five questions for a template.
#[derive(Serialize)]
pub(crate) struct Questions {
    sentence: String,
    all: Vec<QuestionView>,
}

#[derive(Serialize)]
struct QuestionView {
    question: String,
    answer: &'static str,
    parts: Vec<(String, &'static str, String, String)>,
}

/// The differences for a template.
#[derive(Serialize)]
pub(crate) struct Differences {
    all: Vec<DifferenceView>,
}

impl Differences {
    /// The numbers in it.
    pub(crate) fn figures(&self) -> Vec<Figure> {
        let of = |d: &DifferenceView| [&d.a, &d.b, &d.ratio, &d.low, &d.high].map(Clone::clone);
        self.all.iter().flat_map(of).flatten().collect()
    }
}

#[derive(Serialize)]
struct DifferenceView {
    test: String,
    unit: String,
    a: Option<Figure>,
    b: Option<Figure>,
    ratio: Option<Figure>,
    low: Option<Figure>,
    high: Option<Figure>,
    verdict: &'static str,
    class: &'static str,
}

#[derive(Serialize)]
struct View {
    facts: Vec<(&'static str, String, String)>,
    sentences: Vec<String>,
    questions: Questions,
    differences: Differences,
    charts: Vec<(String, String)>,
    only: Vec<String>,
}

/// The section.
pub(crate) fn section(a: &Side, b: &Side, comparison: &Comparison) -> Section {
    let engine = |side: &Side| format!("{} {}", side.head.engine, side.head.engine_version);
    let chip = |side: &Side| side.head.chip.clone().unwrap_or_else(|| "not known".to_owned());
    let facts = [
        ("what", name(a), name(b)),
        ("taken", a.head.taken_at.clone(), b.head.taken_at.clone()),
        ("engine", engine(a), engine(b)),
        ("model", a.head.model_filename.clone(), b.head.model_filename.clone()),
        ("kind", a.head.model_type.clone(), b.head.model_type.clone()),
        ("chip", chip(a), chip(b)),
    ];
    let only = [("A", &comparison.only_a), ("B", &comparison.only_b)].into_iter();
    let view = View {
        facts: facts.into(),
        sentences: comparison.tests.iter().map(|test| sentence(test, "A", "B")).collect(),
        questions: questions(comparison),
        differences: differences(comparison, "compare"),
        charts: comparison.tests.iter().filter_map(|test| chart(a, b, test)).collect(),
        only: only
            .filter(|(_, tests)| !tests.is_empty())
            .map(|(side, tests)| format!("Only in {side}: {}.", tests.join(", ")))
            .collect(),
    };
    let figures = view.differences.figures();
    Section::new("comparison", "", view, figures)
}

/// What a side is called.
pub(crate) fn name(side: &Side) -> String {
    match side.id {
        Some(id) if id.to_string() != side.name => format!("record {id} ({})", side.name),
        Some(id) => format!("record {id}"),
        None => side.name.clone(),
    }
}

pub(crate) fn questions(comparison: &Comparison) -> Questions {
    let named = |answer: Answer| {
        let asked = comparison.questions.iter().filter(|question| question.answer == answer);
        asked.map(|question| question.name).collect::<Vec<_>>().join(", ")
    };
    let value = |value: &Option<String>| value.clone().unwrap_or_else(|| "not known".to_owned());
    let view = |question: &duan_measure::compare::Question| QuestionView {
        question: question.question.to_owned(),
        answer: question.answer.name(),
        parts: question
            .parts
            .iter()
            .map(|part| (part.name.to_owned(), part.answer.name(), value(&part.a), value(&part.b)))
            .collect(),
    };
    let sentence = match comparison.comparable {
        Answer::Yes => "The two can be compared.".to_owned(),
        Answer::No => {
            format!("The two cannot be compared ({}): the difference has more than one cause.", named(Answer::No))
        }
        Answer::Unknown => format!("Whether the two can be compared is not known ({}).", named(Answer::Unknown)),
    };
    Questions { sentence, all: comparison.questions.iter().map(view).collect() }
}

pub(crate) fn differences(comparison: &Comparison, prefix: &str) -> Differences {
    let view = |test: &Difference| {
        let name = |what: &str| format!("{prefix}.{}.{}.{what}", test.test.replace(' ', ""), unit_name(&test.unit));
        let ratio = |what: &str, value: Option<f64>| {
            let mut figure = Figure::new(name(what), value, "")?;
            if (0.1..10.0).contains(&figure.value) {
                // One per cent is what people look for.
                figure.text = format!("{:.3}", figure.value);
            }
            Some(figure)
        };
        let (verdict, class) = verdict(test.verdict);
        DifferenceView {
            test: test.test.clone(),
            unit: test.unit.clone(),
            a: Figure::new(name("a"), test.a, ""),
            b: Figure::new(name("b"), test.b, ""),
            ratio: ratio("ratio", test.ratio),
            low: ratio("low", test.low),
            high: ratio("high", test.high),
            verdict,
            class,
        }
    };
    Differences { all: comparison.tests.iter().map(view).collect() }
}

/// A unit at the end of a figure's name.
pub(crate) fn unit_name(unit: &str) -> String {
    unit.replace('/', "_per_").replace(' ', "")
}

fn verdict(verdict: Verdict) -> (&'static str, &'static str) {
    match verdict {
        Verdict::Better => ("better", "good"),
        Verdict::Worse => ("worse", "setting"),
        Verdict::WithinNoise => ("within the noise", "none"),
        Verdict::TooFewSamples => ("too few samples", "none"),
        Verdict::NoRatio => ("no ratio", "none"),
    }
}

/// A difference in words; `a` and `b` are what the two are called.
pub(crate) fn sentence(test: &Difference, a: &str, b: &str) -> String {
    let (name, unit) = (&test.test, &test.unit);
    let three = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| format!("{value:.3}"));
    let interval = format!("{} to {}", three(test.low), three(test.high));
    match test.verdict {
        Verdict::WithinNoise => {
            format!("{name} ({unit}): {b} differs from {a} within the noise; the 90 % interval, {interval}, holds 1.")
        }
        Verdict::Better => {
            format!("{name} ({unit}): {b} is better, {} times {a} (90 % interval {interval}).", three(test.ratio))
        }
        Verdict::Worse => {
            format!("{name} ({unit}): {b} is worse, {} times {a} (90 % interval {interval}).", three(test.ratio))
        }
        Verdict::TooFewSamples => format!(
            "{name} ({unit}): {} and {} samples are too few to tell a difference from noise.",
            test.samples_a, test.samples_b
        ),
        Verdict::NoRatio => format!("{name} ({unit}): the values cannot be divided, since not all are above 0."),
    }
}

/// Of more rounds a part is shown.
const MOST_DOTS: usize = 200;

/// The rounds of both; none where one of them has no samples.
fn chart(a: &Side, b: &Side, test: &Difference) -> Option<(String, String)> {
    let of = |side: &Side| -> Option<Measured> {
        side.results.iter().find(|figure| figure.test == test.test && figure.unit == test.unit).cloned()
    };
    let (a, b) = (of(a)?, of(b)?);
    let dots = |at: f64, name: &str, figure: &Measured| -> Vec<Dot> {
        // Of very many, so many are shown, evenly.
        let count = figure.samples.len();
        let step = count.div_ceil(MOST_DOTS).max(1);
        let dot = |(index, &y): (usize, &f64)| Dot {
            // Beside each other, so that none hides another.
            x: at + ((index as f64 + 0.5) / count as f64 - 0.5) * 0.5,
            y,
            interval: None,
            text: format!("{name}, round {}: {} {}", index + 1, three_digits(y), figure.unit),
            class: if name == "B" { "square" } else { "" },
        };
        figure.samples.iter().enumerate().step_by(step).map(dot).collect()
    };
    let values = a.samples.iter().chain(&b.samples).copied();
    let y = Axis::around(values, &test.unit);
    let description = format!(
        "{} rounds of A around {}, and {} of B around {} {}.",
        a.samples.len(),
        three_digits(a.median),
        b.samples.len(),
        three_digits(b.median),
        test.unit
    );
    let most = a.samples.len().max(b.samples.len());
    let shown = if most > MOST_DOTS {
        format!(" Of the {most} of one of them only every so many is shown.")
    } else {
        String::new()
    };
    let description = description + &shown;
    let title = format!("{}: rounds of A and B", test.test);
    let chart =
        Chart::new(&format!("compare-{}-{}", test.test, test.unit), &title, description, Axis::named(&["A", "B"]), y);
    let svg = chart.dots(&dots(1.0, "A", &a)).dots(&dots(2.0, "B", &b)).svg();
    Some((format!("{}, {}", test.test, test.unit), svg))
}
