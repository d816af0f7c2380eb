//! Hugging Face: its server, or a mirror of it, and the cache that its own programs keep.
//!
//! ```text
//! CACHE/models--OWNER--NAME/refs/REVISION           the commit that a branch or tag meant
//! CACHE/models--OWNER--NAME/snapshots/COMMIT/PATH   a link to ../../blobs/HASH, or the file where links are not possible
//! CACHE/models--OWNER--NAME/blobs/HASH              the contents: SHA-256 for large files, git's name for small ones
//! CACHE/.locks/models--OWNER--NAME/HASH.lock        held by the process that fetches them
//! ```
//!
//! Source: the documentation of the package `huggingface_hub`, "Understand caching" and "Environment variables", and how it
//! behaves (version 2.4). `scripts/hub_caches.py` compares both ways with the package itself.

use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::{Begun, Listing, RepositoryFile, SiteOptions, Store};
use crate::address::{absolute, encoded, origin, without_credentials};
use crate::asked::Asked;
use crate::checksum::Checksum;
use crate::client::{ANSWER_LIMIT_BYTES, Client, too_long};
use crate::download::{Partial, Remote};
use crate::error::{Error, ErrorKind, Result};
use crate::files::{create_anew, create_folder, new_name, open_own, rename};
use crate::http::Token;
use crate::name::{RepositoryName, is_plain_relative_path};
use crate::progress::{Progress, Sink};

const DEFAULT_ENDPOINT: &str = "https://huggingface.co";

/// A repository lists a thousand files a page; more pages than this are none of a model,
const PAGES_LIMIT: usize = 20;
/// and neither is more text in all of them.
const LIST_LIMIT_BYTES: u64 = 32 << 20;

/// Folders in folders of a snapshot, deeper than any repository goes.
const DEPTH_LIMIT: usize = 16;

/// The server, the cache and the token, as options and environment say.
#[derive(Clone)]
pub(crate) struct HuggingFace {
    endpoint: String,
    cache: PathBuf,
    token: Option<Token>,
    uses_links: bool,
    is_offline: bool,
}

impl HuggingFace {
    /// # Errors
    /// Where there is neither a home folder nor a variable that names the cache.
    pub(crate) fn new(options: &SiteOptions, variable: impl Fn(&str) -> Option<String>) -> Result<HuggingFace> {
        let set = |name: &str| variable(name).map(|value| value.trim().to_string()).filter(|value| !value.is_empty());
        let is_on = |name: &str| set(name).is_some_and(|value| is_true(&value));
        let folder = |name: &str| set(name).map(|text| in_home(&text, set("HOME")));
        let home = folder("HF_HOME")
            .or_else(|| folder("XDG_CACHE_HOME").map(|path| path.join("huggingface")))
            .or_else(|| user_home(&set).map(|path| path.join(".cache").join("huggingface")));
        let cache = options.cache_dir.clone().or_else(|| folder("HF_HUB_CACHE"));
        let cache = cache.or_else(|| folder("HUGGINGFACE_HUB_CACHE"));
        let cache = cache.or_else(|| home.as_ref().map(|home| home.join("hub"))).ok_or_else(|| {
            let message = "there is no home folder to keep models of Hugging Face in; name a folder with HF_HOME";
            Error::new(ErrorKind::NoSuchFile, message)
        })?;
        let token_file = folder("HF_TOKEN_PATH").or_else(|| home.map(|home| home.join("token")));
        let read_token = || {
            let text = fs::read_to_string(token_file?).ok()?;
            Some(text.trim().to_string()).filter(|text| !text.is_empty())
        };
        let token = options.token.clone().or_else(|| {
            if is_on("HF_HUB_DISABLE_IMPLICIT_TOKEN") { None } else { set("HF_TOKEN").or_else(read_token) }
        });
        let endpoint = options.endpoint.clone().or_else(|| set("HF_ENDPOINT"));
        let endpoint = endpoint.unwrap_or_else(|| DEFAULT_ENDPOINT.to_string()).trim_end_matches('/').to_string();
        // What cannot stand in a header is no token.
        let token = token.filter(|token| token.bytes().all(|byte| byte.is_ascii_graphic()));
        Ok(HuggingFace {
            token: token.map(|token| Token::new(token, &endpoint)),
            endpoint,
            cache,
            uses_links: !is_on("HF_HUB_DISABLE_SYMLINKS"),
            is_offline: is_on("HF_HUB_OFFLINE") || is_on("TRANSFORMERS_OFFLINE"),
        })
    }

