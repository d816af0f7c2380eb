//! Rows of `llama-bench -o json` and `-o jsonl`, and those of `duan bench`, which have the same names and more (`duan_bench.rs`).
//!
//! Fields are found by name: from version to version some were added, renamed and left out. Rows of the same settings, which differ in
//! their tests, are one record; the rows themselves, with every field, are its document.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value};

use super::duan_bench::{self, is_own};
use super::{Imported, record};
use crate::bench::Test;
use crate::records::record::{BENCH, DUAN, Head, Measured, TOKENS_PER_S};

/// What a row says of its test and its results; everything else is settings.
const OF_TEST: &[&str] = &[
    "n_prompt",
    "n_gen",
    "n_depth",
    "test_time",
    "avg_ns",
    "stddev_ns",
    "avg_ts",
    "stddev_ts",
    "samples_ns",
    "samples_ts",
];

/// What builds of before `backends` said of theirs.
const BACKENDS_OF_BEFORE: &[&str] =
    &["cuda", "vulkan", "opencl", "kompute", "metal", "sycl", "rpc", "gpu_blas", "blas"];

pub(super) type Fields = Map<String, Value>;
type Result<T> = std::result::Result<T, String>;

/// The records that rows make, in the order of their first rows.
///
/// # Errors
/// Where something is no row, with its number.
pub(super) fn records(rows: &[Value]) -> Result<Vec<Imported>> {
    let mut drafts: Vec<Draft> = Vec::new();
    let mut open: HashMap<String, usize> = HashMap::new();
    for (index, row) in rows.iter().enumerate() {
        let named = |what: String| format!("row {}: {what}", index + 1);
        let fields =
            row.as_object().ok_or_else(|| named("expected a row of llama-bench, found something else".to_owned()))?;
        let figure = figure(fields).map_err(named)?;
        let key = settings(fields);
        let place = open.get(&key).copied();
        // The same test a second time is another run.
        match place.filter(|&place| !drafts[place].tests.contains(&figure.test)) {
            Some(place) => drafts[place].add(fields, figure),
            None => {
                open.insert(key, drafts.len());
                let mut draft =
                    Draft { head: head(fields), tests: HashSet::new(), figures: Vec::new(), rows: Vec::new() };
                draft.add(fields, figure);
                drafts.push(draft);
            }
        }
    }
    Ok(drafts.into_iter().map(|draft| record(draft.head, draft.figures, Value::Array(draft.rows))).collect())
}

/// A record while rows are added to it.
struct Draft {
    head: Head,
    /// The names of all figures: there may be many.
    tests: HashSet<String>,
    figures: Vec<Measured>,
    rows: Vec<Value>,
}

impl Draft {
    fn add(&mut self, fields: &Fields, figure: Measured) {
        if is_own(fields) {
            self.add_own(fields, &figure);
        }
        let more = is_own(fields).then(|| duan_bench::first_token(fields, &figure)).flatten();
        for figure in [Some(figure), more].into_iter().flatten() {
            self.tests.insert(figure.test.clone());
            self.figures.push(figure);
        }
        self.rows.push(Value::Object(fields.clone()));
    }

    /// Rows of duan may have other threads for prefill than for decode; some say only those of their own test.
    fn add_own(&mut self, fields: &Fields, figure: &Measured) {
        let threads = number(fields, "n_threads");
        if figure.is_prefill() {
            self.head.threads_prefill = self.head.threads_prefill.or(threads);
        }
        if figure.is_decode() {
            self.head.threads_decode = self.head.threads_decode.or(threads);
        }
        duan_bench::add_moved(&mut self.head, fields);
    }
}

/// What tells rows of different settings apart.
fn settings(fields: &Fields) -> String {
    let own = is_own(fields);
    let is_setting = |name: &str| if own { duan_bench::SETTINGS.contains(&name) } else { !OF_TEST.contains(&name) };
    let settings = fields.iter().filter(|(name, _)| is_setting(name));
    let mut settings: Vec<String> = settings.map(|(name, value)| format!("{name}={value}")).collect();
    settings.sort();
    settings.join("\n")
}

fn head(fields: &Fields) -> Head {
    let own = is_own(fields);
    let size = number(fields, "model_size");
    let parameters = number(fields, "model_n_params");
    let bits = size.zip(parameters).filter(|(_, parameters)| *parameters > 0);
    let threads = number(fields, "n_threads").filter(|_| !own);
    let mut head = Head {
        taken_at: text(fields, "test_time"),
        kind: BENCH.to_owned(),
        engine: if own { DUAN } else { "llama.cpp" }.to_owned(),
        engine_version: version(fields),
        chip: Some(text(fields, "cpu_info")).filter(|chip| !chip.is_empty()),
        model_filename: text(fields, "model_filename"),
        model_type: text(fields, "model_type"),
        model_size: size,
        model_n_params: parameters,
        bits_per_weight: bits.map(|(size, parameters)| size as f64 * 8.0 / parameters as f64),
        backend: backend(fields),
        isa: Some(text(fields, "isa")).filter(|isa| !isa.is_empty()),
        threads_prefill: threads,
        threads_decode: threads,
        pinning: pinning(fields),
        type_k: text(fields, "type_k"),
        type_v: text(fields, "type_v"),
        n_batch: number(fields, "n_batch"),
        ..Head::default()
    };
    if own {
        duan_bench::complete(&mut head, fields);
    }
    head
}

