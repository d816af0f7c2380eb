//! Where a model lies that is kept in the cache of its site's own programs: a small file in duan's cache says so.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::cache::{CacheState, CachedModel, mtime_ns};
use crate::error::{Error, Result};
use crate::files::remove_file;
use crate::name::is_plain_relative_path;

/// What is known about a model that lies elsewhere. Unknown fields of later versions are ignored.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq, Eq)]
pub(crate) struct Place {
    /// The name it is asked for by.
    pub(crate) name: String,
    /// Where it came from, in words.
    pub(crate) source: String,
    pub(crate) licence: Option<String>,
    /// Seconds since 1970, UTC.
    pub(crate) fetched_unix_s: u64,
    /// The folder that the files count from.
    pub(crate) root: PathBuf,
    /// The file that is the model, by its path; empty where the folder is.
    pub(crate) model: String,
    pub(crate) files: Vec<PlacedFile>,
}

/// A file of a model, as it was verified.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq, Eq)]
pub(crate) struct PlacedFile {
    pub(crate) path: String,
    pub(crate) bytes: u64,
    pub(crate) sha256: String,
    /// As in [`crate::cache::Manifest`].
    pub(crate) verified_mtime_ns: u64,
    /// Whether duan brought it, and may delete it.
    pub(crate) is_fetched: bool,
    /// What its contents are called where a link leads to them; empty in older notes.
    #[serde(default)]
    pub(crate) blob: String,
    /// Whether there was a hash to compare it with.
    #[serde(default = "yes")]
    pub(crate) is_compared: bool,
}

/// What older notes mean that do not say it.
pub(crate) fn yes() -> bool {
    true
}

impl Place {
    /// Reads the file at `path`, if it can be trusted to name files below its folder.
    pub(crate) fn read(path: &Path) -> Option<Place> {
        let place: Place = duan_files::read_json(path)?;
        let are_plain = place.files.iter().all(|file| is_plain_relative_path(&file.path));
        let has_model = place.model.is_empty() || place.files.iter().any(|file| file.path == place.model);
        (are_plain && has_model && !place.files.is_empty() && place.root.is_absolute()).then_some(place)
    }

    /// The model: a file or a folder.
    pub(crate) fn path(&self) -> PathBuf {
        if self.model.is_empty() { self.root.clone() } else { self.root.join(&self.model) }
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.files.iter().fold(0, |total, file| total.saturating_add(file.bytes))
    }

    /// Whether all files were compared with hashes that their source gave.
    pub(crate) fn is_compared(&self) -> bool {
        self.files.iter().all(|file| file.is_compared)
    }

    /// SHA-256 of the model where it is one file.
    pub(crate) fn sha256(&self) -> Option<&str> {
        match &self.files[..] {
            [file] if file.path == self.model => Some(&file.sha256),
            _ => None,
        }
    }

    /// Whether all files are there, and which of them changed since they were verified.
    pub(crate) fn changed(&self) -> Option<Vec<usize>> {
        let mut changed = Vec::new();
        for (index, file) in self.files.iter().enumerate() {
            let metadata = fs::metadata(self.root.join(&file.path)).ok()?;
            let is_same =
                metadata.is_file() && metadata.len() == file.bytes && mtime_ns(&metadata) == file.verified_mtime_ns;
            if !is_same {
                changed.push(index);
            }
        }
        Some(changed)
    }

    /// How `duan list` shows it; none if not all of it is there.
    pub(crate) fn describe(self) -> Option<CachedModel> {
        let state = match self.changed()?.is_empty() {
            false => CacheState::Changed,
            true if self.is_compared() => CacheState::Verified,
            true => CacheState::NotCompared,
        };
        Some(CachedModel {
            path: self.path(),
            bytes: self.bytes(),
            state,
            sha256: self.sha256().map(str::to_string),
            name: self.name,
            source: Some(self.source),
            licence: self.licence,
            fetched_unix_s: Some(self.fetched_unix_s),
        })
    }