    /// The folder of the cache.
    pub(crate) fn cache(&self) -> &Path {
        &self.cache
    }

    /// Whether the environment forbids to ask the server.
    pub(crate) fn is_offline(&self) -> bool {
        self.is_offline
    }

    fn folder(&self, name: &RepositoryName) -> PathBuf {
        self.cache.join(folder_name(name))
    }

    fn asked(&self, name: &RepositoryName) -> Asked {
        Asked::HuggingFace { repo: name.id(), has_token: self.token.is_some() }
    }

    /// The commit that a revision meant when something of it was last fetched.
    fn known_commit(&self, name: &RepositoryName) -> Option<String> {
        let revision = name.revision.as_deref().unwrap_or("main");
        if is_commit(revision) {
            return Some(revision.to_string());
        }
        let text = fs::read_to_string(self.folder(name).join("refs").join(revision)).ok()?;
        Some(text.trim().to_string()).filter(|commit| is_commit(commit))
    }

    fn blob(&self, name: &RepositoryName, hash: &str) -> PathBuf {
        self.folder(name).join("blobs").join(hash)
    }
}

impl Store for HuggingFace {
    fn local(&self, name: &RepositoryName) -> Option<Listing> {
        let commit = self.known_commit(name)?;
        let root = self.folder(name).join("snapshots").join(&commit);
        let mut files = Vec::new();
        walk(&root, "", 0, &mut files);
        (!files.is_empty()).then_some(Listing { revision: commit, root, files })
    }

    fn listing(&self, client: &Client, name: &RepositoryName, progress: Sink<'_>) -> Result<Listing> {
        #[derive(Deserialize)]
        struct Revision {
            sha: String,
        }
        let (asked, token) = (self.asked(name), self.token.as_ref());
        let revision = encoded(name.revision.as_deref().unwrap_or("main"), false);
        let base = format!("{}/api/models/{}", self.endpoint, name.id());
        let url = format!("{base}/revision/{revision}");
        let found = client.json::<Revision>(&url, token, &asked, ANSWER_LIMIT_BYTES, progress)?.value;
        if !is_commit(&found.sha) {
            let message = format!("{url} names no commit of {}; check HF_ENDPOINT", name.id());
            return Err(Error::new(ErrorKind::BadIndex, message));
        }
        let mut files = Vec::new();
        let mut next = Some(format!("{base}/tree/{}?recursive=1", found.sha));
        let (mut pages, mut room_bytes) = (0, LIST_LIMIT_BYTES);
        while let Some(url) = next.take() {
            if pages == PAGES_LIMIT {
                return Err(too_long(&without_credentials(&url)));
            }
            pages += 1;
            let page = client.json::<Vec<Entry>>(&url, token, &asked, room_bytes.min(ANSWER_LIMIT_BYTES), progress)?;
            room_bytes -= page.bytes.min(room_bytes);
            files.extend(page.value.into_iter().filter_map(Entry::file));
            // A mirror may hand on links to the server that it mirrors; who chose the mirror cannot reach that one.
            next = page.next.map(|link| self.on_endpoint(&link));
        }
        let root = self.folder(name).join("snapshots").join(&found.sha);
        Ok(Listing { revision: found.sha, root, files })
    }

    fn remote(&self, name: &RepositoryName, listing: &Listing, file: &RepositoryFile) -> Remote {
        let path = encoded(&file.path, true);
        Remote {
            url: format!("{}/{}/resolve/{}/{path}", self.endpoint, name.id(), listing.revision),
            filename: file.path.clone(),
            bytes: Some(file.bytes),
            checksum: file.checksum.clone(),
            token: self.token.clone(),
            asked: self.asked(name),
        }
    }

    fn partial(&self, name: &RepositoryName, _: &Listing, file: &RepositoryFile) -> Partial {
        // A name that no other program takes for a beginning of the file: it may have gaps.
        let hash = match file.checksum.text() {
            "" => file.path.replace('/', "+"),
            hash => hash.to_string(),
        };
        Partial::new(&self.folder(name).join("blobs"), &format!("{hash}.duan"))
    }

