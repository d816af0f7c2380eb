//! Laid-out weights that are kept on the disk, so that later starts only read them.
//!
//! ```text
//! CACHE/packed/ID/model.json     which files on the disk the model was seen in
//! CACHE/packed/ID/KEY.pack       what a device made of it, and the ID once more
//! CACHE/packed/*.part            being written, and locked by the process that does
//! ```
//!
//! ID is the SHA-256 of the model's file; a model of several files has that of their hashes in their order. It is computed once:
//! `model.json` remembers the files by device, inode, length and time of the last change.
//!
//! What holds, whatever other processes and the disk do: a pack appears under its name whole or not at all; what is in one
//! is verified by the device each time that it is read (so nothing is synced to the disk: what a loss of power damages is found, and
//! made anew); and nothing here ends a start. The folder can be deleted at any time.

mod folder;
mod identity;
mod store;

pub use duan_backend::PackReading;
pub use folder::{PackFolder, Packed, RemovedPacks};

pub(crate) use store::{ModelPacks, Notice};

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use duan_model::checkpoint::Checkpoint;

use self::identity::ModelFiles;

/// What packs may take on the disk in all, where nobody says otherwise; never more than half of what would be free without
/// them.
pub const DEFAULT_MAX_BYTES: u64 = 20_000_000_000;

/// What is done about weights that the device would rather have in another order than the file's.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Packing {
    /// They stay in the mapped file and are rearranged while they are used: no memory beyond the file's pages, nothing on the disk, slower.
    AsInFile,
    /// They are laid out in memory at each load; nothing is written to the disk.
    #[default]
    InMemory,
    /// They are laid out at the first load and kept on the disk for the next ones.
    Kept(PackOptions),
}

/// How packs are kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PackOptions {
    /// The folder of the cache ([`duan_hub::Hub::cache_dir`]); packs lie in `packed` below it.
    pub cache_dir: PathBuf,
    /// Bytes that all packs together may take; those not used for longest go first. Half of what is free without them is a limit too.
    pub max_bytes: u64,
    /// How a pack comes into memory.
    pub reading: PackReading,
}

impl PackOptions {
    /// Packs in the cache at `cache_dir`, with everything else as it is by default.
    pub fn new(cache_dir: impl Into<PathBuf>) -> Self {
        Self { cache_dir: cache_dir.into(), max_bytes: DEFAULT_MAX_BYTES, reading: PackReading::Copy }
    }
}

/// The ID of a model: as it is remembered in the cache at `cache_dir`, else by reading its files. None where it lies in memory.
///
/// # Errors
/// Where the files cannot be read.
pub(crate) fn model_id(file: &Checkpoint, cache_dir: Option<&Path>) -> io::Result<Option<String>> {
    let Some(files) = ModelFiles::of(file)? else { return Ok(None) };
    match cache_dir.and_then(|cache| PackFolder::new(cache).known_id(&files.stamps)) {
        Some(id) => Ok(Some(id)),
        None => files.hash().map(Some),
    }
}

/// The packs that are kept of a model, open; none where it has none, or lies in memory.
pub(crate) fn files_of(file: &Checkpoint, options: &PackOptions) -> Vec<(PathBuf, File)> {
    let files = ModelFiles::of(file).ok().flatten();
    let folder = PackFolder::new(&options.cache_dir);
    let id = files.and_then(|files| folder.known_id(&files.stamps));
    id.map_or_else(Vec::new, |id| folder.open_packs(&id))
}
