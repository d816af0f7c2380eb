//! One model to fetch into duan's own cache, and what a source hands over when it is whole: the same for packages and for web
//! addresses.

use std::path::PathBuf;

use crate::catalogue::{CatalogueEntry, CatalogueOrigin};
use crate::client::Client;

/// What the catalogue promises about the whole model.
#[derive(Clone, Debug)]
pub(crate) struct Expected {
    pub(crate) file: String,
    pub(crate) bytes: u64,
    pub(crate) sha256: String,
}

impl Expected {
    /// Of a model in wheels; none for one whose server says what is to be expected.
    pub(crate) fn of(entry: &CatalogueEntry) -> Option<Expected> {
        match entry.origin {
            CatalogueOrigin::Wheels { file, sha256, .. } => {
                Some(Expected { file: file.to_string(), bytes: entry.file_bytes, sha256: sha256.to_string() })
            }
            CatalogueOrigin::Repository { .. } => None,
        }
    }
}

/// One model to fetch, and with what.
pub(crate) struct Job<'a> {
    pub(crate) client: &'a Client,
    pub(crate) index_url: &'a str,
    /// The name users gave.
    pub(crate) name: String,
    pub(crate) folder: PathBuf,
    pub(crate) note_path: PathBuf,
    pub(crate) expected: Option<Expected>,
}

/// A model that is whole and verified, but still under its partial name.
pub(crate) struct Fetched {
    pub(crate) part: PathBuf,
    pub(crate) file: String,
    pub(crate) bytes: u64,
    pub(crate) sha256: String,
    pub(crate) source: String,
    /// Whether there was a hash to compare it with.
    pub(crate) is_compared: bool,
}

/// The last part of a file's name at its source, kept clear of the names the cache uses itself.
pub(crate) fn final_name(name: &str) -> String {
    let base = name.rsplit('/').next().unwrap_or(name);
    if base.ends_with(".json") || base.ends_with(".part") { format!("model-{base}") } else { base.to_string() }
}