    fn begin(&self, name: &RepositoryName, file: &RepositoryFile, progress: Sink<'_>) -> Result<Begun> {
        let hash = file.checksum.text();
        if hash.is_empty() {
            return Ok(Begun::default());
        }
        let locks = self.cache.join(".locks").join(folder_name(name));
        create_folder(&locks)?;
        let path = locks.join(format!("{hash}.lock"));
        let opened = duan_files::open_plain(File::options().create(true).truncate(false).write(true), &path);
        let lock = opened.map_err(|error| Error::io("open", &path, &error))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                progress(Progress::Waiting { name: file.path.clone() });
                lock.lock().map_err(|error| Error::io("lock", &path, &error))?;
            }
            // File systems without locks: whoever is second fetches a second time.
            Err(TryLockError::Error(error)) => tracing::debug!(%error, path = %path.display(), "no lock"),
        }
        let blob = self.blob(name, hash);
        // A link in its place is not what another snapshot was made of.
        let is_there = fs::symlink_metadata(&blob).is_ok_and(|metadata| metadata.is_file());
        Ok(Begun { same: is_there.then_some(blob), _lock: Some(lock) })
    }

    fn install(
        &self,
        name: &RepositoryName,
        listing: &Listing,
        file: &RepositoryFile,
        whole: &Path,
        sha256: &str,
    ) -> Result<()> {
        let pointer = listing.root.join(&file.path);
        if let Some(folder) = pointer.parent() {
            create_folder(folder)?;
        }
        let hash = if file.checksum.is_known() { file.checksum.text() } else { sha256 };
        let blob = self.blob(name, hash);
        if whole != blob {
            if !self.uses_links {
                return rename(whole, &pointer);
            }
            rename(whole, &blob)?;
        }
        let ups = file.path.split('/').count() + 1;
        let target: PathBuf = [&"../".repeat(ups), "blobs/", hash].concat().into();
        if self.uses_links && link(&target, &pointer).is_ok() {
            return Ok(());
        }
        if whole == blob {
            // It may be another snapshot's too, so this one gets its own.
            let beside = new_name(&pointer);
            let mut from = open_own(File::options().read(true), &blob)?;
            let copied = create_anew(&beside).and_then(|mut to| {
                std::io::copy(&mut from, &mut to)?;
                to.sync_all()
            });
            copied.map_err(|error| Error::io("write", &beside, &error))?;
            return rename(&beside, &pointer);
        }
        rename(&blob, &pointer)
    }

    fn finish(&self, name: &RepositoryName, listing: &Listing) -> Result<()> {
        let revision = name.revision.as_deref().unwrap_or("main");
        if is_commit(revision) {
            return Ok(());
        }
        let path = self.folder(name).join("refs").join(revision);
        let folder = path.parent().unwrap_or(Path::new("."));
        create_folder(folder)?;
        let written = duan_files::new_beside(folder, ".tmp", "").and_then(|mut file| {
            std::io::Write::write_all(&mut file, listing.revision.as_bytes())?;
            file.persist(&path)?;
            Ok(())
        });
        written.map_err(|error| Error::io("write", &path, &error))
    }
}

impl HuggingFace {
    /// A link of the server's, on the server that was asked.
    fn on_endpoint(&self, link: &str) -> String {
        if origin(link) == origin(&self.endpoint) {
            return link.to_string();
        }
        let rest = link.split_once("://").map_or("", |(_, rest)| rest);
        let path = rest.find('/').map_or("", |at| &rest[at..]);
        // A path that begins with two slashes would name another server.
        absolute(&self.endpoint, &format!("/{}", path.trim_start_matches('/')))
    }
}

/// An entry of the tree of a repository.
#[derive(Deserialize)]
struct Entry {
    #[serde(rename = "type")]
    kind: String,
    path: String,
    #[serde(default)]
    oid: String,
    #[serde(default)]
    size: u64,
    lfs: Option<Lfs>,
}

#[derive(Deserialize)]
struct Lfs {
    oid: String,
    size: Option<u64>,
}

impl Entry {
    /// The file that it is; none for folders and for paths that no file may have here.
    fn file(self) -> Option<RepositoryFile> {
        if self.kind != "file" || !is_plain_relative_path(&self.path) {
            return None;
        }
        let (bytes, checksum) = match self.lfs {
            Some(lfs) => (lfs.size.unwrap_or(self.size), Checksum::sha256(&lfs.oid)),
            None => (self.size, Checksum::git_blob(&self.oid)),
        };
        Some(RepositoryFile { path: self.path, bytes, checksum })
    }
}

