//! A large file in pieces over several connections.
//!
//! All write into one partial file, each at its place, and a note beside it says which bytes are there. The note is written
//! after the bytes it speaks of have reached the disk, never before; so a process that ends anywhere, also by a loss of
//! power, leaves a note that is true, and a later run fetches what is missing and nothing else.
//!
//! The first connection finds out whether the server sends pieces at all: only a 206 with the very range that was asked
//! for and the same validator is one (RFC 9110, 14 and 15.3.7). Then the others join. A connection that the server refuses
//! because there are too many is not opened again while another one works. Everything else that is no piece ends this way
//! of fetching, and [`super::sequential`] goes on with what is there from the beginning of the file and has the words for
//! what is wrong.

use std::fs::{File, OpenOptions};
use std::io::Read;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::Scope;
use std::time::{Duration, Instant};

use ureq::{Body, http};

use super::content::{impostor_in, parse_content_range};
use super::note::{Missing, Note, Partial, Spans};
use super::{PROGRESS_BYTES, Remote, strong_etag};
use crate::address::{host_of, without_credentials};
use crate::client::Client;
use crate::error::{Error, ErrorKind, Result};
use crate::files::{CHUNK_BYTES, Throttle, check_room, hash_start, open_own};
use crate::http::{Request, network_error};
use crate::progress::{Progress, Sink};
use crate::retry::{Failure, Retry, pause_asked_for};

/// How long bytes may be on the disk before the note tells of them. A process that is killed loses no more.
const NOTE_EVERY: Duration = Duration::from_secs(2);

/// Fetches `remote` in pieces and verifies it. Returns its SHA-256, or nothing where it is too small for that, or where the
/// server sends no pieces; what is there then stays for another way.
pub(super) fn download(
    client: &Client,
    remote: &Remote,
    partial: &Partial,
    beside_bytes: u64,
    retry: &mut Retry,
    progress: Sink<'_>,
) -> Result<Option<String>> {
    let connections = &client.connections;
    let Some(total) = remote.bytes.filter(|bytes| *bytes >= connections.from_bytes.max(1)) else { return Ok(None) };
    if connections.count < 2 {
        return Ok(None);
    }
    loop {
        let mut transfer = Transfer::open(remote, partial, total)?;
        let had_old_bytes = transfer.spans.bytes() > 0;
        let result = transfer.run(client, beside_bytes, retry, progress);
        if let Err(error) = &result {
            // Nothing half-written stays on a full disk, and no empty file after requests that brought nothing.
            let is_written_full = error.kind() == ErrorKind::DiskFull && transfer.run_bytes > 0;
            if transfer.spans.bytes() == 0 || is_written_full {
                partial.discard()?;
            }
        }
        if !result? {
            return Ok(None);
        }
        match transfer.finish(progress) {
            Ok(sha256) => return Ok(Some(sha256)),
            Err(error) => {
                partial.discard()?;
                if error.kind() != ErrorKind::WrongHash || !had_old_bytes {
                    return Err(error);
                }
                // What an earlier run left may have been torn: one clean start decides.
                progress(Progress::Retrying { attempt: 2, wait_ms: 0, reason: error.to_string() });
            }
        }
    }
}

/// What a connection tells.
enum Message {
    /// The server sends pieces.
    Began,
    /// So many bytes are in the file from there on.
    Arrived(u64, u64),
    /// The connection has nothing more to do.
    Left,
    /// The server does not send this piece.
    NoPieces,
    /// The connection failed.
    Failed(Failure),
}

/// What all connections see.
struct Shared<'a> {
    client: &'a Client,
    remote: &'a Remote,
    path: &'a Path,
    file: &'a File,
    total: u64,
    missing: Mutex<Missing>,
    /// The validator that all pieces must have.
    etag: Mutex<Option<String>>,
    stop: AtomicBool,
}

struct Transfer<'a> {
    remote: &'a Remote,
    partial: &'a Partial,
    file: File,
    total: u64,
    spans: Spans,
    etag: Option<String>,
    last_note: Instant,
    /// Bytes and begin of this run, for the rate.
    run_bytes: u64,
    run_start: Instant,
}

