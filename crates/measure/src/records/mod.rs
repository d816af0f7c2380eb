//! Records: every run with all its settings and every sample, in a file that outlives the program.
//!
//! A [`Record`] is a [`Head`] (the settings beside every number), its figures with their raw samples ([`Measured`]) and the whole report
//! as a document. What lacks settings is refused ([`Head::missing`]). [`Records`] adds, finds, tags and deletes them; `export.rs` and
//! `import/` bring them elsewhere and back, and read what llama-bench wrote; `profile.rs` says which settings were best on a chip.
//!
//! Two programs may use the file at once, and one that is killed loses nothing that was said to be kept: see `database.rs`. Start reading
//! at [`Records`]; `schema.rs` has the tables.

mod database;
mod error;
mod export;
mod filter;
mod import;
mod profile;
mod record;
mod schema;
#[cfg(test)]
pub(crate) mod tests;

use std::path::{Path, PathBuf};

use rusqlite::{Connection, OptionalExtension as _, Row, Transaction, TransactionBehavior, params, params_from_iter};
use serde_json::Value;

pub use error::Error;
pub use export::{Exported, csv, json, llama_bench};
pub use filter::{Filter, parse_since};
pub use import::{Imported, from_rows, read, read_file};
pub use profile::{Best, Profile};
pub use record::{BENCH, DUAN, Head, Measured, NewRecord, Record, TOKENS_PER_S, is_number_or_last};

use record::Called;

/// How the file is called in the folder for state.
pub const FILE_NAME: &str = "records.db";

/// The numbers of the records that were measured here, or of all where none was; the one that was added last is the first.
const LAST: &str = "SELECT id FROM records WHERE machine = (SELECT id FROM machine) \
                    OR NOT EXISTS (SELECT 1 FROM records WHERE machine = (SELECT id FROM machine)) \
                    ORDER BY id DESC LIMIT 1 OFFSET ?1";

/// The crate's result with records.
type Result<T> = std::result::Result<T, Error>;

/// The records in one file.
#[derive(Debug)]
pub struct Records {
    connection: Connection,
    path: PathBuf,
}

/// What an import did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ImportReport {
    /// The numbers of what is new.
    pub added: Vec<i64>,
    /// How many were there already.
    pub known: usize,
}

/// A record as it is written: whatever its names are.
struct Draft<'a> {
    uid: Option<&'a str>,
    head: &'a Head,
    results: &'a [Measured],
    document: &'a Value,
}

impl Records {
    /// Opens the file at `path` for whoever adds and changes; it and its folder are made where they are not there.
    ///
    /// # Errors
    /// Where it cannot be made or written; where it is damaged, of another program or of a newer duan; where another program holds it.
    /// Nothing of such a file is changed.
    pub fn open(path: &Path) -> Result<Records> {
        Ok(Records { connection: database::open(path)?, path: path.to_owned() })
    }

