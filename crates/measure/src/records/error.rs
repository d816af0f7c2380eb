//! What can go wrong with records.

use std::io;
use std::path::{Path, PathBuf};

use rusqlite::ErrorCode;

/// One line with the remedy.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A number comes without its settings.
    #[error(
        "no record was made, because of its settings these are not known: {names}; a number without its settings has no place in the \
         records: measure again with a version of duan or llama-bench that tells them"
    )]
    Missing {
        /// What is missing, separated by commas.
        names: String,
    },
    /// A record is not as records are.
    #[error("no record was made: {what}")]
    Wrong {
        /// What is wrong.
        what: String,
    },
    /// A tag that could not be told from other things.
    #[error(
        "\"{tag}\" cannot be a tag: expected at most {limit} characters that are seen, without blanks, commas, slashes and ~, not \
         a number alone, not last, and no - at its beginning"
    )]
    Tag {
        /// The tag, escaped.
        tag: String,
        /// The most characters.
        limit: usize,
    },
    /// A time that was not understood.
    #[error("{what}")]
    Time {
        /// What was expected and found.
        what: String,
    },
    /// No record is called so.
    #[error("there is no record {name}; `duan records list` shows those that there are")]
    NoRecord {
        /// What was asked for, escaped.
        name: String,
    },
    /// Several records are called so.
    #[error("{count} records have the tag {tag}: {ids}; name one by its number")]
    Several {
        /// The tag.
        tag: String,
        /// How many.
        count: usize,
        /// The first of their numbers.
        ids: String,
    },
    /// There is no folder to keep records in.
    #[error("there is no home folder to keep records in; name a folder with DUAN_STATE")]
    NoFolder,
    /// The file is not what a database should be.
    #[error(
        "the records in {} are damaged ({why}), and were left as they are; move the file away and duan begins a new one, and \
         `duan records import` brings back what was exported", path.display()
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What was found.
        why: String,
    },
    /// Something else has the file's name.
    #[error("{} is {what}, where the file of the records should be; move it away, or name another folder with DUAN_STATE", path.display())]
    NoPlainFile {
        /// Its path.
        path: PathBuf,
        /// What is there.
        what: &'static str,
    },
    /// The file is a database, but not of records.
    #[error("{} is a database of another program, and was left as it is; name another folder with DUAN_STATE", path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
    },
    /// A later version of duan has changed the file.
    #[error(
        "the records in {} have schema {found}, and this duan knows schemas up to {known}; use the newer duan that wrote them, or \
         name another folder with DUAN_STATE", path.display()
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// The schema that it has.
        found: i64,
        /// The newest that is known here.
        known: i64,
    },
    /// Another program holds the file.
    #[error("another program has held the records in {} for {seconds} s; wait for its end, and run this again", path.display())]
    Busy {
        /// The file.
        path: PathBuf,
        /// How long this one waited.
        seconds: u64,
    },
    /// The file, or its folder, cannot be written.
    #[error(
        "cannot write the records in {} ({why}); make the file and its folder writable for this user, or name another folder with \
         DUAN_STATE", path.display()
    )]
    ReadOnly {
        /// The file.
        path: PathBuf,
        /// Why.
        why: String,
    },
    /// The disk is full.
    #[error(
        "no room for the records in {}: the disk is full; free some space, or name a folder on another disk with DUAN_STATE",
        path.display()
    )]
    Full {
        /// The file.
        path: PathBuf,
    },
    /// The folder could not be made.
    #[error("cannot make the folder {} for the records: {source}; name another with DUAN_STATE", folder.display())]
    Folder {
        /// The folder.
        folder: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file to import cannot be read.
    #[error("{file}: {source}")]
    Read {
        /// The file.
        file: String,
        /// Why.
        source: io::Error,
    },
    /// A file to import holds something else.
    #[error("{file}: {what}")]
    Import {
        /// The file.
        file: String,
        /// What was expected and found, and what to do.
        what: String,
    },
    /// Anything else that the database says.
    #[error("the records in {}: {source}", path.display())]
    Database {
        /// The file.
        path: PathBuf,
        /// Why.
        source: rusqlite::Error,
    },
}

/// How long a program waits for another that holds the file.
pub(super) const BUSY_S: u64 = 10;

impl Error {
    /// What the database at `path` said.
    pub(super) fn of(path: &Path, source: rusqlite::Error) -> Error {
        let path = path.to_owned();
        let why = source.to_string();
        match &source {
            // Queries are right, so the file lacks what they ask for. What they are is nobody's concern.
            rusqlite::Error::SqlInputError { msg, .. } => Error::Damaged { path, why: msg.clone() },
            rusqlite::Error::FromSqlConversionFailure(..)
            | rusqlite::Error::InvalidColumnType(..)
            | rusqlite::Error::IntegralValueOutOfRange(..)
            | rusqlite::Error::Utf8Error(..) => Error::Damaged { path, why },
            rusqlite::Error::SqliteFailure(failure, _) => match failure.code {
                ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt | ErrorCode::Unknown => {
                    Error::Damaged { path, why }
                }
                ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => Error::Busy { path, seconds: BUSY_S },
                ErrorCode::ReadOnly | ErrorCode::CannotOpen | ErrorCode::PermissionDenied => {
                    Error::ReadOnly { path, why }
                }
                ErrorCode::DiskFull => Error::Full { path },
                _ => Error::Database { path, source },
            },
            _ => Error::Database { path, source },
        }
    }
}
