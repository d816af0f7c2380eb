//! What rows of `duan bench` say beside those of llama-bench: all settings, what moved meanwhile, and the machine's state.
//!
//! Found by name, as in every row: what a version of duan does not say is not known.

use duan_system::State;
use serde::Deserialize as _;
use serde_json::Value;

use super::llama_bench::{Fields, number, text};
use crate::records::record::{Head, LIST_LIMIT, Measured};

/// The settings of a row. Rows that agree in these are one record.
pub(super) const SETTINGS: &[&str] = &[
    "build_commit",
    "build_profile",
    "cpu_info",
    "backends",
    "fallbacks",
    "isa",
    "model_filename",
    "model_sha256",
    "model_type",
    "model_size",
    "model_n_params",
    "n_batch",
    "threads_prefill",
    "threads_decode",
    "pinning",
    "no_fuse",
    "packing",
    "n_ctx",
    "warm_ups",
    "pause_ms",
    "type_k",
    "type_v",
];

/// Whether duan wrote the row.
pub(super) fn is_own(fields: &Fields) -> bool {
    text(fields, "build_commit").starts_with("duan-")
}

/// Adds to a head what a row of duan says of its settings.
pub(super) fn complete(head: &mut Head, fields: &Fields) {
    let known = |name: &str| Some(text(fields, name)).filter(|text| !text.is_empty());
    head.build_profile = known("build_profile");
    head.model_sha256 = known("model_sha256");
    head.pinning = known("pinning");
    head.packed = known("packing").map(|packing| packing != "as in file");
    head.bits_per_weight = fields.get("bits_per_weight").and_then(Value::as_f64).or(head.bits_per_weight);
    head.threads_prefill = number(fields, "threads_prefill");
    head.threads_decode = number(fields, "threads_decode");
    head.n_ctx = number(fields, "n_ctx");
    head.warm_up_runs = number(fields, "warm_ups");
    head.pause_ms = number(fields, "pause_ms");
    head.fallbacks = texts(fields.get("fallbacks"));
    head.fused = texts(fields.get("no_fuse")).map(|off| match &off[..] {
        [] => vec!["all".to_owned()],
        off => vec![format!("all but {}", off.join(", "))],
    });
    // A device without instruction sets of its own has none.
    head.isa = head.isa.take().or_else(|| fields.get("isa").map(|_| "none".to_owned()));
    let state = fields.get("state").and_then(|state| State::deserialize(state).ok());
    let chip = state.map(|state| state.chip());
    let is_named = chip.as_ref().is_some_and(|chip| chip.model.get().is_some());
    let chip = chip.map(|chip| chip.to_string());
    // A processor without a name ("unknown processor, 4 cores, aarch64") is what a machine has, too; any name goes before it.
    head.chip = if is_named { chip } else { head.chip.take().or(chip) };
}

/// Adds to a head what moved while the test of a row ran. Rows come in the order of their tests.
pub(super) fn add_moved(head: &mut Head, fields: &Fields) {
    if let Some(doubts) = fields.get("doubts").and_then(Value::as_array) {
        let told = head.doubtful.get_or_insert_default();
        for doubt in doubts.iter().filter_map(|doubt| doubt.get("evidence")?.as_str()) {
            let doubt = format!("{}: {doubt}", text(fields, "test"));
            // One too many is enough for the record to be refused.
            if told.len() <= LIST_LIMIT && !told.contains(&doubt) {
                told.push(doubt);
            }
        }
    }
    let Some((before, after)) = hottest(fields) else { return };
    head.temperature_before_millicelsius.get_or_insert(before);
    head.temperature_after_millicelsius = Some(after);
}

/// The temperatures of the sensor that was the hottest at the end.
fn hottest(fields: &Fields) -> Option<(i64, i64)> {
    let zones = fields.get("movement")?.get("temperature")?.as_array()?;
    let both =
        |zone: &Value| Some((zone.get("before_millicelsius")?.as_i64()?, zone.get("after_millicelsius")?.as_i64()?));
    zones.iter().filter_map(both).max_by_key(|(_, after)| *after)
}

/// What a row of prefill measured beside its rate: the time until the first token, once for each round.
pub(super) fn first_token(fields: &Fields, rate: &Measured) -> Option<Measured> {
    let samples = fields.get("first_token_samples_ns")?.as_array()?;
    let samples: Vec<f64> = samples.iter().filter_map(Value::as_f64).map(|ns| ns / 1e6).collect();
    let tokens = [rate.n_prompt, rate.n_gen, rate.n_depth];
    (!samples.is_empty()).then(|| Measured::new(&format!("{} first token", rate.test), tokens, "ms", samples))
}

