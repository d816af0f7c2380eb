//! The records of this machine, in the folder that the environment names: every benchmark with its settings and samples.
//!
//! [`open`] is for whoever adds and changes, [`open_existing`] for whoever reads. [`side`] finds what a person wants to compare, among the
//! records or in a file.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

pub use duan_measure::compare::{Answer, Comparison, Difference, Part, Question, Side, Verdict, compare, ratio};
use duan_measure::records::is_number_or_last;
pub use duan_measure::records::{
    BENCH, Best, DUAN, Error, Exported, FILE_NAME, Filter, Head, ImportReport, Imported, Measured, NewRecord, Profile,
    Record, Records, TOKENS_PER_S, csv, from_rows, json, llama_bench, parse_since, read_file,
};
use duan_system::Chip;
use serde_json::Value;

use crate::error::Result;

/// The file of the records: `records.db` in `DUAN_STATE`, else in `duan` in the system's folder for state.
///
/// # Errors
/// Where there is no home folder either.
pub fn path() -> Result<PathBuf> {
    let folder = duan_measure::folder::state_folder(|name| std::env::var_os(name)).ok_or(Error::NoFolder)?;
    Ok(folder.join(FILE_NAME))
}

/// Opens the records for whoever adds and changes; the file is made where it is not there.
///
/// # Errors
/// As [`path`] and [`Records::open`].
pub fn open() -> Result<Records> {
    Ok(Records::open(&path()?)?)
}

/// Opens the records for whoever reads; none where there are none.
///
/// # Errors
/// As [`path`] and [`Records::open_existing`].
pub fn open_existing() -> Result<Option<Records>> {
    Ok(Records::open_existing(&path()?)?)
}

/// Keeps a record, and gives its number.
///
/// # Errors
/// As [`open`] and [`Records::add`].
pub fn add(record: &NewRecord) -> Result<i64> {
    Ok(open()?.add(record)?)
}

/// What the records say of the best settings of a chip, where some of them come from other machines: this machine begins with what they
/// found. None where there are none, or they cannot be read: nothing depends on it.
pub fn profile_from_elsewhere(chip: &Chip) -> Option<Profile> {
    let profile = open_existing().ok().flatten()?.profile_for(chip).ok().flatten();
    profile.filter(|profile| profile.from_elsewhere > 0)
}

/// What a person wants to compare: a record by its number or as `last` and `last~1`, a file that was exported or printed by
/// `duan bench --json`, or a record by its tag.
///
/// # Errors
/// Where there is no such thing, a file cannot be read or holds several records, or several records have the tag; as [`open_existing`].
pub fn side(name: &str) -> Result<Side> {
    if !is_number_or_last(name) && Path::new(name).is_file() {
        return Ok(of_file(name)?);
    }
    let missing = || Error::NoRecord { name: name.escape_debug().to_string() };
    let records = open_existing()?.ok_or_else(missing)?;
    let record = records.find(name)?;
    let state = state(&records.document(record.id)?);
    Ok(Side { name: name.to_owned(), id: Some(record.id), head: record.head, results: record.results, state })
}

fn of_file(name: &str) -> std::result::Result<Side, Error> {
    let mut records = read_file(Path::new(name))?;
    let count = records.len();
    match records.pop() {
        Some(Imported { head, results, document, .. }) if count == 1 => {
            Ok(Side { name: name.to_owned(), id: None, head, results, state: state(&document) })
        }
        _ => {
            let what =
                format!("it holds {count} records, and one is compared; import them, and name one by its number");
            Err(Error::Import { file: name.to_owned(), what })
        }
    }
}

/// The machine's state as a report has it: in it, or in its first row.
pub(crate) fn state(document: &Value) -> Value {
    let state = document.get("state").or_else(|| document.get(0)?.get("state"));
    state.cloned().unwrap_or_default()
}

/// Writes a text to a file, which appears whole or not at all.
///
/// # Errors
/// Where there is a file already (but for `force`), or it cannot be written.
pub fn write(path: &Path, text: &str, force: bool) -> Result<()> {
    let mut go_on = |_| ControlFlow::Continue(());
    duan_files::write_whole(path, text.len() as u64, force, &mut go_on, |out| out.write_all(text.as_bytes()))?;
    Ok(())
}
