//! Tells what a file is that is not a GGUF model, and which version one has that is.

use crate::error::{Error, Result, quoted};

/// Remedy for files that were not downloaded as they should be.
const FETCH_AGAIN: &str = "download the model file itself again";

/// Checks the first bytes of a file and returns the GGUF version, 2 or 3.
///
/// # Errors
/// [`Error::WrongFile`] with its own reason for each kind of wrong file, [`Error::Truncated`] where the header is cut.
pub(super) fn check_start(label: &str, bytes: &[u8]) -> Result<u32> {
    if bytes.starts_with(b"GGUF") {
        return check_version(label, bytes);
    }
    let (found, remedy) = identify(bytes);
    Err(Error::wrong_file(label, found, remedy))
}

fn check_version(label: &str, bytes: &[u8]) -> Result<u32> {
    let Some(version) = bytes.get(4..8).and_then(|b| b.try_into().ok()).map(u32::from_le_bytes) else {
        let available = bytes.len() as u64;
        return Err(Error::Truncated { file: label.into(), place: "the header".into(), needed: 24, available });
    };
    let (found, remedy) = match version {
        2 | 3 => return Ok(version),
        0 => ("this GGUF file has version 0, which does not exist".to_owned(), FETCH_AGAIN),
        1 => (
            "this GGUF file has version 1, which was replaced in 2023".to_owned(),
            "get a newer file of this model, or convert it again",
        ),
        // The bytes of a small version number in the other order.
        _ if (1..=16).contains(&version.swap_bytes()) => (
            format!(
                "this is a big-endian model (GGUF version {}), and duan reads little-endian ones",
                version.swap_bytes()
            ),
            "get the usual little-endian file of this model, or convert it again",
        ),
        _ if version <= 255 => (
            format!("this GGUF file has version {version}, and duan reads versions 2 and 3"),
            "update duan, or get a file in version 3",
        ),
        _ => {
            (format!("this GGUF file has version {version}, which does not exist; its header is damaged"), FETCH_AGAIN)
        }
    };
    Err(Error::wrong_file(label, found, remedy))
}

/// What a file is that does not begin with `GGUF`, and what to do.
fn identify(bytes: &[u8]) -> (String, &'static str) {
    let known = |what: &str, remedy: &'static str| (format!("this is {what}, not a GGUF model"), remedy);
    if bytes.is_empty() {
        return ("this file is empty".to_owned(), FETCH_AGAIN);
    }
    if bytes.len() < 4 {
        return (format!("this file has {} bytes, too few for any model", bytes.len()), FETCH_AGAIN);
    }
    if let Some((what, remedy)) = failed_download(bytes) {
        return known(what, remedy);
    }
    if let Some(what) = old_ggml(bytes) {
        return known(what, "get a GGUF file of this model, or convert it again");
    }
    if bytes.starts_with(b"FUGG") {
        return known("a big-endian model", "get the usual little-endian file of this model");
    }
    if is_safetensors(bytes) {
        return known("a safetensors file", "name the folder that it lies in, with config.json and tokenizer.json");
    }
    if let Some((what, remedy)) = archive(bytes) {
        return known(what, remedy);
    }
    if bytes.iter().take(4096).all(|&byte| byte == 0) {
        return ("this file begins with zeros, as an unfinished download does".to_owned(), FETCH_AGAIN);
    }
    if let Some(at) = bytes[..bytes.len().min(4096)].windows(4).position(|window| window == b"GGUF") {
        return (
            format!("a GGUF model begins at byte {at} of this file, not at its start"),
            "cut off what stands before it",
        );
    }
    unknown(bytes)
}

/// What stands in the place of a file that was not downloaded as it should be, whatever kind it is of, and what to do.
pub(crate) fn failed_download(bytes: &[u8]) -> Option<(&'static str, &'static str)> {
    if bytes.starts_with(b"version https://git-lfs") {
        let remedy = "fetch the real file with `git lfs pull`, or download it";
        return Some(("a Git LFS pointer, which only names the file", remedy));
    }
    is_html(bytes)
        .then_some(("an HTML page", "the download got a web page (a login, an error); download the file itself"))
}

fn unknown(bytes: &[u8]) -> (String, &'static str) {
    let start = &bytes[..bytes.len().min(40)];
    let is_text = start.iter().all(|byte| byte.is_ascii_graphic() || byte.is_ascii_whitespace());
    match std::str::from_utf8(start) {
        Ok(text) if is_text => (
            format!("this is a text that begins with \"{}\", not a GGUF model", quoted(text)),
            "if it was downloaded, the text may say why; name a .gguf file",
        ),
        _ => (format!("this is not a GGUF model (it begins with the bytes {:02x?})", &bytes[..4]), "name a .gguf file"),
    }
}

fn is_html(bytes: &[u8]) -> bool {
    let text = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes).trim_ascii_start();
    [&b"<!doctype"[..], b"<html", b"<head", b"<?xml", b"<!--"]
        .iter()
        .any(|tag| text.get(..tag.len()).is_some_and(|start| start.eq_ignore_ascii_case(tag)))
}

/// The magics of the formats before GGUF were `u32` written little-endian, so their letters stand reversed.
fn old_ggml(bytes: &[u8]) -> Option<&'static str> {
    match &bytes[..4] {
        b"lmgg" | b"ggml" => Some("a model in the old GGML format"),
        b"fmgg" | b"ggmf" => Some("a model in the old GGMF format"),
        b"tjgg" | b"ggjt" => Some("a model in the old GGJT format"),
        b"algg" | b"ggla" => Some("a LoRA adapter in the old GGLA format"),
        _ => None,
    }
}

/// Safetensors begin with the length of a JSON text, which follows.
fn is_safetensors(bytes: &[u8]) -> bool {
    let Some((length, rest)) = bytes.split_first_chunk::<8>() else {
        return false;
    };
    u64::from_le_bytes(*length) <= 100_000_000 && rest.first() == Some(&b'{')
}

fn archive(bytes: &[u8]) -> Option<(&'static str, &'static str)> {
    let unpack = "unpack it and name the .gguf file inside";
    if bytes.starts_with(b"PK\x03\x04") || bytes.starts_with(b"PK\x05\x06") {
        return Some(("a zip archive (a wheel or a PyTorch checkpoint is one too)", unpack));
    }
    if bytes.starts_with(b"\x1f\x8b") {
        return Some(("a gzip archive", unpack));
    }
    if bytes.starts_with(b"\x28\xb5\x2f\xfd") {
        return Some(("a zstd archive", unpack));
    }
    if bytes.starts_with(b"\xfd7zXZ") {
        return Some(("an xz archive", unpack));
    }
    None
}
