//! Small files written whole, free space, and hashing a file: what the other parts share.

use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::Serialize;
use sha2::digest::Update;

use crate::error::{Error, Result};
use crate::progress::{Progress, Sink};

/// Bytes moved at a time between network, disk and hash.
pub(crate) const CHUNK_BYTES: usize = 128 << 10;

/// Lets an event through some ten times a second, so that showing it costs nothing.
pub(crate) struct Throttle {
    last: Instant,
}

impl Throttle {
    pub(crate) fn new() -> Throttle {
        Throttle { last: Instant::now() }
    }

    pub(crate) fn is_due(&mut self) -> bool {
        let is_due = self.last.elapsed() >= Duration::from_millis(100);
        if is_due {
            self.last = Instant::now();
        }
        is_due
    }
}

/// Creates a folder and those above it.
pub(crate) fn create_folder(path: &Path) -> Result<()> {
    fs::create_dir_all(path).map_err(|error| Error::io("create the folder", path, &error))
}

/// Removes a file; that it is not there is fine.
pub(crate) fn remove_file(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(Error::io("remove", path, &error)),
        _ => Ok(()),
    }
}

/// Writes a small JSON file so that readers see the old or the new text, never a piece of it.
pub(crate) fn write_json<T: Serialize>(path: &Path, value: &T) -> Result<()> {
    duan_files::write_json(path, value).map_err(|error| Error::io("write", path, &error))
}

/// The same for a file that only the holder of a lock writes: its temporary name is always the same, so that a process that is
/// killed meanwhile leaves nothing that the next one does not replace.
pub(crate) fn write_json_alone<T: Serialize>(path: &Path, value: &T) -> Result<()> {
    let beside = new_name(path);
    let write = || {
        let mut file = File::create(&beside)?;
        file.write_all(&serde_json::to_vec_pretty(value)?)?;
        file.sync_all()?;
        fs::rename(&beside, path)
    };
    write().map_err(|error: std::io::Error| Error::io("write", path, &error))
}

/// The temporary name of [`write_json_alone`].
pub(crate) fn new_name(path: &Path) -> PathBuf {
    path.with_added_extension("new")
}

/// Removes what killed processes left of small files in a folder of duan's own.
pub(crate) fn remove_leftovers(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_name().to_string_lossy().starts_with(".tmp") {
            drop(fs::remove_file(entry.path()));
        }
    }
}

/// Gives a finished file its name, in the same folder, and makes that last through a loss of power.
pub(crate) fn rename(from: &Path, to: &Path) -> Result<()> {
    fs::rename(from, to).map_err(|error| Error::io("create", to, &error))?;
    // Windows keeps no handle on folders, and its file system writes renames down by itself.
    #[cfg(unix)]
    if let Some(folder) = to.parent() {
        let synced = File::open(folder).and_then(|folder| folder.sync_all());
        synced.map_err(|error| Error::io("write", folder, &error))?;
    }
    Ok(())
}

/// Feeds the first `bytes` of a file to `hasher` and leaves the position behind them.
pub(crate) fn hash_start(
    file: &mut File,
    path: &Path,
    bytes: u64,
    hasher: &mut impl Update,
    progress: Sink<'_>,
) -> Result<()> {
    let failed = |error: &std::io::Error| Error::io("read", path, error);
    let shown = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let mut event = |done_bytes| progress(Progress::Verifying { file: shown.clone(), done_bytes, total_bytes: bytes });
    file.seek(SeekFrom::Start(0)).map_err(|error| failed(&error))?;
    let mut buffer = vec![0; CHUNK_BYTES];
    let mut throttle = Throttle::new();
    let mut done: u64 = 0;
    event(0);
    while done < bytes {
        let want = buffer.len().min(usize::try_from(bytes - done).unwrap_or(usize::MAX));
        let got = file.read(&mut buffer[..want]).map_err(|error| failed(&error))?;
        if got == 0 {
            return Err(failed(&std::io::ErrorKind::UnexpectedEof.into()));
        }
        hasher.update(&buffer[..got]);
        done += got as u64;
        if throttle.is_due() {
            event(done);
        }
    }
    event(done);
    Ok(())
}

/// Refuses to begin what cannot end: `needed_bytes` must be free where `folder` lies.
pub(crate) fn check_room(folder: &Path, needed_bytes: u64) -> Result<()> {
    match duan_files::free_bytes(folder) {
        Some(free) if free < needed_bytes => Err(Error::disk_full(folder, needed_bytes, free)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    #[test]
    fn room_is_refused_with_both_numbers() {
        let folder = tempfile::tempdir().unwrap();
        check_room(folder.path(), 1).unwrap();
        let error = check_room(folder.path(), u64::MAX).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::DiskFull);
        assert!(error.to_string().contains("18.4 EB are needed"), "{error}");
    }
}
