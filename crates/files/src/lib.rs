//! Files, as more than one crate handles them.
//!
//! A file is written beside its place and gets its name when it is whole ([`new_beside`], and [`write_whole`] for large ones, with
//! progress and room on the disk; [`write_folder`] for a folder of them; [`check_place`] looks at the place before), or never gets one
//! ([`unnamed_in`]); small JSON files are read with a limit and written the same way; some bytes are read or written at a place
//! ([`read_exact_at`], [`write_all_at`]); a disk is asked for its room ([`free_bytes`]) and whether it may be written
//! ([`can_create_in`]); a file of
//! a cache is opened only where it is a plain file ([`open_plain`]); and an open file is compared with what its name means now
//! ([`is_at`]).
//!
//! What is done with small files says what the system said ([`std::io::Error`]): which file it was, and what to do, is added by those
//! who know what the file is for. A [`WriteError`] says all of it. This crate must never know a model, a cache or a terminal.
//!
//! Start reading at [`new_beside`]. Small JSON files, synthetic and quantized models and files from the hub are
//! written through it. Laid-out weights are not: several processes may want to write the same ones, so they have a lock and a
//! name of their own, and of this crate they use [`open_plain`], [`is_at`] and [`free_bytes`].

mod whole;

pub use whole::{WriteError, check_place, write_folder, write_whole};

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;
use tempfile::NamedTempFile;

/// A JSON file longer than this is none of ours.
const JSON_LIMIT_BYTES: u64 = 1 << 20;

/// A new file in `folder` of a name that nobody has, which is removed unless it is given a name of its own
/// ([`NamedTempFile::persist`]). Who may read the folder's other files may read this one: the system's mask for new files
/// decides.
///
/// # Errors
/// Where the system allows no file there.
pub fn new_beside(folder: &Path, prefix: &str, suffix: &str) -> io::Result<NamedTempFile> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(prefix).suffix(suffix);
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    builder.tempfile_in(folder)
}

/// A new file in `folder` that has no name, or none for long: it is gone when it is closed, however the program ends.
///
/// # Errors
/// Where the system allows no file there.
pub fn unnamed_in(folder: &Path) -> io::Result<File> {
    tempfile::tempfile_in(folder)
}

/// Opens a file that a program of ours made, as `options` say. Folders of a cache may be shared, and somebody may have put another thing
/// there by the same name: behind a link a file that is not ours would be emptied, and to open a pipe would wait for ever.
///
/// # Errors
/// As [`OpenOptions::open`], and where there is something else than a plain file.
pub fn open_plain(options: &OpenOptions, path: &Path) -> io::Result<File> {
    let mut options = options.clone();
    #[cfg(unix)]
    {
        use rustix::fs::OFlags;
        use std::os::unix::fs::OpenOptionsExt as _;
        options.custom_flags((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed());
    }
    let file = options.open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("{} is no plain file", path.display())));
    }
    Ok(file)
}

/// Reads a small JSON file; one that is missing, unreadable or foreign counts as not there.
pub fn read_json<T: DeserializeOwned>(path: &Path) -> Option<T> {
    let mut text = Vec::new();
    open_plain(File::options().read(true), path).ok()?.take(JSON_LIMIT_BYTES).read_to_end(&mut text).ok()?;
    serde_json::from_slice(&text).ok()
}

/// Writes a small JSON file so that readers see the old or the new text, never a piece of it, also after a loss of power.
///
/// # Errors
/// Where it cannot be written.
pub fn write_json<T: Serialize>(path: &Path, value: &T) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut text = serde_json::to_vec_pretty(value)?;
    text.push(b'\n');
    let mut file = new_beside(folder, ".tmp", "")?;
    file.write_all(&text)?;
    file.as_file().sync_all()?;
    file.persist(path)?;
    Ok(())
}

