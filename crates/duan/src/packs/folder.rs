//! The folder of all packs: what is in it, what it may take, what goes.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use super::identity::{ModelFiles, Stamp, are_same, is_id};

/// How a pack's name ends.
const PACK: &str = "pack";
/// How the name of a pack ends while it is written.
const PART: &str = "part";
/// In so many places a model is remembered; the place seen first goes.
const MOST_PLACES: usize = 8;

/// Every pack of a cache.
#[derive(Debug, Clone)]
pub struct PackFolder {
    root: PathBuf,
}

/// What is kept of one model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Packed {
    /// SHA-256 of the model's file, or of the hashes of its files.
    pub id: String,
    /// Where its (first) file was seen, the last place first.
    pub paths: Vec<PathBuf>,
    /// Bytes of its packs on the disk.
    pub bytes: u64,
    /// How many packs: one for each device and each part of the model that one ran.
    pub packs: usize,
    /// When one was last used, in seconds since 1970, UTC.
    pub used_unix_s: u64,
}

/// What [`PackFolder::remove`] deleted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RemovedPacks {
    /// Models that had packs.
    pub models: usize,
    /// Bytes that became free.
    pub bytes: u64,
}

/// `model.json`. Unknown fields of later versions are ignored.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Note {
    /// Length of the model's files.
    pub(super) bytes: u64,
    /// The files that the model was seen in, of each place all.
    pub(super) places: Vec<Vec<Stamp>>,
}

/// A pack on the disk.
struct Pack {
    path: PathBuf,
    bytes: u64,
    used: SystemTime,
}

/// What people call a model by whose first file this is: a folder of Hugging Face is known by its configuration.
fn model_path(first: &Path) -> PathBuf {
    let is_config = first.file_name().is_some_and(|name| name == "config.json");
    let folder = first.parent().filter(|_| is_config);
    folder.unwrap_or(first).to_owned()
}

impl PackFolder {
    /// The packs in the cache at `cache_dir`. Nothing is read or made yet.
    pub fn new(cache_dir: &Path) -> Self {
        Self { root: cache_dir.join("packed") }
    }

    /// Where they lie.
    pub fn path(&self) -> &Path {
        &self.root
    }

    /// What is kept, by the place of the models. What cannot be read counts as not there.
    pub fn list(&self) -> Vec<Packed> {
        let of = |id: String| {
            let packs = self.packs_of(&id);
            let note = self.note(&id).unwrap_or_default();
            let seconds = |time: SystemTime| time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
            Packed {
                paths: note.places.iter().rev().filter_map(|place| Some(model_path(&place.first()?.path))).collect(),
                bytes: packs.iter().map(|pack| pack.bytes).sum(),
                packs: packs.len(),
                used_unix_s: packs.iter().map(|pack| seconds(pack.used)).max().unwrap_or(0),
                id,
            }
        };
        let mut found: Vec<Packed> = self.ids().into_iter().map(of).filter(|packed| packed.packs > 0).collect();
        found.sort_by(|a, b| (&a.paths, &a.id).cmp(&(&b.paths, &b.id)));
        found
    }

    /// Deletes the packs of the models that `is_meant` of. Processes that read one are not disturbed.
    ///
    /// # Errors
    /// Where a file cannot be deleted.
    pub fn remove(&self, is_meant: impl Fn(&Packed) -> bool) -> io::Result<RemovedPacks> {
        let mut removed = RemovedPacks::default();
        for packed in self.list().iter().filter(|packed| is_meant(packed)) {
            for pack in self.packs_of(&packed.id) {
                remove_file(&pack.path)?;
                removed.bytes += pack.bytes;
            }
            self.forget_if_empty(&packed.id);
            removed.models += 1;
        }
        self.remove_leftovers();
        // What nobody needs any more, unless somebody just needs it again.
        let _ = fs::remove_dir(&self.root);
        Ok(removed)
    }

