//! Large files: one that appears whole or not at all: written beside its place, then renamed.

use std::io::{self, BufWriter, Write};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use crate::new_beside;

/// Gathers small pieces; large ones go through as they are.
const BUFFER_BYTES: usize = 1 << 20;

/// So many bytes are written before the disk is set to work on them, beside the making of the next: who waits for all of them at the end
/// waits for a disk that had nothing to do before.
const SYNC_EVERY_BYTES: u64 = 128 << 20;

/// How files and folders are called until they are whole.
const PREFIX: &str = ".duan-";
const SUFFIX: &str = ".part";
/// What is older than this and not locked belongs to nobody any more.
const SETTLED: Duration = Duration::from_secs(60);

/// Why a file was not written: one line with the remedy.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// Something is there already.
    #[error("{} exists already and was not changed; name another file, or say --force to replace it", path.display())]
    Exists {
        /// The file.
        path: PathBuf,
    },
    /// The path is a folder's, or has no name.
    #[error("{} is no name for a file; give a path that ends in the file's name", path.display())]
    NotAFile {
        /// The path.
        path: PathBuf,
    },
    /// Something is there already, where a folder is to be.
    #[error("{} exists already and was not changed; name another folder, or remove it first", path.display())]
    FolderExists {
        /// The folder.
        path: PathBuf,
    },
    /// The disk has too little room.
    #[error(
        "not enough room in {}: {needed_bytes} bytes are needed, {free_bytes} are free; free some space, or name a folder on \
         another disk", folder.display()
    )]
    NoRoom {
        /// Where the file was to lie.
        folder: PathBuf,
        /// Bytes of the file.
        needed_bytes: u64,
        /// Bytes that are free.
        free_bytes: u64,
    },
    /// Writing failed. Nothing was left behind.
    #[error("cannot write {}: {source}{}", path.display(), remedy(source))]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

impl WriteError {
    fn io(path: &Path, source: io::Error) -> WriteError {
        WriteError::Io { path: path.to_owned(), source }
    }
}

fn no_folder(path: &Path, folder: &Path) -> WriteError {
    WriteError::io(path, io::Error::new(io::ErrorKind::NotFound, format!("there is no folder {}", folder.display())))
}

fn remedy(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::NotFound => "; create the folder first",
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            "; name a folder that this user may write to"
        }
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "; free some space, or name a folder on another disk"
        }
        io::ErrorKind::FileTooLarge => "; this file system allows no file that large, name a folder on another disk",
        _ => "",
    }
}

/// Writes `path` by `write`, which gets a place to write to. `needed_bytes` must be free on the disk. `on_progress` is told
/// how many bytes are written; a break ends it, and gives false. Nothing is left behind then, nor after an error.
///
/// # Errors
/// See [`WriteError`]. Without `force`, a file that is there is an error.
pub fn write_whole(
    path: &Path,
    needed_bytes: u64,
    force: bool,
    on_progress: &mut dyn FnMut(u64) -> ControlFlow<()>,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<bool, WriteError> {
    let folder = folder_of(path, force)?;
    if let Some(free_bytes) = crate::free_bytes(&folder).filter(|&free| free < needed_bytes) {
        return Err(WriteError::NoRoom { folder, needed_bytes, free_bytes });
    }
    let failed = |error: io::Error| WriteError::io(path, error);
    remove_left_behind(&folder);
    let file = new_beside(&folder, PREFIX, SUFFIX).map_err(failed)?;
    // Where there are no locks, nobody can tell that the file is in use, and nobody removes it.
    let _ = file.as_file().try_lock();
    let (is_cancelled, result) = thread::scope(|scope| {
        let (ask, asked) = sync_channel(1);
        // Without a thread all is waited for at the end.
        let syncing = thread::Builder::new().spawn_scoped(scope, || sync_when_asked(file.as_file(), asked)).ok();
        let mut counted = Counted { out: file.as_file(), written: 0, on_progress, is_cancelled: false, ask };
        let mut buffered = BufWriter::with_capacity(BUFFER_BYTES, &mut counted);
        let result = write(&mut buffered).and_then(|()| buffered.flush());
        // What is left in the buffer after an error is of no use, and dropping the buffer would write it.
        let _ = buffered.into_parts();
        let Counted { is_cancelled, ask, .. } = counted;
        drop(ask);
        // The system tells of bytes that it could not write only once, so it must not be forgotten here.
        let synced = syncing.map_or(Ok(()), |syncing| syncing.join().unwrap_or(Ok(())));
        (is_cancelled, result.and(synced))
    });
    if is_cancelled {
        return Ok(false);
    }
    result.and_then(|()| file.as_file().sync_all()).map_err(failed)?;
    let named = if force { file.persist(path) } else { file.persist_noclobber(path) };
    named.map_err(|error| match error.error.kind() {
        io::ErrorKind::AlreadyExists => WriteError::Exists { path: path.to_owned() },
        _ => failed(error.error),
    })?;
    Ok(true)
}

/// Makes the folder `path` by `write`, which gets an empty folder beside it and puts files there; false from it ends it. The folder
/// appears whole or not at all: nothing is left behind by an error, nor where it was ended. `needed_bytes` must be free on the disk.
/// An empty folder of that name is replaced.
///
/// # Errors
/// See [`WriteError`]; whatever else is there is an error.
pub fn write_folder(
    path: &Path,
    needed_bytes: u64,
    write: impl FnOnce(&Path) -> io::Result<bool>,
) -> Result<bool, WriteError> {
    let failed = |error: io::Error| WriteError::io(path, error);
    if path.file_name().is_none() {
        return Err(WriteError::NotAFile { path: path.to_owned() });
    }
    let is_empty = || std::fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_none());
    if path.symlink_metadata().is_ok_and(|found| !found.is_dir() || !is_empty()) {
        return Err(WriteError::FolderExists { path: path.to_owned() });
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if !folder.is_dir() {
        return Err(no_folder(path, folder));
    }
    if let Some(free_bytes) = crate::free_bytes(folder).filter(|&free| free < needed_bytes) {
        return Err(WriteError::NoRoom { folder: folder.to_owned(), needed_bytes, free_bytes });
    }
    let mut builder = tempfile::Builder::new();
    builder.prefix(PREFIX).suffix(SUFFIX);
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o777));
    let made = builder.tempdir_in(folder).map_err(failed)?;
    if !write(made.path()).map_err(failed)? {
        return Ok(false);
    }
    sync_all_in(made.path()).map_err(failed)?;
    if cfg!(windows) && path.is_dir() {
        // A folder takes no other's place there; this one is empty.
        std::fs::remove_dir(path).map_err(failed)?;
    }
    // Only an empty folder can be replaced in this way, whoever put another there meanwhile.
    std::fs::rename(made.path(), path).map_err(|error| match error.kind() {
        io::ErrorKind::DirectoryNotEmpty | io::ErrorKind::AlreadyExists | io::ErrorKind::NotADirectory => {
            WriteError::FolderExists { path: path.to_owned() }
        }
        _ => failed(error),
    })?;
    // It has another name now.
    let _ = made.keep();
    Ok(true)
}

