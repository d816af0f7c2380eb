//! The cache on the disk: a folder per model, with the model, its manifest, and what is only partly here.
//!
//! ```text
//! CACHE/models/NAME/manifest.json    what the file is, and that it was verified
//! CACHE/models/NAME/FILE.gguf        the model
//! CACHE/models/NAME/place.json       instead of both: where it lies in the cache of its site, and that it was verified
//! CACHE/models/NAME/fetch.json       only while it is fetched: what is done
//! CACHE/models/NAME/*.part[.json]    only while it is fetched
//! CACHE/locks/NAME.lock              held by the process that works on NAME
//! ```

use std::fs::{self, File, Metadata, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use duan_files::{is_at, open_plain, read_json};
use serde::{Deserialize, Serialize};

use crate::catalogue::catalogue_entry;
use crate::error::{Error, ErrorKind, Result};
use crate::files::{create_folder, remove_file};
use crate::name::is_plain_relative_path;
use crate::place::{Place, allocated_bytes, yes};

const MANIFEST: &str = "manifest.json";

/// What is known about a model in the cache. Unknown fields of later versions are ignored.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq, Eq)]
pub(crate) struct Manifest {
    /// The name it is asked for by.
    pub(crate) name: String,
    /// Where it came from, in words.
    pub(crate) source: String,
    pub(crate) file: String,
    pub(crate) bytes: u64,
    pub(crate) sha256: String,
    pub(crate) licence: Option<String>,
    /// Seconds since 1970, UTC.
    pub(crate) fetched_unix_s: u64,
    /// When the file was last changed at the time it was verified, in nanoseconds since 1970. While length and this
    /// time stay, the file counts as verified.
    pub(crate) verified_mtime_ns: u64,
    /// Whether there was a hash to compare it with.
    #[serde(default = "yes")]
    pub(crate) is_compared: bool,
}

impl Manifest {
    pub(crate) fn is_unchanged(&self, metadata: &Metadata) -> bool {
        metadata.is_file() && metadata.len() == self.bytes && mtime_ns(metadata) == self.verified_mtime_ns
    }
}

/// The time of the last change in nanoseconds since 1970; 0 where the file system keeps none.
pub(crate) fn mtime_ns(metadata: &Metadata) -> u64 {
    let since = metadata.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    since.and_then(|since| u64::try_from(since.as_nanos()).ok()).unwrap_or(0)
}

/// What a folder holds while its model is fetched: enough to show it and to go on.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct FetchNote {
    pub(crate) name: String,
    /// SHA-256 of the files whose contents are already in the assembled one.
    pub(crate) pieces: Vec<String>,
    /// Length of the assembled file after these pieces.
    pub(crate) bytes: u64,
    /// The name the model will have.
    pub(crate) file: Option<String>,
    /// Where the pieces came from, in words.
    pub(crate) origins: Vec<String>,
    /// Files that are not whole and lie in another program's cache.
    #[serde(default)]
    pub(crate) parts: Vec<PathBuf>,
}

/// The state of a model in the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CacheState {
    /// Whole, verified, and not changed since.
    Verified,
    /// Whole, and not changed since it was fetched; its source gave no hash that it could be compared with.
    NotCompared,
    /// Changed since it was verified; it is hashed again when it is next used.
    Changed,
    /// Only a part of it is here.
    Partial,
}

/// A model in the cache, as [`crate::Hub::list`] shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CachedModel {
    /// The name it is asked for by.
    pub name: String,
    /// Where its file is, or the folder of what is partly here.
    pub path: PathBuf,
    /// Bytes of it on the disk.
    pub bytes: u64,
    /// Whether it is whole and verified.
    pub state: CacheState,
    /// Where it came from, in words; none while it is fetched.
    pub source: Option<String>,
    /// SHA-256 in lower-case hexadecimal; none while it is fetched.
    pub sha256: Option<String>,
    /// Its licence, where known.
    pub licence: Option<String>,
    /// When it was fetched, in seconds since 1970, UTC; none while it is fetched.
    pub fetched_unix_s: Option<u64>,
}

