//! The error type of this crate.

use std::path::{Path, PathBuf};

use duan_model::quoted;

/// The crate's result.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a file was not quantized: one line with the remedy. Nothing was written then.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The source, or the importance, cannot be read.
    #[error(transparent)]
    Model(Box<duan_model::Error>),
    /// The file cannot be written.
    #[error(transparent)]
    Write(#[from] duan_files::WriteError),
    /// The file to write is the one that is read.
    #[error("{} is the source itself, which is never written to; name another file", path.display())]
    OverSource {
        /// The file.
        path: PathBuf,
    },
    /// A weight that no block can hold.
    #[error(
        "{file}: tensor `{tensor}`: weight {index} (row {row}, column {column}) {what}; nothing was written; {remedy}"
    )]
    Weight {
        /// The source.
        file: String,
        /// The tensor, as messages show it.
        tensor: String,
        /// Which weight, from 0.
        index: u64,
        /// Its row.
        row: u64,
        /// Its column.
        column: u64,
        /// What is wrong with it: "is NaN".
        what: String,
        /// What to do.
        remedy: String,
    },
    /// A format that is not known, or cannot be written.
    #[error("{what}; {remedy}")]
    Format {
        /// What is wrong.
        what: String,
        /// What to do.
        remedy: String,
    },
    /// A rule of what to keep that cannot be used.
    #[error("--keep {rule}: {what}; {remedy}")]
    Keep {
        /// The rule, as it was given.
        rule: String,
        /// What is wrong.
        what: String,
        /// What to do.
        remedy: &'static str,
    },
    /// A recipe that cannot be used.
    #[error("{file}: {what}; {remedy}")]
    Recipe {
        /// The recipe's file.
        file: String,
        /// What is wrong.
        what: String,
        /// What to do.
        remedy: &'static str,
    },
    /// A file of importance that cannot be used.
    #[error("{file}: {what}; {remedy}")]
    Importance {
        /// The file.
        file: String,
        /// What is wrong.
        what: String,
        /// What to do.
        remedy: &'static str,
    },
}

impl Error {
    pub(crate) fn importance(file: &str, what: impl Into<String>, remedy: &'static str) -> Error {
        Error::Importance { file: file.to_owned(), what: what.into(), remedy }
    }

    pub(crate) fn recipe(file: &str, what: impl Into<String>, remedy: &'static str) -> Error {
        Error::Recipe { file: file.to_owned(), what: what.into(), remedy }
    }

    pub(crate) fn unwritable(format: &str) -> Error {
        let names: Vec<&str> = writable().collect();
        let what = format!("{} can be read but not written", quoted(format));
        Error::Format { what, remedy: format!("choose one of {}", names.join(", ")) }
    }

    pub(crate) fn over(path: &Path) -> Error {
        Error::OverSource { path: path.to_owned() }
    }
}

// In a box, because it is much larger than the others.
impl From<duan_model::Error> for Error {
    fn from(error: duan_model::Error) -> Error {
        Error::Model(Box::new(error))
    }
}

/// Names of the formats that have an encoder.
pub(crate) fn writable() -> impl Iterator<Item = &'static str> {
    duan_quant::FORMATS.iter().filter(|format| format.is_writable()).map(|format| format.name)
}
