//! Which model a file on the disk is: the hash of its contents, and what tells that it has not changed since it was hashed.

use std::fs::{self, File, Metadata};
use std::io;
use std::path::PathBuf;
use std::time::UNIX_EPOCH;

use duan_model::checkpoint::Checkpoint;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// Bytes that are read and hashed at a time.
const CHUNK_BYTES: usize = 1 << 20;

/// The files of a model, open.
#[derive(Debug)]
pub(super) struct ModelFiles {
    files: Vec<File>,
    /// As they were when the model was opened.
    pub(super) stamps: Vec<Stamp>,
}

/// What a file was when it was looked at. While this stays, its contents do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Stamp {
    /// Where it was found; only for people, as files are known by what follows.
    pub(super) path: PathBuf,
    device: u64,
    inode: u64,
    pub(super) bytes: u64,
    /// Time of the last change in nanoseconds since 1970.
    mtime_ns: u64,
}

impl Stamp {
    fn of(path: PathBuf, metadata: &Metadata) -> Self {
        #[cfg(unix)]
        let (device, inode) = {
            use std::os::unix::fs::MetadataExt as _;
            (metadata.dev(), metadata.ino())
        };
        #[cfg(not(unix))]
        let (device, inode) = (0, 0);
        let since = metadata.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        let mtime_ns = since.and_then(|since| u64::try_from(since.as_nanos()).ok()).unwrap_or(0);
        Self { path, device, inode, bytes: metadata.len(), mtime_ns }
    }

    /// The file that has this name now, where there is one.
    fn now(&self) -> Option<Self> {
        fs::metadata(&self.path).ok().map(|metadata| Self::of(self.path.clone(), &metadata))
    }

    /// Whether there is another file by this name now, or a changed one. One that is not there may be on a disk that is not. Device
    /// and inode say nothing here: two computers that share a disk, and two containers that share a folder, number them
    /// each in their own way.
    pub(super) fn is_replaced(&self) -> bool {
        self.now().is_some_and(|now| (now.bytes, now.mtime_ns) != (self.bytes, self.mtime_ns))
    }

    /// Whether both are the same unchanged file, by whatever name. Where the system has no inodes the path tells.
    fn is_same(&self, other: &Self) -> bool {
        let facts = |stamp: &Self| (stamp.device, stamp.inode, stamp.bytes, stamp.mtime_ns);
        facts(self) == facts(other) && (cfg!(unix) || self.path == other.path)
    }
}

/// Whether all files are the same unchanged ones.
pub(super) fn are_same(a: &[Stamp], b: &[Stamp]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.is_same(b))
}

impl ModelFiles {
    /// The files behind `file`; none where it lies in memory.
    pub(super) fn of(file: &Checkpoint) -> io::Result<Option<Self>> {
        let Some(found) = file.disk_files().map_err(io::Error::other)? else { return Ok(None) };
        let mut files = Vec::with_capacity(found.len());
        let mut stamps = Vec::with_capacity(found.len());
        for (path, file) in found {
            // The path is for people and for `duan remove`: what it was called here says nothing from another folder.
            let path = fs::canonicalize(&path).unwrap_or(path);
            stamps.push(Stamp::of(path, &file.metadata()?));
            files.push(file);
        }
        Ok(Some(Self { files, stamps }))
    }

    /// Length of all files.
    pub(super) fn bytes(&self) -> u64 {
        self.stamps.iter().map(|stamp| stamp.bytes).sum()
    }

    /// Whether the files are still what they were when the model was opened.
    pub(super) fn are_unchanged(&self) -> bool {
        let now = |(file, stamp): (&File, &Stamp)| Some(Stamp::of(stamp.path.clone(), &file.metadata().ok()?));
        let now: Option<Vec<Stamp>> = self.files.iter().zip(&self.stamps).map(now).collect();
        now.is_some_and(|now| are_same(&now, &self.stamps))
    }

    /// Whether the files are unchanged, and still those that their names mean: what is known of a name holds for them then.
    pub(super) fn are_in_place(&self) -> bool {
        let named: Option<Vec<Stamp>> = self.stamps.iter().map(Stamp::now).collect();
        self.are_unchanged() && named.is_some_and(|named| are_same(&named, &self.stamps))
    }

    /// Reads all contents for the model's id. Some seconds for a large model.
    pub(super) fn hash(&self) -> io::Result<String> {
        let mut hashes = Vec::with_capacity(self.files.len());
        let mut buffer = vec![0; CHUNK_BYTES];
        for (file, stamp) in self.files.iter().zip(&self.stamps) {
            let mut hasher = Sha256::new();
            let mut done = 0;
            while done < stamp.bytes {
                let length = usize::try_from(stamp.bytes - done).unwrap_or(usize::MAX).min(CHUNK_BYTES);
                duan_files::read_exact_at(file, &mut buffer[..length], done)?;
                hasher.update(&buffer[..length]);
                done += length as u64;
            }
            hashes.push(hasher.finalize());
        }
        let id = match &hashes[..] {
            [one] => *one,
            several => Sha256::digest(several.concat()),
        };
        Ok(id.iter().map(|byte| format!("{byte:02x}")).collect())
    }
}

/// Whether `text` is an id, and so a plain name of a folder.
pub(super) fn is_id(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit() && !byte.is_ascii_uppercase())
}