/// The folders of the cache.
#[derive(Clone, Debug)]
pub(crate) struct Cache {
    root: PathBuf,
}

/// Held while a process works on a model; the system lets go of it when the process ends, however it ends.
#[derive(Debug)]
pub(crate) struct Lock {
    file: Option<File>,
    path: PathBuf,
}

impl Lock {
    /// Lets go of the lock and removes its file, where nothing is left that it could guard.
    ///
    /// Another process may wait for the lock of the removed file while a third makes a new one. So whoever gets a lock looks
    /// whether its file is still the one of that name, and else tries again. Where files cannot be told apart, they stay.
    pub(crate) fn remove(self) {
        if cfg!(unix)
            && self.file.is_some()
            && let Err(error) = fs::remove_file(&self.path)
        {
            tracing::debug!(%error, path = %self.path.display(), "a lock file stays");
        }
    }
}

impl Cache {
    pub(crate) fn new(root: PathBuf) -> Cache {
        Cache { root }
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    pub(crate) fn models(&self) -> PathBuf {
        self.root.join("models")
    }

    pub(crate) fn folder(&self, folder: &str) -> PathBuf {
        self.models().join(folder)
    }

    /// Waits for the lock of a model; `on_wait` is called once if another process holds it.
    pub(crate) fn lock(&self, folder: &str, on_wait: impl FnOnce()) -> Result<Lock> {
        let mut on_wait = Some(on_wait);
        loop {
            let (file, path) = self.open_lock(folder)?;
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => {
                    if let Some(on_wait) = on_wait.take() {
                        on_wait();
                    }
                    file.lock().map_err(|error| Error::io("lock", &path, &error))?;
                }
                Err(TryLockError::Error(error)) => return without_lock(path, &error),
            }
            if is_at(&file, &path) {
                return Ok(Lock { file: Some(file), path });
            }
        }
    }

    /// Takes the lock of a model, or says that it is in use.
    pub(crate) fn try_lock(&self, folder: &str, name: &str) -> Result<Lock> {
        loop {
            let (file, path) = self.open_lock(folder)?;
            match file.try_lock() {
                Ok(()) if is_at(&file, &path) => return Ok(Lock { file: Some(file), path }),
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => {
                    let message = format!("another process is fetching {name}; wait until it is done, or end it");
                    return Err(Error::new(ErrorKind::InUse, message));
                }
                Err(TryLockError::Error(error)) => return without_lock(path, &error),
            }
        }
    }

    fn open_lock(&self, folder: &str) -> Result<(File, PathBuf)> {
        let locks = self.root.join("locks");
        create_folder(&locks)?;
        let path = locks.join(format!("{folder}.lock"));
        let file = open_plain(File::options().create(true).truncate(false).write(true), &path);
        Ok((file.map_err(|error| Error::io("open", &path, &error))?, path))
    }

    pub(crate) fn manifest_path(&self, folder: &str) -> PathBuf {
        self.folder(folder).join(MANIFEST)
    }

    /// The manifest of a folder, if it can be trusted to name a file inside it.
    pub(crate) fn manifest(&self, folder: &str) -> Option<Manifest> {
        let manifest: Manifest = read_json(&self.manifest_path(folder))?;
        let is_one_name = is_plain_relative_path(&manifest.file) && !manifest.file.contains('/');
        is_one_name.then_some(manifest)
    }

    pub(crate) fn fetch_note_path(&self, folder: &str) -> PathBuf {
        self.folder(folder).join("fetch.json")
    }

    pub(crate) fn place_path(&self, folder: &str) -> PathBuf {
        self.folder(folder).join("place.json")
    }

