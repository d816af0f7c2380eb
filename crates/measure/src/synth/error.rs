//! Why a synthetic file was not written.

use std::io;
use std::path::{Path, PathBuf};

/// An error of writing a synthetic file: one line with the remedy.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Something is there already.
    #[error("{} exists already and was not changed; name another file, or say --force to replace it", path.display())]
    Exists {
        /// The file.
        path: PathBuf,
    },
    /// The path is a folder's, or has no name.
    #[error("{} is no name for a file; give a path that ends in .gguf", path.display())]
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
    /// Keys or tensors that do not go together: a fault of duan.
    #[error(transparent)]
    Model(Box<duan_model::Error>),
}

impl Error {
    pub(super) fn io(path: &Path, source: io::Error) -> Error {
        Error::Io { path: path.to_owned(), source }
    }
}

// In a box, because it is much larger than the others.
impl From<duan_model::Error> for Error {
    fn from(error: duan_model::Error) -> Error {
        Error::Model(Box::new(error))
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
