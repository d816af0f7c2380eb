//! The five questions that come before a difference.

use std::fmt::Display;

use duan_system::{State, differences};
use serde::{Deserialize as _, Serialize};
use serde_json::Value;

use super::Side;
use crate::records::{Head, Measured};

/// The hottest sensor may move by so much during a run and is steady: less than what a chip throttles for, and more than sensors that
/// count whole degrees move by themselves.
const STEADY_MILLICELSIUS: u64 = 5000;

/// What is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// The same, or as it should be, in both.
    Yes,
    /// Not so.
    No,
    /// At least one of the two does not say it.
    Unknown,
}

impl Answer {
    fn of(value: Option<bool>) -> Answer {
        value.map_or(Answer::Unknown, |value| if value { Answer::Yes } else { Answer::No })
    }

    /// One answer of several: no where one is, else unknown where one is.
    pub fn of_all(answers: impl IntoIterator<Item = Answer>) -> Answer {
        answers.into_iter().fold(Answer::Yes, |all, answer| match (all, answer) {
            (Answer::No, _) | (_, Answer::No) => Answer::No,
            (Answer::Unknown, _) | (_, Answer::Unknown) => Answer::Unknown,
            _ => Answer::Yes,
        })
    }

    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            Answer::Yes => "yes",
            Answer::No => "no",
            Answer::Unknown => "unknown",
        }
    }
}

/// A question with its answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Question {
    /// A short name for programs.
    pub name: &'static str,
    /// The question.
    pub question: &'static str,
    /// The answer to all parts together.
    pub answer: Answer,
    /// What it was answered by.
    pub parts: Vec<Part>,
}

/// One value of both sides.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Part {
    /// What it is.
    pub name: &'static str,
    /// Whether this one is as it should be.
    pub answer: Answer,
    /// A's value; none where it is not known.
    pub a: Option<String>,
    /// B's value.
    pub b: Option<String>,
}

pub(super) fn ask(a: &Side, b: &Side) -> Vec<Question> {
    let question = |name, question, parts: Vec<Part>| Question {
        name,
        question,
        answer: Answer::of_all(parts.iter().map(|part| part.answer)),
        parts,
    };
    let (head_a, head_b) = (&a.head, &b.head);
    vec![
        question("model", "the same model file (hash, quantization, context parameters)?", model(head_a, head_b)),
        question("threads", "the same threads, pinning and freedom from background limits?", threads(a, b)),
        question("backend", "the same backend, without fallbacks?", backend(head_a, head_b)),
        question("warm", "warmed up, and the temperature steady?", warm(head_a, head_b)),
        question("metric", "the same metric (decode rate, not time to first token)?", metric(a, b)),
    ]
}

/// A value that should be the same.
fn same<T: PartialEq + Display>(name: &'static str, a: Option<T>, b: Option<T>) -> Part {
    let answer = Answer::of(a.as_ref().zip(b.as_ref()).map(|(a, b)| a == b));
    Part { name, answer, a: a.map(|a| a.to_string()), b: b.map(|b| b.to_string()) }
}

/// A name that should be the same; programs write it in upper or lower case.
fn same_name(name: &'static str, a: &str, b: &str) -> Part {
    let known = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    let answer = Answer::of(known(a).zip(known(b)).map(|(a, b)| a.eq_ignore_ascii_case(&b)));
    Part { name, answer, a: known(a), b: known(b) }
}

/// Something that should hold for each, whatever the other has.
fn holds<T>(
    name: &'static str,
    [a, b]: [Option<T>; 2],
    is_so: impl Fn(&T) -> bool,
    text: impl Fn(&T) -> String,
) -> Part {
    let answers = [&a, &b].map(|value| Answer::of(value.as_ref().map(&is_so)));
    Part { name, answer: Answer::of_all(answers), a: a.as_ref().map(&text), b: b.as_ref().map(&text) }
}

fn model(a: &Head, b: &Head) -> Vec<Part> {
    let hash = same("SHA-256", a.model_sha256.clone(), b.model_sha256.clone());
    let mut parts = Vec::new();
    // The hash says all of it. Without it the same sizes still are no proof, but others are.
    if hash.answer == Answer::Unknown {
        parts.push(same("bytes of tensors", a.model_size, b.model_size));
        parts.push(same("weights", a.model_n_params, b.model_n_params));
        if a.engine == b.engine {
            parts.push(same_name("type", &a.model_type, &b.model_type));
        }
    }
    parts.insert(0, hash);
    parts.push(same("context", a.n_ctx, b.n_ctx));
    parts.push(same_name("keys", &a.type_k, &b.type_k));
    parts.push(same_name("values", &a.type_v, &b.type_v));
    parts
}

