//! The packs of the model that is being loaded, as its devices see them.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use duan_backend::{PackReader, PackStore, PackWriter};
use duan_model::bytes::SharedBytes;
use duan_model::checkpoint::Checkpoint;

use super::PackOptions;
use super::folder::{PackFolder, lock};
use super::identity::ModelFiles;

/// What stands at the end of each pack, before the model's id: a pack that was moved by hand is not believed.
const SEAL: &[u8; 8] = b"duan-id:";
const SEAL_BYTES: usize = SEAL.len() + 64;

/// What the user is to be told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Notice {
    /// A pack of so many bytes is being written.
    Kept(u64),
    /// None is, for a reason.
    NotKept(String),
    /// One was of no use, for a reason.
    Discarded(String),
}

/// The packs of one model.
#[derive(Debug)]
pub(crate) struct ModelPacks {
    folder: PackFolder,
    max_bytes: u64,
    model: Arc<ModelFiles>,
    /// Known at once for a file that was seen before; otherwise computed while a pack is written.
    id: Option<String>,
    /// The packs that were opened, by their keys: what is found wrong is found in these.
    opened: Mutex<HashMap<String, File>>,
    notices: Mutex<Vec<Notice>>,
}

/// Why there is no place for a new pack.
enum Refusal {
    /// Another process writes the same pack.
    Busy,
    /// Nothing can be written here, or nothing is to be: as somebody arranged it, who is not told so at each start.
    Arranged(String),
    /// There is no room, which somebody can do something about.
    NoRoom(String),
}

impl ModelPacks {
    /// The packs of the model in `file`; none where it is not on the disk. The file is read from end to end only where that may save a
    /// pack: it was not seen before, and there is one of a model of this length.
    pub(crate) fn of(file: &Checkpoint, options: &PackOptions) -> Option<Self> {
        let model = match ModelFiles::of(file) {
            Ok(model) => model?,
            Err(error) => {
                tracing::info!(%error, "no packs: the model's file cannot be asked for what it is");
                return None;
            }
        };
        let folder = PackFolder::new(&options.cache_dir);
        folder.remove_leftovers();
        let mut id = folder.known_id(&model.stamps);
        if id.is_none()
            && let [stamp] = &model.stamps[..]
        {
            // The hub knows the file by its name, which may have become another file's since this one was opened.
            id = duan_hub::verified_sha256(&options.cache_dir, &stamp.path).filter(|_| model.are_in_place());
        }
        if id.is_none() && folder.has_model_of(model.bytes()) {
            id = model.hash().inspect_err(|error| tracing::info!(%error, "a model could not be hashed")).ok();
        }
        let (opened, notices) = (Mutex::default(), Mutex::default());
        Some(Self { folder, max_bytes: options.max_bytes, model: Arc::new(model), id, opened, notices })
    }

