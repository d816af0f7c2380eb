//! What arrives instead of a file, told by its beginning, and the header that says which bytes are sent.

use std::fs::File;
use std::path::Path;

use crate::error::{Error, Result};

/// How many bytes of a beginning are enough to tell.
const HEAD_BYTES: usize = 256;

/// What a file begins like when it is not the file that was meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Impostor {
    /// A web page.
    Page,
    /// The stand-in that git keeps for a large file.
    LfsPointer,
}

impl Impostor {
    pub(super) fn error(self, url: &str) -> Error {
        match self {
            Impostor::Page => Error::web_page(url),
            Impostor::LfsPointer => Error::lfs_pointer(url),
        }
    }
}

/// What these first bytes of a file say that it is, whatever its announced type; none for anything else.
pub(super) fn impostor(bytes: &[u8]) -> Option<Impostor> {
    let head: Vec<u8> = bytes.trim_ascii_start().iter().take(48).map(u8::to_ascii_lowercase).collect();
    if head.starts_with(b"<!doctype html") || head.starts_with(b"<html") {
        return Some(Impostor::Page);
    }
    // Source: the specification of Git LFS, "The Pointer".
    let is_pointer = head.starts_with(b"version http") && head.windows(8).any(|part| part == b"git-lfs.");
    is_pointer.then_some(Impostor::LfsPointer)
}

/// The same of a file on the disk.
pub(super) fn impostor_in(file: &File, path: &Path) -> Result<Option<Impostor>> {
    let length = file.metadata().map_err(|error| Error::io("read", path, &error))?.len();
    let mut head = vec![0; usize::try_from(length).unwrap_or(HEAD_BYTES).min(HEAD_BYTES)];
    duan_files::read_exact_at(file, &mut head, 0).map_err(|error| Error::io("read", path, &error))?;
    Ok(impostor(&head))
}

/// Start, last byte and total of `bytes START-LAST/TOTAL`; none for other forms and for an unknown total.
pub(super) fn parse_content_range(value: &str) -> Option<(u64, u64, u64)> {
    let (range, total) = value.trim().strip_prefix("bytes ")?.trim().split_once('/')?;
    let (start, last) = range.split_once('-')?;
    let (start, last, total) = (start.parse().ok()?, last.parse().ok()?, total.parse().ok()?);
    (start <= last && last < total).then_some((start, last, total))
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
    fn what_is_no_model_is_recognised_by_its_beginning() {
        assert_eq!(impostor(b"\n <!DOCTYPE html><html>"), Some(Impostor::Page));
        assert_eq!(impostor(b"<HTML>"), Some(Impostor::Page));
        let pointer = concat!("version https:", "//git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n");
        assert_eq!(impostor(pointer.as_bytes()), Some(Impostor::LfsPointer));
        for other in [&b"PK\x03\x04"[..], b"", b"<xml", b"GGUF\x03", b"version 2"] {
            assert_eq!(impostor(other), None);
        }
    }
}
