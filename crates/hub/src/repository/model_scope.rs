//! ModelScope: its server, and the cache that its own program keeps: `CACHE/models/OWNER/NAME/PATH`, where a dot in NAME is
//! written `___`. That program has one folder for a model, whatever the revision; a revision that was named has one of its own
//! here, `CACHE/models/OWNER/NAME@REVISION`, so that no file of one is taken for another's.
//!
//! Source: the package `modelscope` (version 1.40). Its program keeps a list of what it fetched beside the files, in a form
//! of Python's; duan neither reads nor writes that list, so ModelScope's program looks at the server again for what duan
//! fetched, while duan finds what ModelScope's program fetched.

use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::hugging_face::user_home;
use super::{Begun, Listing, RepositoryFile, SiteOptions, Store};
use crate::address::encoded;
use crate::asked::Asked;
use crate::checksum::Checksum;
use crate::client::{ANSWER_LIMIT_BYTES, Client};
use crate::download::{Partial, Remote};
use crate::error::{Error, ErrorKind, Result};
use crate::files::{create_folder, rename};
use crate::name::{RepositoryName, is_plain_relative_path};
use crate::progress::Sink;

const DEFAULT_DOMAIN: &str = "www.modelscope.cn";

/// The branch that a name without a revision means.
const MAIN: &str = "master";

/// What the site's own program calls the folder of files that are not whole.
const PARTS: &str = "._____temp";

/// The server and the cache, as options and environment say.
#[derive(Clone)]
pub(crate) struct ModelScope {
    endpoint: String,
    cache: PathBuf,
}

impl ModelScope {
    /// The folder of the cache.
    pub(crate) fn cache(&self) -> &Path {
        &self.cache
    }

    /// # Errors
    /// Where there is neither a home folder nor a variable that names the cache.
    pub(crate) fn new(options: &SiteOptions, variable: impl Fn(&str) -> Option<String>) -> Result<ModelScope> {
        let set = |name: &str| variable(name).map(|value| value.trim().to_string()).filter(|value| !value.is_empty());
        let default = || Some(user_home(&set)?.join(".cache").join("modelscope").join("hub"));
        let cache = options.cache_dir.clone().or_else(|| set("MODELSCOPE_CACHE").map(PathBuf::from)).or_else(default);
        let endpoint = options.endpoint.clone().unwrap_or_else(|| {
            let domain = set("MODELSCOPE_DOMAIN").unwrap_or_else(|| DEFAULT_DOMAIN.to_string());
            if domain.contains("://") { domain } else { format!("https://{domain}") }
        });
        let endpoint = endpoint.trim_end_matches('/').to_string();
        let cache = cache.ok_or_else(|| {
            let message =
                "there is no home folder to keep models of ModelScope in; name a folder with MODELSCOPE_CACHE";
            Error::new(ErrorKind::NoSuchFile, message)
        })?;
        Ok(ModelScope { endpoint, cache })
    }

    /// The folder of a model: the one that is there in one of the forms that the site's program knew, else the present one.
    fn root(&self, name: &RepositoryName) -> PathBuf {
        let safe = name.name.replace('.', "___");
        if let Some(revision) = name.revision.as_deref().filter(|revision| *revision != MAIN) {
            return self.cache.join("models").join(&name.owner).join(format!("{safe}@{}", encoded(revision, false)));
        }
        let present = self.cache.join("models").join(&name.owner).join(&safe);
        let earlier = self.cache.join(&name.owner).join(&safe);
        if !present.is_dir() && earlier.is_dir() { earlier } else { present }
    }
}

fn revision(name: &RepositoryName) -> &str {
    name.revision.as_deref().unwrap_or(MAIN)
}

impl Store for ModelScope {
    fn local(&self, name: &RepositoryName) -> Option<Listing> {
        let root = self.root(name);
        let mut files = Vec::new();
        walk(&root, "", 0, &mut files);
        (!files.is_empty()).then_some(Listing { revision: revision(name).to_string(), root, files })
    }

    fn listing(&self, client: &Client, name: &RepositoryName, progress: Sink<'_>) -> Result<Listing> {
        let (id, revision) = (name.id(), revision(name));
        let asked = Asked::ModelScope { repo: id.clone() };
        let url = format!(
            "{}/api/v1/models/{id}/repo/files?Revision={}&Recursive=true",
            self.endpoint,
            encoded(revision, false)
        );
        let answer = client.json::<Answer>(&url, None, &asked, ANSWER_LIMIT_BYTES, progress)?.value;
        let Some(data) = answer.data.filter(|_| answer.success) else {
            let message = format!("ModelScope does not list {id}: {}; check name and revision", answer.message);
            return Err(Error::new(ErrorKind::NotFound, message));
        };
        let files = data.files.into_iter().filter_map(Entry::file).collect();
        Ok(Listing { revision: revision.to_string(), root: self.root(name), files })
    }

    fn remote(&self, name: &RepositoryName, listing: &Listing, file: &RepositoryFile) -> Remote {
        let (revision, path) = (encoded(&listing.revision, false), encoded(&file.path, false));
        Remote {
            url: format!("{}/api/v1/models/{}/repo?Revision={revision}&FilePath={path}", self.endpoint, name.id()),
            filename: file.path.clone(),
            bytes: Some(file.bytes),
            checksum: file.checksum.clone(),
            token: None,
            asked: Asked::ModelScope { repo: name.id() },
        }
    }