    /// Where all packs lie.
    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// What happened since this was last asked.
    pub(crate) fn take_notices(&self) -> Vec<Notice> {
        std::mem::take(&mut *self.notices.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn notice(&self, notice: Notice) {
        match &notice {
            Notice::Kept(bytes) => tracing::info!(bytes, folder = %self.path().display(), "keeping laid-out weights"),
            Notice::NotKept(reason) => tracing::info!(reason, "laid-out weights are not kept"),
            Notice::Discarded(reason) => tracing::warn!(reason, "laid-out weights were thrown away"),
        }
        self.notices.lock().unwrap_or_else(PoisonError::into_inner).push(notice);
    }

    /// A locked file for a new pack, where there may be one.
    fn begin(&self, key: &str, bytes: u64) -> Result<(File, PathBuf), Refusal> {
        if self.max_bytes == 0 {
            return Err(Refusal::Arranged("0 bytes may be taken".to_owned()));
        }
        let root = self.folder.path();
        let failed = |error: io::Error| Refusal::Arranged(format!("{} cannot be written to: {error}", root.display()));
        fs::create_dir_all(root).map_err(failed)?;
        let part = self.folder.part(&self.model, key).map_err(failed)?;
        // Only who may write, and does, makes others' packs go.
        let file = lock(&part, true).map_err(failed)?.ok_or(Refusal::Busy)?;
        let replaced = self.id.as_ref().map(|id| self.folder.pack(id, key));
        let make_room = || self.folder.make_room(bytes, self.max_bytes, replaced.as_deref()).map_err(Refusal::NoRoom);
        if let Err(refusal) = file.set_len(0).map_err(failed).and_then(|()| make_room()) {
            let _ = fs::remove_file(&part);
            return Err(refusal);
        }
        Ok((file, part))
    }

    fn opened(&self) -> MutexGuard<'_, HashMap<String, File>> {
        self.opened.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PackStore for ModelPacks {
    fn open(&self, key: &str) -> Option<Box<dyn PackReader>> {
        let id = self.id.as_ref()?;
        let path = self.folder.pack(id, key);
        let file = duan_files::open_plain(File::options().read(true), &path).ok()?;
        self.opened().insert(key.to_owned(), file.try_clone().ok()?);
        let bytes = match sealed_bytes(&file, id) {
            Ok(bytes) => bytes,
            Err(reason) => {
                self.discard(key, &reason);
                return None;
            }
        };
        // The packs that are used last stay. Where the time cannot be set, the oldest go.
        let _ = file.set_modified(SystemTime::now());
        if self.model.are_in_place()
            && let Err(error) = self.folder.remember(id, &self.model)
        {
            tracing::debug!(%error, "the place of a model cannot be remembered");
        }
        tracing::info!(path = %path.display(), bytes, "laid-out weights are read");
        Some(Box::new(Reader { file, bytes }))
    }

    fn discard(&self, key: &str, reason: &str) {
        let Some(id) = &self.id else { return };
        let path = self.folder.pack(id, key);
        // Another process may have found the same, and made a good one already. One that cannot be deleted is replaced.
        if self.opened().remove(key).is_some_and(|file| duan_files::is_at(&file, &path)) {
            let _ = fs::remove_file(&path);
        }
        self.folder.forget_if_empty(id);
        self.notice(Notice::Discarded(format!("{}: {reason}", path.display())));
    }

    fn create(&self, key: &str, bytes: u64) -> Option<Box<dyn PackWriter>> {
        let bytes = bytes.saturating_add(SEAL_BYTES as u64);
        match self.begin(key, bytes) {
            Ok((file, part)) => {
                self.notice(Notice::Kept(bytes));
                let (folder, model, id) = (self.folder.clone(), self.model.clone(), self.id.clone());
                Some(Box::new(Writer { file, part, folder, model, id, key: key.to_owned(), is_done: false }))
            }
            Err(Refusal::Busy) => {
                tracing::info!("another process is writing the same pack");
                None
            }
            Err(Refusal::Arranged(reason)) => {
                tracing::info!(reason, "laid-out weights are not kept");
                None
            }
            Err(Refusal::NoRoom(reason)) => {
                self.notice(Notice::NotKept(reason));
                None
            }
        }
    }
}

/// Length of a pack without the seal, which must be that of the model `id`.
fn sealed_bytes(file: &File, id: &str) -> Result<u64, String> {
    let unreadable = |error: io::Error| format!("it cannot be read: {error}");
    let length = file.metadata().map_err(unreadable)?.len();
    let bytes = length.checked_sub(SEAL_BYTES as u64).ok_or_else(|| format!("it has {length} bytes only"))?;
    let mut seal = [0; SEAL_BYTES];
    duan_files::read_exact_at(file, &mut seal, bytes).map_err(unreadable)?;
    if seal[..SEAL.len()] != *SEAL {
        return Err("it does not end as a pack does".to_owned());
    }
    if seal[SEAL.len()..] != *id.as_bytes() {
        return Err("it is another model's".to_owned());
    }
    Ok(bytes)
}

/// A pack that is there.
#[derive(Debug)]
struct Reader {
    file: File,
    bytes: u64,
}

impl PackReader for Reader {
    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        duan_files::read_exact_at(&self.file, bytes, offset)
    }

    fn map(&self) -> io::Result<SharedBytes> {
        SharedBytes::map(self.file.try_clone()?)
    }
}

/// A pack that is being written. Its file stays locked meanwhile.
struct Writer {
    file: File,
    part: PathBuf,
    folder: PackFolder,
    model: Arc<ModelFiles>,
    id: Option<String>,
    key: String,
    is_done: bool,
}

impl Writer {
    /// Everything after the last byte of the pack.
    fn install(&mut self) -> io::Result<()> {
        let id = match &self.id {
            Some(id) => id.clone(),
            // Its bytes have just been read, so that they mostly are in memory still.
            None => self.model.hash()?,
        };
        self.id = Some(id.clone());
        // What was laid out and what was hashed must be the same.
        if !self.model.are_in_place() {
            return Err(io::Error::other("the model's file was changed, moved or replaced meanwhile"));
        }
        self.file.write_all(SEAL)?;
        self.file.write_all(id.as_bytes())?;
        self.folder.remember(&id, &self.model)?;
        let path = self.folder.pack(&id, &self.key);
        fs::rename(&self.part, &path)?;
        self.folder.remove_replaced(&id);
        tracing::info!(path = %path.display(), "laid-out weights are kept");
        Ok(())
    }

    /// Notes what went wrong in the log: whoever began this may be busy with an answer.
    fn logged<T>(&self, result: io::Result<T>) -> io::Result<T> {
        result
            .inspect_err(|error| tracing::warn!(%error, path = %self.part.display(), "laid-out weights cannot be kept"))
    }
}

impl PackWriter for Writer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let written = self.file.write_all(bytes);
        self.logged(written)
    }

    fn finish(mut self: Box<Self>) -> io::Result<()> {
        let installed = self.install();
        self.is_done = installed.is_ok();
        self.logged(installed)
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        if !self.is_done {
            let _ = fs::remove_file(&self.part);
            if let Some(id) = &self.id {
                self.folder.forget_if_empty(id);
            }
        }
    }
}

#[cfg(test)]
#[path = "store_tests.rs"]
mod tests;
