//! One file over HTTP into a partial file: in pieces over several connections or over one, resumed, tried again, verified.
//!
//! The partial file stands beside a small JSON note of what it belongs to ([`note`]). Large files come in [`pieces`], where
//! the server allows it; everything else, and whatever goes wrong in a way that needs words, is [`sequential`]. Whatever
//! happened on the way, the hash of the whole has the last word.

mod content;
mod note;
mod pieces;
mod sequential;

use ureq::{Body, http};

use crate::address::without_credentials;
use crate::asked::Asked;
use crate::checksum::{Checksum, Hasher, Hashes};
use crate::client::Client;
use crate::error::{Error, ErrorKind, Result};
use crate::http::Token;
use crate::progress::Sink;
use crate::retry::Retry;

pub(crate) use note::Partial;

/// After this many bytes in one try the line counts as good again.
const PROGRESS_BYTES: u64 = 256 << 10;

/// No file system has files longer than this.
pub(crate) const LARGEST_FILE_BYTES: u64 = i64::MAX.unsigned_abs();

/// A file on a server, as a source announced it.
#[derive(Clone, Debug)]
pub(crate) struct Remote {
    pub(crate) url: String,
    pub(crate) filename: String,
    pub(crate) bytes: Option<u64>,
    pub(crate) checksum: Checksum,
    /// Who asks.
    pub(crate) token: Option<Token>,
    /// What kind of server it is, for the words of a refusal.
    pub(crate) asked: Asked,
}

impl Remote {
    fn hasher(&self) -> Hasher {
        Hasher::new(&self.checksum, self.bytes)
    }

    /// Refuses what was not announced.
    fn compare(&self, found: &Hashes) -> Result<()> {
        match found.other_than(&self.checksum) {
            Some(found) => Err(Error::wrong_hash(&without_credentials(&self.url), self.checksum.text(), found)),
            None => Ok(()),
        }
    }
}

/// Brings `remote` to the disk, whole and verified, and leaves it in `partial.file`. `beside_bytes` are needed on the
/// disk besides this file. Returns its SHA-256.
pub(crate) fn download(
    client: &Client,
    remote: &Remote,
    partial: &Partial,
    beside_bytes: u64,
    retry: &mut Retry,
    progress: Sink<'_>,
) -> Result<String> {
    if let Some(bytes) = remote.bytes.filter(|bytes| *bytes > LARGEST_FILE_BYTES) {
        let message = format!(
            "{} is announced with {bytes} bytes, which no file can have; try again later or name another server",
            without_credentials(&remote.url)
        );
        return Err(Error::new(ErrorKind::BadIndex, message));
    }
    if let Some(sha256) = pieces::download(client, remote, partial, beside_bytes, retry, progress)? {
        return Ok(sha256);
    }
    sequential::download(&client.http, remote, partial, beside_bytes, retry, progress)
}

/// The validator of an answer, if it stands for the very bytes (RFC 9110, 8.8.1).
fn strong_etag(response: &http::Response<Body>) -> Option<String> {
    let etag = response.headers().get("ETag").and_then(|value| value.to_str().ok());
    etag.filter(|tag| tag.starts_with('"')).map(str::to_string)
}
