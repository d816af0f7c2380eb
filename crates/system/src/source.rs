//! Where the state of a machine is read from.
//!
//! Readers know only a [`Source`]: files and folders by their path below the root, and commands. So a made-up machine
//! ([`crate::made_up`]), and a machine at the end of a cable, are read as this one is.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _};
use std::path::PathBuf;
use std::str::FromStr;

use crate::command::{RunCommand, SystemCommands};

/// A longer file is none of those that are read here: the list of a host with 512 CPUs has 1 MB.
pub const FILE_LIMIT_BYTES: u64 = 4 << 20;

/// A folder with more entries is none of those that are read here.
pub const LIST_LIMIT: usize = 16_384;

/// Letters that are kept of what a file says about a name.
const LINE_LIMIT: usize = 200;

/// A machine, as its system shows it.
///
/// Paths are relative to the root of the machine's files and begin without a slash: `proc/meminfo`.
pub trait Source: fmt::Debug {
    /// The system, as Rust names it: `linux`, `android`, `macos`, `windows`.
    fn os(&self) -> &str;

    /// All bytes of a file.
    ///
    /// # Errors
    /// Where there is no plain file, it may not be read, or it is longer than [`FILE_LIMIT_BYTES`].
    fn read_bytes(&self, path: &str) -> Result<Vec<u8>, Unreadable>;

    /// The names in a folder, ascending.
    ///
    /// # Errors
    /// Where there is no folder, it may not be read, or it has more than [`LIST_LIMIT`] entries.
    fn list(&self, folder: &str) -> Result<Vec<String>, Unreadable>;

    /// What a command prints, bounded in time and length.
    ///
    /// # Errors
    /// Where there is no such program, it fails, takes too long or prints too much.
    fn run(&self, program: &str, arguments: &[&str]) -> Result<String, Unreadable>;

    /// The text of a file. Bytes that are no UTF-8 become U+FFFD.
    ///
    /// # Errors
    /// As [`Source::read_bytes`].
    fn read(&self, path: &str) -> Result<String, Unreadable> {
        Ok(String::from_utf8_lossy(&self.read_bytes(path)?).into_owned())
    }
}

/// Why something could not be read, in one line: where, and what was the matter.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct Unreadable {
    /// The path with its slash, or the command; empty where the reason says all.
    pub place: String,
    /// What was the matter.
    pub why: Why,
}

/// What was the matter.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Why {
    /// There is no such file or folder.
    Absent,
    /// There is no such program.
    NoProgram,
    /// It may not be read.
    Denied,
    /// A folder stands in the place of a file.
    Folder,
    /// Something else than a plain file: a device, a pipe.
    NotPlain,
    /// It is longer than this many bytes.
    TooLong(u64),
    /// There are more entries than this.
    TooMany(usize),
    /// It took longer than this many milliseconds.
    TimedOut(u64),
    /// It says something else than was expected, or the system says why not: a sentence without a full stop.
    Other(String),
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Absent => f.write_str("no such file"),
            Self::NoProgram => f.write_str("no such program"),
            Self::Denied => f.write_str("permission denied"),
            Self::Folder => f.write_str("is a folder"),
            Self::NotPlain => f.write_str("is no plain file"),
            Self::TooLong(bytes) => write!(f, "is longer than {bytes} bytes"),
            Self::TooMany(entries) => write!(f, "has more than {entries} entries"),
            Self::TimedOut(ms) => write!(f, "took longer than {ms} ms"),
            Self::Other(what) => f.write_str(what),
        }
    }
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.place.is_empty() { write!(f, "{}", self.why) } else { write!(f, "{}: {}", self.place, self.why) }
    }
}

impl Unreadable {
    /// Of the file or folder at `path`.
    pub fn at(path: &str, why: Why) -> Self {
        Self { place: format!("/{path}"), why }
    }

    /// Of a command.
    pub fn of_command(program: &str, arguments: &[&str], why: Why) -> Self {
        let words: Vec<&str> = std::iter::once(program).chain(arguments.iter().copied()).collect();
        Self { place: words.join(" "), why }
    }

    /// That a file says something else than was expected.
    pub fn unexpected(path: &str, what: impl Into<String>) -> Self {
        Self::at(path, Why::Other(what.into()))
    }

    /// A reason that says all.
    pub fn because(what: impl Into<String>) -> Self {
        Self { place: String::new(), why: Why::Other(what.into()) }
    }

    /// Whether there is just no such file, which may mean that there is no such thing.
    pub fn is_absent(&self) -> bool {
        self.why == Why::Absent
    }
}

/// The files below a root folder, and commands, of the machine that this runs on.
#[derive(Debug)]
pub struct Local {
    root: PathBuf,
    os: String,
    commands: Box<dyn RunCommand>,
}

impl Local {
    /// This machine.
    pub fn here() -> Self {
        Self::new("/", std::env::consts::OS, SystemCommands)
    }

    /// A tree of files below `root` that looks like the root of a machine with the system `os`, and its commands.
    pub fn new(root: impl Into<PathBuf>, os: impl Into<String>, commands: impl RunCommand + 'static) -> Self {
        Self { root: root.into(), os: os.into(), commands: Box::new(commands) }
    }