fn texts(list: Option<&Value>) -> Option<Vec<String>> {
    list?.as_array()?.iter().map(|text| text.as_str().map(str::to_owned)).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::records::{Filter, Records, from_rows, read};

    /// A row with all that it says of its settings, and a little of the rest.
    fn row(n_prompt: u64, n_gen: u64, before: i64, after: i64, doubts: &[&str]) -> serde_json::Value {
        let doubts: Vec<_> = doubts.iter().map(|evidence| json!({ "kind": "steal", "evidence": evidence })).collect();
        let zone = |name: &str, before: i64, after: i64| json!({ "zone": name, "before_millicelsius": before, "after_millicelsius": after });
        json!({
            "build_commit": "duan-0.1.0", "build_number": 0, "cpu_info": "A Processor", "backends": "cpu", "isa": "avx2",
            "build_profile": "release", "model_filename": "a.gguf", "model_sha256": "ab".repeat(32), "bits_per_weight": 5.83,
            "model_type": "llama 135M Q4_1", "model_size": 98_000_000, "model_n_params": 134_515_008, "n_batch": 512,
            "n_threads": if n_prompt > 0 { 4 } else { 2 }, "threads_prefill": 4, "threads_decode": 2, "pinning": "class",
            "fallbacks": [], "no_fuse": ["norm"], "packing": "kept", "n_ctx": 640, "warm_ups": 2, "pause_ms": 250,
            "type_k": "f16", "type_v": "f16", "n_prompt": n_prompt, "n_gen": n_gen, "n_depth": 0,
            "test": if n_prompt > 0 { "pp8" } else { "tg8" }, "test_time": "2026-11-30T12:00:00Z",
            "samples_ns": [100_000_000, 125_000_000], "first_token_samples_ns": if n_prompt > 0 { json!([5_000_000]) } else { json!([]) },
            "doubts": doubts, "energy_j_per_token": { "not_readable": "no counter" },
            "movement": { "temperature": [zone("cool", 20_000, 21_000), zone("hot", before, after)] },
            "state": { "processor": { "model": "A Processor" }, "os": { "architecture": "x86_64" } },
        })
    }

    #[test]
    fn rows_of_one_run_are_a_record_with_nothing_missing() {
        let rows = [row(8, 0, 40_000, 43_000, &[]), row(0, 8, 43_000, 44_000, &["2 % of the time was stolen"])];
        let found = from_rows(&rows).unwrap();
        assert_eq!(found.len(), 1);
        let head = &found[0].head;
        assert_eq!(head.missing(), [""; 0]);
        assert_eq!((head.threads_prefill, head.threads_decode, head.packed), (Some(4), Some(2), Some(true)));
        assert_eq!((head.pinning.as_deref(), head.warm_up_runs, head.n_ctx), (Some("class"), Some(2), Some(640)));
        assert_eq!(head.fused.as_deref(), Some(&["all but norm".to_owned()][..]));
        assert_eq!(head.doubtful.as_deref(), Some(&["tg8: 2 % of the time was stolen".to_owned()][..]));
        assert_eq!(head.chip.as_deref(), Some("A Processor, x86_64"));
        let temperatures = (head.temperature_before_millicelsius, head.temperature_after_millicelsius);
        assert_eq!(temperatures, (Some(40_000), Some(44_000)));
        let figures: Vec<(&str, &str, &[f64])> =
            found[0].results.iter().map(|figure| (&*figure.test, &*figure.unit, &*figure.samples)).collect();
        let expected: [(&str, &str, &[f64]); 3] =
            [("pp8", "tokens/s", &[80.0, 64.0]), ("pp8 first token", "ms", &[5.0]), ("tg8", "tokens/s", &[80.0, 64.0])];
        assert_eq!(figures, expected);
        let folder = tempfile::tempdir().unwrap();
        let mut records = Records::open(&folder.path().join("r.db")).unwrap();
        assert_eq!(records.add(&found[0]).unwrap(), 1);
        // The same, printed and imported elsewhere.
        let imported = read(serde_json::to_string(&rows).unwrap().as_bytes(), "x").unwrap();
        assert_eq!((&imported[0].head, &imported[0].results), (head, &found[0].results));
        assert_eq!(records.import(&imported).unwrap().added, [2]);
        assert_eq!(records.count(&Filter::default()).unwrap(), 2);
    }

    #[test]
    fn a_processor_without_a_name_keeps_its_benchmarks() {
        let chip = |cpu_info: &str| {
            let mut row = row(0, 8, 1, 1, &[]);
            row["cpu_info"] = cpu_info.into();
            row["state"] = json!({
                "processor": { "model": { "not_readable": "the system names none" } }, "os": { "architecture": "aarch64" },
            });
            let found = from_rows(&[row]).unwrap();
            assert_eq!(found[0].head.missing(), [""; 0]);
            found[0].head.chip.clone().unwrap()
        };
        assert_eq!(chip(""), "unknown processor, aarch64");
        assert_eq!(chip("A Name"), "A Name");
    }

    #[test]
    fn other_threads_are_another_record_and_what_cannot_be_read_is_not_known() {
        let mut other = row(0, 8, 1, 1, &[]);
        other["threads_decode"] = 1.into();
        other["model_sha256"] = json!({ "not_readable": "the model is in memory" });
        other["isa"] = serde_json::Value::Null;
        other["movement"] = json!({ "temperature": { "not_readable": "no sensor" } });
        let found = from_rows(&[row(0, 8, 1, 1, &[]), other]).unwrap();
        assert_eq!(found.len(), 2);
        let head = &found[1].head;
        assert_eq!((head.missing(), head.isa.as_deref()), (vec!["model_sha256"], Some("none")));
        assert_eq!((head.temperature_before_millicelsius, head.threads_decode), (None, Some(1)));
    }
}