impl<'a> Transfer<'a> {
    fn open(remote: &'a Remote, partial: &'a Partial, total: u64) -> Result<Transfer<'a>> {
        let note = Note::read(remote, partial);
        let mut options = OpenOptions::new();
        let options = options.read(true).write(true).create(true).truncate(note.is_none());
        let failed = |error: std::io::Error| Error::io("open", &partial.file, &error);
        let file = open_own(options, &partial.file)?;
        let length = file.metadata().map_err(failed)?.len();
        let (spans, etag) = match note {
            Some(note) => (note.spans.unwrap_or_else(|| Spans::prefix(length)), note.etag),
            None => (Spans::default(), None),
        };
        // More than there is, or more than there can be: nothing of it is to be believed.
        let is_sound = spans.end() <= length.min(total);
        let spans = if is_sound { spans } else { Spans::default() };
        let now = Instant::now();
        Ok(Transfer { remote, partial, file, total, spans, etag, last_note: now, run_bytes: 0, run_start: now })
    }

    /// Fetches what is missing; false if the server sends no pieces.
    fn run(&mut self, client: &Client, beside_bytes: u64, retry: &mut Retry, progress: Sink<'_>) -> Result<bool> {
        let folder = self.partial.file.parent().unwrap_or(Path::new("."));
        check_room(folder, (self.total - self.spans.bytes()).saturating_add(beside_bytes))?;
        self.write_note()?;
        let missing = self.spans.missing(self.total, client.connections.piece_bytes);
        if missing.is_empty() {
            return Ok(true);
        }
        let file = self.file.try_clone().map_err(|error| Error::io("open", &self.partial.file, &error))?;
        let shared = Shared {
            client,
            remote: self.remote,
            path: &self.partial.file,
            file: &file,
            total: self.total,
            missing: Mutex::new(missing),
            etag: Mutex::new(self.etag.clone()),
            stop: AtomicBool::new(false),
        };
        progress(Progress::Connecting { host: host_of(&self.remote.url) });
        let (sender, messages) = channel();
        let result = std::thread::scope(|scope| {
            let mut crew = Crew { scope, shared: &shared, sender, active: 0, wanted: 1 };
            crew.fill_up();
            let result = self.conduct(&mut crew, &messages, retry, progress);
            shared.stop.store(true, Ordering::Relaxed);
            result
        });
        self.etag = lock(&shared.etag).clone();
        // Whatever happened, what is there is noted, also what came after the end was decided.
        for message in messages.try_iter() {
            if let Message::Arrived(start, end) = message {
                self.spans.add(start, end);
                self.run_bytes += end - start;
            }
        }
        let noted = self.write_note();
        self.report(progress);
        let is_done = result?;
        noted.map(|()| is_done)
    }

    fn conduct(
        &mut self,
        crew: &mut Crew<'_, '_>,
        messages: &Receiver<Message>,
        retry: &mut Retry,
        progress: Sink<'_>,
    ) -> Result<bool> {
        let mut throttle = Throttle::new();
        let mut since_failure: u64 = 0;
        let mut busy: Option<Failure> = None;
        while crew.active > 0 {
            // Every connection ends with a message, so one comes.
            let Ok(message) = messages.recv() else { break };
            match message {
                Message::Began => {
                    crew.wanted = crew.shared.client.connections.count;
                    crew.fill_up();
                    self.etag = lock(&crew.shared.etag).clone();
                    self.write_note()?;
                    self.report(progress);
                }
                Message::Arrived(start, end) => {
                    self.spans.add(start, end);
                    self.run_bytes += end - start;
                    since_failure += end - start;
                    if throttle.is_due() {
                        self.report(progress);
                    }
                    if self.last_note.elapsed() >= NOTE_EVERY {
                        self.write_note()?;
                    }
                }
                Message::Left => crew.active -= 1,
                Message::NoPieces => return Ok(false),
                Message::Failed(failure) => {
                    crew.active -= 1;
                    if since_failure >= PROGRESS_BYTES {
                        retry.forget_failures();
                    }
                    since_failure = 0;
                    if crew.active > 0 && failure.is_of_a_busy_server() {
                        crew.wanted = crew.active;
                        busy = Some(failure);
                    } else {
                        retry.pause_or_fail(failure, progress)?;
                        crew.fill_up();
                    }
                }
            }
            // The last one left while another one gave a piece back.
            if crew.active == 0 && !lock(&crew.shared.missing).is_empty() {
                if let Some(failure) = busy.take() {
                    retry.pause_or_fail(failure, progress)?;
                }
                crew.fill_up();
            }
        }
        Ok(true)
    }

    /// Notes what is there, after it has reached the disk.
    fn write_note(&mut self) -> Result<()> {
        self.last_note = Instant::now();
        self.file.sync_data().map_err(|error| Error::io("write", &self.partial.file, &error))?;
        let note = Note {
            url: without_credentials(&self.remote.url),
            bytes: Some(self.total),
            checksum: self.remote.checksum.text().to_string(),
            etag: self.etag.clone(),
            spans: Some(self.spans.clone()),
        };
        note.write(self.partial)
    }

    fn report(&self, progress: Sink<'_>) {
        let seconds = self.run_start.elapsed().as_secs_f64();
        progress(Progress::Downloading {
            file: self.remote.filename.clone(),
            done_bytes: self.spans.bytes(),
            total_bytes: Some(self.total),
            rate_bytes_per_s: (self.run_bytes > 0 && seconds > 0.0).then(|| self.run_bytes as f64 / seconds),
        });
    }

    /// Reads the whole once more: pieces come in no order that a hash could follow.
    fn finish(&mut self, progress: Sink<'_>) -> Result<String> {
        let path = &self.partial.file;
        let url = without_credentials(&self.remote.url);
        let length = self.file.metadata().map_err(|error| Error::io("read", path, &error))?.len();
        if length != self.total || self.spans != Spans::prefix(self.total) {
            return Err(Error::wrong_size(&url, self.total, length));
        }
        if let Some(impostor) = impostor_in(&self.file, path)? {
            return Err(impostor.error(&url));
        }
        let mut hasher = self.remote.hasher();
        hash_start(&mut self.file, path, self.total, &mut hasher, progress)?;
        let hashes = hasher.finish();
        self.remote.compare(&hashes)?;
        self.file.sync_all().map_err(|error| Error::io("write", path, &error))?;
        Ok(hashes.sha256)
    }
}

