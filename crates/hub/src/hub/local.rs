//! Models of this machine, used where they lie.

use std::fs;
use std::path::Path;

use super::ModelFile;
use crate::error::{Error, ErrorKind, Result};

/// A file, or a checkpoint folder, which counts with all files directly in it.
pub(super) fn local(path: &Path) -> Result<ModelFile> {
    let metadata = match fs::metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Err(Error::new(
                ErrorKind::NoSuchFile,
                format!("there is no file {}; check the path", path.display()),
            ));
        }
        Err(error) => return Err(Error::io("read", path, &error)),
    };
    let bytes = if metadata.is_dir() { checkpoint_bytes(path)? } else { metadata.len() };
    Ok(ModelFile {
        path: path.to_path_buf(),
        name: path.display().to_string(),
        bytes,
        sha256: None,
        source: None,
        catalogue: None,
        is_verified: false,
    })
}

/// Bytes of the files of a checkpoint folder.
fn checkpoint_bytes(folder: &Path) -> Result<u64> {
    if !folder.join("config.json").is_file() {
        return Err(Error::new(
            ErrorKind::NoSuchFile,
            format!(
                "{} is a folder without a config.json; give the path of a GGUF file or of a checkpoint folder",
                folder.display()
            ),
        ));
    }
    let entries = fs::read_dir(folder).map_err(|error| Error::io("read the folder", folder, &error))?;
    // Behind links, too: the caches of others are made of them.
    let files = entries.flatten().filter_map(|entry| fs::metadata(entry.path()).ok());
    Ok(files.filter(fs::Metadata::is_file).map(|file| file.len()).sum())
}