/// The files of a snapshot. What a link points to is named by its hash.
fn walk(folder: &Path, inside: &str, depth: usize, files: &mut Vec<RepositoryFile>) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let Ok(name) = entry.file_name().into_string() else { continue };
        let path = if inside.is_empty() { name } else { format!("{inside}/{name}") };
        let Ok(metadata) = fs::metadata(entry.path()) else { continue };
        if metadata.is_dir() && depth < DEPTH_LIMIT {
            walk(&entry.path(), &path, depth + 1, files);
        } else if metadata.is_file() && is_plain_relative_path(&path) {
            let target = fs::read_link(entry.path()).ok();
            let hash = target.as_ref().and_then(|target| target.file_name()?.to_str());
            let checksum = hash.map_or(Checksum::Unknown, Checksum::of_name);
            files.push(RepositoryFile { path, bytes: metadata.len(), checksum });
        }
    }
}

/// Puts a link in the place of whatever has its name.
#[cfg(unix)]
fn link(target: &Path, pointer: &Path) -> std::io::Result<()> {
    let mut name = pointer.file_name().unwrap_or_default().to_os_string();
    name.push(format!(".{}.link", std::process::id()));
    let beside = pointer.with_file_name(name);
    drop(fs::remove_file(&beside));
    std::os::unix::fs::symlink(target, &beside)?;
    fs::rename(&beside, pointer).inspect_err(|_| drop(fs::remove_file(&beside)))
}

#[cfg(windows)]
fn link(target: &Path, pointer: &Path) -> std::io::Result<()> {
    drop(fs::remove_file(pointer));
    std::os::windows::fs::symlink_file(target, pointer)
}

fn folder_name(name: &RepositoryName) -> String {
    format!("models--{}--{}", name.owner, name.name)
}