    /// All models of the cache, by name.
    pub(crate) fn list(&self) -> Result<Vec<(String, CachedModel)>> {
        let models = self.models();
        let failed = |error: &io::Error| Error::io("read the folder", &models, error);
        let entries = match fs::read_dir(&models) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(failed(&error)),
        };
        let mut found = Vec::new();
        for entry in entries {
            let entry = entry.map_err(|error| failed(&error))?;
            let Ok(folder) = entry.file_name().into_string() else { continue };
            if entry.file_type().is_ok_and(|kind| kind.is_dir())
                && let Some(model) = self.describe(&folder)
            {
                found.push((folder, model));
            }
        }
        found.sort_by(|a, b| a.1.name.cmp(&b.1.name));
        Ok(found)
    }

    /// What the folder holds; none if it holds nothing of ours.
    fn describe(&self, folder: &str) -> Option<CachedModel> {
        if let Some(manifest) = self.manifest(folder) {
            let path = self.folder(folder).join(&manifest.file);
            if let Ok(metadata) = fs::metadata(&path) {
                let state = match manifest.is_unchanged(&metadata) {
                    false => CacheState::Changed,
                    true if manifest.is_compared => CacheState::Verified,
                    true => CacheState::NotCompared,
                };
                return Some(CachedModel {
                    name: manifest.name,
                    path,
                    bytes: metadata.len(),
                    state,
                    source: Some(manifest.source),
                    sha256: Some(manifest.sha256),
                    licence: manifest.licence,
                    fetched_unix_s: Some(manifest.fetched_unix_s),
                });
            }
        }
        if let Some(model) = Place::read(&self.place_path(folder)).and_then(Place::describe) {
            return Some(model);
        }
        let note: FetchNote = read_json(&self.fetch_note_path(folder))?;
        let path = self.folder(folder);
        let parts = note.parts.iter().filter_map(|part| fs::metadata(part).ok());
        let elsewhere_bytes: u64 = parts.map(|part| allocated_bytes(&part)).sum();
        let entry = catalogue_entry(&note.name);
        Some(CachedModel {
            name: note.name,
            bytes: bytes_in(&path).saturating_add(elsewhere_bytes),
            path,
            state: CacheState::Partial,
            source: None,
            sha256: None,
            licence: entry.map(|entry| entry.licence.to_string()),
            fetched_unix_s: None,
        })
    }

    /// Deletes a model's folder and returns the bytes that became free; none if there was no folder.
    pub(crate) fn remove(&self, folder: &str) -> Result<Option<u64>> {
        let path = self.folder(folder);
        if !fs::symlink_metadata(&path).is_ok_and(|metadata| metadata.is_dir()) {
            return Ok(None);
        }
        let freed = bytes_in(&path);
        // First what makes it a model, so that a removal that is cut off leaves nothing that looks whole.
        remove_file(&self.manifest_path(folder))?;
        remove_file(&self.place_path(folder))?;
        fs::remove_dir_all(&path).map_err(|error| Error::io("remove", &path, &error))?;
        Ok(Some(freed))
    }
}

/// SHA-256 of the file at `path`, in lower-case hexadecimal, where it is a model that was fetched into the cache at `cache_dir` and has
/// not changed since it was verified. Nothing but the manifest is read.
pub fn verified_sha256(cache_dir: &Path, path: &Path) -> Option<String> {
    let (folder, file) = (path.parent()?, path.file_name()?.to_str()?);
    let cache = Cache::new(fs::canonicalize(cache_dir).ok()?);
    if folder.parent()? != cache.models() {
        return placed_sha256(&cache, path);
    }
    let manifest = cache.manifest(folder.file_name()?.to_str()?)?;
    let is_hash =
        manifest.sha256.len() == 64 && manifest.sha256.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    (is_hash && manifest.file == file && manifest.is_unchanged(&fs::metadata(path).ok()?)).then_some(manifest.sha256)
}

