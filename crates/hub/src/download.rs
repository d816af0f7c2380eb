//! One file over HTTP into a partial file: resumed, tried again, verified.
//!
//! The partial file stands beside a small JSON note of what it belongs to. It is continued only by a 206 whose
//! `Content-Range` begins where it ends and names the same length; every other answer starts over (RFC 9110, 14 and
//! 15.3.7). Whatever happened on the way, the SHA-256 of the whole has the last word.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use ureq::{Body, http};

use crate::error::{Error, ErrorKind, Result};
use crate::files::{CHUNK_BYTES, Throttle, check_room, hash_start, remove_file, write_json};
use crate::http::{Http, Request, host_of, is_web_page, network_error, without_credentials};
use crate::name::hex;
use crate::progress::{Progress, Sink};
use crate::retry::{Failure, Retry, pause_asked_for};

/// A file on a server, as a source announced it.
#[derive(Clone, Debug)]
pub(crate) struct Remote {
    pub(crate) url: String,
    pub(crate) filename: String,
    pub(crate) bytes: Option<u64>,
    /// In lower-case hexadecimal.
    pub(crate) sha256: String,
}

/// Where a download is kept until it is complete.
pub(crate) struct Partial {
    pub(crate) file: PathBuf,
    pub(crate) note: PathBuf,
}

impl Partial {
    /// `NAME.part` and `NAME.part.json` in `folder`.
    pub(crate) fn new(folder: &Path, name: &str) -> Partial {
        Partial { file: folder.join(format!("{name}.part")), note: folder.join(format!("{name}.part.json")) }
    }

    /// Removes both files.
    pub(crate) fn discard(&self) -> Result<()> {
        remove_file(&self.file)?;
        remove_file(&self.note)
    }
}

/// What a partial file belongs to.
#[derive(Serialize, Deserialize)]
struct Note {
    url: String,
    bytes: Option<u64>,
    sha256: String,
    /// A strong validator, if the server gave one.
    etag: Option<String>,
}

/// After this many bytes in one try the line counts as good again.
const PROGRESS_BYTES: u64 = 256 << 10;

/// Brings `remote` to the disk, whole and verified, and leaves it in `partial.file`. `beside_bytes` are needed on the
/// disk besides this file.
pub(crate) fn download(
    http: &Http,
    remote: &Remote,
    partial: &Partial,
    beside_bytes: u64,
    retry: &mut Retry,
    progress: Sink<'_>,
) -> Result<()> {
    let mut transfer = Transfer::open(remote, partial, beside_bytes, progress)?;
    let result = transfer.run(http, retry, progress);
    if let Err(error) = &result {
        // Nothing half-written stays on a full disk, and no empty file after a request that brought nothing.
        let is_written_full = error.kind() == ErrorKind::DiskFull && transfer.run_bytes > 0;
        if transfer.done == 0 || is_written_full {
            partial.discard()?;
        }
    }
    result
}

struct Transfer<'a> {
    remote: &'a Remote,
    partial: &'a Partial,
    beside_bytes: u64,
    file: File,
    hasher: Sha256,
    /// Bytes in the file, all of them hashed.
    done: u64,
    total: Option<u64>,
    etag: Option<String>,
    /// The server ended a body of unknown length.
    has_ended: bool,
    /// Bytes that the last try brought.
    gained: u64,
    /// Bytes and begin of this run, for the rate.
    run_bytes: u64,
    run_start: Instant,
}

