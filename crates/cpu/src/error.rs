//! Errors of this device.

pub(crate) use duan_backend::{Error, Result};

/// The name of this device in plans, options and messages.
pub(crate) const NAME: &str = "cpu";

/// An error of the CPU.
pub(crate) fn error(message: impl Into<String>) -> Error {
    Error::new(NAME, message)
}
