//! What a file's bytes must come to, and computing it.
//!
//! Servers announce SHA-256 for everything that is large. For small files of a repository some know only git's name of the
//! contents: the SHA-1 of `blob LENGTH`, a zero byte and the contents (Git Internals, "Git Objects").

use sha1::Sha1;
use sha2::digest::Update;
use sha2::{Digest, Sha256};

use crate::name::hex;

/// The hash that a file was announced with, in lower-case hexadecimal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Checksum {
    Sha256(String),
    /// Git's name of the contents.
    GitBlob(String),
    /// Nobody said; only the length can be compared.
    Unknown,
}

impl Checksum {
    /// SHA-256 out of a server's text; unknown where it is none.
    pub(crate) fn sha256(text: &str) -> Checksum {
        normal(text, 64).map_or(Checksum::Unknown, Checksum::Sha256)
    }

    /// Git's name of the contents out of a server's text; unknown where it is none.
    pub(crate) fn git_blob(text: &str) -> Checksum {
        normal(text, 40).map_or(Checksum::Unknown, Checksum::GitBlob)
    }

    /// What a name in a cache that names files by their hash says: the two kinds differ in length.
    pub(crate) fn of_name(name: &str) -> Checksum {
        match Checksum::sha256(name) {
            Checksum::Unknown => Checksum::git_blob(name),
            known => known,
        }
    }

    pub(crate) fn is_known(&self) -> bool {
        *self != Checksum::Unknown
    }

    /// The hash alone; empty if it is not known.
    pub(crate) fn text(&self) -> &str {
        match self {
            Checksum::Sha256(text) | Checksum::GitBlob(text) => text,
            Checksum::Unknown => "",
        }
    }
}

/// Lower-case hexadecimal of `digits` digits, also out of the quotes that some servers put around it.
fn normal(text: &str, digits: usize) -> Option<String> {
    let text = text.trim().trim_matches('"').to_ascii_lowercase();
    (text.len() == digits && text.bytes().all(|byte| byte.is_ascii_hexdigit())).then_some(text)
}

/// The hashes of a file while it goes by. SHA-256 is always computed: it is what duan knows a file by.
#[derive(Clone)]
pub(crate) struct Hasher {
    sha256: Sha256,
    git: Option<Sha1>,
}

/// What a file came to.
pub(crate) struct Hashes {
    pub(crate) sha256: String,
    git: Option<String>,
}

impl Hasher {
    /// For a file of `bytes` that was announced with `checksum`. Git's name begins with the length, so it cannot be computed
    /// without one.
    pub(crate) fn new(checksum: &Checksum, bytes: Option<u64>) -> Hasher {
        let git = match (checksum, bytes) {
            (Checksum::GitBlob(_), Some(bytes)) => Some(Sha1::new_with_prefix(format!("blob {bytes}\0"))),
            _ => None,
        };
        Hasher { sha256: Sha256::new(), git }
    }

    pub(crate) fn finish(self) -> Hashes {
        Hashes { sha256: hex(&self.sha256.finalize()), git: self.git.map(|git| hex(&git.finalize())) }
    }
}

impl Update for Hasher {
    fn update(&mut self, bytes: &[u8]) {
        Update::update(&mut self.sha256, bytes);
        if let Some(git) = &mut self.git {
            Update::update(git, bytes);
        }
    }
}

impl Hashes {
    /// The hash that was found where another one was expected; none where they agree or nothing was expected.
    pub(crate) fn other_than<'a>(&'a self, checksum: &Checksum) -> Option<&'a str> {
        match checksum {
            Checksum::Sha256(expected) => (*expected != self.sha256).then_some(&self.sha256),
            Checksum::GitBlob(expected) => match &self.git {
                Some(found) => (found != expected).then_some(found),
                None => Some("none, for its length was not known"),
            },
            Checksum::Unknown => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hashed(checksum: &Checksum, bytes: &[u8]) -> Hashes {
        let mut hasher = Hasher::new(checksum, Some(bytes.len() as u64));
        hasher.update(bytes);
        hasher.finish()
    }

    #[test]
    fn git_names_contents_as_git_does() {
        // `printf 'hello\n' | git hash-object --stdin`
        let checksum = Checksum::git_blob("\"CE013625030ba8dba906f756967f9e9ca394464a\"");
        assert!(checksum.is_known());
        assert_eq!(hashed(&checksum, b"hello\n").other_than(&checksum), None);
        assert_eq!(hashed(&checksum, b"hello").other_than(&checksum), Some("b6fc4c620b67d95f953a5c1c1230aaab5db5a1b0"));
        assert_eq!(checksum.text(), "ce013625030ba8dba906f756967f9e9ca394464a");
    }

    #[test]
    fn sha256_is_compared_and_what_is_none_is_not_known() {
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        let checksum = Checksum::of_name(abc);
        assert_eq!(checksum, Checksum::Sha256(abc.to_string()));
        assert_eq!(hashed(&checksum, b"abc").other_than(&checksum), None);
        assert!(hashed(&checksum, b"abd").other_than(&checksum).is_some());
        for text in ["", "abc", &"g".repeat(64), "W/\"5f3\""] {
            assert_eq!(Checksum::of_name(text), Checksum::Unknown, "{text}");
        }
        assert_eq!(hashed(&Checksum::Unknown, b"abc").other_than(&Checksum::Unknown), None);
    }
}
