//! Models out of repositories: what is there, which files are meant, and where they lie.
//!
//! Hugging Face and ModelScope differ in what they are asked and in how their own programs keep files; each is a [`Store`].
//! Files are kept where those programs keep them, so that a model is on the disk once, whoever fetched it; duan's own cache
//! holds only a [`Place`] that says where, and that it was verified.

mod choose;
mod hugging_face;
mod model_scope;
mod strays;

use std::collections::HashSet;
use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::cache::mtime_ns;
use crate::checksum::{Checksum, Hasher};
use crate::client::Client;
use crate::download::{LARGEST_FILE_BYTES, Partial, Remote, download};
use crate::error::{Error, ErrorKind, Result};
use crate::files::{check_room, create_folder, hash_start};
use crate::name::RepositoryName;
use crate::place::{Place, PlacedFile};
use crate::progress::Sink;

pub(crate) use choose::{Choice, choose};
pub(crate) use hugging_face::HuggingFace;
pub(crate) use model_scope::ModelScope;
pub(crate) use strays::refuse_strays;

/// An index of weights longer than this is none.
const INDEX_LIMIT_BYTES: u64 = 64 << 20;

/// What is particular to Hugging Face or ModelScope. What is `None` comes from the environment, by the variables that their
/// own programs read.
#[derive(Clone, Default)]
pub struct SiteOptions {
    /// The server, such as a mirror.
    pub endpoint: Option<String>,
    /// The folder of the cache that is shared with the site's own programs.
    pub cache_dir: Option<PathBuf>,
    /// Who asks. It is told to the server and to no other.
    pub token: Option<String>,
}

/// Without the token: options end up in messages.
impl std::fmt::Debug for SiteOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let token = self.token.as_ref().map(|_| "...");
        let (endpoint, cache_dir) = (&self.endpoint, &self.cache_dir);
        write!(f, "SiteOptions {{ endpoint: {endpoint:?}, cache_dir: {cache_dir:?}, token: {token:?} }}")
    }
}

/// A file of a repository, as its server lists it or as it lies in a cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RepositoryFile {
    /// Its path inside, checked to be a plain one.
    pub(crate) path: String,
    pub(crate) bytes: u64,
    pub(crate) checksum: Checksum,
}

/// The files of a repository at one revision.
#[derive(Clone, Debug)]
pub(crate) struct Listing {
    /// The commit, or for ModelScope the name of the revision.
    pub(crate) revision: String,
    /// The folder in the cache that the paths of the files count from.
    pub(crate) root: PathBuf,
    pub(crate) files: Vec<RepositoryFile>,
}

/// A site with repositories: its server and its cache.
pub(crate) trait Store {
    /// What the cache holds of a revision; none if it knows nothing of it.
    fn local(&self, name: &RepositoryName) -> Option<Listing>;