    /// What all packs together may take where they are allowed `max_bytes`: half of what is free without them is a limit too.
    /// None where the disk does not say.
    pub(crate) fn room_bytes(&self, max_bytes: u64) -> Option<u64> {
        let total = self.list().iter().map(|packed| packed.bytes).fold(0, u64::saturating_add);
        let free = duan_files::free_bytes(&duan_files::nearest_folder(&self.root)?)?;
        Some((free.saturating_add(total) / 2).min(max_bytes))
    }

    pub(super) fn folder(&self, id: &str) -> PathBuf {
        self.root.join(id)
    }

    pub(super) fn pack(&self, id: &str, key: &str) -> PathBuf {
        self.folder(id).join(format!("{key}.{PACK}"))
    }

    fn note_path(&self, id: &str) -> PathBuf {
        self.folder(id).join("model.json")
    }

    fn note(&self, id: &str) -> Option<Note> {
        duan_files::read_json(&self.note_path(id))
    }

    fn ids(&self) -> Vec<String> {
        let names = fs::read_dir(&self.root).into_iter().flatten().flatten();
        names.filter_map(|entry| entry.file_name().into_string().ok()).filter(|name| is_id(name)).collect()
    }

    fn packs_of(&self, id: &str) -> Vec<Pack> {
        let entries = fs::read_dir(self.folder(id)).into_iter().flatten().flatten();
        let pack = |entry: fs::DirEntry| {
            let (path, metadata) = (entry.path(), entry.metadata().ok()?);
            let is_pack = metadata.is_file() && path.extension().is_some_and(|extension| extension == PACK);
            is_pack.then(|| Pack { path, bytes: metadata.len(), used: metadata.modified().unwrap_or(UNIX_EPOCH) })
        };
        entries.filter_map(pack).collect()
    }

    /// The packs of a model, open; what cannot be opened is left out.
    pub(super) fn open_packs(&self, id: &str) -> Vec<(PathBuf, File)> {
        let open = |pack: Pack| {
            let file = duan_files::open_plain(File::options().read(true), &pack.path).ok()?;
            Some((pack.path, file))
        };
        self.packs_of(id).into_iter().filter_map(open).collect()
    }

    /// The id of the model in these files, as far as it is known without reading them.
    pub(super) fn known_id(&self, stamps: &[Stamp]) -> Option<String> {
        self.ids().into_iter().find(|id| {
            let places = self.note(id).map(|note| note.places).unwrap_or_default();
            places.iter().any(|place| are_same(place, stamps))
        })
    }

    /// Whether there are packs of a model of so many bytes, which may be the same model in another place.
    pub(super) fn has_model_of(&self, bytes: u64) -> bool {
        self.ids().iter().any(|id| self.note(id).is_some_and(|note| note.bytes == bytes))
    }

    /// Notes that the model `id` is in these files. Two processes that do so at once may forget the place of one: its file is hashed
    /// once more then.
    pub(super) fn remember(&self, id: &str, files: &ModelFiles) -> io::Result<()> {
        let mut note = self.note(id).unwrap_or_default();
        if note.places.iter().any(|place| are_same(place, &files.stamps)) {
            return Ok(());
        }
        // A file of the same name that is another one now.
        note.places
            .retain(|place| place.first().map(|stamp| &stamp.path) != files.stamps.first().map(|stamp| &stamp.path));
        note.places.push(files.stamps.clone());
        let too_many = note.places.len().saturating_sub(MOST_PLACES);
        note.places.drain(..too_many);
        note.bytes = files.bytes();
        fs::create_dir_all(self.folder(id))?;
        duan_files::write_json(&self.note_path(id), &note)
    }

    /// Deletes the packs of models that are nowhere any more: where each was seen, there are other files now. `id` stays.
    pub(super) fn remove_replaced(&self, id: &str) {
        for other in self.ids().into_iter().filter(|other| other != id) {
            let places = self.note(&other).map(|note| note.places).unwrap_or_default();
            if !places.is_empty() && places.iter().all(|place| place.iter().any(Stamp::is_replaced)) {
                tracing::info!(id = other, "its file was replaced; its packs go");
                self.packs_of(&other).iter().for_each(|pack| drop(remove_file(&pack.path)));
                self.forget_if_empty(&other);
            }
        }
    }