    /// Deletes the files that duan brought, and the folders that become empty. What does not lie where duan puts files stays:
    /// `caches` are the folders of the sites, and a link in one that others may write to can lead anywhere.
    pub(crate) fn remove_files(&self, caches: &[PathBuf]) -> Result<Deleted> {
        let mut deleted = Deleted::default();
        let fetched = || self.files.iter().filter(|file| file.is_fetched);
        let root = self.root.canonicalize().ok().filter(|root| is_below(root, caches));
        let Some(root) = root else {
            let paths = fetched().map(|file| self.root.join(&file.path));
            deleted.left.extend(paths.filter(|path| fs::symlink_metadata(path).is_ok()));
            return Ok(deleted);
        };
        for file in fetched() {
            let path = root.join(&file.path);
            let Ok(metadata) = fs::symlink_metadata(&path) else { continue };
            if !path.parent().and_then(|folder| folder.canonicalize().ok()).is_some_and(|to| to.starts_with(&root)) {
                deleted.left.push(path);
                continue;
            }
            let target = if metadata.is_symlink() { path.canonicalize().ok() } else { None };
            remove_file(&path)?;
            match target {
                // What another snapshot shows too stays.
                Some(target) if is_linked_elsewhere(&root, &target) => {}
                Some(target) if is_blob_of(&root, &target, file) => {
                    let bytes = fs::metadata(&target).map_or(0, |metadata| metadata.len());
                    remove_file(&target)?;
                    deleted.bytes += bytes;
                }
                Some(target) => deleted.left.push(target),
                None if metadata.is_file() => deleted.bytes += metadata.len(),
                None => {}
            }
            remove_empty_folders(&path, &root);
        }
        Ok(deleted)
    }
}

/// What [`Place::remove_files`] did.
#[derive(Debug, Default)]
pub(crate) struct Deleted {
    /// Bytes that became free.
    pub(crate) bytes: u64,
    /// Files that stay, because they do not lie where duan puts files.
    pub(crate) left: Vec<PathBuf>,
}

/// Whether a folder or a file, in its canonical form, lies in one of the caches.
pub(crate) fn is_below(path: &Path, caches: &[PathBuf]) -> bool {
    let mut caches = caches.iter().filter_map(|cache| cache.canonicalize().ok());
    caches.any(|cache| path.starts_with(&cache) && path != cache)
}

/// Whether a link of a snapshot led to the contents that were fetched for it: those of that name among the repository's own.
fn is_blob_of(root: &Path, target: &Path, file: &PlacedFile) -> bool {
    let Some(blobs) = root.parent().and_then(Path::parent).map(|repository| repository.join("blobs")) else {
        return false;
    };
    let name = target.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    // Notes of before say nothing of the name; for large files it is the SHA-256.
    let is_its_name = if file.blob.is_empty() { name == file.sha256 } else { name == file.blob };
    target.parent() == Some(&blobs) && is_its_name
}

/// Whether a link of any snapshot beside that in `root` leads to the same contents.
fn is_linked_elsewhere(root: &Path, target: &Path) -> bool {
    let Some(snapshots) = root.parent() else { return false };
    let mut folders = vec![snapshots.to_path_buf()];
    let mut seen = BTreeSet::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let Ok(kind) = entry.file_type() else { continue };
            if kind.is_dir() && seen.insert(entry.path()) {
                folders.push(entry.path());
            } else if kind.is_symlink() && entry.path().canonicalize().is_ok_and(|path| path == target) {
                return true;
            }
        }
    }
    false
}

/// Removes the folders of `path` that are empty, up to and with `root`.
fn remove_empty_folders(path: &Path, root: &Path) {
    let mut folder = path.parent();
    while let Some(current) = folder.filter(|current| current.starts_with(root)) {
        // It fails where something is left, and that is the end.
        if fs::remove_dir(current).is_err() {
            return;
        }
        folder = current.parent();
    }
}

/// Bytes that a file takes on the disk: one with gaps takes less than its length.
pub(crate) fn allocated_bytes(metadata: &fs::Metadata) -> u64 {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt as _;
        metadata.len().min(metadata.blocks().saturating_mul(512))
    }
    #[cfg(not(unix))]
    metadata.len()
}

/// The error for a file of a place that is no longer what was verified.
pub(crate) fn damaged(place: &Place, file: &PlacedFile, found: &str) -> Error {
    Error::damaged(&place.name, &place.root.join(&file.path), &file.sha256, found)
}
