//! What can go wrong.

/// The crate's result.
pub type Result<T> = std::result::Result<T, Error>;

/// A page that could not be written. All of it would be a fault of duan: data of any kind has a page.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A template.
    #[error("the page could not be written: {0:#}")]
    Template(#[from] minijinja::Error),
    /// The data for programs.
    #[error("the page's data could not be written: {0}")]
    Json(#[from] serde_json::Error),
}