    fn open(&self, path: &str) -> io::Result<File> {
        let mut options = OpenOptions::new();
        options.read(true);
        #[cfg(unix)]
        {
            use std::os::unix::fs::OpenOptionsExt as _;
            // To open a pipe would wait until somebody writes.
            options.custom_flags(rustix::fs::OFlags::NONBLOCK.bits().cast_signed());
        }
        options.open(self.root.join(path))
    }
}

impl Source for Local {
    fn os(&self) -> &str {
        &self.os
    }

    fn read_bytes(&self, path: &str) -> Result<Vec<u8>, Unreadable> {
        let failed = |error: &io::Error| Unreadable::at(path, why(error));
        let file = self.open(path).map_err(|error| failed(&error))?;
        let kind = file.metadata().map_err(|error| failed(&error))?;
        if kind.is_dir() {
            return Err(Unreadable::at(path, Why::Folder));
        }
        if !kind.is_file() {
            return Err(Unreadable::at(path, Why::NotPlain));
        }
        let mut bytes = Vec::new();
        file.take(FILE_LIMIT_BYTES + 1).read_to_end(&mut bytes).map_err(|error| failed(&error))?;
        if bytes.len() as u64 > FILE_LIMIT_BYTES {
            return Err(Unreadable::at(path, Why::TooLong(FILE_LIMIT_BYTES)));
        }
        Ok(bytes)
    }

    fn list(&self, folder: &str) -> Result<Vec<String>, Unreadable> {
        let failed = |error: &io::Error| Unreadable::at(folder, why(error));
        let mut names = Vec::new();
        for entry in std::fs::read_dir(self.root.join(folder)).map_err(|error| failed(&error))? {
            names.push(entry.map_err(|error| failed(&error))?.file_name().to_string_lossy().into_owned());
            if names.len() > LIST_LIMIT {
                return Err(Unreadable::at(folder, Why::TooMany(LIST_LIMIT)));
            }
        }
        names.sort_unstable();
        Ok(names)
    }

    fn run(&self, program: &str, arguments: &[&str]) -> Result<String, Unreadable> {
        self.commands.run(program, arguments)
    }
}

/// What the system says, in words without numbers.
pub(crate) fn why(error: &io::Error) -> Why {
    match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Why::Absent,
        io::ErrorKind::PermissionDenied => Why::Denied,
        io::ErrorKind::IsADirectory => Why::Folder,
        _ => {
            let text = error.to_string();
            Why::Other(text.split(" (os error").next().unwrap_or_default().to_lowercase())
        }
    }
}

/// A machine of which nothing is read, for one reason.
#[derive(Debug)]
pub(crate) struct Nothing<'a> {
    pub(crate) os: &'a str,
    pub(crate) reason: &'a str,
}

impl Source for Nothing<'_> {
    fn os(&self) -> &str {
        self.os
    }

    fn read_bytes(&self, _: &str) -> Result<Vec<u8>, Unreadable> {
        Err(Unreadable::because(self.reason))
    }

    fn list(&self, _: &str) -> Result<Vec<String>, Unreadable> {
        Err(Unreadable::because(self.reason))
    }

    fn run(&self, _: &str, _: &[&str]) -> Result<String, Unreadable> {
        Err(Unreadable::because(self.reason))
    }
}

/// The number that a file holds alone.
pub(crate) fn number<T: FromStr>(source: &dyn Source, path: &str) -> Result<T, Unreadable> {
    parse(path, &source.read(path)?)
}

/// A number of the file at `path`.
pub(crate) fn parse<T: FromStr>(path: &str, text: &str) -> Result<T, Unreadable> {
    let text = text.trim();
    text.parse()
        .map_err(|_| Unreadable::unexpected(path, format!("{} is no number of the kind expected", quoted(text))))
}

/// The one line that a file holds, without what ends it.
pub(crate) fn line(source: &dyn Source, path: &str) -> Result<String, Unreadable> {
    let text = source.read(path)?;
    one_line(&text).ok_or_else(|| Unreadable::unexpected(path, "is empty"))
}

/// The first line of a text, without blanks and zeros around it; none where it is empty.
pub(crate) fn one_line(text: &str) -> Option<String> {
    let line = text.trim_matches(|letter: char| letter == '\0' || letter.is_whitespace()).lines().next()?;
    let line: String = line.trim_end().chars().take(LINE_LIMIT).collect();
    (!line.is_empty()).then_some(line)
}

/// A short piece of what was found, for a reason.
pub(crate) fn quoted(text: &str) -> String {
    let short: String = text.chars().take(40).collect();
    let rest = if short.len() < text.len() { "..." } else { "" };
    format!("{short:?}{rest}")
}

/// The value after a key at the beginning of a line, as in `/proc/meminfo` and `/proc/self/status`.
pub(crate) fn value_of<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    text.lines().find_map(|line| Some(line.strip_prefix(key)?.strip_prefix(':')?.trim()))
}

/// The number after a key at the beginning of a line, as in `cpu.stat` and `memory.stat`.
pub(crate) fn stat_of(path: &str, text: &str, key: &str) -> Result<u64, Unreadable> {
    let value = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(' '));
    parse(path, value.ok_or_else(|| Unreadable::unexpected(path, format!("says nothing of {key}")))?)
}

#[cfg(test)]
#[path = "source_tests.rs"]
mod tests;