    /// Removes what is known of a model without packs.
    pub(super) fn forget_if_empty(&self, id: &str) {
        if self.packs_of(id).is_empty() {
            // In this order a process that comes between finds an empty folder, or none.
            let _ = fs::remove_file(self.note_path(id));
            let _ = fs::remove_dir(self.folder(id));
        }
    }

    /// Makes room for a pack of `bytes` that will be called `replaced`: deletes those that were not used for longest until all together
    /// take `max_bytes` at most, and half of what is free without packs.
    ///
    /// # Errors
    /// In words, where there can be no room.
    pub(super) fn make_room(&self, bytes: u64, max_bytes: u64, replaced: Option<&Path>) -> Result<(), String> {
        let mut packs: Vec<(String, Pack)> = Vec::new();
        for id in self.ids() {
            packs.extend(self.packs_of(&id).into_iter().map(|pack| (id.clone(), pack)));
        }
        packs.retain(|(_, pack)| Some(&*pack.path) != replaced);
        let mut total: u64 = packs.iter().map(|(_, pack)| pack.bytes).sum();
        let half_free = duan_files::free_bytes(&self.root).map(|free| free.saturating_add(total) / 2);
        let limit = half_free.map_or(max_bytes, |half| half.min(max_bytes));
        if bytes > limit {
            let why = if limit == max_bytes { "may be taken" } else { "are half of what is free on this disk" };
            return Err(format!("{bytes} bytes are needed in {}, and {limit} {why}", self.root.display()));
        }
        packs.sort_by_key(|(_, pack)| pack.used);
        for (id, pack) in &packs {
            if total.saturating_add(bytes) <= limit {
                break;
            }
            // One that cannot be deleted is somebody else's, or in use on a system that minds; the next may do.
            if remove_file(&pack.path).is_ok() {
                tracing::info!(path = %pack.path.display(), bytes = pack.bytes, "a pack made room for another");
                total -= pack.bytes;
                self.forget_if_empty(id);
            }
        }
        if total.saturating_add(bytes) <= limit {
            return Ok(());
        }
        Err(format!("older packs in {} cannot be deleted", self.root.display()))
    }

    /// Where a pack is written before it has its name. One and the same model and key have the same place, so that only one process writes it.
    pub(super) fn part(&self, files: &ModelFiles, key: &str) -> io::Result<PathBuf> {
        use sha2::Digest as _;
        let hash = sha2::Sha256::digest(serde_json::to_vec(&files.stamps)?);
        let hash: String = hash[..8].iter().map(|byte| format!("{byte:02x}")).collect();
        Ok(self.root.join(format!("{key}-{hash}.{PART}")))
    }

    /// Deletes what processes left that ended while they wrote: nobody holds its lock any more.
    pub(super) fn remove_leftovers(&self) {
        for entry in fs::read_dir(&self.root).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.extension().is_none_or(|extension| extension != PART) {
                continue;
            }
            if let Ok(Some(_lock)) = lock(&path, false) {
                tracing::debug!(path = %path.display(), "an unfinished pack is deleted");
                let _ = fs::remove_file(&path);
            }
        }
    }
}

/// Opens the file at `path` and locks it for this process; none where another one has it. The system lets go of the lock when the process
/// ends, however it ends.
///
/// # Errors
/// Where it cannot be opened or locked.
pub(super) fn lock(path: &Path, create: bool) -> io::Result<Option<File>> {
    loop {
        let file = duan_files::open_plain(File::options().create(create).truncate(false).write(true), path)?;
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(error)) => return Err(error),
            // Who held the lock before may have renamed or deleted the file since it was opened.
            Ok(()) if duan_files::is_at(&file, path) => return Ok(Some(file)),
            Ok(()) => {}
        }
    }
}

/// Removes a file; that it is not there is fine.
fn remove_file(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
