//! The tables, by versions of the schema, and the way to a database that has the newest.
//!
//! `PRAGMA user_version` is the number of steps that a file has gone through. A step never changes once it was released; a new one is
//! appended. All missing steps run in one transaction: a file has the old schema or the new one, never one between.

use rusqlite::{Connection, TransactionBehavior};

/// Marks a file as ours, for `PRAGMA application_id`: "duan" in ASCII.
pub(super) const APPLICATION_ID: i64 = 0x6475_616e;

/// No duan will ever have so many steps.
pub(super) const ABSURD_VERSION: i64 = 10_000;

/// What leads from version N to version N + 1.
///
/// The whole head is kept as JSON, because settings come and go with versions of duan; columns repeat what lists are filtered and sorted
/// by. Samples have a table of their own, so that no number goes through a text.
pub(super) const STEPS: &[&str] = &["
    CREATE TABLE machine (
        only INTEGER PRIMARY KEY CHECK (only = 1),
        id TEXT NOT NULL
    ) STRICT;
    INSERT INTO machine VALUES (1, lower(hex(randomblob(8))));
    CREATE TABLE records (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        uid TEXT NOT NULL UNIQUE,
        taken_unix_s INTEGER NOT NULL,
        kind TEXT NOT NULL,
        engine TEXT NOT NULL,
        machine TEXT,
        chip TEXT,
        model_filename TEXT NOT NULL,
        model_sha256 TEXT,
        model_type TEXT NOT NULL,
        backend TEXT NOT NULL,
        head TEXT NOT NULL,
        document TEXT NOT NULL
    ) STRICT;
    CREATE INDEX records_by_time ON records (taken_unix_s, id);
    CREATE TABLE results (
        id INTEGER PRIMARY KEY,
        record INTEGER NOT NULL REFERENCES records ON DELETE CASCADE,
        place INTEGER NOT NULL,
        test TEXT NOT NULL,
        n_prompt INTEGER NOT NULL,
        n_gen INTEGER NOT NULL,
        n_depth INTEGER NOT NULL,
        unit TEXT NOT NULL,
        median REAL NOT NULL,
        low REAL,
        high REAL,
        UNIQUE (record, place)
    ) STRICT;
    CREATE TABLE samples (
        result INTEGER NOT NULL REFERENCES results ON DELETE CASCADE,
        place INTEGER NOT NULL,
        value REAL NOT NULL,
        PRIMARY KEY (result, place)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE tags (
        record INTEGER NOT NULL REFERENCES records ON DELETE CASCADE,
        tag TEXT NOT NULL,
        PRIMARY KEY (record, tag)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX tags_by_name ON tags (tag);
"];

/// What a file is by its first page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Found {
    /// Nothing is in it yet.
    Empty,
    /// A database of ours that went through so many steps.
    Ours(i64),
    /// A database of another program.
    Foreign,
}

/// What the database is.
pub(super) fn found(connection: &Connection) -> rusqlite::Result<Found> {
    let number = |name| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
    let (application, version) = (number("application_id")?, number("user_version")?);
    let tables: i64 = connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    Ok(match (application, version, tables) {
        (APPLICATION_ID, version, _) => Found::Ours(version),
        (0, 0, 0) => Found::Empty,
        _ => Found::Foreign,
    })
}

/// Takes the database through the `steps` that it lacks. Another program may do so at the same time: what a file lacks is asked again
/// while nobody else may write.
pub(super) fn migrate(connection: &mut Connection, steps: &[&str]) -> rusqlite::Result<()> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let done = match found(&transaction)? {
        Found::Ours(version) => usize::try_from(version).unwrap_or(0),
        Found::Empty | Found::Foreign => 0,
    };
    for step in steps.iter().skip(done) {
        transaction.execute_batch(step)?;
    }
    transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
    if done < steps.len() {
        transaction.pragma_update(None, "user_version", steps.len() as i64)?;
    }
    transaction.commit()
}
