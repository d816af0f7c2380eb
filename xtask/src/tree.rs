//! The files of the repository as checks see them: paths and texts.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::Context as _;

/// Paths from the root, with `/` between folders, and the text of each file that is text.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    files: BTreeMap<String, Option<String>>,
    /// What git ignores, by path from the root.
    ignored: BTreeSet<String>,
}

impl Tree {
    /// Reads what lies below `root`, without `.git` and without the paths that the root's `.gitignore` names from the root
    /// (`/target`).
    ///
    /// # Errors
    /// When a folder or a file cannot be read.
    pub(crate) fn read(root: &Path) -> anyhow::Result<Self> {
        let ignored = fs::read_to_string(root.join(".gitignore")).unwrap_or_default();
        let ignored = ignored.lines().filter_map(|line| line.trim().strip_prefix('/')).map(str::to_owned).collect();
        let mut tree = Self { files: BTreeMap::new(), ignored };
        tree.read_folder(root, "")?;
        Ok(tree)
    }

    fn read_folder(&mut self, folder: &Path, prefix: &str) -> anyhow::Result<()> {
        let entries = fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
        for entry in entries {
            let entry = entry?;
            let path = format!("{prefix}{}", entry.file_name().to_string_lossy());
            if path == ".git" || self.is_ignored(&path) {
                continue;
            }
            let kind = entry.file_type()?;
            if kind.is_dir() {
                self.read_folder(&entry.path(), &format!("{path}/"))?;
            } else if kind.is_file() {
                let bytes = fs::read(entry.path()).with_context(|| format!("cannot read {path}"))?;
                self.files.insert(path, String::from_utf8(bytes).ok());
            }
        }
        Ok(())
    }

    /// A made-up tree, where git ignores `src/out`.
    #[cfg(test)]
    pub(crate) fn of(files: &[(&str, &str)]) -> Self {
        let files = files.iter().map(|(path, text)| ((*path).to_owned(), Some((*text).to_owned()))).collect();
        Self { files, ignored: BTreeSet::from(["src/out".to_owned()]) }
    }

    /// Every path, in order.
    pub(crate) fn paths(&self) -> impl Iterator<Item = &str> {
        self.files.keys().map(String::as_str)
    }

    /// The text of a file; `None` where there is no such file, or it is not text.
    pub(crate) fn text(&self, path: &str) -> Option<&str> {
        self.files.get(path)?.as_deref()
    }

    /// Every text whose path ends in `ending`, in order.
    pub(crate) fn texts<'a>(&'a self, ending: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.files
            .iter()
            .filter(move |(path, _)| path.ends_with(ending))
            .filter_map(|(path, text)| Some((path.as_str(), text.as_deref()?)))
    }

    /// Whether a file or a folder is called so.
    pub(crate) fn has(&self, path: &str) -> bool {
        let path = path.trim_end_matches('/');
        let inside = format!("{path}/");
        path.is_empty()
            || self.files.contains_key(path)
            || self.files.range(inside.clone()..).next().is_some_and(|(next, _)| next.starts_with(&inside))
    }

    /// Whether git ignores this path: it is there on some machines only.
    pub(crate) fn is_ignored(&self, path: &str) -> bool {
        self.ignored.contains(path.trim_end_matches('/'))
    }

    /// The short names of the folders below `crates` that have a manifest, in order.
    pub(crate) fn crates(&self) -> impl Iterator<Item = &str> {
        self.paths().filter_map(|path| path.strip_prefix("crates/")?.strip_suffix("/Cargo.toml"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_exist_where_files_lie_below_them() {
        let tree = Tree::of(&[("a/b/c.rs", ""), ("a/bc", ""), ("crates/x/Cargo.toml", "")]);
        for path in ["a", "a/", "a/b", "a/b/", "a/b/c.rs", "a/bc"] {
            assert!(tree.has(path), "{path}");
        }
        for path in ["b", "a/b/c", "a/c", "a/b/c.rs/d"] {
            assert!(!tree.has(path), "{path}");
        }
        assert_eq!(tree.crates().collect::<Vec<_>>(), ["x"]);
    }

    #[test]
    fn this_repository_is_read_without_what_git_ignores() {
        let tree = Tree::read(Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()).unwrap();
        assert!(tree.text("xtask/src/tree.rs").is_some_and(|text| text.contains("this_repository_is_read")));
        assert!(tree.paths().all(|path| !path.starts_with(".git/") && !path.starts_with("target/")));
        assert_eq!(tree.text("crates/quant/tests/fixtures/Q6_K.blocks"), None, "bytes are no text");
        assert!(tree.has("crates/quant/tests/fixtures/Q6_K.blocks"));
    }
}
