//! A page of what was measured, as a file.

use std::path::{Path, PathBuf};

use duan::{check_place, page};

use super::say;
use super::style::on_one_line;

/// Where a page goes.
pub(crate) struct PageFile {
    path: PathBuf,
    force: bool,
}

impl PageFile {
    /// Nothing where no page is wanted.
    ///
    /// # Errors
    /// Where its file is there (but for `force`), cannot be written, or is one of `models`.
    pub(crate) fn checked(file: Option<&Path>, force: bool, models: &[&Path]) -> anyhow::Result<Option<PageFile>> {
        let Some(path) = file else { return Ok(None) };
        let models: Vec<PathBuf> = models.iter().map(|model| (*model).to_owned()).collect();
        check_place(path, &models, &[], force)?;
        Ok(Some(PageFile { path: path.to_owned(), force }))
    }

    /// Writes it, and says where it is.
    ///
    /// # Errors
    /// Where it cannot be written.
    pub(crate) fn write(&self, html: &str) -> anyhow::Result<()> {
        page::write(&self.path, html, self.force)?;
        say(&format!("page: {}; any browser opens it", on_one_line(&self.path.to_string_lossy())));
        Ok(())
    }
}
