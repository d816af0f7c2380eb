//! Names of models in repositories: `hf:org/name[@revision][:quantization][/file]`, and `ms:` for ModelScope.

use std::fmt;

use super::is_plain_relative_path;
use crate::error::{Error, ErrorKind, Result};

/// Whose repositories.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Site {
    /// Hugging Face, or a mirror of it.
    HuggingFace,
    /// ModelScope.
    ModelScope,
}

impl Site {
    /// What names of its models begin with.
    pub fn prefix(self) -> &'static str {
        match self {
            Site::HuggingFace => "hf:",
            Site::ModelScope => "ms:",
        }
    }

    /// Whether files of two revisions never lie in one folder.
    pub(crate) fn keeps_revisions_apart(self) -> bool {
        match self {
            Site::HuggingFace => true,
            // A branch moves, and its folder stays.
            Site::ModelScope => false,
        }
    }

    /// Its own name, for people.
    pub fn title(self) -> &'static str {
        match self {
            Site::HuggingFace => "Hugging Face",
            Site::ModelScope => "ModelScope",
        }
    }
}

/// What is wanted of a repository.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Wanted {
    /// The GGUF file that is most used, or the checkpoint folder where there is none: a name without an ending.
    Best,
    /// The GGUF file of a quantization: `:Q4_K_M`.
    Quantization(String),
    /// A file, by its whole path or its last parts: `/file`.
    File(String),
    /// The checkpoint folder, also where there are GGUF files: a name that ends in `/`.
    Folder,
}

/// A model in a repository, checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RepositoryName {
    /// Whose repository.
    pub site: Site,
    /// The organization or person.
    pub owner: String,
    /// The name below it.
    pub name: String,
    /// A branch, tag or commit; without one, the main branch.
    pub revision: Option<String>,
    /// What of it.
    pub wanted: Wanted,
}

impl RepositoryName {
    /// `owner/name`.
    pub fn id(&self) -> String {
        format!("{}/{}", self.owner, self.name)
    }

    /// Reads what follows the prefix of `site`.
    pub(super) fn parse(site: Site, rest: &str) -> Result<RepositoryName> {
        let prefix = site.prefix();
        let bad = |reason: &str| {
            Error::new(
                ErrorKind::BadName,
                format!("{prefix}{rest}: {reason}; write {prefix}org/name[@revision][:Q4_K_M][/file]"),
            )
        };
        let (owner, rest_of_it) = rest.split_once('/').ok_or_else(|| bad("a model is called org/name"))?;
        let name_end = rest_of_it.find(['@', ':', '/']).unwrap_or(rest_of_it.len());
        let (name, mut tail) = rest_of_it.split_at(name_end);
        if !is_part(owner) || !is_part(name) {
            return Err(bad("the names of owner and model have letters, digits, '-', '_' and '.'"));
        }
        let mut revision = None;
        if let Some(after) = tail.strip_prefix('@') {
            // Revisions of proposals have slashes of their own.
            let searched = after.strip_prefix("refs/pr/").map_or(0, |_| "refs/pr/".len());
            let end = after[searched..].find([':', '/']).map_or(after.len(), |at| searched + at);
            let (text, rest) = after.split_at(end);
            if !is_plain_relative_path(text) || !text.chars().all(|c| c.is_ascii_alphanumeric() || "-_./".contains(c)) {
                return Err(bad("the revision after @ is not one"));
            }
            revision = Some(text.to_string());
            tail = rest;
        }
        let wanted = match (tail.strip_prefix(':'), tail.strip_prefix('/')) {
            (Some(quantization), _) => {
                let (quantization, file) = match quantization.split_once('/') {
                    Some((quantization, file)) => (quantization, Some(file)),
                    None => (quantization, None),
                };
                let is_tag = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
                if quantization.is_empty() || quantization.len() > 64 || !quantization.chars().all(is_tag) {
                    return Err(bad("the quantization after ':' is not one"));
                }
                match file {
                    // The file says it all.
                    Some(file) if is_plain_relative_path(file) => Wanted::File(file.to_string()),
                    Some(_) => return Err(bad("the file is not a plain path inside the repository")),
                    None => Wanted::Quantization(quantization.to_string()),
                }
            }
            (None, Some("")) => Wanted::Folder,
            (None, Some(file)) if is_plain_relative_path(file) => Wanted::File(file.to_string()),
            (None, Some(_)) => return Err(bad("the file is not a plain path inside the repository")),
            (None, None) => Wanted::Best,
        };
        Ok(RepositoryName { site, owner: owner.to_string(), name: name.to_string(), revision, wanted })
    }
}

/// A name that is one part of an address and of a path, on every system.
fn is_part(text: &str) -> bool {
    (1..=96).contains(&text.len())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
        && !text.starts_with(['.', '-'])
        && !text.contains("..")
        && !text.contains("--")
}

impl fmt::Display for RepositoryName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}/{}", self.site.prefix(), self.owner, self.name)?;
        if let Some(revision) = &self.revision {
            write!(f, "@{revision}")?;
        }
        match &self.wanted {
            Wanted::Best => Ok(()),
            Wanted::Quantization(quantization) => write!(f, ":{quantization}"),
            Wanted::File(file) => write!(f, "/{file}"),
            Wanted::Folder => f.write_str("/"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_in_all_forms_and_shown_as_they_were() {
        for (text, revision, wanted) in [
            ("hf:Qwen/Qwen3-0.6B-GGUF", None, Wanted::Best),
            ("hf:Qwen/Qwen3-0.6B-GGUF:Q4_K_M", None, Wanted::Quantization("Q4_K_M".into())),
            ("hf:a/b@main:UD-Q4_K_XL", Some("main"), Wanted::Quantization("UD-Q4_K_XL".into())),
            ("hf:a/b@refs/pr/3/x.gguf", Some("refs/pr/3"), Wanted::File("x.gguf".into())),
            ("ms:a/b/dir/x.gguf", None, Wanted::File("dir/x.gguf".into())),
            ("ms:a/b@v1.0/", Some("v1.0"), Wanted::Folder),
        ] {
            let site = if text.starts_with("hf:") { Site::HuggingFace } else { Site::ModelScope };
            let name = RepositoryName::parse(site, &text[3..]).unwrap();
            assert_eq!((name.revision.as_deref(), &name.wanted), (revision, &wanted), "{text}");
            assert_eq!(name.to_string(), text);
        }
        let name = RepositoryName::parse(Site::HuggingFace, "a/b:Q8_0/c/d.gguf").unwrap();
        assert_eq!((name.id(), name.wanted), ("a/b".to_string(), Wanted::File("c/d.gguf".into())));
    }

    #[test]
    fn what_could_lead_elsewhere_is_refused() {
        for text in [
            "",
            "a",
            "a/",
            "/b",
            "../b",
            "a/..",
            "a/.b",
            "a/b@",
            "a/b@../x",
            "a/b@x y",
            "a/b:",
            "a/b:Q4 K",
            "a/b/../c",
            "a/b//c",
            "a b/c",
            "a/b:Q4/../x",
            "a/b?x=1",
            "a--b/c",
        ] {
            let error = RepositoryName::parse(Site::HuggingFace, text).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::BadName, "{text}");
            assert!(error.to_string().contains("write hf:org/name"), "{error}");
        }
    }
}