impl<'a> Transfer<'a> {
    /// Takes up what is there, if its note says that it is the same file.
    fn open(remote: &'a Remote, partial: &'a Partial, beside_bytes: u64, progress: Sink<'_>) -> Result<Transfer<'a>> {
        let note = duan_files::read_json::<Note>(&partial.note)
            .filter(|note| note.sha256 == remote.sha256 && (remote.bytes.is_none() || note.bytes == remote.bytes));
        let file = open_partial(&partial.file, note.is_none())?;
        let mut transfer = Transfer {
            remote,
            partial,
            beside_bytes,
            file,
            hasher: Sha256::new(),
            done: 0,
            total: remote.bytes,
            etag: None,
            has_ended: false,
            gained: 0,
            run_bytes: 0,
            run_start: Instant::now(),
        };
        if let Some(note) = note {
            transfer.total = note.bytes;
            // A validator means something only to the server that gave it.
            transfer.etag = note.etag.filter(|_| note.url == remote.url);
            transfer.take_up(progress)?;
        }
        Ok(transfer)
    }

    fn take_up(&mut self, progress: Sink<'_>) -> Result<()> {
        let failed = |error: std::io::Error| Error::io("read", &self.partial.file, &error);
        let length = self.file.metadata().map_err(failed)?.len();
        // Without a known length nobody could say that a range continues this file.
        if length == 0 || self.total.is_none_or(|total| length > total) {
            return self.start_over();
        }
        hash_start(&mut self.file, &self.partial.file, length, &mut self.hasher, progress)?;
        self.done = length;
        Ok(())
    }

    fn start_over(&mut self) -> Result<()> {
        self.file = open_partial(&self.partial.file, true)?;
        self.hasher = Sha256::new();
        self.done = 0;
        self.total = self.remote.bytes;
        self.etag = None;
        self.has_ended = false;
        Ok(())
    }

    fn is_complete(&self) -> bool {
        self.has_ended || self.total == Some(self.done)
    }

    fn check_room(&self) -> Result<()> {
        let folder = self.partial.file.parent().unwrap_or(Path::new("."));
        match self.total {
            Some(total) => check_room(folder, total.saturating_sub(self.done).saturating_add(self.beside_bytes)),
            None => Ok(()),
        }
    }

    /// Tries until the file is whole and right, or there is no hope.
    fn run(&mut self, http: &Http, retry: &mut Retry, progress: Sink<'_>) -> Result<()> {
        let mut has_old_bytes = self.done > 0;
        self.check_room()?;
        loop {
            while !self.is_complete() {
                let Err(failure) = self.attempt(http, progress) else { continue };
                if self.gained >= PROGRESS_BYTES {
                    retry.forget_failures();
                }
                retry.pause_or_fail(failure, progress)?;
            }
            let Err(error) = self.finish() else { return Ok(()) };
            let is_old_damage = error.kind() == ErrorKind::WrongHash && has_old_bytes;
            self.start_over()?;
            if !is_old_damage {
                return Err(error);
            }
            // What an earlier run left may have been torn by a crash: one clean start decides.
            has_old_bytes = false;
            progress(Progress::Retrying { attempt: 2, wait_ms: 0, reason: error.to_string() });
        }
    }

    /// One request and its body.
    fn attempt(&mut self, http: &Http, progress: Sink<'_>) -> std::result::Result<(), Failure> {
        self.gained = 0;
        progress(Progress::Connecting { host: host_of(&self.remote.url) });
        tracing::debug!(url = self.shown_url(), from = self.done, total = self.total, "request");
        let mut response = self.ask(http)?;
        if self.done > 0 && response.status() != 200 && self.is_refusal_to_continue(&response) {
            self.start_over().map_err(Failure::last)?;
            response = self.ask(http)?;
        }
        match response.status().as_u16() {
            200 => self.begin(&mut response)?,
            206 if self.done > 0 => {}
            status => {
                let error = Error::status(&self.shown_url(), status);
                return Err(Failure::of_status(error, status, pause_asked_for(&response)));
            }
        }
        self.receive(response, progress)
    }

    fn ask(&self, http: &Http) -> std::result::Result<http::Response<Body>, Failure> {
        let request = Request { url: &self.remote.url, accept: None, from: self.done, if_range: self.etag.as_deref() };
        // Once bytes have come, a network is there, and what failed may pass.
        http.get(&request).map_err(|failure| failure.or_again(self.run_bytes > 0))
    }

    /// Whether the answer to a request for the rest is a 416, or a 206 that does not continue what is here.
    fn is_refusal_to_continue(&self, response: &http::Response<Body>) -> bool {
        match response.status().as_u16() {
            416 => true,
            206 => {
                let header = |name| response.headers().get(name).and_then(|value| value.to_str().ok());
                let is_encoded = header("Content-Encoding").is_some_and(|coding| coding != "identity");
                let is_other = match (&self.etag, header("ETag")) {
                    (Some(ours), Some(theirs)) => ours != theirs,
                    _ => false,
                };
                let range = header("Content-Range").and_then(parse_content_range);
                let continues = range
                    .is_some_and(|(start, end, total)| start == self.done && Some(total) == self.total && end < total);
                is_encoded || is_other || !continues
            }
            _ => false,
        }
    }

    /// A whole file begins. What is here already is given up only after the answer looks like the file.
    fn begin(&mut self, response: &mut http::Response<Body>) -> std::result::Result<(), Failure> {
        if is_web_page(response) {
            return Err(Failure::last(Error::web_page(&self.shown_url())));
        }
        let length = response.body().content_length();
        if let (Some(expected), Some(found)) = (self.remote.bytes, length)
            && expected != found
        {
            let mut head = Vec::new();
            let read = response.body_mut().as_reader().take(64).read_to_end(&mut head);
            if read.is_ok() && is_html(&head) {
                return Err(Failure::last(Error::web_page(&self.shown_url())));
            }
            return Err(Failure::last(Error::wrong_size(&self.shown_url(), expected, found)));
        }
        self.start_over().map_err(Failure::last)?;
        self.total = self.remote.bytes.or(length);
        let etag = response.headers().get("ETag").and_then(|value| value.to_str().ok());
        self.etag = etag.filter(|tag| tag.starts_with('"')).map(str::to_string);
        let note = Note {
            url: self.remote.url.clone(),
            bytes: self.total,
            sha256: self.remote.sha256.clone(),
            etag: self.etag.clone(),
        };
        self.check_room().and_then(|()| write_json(&self.partial.note, &note)).map_err(Failure::last)
    }

    fn receive(&mut self, response: http::Response<Body>, progress: Sink<'_>) -> std::result::Result<(), Failure> {
        let mut reader = response.into_body().into_reader();
        let mut buffer = vec![0; CHUNK_BYTES];
        let mut throttle = Throttle::new();
        self.report(progress);
        loop {
            let got = match reader.read(&mut buffer) {
                Ok(0) => break,
                Ok(got) => got,
                Err(error) => {
                    return Err(Failure::again(network_error(
                        &self.remote.url,
                        &host_of(&self.remote.url),
                        error.into(),
                    )));
                }
            };
            self.keep(&buffer[..got])?;
            if throttle.is_due() {
                self.report(progress);
            }
        }
        self.report(progress);
        match self.total {
            Some(total) if self.done < total => Err(Failure::again(Error::new(
                ErrorKind::Network,
                format!(
                    "{} was cut after {} of {total} bytes; try again, what has arrived is kept",
                    self.shown_url(),
                    self.done
                ),
            ))),
            _ => {
                self.has_ended = true;
                Ok(())
            }
        }
    }

    fn keep(&mut self, bytes: &[u8]) -> std::result::Result<(), Failure> {
        let after = self.done.saturating_add(bytes.len() as u64);
        if self.done == 0 && is_html(bytes) {
            return Err(Failure::last(Error::web_page(&self.shown_url())));
        }
        if let Some(total) = self.total
            && after > total
        {
            let error = Error::wrong_size(&self.shown_url(), total, after);
            return Err(Failure::last(self.start_over().err().unwrap_or(error)));
        }
        let written = self.file.write_all(bytes);
        written.map_err(|error| Failure::last(Error::io("write", &self.partial.file, &error)))?;
        self.hasher.update(bytes);
        self.done = after;
        self.gained += bytes.len() as u64;
        self.run_bytes += bytes.len() as u64;
        Ok(())
    }

    fn report(&self, progress: Sink<'_>) {
        let seconds = self.run_start.elapsed().as_secs_f64();
        progress(Progress::Downloading {
            file: self.remote.filename.clone(),
            done_bytes: self.done,
            total_bytes: self.total,
            rate_bytes_per_s: (self.run_bytes > 0 && seconds > 0.0).then(|| self.run_bytes as f64 / seconds),
        });
    }

    /// Compares length and hash, and makes the bytes last.
    fn finish(&mut self) -> Result<()> {
        if let Some(expected) = self.remote.bytes
            && expected != self.done
        {
            return Err(Error::wrong_size(&self.shown_url(), expected, self.done));
        }
        let found = hex(&self.hasher.clone().finalize());
        if found != self.remote.sha256 {
            return Err(Error::wrong_hash(&self.shown_url(), &self.remote.sha256, &found));
        }
        self.file.sync_all().map_err(|error| Error::io("write", &self.partial.file, &error))
    }

    fn shown_url(&self) -> String {
        without_credentials(&self.remote.url)
    }
}

/// Opens the partial file at its end, or empty.
fn open_partial(path: &Path, is_empty: bool) -> Result<File> {
    let open = || {
        let mut options = OpenOptions::new();
        let mut file = options.read(true).write(true).create(true).truncate(is_empty).open(path)?;
        file.seek(SeekFrom::End(0))?;
        Ok(file)
    };
    open().map_err(|error| Error::io("open", path, &error))
}

/// Start, last byte and total of `bytes START-LAST/TOTAL`; none for other forms and for an unknown total.
fn parse_content_range(value: &str) -> Option<(u64, u64, u64)> {
    let (range, total) = value.trim().strip_prefix("bytes ")?.trim().split_once('/')?;
    let (start, last) = range.split_once('-')?;
    let (start, last, total) = (start.parse().ok()?, last.parse().ok()?, total.parse().ok()?);
    (start <= last && last < total).then_some((start, last, total))
}

/// Whether a file begins like a web page, whatever its announced type.
fn is_html(bytes: &[u8]) -> bool {
    let head: Vec<u8> = bytes.trim_ascii_start().iter().take(14).map(u8::to_ascii_lowercase).collect();
    head.starts_with(b"<!doctype html") || head.starts_with(b"<html")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_read_or_refused() {
        assert_eq!(parse_content_range("bytes 5-9/10"), Some((5, 9, 10)));
        for text in ["bytes 5-9/*", "bytes */10", "bytes 9-5/10", "bytes 5-10/10", "items 5-9/10", "5-9/10", ""] {
            assert_eq!(parse_content_range(text), None, "{text}");
        }
    }

    #[test]
    fn web_pages_are_recognised_by_their_beginning() {
        assert!(is_html(b"\n <!DOCTYPE html><html>") && is_html(b"<HTML>"));
        assert!(!is_html(b"PK\x03\x04") && !is_html(b"") && !is_html(b"<xml"));
    }
}
