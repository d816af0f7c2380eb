//! Records that come from elsewhere: what duan exported, and what llama-bench wrote.
//!
//! A file is read with a limit and looked at as what it is; where anything in it is not as expected, nothing of it is taken, and the
//! error says which record or row it was.

mod duan_bench;
mod llama_bench;

use std::fs::File;
use std::io::Read;
use std::path::Path;

use serde::Deserialize;
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

use super::export::{Exported, JSON_VERSION};
use super::record::{FIGURES_LIMIT, Head, Measured, NewRecord};
use super::{Error, Result};

/// A record that came from elsewhere.
pub type Imported = Exported;

/// A file of records longer than this is none: that of a thousand benchmarks has some ten million bytes.
const LIMIT_BYTES: u64 = 64 << 20;
/// One with more values would take hundreds of megabytes of memory.
const LIMIT_VALUES: usize = 4_000_000;
/// Also one with more lists and objects, each of which takes as much as some twenty numbers.
const LIMIT_NESTED: usize = 500_000;

/// What could be read.
const EXPECTED: &str =
    "expected what `duan records export`, `duan bench --json` or `llama-bench -o json` (or jsonl) writes";

/// Reads the file at `path`; `-` is the standard input.
///
/// # Errors
/// Where it cannot be read or is too long; as [`read`].
pub fn read_file(path: &Path) -> Result<Vec<Imported>> {
    let file = path.display().to_string();
    let failed = |source| Error::Read { file: file.clone(), source };
    let mut bytes = Vec::new();
    let limited = if path == Path::new("-") {
        std::io::stdin().lock().take(LIMIT_BYTES + 1).read_to_end(&mut bytes)
    } else {
        File::open(path).and_then(|open| open.take(LIMIT_BYTES + 1).read_to_end(&mut bytes))
    };
    limited.map_err(failed)?;
    read(&bytes, &file)
}

/// Reads records, whichever of the known ways they are written in. `file` is what errors call it.
///
/// # Errors
/// Where it is something else, is damaged, or comes from a later version of duan.
pub fn read(bytes: &[u8], file: &str) -> Result<Vec<Imported>> {
    let wrong = |what: String| Error::Import { file: file.to_owned(), what };
    if bytes.len() as u64 > LIMIT_BYTES {
        return Err(wrong(format!("it is longer than {} MiB, so it is no file of records", LIMIT_BYTES >> 20)));
    }
    let too_many = |limit: usize, what: &str| {
        format!("it has more than {limit} {what}, which would take too much memory; export fewer records at a time")
    };
    let nested = bytes.iter().filter(|&&byte| matches!(byte, b'[' | b'{')).count();
    if nested > LIMIT_NESTED {
        return Err(wrong(too_many(LIMIT_NESTED, "lists and objects")));
    }
    // Between any two values of a list or an object stands a comma.
    if nested + bytes.iter().filter(|&&byte| byte == b',').count() > LIMIT_VALUES {
        return Err(wrong(too_many(LIMIT_VALUES, "values")));
    }
    let values = values(bytes).map_err(|error| wrong(format!("{EXPECTED}, found no JSON: {error}")))?;
    if values.len() > LIMIT_VALUES {
        return Err(wrong(too_many(LIMIT_VALUES, "documents")));
    }
    let records = match &values[..] {
        [Value::Object(fields)] if fields.contains_key("duan_records") => exported(fields),
        [Value::Object(fields)] if fields.contains_key("head") => report(fields).map(|record| vec![record]),
        [Value::Array(rows)] => llama_bench::records(rows),
        rows => llama_bench::records(rows),
    };
    match records {
        Ok(records) if records.is_empty() => Err(wrong(format!("{EXPECTED}, found nothing"))),
        Ok(records) => trusted(records).map_err(wrong),
        Err(what) => Err(wrong(what)),
    }
}

/// Records with the medians and intervals that their samples have: what a file says of them is not believed.
fn trusted(mut records: Vec<Imported>) -> std::result::Result<Vec<Imported>, String> {
    for (index, record) in records.iter_mut().enumerate() {
        if record.results.len() > FIGURES_LIMIT {
            return Err(format!("record {} has more than {FIGURES_LIMIT} figures", index + 1));
        }
        record.results = record.results.iter().map(Measured::recomputed).collect();
    }
    Ok(records)
}

/// The records that rows of `duan bench` make, as its `--json` has them: those of the same settings are one, with the rows as its document.
///
/// # Errors
/// Where something is no row, with its number.
pub fn from_rows(rows: &[Value]) -> Result<Vec<NewRecord>> {
    let records = llama_bench::records(rows).map_err(|what| Error::Wrong { what })?;
    let new = |Imported { head, results, document, .. }| NewRecord { head, results, document };
    Ok(records.into_iter().map(new).collect())
}

/// The documents of a file: one, or one on each line. One more than there may be says that there are too many.
fn values(bytes: &[u8]) -> serde_json::Result<Vec<Value>> {
    let bytes = bytes.strip_prefix("\u{feff}".as_bytes()).unwrap_or(bytes);
    serde_json::Deserializer::from_slice(bytes).into_iter().take(LIMIT_VALUES + 1).collect()
}

/// What [`super::json`] wrote.
fn exported(fields: &Map<String, Value>) -> std::result::Result<Vec<Imported>, String> {
    let version = fields["duan_records"].as_u64().unwrap_or(u64::MAX);
    if version > JSON_VERSION {
        return Err(
            "it comes from a later version of duan, which writes records in another way; use that one, or a newer"
                .to_owned(),
        );
    }
    let Some(records) = fields.get("records").and_then(Value::as_array) else {
        return Err("expected a list of records under \"records\", found none".to_owned());
    };
    let record = |(index, value): (usize, &Value)| {
        let record = Imported::deserialize(value).map_err(|error| format!("record {}: {error}", index + 1))?;
        let is_uid = record.uid.len() == UID_DIGITS && record.uid.chars().all(|c| c.is_ascii_hexdigit());
        is_uid
            .then_some(record)
            .ok_or_else(|| format!("record {}: uid has not {UID_DIGITS} hexadecimal digits", index + 1))
    };
    records.iter().enumerate().map(record).collect()
}

/// A report with `head` and `results` in it: the same as a record, of which it is the document.
fn report(fields: &Map<String, Value>) -> std::result::Result<Imported, String> {
    let named = |name: &'static str| move |error: serde_json::Error| format!("{name}: {error}");
    let head = Head::deserialize(&fields["head"]).map_err(named("head"))?;
    let none = Value::Array(Vec::new());
    let results = Vec::<Measured>::deserialize(fields.get("results").unwrap_or(&none)).map_err(named("results"))?;
    Ok(record(head, results, Value::Object(fields.clone())))
}

/// The digits of a record's name.
const UID_DIGITS: usize = 32;

/// A record that had no name: it gets one from what it says, so that the same is known when it comes a second time.
fn record(head: Head, results: Vec<Measured>, document: Value) -> Imported {
    // All of it was JSON.
    let text = serde_json::to_vec(&(&head, &results, &document)).unwrap_or_default();
    let digits = Sha256::digest(&text).iter().fold(String::new(), |text, byte| format!("{text}{byte:02x}"));
    Imported { uid: digits[..UID_DIGITS].to_owned(), head, results, document }
}