/// Removes files that killed programs left in a folder: of our names, and nobody holds them. What cannot be removed stays.
fn remove_left_behind(folder: &Path) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let is_ours = name.to_str().is_some_and(|name| name.starts_with(PREFIX) && name.ends_with(SUFFIX));
        if !is_ours {
            continue;
        }
        let Ok(file) = crate::open_plain(std::fs::File::options().write(true), &entry.path()) else { continue };
        let age = file.metadata().and_then(|about| about.modified()).ok().and_then(|time| time.elapsed().ok());
        // A new one is not locked at once.
        if age.is_some_and(|age| age > SETTLED) && file.try_lock().is_ok() {
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

/// Sees to it that files of a folder are on the disk before the folder gets its name.
fn sync_all_in(folder: &Path) -> io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        std::fs::File::options().read(true).write(true).open(entry?.path())?.sync_all()?;
    }
    Ok(())
}

/// Whether a file can be written to `path`, as far as that is known before: asked ahead of work whose result would be lost. Nothing is
/// written.
///
/// # Errors
/// See [`WriteError`]. Without `force`, a file that is there is an error.
pub fn check_place(path: &Path, force: bool) -> Result<(), WriteError> {
    let folder = folder_of(path, force)?;
    if crate::can_create_in(&folder) == Some(false) {
        let what = format!("nothing can be created in {}", folder.display());
        return Err(WriteError::io(path, io::Error::new(io::ErrorKind::PermissionDenied, what)));
    }
    Ok(())
}

/// The folder that the file will lie in.
fn folder_of(path: &Path, force: bool) -> Result<PathBuf, WriteError> {
    if path.file_name().is_none() || path.is_dir() {
        return Err(WriteError::NotAFile { path: path.to_owned() });
    }
    if !force && path.symlink_metadata().is_ok() {
        return Err(WriteError::Exists { path: path.to_owned() });
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if !folder.is_dir() {
        return Err(no_folder(path, folder));
    }
    Ok(folder.to_owned())
}

/// Brings what was written so far to the disk whenever it is asked to, until nobody can ask any more.
fn sync_when_asked(file: &std::fs::File, asked: Receiver<()>) -> io::Result<()> {
    asked.iter().try_for_each(|()| file.sync_data())
}

/// Counts what goes by, and refuses the rest once it is cancelled.
struct Counted<'a, W> {
    out: W,
    written: u64,
    on_progress: &'a mut dyn FnMut(u64) -> ControlFlow<()>,
    is_cancelled: bool,
    /// Sets the disk to work.
    ask: SyncSender<()>,
}

