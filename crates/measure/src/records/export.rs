//! Records as they leave: as JSON, from which they come back whole; as comma-separated values; in llama-bench's columns.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::record::{Head, Measured, TOKENS_PER_S};
use crate::bench::{deviation, mean};

/// The version of the JSON that [`json`] writes.
pub(super) const JSON_VERSION: u64 = 1;

/// A record as it travels: all but its number, which is another one on each machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Exported {
    /// Its name everywhere.
    pub uid: String,
    /// The settings.
    pub head: Head,
    /// The figures.
    pub results: Vec<Measured>,
    /// The whole report.
    #[serde(default)]
    pub document: Value,
}

#[derive(Serialize)]
struct Document<'a> {
    duan_records: u64,
    records: &'a [Exported],
}

/// All of the records, to be imported elsewhere: `{"duan_records": 1, "records": [{uid, head, results, document}]}`.
pub fn json(records: &[Exported]) -> String {
    let document = Document { duan_records: JSON_VERSION, records };
    // Every number is finite, and every name of a field is a text.
    let mut text = serde_json::to_string_pretty(&document).unwrap_or_default();
    text.push('\n');
    text
}

/// A line for each figure, with all settings and samples (separated by semicolons), under a line of names. Every value is in quotes;
/// what is not known is empty.
pub fn csv(records: &[Exported]) -> String {
    let heads = fields_of(&Head::default()).into_iter().map(|(name, _)| name);
    let figures = ["test", "n_prompt", "n_gen", "n_depth", "unit", "samples", "median", "low", "high"];
    let names: Vec<String> = ["uid".to_owned()].into_iter().chain(heads).chain(figures.map(str::to_owned)).collect();
    let mut out = names.join(",") + "\n";
    for record in records {
        let head = fields_of(&record.head);
        for figure in &record.results {
            let figure = fields_of(figure);
            let value = |name: &String| match name.as_str() {
                "uid" => Value::String(record.uid.clone()),
                name => head.get(name).or_else(|| figure.get(name)).cloned().unwrap_or_default(),
            };
            out.push_str(&line(names.iter().map(value)));
        }
    }
    out
}

/// llama-bench's columns, in its order.
const LLAMA_BENCH: &[&str] = &[
    "build_commit",
    "build_number",
    "cpu_info",
    "gpu_info",
    "backends",
    "model_filename",
    "model_type",
    "model_size",
    "model_n_params",
    "n_batch",
    "n_ubatch",
    "n_threads",
    "cpu_mask",
    "cpu_strict",
    "poll",
    "type_k",
    "type_v",
    "n_gpu_layers",
    "n_cpu_moe",
    "split_mode",
    "main_gpu",
    "no_kv_offload",
    "flash_attn",
    "devices",
    "tensor_split",
    "tensor_buft_overrides",
    "load_mode",
    "embeddings",
    "no_op_offload",
    "no_host",
    "fit_target",
    "fit_min_ctx",
    "n_prompt",
    "n_gen",
    "n_depth",
    "test_time",
    "avg_ns",
    "stddev_ns",
    "avg_ts",
    "stddev_ts",
];

/// The rates of prefill and decode in the columns of `llama-bench -o csv`: what reads its files reads these. A column that duan has nothing
/// to say in is empty; what llama-bench said itself is kept as it was.
pub fn llama_bench(records: &[Exported]) -> String {
    let mut out = LLAMA_BENCH.join(",") + "\n";
    for record in records {
        // What was imported from llama-bench, and what duan's benchmarks print, is a list of such rows.
        let rows = record.document.as_array().map_or(&[][..], |rows| &rows[..]);
        let mut of_tests: HashMap<[u64; 3], &Map<String, Value>> = HashMap::new();
        for row in rows.iter().filter_map(Value::as_object) {
            of_tests.entry(tokens_of(row)).or_insert(row);
        }
        for figure in &record.results {
            let is_test = figure.unit == TOKENS_PER_S && figure.n_prompt.saturating_add(figure.n_gen) > 0;
            if !is_test {
                continue;
            }
            let said = of_tests.get(&[figure.n_prompt, figure.n_gen, figure.n_depth]);
            let own = columns(&record.head, figure);
            let value = |name: &&str| said.and_then(|row| row.get(*name)).or_else(|| own.get(*name)).cloned();
            out.push_str(&line(LLAMA_BENCH.iter().map(|name| value(name).unwrap_or_default())));
        }
    }
    out
}

/// The tokens of the test that a row of a document tells of.
fn tokens_of(row: &Map<String, Value>) -> [u64; 3] {
    ["n_prompt", "n_gen", "n_depth"].map(|name| row.get(name).and_then(Value::as_u64).unwrap_or(0))
}

/// What a record says under llama-bench's names.
fn columns(head: &Head, figure: &Measured) -> Map<String, Value> {
    let tokens = figure.n_prompt.saturating_add(figure.n_gen) as f64;
    let times: Vec<f64> = figure.samples.iter().map(|rate| tokens * 1e9 / rate).collect();
    let threads = if figure.is_decode() { head.threads_decode } else { head.threads_prefill };
    let columns = serde_json::json!({
        "build_commit": format!("{}-{}", head.engine, head.engine_version),
        "build_number": 0,
        "cpu_info": head.chip,
        "gpu_info": "",
        "backends": head.backend,
        "model_filename": head.model_filename,
        "model_type": head.model_type,
        "model_size": head.model_size,
        "model_n_params": head.model_n_params,
        "n_batch": head.n_batch,
        "n_ubatch": head.n_batch,
        "n_threads": threads,
        "type_k": head.type_k,
        "type_v": head.type_v,
        "n_prompt": figure.n_prompt,
        "n_gen": figure.n_gen,
        "n_depth": figure.n_depth,
        "test_time": head.taken_at,
        "avg_ns": mean(&times).round() as u64,
        "stddev_ns": deviation(&times).round() as u64,
        "avg_ts": mean(&figure.samples),
        "stddev_ts": deviation(&figure.samples),
    });
    fields_of(&columns)
}

fn fields_of(value: &impl Serialize) -> Map<String, Value> {
    match serde_json::to_value(value) {
        Ok(Value::Object(fields)) => fields,
        _ => Map::new(),
    }
}

/// Values in quotes, separated by commas.
fn line(values: impl Iterator<Item = Value>) -> String {
    let quoted = values.map(|value| format!("\"{}\"", flat(&value).replace('"', "\"\"")));
    quoted.collect::<Vec<_>>().join(",") + "\n"
}

/// A value as one text. Control characters and what turns the direction of writing are escaped: the text may end on a terminal.
fn flat(value: &Value) -> String {
    let escaped = |text: &str| {
        let is_odd = |c: char| {
            c.is_control()
                || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
        };
        text.chars().fold(String::new(), |mut out, c| {
            if is_odd(c) {
                out.extend(c.escape_default())
            } else {
                out.push(c)
            }
            out
        })
    };
    match value {
        Value::Null => String::new(),
        Value::String(text) => escaped(text),
        Value::Array(items) => items.iter().map(flat).collect::<Vec<_>>().join("; "),
        other => escaped(&other.to_string()),
    }
}
