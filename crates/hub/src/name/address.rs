//! A web address as the name of a model: `https://host/path/model.gguf[#sha256=HASH]`.

use std::fmt;

use super::is_plain_relative_path;
use crate::checksum::Checksum;
use crate::error::{Error, ErrorKind, Result};

/// A file at a web address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddressName {
    /// The address without its fragment.
    pub url: String,
    /// SHA-256 in lower-case hexadecimal, where the user gave it.
    pub sha256: Option<String>,
}

impl AddressName {
    pub(super) fn parse(text: &str) -> Result<AddressName> {
        let (url, fragment) = match text.split_once('#') {
            Some((url, fragment)) => (url, Some(fragment)),
            None => (text, None),
        };
        let bad = |reason: &str| {
            let message = format!("{}: {reason}; write https://host/file.gguf[#sha256=HASH]", shown(url));
            Error::new(ErrorKind::BadName, message)
        };
        let host = url.split_once("://").map_or("", |(_, rest)| rest).split(['/', '?']).next().unwrap_or_default();
        if host.is_empty() || url.chars().any(|c| c.is_whitespace() || c.is_control()) {
            return Err(bad("this is no address of a file"));
        }
        let sha256 = match fragment {
            None | Some("") => None,
            Some(fragment) => {
                let hash = fragment.strip_prefix("sha256=").map(Checksum::sha256);
                let hash = hash.filter(Checksum::is_known).ok_or_else(|| bad("what follows # is not sha256=HASH"))?;
                Some(hash.text().to_string())
            }
        };
        Ok(AddressName { url: url.to_string(), sha256 })
    }

    /// The name of the file, as the address says it, fit for every file system.
    pub(crate) fn file(&self) -> String {
        let path = self.url.split(['?', '#']).next().unwrap_or_default();
        let path = path.split_once("://").map_or("", |(_, rest)| rest);
        let last = path.split_once('/').map_or("", |(_, path)| path).rsplit('/').next().unwrap_or_default();
        let kept = |c: char| if c.is_ascii_alphanumeric() || "-_.+".contains(c) { c } else { '_' };
        let name: String = last.chars().map(kept).take(120).collect();
        let name = name.trim_matches('.');
        match name {
            "" => "model.gguf".to_string(),
            name if is_plain_relative_path(name) => name.to_string(),
            // A device's on some systems.
            name => format!("model-{name}"),
        }
    }
}

/// Addresses may carry passwords; a message must not.
fn shown(url: &str) -> String {
    crate::address::without_credentials(url)
}

impl fmt::Display for AddressName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&shown(&self.url))?;
        match &self.sha256 {
            Some(sha256) => write!(f, "#sha256={sha256}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_with_their_hash_and_shown_without_passwords() {
        let hash = "AB".repeat(32);
        let name = AddressName::parse(&format!("https://me:pw@host.example/a/M%20x.gguf?download=true#sha256={hash}"));
        let name = name.unwrap();
        assert_eq!(name.sha256, Some("ab".repeat(32)));
        assert_eq!(name.file(), "M_20x.gguf");
        let shown = format!("https://host.example/a/M%20x.gguf?download=true#sha256={}", "ab".repeat(32));
        assert_eq!(name.to_string(), shown);
        assert_eq!(AddressName::parse("http://host.example").unwrap().file(), "model.gguf");
        for (last, file) in [("..", "model.gguf"), ("m.", "m"), ("aux.gguf", "model-aux.gguf")] {
            assert_eq!(AddressName::parse(&format!("http://host.example/{last}")).unwrap().file(), file);
        }
        for text in ["https://", "https:///x", "https://h/a b", "https://h/x#md5=1", "https://h/x#sha256=12"] {
            assert_eq!(AddressName::parse(text).unwrap_err().kind(), ErrorKind::BadName, "{text}");
        }
    }
}