    /// What the server has.
    fn listing(&self, client: &Client, name: &RepositoryName, progress: Sink<'_>) -> Result<Listing>;

    /// Where the server has a file.
    fn remote(&self, name: &RepositoryName, listing: &Listing, file: &RepositoryFile) -> Remote;

    /// Where a file is kept until it is whole.
    fn partial(&self, name: &RepositoryName, listing: &Listing, file: &RepositoryFile) -> Partial;

    /// A file that is here already under another name, and what keeps others from fetching it meanwhile.
    fn begin(&self, name: &RepositoryName, file: &RepositoryFile, progress: Sink<'_>) -> Result<Begun>;

    /// Gives a file that is whole its name.
    fn install(
        &self,
        name: &RepositoryName,
        listing: &Listing,
        file: &RepositoryFile,
        whole: &Path,
        sha256: &str,
    ) -> Result<()>;

    /// Notes what a revision means, when all its files are there.
    fn finish(&self, name: &RepositoryName, listing: &Listing) -> Result<()>;
}

/// What [`Store::begin`] found.
#[derive(Default)]
pub(crate) struct Begun {
    /// The same contents under another name.
    pub(crate) same: Option<PathBuf>,
    /// Held until the file has its name.
    pub(crate) _lock: Option<fs::File>,
}

/// What lies in a site's own cache.
pub(crate) struct Found {
    pub(crate) place: Place,
    /// Whether asking the server could change nothing: no other file can be meant, and there were hashes to compare all with.
    pub(crate) is_final: bool,
}

/// Looks for the model in the site's own cache, and verifies it. Where some hash is not known, or where another file may be
/// meant, the server decides, unless nobody may ask it.
pub(crate) fn find(
    store: &dyn Store,
    name: &RepositoryName,
    is_offline: bool,
    progress: Sink<'_>,
) -> Result<Option<Found>> {
    let Some(listing) = store.local(name) else { return Ok(None) };
    let Ok(choice) = choose(name, &listing.files) else { return Ok(None) };
    let has_hashes = choice.files.iter().all(|file| file.checksum.is_known());
    if !(choice.is_certain && has_hashes || is_offline) || choice.is_folder && !has_all_weights(&listing) {
        return Ok(None);
    }
    let mut placed = Vec::new();
    for file in &choice.files {
        let path = listing.root.join(&file.path);
        match verified(&path, file, progress)? {
            Some(sha256) => placed.push(placed_file(&listing, file, sha256, false)?),
            // Another program left it so; fetching puts it right.
            None => return Ok(None),
        }
    }
    let is_final = choice.is_certain && has_hashes;
    Ok(Some(Found { place: place(name, &listing, &choice, placed), is_final }))
}

/// Fetches what is missing of a model and verifies all of it.
pub(crate) fn fetch(
    client: &Client,
    store: &dyn Store,
    name: &RepositoryName,
    begun: &mut dyn FnMut(&[Partial]) -> Result<()>,
    progress: Sink<'_>,
) -> Result<Place> {
    let listing = store.listing(client, name, progress)?;
    let choice = choose(name, &listing.files)?;
    total_bytes(name, &choice.files)?;
    if choice.is_folder && !name.site.keeps_revisions_apart() {
        refuse_strays(&name.to_string(), &listing.root, listing.files.iter().map(|file| file.path.as_str()))?;
    }
    create_folder(&listing.root)?;
    let mut missing = Vec::new();
    let mut placed = Vec::new();
    for file in &choice.files {
        match verified(&listing.root.join(&file.path), file, progress)? {
            Some(sha256) => placed.push(placed_file(&listing, file, sha256, false)?),
            None => missing.push(*file),
        }
    }
    let partials: Vec<Partial> = missing.iter().map(|file| store.partial(name, &listing, file)).collect();
    begun(&partials)?;
    let mut beside_bytes = total_bytes(name, &missing)?;
    for (file, partial) in missing.into_iter().zip(&partials) {
        beside_bytes -= file.bytes;
        let sha256 = fetch_file(client, store, name, (&listing, file), (partial, beside_bytes), progress)?;
        placed.push(placed_file(&listing, file, sha256, true)?);
    }
    store.finish(name, &listing)?;
    Ok(place(name, &listing, &choice, placed))
}

/// Bytes of all files together.
///
/// # Errors
/// Where it is more than any file can have: a server says so that does not speak of files.
fn total_bytes(name: &RepositoryName, files: &[&RepositoryFile]) -> Result<u64> {
    let total = files.iter().try_fold(0_u64, |total, file| total.checked_add(file.bytes));
    total.filter(|bytes| *bytes <= LARGEST_FILE_BYTES).ok_or_else(|| {
        let message = format!(
            "the server announces files of {} that are larger than files can be; try again later or name another server",
            name.id()
        );
        Error::new(ErrorKind::BadIndex, message)
    })
}

fn fetch_file(
    client: &Client,
    store: &dyn Store,
    name: &RepositoryName,
    (listing, file): (&Listing, &RepositoryFile),
    (partial, beside_bytes): (&Partial, u64),
    progress: Sink<'_>,
) -> Result<String> {
    if let Some(folder) = partial.file.parent() {
        create_folder(folder)?;
        check_room(folder, beside_bytes)?;
    }
    let begun = store.begin(name, file, progress)?;
    if let Some(same) = &begun.same
        && let Some(sha256) = verified(same, file, progress)?
    {
        store.install(name, listing, file, same, &sha256)?;
        return Ok(sha256);
    }
    let remote = store.remote(name, listing, file);
    let sha256 = download(client, &remote, partial, beside_bytes, &mut client.retry(), progress)?;
    store.install(name, listing, file, &partial.file, &sha256)?;
    partial.discard()?;
    Ok(sha256)
}

/// SHA-256 of a file that is what was announced; none if it is not there or is another one.
fn verified(path: &Path, expected: &RepositoryFile, progress: Sink<'_>) -> Result<Option<String>> {
    let Ok(mut file) = fs::File::open(path) else { return Ok(None) };
    if !file.metadata().is_ok_and(|metadata| metadata.is_file() && metadata.len() == expected.bytes) {
        return Ok(None);
    }
    let mut hasher = Hasher::new(&expected.checksum, Some(expected.bytes));
    hash_start(&mut file, path, expected.bytes, &mut hasher, progress)?;
    let hashes = hasher.finish();
    Ok(hashes.other_than(&expected.checksum).is_none().then_some(hashes.sha256))
}

/// Whether every file that the index of a folder's weights names is there. Other programs may have fetched only some.
fn has_all_weights(listing: &Listing) -> bool {
    #[derive(serde::Deserialize)]
    struct Index {
        weight_map: std::collections::BTreeMap<String, String>,
    }
    let path = listing.root.join("model.safetensors.index.json");
    let Ok(file) = fs::File::open(path) else { return true };
    let mut text = Vec::new();
    let read = file.take(INDEX_LIMIT_BYTES).read_to_end(&mut text);
    let Ok(index) = read.map_err(|_| ()).and_then(|_| serde_json::from_slice::<Index>(&text).map_err(|_| ())) else {
        return false;
    };
    let here: HashSet<&str> = listing.files.iter().map(|file| file.path.as_str()).collect();
    index.weight_map.values().all(|weights| here.contains(weights.as_str()))
}

fn placed_file(listing: &Listing, file: &RepositoryFile, sha256: String, is_fetched: bool) -> Result<PlacedFile> {
    let path = listing.root.join(&file.path);
    let metadata = fs::metadata(&path).map_err(|error| Error::io("read", &path, &error))?;
    Ok(PlacedFile {
        path: file.path.clone(),
        bytes: file.bytes,
        blob: if file.checksum.is_known() { file.checksum.text().to_string() } else { sha256.clone() },
        sha256,
        verified_mtime_ns: mtime_ns(&metadata),
        is_fetched,
        is_compared: file.checksum.is_known(),
    })
}

fn place(name: &RepositoryName, listing: &Listing, choice: &Choice<'_>, files: Vec<PlacedFile>) -> Place {
    Place {
        name: name.to_string(),
        source: format!("{}{}@{}", name.site.prefix(), name.id(), listing.revision),
        licence: None,
        fetched_unix_s: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()),
        root: listing.root.clone(),
        model: if choice.is_folder { String::new() } else { choice.files[0].path.clone() },
        files,
    }
}
