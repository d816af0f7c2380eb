//! Models that are kept in the caches of their sites' own programs.

use std::fs;
use std::path::PathBuf;

use super::offline::Offline;
use super::{Hub, Known, ModelFile, done};
use crate::cache::{FetchNote, mtime_ns};
use crate::checksum::{Checksum, Hasher};
use crate::download::Partial;
use crate::error::Result;
use crate::files::{create_folder, hash_start, remove_file, remove_leftovers, write_json};
use crate::name::{RepositoryName, Site};
use crate::place::{Deleted, Place, allocated_bytes, damaged, is_below};
use crate::progress::{Progress, Sink};
use crate::repository::{HuggingFace, ModelScope, Store, fetch, find, refuse_strays};

impl Hub {
    /// Makes a model of a repository ready: by what was noted of it, by what lies in the site's cache, or by fetching it.
    pub(super) fn resolve_repository(
        &self,
        known: &Known,
        repository: &RepositoryName,
        progress: Sink<'_>,
    ) -> Result<ModelFile> {
        if let Some(file) = self.placed(known, repository, progress)? {
            return Ok(done(file, false, progress));
        }
        let variable = |name: &str| std::env::var(name).ok();
        let (store, is_site_offline, cache_variable): (Box<dyn Store>, bool, &str) = match repository.site {
            Site::HuggingFace => {
                let site = HuggingFace::new(&self.hugging_face, variable)?;
                let is_offline = site.is_offline();
                (Box::new(site), is_offline, "HF_HOME")
            }
            Site::ModelScope => (Box::new(ModelScope::new(&self.model_scope, variable)?), false, "MODELSCOPE_CACHE"),
        };
        let offline = self.offline.or(is_site_offline.then_some(Offline::Site));
        if let Some(found) = find(&*store, repository, offline.is_some(), progress)? {
            let file = known.placed_file(&found.place);
            // What could not be compared is compared when the server can be asked. In a cache that cannot be written the
            // next start looks again; that is no reason to fail.
            if found.is_final
                && let Err(error) = self.note_place(known, found.place)
            {
                tracing::debug!(%error, "where the model lies could not be noted");
            }
            return Ok(done(file, false, progress));
        }
        if let Some(offline) = offline {
            return Err(self.offline_error(known, offline));
        }
        let fetched = self.fetch_repository(known, repository, &*store, progress);
        fetched.map_err(|error| match repository.site {
            Site::HuggingFace => error.placed_by(cache_variable).or_try(
                "where Hugging Face cannot be reached, HF_ENDPOINT names a mirror, and many of its models are on \
                 ModelScope too, as ms:org/name",
            ),
            Site::ModelScope => error.placed_by(cache_variable),
        })
    }

    fn fetch_repository(
        &self,
        known: &Known,
        repository: &RepositoryName,
        store: &dyn Store,
        progress: Sink<'_>,
    ) -> Result<ModelFile> {
        tracing::info!(name = known.name, "fetching");
        let lock = self.cache.lock(&known.folder, || progress(Progress::Waiting { name: known.name.clone() }))?;
        // Whoever held the lock may have fetched it.
        if let Some(file) = self.placed(known, repository, progress)? {
            return Ok(done(file, false, progress));
        }
        let folder = self.cache.folder(&known.folder);
        let mut parts = Vec::new();
        let mut begun = |partials: &[Partial]| {
            parts = partials.iter().map(|partial| partial.file.clone()).collect();
            create_folder(&folder)?;
            remove_leftovers(&folder);
            let note = FetchNote { name: known.name.clone(), parts: parts.clone(), ..FetchNote::default() };
            write_json(&self.cache.fetch_note_path(&known.folder), &note)
        };
        let result = fetch(&self.client, store, repository, &mut begun, progress);
        let place = match result {
            Ok(place) => place,
            Err(error) => {
                tracing::info!(name = known.name, %error, "not fetched");
                let has_parts = parts.iter().any(|part| part.exists());
                if !has_parts {
                    remove_file(&self.cache.fetch_note_path(&known.folder))?;
                    // It stays where something else is in it.
                    if !folder.exists() || fs::remove_dir(&folder).is_ok() {
                        lock.remove();
                    }
                }
                return Err(error);
            }
        };
        let file = known.placed_file(&place);
        self.note_place(known, place)?;
        remove_file(&self.cache.fetch_note_path(&known.folder))?;
        tracing::info!(name = known.name, bytes = file.bytes, is_verified = file.is_verified, "fetched");
        Ok(done(file, true, progress))
    }