/// The connections at work.
struct Crew<'scope, 'env> {
    scope: &'scope Scope<'scope, 'env>,
    shared: &'env Shared<'env>,
    sender: Sender<Message>,
    active: usize,
    /// How many there shall be.
    wanted: usize,
}

impl Crew<'_, '_> {
    /// Opens connections until there are as many as wanted, or as many as pieces wait.
    fn fill_up(&mut self) {
        let waiting = usize::try_from(lock(&self.shared.missing).pieces()).unwrap_or(usize::MAX);
        for _ in 0..self.wanted.saturating_sub(self.active).min(waiting) {
            let (shared, sender) = (self.shared, self.sender.clone());
            self.scope.spawn(move || work(shared, &sender));
            self.active += 1;
        }
    }
}

/// One connection: piece after piece until none waits.
fn work(shared: &Shared<'_>, sender: &Sender<Message>) {
    let last = loop {
        if shared.stop.load(Ordering::Relaxed) {
            break Message::Left;
        }
        let Some((start, end)) = lock(&shared.missing).take() else { break Message::Left };
        let mut at = start;
        if let ControlFlow::Break(message) = piece(shared, &mut at, end, sender) {
            lock(&shared.missing).give_back(at, end);
            break message;
        }
    };
    // Nobody listens any more where the whole came to an end.
    let _ = sender.send(last);
}

/// Fetches one piece and moves `at` along.
fn piece(shared: &Shared<'_>, at: &mut u64, end: u64, sender: &Sender<Message>) -> ControlFlow<Message> {
    let remote = shared.remote;
    let failed = |failure| ControlFlow::Break(Message::Failed(failure));
    let known_etag = lock(&shared.etag).clone();
    tracing::debug!(url = without_credentials(&remote.url), from = *at, end, "piece");
    let request = Request {
        url: &remote.url,
        range: Some((*at, Some(end))),
        if_range: known_etag.as_deref(),
        token: remote.token.as_ref(),
        ..Request::default()
    };
    let response = match shared.client.http.get(&request) {
        Ok(response) => response,
        Err(failure) => return failed(failure),
    };
    match response.status().as_u16() {
        206 if is_piece(&response, shared, *at, end) => {}
        200 | 206 | 416 => return ControlFlow::Break(Message::NoPieces),
        status => {
            let error = remote.asked.refused(&remote.url, &response);
            return failed(Failure::of_status(error, status, pause_asked_for(&response)));
        }
    }
    let _ = sender.send(Message::Began);
    let mut reader = response.into_body().into_reader();
    let mut buffer = vec![0; CHUNK_BYTES];
    while *at < end && !shared.stop.load(Ordering::Relaxed) {
        let want = usize::try_from(end - *at).unwrap_or(usize::MAX).min(buffer.len());
        let got = match reader.read(&mut buffer[..want]) {
            Ok(0) => {
                let cut = format!("{} was cut; try again, what has arrived is kept", without_credentials(&remote.url));
                return failed(Failure::again(Error::new(ErrorKind::Network, cut)));
            }
            Ok(got) => got,
            Err(error) => {
                return failed(Failure::again(network_error(&remote.url, &host_of(&remote.url), error.into())));
            }
        };
        if let Err(error) = duan_files::write_all_at(shared.file, &buffer[..got], *at) {
            return failed(Failure::last(Error::io("write", shared.path, &error)));
        }
        let start = *at;
        *at += got as u64;
        let _ = sender.send(Message::Arrived(start, *at));
    }
    // Read to its end, so that the connection can be used again.
    let _ = reader.read(&mut buffer[..1]);
    ControlFlow::Continue(())
}

/// Whether an answer is the piece from `start` to `end` of the file that the other pieces are of.
fn is_piece(response: &http::Response<Body>, shared: &Shared<'_>, start: u64, end: u64) -> bool {
    let header = |name| response.headers().get(name).and_then(|value| value.to_str().ok());
    let is_encoded = header("Content-Encoding").is_some_and(|coding| coding != "identity");
    let range = header("Content-Range").and_then(parse_content_range);
    if is_encoded || range != Some((start, end - 1, shared.total)) {
        return false;
    }
    let etag = strong_etag(response);
    let mut known = lock(&shared.etag);
    match (&*known, etag) {
        (Some(known), Some(etag)) => *known == etag,
        // The first piece says what the others must be of.
        (None, Some(etag)) => {
            *known = Some(etag);
            true
        }
        // Without a validator only a hash can tell that all pieces are of one file.
        (_, None) => shared.remote.checksum.is_known(),
    }
}

/// A panic of another thread is reported by the scope; what a lock holds is whole at any time.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
