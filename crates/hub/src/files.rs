//! Small files written whole, free space, and hashing a file: what the other parts share.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::Serialize;
use sha2::digest::Update;

use crate::error::{Error, ErrorKind, Result};
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

/// Opens a file of duan's own, as `options` say. Caches may be shared: what somebody else put there by that name, such as a link to
/// a file of the user's, is not followed.
pub(crate) fn open_own(options: &OpenOptions, path: &Path) -> Result<File> {
    duan_files::open_plain(options, path).map_err(|error| {
        let is_other = fs::symlink_metadata(path).is_ok_and(|metadata| !metadata.is_file());
        if is_other { no_plain_file(path) } else { Error::io("open", path, &error) }
    })
}

fn no_plain_file(path: &Path) -> Error {
    let shown = path.display();
    Error::new(
        ErrorKind::Io,
        format!("{shown} is a link or something else that duan did not put there; remove it and try again"),
    )
}

/// A new file under a name that only the holder of a lock uses, in the place of what a killed process left by that name.
pub(crate) fn create_anew(path: &Path) -> std::io::Result<File> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    // It fails where somebody was faster; nothing is followed.
    File::create_new(path)
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
        let mut file = create_anew(&beside)?;
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

/// Gives a finished file its name, and makes that last through a loss of power. What is no plain file is not what was finished.
pub(crate) fn rename(from: &Path, to: &Path) -> Result<()> {
    let metadata = fs::symlink_metadata(from).map_err(|error| Error::io("read", from, &error))?;
    if !metadata.is_file() {
        return Err(no_plain_file(from));
    }
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

    #[cfg(unix)]
    #[test]
    fn what_somebody_else_put_in_the_place_of_our_files_is_neither_followed_nor_installed() {
        let folder = tempfile::tempdir().unwrap();
        let (mine, link) = (folder.path().join("mine"), folder.path().join("link"));
        fs::write(&mine, "mine").unwrap();
        let plant = || std::os::unix::fs::symlink(&mine, &link).unwrap();
        plant();
        let options = || File::options().read(true).write(true).create(true).truncate(true).clone();
        let error = open_own(&options(), &link).unwrap_err();
        assert!(error.to_string().contains("link is a link or something else"), "{error}");
        let error = rename(&link, &folder.path().join("installed")).unwrap_err();
        assert!(error.to_string().contains("did not put there"), "{error}");
        create_anew(&link).unwrap().write_all(b"ours").unwrap();
        fs::remove_file(&link).unwrap();
        std::os::unix::fs::symlink(&mine, new_name(&link)).unwrap();
        write_json_alone(&link, &1).unwrap();
        assert_eq!(fs::read_to_string(&link).unwrap(), "1");
        assert_eq!(fs::read_to_string(&mine).unwrap(), "mine");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
    }

    #[test]
    fn room_is_refused_with_both_numbers() {
        let folder = tempfile::tempdir().unwrap();
        check_room(folder.path(), 1).unwrap();
        let error = check_room(folder.path(), u64::MAX).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::DiskFull);
        assert!(error.to_string().contains("18.4 EB are needed"), "{error}");
    }
}
