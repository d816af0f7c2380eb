//! A file over one connection, from its beginning to its end, resumed where the server agrees.
//!
//! The partial file simply grows, so that its length says what is there. It is continued only by a 206 whose
//! `Content-Range` begins where it ends and names the same length; every other answer starts over (RFC 9110, 14 and
//! 15.3.7).

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::time::Instant;

use sha2::digest::Update as _;
use ureq::{Body, http};

use super::content::{impostor, parse_content_range};
use super::note::{Note, Partial, Spans};
use super::{PROGRESS_BYTES, Remote, strong_etag};
use crate::address::{host_of, without_credentials};
use crate::checksum::Hasher;
use crate::error::{Error, ErrorKind, Result};
use crate::files::{CHUNK_BYTES, Throttle, check_room, hash_start, open_own};
use crate::http::{Http, Request, is_web_page, network_error};
use crate::progress::{Progress, Sink};
use crate::retry::{Failure, Retry, pause_asked_for};

/// A file of unknown length stops where less than this is left on the disk,
const RESERVE_BYTES: u64 = 256 << 20;
/// and the disk is asked each time that so much has come.
const RESERVE_EVERY_BYTES: u64 = 16 << 20;

/// Brings `remote` to the disk, whole and verified, and leaves it in `partial.file`. `beside_bytes` are needed on the
/// disk besides this file. Returns its SHA-256.
pub(super) fn download(
    http: &Http,
    remote: &Remote,
    partial: &Partial,
    beside_bytes: u64,
    retry: &mut Retry,
    progress: Sink<'_>,
) -> Result<String> {
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
    hasher: Hasher,
    /// Bytes in the file, all of them hashed.
    done: u64,
    total: Option<u64>,
    etag: Option<String>,
    /// The server ended a body of unknown length.
    has_ended: bool,
    /// The most bytes that were in the file after any try: what is fetched again is no progress.
    best: u64,
    /// Bytes in the file when the disk was last asked for its room.
    room_checked_at: u64,
    /// Bytes and begin of this run, for the rate.
    run_bytes: u64,
    run_start: Instant,
}