fn is_commit(text: &str) -> bool {
    text.len() == 40 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

fn is_true(value: &str) -> bool {
    ["1", "on", "yes", "true"].iter().any(|word| value.eq_ignore_ascii_case(word))
}

/// A path as a shell would read it.
fn in_home(text: &str, home: Option<String>) -> PathBuf {
    match (text.strip_prefix("~/"), home) {
        (Some(rest), Some(home)) => Path::new(&home).join(rest),
        _ => PathBuf::from(text),
    }
}

/// The home folder of the user.
pub(super) fn user_home(set: &impl Fn(&str) -> Option<String>) -> Option<PathBuf> {
    set(if cfg!(windows) { "USERPROFILE" } else { "HOME" }).map(PathBuf::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site(variables: &[(&str, &str)]) -> HuggingFace {
        let variable = |name: &str| variables.iter().find(|(key, _)| *key == name).map(|(_, value)| value.to_string());
        HuggingFace::new(&SiteOptions::default(), variable).unwrap()
    }

    fn token(text: &str, site: &HuggingFace) -> Option<Token> {
        Some(Token::new(text.to_string(), &site.endpoint))
    }

    #[cfg(unix)]
    #[test]
    fn the_environment_is_read_as_the_site_reads_it() {
        let home = ("HOME", "/home/a");
        let cache = |variables: &[(&str, &str)]| site(variables).cache;
        assert_eq!(cache(&[home]), Path::new("/home/a/.cache/huggingface/hub"));
        assert_eq!(cache(&[home, ("XDG_CACHE_HOME", "/x")]), Path::new("/x/huggingface/hub"));
        assert_eq!(cache(&[home, ("XDG_CACHE_HOME", "/x"), ("HF_HOME", "~/h")]), Path::new("/home/a/h/hub"));
        assert_eq!(cache(&[home, ("HF_HOME", "/h"), ("HUGGINGFACE_HUB_CACHE", "/o")]), Path::new("/o"));
        assert_eq!(cache(&[("HF_HUB_CACHE", "/n"), ("HUGGINGFACE_HUB_CACHE", "/o")]), Path::new("/n"));
        let site = site(&[home, ("HF_ENDPOINT", "https://mirror.example/"), ("HF_TOKEN", " hf_x\n")]);
        assert_eq!((site.endpoint.as_str(), &site.token), ("https://mirror.example", &token("hf_x", &site)));
        assert!(!site.is_offline && site.uses_links);
        let link = "https://elsewhere.example/api/models/a/b/tree/c?cursor=x&recursive=1";
        assert_eq!(site.on_endpoint(link), "https://mirror.example/api/models/a/b/tree/c?cursor=x&recursive=1");
        for (link, expected) in [
            ("http://x//evil.example/steal", "https://mirror.example/evil.example/steal"),
            ("http://x///evil.example/steal", "https://mirror.example/evil.example/steal"),
            ("http://x/..//evil.example/steal", "https://mirror.example//evil.example/steal"),
            ("http://x/http://evil.example/steal", "https://mirror.example/http://evil.example/steal"),
            ("http://x?to=//evil.example/steal", "https://mirror.example/evil.example/steal"),
            ("https://mirror.example@evil.example/steal", "https://mirror.example/steal"),
            ("rubbish", "https://mirror.example/"),
        ] {
            assert_eq!(site.on_endpoint(link), expected, "{link}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn switches_and_the_file_of_the_token_count() {
        let folder = tempfile::tempdir().unwrap();
        let home = ("HF_HOME", folder.path().to_str().unwrap());
        assert_eq!(site(&[home]).token, None);
        fs::write(folder.path().join("token"), "hf_file\n").unwrap();
        let of = |variables: &[(&str, &str)]| site(variables).token;
        assert_eq!(of(&[home]), token("hf_file", &site(&[home])));
        assert_eq!(of(&[home, ("HF_TOKEN", "hf_x")]), token("hf_x", &site(&[home])));
        assert_eq!(site(&[home, ("HF_TOKEN", "two words")]).token, None);
        assert_eq!(site(&[home, ("HF_HUB_DISABLE_IMPLICIT_TOKEN", "1")]).token, None);
        assert!(site(&[home, ("HF_HUB_OFFLINE", "1")]).is_offline);
        assert!(site(&[home, ("TRANSFORMERS_OFFLINE", "True")]).is_offline);
        assert!(!site(&[home, ("HF_HUB_OFFLINE", "0")]).is_offline);
        assert!(!site(&[home, ("HF_HUB_DISABLE_SYMLINKS", "YES")]).uses_links);
    }

    #[test]
    fn where_links_are_not_possible_the_snapshot_holds_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let cache = folder.path().to_str().unwrap();
        let site = site(&[("HF_HUB_CACHE", cache), ("HF_HUB_DISABLE_SYMLINKS", "1"), ("HOME", cache)]);
        let Ok(crate::ModelName::Repository(name)) = crate::ModelName::parse("hf:o/n") else { panic!() };
        let root = site.folder(&name).join("snapshots").join("c");
        let listing = Listing { revision: "c".into(), root: root.clone(), files: Vec::new() };
        let hash = "ab".repeat(32);
        let file =
            |path: &str| RepositoryFile { path: path.into(), bytes: 3, checksum: Checksum::Sha256(hash.clone()) };
        let part = folder.path().join("x.part");
        fs::write(&part, b"abc").unwrap();
        site.install(&name, &listing, &file("a/m.gguf"), &part, &hash).unwrap();
        assert!(!part.exists() && !site.blob(&name, &hash).exists());
        // One that another program keeps under its hash is copied, because others may use it.
        create_folder(&site.folder(&name).join("blobs")).unwrap();
        fs::write(site.blob(&name, &hash), b"abc").unwrap();
        site.install(&name, &listing, &file("b.gguf"), &site.blob(&name, &hash), &hash).unwrap();
        assert!(site.blob(&name, &hash).exists());
        for path in ["a/m.gguf", "b.gguf"] {
            assert!(fs::symlink_metadata(root.join(path)).unwrap().is_file());
            assert_eq!(fs::read(root.join(path)).unwrap(), b"abc");
        }
    }

    #[test]
    fn entries_of_a_tree_carry_their_hash_or_are_left_out() {
        let entry = |text: &str| serde_json::from_str::<Entry>(text).unwrap().file();
        let (sha256, sha1) = ("ab".repeat(32), "cd".repeat(20));
        let large = entry(&format!(
            r#"{{"type":"file","oid":"{sha1}","size":9,"path":"a/m.gguf","lfs":{{"oid":"{sha256}","size":9}}}}"#
        ));
        assert_eq!(large.unwrap().checksum, Checksum::Sha256(sha256));
        let small = entry(&format!(r#"{{"type":"file","oid":"{sha1}","size":9,"path":"config.json"}}"#)).unwrap();
        assert_eq!(small.checksum, Checksum::GitBlob(sha1));
        assert_eq!(entry(r#"{"type":"directory","path":"a"}"#), None);
        assert_eq!(entry(r#"{"type":"file","path":"../../x"}"#), None);
    }
}
