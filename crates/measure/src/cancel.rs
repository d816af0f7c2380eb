//! What runs until somebody ends it.

/// Leaves the function when the run was cancelled.
macro_rules! unless_cancelled {
    ($run:expr) => {
        match $run? {
            ControlFlow::Continue(done) => done,
            ControlFlow::Break(()) => return Ok(ControlFlow::Break(())),
        }
    };
}
pub(crate) use unless_cancelled;
