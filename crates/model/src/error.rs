//! The error type of this crate.

use std::fmt::Write as _;
use std::path::Path;

/// What is wrong with a model file, its tokenizer, its template or its configuration.
///
/// Every message is one line that says where (file, key, tensor), what was expected and found, and what to do.
/// Text that comes from a file appears through [`quoted`], so that it can neither break the line nor flood the
/// terminal.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operating system refused.
    #[error("{file}: cannot {action}: {source}; {}", remedy_of_system(source))]
    Io {
        /// The file, as the user named it.
        file: String,
        /// What was tried, as in "cannot *open it*".
        action: &'static str,
        /// The reason that the system gave.
        source: std::io::Error,
    },
    /// The file is something else than a model file that can be read here.
    #[error("{file}: {found}; {remedy}")]
    WrongFile {
        /// The file, as the user named it.
        file: String,
        /// What it is, as a sentence without its end: "this is an HTML page, not a GGUF model".
        found: String,
        /// What to do.
        remedy: String,
    },
    /// The file says it is a model file, and breaks the rules of its format.
    #[error("{file}: {place}: expected {expected}, found {found}; {remedy}")]
    Malformed {
        /// The file, as the user named it.
        file: String,
        /// Where in the file: "metadata key 12 at byte 345".
        place: String,
        /// What the format asks for.
        expected: String,
        /// What stands there.
        found: String,
        /// What to do.
        remedy: String,
    },
    /// The file ends before something that it announces.
    #[error("{file}: {place} needs {needed} bytes, and {available} are left; the file is cut short, fetch it again")]
    Truncated {
        /// The file, as the user named it.
        file: String,
        /// What does not fit: "tensor `output.weight` at byte 12345".
        place: String,
        /// Bytes that it needs.
        needed: u64,
        /// Bytes that are there.
        available: u64,
    },
    /// A metadata key is missing, has another type, or a value that makes no sense.
    #[error("{file}: metadata key `{key}`: expected {expected}, found {found}{}", remedy_or_nothing(remedy))]
    Key {
        /// The file, as the user named it.
        file: String,
        /// The key.
        key: String,
        /// What was expected.
        expected: String,
        /// What was found.
        found: String,
        /// What to do; may be empty.
        remedy: String,
    },
    /// A tensor is missing, superfluous, or has another shape or type than its place asks for.
    #[error("{file}: tensor `{tensor}`: expected {expected}, found {found}{}", remedy_or_nothing(remedy))]
    Tensor {
        /// The file, as the user named it.
        file: String,
        /// The tensor.
        tensor: String,
        /// What was expected.
        expected: String,
        /// What was found.
        found: String,
        /// What to do; may be empty.
        remedy: String,
    },
    /// The file is right, and duan cannot do this yet.
    #[error("{file}: {what}; {remedy}")]
    Unsupported {
        /// The file, as the user named it.
        file: String,
        /// What cannot be done, as a sentence without its end.
        what: String,
        /// What to do.
        remedy: String,
    },
    /// The chat template itself refuses the messages, as templates do where roles do not alternate.
    #[error(
        "{template} refuses: {message}; leave out what it names (templates take a system prompt or two turns of one side \
         for granted, or not at all), or use another model"
    )]
    Refused {
        /// Which template: file and key.
        template: String,
        /// The template's own words, on one line.
        message: String,
    },
    /// The chat template cannot be read, or fails.
    #[error("{template}: {message}")]
    Template {
        /// Which template: file and key.
        template: String,
        /// What went wrong.
        message: String,
    },
}