    /// Opens the file at `path` for whoever reads; none where there are no records.
    ///
    /// # Errors
    /// As [`Records::open`].
    pub fn open_existing(path: &Path) -> Result<Option<Records>> {
        let connection = database::open_existing(path)?;
        Ok(connection.map(|connection| Records { connection, path: path.to_owned() }))
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The random name of the machine (or, with a home folder that several share, of all of them): what tells its records from those that
    /// were imported. It says nothing of the machine or its user.
    ///
    /// # Errors
    /// As every reading.
    pub fn machine(&self) -> Result<String> {
        self.asked(|connection| connection.query_row("SELECT id FROM machine", [], |row| row.get(0)))
    }

    /// Keeps a record, which becomes this machine's, and gives its number. When it returns, the record is on the disk.
    ///
    /// # Errors
    /// Where settings are missing or something is not as it should be; as every writing.
    pub fn add(&mut self, record: &NewRecord) -> Result<i64> {
        let mut head = record.head.clone();
        head.machine.get_or_insert(self.machine()?);
        record::check(&head, &record.results)?;
        let draft = Draft { uid: None, head: &head, results: &record.results, document: &record.document };
        self.changed(|transaction| insert(transaction, &draft))
    }

    /// The records that are meant, newest first.
    ///
    /// # Errors
    /// As every reading.
    pub fn list(&self, filter: &Filter) -> Result<Vec<Record>> {
        let _snapshot = self.snapshot()?;
        self.listed(filter)
    }

    /// The medians of a test in earlier records of this machine that have all settings of `head`, the newest `limit` of them.
    ///
    /// # Errors
    /// As [`Records::list`].
    pub fn medians(&self, head: &Head, test: &str, unit: &str, limit: usize) -> Result<Vec<f64>> {
        let Some(hash) = &head.model_sha256 else { return Ok(Vec::new()) };
        let machine = self.machine()?;
        let filter = Filter { model: Some(hash.clone()), test: Some(test.to_owned()), ..Filter::default() };
        let is_of_here = |record: &Record| record.head.machine.as_deref() == Some(&*machine);
        let records =
            self.list(&filter)?.into_iter().filter(|record| is_of_here(record) && record.head.is_set_as(head));
        let median = |record: Record| {
            let figure = record.results.into_iter().find(|figure| figure.test == test && figure.unit == unit)?;
            Some(figure.median)
        };
        Ok(records.filter_map(median).take(limit).collect())
    }

    fn listed(&self, filter: &Filter) -> Result<Vec<Record>> {
        let (end, values) = filter.sql();
        let heads: Vec<(i64, String, String)> = self.asked(|connection| {
            let mut query = connection.prepare(&format!("SELECT id, uid, head FROM records{end}"))?;
            let rows = query.query_map(params_from_iter(values), |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
            rows.collect()
        })?;
        heads.into_iter().map(|(id, uid, head)| self.record(id, uid, &head)).collect()
    }

    /// How many records are meant.
    ///
    /// # Errors
    /// As every reading.
    pub fn count(&self, filter: &Filter) -> Result<usize> {
        let (end, values) = filter.sql();
        let count: i64 = self.asked(|connection| {
            let query = format!("SELECT count(*) FROM (SELECT id FROM records{end})");
            connection.query_row(&query, params_from_iter(values), |row| row.get(0))
        })?;
        Ok(usize::try_from(count).unwrap_or(0))
    }

    /// The record of a number.
    ///
    /// # Errors
    /// As every reading.
    pub fn get(&self, id: i64) -> Result<Option<Record>> {
        let _snapshot = self.snapshot()?;
        let query = "SELECT uid, head FROM records WHERE id = ?1";
        let row: Option<(String, String)> = self
            .asked(|connection| connection.query_row(query, [id], |row| Ok((row.get(0)?, row.get(1)?))).optional())?;
        row.map(|(uid, head)| self.record(id, uid, &head)).transpose()
    }

    /// The record that a person calls so: by its number, by a tag that only it has, as `last`, or as `last~2` (the second before
    /// it). The last one is the one that was added last of those that were measured here; where none was, of all.
    ///
    /// # Errors
    /// Where none is called so, or several are; as every reading.
    pub fn find(&self, name: &str) -> Result<Record> {
        let missing = || Error::NoRecord { name: name.escape_debug().to_string() };
        match Called::of(name) {
            Called::Back(back) => {
                let back = back.ok_or_else(missing)?;
                let id = self.asked(|connection| connection.query_row(LAST, [back], |row| row.get(0)).optional())?;
                return self.get(id.ok_or_else(missing)?)?.ok_or_else(missing);
            }
            Called::Number(id) => return self.get(id.ok_or_else(missing)?)?.ok_or_else(missing),
            Called::Tag => {}
        }
        let ids: Vec<i64> = self.asked(|connection| {
            let mut query = connection.prepare("SELECT record FROM tags WHERE tag = ?1 ORDER BY record")?;
            query.query_map([name], |row| row.get(0))?.collect()
        })?;
        match ids[..] {
            [] => Err(missing()),
            [id] => self.get(id)?.ok_or_else(missing),
            _ => {
                let count = ids.len();
                let mut shown: Vec<String> = ids.iter().take(8).map(ToString::to_string).collect();
                shown.extend((count > 8).then(|| "...".to_owned()));
                Err(Error::Several { tag: name.escape_debug().to_string(), count, ids: shown.join(", ") })
            }
        }
    }

    /// The whole report of a record; null where it has none.
    ///
    /// # Errors
    /// As every reading.
    pub fn document(&self, id: i64) -> Result<Value> {
        let query = "SELECT document FROM records WHERE id = ?1";
        let text: Option<String> =
            self.asked(|connection| connection.query_row(query, [id], |row| row.get(0)).optional())?;
        text.map_or(Ok(Value::Null), |text| self.parsed(&text))
    }

    /// Gives tags to a record; those that it has stay.
    ///
    /// # Errors
    /// Where a tag cannot be one, or no record has the number; as every writing.
    pub fn tag(&mut self, id: i64, tags: &[String]) -> Result<()> {
        tags.iter().try_for_each(|tag| record::check_tag(tag))?;
        self.expect(id)?;
        self.changed(|transaction| insert_tags(transaction, id, tags))
    }

    /// Takes tags from a record, and says how many it had of them.
    ///
    /// # Errors
    /// Where no record has the number; as every writing.
    pub fn untag(&mut self, id: i64, tags: &[String]) -> Result<usize> {
        self.expect(id)?;
        self.changed(|transaction| {
            let mut delete = transaction.prepare("DELETE FROM tags WHERE record = ?1 AND tag = ?2")?;
            tags.iter().try_fold(0, |count, tag| Ok(count + delete.execute(params![id, tag])?))
        })
    }

    /// Deletes records with all that belongs to them, and says how many there were. Their numbers are not given again.
    ///
    /// # Errors
    /// As every writing; either all are deleted or none.
    pub fn delete(&mut self, ids: &[i64]) -> Result<usize> {
        self.changed(|transaction| {
            let mut delete = transaction.prepare("DELETE FROM records WHERE id = ?1")?;
            ids.iter().try_fold(0, |count, id| Ok(count + delete.execute([id])?))
        })
    }

    /// Records with their documents, as they travel.
    ///
    /// # Errors
    /// As every reading.
    pub fn export(&self, filter: &Filter) -> Result<Vec<Exported>> {
        let _snapshot = self.snapshot()?;
        self.listed(filter)?.into_iter().map(|record| self.exported(record)).collect()
    }

    /// One record with its document, as it travels.
    ///
    /// # Errors
    /// As every reading.
    pub fn exported(&self, record: Record) -> Result<Exported> {
        let document = self.document(record.id)?;
        Ok(Exported { uid: record.uid, head: record.head, results: record.results, document })
    }

    /// Adds what came from elsewhere and is not here yet: all of it or, where one is refused, nothing. Medians and intervals are made of
    /// the samples again.
    ///
    /// # Errors
    /// Where settings are missing or something is not as it should be; as every writing.
    pub fn import(&mut self, records: &[Imported]) -> Result<ImportReport> {
        let mut recomputed = Vec::with_capacity(records.len());
        for record in records {
            let results: Vec<Measured> = record.results.iter().map(Measured::recomputed).collect();
            record::check_imported(&record.head, &results)?;
            recomputed.push(results);
        }
        self.changed(|transaction| {
            let mut report = ImportReport::default();
            for (record, results) in records.iter().zip(&recomputed) {
                let known = "SELECT count(*) FROM records WHERE uid = ?1";
                if transaction.query_row(known, [&record.uid], |row| row.get::<_, i64>(0))? > 0 {
                    report.known += 1;
                    continue;
                }
                let Imported { uid, head, document, .. } = record;
                report.added.push(insert(transaction, &Draft { uid: Some(uid), head, results, document })?);
            }
            Ok(report)
        })
    }

    /// As long as it lives, everything is read as it was at the first reading, whatever other programs write.
    fn snapshot(&self) -> Result<Transaction<'_>> {
        self.connection.unchecked_transaction().map_err(|error| Error::of(&self.path, error))
    }

    /// Asks the database.
    fn asked<T>(&self, ask: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Result<T> {
        ask(&self.connection).map_err(|error| Error::of(&self.path, error))
    }

    /// Changes the database in one transaction, which waits its turn before it reads anything: all is written, or nothing.
    fn changed<T>(&mut self, change: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T>) -> Result<T> {
        let run = |connection: &mut Connection| {
            let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let result = change(&transaction)?;
            transaction.commit()?;
            Ok(result)
        };
        run(&mut self.connection).map_err(|error| Error::of(&self.path, error))
    }

    fn expect(&self, id: i64) -> Result<()> {
        self.get(id)?.map(|_| ()).ok_or_else(|| Error::NoRecord { name: id.to_string() })
    }

    fn record(&self, id: i64, uid: String, head: &str) -> Result<Record> {
        let mut head: Head = self.parsed(head)?;
        let tags = "SELECT tag FROM tags WHERE record = ?1 ORDER BY tag";
        let figures = "SELECT id, test, n_prompt, n_gen, n_depth, unit, median, low, high FROM results WHERE record = ?1 \
                       ORDER BY place";
        let (tags, results) = self.asked(|connection| {
            let tags =
                connection.prepare_cached(tags)?.query_map([id], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
            let mut figures = connection.prepare_cached(figures)?;
            let figures = figures.query_map([id], |row| figure(connection, row))?.collect::<rusqlite::Result<_>>()?;
            Ok((tags, figures))
        })?;
        head.tags = tags;
        Ok(Record { id, uid, head, results })
    }

    fn parsed<T: serde::de::DeserializeOwned>(&self, text: &str) -> Result<T> {
        serde_json::from_str(text).map_err(|error| Error::Damaged { path: self.path.clone(), why: error.to_string() })
    }
}

fn figure(connection: &Connection, row: &Row<'_>) -> rusqlite::Result<Measured> {
    let result: i64 = row.get(0)?;
    let mut samples = connection.prepare_cached("SELECT value FROM samples WHERE result = ?1 ORDER BY place")?;
    let samples = samples.query_map([result], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
    Ok(Measured {
        test: row.get(1)?,
        n_prompt: count(row, 2)?,
        n_gen: count(row, 3)?,
        n_depth: count(row, 4)?,
        unit: row.get(5)?,
        samples,
        median: row.get(6)?,
        low: row.get(7)?,
        high: row.get(8)?,
    })
}

fn count(row: &Row<'_>, column: usize) -> rusqlite::Result<u64> {
    let number: i64 = row.get(column)?;
    u64::try_from(number).map_err(|_| rusqlite::Error::IntegralValueOutOfRange(column, number))
}

/// What JSON cannot hold was refused before: numbers are finite, and names of fields are texts.
fn json_text(value: &impl serde::Serialize) -> rusqlite::Result<String> {
    serde_json::to_string(value).map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))
}

fn insert(transaction: &Transaction<'_>, draft: &Draft<'_>) -> rusqlite::Result<i64> {
    let Draft { uid, head, results, document } = draft;
    // Tags have a table of their own.
    let kept = Head { tags: Vec::new(), ..(*head).clone() };
    transaction.execute(
        "INSERT INTO records (uid, taken_unix_s, kind, engine, machine, chip, model_filename, model_sha256, model_type, backend, head, \
         document) VALUES (coalesce(?1, lower(hex(randomblob(16)))), ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)",
        params![
            uid,
            head.taken_unix_s().unwrap_or(0),
            head.kind,
            head.engine,
            head.machine,
            head.chip,
            head.model_filename,
            head.model_sha256,
            head.model_type,
            head.backend,
            json_text(&kept)?,
            json_text(document)?,
        ],
    )?;
    let record = transaction.last_insert_rowid();
    let mut add_figure = transaction.prepare_cached(
        "INSERT INTO results (record, place, test, n_prompt, n_gen, n_depth, unit, median, low, high) VALUES (?1, ?2, ?3, ?4, ?5, ?6, \
         ?7, ?8, ?9, ?10)",
    )?;
    let mut add_sample =
        transaction.prepare_cached("INSERT INTO samples (result, place, value) VALUES (?1, ?2, ?3)")?;
    for (place, figure) in results.iter().enumerate() {
        let Measured { test, n_prompt, n_gen, n_depth, unit, samples, median, low, high } = figure;
        let place = place as i64;
        let [n_prompt, n_gen, n_depth] =
            [*n_prompt, *n_gen, *n_depth].map(|tokens| i64::try_from(tokens).unwrap_or(i64::MAX));
        add_figure.execute(params![record, place, test, n_prompt, n_gen, n_depth, unit, median, low, high])?;
        let result = transaction.last_insert_rowid();
        for (place, value) in samples.iter().enumerate() {
            add_sample.execute(params![result, place as i64, value])?;
        }
    }
    insert_tags(transaction, record, &head.tags)?;
    Ok(record)
}

fn insert_tags(transaction: &Transaction<'_>, record: i64, tags: &[String]) -> rusqlite::Result<()> {
    let mut insert = transaction.prepare_cached("INSERT OR IGNORE INTO tags (record, tag) VALUES (?1, ?2)")?;
    tags.iter().try_for_each(|tag| insert.execute(params![record, tag]).map(|_| ()))
}
