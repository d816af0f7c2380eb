//! A small HTTP server for tests: a package index, repositories and files. It misbehaves on demand and keeps count.

#![allow(dead_code, unreachable_pub, clippy::unwrap_used)]

pub mod repositories;

use std::collections::{HashMap, VecDeque};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender};
use std::sync::{Arc, Mutex};

use sha2::{Digest, Sha256};

/// What to do with one request for a path.
pub enum Answer {
    /// As a good server does, ranges and validators included.
    Good,
    /// The whole file, whatever range was asked for.
    IgnoreRange,
    /// Announces everything, sends so many bytes of it, and closes.
    CutAfter(usize),
    /// The same of the whole file, whatever range was asked for.
    CutWhole(usize),
    /// So many zero bytes, whose number nobody says beforehand.
    Unannounced(usize),
    /// Announces everything, sends so many bytes of it, and stays silent until the client goes.
    StallAfter(usize),
    /// A 206 with this `Content-Range`, or without one, and the rest of the file.
    Range(Option<&'static str>),
    /// A status with these header lines and no body.
    Status(u16, &'static str),
    /// A status 200 with this type and body.
    Body(&'static str, Vec<u8>),
    /// Sends the client elsewhere.
    Redirect(String),
    /// Closes without a word.
    Close,
    /// Tells through the first channel that the request is here, and is good once the second one says so.
    Wait(Sender<()>, Receiver<()>),
}

/// One request as it came, and what was sent.
#[derive(Clone, Debug, Default)]
pub struct Logged {
    pub path: String,
    pub headers: HashMap<String, String>,
    /// Bytes of the body that were sent.
    pub sent_bytes: u64,
    pub is_head: bool,
}

impl Logged {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }
}

#[derive(Clone)]
pub struct Served {
    pub bytes: Arc<Vec<u8>>,
    pub content_type: &'static str,
    pub etag: Option<&'static str>,
    /// More header lines, each with its end.
    pub headers: String,
    /// Where the bytes really are.
    pub moved_to: Option<String>,
}

#[derive(Default)]
struct State {
    files: HashMap<String, Served>,
    scripts: HashMap<String, VecDeque<Answer>>,
    log: Vec<Logged>,
}

/// Serves until the test ends.
pub struct Server {
    pub address: String,
    state: Arc<Mutex<State>>,
}

impl Server {
    pub fn start() -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let state = Arc::new(Mutex::new(State::default()));
        let shared = Arc::clone(&state);
        std::thread::spawn(move || {
            for connection in listener.incoming().flatten() {
                let shared = Arc::clone(&shared);
                std::thread::spawn(move || {
                    // A client that hangs up in the middle is part of the tests.
                    let _ = answer(connection, &shared);
                });
            }
        });
        Server { address, state }
    }

    pub fn index_url(&self) -> String {
        format!("http://{}/simple", self.address)
    }

    pub fn put(&self, path: &str, bytes: Vec<u8>, content_type: &'static str, etag: Option<&'static str>) {
        let bytes = Arc::new(bytes);
        let served = Served { bytes, content_type, etag, headers: String::new(), moved_to: None };
        self.serve(path, served);
    }

    pub fn serve(&self, path: &str, served: Served) {
        self.state.lock().unwrap().files.insert(path.to_string(), served);
    }

    /// Puts a wheel and the index page that announces it; returns the path of the wheel.
    pub fn put_wheel(&self, package: &str, version: &str, wheel: &[u8]) -> String {
        let filename = format!("{}-{version}-py3-none-any.whl", package.replace('-', "_"));
        let path = format!("/files/{filename}");
        let page = serde_json::json!({
            "meta": {"api-version": "1.1"}, "name": package,
            "files": [{"filename": filename, "url": format!("../..{path}"), "size": wheel.len(),
                "hashes": {"sha256": hex(&Sha256::digest(wheel))}, "yanked": false}],
        });
        self.put_page(package, &page.to_string());
        self.put(&path, wheel.to_vec(), "application/octet-stream", Some("\"one\""));
        path
    }

    pub fn put_page(&self, package: &str, page: &str) {
        let path = format!("/simple/{package}/");
        self.put(&path, page.as_bytes().to_vec(), "application/vnd.pypi.simple.v1+json", None);
    }

    /// The next answers for a path; after them it is good again.
    pub fn script(&self, path: &str, answers: impl IntoIterator<Item = Answer>) {
        self.state.lock().unwrap().scripts.entry(path.to_string()).or_default().extend(answers);
    }

    /// Everything is good again at once.
    pub fn forget_scripts(&self) {
        self.state.lock().unwrap().scripts.clear();
    }

    /// All requests for a path so far.
    pub fn requests(&self, path: &str) -> Vec<Logged> {
        self.state.lock().unwrap().log.iter().filter(|logged| logged.path == path).cloned().collect()
    }

    /// How many requests there were for anything.
    pub fn request_count(&self) -> usize {
        self.state.lock().unwrap().log.len()
    }

    /// Bytes of bodies sent for a path so far.
    pub fn sent_bytes(&self, path: &str) -> u64 {
        self.requests(path).iter().map(|logged| logged.sent_bytes).sum()
    }
}

pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Bytes that do not pack (SplitMix64), different for each seed.
pub fn noise(seed: u64, length: u64) -> Vec<u8> {
    let mixed = |i: u64| {
        let z = i.wrapping_add(seed << 32).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z >> 56) as u8
    };
    (0..length).map(mixed).collect()
}

