//! What a page shows of a test, read from the report of a benchmark.
//!
//! Reports of any age are read, also imported ones: what one lacks is empty, and what it says is text.

use duan_measure::bench::conditions::DoubtKind;
use duan_measure::bench::{Bandwidth, Interval, LoadFigures, MemoryFigures, Outlier, Quantiles, StartFigures};
use duan_measure::records::{Head, Measured};
use duan_system::Reading;
use serde::Deserialize;
use serde_json::Value;

use crate::sections::comparison::unit_name;

/// A test of a benchmark, by the names of its JSON.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Test {
    /// Its name: `tg128`.
    pub test: String,
    /// A name that no other test of the report has, without blanks: with the threads where they differ.
    #[serde(skip)]
    pub key: String,
    /// What was built.
    pub build_commit: String,
    /// How it was built.
    pub build_profile: String,
    /// What the processor calls itself.
    pub cpu_info: String,
    /// The devices that ran it.
    pub backends: String,
    /// The instruction set.
    pub isa: Option<String>,
    /// The model's file.
    pub model_filename: String,
    /// What its bytes are known by.
    pub model_sha256: Reading<String>,
    /// Family, size and format.
    pub model_type: String,
    /// Bytes of all tensors.
    pub model_size: Option<u64>,
    /// Weights of all tensors.
    pub model_n_params: Option<u64>,
    /// Bits for each weight.
    pub bits_per_weight: Option<f64>,
    /// The most tokens of a pass.
    pub n_batch: Option<u64>,
    /// Threads of prefill.
    pub threads_prefill: Option<u64>,
    /// Threads of decode.
    pub threads_decode: Option<u64>,
    /// Threads of this test.
    pub n_threads: Option<u64>,
    /// What threads are held to.
    pub pinning: String,
    /// Ops that run on another device than the preferred one.
    pub fallbacks: Vec<String>,
    /// Combinations of ops that were not to run together.
    pub no_fuse: Vec<String>,
    /// What becomes of laid-out weights.
    pub packing: String,
    /// Positions of the context.
    pub n_ctx: Option<u64>,
    /// Rounds before that do not count.
    pub warm_ups: Option<u64>,
    /// Time without work before each round.
    pub pause_ms: Option<u64>,
    /// How keys are kept.
    pub type_k: String,
    /// How values are kept.
    pub type_v: String,
    /// Tokens in passes of many.
    pub n_prompt: u64,
    /// Tokens one by one.
    pub n_gen: u64,
    /// When it was over, in UTC.
    pub test_time: String,
    /// The unit of `samples_ts` and what is made of them; empty for tokens per second.
    pub unit: String,
    /// The rate of each round.
    pub samples_ts: Vec<f64>,
    /// The middle one.
    pub median_ts: f64,
    /// Where the median of more rounds would lie.
    pub interval: Option<Interval>,
    /// Rounds that are far from the others.
    pub outliers: Vec<Outlier>,
    /// From a prompt to the first token.
    pub first_token_ns: Option<Quantiles>,
    /// The same of each round.
    pub first_token_samples_ns: Vec<u64>,
    /// Each token of decode.
    pub token_ns: Option<Quantiles>,
    /// The same of each token, by round.
    pub token_samples_ns: Vec<Vec<u64>>,
    /// Energy for each token, in joules.
    pub energy_j_per_token: Reading<f64>,
    /// Pages that had to be read from the disk.
    pub major_faults: Reading<u64>,
    /// How often threads were taken off their processor.
    pub involuntary_switches: Reading<u64>,
    /// Bytes that are read per second at the median rate.
    pub read_bytes_per_s: Option<f64>,
    /// What the memory gave.
    pub bandwidth: Option<Bandwidth>,
    /// The rate at which memory or multiplier is the limit.
    pub ceiling_ts: Option<f64>,
    /// The median rate over it.
    pub share: Option<f64>,
    /// What speaks against the numbers.
    pub warnings: Vec<String>,
    /// Whether the machine was not the same all the while; unknown where nobody looked.
    pub doubtful: Option<bool>,
    /// Why.
    pub doubts: Vec<Doubt>,
    /// The effective clock before each round and after it.
    pub clock_hz: Vec<f64>,
    /// Memory of the whole run.
    pub memory: Option<MemoryFigures>,
    /// How the model was loaded.
    pub load: Option<LoadFigures>,
    /// Starts of the program.
    pub starts: Vec<StartFigures>,
    /// Other engines, each of whose runs followed a round.
    pub with: Vec<Other>,
    /// The machine before anything was run.
    pub state: Value,
}

/// Another engine beside ours.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Other {
    /// What it is called.
    pub name: String,
    /// The command.
    pub command: String,
    /// Its version, where it tells one.
    pub engine_version: Option<String>,
    /// Its rate in each pair.
    pub samples_ts: Vec<f64>,
    /// The middle one.
    pub median_ts: f64,
    /// Ours by its.
    pub ratio: Option<Ratio>,
    /// What both do not have in common.
    pub differs: Vec<String>,
    /// Why it has fewer runs.
    pub failed: Option<String>,
}

/// A ratio pair by pair.
#[derive(Debug, Clone, Copy, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Ratio {
    /// The middle one.
    pub median: f64,
    /// Where the median of more pairs would lie.
    pub interval: Option<Interval>,
}

/// Why a test is doubtful.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Doubt {
    /// What for.
    pub kind: String,
    /// What was seen.
    pub evidence: String,
}