fn threads(a: &Side, b: &Side) -> Vec<Part> {
    let (head_a, head_b) = (&a.head, &b.head);
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let doubts = [head_a, head_b].map(|head| head.doubtful.clone());
    let told = |doubts: &Vec<String>| if doubts.is_empty() { "none seen".to_owned() } else { doubts.join("; ") };
    vec![
        same("threads of decode", head_a.threads_decode, head_b.threads_decode),
        same("threads of prefill", head_a.threads_prefill, head_b.threads_prefill),
        same_name("pinning", &text(&head_a.pinning), &text(&head_b.pinning)),
        holds("limits during the run", doubts, Vec::is_empty, told),
        state(&a.state, &b.state),
    ]
}

/// What [`differences`] says of a setting that only one of two states has.
const NOT_READABLE: &str = "not readable";

/// Whether the machines had the same settings (governor, limits, power, large pages, ...). One that only one of them says is not known.
fn state(a: &Value, b: &Value) -> Part {
    let name = "state of the machine";
    let (Some(a), Some(b)) = (read_state(a), read_state(b)) else {
        return Part { name, answer: Answer::Unknown, a: None, b: None };
    };
    let found = differences(&a, &b);
    let is_known = |value: &str| value != NOT_READABLE;
    let answers = found
        .iter()
        .map(|setting| Answer::of((is_known(&setting.before) && is_known(&setting.after)).then_some(false)));
    let told =
        |values: Vec<String>| if values.is_empty() { "no setting differs".to_owned() } else { values.join("; ") };
    let before = found.iter().map(|setting| format!("{} {}", setting.name, setting.before)).collect();
    let after = found.iter().map(|setting| format!("{} {}", setting.name, setting.after)).collect();
    Part { name, answer: Answer::of_all(answers), a: Some(told(before)), b: Some(told(after)) }
}

/// A state that was read; none where a report has none, or one that says nothing.
fn read_state(value: &Value) -> Option<State> {
    State::deserialize(value).ok().filter(|state| *state != State::default())
}

fn backend(a: &Head, b: &Head) -> Vec<Part> {
    let told = |ops: &Vec<String>| if ops.is_empty() { "none".to_owned() } else { ops.join("; ") };
    let mut parts = vec![
        same_name("backend", &a.backend, &b.backend),
        holds("fallbacks", [a.fallbacks.clone(), b.fallbacks.clone()], Vec::is_empty, told),
    ];
    // Which instructions another engine uses under the same name of a backend is its own matter.
    if a.engine == b.engine {
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        parts.push(same_name("instruction set", &text(&a.isa), &text(&b.isa)));
    }
    parts
}

fn warm(a: &Head, b: &Head) -> Vec<Part> {
    let range = |head: &Head| head.temperature_before_millicelsius.zip(head.temperature_after_millicelsius);
    let degrees = |millicelsius: i64| format!("{:.1}", millicelsius as f64 / 1000.0);
    vec![
        holds("warm-up runs", [a.warm_up_runs, b.warm_up_runs], |runs| *runs > 0, u64::to_string),
        holds(
            "temperature",
            [range(a), range(b)],
            |(before, after)| before.abs_diff(*after) <= STEADY_MILLICELSIUS,
            |(before, after)| format!("{} to {} °C", degrees(*before), degrees(*after)),
        ),
    ]
}

/// Both have a test of the same name and unit; where each has a decode rate, one of these must be the same.
fn metric(a: &Side, b: &Side) -> Vec<Part> {
    let names = |side: &Side| -> String {
        let name = |figure: &Measured| format!("{} in {}", figure.test, figure.unit);
        side.results.iter().map(name).collect::<Vec<_>>().join(", ")
    };
    let have_decode = [a, b].iter().all(|side| side.results.iter().any(Measured::is_decode));
    let counts = |figure: &&Measured| !have_decode || figure.is_decode();
    let is_same = a.results.iter().filter(counts).any(|figure| super::same_in(b, figure).is_some());
    let known = |side: &Side| (!side.results.is_empty()).then(|| names(side));
    let (a, b) = (known(a), known(b));
    let answer = Answer::of(a.as_ref().zip(b.as_ref()).map(|_| is_same));
    vec![Part { name: "figures", answer, a, b }]
}
