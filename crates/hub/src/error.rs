//! The one error of this crate: a kind that programs can match on, and one line for people.
//!
//! Every sentence names where (a URL, a file), what was expected and found, and what to do about it. They stand in
//! this one file so that they sound alike.

use std::io;
use std::path::Path;

/// Shorthand for results of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// What went wrong, for programs; the text of [`Error`] is for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The name of the model is not written as a name can be.
    BadName,
    /// Nothing in the catalogue is called so.
    UnknownName,
    /// A path names no file, or something that is not a file.
    NoSuchFile,
    /// The model is not in the cache and the network must not be used.
    Offline,
    /// No connection: name resolution, refused, unreachable, or cut more often than was tried again.
    Network,
    /// A connection that stayed silent longer than allowed.
    Timeout,
    /// The certificate of the server was not accepted, or this machine has no certificates.
    Certificate,
    /// A proxy variable that cannot be used.
    Proxy,
    /// 401 or 403.
    Denied,
    /// 404: no such package, version or file on the server.
    NotFound,
    /// 429.
    TooManyRequests,
    /// 5xx, or another status that answers nothing.
    Server,
    /// The index, or a server of repositories, answered with something that is not what such servers say.
    BadIndex,
    /// The server sent a web page instead of the file.
    WebPage,
    /// The server sent the stand-in that git keeps for a large file.
    LfsPointer,
    /// The file has another length than announced.
    WrongSize,
    /// The file has another SHA-256 than announced; it was deleted.
    WrongHash,
    /// A file in the cache is no longer what was verified.
    Damaged,
    /// Not enough room on the disk.
    DiskFull,
    /// A file or folder may not be read or written.
    Permission,
    /// What was fetched is not a wheel, or one that cannot be read.
    NotAWheel,
    /// The wheel holds no such file.
    NotInWheel,
    /// The repository holds no such file, no such quantization, or nothing that could be a model.
    NotInRepository,
    /// Another process is working on the same model.
    InUse,
    /// Another failure of reading or writing.
    Io,
}

/// An error of fetching, verifying, listing or removing a model: one line with the remedy.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    kind: ErrorKind,
    message: String,
}

impl Error {
    pub(crate) fn new(kind: ErrorKind, message: impl Into<String>) -> Error {
        // An error is one line, whatever a server put into the text it is made of.
        let message: String = message.into().split_whitespace().collect::<Vec<_>>().join(" ");
        Error { kind, message }
    }

    /// What went wrong, to match on.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// The same error of a folder that another variable than DUAN_CACHE places.
    pub(crate) fn placed_by(mut self, variable: &str) -> Error {
        if matches!(self.kind, ErrorKind::Permission | ErrorKind::DiskFull) {
            self.message = self.message.replace("DUAN_CACHE", variable);
        }
        self
    }

    /// The same error of a server that could not be reached, with what else can be tried.
    pub(crate) fn or_try(mut self, hint: &str) -> Error {
        if matches!(self.kind, ErrorKind::Network | ErrorKind::Timeout) {
            self.message = format!("{}; {hint}", self.message);
        }
        self
    }

    /// Reading or writing `path` failed while `doing` it, for example "create the folder".
    pub(crate) fn io(doing: &str, path: &Path, error: &io::Error) -> Error {
        let shown = path.display();
        match error.kind() {
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => Error::new(
                ErrorKind::Permission,
                format!(
                    "cannot {doing} {shown}: {error}; make it writable for this user, or name another folder \
                     with DUAN_CACHE"
                ),
            ),
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Error::new(
                ErrorKind::DiskFull,
                format!(
                    "cannot {doing} {shown}: the disk is full; free some space, or name a folder on another disk \
                     with DUAN_CACHE"
                ),
            ),
            io::ErrorKind::FileTooLarge => Error::new(
                ErrorKind::DiskFull,
                format!(
                    "cannot {doing} {shown}: this file system allows no file that large; name a folder on another \
                     disk with DUAN_CACHE"
                ),
            ),
            _ => Error::new(ErrorKind::Io, format!("cannot {doing} {shown}: {error}")),
        }
    }

    /// Not enough room below `folder` for `needed_bytes`.
    pub(crate) fn disk_full(folder: &Path, needed_bytes: u64, free_bytes: u64) -> Error {
        Error::new(
            ErrorKind::DiskFull,
            format!(
                "not enough room in {}: {} are needed, {} are free; free some space, or name a folder on another \
                 disk with DUAN_CACHE",
                folder.display(),
                bytes_text(needed_bytes),
                bytes_text(free_bytes)
            ),
        )
    }

    /// The file that came from `url` has another hash than the source announced.
    pub(crate) fn wrong_hash(what: &str, expected: &str, found: &str) -> Error {
        let kind = if expected.len() == 40 { "the git hash" } else { "SHA-256" };
        Error::new(
            ErrorKind::WrongHash,
            format!(
                "{what} arrived damaged: expected {kind} {expected}, found {found}; it was deleted, fetch it again \
                 (if it happens twice, the server or a proxy on the way changes the file)"
            ),
        )
    }

