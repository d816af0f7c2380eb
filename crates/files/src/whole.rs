//! Large files: one that appears whole or not at all: written beside its place, then renamed.

use std::io::{self, BufWriter, Write};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use crate::new_beside;

/// Gathers small pieces; large ones go through as they are.
const BUFFER_BYTES: usize = 1 << 20;

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
    let folder = check_place(path, force)?;
    if let Some(free_bytes) = crate::free_bytes(&folder).filter(|&free| free < needed_bytes) {
        return Err(WriteError::NoRoom { folder, needed_bytes, free_bytes });
    }
    let failed = |error: io::Error| WriteError::io(path, error);
    let file = new_beside(&folder, ".duan-", ".part").map_err(failed)?;
    let mut counted = Counted { out: file.as_file(), written: 0, on_progress, is_cancelled: false };
    let mut buffered = BufWriter::with_capacity(BUFFER_BYTES, &mut counted);
    let result = write(&mut buffered).and_then(|()| buffered.flush());
    // What is left in the buffer after an error is of no use, and dropping the buffer would write it.
    let _ = buffered.into_parts();
    if counted.is_cancelled {
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

/// The folder that the file will lie in.
fn check_place(path: &Path, force: bool) -> Result<PathBuf, WriteError> {
    if path.file_name().is_none() || path.is_dir() {
        return Err(WriteError::NotAFile { path: path.to_owned() });
    }
    if !force && path.symlink_metadata().is_ok() {
        return Err(WriteError::Exists { path: path.to_owned() });
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if !folder.is_dir() {
        return Err(WriteError::io(path, io::ErrorKind::NotFound.into()));
    }
    Ok(folder.to_owned())
}

/// Counts what goes by, and refuses the rest once it is cancelled.
struct Counted<'a, W> {
    out: W,
    written: u64,
    on_progress: &'a mut dyn FnMut(u64) -> ControlFlow<()>,
    is_cancelled: bool,
}

impl<W: Write> Write for Counted<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.out.write(bytes)?;
        self.written += written as u64;
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
        assert!(matches!(write(&folder.path().join("no/a.gguf"), true, b""), Err(WriteError::Io { .. })));
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