impl Doubt {
    /// What can be done about it, where this version knows the kind.
    pub(crate) fn remedy(&self) -> Option<&'static str> {
        let kind = serde_json::from_value::<DoubtKind>(Value::String(self.kind.clone())).ok()?;
        Some(kind.remedy())
    }
}

impl Test {
    /// The tests of a report as `duan bench --json` writes it: a list of rows, or one row. None where it is no such report.
    pub fn of_report(report: &Value) -> Option<Vec<Test>> {
        let rows = match report {
            Value::Array(rows) => rows.as_slice(),
            Value::Object(_) => std::slice::from_ref(report),
            _ => return None,
        };
        let mut tests: Vec<Test> = rows.iter().map(|row| Test::deserialize(row).ok()).collect::<Option<_>>()?;
        let is_one = |test: &Test| !test.test.is_empty() && !test.samples_ts.is_empty();
        if tests.is_empty() || !tests.iter().all(is_one) {
            return None;
        }
        name_keys(&mut tests);
        Some(tests)
    }

    /// What a record says of a figure besides its report.
    pub fn of_record(head: &Head, figure: &Measured) -> Test {
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        let interval = figure.low.zip(figure.high);
        let evidence = |reason: &String| Doubt { kind: String::new(), evidence: reason.clone() };
        Test {
            test: figure.test.clone(),
            key: figure.test.replace(' ', ""),
            build_commit: format!("{} {}", head.engine, head.engine_version),
            build_profile: text(&head.build_profile),
            cpu_info: text(&head.chip),
            backends: head.backend.clone(),
            isa: head.isa.clone(),
            model_filename: head.model_filename.clone(),
            model_sha256: head.model_sha256.clone().map_or_else(Reading::default, Reading::Known),
            model_type: head.model_type.clone(),
            model_size: head.model_size,
            model_n_params: head.model_n_params,
            bits_per_weight: head.bits_per_weight,
            n_batch: head.n_batch,
            threads_prefill: head.threads_prefill,
            threads_decode: head.threads_decode,
            pinning: text(&head.pinning),
            fallbacks: head.fallbacks.clone().unwrap_or_default(),
            n_ctx: head.n_ctx,
            warm_ups: head.warm_up_runs,
            pause_ms: head.pause_ms,
            type_k: head.type_k.clone(),
            type_v: head.type_v.clone(),
            n_prompt: figure.n_prompt,
            n_gen: figure.n_gen,
            test_time: head.taken_at.clone(),
            unit: if figure.is_rate() && figure.unit == "tokens/s" { String::new() } else { figure.unit.clone() },
            samples_ts: figure.samples.clone(),
            median_ts: figure.median,
            // Records have the interval without how sure it is: it is that of all.
            interval: interval.map(|(low, high)| Interval { low, high, level: 0.9 }),
            doubtful: head.doubtful.as_ref().map(|reasons| !reasons.is_empty()),
            doubts: head.doubtful.iter().flatten().map(evidence).collect(),
            ..Test::default()
        }
    }

    /// What is counted, for a person.
    pub(crate) fn unit_text(&self) -> &str {
        if self.unit.is_empty() { "tokens/s" } else { &self.unit }
    }

    /// The same at the end of a figure's name.
    pub(crate) fn figure_name(&self, what: &str) -> String {
        format!("{}.{what}_{}", self.key, unit_name(self.unit_text()))
    }

    /// What is measured, in a word.
    pub(crate) fn what(&self) -> &'static str {
        match (self.unit.is_empty(), self.n_prompt, self.n_gen) {
            (true, 0, 1..) => "decode",
            (true, 1.., 0) => "prefill",
            (true, 1.., 1..) => "prefill and decode",
            _ => "",
        }
    }
}

/// Gives each its key. Tests with other threads have the same name.
fn name_keys(tests: &mut [Test]) {
    let names: Vec<String> = tests.iter().map(|test| test.test.replace(' ', "")).collect();
    let mut given: Vec<String> = Vec::new();
    for (test, name) in tests.iter_mut().zip(&names) {
        let is_alone = names.iter().filter(|other| *other == name).count() == 1;
        let with_threads = test.n_threads.filter(|_| !is_alone).map(|threads| format!("{name}.t{threads}"));
        let mut key = with_threads.unwrap_or_else(|| name.clone());
        while given.contains(&key) {
            key.push('+');
        }
        given.push(key.clone());
        test.key = key;
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn reports_of_any_age_are_read_and_others_are_not() {
        let old = json!([{ "test": "tg8", "samples_ts": [70.0, 71.0], "doubts": [{ "kind": "martians", "evidence": "seen" }] }]);
        let tests = Test::of_report(&old).unwrap();
        assert_eq!((tests.len(), tests[0].doubtful, tests[0].doubts[0].remedy()), (1, None, None));
        assert!(!tests[0].model_sha256.is_known());
        for other in
            [json!(null), json!([]), json!("x"), json!({}), json!([{ "test": 5 }]), json!({ "samples_ts": "x" })]
        {
            assert_eq!(Test::of_report(&other), None, "{other}");
        }
        let row = |threads: u64| json!({ "test": "tg8 @ d4", "samples_ts": [1.0], "n_threads": threads });
        let keys = |rows: Value| Test::of_report(&rows).unwrap().into_iter().map(|test| test.key).collect::<Vec<_>>();
        assert_eq!(keys(json!([row(1), row(2), row(2)])), ["tg8@d4.t1", "tg8@d4.t2", "tg8@d4.t2+"]);
        assert_eq!(keys(row(1)), ["tg8@d4"]);
        let known = Doubt { kind: "steal".to_owned(), evidence: String::new() };
        assert!(known.remedy().is_some());
    }
}