    /// The server says itself that its file is not the one that is wanted.
    pub(crate) fn other_hash(url: &str, expected: &str, announced: &str) -> Error {
        Error::new(
            ErrorKind::WrongHash,
            format!(
                "{url} is another file: expected SHA-256 {expected}, the server announces {announced}; check the hash \
                 and the address"
            ),
        )
    }

    /// The file that came from `url` has another length than the source announced.
    pub(crate) fn wrong_size(what: &str, expected_bytes: u64, found_bytes: u64) -> Error {
        Error::new(
            ErrorKind::WrongSize,
            format!(
                "{what} has the wrong size: expected {expected_bytes} bytes, found {found_bytes}; the server or a \
                 proxy on the way sends another file, fetch it again or from another server"
            ),
        )
    }

    /// A web page came instead of the file.
    pub(crate) fn web_page(url: &str) -> Error {
        Error::new(
            ErrorKind::WebPage,
            format!(
                "{url} answered with a web page instead of the file; a proxy or a sign-in page of the network \
                 stands in between, open the address in a browser to see it"
            ),
        )
    }

    /// What git keeps in the place of a large file came instead of it.
    pub(crate) fn lfs_pointer(url: &str) -> Error {
        Error::new(
            ErrorKind::LfsPointer,
            format!(
                "{url} is not the model but a Git LFS pointer to it, a few lines of text; take the address behind \
                 the download button (on Hugging Face with /resolve/ in it instead of /raw/ or /blob/), or name the \
                 model as hf:org/name"
            ),
        )
    }

    /// A file in the cache changed after it was verified.
    pub(crate) fn damaged(name: &str, path: &Path, expected: &str, found: &str) -> Error {
        Error::new(
            ErrorKind::Damaged,
            format!(
                "{} is damaged: expected SHA-256 {expected}, found {found}; run `duan remove {name}` and fetch it \
                 again",
                path.display()
            ),
        )
    }

    /// The server answered `url` with a status that is no answer.
    pub(crate) fn status(url: &str, status: u16) -> Error {
        match status {
            401 | 403 | 407 => Error::new(
                ErrorKind::Denied,
                format!("{url} refuses access (status {status}); check the address, its credentials or the proxy"),
            ),
            404 | 410 => Error::new(
                ErrorKind::NotFound,
                format!("{url} does not exist (status {status}); check the name of package, version and file"),
            ),
            429 => Error::new(
                ErrorKind::TooManyRequests,
                format!("{url} asks for fewer requests (status 429); wait some minutes and try again"),
            ),
            _ => Error::new(
                ErrorKind::Server,
                format!("{url} answered with status {status}; try again later or from another server"),
            ),
        }
    }
}

/// A number of bytes as people read it: three digits and a decimal unit, as shops and disks count.
pub(crate) fn bytes_text(bytes: u64) -> String {
    const UNITS: [&str; 7] = ["bytes", "kB", "MB", "GB", "TB", "PB", "EB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 999.5 && unit + 1 < UNITS.len() {
        value /= 1000.0;
        unit += 1;
    }
    if unit == 0 {
        return format!("{bytes} bytes");
    }
    let digits = if value < 9.995 {
        2
    } else if value < 99.95 {
        1
    } else {
        0
    };
    format!("{value:.digits$} {}", UNITS[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_read_like_a_shop_writes_them() {
        assert_eq!(bytes_text(0), "0 bytes");
        assert_eq!(bytes_text(999), "999 bytes");
        assert_eq!(bytes_text(1000), "1.00 kB");
        assert_eq!(bytes_text(92_871_040), "92.9 MB");
        assert_eq!(bytes_text(999_600_000), "1.00 GB");
        assert_eq!(bytes_text(u64::MAX), "18.4 EB");
    }

    #[test]
    fn errors_of_the_system_get_their_kind_and_one_line() {
        let path = Path::new("cache/x.part");
        for (system, kind) in [
            (io::ErrorKind::StorageFull, ErrorKind::DiskFull),
            (io::ErrorKind::QuotaExceeded, ErrorKind::DiskFull),
            (io::ErrorKind::PermissionDenied, ErrorKind::Permission),
            (io::ErrorKind::ReadOnlyFilesystem, ErrorKind::Permission),
            (io::ErrorKind::BrokenPipe, ErrorKind::Io),
        ] {
            let error = Error::io("write", path, &io::Error::from(system));
            assert_eq!(error.kind(), kind);
            assert!(error.to_string().contains("cache/x.part"), "{error}");
        }
        let error = Error::new(ErrorKind::Io, "two\nlines\r\n  of text");
        assert_eq!(error.to_string(), "two lines of text");
    }
}