/// "b4567 (0a1b2c3)", or what there is of it.
fn version(fields: &Fields) -> String {
    let commit = text(fields, "build_commit");
    if let Some(version) = commit.strip_prefix("duan-") {
        return version.to_owned();
    }
    match number(fields, "build_number").filter(|&number| number > 0) {
        Some(number) if commit.is_empty() => format!("b{number}"),
        Some(number) => format!("b{number} ({commit})"),
        None => commit,
    }
}

fn backend(fields: &Fields) -> String {
    if fields.contains_key("backends") {
        return text(fields, "backends");
    }
    let told = || BACKENDS_OF_BEFORE.iter().filter_map(|&name| Some((name, is_true(fields.get(name)?))));
    let used: Vec<&str> = told().filter(|(_, is_used)| *is_used).map(|(name, _)| name).collect();
    match used[..] {
        [] if told().next().is_none() => String::new(),
        [] => "CPU".to_owned(),
        _ => used.join(","),
    }
}

/// What llama-bench says of a mask of processors, where it says something.
fn pinning(fields: &Fields) -> Option<String> {
    let mask = fields.get("cpu_mask")?.as_str()?;
    let is_set = mask.trim_start_matches("0x").chars().any(|digit| digit != '0');
    Some(if is_set { format!("mask {mask}") } else { "none".to_owned() })
}

fn figure(fields: &Fields) -> Result<Measured> {
    let has_test = ["n_prompt", "n_gen"].iter().any(|&name| fields.contains_key(name));
    let tokens = ["n_prompt", "n_gen", "n_depth"].map(|name| number(fields, name).unwrap_or(0));
    let [n_prompt, n_gen, n_depth] = tokens;
    if !has_test || n_prompt.saturating_add(n_gen) == 0 {
        return Err("neither n_prompt nor n_gen says what was tested".to_owned());
    }
    let name = tokens.map(|tokens| usize::try_from(tokens).unwrap_or(usize::MAX));
    let name = Test { prompt: name[0], generate: name[1], depth: name[2] }.name();
    // Times are what was measured; rates are made of them, in some versions with fewer digits.
    let times = samples(fields, "samples_ns")?;
    let rates = match (times, samples(fields, "samples_ts")?) {
        (Some(times), _) => times.iter().map(|ns| n_prompt.saturating_add(n_gen) as f64 * 1e9 / ns).collect(),
        (None, Some(rates)) => rates,
        (None, None) => {
            return Err("it has neither samples_ns nor samples_ts; llama-bench writes them with -o json and -o jsonl"
                .to_owned());
        }
    };
    Ok(Measured::new(&name, [n_prompt, n_gen, n_depth], TOKENS_PER_S, rates))
}

/// A list of numbers above 0; none where there is none, or an empty one.
fn samples(fields: &Fields, name: &str) -> Result<Option<Vec<f64>>> {
    let Some(list) = fields.get(name).and_then(Value::as_array) else { return Ok(None) };
    let numbers: Option<Vec<f64>> = list.iter().map(|value| value.as_f64().filter(|number| *number > 0.0)).collect();
    let numbers = numbers.ok_or_else(|| format!("{name}: expected numbers above 0"))?;
    Ok((!numbers.is_empty()).then_some(numbers))
}