/// Result of this crate's functions that can fail.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// An [`Error::Io`].
    pub fn io(file: impl Into<String>, action: &'static str, source: std::io::Error) -> Error {
        Error::Io { file: file.into(), action, source }
    }

    /// An [`Error::WrongFile`].
    pub fn wrong_file(file: impl Into<String>, found: impl Into<String>, remedy: impl Into<String>) -> Error {
        Error::WrongFile { file: file.into(), found: found.into(), remedy: remedy.into() }
    }

    /// An [`Error::Key`] without a remedy; `key` is shown shortened and on one line.
    pub fn key(file: impl Into<String>, key: &str, expected: impl Into<String>, found: impl Into<String>) -> Error {
        let (expected, found) = (expected.into(), found.into());
        Error::Key { file: file.into(), key: quoted(key), expected, found, remedy: String::new() }
    }

    /// An [`Error::Tensor`] without a remedy; `tensor` is shown shortened and on one line.
    pub fn tensor(
        file: impl Into<String>,
        tensor: &str,
        expected: impl Into<String>,
        found: impl Into<String>,
    ) -> Error {
        let (expected, found) = (expected.into(), found.into());
        Error::Tensor { file: file.into(), tensor: quoted(tensor), expected, found, remedy: String::new() }
    }

    /// An [`Error::Unsupported`].
    pub fn unsupported(file: impl Into<String>, what: impl Into<String>, remedy: impl Into<String>) -> Error {
        Error::Unsupported { file: file.into(), what: what.into(), remedy: remedy.into() }
    }

    /// An [`Error::Template`].
    pub fn template(template: impl Into<String>, message: impl Into<String>) -> Error {
        Error::Template { template: template.into(), message: message.into() }
    }

    /// The same error with the remedy for files that cannot be helped, where none stands there yet: what is wrong with such a
    /// file, its maker has to change.
    #[must_use]
    pub fn or_from_another_source(self) -> Error {
        self.with_remedy("the file is damaged, or made by a tool that does it differently; get it from another source")
    }

    /// The same error with what to do about it, where the variant has a place for it and none stands there yet.
    #[must_use]
    pub fn with_remedy(mut self, text: impl Into<String>) -> Error {
        if let Error::Key { remedy, .. } | Error::Tensor { remedy, .. } = &mut self
            && remedy.is_empty()
        {
            *remedy = text.into();
        }
        self
    }
}

fn remedy_or_nothing(remedy: &str) -> String {
    if remedy.is_empty() { String::new() } else { format!("; {remedy}") }
}

/// What to do when the system refuses to open or read a file.
fn remedy_of_system(source: &std::io::Error) -> &'static str {
    match source.kind() {
        std::io::ErrorKind::NotFound => "check the folder and the name of the file",
        std::io::ErrorKind::PermissionDenied => "make it readable for this user",
        std::io::ErrorKind::IsADirectory | std::io::ErrorKind::NotADirectory => "name the file itself",
        std::io::ErrorKind::OutOfMemory => "close other programs, or use a smaller model",
        _ => "check the disk or the network that it lies on, and try again",
    }
}

/// Text from a file as it may stand in a message: control characters escaped, cut after 80 characters.
pub fn quoted(text: &str) -> String {
    const LIMIT: usize = 80;
    let mut out = String::new();
    for (count, character) in text.chars().enumerate() {
        if count == LIMIT {
            let _ = write!(out, "... ({} bytes)", text.len());
            break;
        }
        if character.is_control()
            || matches!(character, '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
        {
            out.extend(character.escape_default());
        } else {
            out.push(character);
        }
    }
    out
}

/// The name of a file as messages show it.
pub(crate) fn file_label(path: &Path) -> String {
    quoted_path(&path.to_string_lossy())
}

/// Like [`quoted`] without the limit: the user gave the name and must recognize it.
fn quoted_path(text: &str) -> String {
    text.chars().flat_map(|c| if c.is_control() { c.escape_default().collect::<Vec<_>>() } else { vec![c] }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoted_text_stays_on_one_short_line() {
        assert_eq!(quoted("blk.0.attn_q.weight"), "blk.0.attn_q.weight");
        assert_eq!(quoted("a\nb\u{1b}[31m"), "a\\nb\\u{1b}[31m");
        let long = quoted(&"字".repeat(1000));
        assert_eq!(long, format!("{}... (3000 bytes)", "字".repeat(80)));
        assert_eq!(quoted(&"x".repeat(80)), "x".repeat(80));
    }

    #[test]
    fn refusals_of_the_system_come_with_what_to_do() {
        use std::io::ErrorKind;
        for (kind, remedy) in [
            (ErrorKind::NotFound, "; check the folder and the name of the file"),
            (ErrorKind::PermissionDenied, "; make it readable for this user"),
            (ErrorKind::IsADirectory, "; name the file itself"),
            (ErrorKind::TimedOut, "; check the disk or the network that it lies on, and try again"),
        ] {
            let error = Error::io("m.gguf", "open it", kind.into()).to_string();
            assert!(error.starts_with("m.gguf: cannot open it: ") && error.ends_with(remedy), "{error}");
        }
    }

    #[test]
    fn remedies_are_added_once() {
        let error =
            Error::key("m.gguf", "a.b", "a number", "nothing").with_remedy("convert it again").with_remedy("no");
        assert_eq!(error.to_string(), "m.gguf: metadata key `a.b`: expected a number, found nothing; convert it again");
        let error = Error::tensor("m.gguf", "t", "2 dims", "3");
        assert_eq!(error.to_string(), "m.gguf: tensor `t`: expected 2 dims, found 3");
    }
}