impl<'a> Transfer<'a> {
    /// Takes up what is there, if its note says that it is the same file.
    fn open(remote: &'a Remote, partial: &'a Partial, beside_bytes: u64, progress: Sink<'_>) -> Result<Transfer<'a>> {
        let note = Note::read(remote, partial);
        let file = open_partial(&partial.file, note.is_none())?;
        let mut transfer = Transfer {
            remote,
            partial,
            beside_bytes,
            file,
            hasher: remote.hasher(),
            done: 0,
            total: remote.bytes,
            etag: None,
            has_ended: false,
            best: 0,
            room_checked_at: 0,
            run_bytes: 0,
            run_start: Instant::now(),
        };
        if let Some(note) = note {
            transfer.total = note.bytes;
            transfer.etag = note.etag.clone();
            transfer.take_up(note, progress)?;
        }
        Ok(transfer)
    }

    fn take_up(&mut self, note: Note, progress: Sink<'_>) -> Result<()> {
        let failed = |error: std::io::Error| Error::io("read", &self.partial.file, &error);
        let mut length = self.file.metadata().map_err(failed)?.len();
        if let Some(spans) = &note.spans {
            // Fetched in pieces before: what lies behind the first gap cannot be used here. The note goes first, so that
            // no crash leaves one that speaks of more than there is.
            length = spans.prefix_bytes().min(length);
            Note { spans: Some(Spans::prefix(length)), ..note.clone() }.write(self.partial)?;
            self.file.set_len(length).map_err(failed)?;
            Note { spans: None, ..note }.write(self.partial)?;
        }
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
        self.hasher = self.remote.hasher();
        self.done = 0;
        self.total = self.remote.bytes;
        self.etag = None;
        self.has_ended = false;
        self.room_checked_at = 0;
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

    /// Of a body that says no length nobody knows whether it ends before the disk does: now and then some room must be left.
    fn check_reserve(&mut self) -> Result<()> {
        if self.total.is_some() || self.done < self.room_checked_at.saturating_add(RESERVE_EVERY_BYTES) {
            return Ok(());
        }
        self.room_checked_at = self.done;
        let folder = self.partial.file.parent().unwrap_or(Path::new("."));
        check_room(folder, self.beside_bytes.saturating_add(RESERVE_BYTES))
    }

    /// Tries until the file is whole and right, or there is no hope.
    fn run(&mut self, http: &Http, retry: &mut Retry, progress: Sink<'_>) -> Result<String> {
        let mut has_old_bytes = self.done > 0;
        self.best = self.done;
        self.check_room()?;
        loop {
            while !self.is_complete() {
                let Err(failure) = self.attempt(http, progress) else { continue };
                if self.done >= self.best.saturating_add(PROGRESS_BYTES) {
                    retry.forget_failures();
                }
                self.best = self.best.max(self.done);
                retry.pause_or_fail(failure, progress)?;
            }
            let error = match self.finish() {
                Ok(sha256) => return Ok(sha256),
                Err(error) => error,
            };
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
                let error = self.remote.asked.refused(&self.remote.url, &response);
                return Err(Failure::of_status(error, status, pause_asked_for(&response)));
            }
        }
        self.receive(response, progress)
    }

    fn ask(&self, http: &Http) -> std::result::Result<http::Response<Body>, Failure> {
        let request = Request {
            url: &self.remote.url,
            range: (self.done > 0).then_some((self.done, None)),
            if_range: self.etag.as_deref(),
            token: self.remote.token.as_ref(),
            ..Request::default()
        };
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
                    // A hash has the last word, where there is one.
                    _ => !self.remote.checksum.is_known(),
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
            if let (true, Some(impostor)) = (read.is_ok(), impostor(&head)) {
                return Err(Failure::last(impostor.error(&self.shown_url())));
            }
            return Err(Failure::last(Error::wrong_size(&self.shown_url(), expected, found)));
        }
        self.start_over().map_err(Failure::last)?;
        self.total = self.remote.bytes.or(length);
        self.etag = strong_etag(response);
        let note = Note {
            url: without_credentials(&self.remote.url),
            bytes: self.total,
            checksum: self.remote.checksum.text().to_string(),
            etag: self.etag.clone(),
            spans: None,
        };
        self.check_room().and_then(|()| note.write(self.partial)).map_err(Failure::last)
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
        if let (0, Some(impostor)) = (self.done, impostor(bytes)) {
            return Err(Failure::last(impostor.error(&self.shown_url())));
        }
        if let Some(total) = self.total
            && after > total
        {
            let error = Error::wrong_size(&self.shown_url(), total, after);
            return Err(Failure::last(self.start_over().err().unwrap_or(error)));
        }
        self.check_reserve().map_err(Failure::last)?;
        let written = self.file.write_all(bytes);
        written.map_err(|error| Failure::last(Error::io("write", &self.partial.file, &error)))?;
        self.hasher.update(bytes);
        self.done = after;
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

    /// Compares length and hash, and makes the bytes last. Returns the SHA-256.
    fn finish(&mut self) -> Result<String> {
        if let Some(expected) = self.remote.bytes
            && expected != self.done
        {
            return Err(Error::wrong_size(&self.shown_url(), expected, self.done));
        }
        let hashes = self.hasher.clone().finish();
        self.remote.compare(&hashes)?;
        self.file.sync_all().map_err(|error| Error::io("write", &self.partial.file, &error))?;
        Ok(hashes.sha256)
    }

    fn shown_url(&self) -> String {
        without_credentials(&self.remote.url)
    }
}

/// Opens the partial file at its end, or empty.
fn open_partial(path: &Path, is_empty: bool) -> Result<File> {
    let mut options = OpenOptions::new();
    let mut file = open_own(options.read(true).write(true).create(true).truncate(is_empty), path)?;
    file.seek(SeekFrom::End(0)).map_err(|error| Error::io("open", path, &error))?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::asked::Asked;
    use crate::checksum::Checksum;
    use crate::server::{Answer, Server};

    #[test]
    fn a_body_of_unknown_length_ends_before_the_disk_does() {
        let (server, folder) = (Server::start(), tempfile::tempdir().unwrap());
        let remote = Remote {
            url: format!("http://{}/x", server.address),
            filename: "x".into(),
            bytes: None,
            checksum: Checksum::Unknown,
            token: None,
            asked: Asked::Address,
        };
        let partial = Partial::new(folder.path(), "x");
        let http = Http::new(Duration::from_secs(9), Duration::from_secs(9));
        let fetch = |count: usize, beside_bytes: u64| {
            server.script("/x", [Answer::Unannounced(count)]);
            let mut retry = Retry::new(0, Duration::ZERO);
            download(&http, &remote, &partial, beside_bytes, &mut retry, &mut |_| {})
        };
        let reserve = RESERVE_EVERY_BYTES as usize;
        // No disk has as much room as is asked for beside it.
        fetch(reserve / 2, u64::MAX).unwrap();
        fetch(reserve + (1 << 20), 0).unwrap();
        let error = fetch(reserve + (1 << 20), u64::MAX).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::DiskFull, "{error}");
        assert!(!partial.file.exists() && !partial.note.exists());
    }
}