/// A text; empty where there is none.
pub(super) fn text(fields: &Fields, name: &str) -> String {
    fields.get(name).and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// A whole number, also one that is written as a text.
pub(super) fn number(fields: &Fields, name: &str) -> Option<u64> {
    let value = fields.get(name)?;
    value.as_u64().or_else(|| value.as_str()?.trim().parse().ok())
}

fn is_true(value: &Value) -> bool {
    value.as_bool().or_else(|| Some(value.as_u64()? != 0)).or_else(|| Some(value.as_str()? == "1")).unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::records::{Filter, Records, json as exported_json, llama_bench, read};

    /// A row as a build of late 2026 writes it.
    fn row(n_prompt: u64, n_gen: u64) -> Value {
        json!({
            "build_commit": "0a1b2c3", "build_number": 9999, "cpu_info": "A Processor", "gpu_info": "", "backends": "CPU",
            "model_filename": "models/a.gguf", "model_type": "llama ?B Q4_1", "model_size": 80_000, "model_n_params": 128_000,
            "n_batch": 2048, "n_ubatch": 512, "n_threads": 2, "cpu_mask": "0x0", "cpu_strict": false, "poll": 50,
            "type_k": "f16", "type_v": "f16", "n_gpu_layers": -1, "devices": "auto", "load_mode": "mmap",
            "n_prompt": n_prompt, "n_gen": n_gen, "n_depth": 0, "test_time": "2026-11-30T12:00:01Z",
            "avg_ns": 1, "stddev_ns": 1, "avg_ts": 1.0, "stddev_ts": 1.0,
            "samples_ns": [100_000_000, 125_000_000], "samples_ts": [1.0, 2.0],
        })
    }

    fn with(mut row: Value, change: impl FnOnce(&mut Fields)) -> Value {
        change(row.as_object_mut().unwrap());
        row
    }

    fn without(row: Value, name: &str) -> Value {
        with(row, |fields| {
            fields.remove(name).unwrap();
        })
    }

    #[test]
    fn rows_of_the_same_settings_are_one_record() {
        let other = with(row(0, 8), |fields| fields["n_threads"] = 4.into());
        let records = records(&[row(16, 0), row(0, 8), other, row(0, 8)]).unwrap();
        let tests = |record: &Imported| record.results.iter().map(|figure| figure.test.clone()).collect::<Vec<_>>();
        assert_eq!(records.iter().map(tests).collect::<Vec<_>>(), [vec!["pp16", "tg8"], vec!["tg8"], vec!["tg8"]]);
        let head = &records[0].head;
        assert_eq!((&*head.engine, &*head.engine_version), ("llama.cpp", "b9999 (0a1b2c3)"));
        assert_eq!((head.threads_prefill, head.threads_decode, head.bits_per_weight), (Some(2), Some(2), Some(5.0)));
        assert_eq!((&*head.backend, head.pinning.as_deref(), head.n_batch), ("CPU", Some("none"), Some(2048)));
        assert_eq!((&head.isa, &head.model_sha256, &head.fallbacks, head.warm_up_runs), (&None, &None, &None, None));
        assert_eq!(head.missing(), [""; 0]);
        assert_eq!(records[1].head.threads_decode, Some(4));
        // Rates are made of the times.
        assert_eq!(records[0].results[0].samples, [160.0, 128.0]);
        assert_eq!(records[0].results[1].samples, [80.0, 64.0]);
        assert_eq!(records[0].document, json!([row(16, 0), row(0, 8)]));
    }

    #[test]
    fn one_document_and_one_on_each_line_are_the_same() {
        let rows = [row(16, 0), row(0, 8)];
        let array = read(serde_json::to_string_pretty(&rows).unwrap().as_bytes(), "x").unwrap();
        let lines = read(rows.each_ref().map(Value::to_string).join("\n").as_bytes(), "x").unwrap();
        assert_eq!(array, lines);
        let folder = tempfile::tempdir().unwrap();
        let mut records = Records::open(&folder.path().join("r.db")).unwrap();
        assert_eq!(records.import(&array).unwrap().added, [1]);
        assert_eq!(records.import(&lines).unwrap().known, 1);
        // Nobody knows on which machine it was.
        let kept = records.export(&Filter::default()).unwrap();
        assert_eq!(kept[0].head.machine, None);
        // What llama-bench said goes out as it came.
        let text = llama_bench(&kept);
        let first = text.lines().nth(1).unwrap();
        assert!(first.starts_with("\"0a1b2c3\",\"9999\",\"A Processor\",\"\",\"CPU\","), "{first}");
        assert!(first.ends_with(",\"16\",\"0\",\"0\",\"2026-11-30T12:00:01Z\",\"1\",\"1\",\"1.0\",\"1.0\""), "{first}");
        assert_eq!(read(exported_json(&kept).as_bytes(), "x").unwrap(), kept);
    }

    #[test]
    fn fields_may_be_missing_added_and_renamed() {
        let strange = with(row(0, 8), |fields| {
            fields.insert("of_next_year".into(), json!({"a": 1}));
            for name in ["n_depth", "backends", "cpu_mask", "samples_ns", "build_number", "n_ubatch"] {
                fields.remove(name);
            }
            fields.insert("cuda".into(), false.into());
            fields.insert("vulkan".into(), "1".into());
            fields["n_threads"] = "2".into();
        });
        let records = records(&[strange]).unwrap();
        let head = &records[0].head;
        assert_eq!((&*head.backend, &*head.engine_version, &head.pinning), ("vulkan", "0a1b2c3", &None));
        assert_eq!((head.threads_decode, &*records[0].results[0].samples), (Some(2), &[1.0, 2.0][..]));
        let cpu = with(without(row(0, 8), "backends"), |fields| {
            fields.insert("cuda".into(), false.into());
        });
        assert_eq!(super::records(&[cpu]).unwrap()[0].head.backend, "CPU");
        // Without any word of it, it is missing, and so the record is refused.
        let none = super::records(&[without(row(0, 8), "backends")]).unwrap();
        assert_eq!(none[0].head.missing(), ["backend"]);
        let pinned = with(row(0, 8), |fields| fields["cpu_mask"] = "0x3".into());
        assert_eq!(super::records(&[pinned]).unwrap()[0].head.pinning.as_deref(), Some("mask 0x3"));
    }

    #[test]
    fn rows_of_duan_have_their_own_threads() {
        let of_duan = |row: Value| with(row, |fields| fields["build_commit"] = "duan-0.1.0".into());
        let records = records(&[of_duan(row(16, 0)), of_duan(row(0, 8))]).unwrap();
        let head = &records[0].head;
        assert_eq!((&*head.engine, &*head.engine_version), ("duan", "0.1.0"));
        assert_eq!((head.threads_prefill, head.threads_decode), (Some(2), Some(2)));
        // Such a row, of a duan of before, does not say all that a record must.
        assert!(head.missing().contains(&"model_sha256"));
    }

    #[test]
    fn what_is_no_row_is_named_by_its_number() {
        let error = |second: Value| records(&[row(16, 0), second]).unwrap_err();
        assert_eq!(error(json!(3)), "row 2: expected a row of llama-bench, found something else");
        assert_eq!(error(json!({})), "row 2: neither n_prompt nor n_gen says what was tested");
        assert_eq!(error(row(0, 0)), "row 2: neither n_prompt nor n_gen says what was tested");
        let no_samples = without(without(row(0, 8), "samples_ns"), "samples_ts");
        assert!(error(no_samples).starts_with("row 2: it has neither samples_ns nor samples_ts"));
        for odd in [json!([1, -1]), json!([0]), json!(["x"]), json!([null])] {
            let odd = with(row(0, 8), |fields| fields["samples_ns"] = odd);
            assert_eq!(error(odd), "row 2: samples_ns: expected numbers above 0");
        }
        // Counts that cannot be are refused where records are made, not here by a fault of ours.
        let huge = with(row(u64::MAX, u64::MAX), |fields| fields["n_depth"] = u64::MAX.into());
        assert_eq!(records(&[huge]).unwrap().len(), 1);
    }

    #[test]
    fn many_rows_take_time_in_proportion() {
        // A search through all figures for each row takes seconds for these.
        let rows: Vec<Value> = (1..=20_000).map(|tokens| row(tokens, 0)).collect();
        let found = records(&rows).unwrap();
        assert_eq!((found.len(), found[0].results.len()), (1, 20_000));
        let error = read(serde_json::to_string(&rows[..1001]).unwrap().as_bytes(), "x").unwrap_err().to_string();
        assert_eq!(error, "x: record 1 has more than 1000 figures");
        assert_eq!(read(serde_json::to_string(&rows[..1000]).unwrap().as_bytes(), "x").unwrap().len(), 1);
    }

    #[test]
    fn files_of_other_things_are_errors() {
        let error = |text: &str| read(text.as_bytes(), "x.json").unwrap_err().to_string();
        for text in ["", "[]", "{}", "7", "[1", "null", "<html>", "[[]]", "{\"head\": 1}", "{\"duan_records\": 1}"] {
            assert!(error(text).starts_with("x.json: "), "{text}");
        }
        assert!(error("[").contains("expected what `duan records export`"));
        assert!(error(r#"{"duan_records": 2, "records": []}"#).contains("later version of duan"));
        assert!(error(r#"{"duan_records": 1, "records": [{"uid": "x"}]}"#).contains("record 1: missing field `head`"));
        let one = r#"{"duan_records": 1, "records": [{"uid": "x", "head": {}, "results": []}]}"#;
        assert!(error(one).contains("record 1: uid has not 32"));
        assert!(error(&"[".repeat(100_000)).contains("recursion limit"));
        assert!(error(&format!("[{}0]", "0,".repeat(4_000_001))).contains("more than 4000000 values"));
        // Brackets alone take more memory than numbers, and documents need no comma between them.
        for text in ["[[[[]]]]", "[]", "{}", "[[[["] {
            assert!(error(&text.repeat(500_001)).contains("more than 500000 lists and objects"), "{text}");
        }
        assert!(error(&"1 ".repeat(4_000_001)).contains("more than 4000000 documents"));
        assert!(error(&" ".repeat((64 << 20) + 1)).contains("longer than 64 MiB"));
    }
}