/// A wheel with these files, stored as they are.
pub fn wheel(files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut writer = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    let options = zip::write::SimpleFileOptions::default().compression_method(zip::CompressionMethod::Stored);
    for (name, bytes) in files {
        writer.start_file(*name, options).unwrap();
        writer.write_all(bytes).unwrap();
    }
    writer.finish().unwrap().into_inner()
}

/// A wheel with this file, packed.
pub fn packed_wheel(name: &str, bytes: &[u8]) -> Vec<u8> {
    let mut writer = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    let options = zip::write::SimpleFileOptions::default().compression_method(zip::CompressionMethod::Deflated);
    writer.start_file(name, options).unwrap();
    writer.write_all(bytes).unwrap();
    writer.finish().unwrap().into_inner()
}

fn answer(connection: TcpStream, state: &Mutex<State>) -> std::io::Result<()> {
    let mut reader = BufReader::new(connection.try_clone()?);
    let mut out = connection;
    let request = match read_request(&mut reader) {
        Ok(Some(request)) => request,
        Ok(None) => return Ok(()),
        // Such as the beginning of an encrypted connection.
        Err(_) => return write!(out, "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"),
    };
    let path = request.path.clone();
    let is_head = request.is_head;
    let (served, script, slot) = {
        let mut state = state.lock().unwrap();
        state.log.push(request.clone());
        let script = state.scripts.get_mut(&path).and_then(VecDeque::pop_front);
        (state.files.get(&path).cloned(), script.unwrap_or(Answer::Good), state.log.len() - 1)
    };
    // The count is taken before the bytes go out: a client that has them all may look at once.
    let note = |count: usize| state.lock().unwrap().log[slot].sent_bytes += count as u64;
    match (script, served) {
        (Answer::Status(status, headers), _) => {
            write!(out, "HTTP/1.1 {status} X\r\n{headers}Content-Length: 0\r\nConnection: close\r\n\r\n")
        }
        (Answer::Redirect(to), _) => {
            write!(out, "HTTP/1.1 302 Found\r\nLocation: {to}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        }
        (Answer::Body(content_type, body), _) => {
            head(&mut out, "200 OK", content_type, body.len(), None, "", None)?;
            if is_head {
                return Ok(());
            }
            note(body.len());
            out.write_all(&body)
        }
        (Answer::Close, _) => Ok(()),
        (Answer::Unannounced(count), _) => {
            note(count);
            write!(out, "HTTP/1.1 200 OK\r\nContent-Type: x/y\r\nConnection: close\r\n\r\n")?;
            out.write_all(&vec![0; count])
        }
        (Answer::Good, Some(Served { moved_to: Some(to), headers, .. })) => {
            write!(
                out,
                "HTTP/1.1 302 Found\r\nLocation: {to}\r\n{headers}Content-Length: 0\r\nConnection: close\r\n\r\n"
            )
        }
        (Answer::Good, Some(served)) if is_head => {
            let (length, headers) = (served.bytes.len(), &served.headers);
            write!(
                out,
                "HTTP/1.1 200 OK\r\nContent-Type: {}\r\nContent-Length: {length}\r\n{headers}Connection: close\r\n\r\n",
                served.content_type
            )
        }
        (_, None) => write!(out, "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"),
        (script, Some(served)) => send_file(&mut out, &request, script, &served, &mut reader, note),
    }
}

fn read_request(reader: &mut impl BufRead) -> std::io::Result<Option<Logged>> {
    let mut line = String::new();
    if reader.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    let path = line.split_whitespace().nth(1).unwrap_or_default().to_string();
    let mut logged = Logged { path, is_head: line.starts_with("HEAD "), ..Logged::default() };
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let Some((name, value)) = line.trim_end().split_once(':') else { return Ok(Some(logged)) };
        logged.headers.insert(name.to_ascii_lowercase(), value.trim().to_string());
    }
}

fn head(
    out: &mut TcpStream,
    status: &str,
    content_type: &str,
    length: usize,
    etag: Option<&str>,
    headers: &str,
    range: Option<&str>,
) -> std::io::Result<()> {
    let etag = etag.map(|tag| format!("ETag: {tag}\r\n")).unwrap_or_default();
    let range = range.map(|range| format!("Content-Range: {range}\r\n")).unwrap_or_default();
    write!(
        out,
        "HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {length}\r\n{etag}{headers}{range}Connection: \
         close\r\n\r\n"
    )
}

fn send_file(
    out: &mut TcpStream,
    request: &Logged,
    script: Answer,
    served: &Served,
    reader: &mut impl Read,
    note: impl Fn(usize),
) -> std::io::Result<()> {
    let bytes = &served.bytes[..];
    let asked = request.header("range").and_then(|range| range.strip_prefix("bytes=")?.split_once('-'));
    let asked =
        asked.map(|(start, last)| (start.parse().unwrap(), last.parse().map_or(bytes.len(), |last: usize| last + 1)));
    let is_same_file = request.header("if-range").is_none_or(|tag| Some(tag) == served.etag);
    let range = asked.filter(|_| is_same_file && !matches!(script, Answer::IgnoreRange | Answer::CutWhole(_)));
    let (start, end): (usize, usize) = range.unwrap_or((0, bytes.len()));
    let rest = &bytes[start.min(bytes.len())..end.min(bytes.len())];
    let proper = format!("bytes {start}-{}/{}", end - 1, bytes.len());
    let (status, range) = match &script {
        Answer::Range(wrong) => ("206 Partial Content", *wrong),
        _ if range.is_some() => ("206 Partial Content", Some(proper.as_str())),
        _ => ("200 OK", None),
    };
    if let Answer::Wait(arrived, go) = &script {
        // A test that is over listens no more.
        let _ = arrived.send(());
        let _ = go.recv();
    }
    head(out, status, served.content_type, rest.len(), served.etag, &served.headers, range)?;
    let sent = match script {
        Answer::CutAfter(count) | Answer::CutWhole(count) | Answer::StallAfter(count) => &rest[..count.min(rest.len())],
        _ => rest,
    };
    note(sent.len());
    out.write_all(sent)?;
    out.flush()?;
    if matches!(script, Answer::StallAfter(_)) {
        // Nothing more comes from a client that waits; the read ends when it gives up.
        let _ = reader.read(&mut [0]);
    }
    Ok(())
}
