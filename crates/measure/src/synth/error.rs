//! Why a synthetic file was not written.

/// An error of writing a synthetic file: one line with the remedy.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file cannot be written.
    #[error(transparent)]
    Write(#[from] duan_files::WriteError),
    /// Keys or tensors that do not go together: a fault of duan.
    #[error(transparent)]
    Model(Box<duan_model::Error>),
}

// In a box, because it is much larger than the others.
impl From<duan_model::Error> for Error {
    fn from(error: duan_model::Error) -> Error {
        Error::Model(Box::new(error))
    }
}