/// Asks the system to forget what it keeps of a file in the memory, so that the next who reads it waits for the disk. What is not on the
/// disk yet is brought there first; pages that are mapped stay. Whether it did is another question.
///
/// # Errors
/// Where the system has no such thing, or the file cannot be synced.
pub fn drop_from_page_cache(file: &File) -> io::Result<()> {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    {
        file.sync_data()?;
        Ok(rustix::fs::fadvise(file, 0, None, rustix::fs::Advice::DontNeed)?)
    }
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    {
        let _ = file;
        Err(io::Error::new(io::ErrorKind::Unsupported, "duan can ask Linux only to empty its page cache"))
    }
}

/// Fills `bytes` from `offset` of a file, whose position other readers may use meanwhile.
///
/// # Errors
/// Where the file ends before, or cannot be read.
pub fn read_exact_at(file: &File, bytes: &mut [u8], offset: u64) -> io::Result<()> {
    let mut done = 0;
    while done < bytes.len() {
        match read_at(file, &mut bytes[done..], offset + done as u64) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(read) => done += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(unix)]
fn read_at(file: &File, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
    std::os::unix::fs::FileExt::read_at(file, bytes, offset)
}

#[cfg(windows)]
fn read_at(file: &File, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
    std::os::windows::fs::FileExt::seek_read(file, bytes, offset)
}

/// Writes all of `bytes` from `offset` of a file on, which other writers may fill elsewhere meanwhile.
///
/// # Errors
/// Where they cannot be written.
pub fn write_all_at(file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
    let mut done = 0;
    while done < bytes.len() {
        match write_at(file, &bytes[done..], offset + done as u64) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => done += written,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(unix)]
fn write_at(file: &File, bytes: &[u8], offset: u64) -> io::Result<usize> {
    std::os::unix::fs::FileExt::write_at(file, bytes, offset)
}

#[cfg(windows)]
fn write_at(file: &File, bytes: &[u8], offset: u64) -> io::Result<usize> {
    std::os::windows::fs::FileExt::seek_write(file, bytes, offset)
}

/// Bytes free for this user on the disk where `folder` lies; none where the system does not say.
#[cfg(unix)]
pub fn free_bytes(folder: &Path) -> Option<u64> {
    let facts = rustix::fs::statvfs(folder).ok()?;
    // Some network file systems report no blocks at all, which means unknown, not full.
    (facts.f_blocks > 0).then(|| facts.f_bavail.saturating_mul(facts.f_frsize))
}

/// Bytes free for this user on the disk where `folder` lies; none where the system does not say.
#[cfg(not(unix))]
pub fn free_bytes(_: &Path) -> Option<u64> {
    None
}

/// The folder at `path`, or the nearest above it that is there; none where something else than a folder is in the way.
pub fn nearest_folder(path: &Path) -> Option<PathBuf> {
    let path = std::path::absolute(path).ok()?;
    let there = path.ancestors().find(|folder| fs::symlink_metadata(folder).is_ok())?;
    there.is_dir().then(|| there.to_owned())
}

/// Whether this user may make files and folders in the folder at `path`, or make it where it is not there yet; none where the system
/// does not say.
#[cfg(unix)]
pub fn can_create_in(path: &Path) -> Option<bool> {
    use rustix::fs::Access;
    let Some(folder) = nearest_folder(path) else { return Some(false) };
    // A system mounted to be read only says so here, too, also to the superuser.
    Some(rustix::fs::access(folder, Access::WRITE_OK | Access::EXEC_OK).is_ok())
}

/// Whether this user may make files and folders in the folder at `path`, or make it where it is not there yet; none where the system
/// does not say.
#[cfg(not(unix))]
pub fn can_create_in(path: &Path) -> Option<bool> {
    nearest_folder(path).is_none().then_some(false)
}

/// Whether an open file is still the one at `path`; true where files cannot be told apart.
#[cfg(unix)]
pub fn is_at(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    match (file.metadata(), fs::metadata(path)) {
        (Ok(open), Ok(named)) => (open.dev(), open.ino()) == (named.dev(), named.ino()),
        // Nothing at that name, or nothing that can be asked.
        (_, Err(error)) => error.kind() != io::ErrorKind::NotFound,
        (Err(_), _) => true,
    }
}

/// Whether an open file is still the one at `path`; true where files cannot be told apart.
#[cfg(not(unix))]
pub fn is_at(_: &File, path: &Path) -> bool {
    !fs::metadata(path).is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_replaced_whole_and_rubbish_counts_as_absent() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.json");
        write_json(&path, &[1, 2]).unwrap();
        write_json(&path, &[3]).unwrap();
        assert_eq!(read_json::<Vec<u32>>(&path), Some(vec![3]));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode();
            let other = tempfile::tempdir().unwrap();
            let plain = other.path().join("plain");
            fs::write(&plain, "").unwrap();
            assert_eq!(mode(&path), mode(&plain));
        }
        fs::write(&path, "[3").unwrap();
        assert_eq!(read_json::<Vec<u32>>(&path), None);
        assert_eq!(read_json::<Vec<u32>>(&folder.path().join("y.json")), None);
    }

    #[test]
    fn reading_at_a_place_ends_where_the_file_does() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x");
        fs::write(&path, b"0123456789").unwrap();
        let file = File::open(&path).unwrap();
        let mut bytes = [0; 4];
        read_exact_at(&file, &mut bytes, 6).unwrap();
        assert_eq!(&bytes, b"6789");
        assert_eq!(read_exact_at(&file, &mut bytes, 7).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }

    #[test]
    fn writing_at_a_place_leaves_the_rest() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x");
        fs::write(&path, b"0123456789").unwrap();
        let file = File::options().write(true).open(&path).unwrap();
        write_all_at(&file, b"ab", 8).unwrap();
        write_all_at(&file, b"cd", 2).unwrap();
        write_all_at(&file, b"e", 11).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"01cd4567ab\0e");
    }

    #[cfg(unix)]
    #[test]
    fn a_file_that_was_replaced_is_told_from_the_new_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x");
        fs::write(&path, b"old").unwrap();
        let old = File::open(&path).unwrap();
        assert!(is_at(&old, &path));
        write_json(&path, &"new").unwrap();
        assert!(!is_at(&old, &path));
        fs::remove_file(&path).unwrap();
        assert!(!is_at(&old, &path));
    }

    #[cfg(unix)]
    #[test]
    fn neither_a_link_nor_a_pipe_is_opened() {
        let folder = tempfile::tempdir().unwrap();
        let (plain, link, pipe) = (folder.path().join("plain"), folder.path().join("link"), folder.path().join("pipe"));
        fs::write(&plain, "[1]").unwrap();
        std::os::unix::fs::symlink(&plain, &link).unwrap();
        let made = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
        assert!(made.success());
        let writing = || File::options().create(true).write(true).clone();
        assert_eq!(open_plain(File::options().read(true), &plain).unwrap().metadata().unwrap().len(), 3);
        for path in [&link, &pipe, &folder.path().to_path_buf()] {
            open_plain(File::options().read(true), path).unwrap_err();
            open_plain(&writing().truncate(true).clone(), path).unwrap_err();
            assert_eq!(read_json::<Vec<u32>>(path), None);
        }
        assert_eq!(fs::read(&plain).unwrap(), b"[1]");
        open_plain(&writing(), &folder.path().join("new")).unwrap();
    }

    #[test]
    fn a_folder_that_can_be_made_is_told_from_one_that_cannot() {
        let folder = tempfile::tempdir().unwrap();
        let (deep, file) = (folder.path().join("a/b"), folder.path().join("file"));
        fs::write(&file, "").unwrap();
        assert_eq!(nearest_folder(&deep), Some(folder.path().to_owned()));
        assert_eq!(nearest_folder(&file.join("a")), None);
        assert_eq!(can_create_in(&file.join("a")), Some(false));
        #[cfg(unix)]
        {
            assert_eq!((can_create_in(&deep), can_create_in(folder.path())), (Some(true), Some(true)));
        }
        assert!(!folder.path().join("a").exists());
    }

    #[test]
    fn a_disk_has_some_room() {
        let folder = tempfile::tempdir().unwrap();
        assert!(free_bytes(folder.path()).is_none_or(|free| free > 0));
    }
}
