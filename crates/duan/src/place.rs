//! Whether a result will have a place, asked before the work that it is the end of.

use std::fs::File;
use std::path::{Path, PathBuf};

use duan_model::checkpoint::Checkpoint;
use duan_quantize::Source;

use crate::error::{Error, Result};

/// Whether the file `out` can be written, as far as that is known before: nobody wants to hear at the end of an hour that it cannot.
/// Neither one of `models` (files, or folders with all that is in them) nor one of `texts` is written over, `force` or not.
///
/// # Errors
/// When there is a file already (but for `force`), no folder, no permission, or what is there is read.
pub fn check_place(out: &Path, models: &[PathBuf], texts: &[PathBuf], force: bool) -> Result<()> {
    duan_files::check_place(out, force)?;
    let same = || Err(Error::SameFile { file: out.display().to_string() });
    if !out.exists() {
        return Ok(());
    }
    if texts.iter().any(|text| File::open(text).is_ok_and(|file| duan_files::is_at(&file, out))) {
        return same();
    }
    for model in models {
        // What is wrong with a model is said where it is opened.
        if let Ok(model) = Checkpoint::open(model)
            && model.is_at(out)?
        {
            return same();
        }
    }
    Ok(())
}