    /// The model by what was noted of it, if all of it is there; hashed again only where a file changed.
    fn placed(&self, known: &Known, repository: &RepositoryName, progress: Sink<'_>) -> Result<Option<ModelFile>> {
        let Some(mut place) = Place::read(&self.cache.place_path(&known.folder)) else { return Ok(None) };
        // A newer duan may mean another model by the same short name.
        let source = format!("{}{}@", repository.site.prefix(), repository.id());
        if place.name != known.name || !place.source.starts_with(&source) {
            return Ok(None);
        }
        let Some(changed) = place.changed() else { return Ok(None) };
        if place.model.is_empty() && !repository.site.keeps_revisions_apart() {
            refuse_strays(&place.name, &place.root, place.files.iter().map(|file| file.path.as_str()))?;
        }
        for index in changed {
            let file = &place.files[index];
            let path = place.root.join(&file.path);
            let failed = |error: std::io::Error| crate::error::Error::io("read", &path, &error);
            let mut opened = fs::File::open(&path).map_err(failed)?;
            let metadata = opened.metadata().map_err(failed)?;
            if metadata.len() != file.bytes {
                let found = format!("none, for it has {} bytes instead of {}", metadata.len(), file.bytes);
                return Err(damaged(&place, file, &found));
            }
            let mut hasher = Hasher::new(&Checksum::Unknown, None);
            hash_start(&mut opened, &path, file.bytes, &mut hasher, progress)?;
            let found = hasher.finish().sha256;
            if found != file.sha256 {
                return Err(damaged(&place, file, &found));
            }
            place.files[index].verified_mtime_ns = mtime_ns(&metadata);
            if let Err(error) = write_json(&self.cache.place_path(&known.folder), &place) {
                tracing::debug!(%error, "the verification could not be noted");
            }
        }
        Ok(Some(known.placed_file(&place)))
    }

    fn note_place(&self, known: &Known, mut place: Place) -> Result<()> {
        create_folder(&self.cache.folder(&known.folder))?;
        let path = self.cache.place_path(&known.folder);
        // What duan fetched once stays duan's to delete.
        if let Some(earlier) = Place::read(&path) {
            for file in &mut place.files {
                let is_same = |old: &&crate::place::PlacedFile| old.path == file.path && old.sha256 == file.sha256;
                file.is_fetched |= earlier.files.iter().find(is_same).is_some_and(|old| old.is_fetched);
            }
        }
        place.name.clone_from(&known.name);
        place.licence = known.entry.map(|entry| entry.licence.to_string());
        write_json(&path, &place)
    }

    /// Deletes what duan brought of a model into another program's cache. Returns what it deleted, and where files stay that
    /// others brought.
    pub(super) fn remove_elsewhere(&self, folder: &str) -> Result<(Deleted, Option<PathBuf>)> {
        let caches = self.site_caches();
        let mut deleted = Deleted::default();
        if let Some(note) = duan_files::read_json::<FetchNote>(&self.cache.fetch_note_path(folder)) {
            for part in note.parts.iter().filter(|part| is_part(part)) {
                if !part.parent().and_then(|folder| folder.canonicalize().ok()).is_some_and(|to| is_below(&to, &caches))
                {
                    deleted.left.extend(fs::symlink_metadata(part).is_ok().then(|| part.clone()));
                    continue;
                }
                deleted.bytes += fs::symlink_metadata(part).map_or(0, |metadata| allocated_bytes(&metadata));
                Partial::at(part).discard()?;
            }
        }
        let Some(place) = Place::read(&self.cache.place_path(folder)) else { return Ok((deleted, None)) };
        let files = place.remove_files(&caches)?;
        deleted.bytes += files.bytes;
        deleted.left.extend(files.left);
        let stays = place.files.iter().any(|file| !file.is_fetched && place.root.join(&file.path).exists());
        Ok((deleted, stays.then(|| place.path())))
    }

    /// The folders in which the sites' own programs keep models.
    fn site_caches(&self) -> Vec<PathBuf> {
        let variable = |name: &str| std::env::var(name).ok();
        let hugging_face = HuggingFace::new(&self.hugging_face, variable).map(|site| site.cache().to_path_buf());
        let model_scope = ModelScope::new(&self.model_scope, variable).map(|site| site.cache().to_path_buf());
        [hugging_face, model_scope].into_iter().flatten().collect()
    }
}

/// Whether a path is one that duan gives to a file that is not whole: a note that says otherwise is not believed.
fn is_part(path: &std::path::Path) -> bool {
    path.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.ends_with(".duan.part"))
}

impl Known {
    fn placed_file(&self, place: &Place) -> ModelFile {
        ModelFile {
            path: place.path(),
            name: self.name.clone(),
            bytes: place.bytes(),
            sha256: place.sha256().map(str::to_string),
            source: Some(place.source.clone()),
            catalogue: self.entry,
            is_verified: place.is_compared(),
        }
    }
}