impl<W: Write> Write for Counted<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.out.write(bytes)?;
        let before = self.written / SYNC_EVERY_BYTES;
        self.written += written as u64;
        if self.written / SYNC_EVERY_BYTES > before {
            // Where the disk is still at work on what came before, it takes this with the next.
            let _ = self.ask.try_send(());
        }
        if (self.on_progress)(self.written).is_break() {
            self.is_cancelled = true;
            return Err(io::Error::other("cancelled"));
        }
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let names = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.collect()
    }

    fn write(path: &Path, force: bool, bytes: &[u8]) -> Result<bool, WriteError> {
        write_whole(path, 1, force, &mut |_| ControlFlow::Continue(()), |out| out.write_all(bytes))
    }

    #[test]
    fn a_file_appears_whole_and_is_replaced_on_demand_only() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.gguf");
        assert!(write(&path, false, b"one").unwrap());
        assert!(matches!(write(&path, false, b"two"), Err(WriteError::Exists { .. })));
        assert_eq!(fs::read(&path).unwrap(), b"one");
        assert!(write(&path, true, b"three").unwrap());
        assert_eq!(fs::read(&path).unwrap(), b"three");
        assert_eq!(names(folder.path()), ["a.gguf"]);
        assert!(matches!(write(folder.path(), true, b""), Err(WriteError::NotAFile { .. })));
        let nowhere = folder.path().join("no/a.gguf");
        for error in [write(&nowhere, true, b"").map(|_| ()), check_place(&nowhere, true)] {
            assert!(error.unwrap_err().to_string().ends_with("/no; create the folder first"));
        }
        assert!(matches!(check_place(&path, false), Err(WriteError::Exists { .. })));
        check_place(&path, true).unwrap();
        check_place(&folder.path().join("b.gguf"), false).unwrap();
    }

    #[test]
    fn what_killed_programs_left_is_removed_and_what_is_in_use_stays() {
        let folder = tempfile::tempdir().unwrap();
        let old = std::time::SystemTime::now() - 2 * SETTLED;
        let part = |name: &str, time: Option<std::time::SystemTime>| {
            let file = fs::File::create(folder.path().join(name)).unwrap();
            time.into_iter().for_each(|time| file.set_modified(time).unwrap());
            file
        };
        drop(part(".duan-left.part", Some(old)));
        drop(part(".duan-new.part", None));
        drop(part("other.part", Some(old)));
        let used = part(".duan-used.part", Some(old));
        used.lock().unwrap();
        assert!(write(&folder.path().join("a"), false, b"one").unwrap());
        let mut names = names(folder.path());
        names.sort();
        assert_eq!(names, [".duan-new.part", ".duan-used.part", "a", "other.part"]);
    }

    #[test]
    fn a_folder_appears_whole_and_never_in_place_of_another() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model");
        let put = |to: &Path| fs::write(to.join("a"), "whole").map(|()| true);
        assert!(write_folder(&path, 1, put).unwrap());
        assert_eq!(fs::read(path.join("a")).unwrap(), b"whole");
        assert!(matches!(write_folder(&path, 1, put), Err(WriteError::FolderExists { .. })));
        assert!(matches!(write_folder(&path.join("a"), 1, put), Err(WriteError::FolderExists { .. })));
        let other = folder.path().join("other");
        assert!(!write_folder(&other, 1, |to| put(to).map(|_| false)).unwrap());
        let error = write_folder(&other, 1, |to| put(to).and(Err(io::ErrorKind::StorageFull.into()))).unwrap_err();
        assert!(error.to_string().ends_with("free some space, or name a folder on another disk"), "{error}");
        assert!(matches!(write_folder(&other, u64::MAX, put), Err(WriteError::NoRoom { .. })));
        assert!(matches!(write_folder(&other.join("deep"), 1, put), Err(WriteError::Io { .. })));
        // Somebody is faster.
        let late = write_folder(&other, 1, |to| {
            fs::create_dir(&other)?;
            put(&other)?;
            put(to)
        });
        assert!(matches!(late, Err(WriteError::FolderExists { .. })), "{late:?}");
        fs::remove_file(other.join("a")).unwrap();
        assert!(write_folder(&other, 1, put).unwrap());
        let mut left = names(folder.path());
        left.sort();
        assert_eq!(left, ["model", "other"]);
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode();
            fs::create_dir(folder.path().join("plain")).unwrap();
            assert_eq!(mode(&other), mode(&folder.path().join("plain")));
        }
    }

    #[test]
    fn nothing_is_left_of_what_failed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.gguf");
        let mut go_on = |_| ControlFlow::Continue(());
        let error = write_whole(&path, 1, false, &mut go_on, |out| {
            out.write_all(b"half")?;
            Err(io::ErrorKind::StorageFull.into())
        });
        assert!(error.unwrap_err().to_string().ends_with("free some space, or name a folder on another disk"));
        let full = write_whole(&path, u64::MAX, false, &mut go_on, |_| Ok(())).unwrap_err();
        assert!(full.to_string().contains("18446744073709551615 bytes are needed"), "{full}");
        let mut seen = Vec::new();
        let mut stop_at_two = |written| {
            seen.push(written);
            if written > BUFFER_BYTES as u64 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        let piece = vec![1; BUFFER_BYTES];
        let done = write_whole(&path, 1, false, &mut stop_at_two, |out| (0..9).try_for_each(|_| out.write_all(&piece)));
        assert!(!done.unwrap());
        assert_eq!(seen, [BUFFER_BYTES as u64, 2 * BUFFER_BYTES as u64]);
        assert_eq!(names(folder.path()), [""; 0]);
    }
}
