//! What can go wrong on a device.

/// The crate's result.
pub type Result<T> = std::result::Result<T, Error>;

/// A device could not do what it was asked.
#[derive(Debug, thiserror::Error)]
#[error("{device}: {message}")]
pub struct Error {
    /// The device.
    pub device: &'static str,
    /// What was expected and found, and the remedy.
    pub message: String,
}

impl Error {
    /// An error of `device`.
    pub fn new(device: &'static str, message: impl Into<String>) -> Self {
        Self { device, message: message.into() }
    }
}