    fn partial(&self, _: &RepositoryName, listing: &Listing, file: &RepositoryFile) -> Partial {
        Partial::new(&listing.root.join(PARTS), &format!("{}.duan", file.path.replace('/', "+")))
    }

    fn begin(&self, _: &RepositoryName, _: &RepositoryFile, _: Sink<'_>) -> Result<Begun> {
        Ok(Begun::default())
    }

    fn install(
        &self,
        _: &RepositoryName,
        listing: &Listing,
        file: &RepositoryFile,
        whole: &Path,
        _: &str,
    ) -> Result<()> {
        let path = listing.root.join(&file.path);
        if let Some(folder) = path.parent() {
            create_folder(folder)?;
        }
        rename(whole, &path)
    }

    fn finish(&self, _: &RepositoryName, listing: &Listing) -> Result<()> {
        // The folder of parts belongs to the site's program too: it goes only when it is empty.
        drop(fs::remove_dir(listing.root.join(PARTS)));
        Ok(())
    }
}

#[derive(Deserialize)]
struct Answer {
    #[serde(rename = "Success", default)]
    success: bool,
    #[serde(rename = "Message", default)]
    message: String,
    #[serde(rename = "Data", default)]
    data: Option<Data>,
}

#[derive(Deserialize)]
struct Data {
    #[serde(rename = "Files", default)]
    files: Vec<Entry>,
}

#[derive(Deserialize)]
struct Entry {
    #[serde(rename = "Path")]
    path: String,
    #[serde(rename = "Type", default)]
    kind: String,
    #[serde(rename = "Size", default)]
    size: u64,
    #[serde(rename = "Sha256", default)]
    sha256: Option<String>,
}

impl Entry {
    fn file(self) -> Option<RepositoryFile> {
        let is_file = self.kind != "tree" && is_plain_relative_path(&self.path);
        let checksum = self.sha256.as_deref().map_or(Checksum::Unknown, Checksum::sha256);
        is_file.then_some(RepositoryFile { path: self.path, bytes: self.size, checksum })
    }
}

/// The files of a model's folder, but for those that are hidden: the parts and lists of the site's own program.
fn walk(folder: &Path, inside: &str, depth: usize, files: &mut Vec<RepositoryFile>) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let Ok(name) = entry.file_name().into_string() else { continue };
        let Ok(metadata) = fs::metadata(entry.path()) else { continue };
        let path = if inside.is_empty() { name.clone() } else { format!("{inside}/{name}") };
        if name.starts_with('.') || !is_plain_relative_path(&path) {
            continue;
        }
        if metadata.is_dir() && depth < 16 {
            walk(&entry.path(), &path, depth + 1, files);
        } else if metadata.is_file() {
            files.push(RepositoryFile { path, bytes: metadata.len(), checksum: Checksum::Unknown });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(unix)]
    #[test]
    fn the_environment_places_the_cache_and_dots_are_written_out() {
        let site = |variables: &[(&str, &str)]| {
            let variable = |name: &str| variables.iter().find(|(key, _)| *key == name).map(|(_, v)| v.to_string());
            ModelScope::new(&SiteOptions::default(), variable).unwrap()
        };
        let Ok(crate::ModelName::Repository(name)) = crate::ModelName::parse("ms:Qwen/Qwen2.5-0.5B") else { panic!() };
        let default = site(&[("HOME", "/none/a")]);
        assert_eq!(default.root(&name), Path::new("/none/a/.cache/modelscope/hub/models/Qwen/Qwen2___5-0___5B"));
        assert_eq!(default.endpoint, format!("https://{DEFAULT_DOMAIN}"));
        let set = site(&[("MODELSCOPE_CACHE", "/none/m"), ("MODELSCOPE_DOMAIN", "ms.example")]);
        assert_eq!(set.root(&name), Path::new("/none/m/models/Qwen/Qwen2___5-0___5B"));
        assert_eq!(set.endpoint, "https://ms.example");
        for (text, folder) in [("master", "N"), ("v1.0", "N@v1.0"), ("refs/pr/3", "N@refs%2Fpr%2F3")] {
            let Ok(crate::ModelName::Repository(name)) = crate::ModelName::parse(&format!("ms:o/N@{text}/")) else {
                panic!("{text}")
            };
            assert_eq!(set.root(&name), Path::new("/none/m/models/o").join(folder));
        }
    }

    #[test]
    fn an_answer_without_files_says_why() {
        let text = r#"{"Code": 10010205001, "Data": null, "Message": "not found", "Success": false}"#;
        let answer: Answer = serde_json::from_str(text).unwrap();
        assert!(!answer.success && answer.data.is_none() && answer.message == "not found");
        let text = r#"{"Code": 200, "Success": true, "Data": {"Files": [
            {"Name": "d", "Path": "d", "Type": "tree"}, {"Path": "../x", "Type": "blob"},
            {"Name": "m.gguf", "Path": "d/m.gguf", "Type": "blob", "Size": 5, "Sha256": "zz"}]}}"#;
        let answer: Answer = serde_json::from_str(text).unwrap();
        let files: Vec<RepositoryFile> = answer.data.unwrap().files.into_iter().filter_map(Entry::file).collect();
        let expected = RepositoryFile { path: "d/m.gguf".into(), bytes: 5, checksum: Checksum::Unknown };
        assert_eq!(files, [expected]);
    }
}