/// The same of a model that lies in the cache of its site.
fn placed_sha256(cache: &Cache, path: &Path) -> Option<String> {
    let path = fs::canonicalize(path).ok()?;
    let folders = fs::read_dir(cache.models()).ok()?.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    let mut places = folders.filter_map(|folder| Place::read(&cache.place_path(&folder)));
    let place = places.find(|place| fs::canonicalize(place.path()).is_ok_and(|model| model == path))?;
    let is_unchanged = place.changed().is_some_and(|changed| changed.is_empty());
    place.sha256().filter(|_| is_unchanged).map(str::to_string)
}

/// Some network file systems know no locks. There two processes at once may fetch twice; each still verifies what it
/// ends with.
fn without_lock(path: PathBuf, error: &io::Error) -> Result<Lock> {
    if error.kind() == io::ErrorKind::Unsupported {
        tracing::warn!(path = %path.display(), "this file system knows no locks");
        return Ok(Lock { file: None, path });
    }
    Err(Error::io("lock", &path, error))
}

/// Bytes of the files directly in a folder.
fn bytes_in(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.metadata().ok()).filter(Metadata::is_file).map(|file| allocated_bytes(&file)).sum()
}

/// The cache that the environment asks for: `DUAN_CACHE`, else `duan` in the system's folder for caches.
pub(crate) fn default_root(variable: impl Fn(&str) -> Option<String>) -> Result<PathBuf> {
    let set = |name: &str| variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    // The XDG rules say that a path that is not absolute counts as not set.
    let xdg = || set("XDG_CACHE_HOME").filter(|path| path.is_absolute()).map(|path| path.join("duan"));
    let home = || {
        if cfg!(windows) {
            set("LOCALAPPDATA").map(|path| path.join("duan").join("cache"))
        } else if cfg!(target_os = "macos") {
            set("HOME").map(|path| path.join("Library").join("Caches").join("duan"))
        } else {
            set("HOME").map(|path| path.join(".cache").join("duan"))
        }
    };
    set("DUAN_CACHE").or_else(xdg).or_else(home).ok_or_else(|| {
        Error::new(ErrorKind::NoSuchFile, "there is no home folder to keep models in; name a folder with DUAN_CACHE")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(all(unix, not(target_os = "macos")))]
    #[test]
    fn the_environment_places_the_cache() {
        let root = |variables: &[(&str, &str)]| {
            default_root(|name| variables.iter().find(|(key, _)| *key == name).map(|(_, value)| value.to_string()))
        };
        let home = ("HOME", "/home/a");
        assert_eq!(root(&[home]).unwrap(), Path::new("/home/a/.cache/duan"));
        assert_eq!(root(&[home, ("XDG_CACHE_HOME", "/c")]).unwrap(), Path::new("/c/duan"));
        assert_eq!(root(&[home, ("XDG_CACHE_HOME", "c")]).unwrap(), Path::new("/home/a/.cache/duan"));
        assert_eq!(root(&[home, ("DUAN_CACHE", "here"), ("XDG_CACHE_HOME", "/c")]).unwrap(), Path::new("here"));
        assert!(root(&[("HOME", "")]).unwrap_err().to_string().contains("DUAN_CACHE"));
    }

    #[test]
    fn a_manifest_that_points_elsewhere_is_not_believed() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::new(folder.path().to_path_buf());
        fs::create_dir_all(cache.folder("m")).unwrap();
        let mut manifest = Manifest {
            name: "m".into(),
            source: "s".into(),
            file: "m.gguf".into(),
            bytes: 1,
            sha256: "0".repeat(64),
            licence: None,
            fetched_unix_s: 1,
            verified_mtime_ns: 2,
            is_compared: true,
        };
        crate::files::write_json(&cache.manifest_path("m"), &manifest).unwrap();
        assert_eq!(cache.manifest("m"), Some(manifest.clone()));
        for file in ["../m.gguf", "/m.gguf", "a/m.gguf", ""] {
            manifest.file = file.into();
            crate::files::write_json(&cache.manifest_path("m"), &manifest).unwrap();
            assert_eq!(cache.manifest("m"), None, "{file}");
        }
    }

    #[test]
    fn the_hash_of_a_fetched_file_is_known_while_it_stays() {
        let root = tempfile::tempdir().unwrap();
        let cache = Cache::new(root.path().canonicalize().unwrap());
        fs::create_dir_all(cache.folder("m")).unwrap();
        let path = cache.folder("m").join("m.gguf");
        fs::write(&path, "12345").unwrap();
        let mut manifest = Manifest {
            name: "m".into(),
            source: "s".into(),
            file: "m.gguf".into(),
            bytes: 5,
            sha256: "a".repeat(64),
            licence: None,
            fetched_unix_s: 1,
            verified_mtime_ns: mtime_ns(&fs::metadata(&path).unwrap()),
            is_compared: true,
        };
        let known = || verified_sha256(root.path(), &path);
        assert_eq!(known(), None);
        crate::files::write_json(&cache.manifest_path("m"), &manifest).unwrap();
        assert_eq!(known(), Some("a".repeat(64)));
        assert_eq!(verified_sha256(&root.path().join("models"), &path), None, "in another cache");
        for sha256 in ["", "../../x", &"A".repeat(64)] {
            manifest.sha256 = sha256.into();
            crate::files::write_json(&cache.manifest_path("m"), &manifest).unwrap();
            assert_eq!(known(), None, "{sha256}");
        }
        manifest.sha256 = "a".repeat(64);
        crate::files::write_json(&cache.manifest_path("m"), &manifest).unwrap();
        fs::write(&path, "123456").unwrap();
        assert_eq!(known(), None, "it has changed");
    }

    #[test]
    fn a_lock_keeps_others_out_until_it_is_dropped() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::new(folder.path().to_path_buf());
        let mut waited = false;
        let lock = cache.lock("m", || waited = true).unwrap();
        assert_eq!(cache.try_lock("m", "m").unwrap_err().kind(), ErrorKind::InUse);
        drop(cache.try_lock("other", "other").unwrap());
        drop(lock);
        drop(cache.try_lock("m", "m").unwrap());
        assert!(!waited);
    }

    /// One waits for a lock whose file is removed; it must not hold a lock that nobody else can see.
    #[cfg(unix)]
    #[test]
    fn a_removed_lock_lets_in_one_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::new(folder.path().to_path_buf());
        let file = folder.path().join("locks/m.lock");
        let first = cache.lock("m", || ()).unwrap();
        let (is_waiting, waits) = std::sync::mpsc::channel();
        let waiting = std::thread::spawn({
            let cache = cache.clone();
            move || cache.lock("m", || is_waiting.send(()).unwrap()).unwrap()
        });
        waits.recv().unwrap();
        first.remove();
        let second = waiting.join().unwrap();
        assert!(file.exists(), "the second made its own");
        assert_eq!(cache.try_lock("m", "m").unwrap_err().kind(), ErrorKind::InUse);
        second.remove();
        assert!(!file.exists());
        drop(cache.try_lock("m", "m").unwrap());
    }

    #[test]
    fn what_is_partly_here_of_the_catalogue_has_its_licence() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::new(folder.path().to_path_buf());
        let entry = &crate::catalogue::catalogue()[0];
        for name in [entry.name, "pypi:other"] {
            let place = name.replace(':', "-");
            fs::create_dir_all(cache.folder(&place)).unwrap();
            let note = FetchNote { name: name.to_string(), ..FetchNote::default() };
            crate::files::write_json(&cache.fetch_note_path(&place), &note).unwrap();
        }
        let licence = |name: &str| {
            let (_, model) = cache.list().unwrap().into_iter().find(|(_, model)| model.name == name).unwrap();
            assert_eq!(model.state, CacheState::Partial);
            model.licence
        };
        assert_eq!(licence(entry.name).as_deref(), Some(entry.licence));
        assert_eq!(licence("pypi:other"), None);
    }
}
