//! Threads with stacks that no template can overflow, and with a deadline.
//!
//! The template engine recurses: its parser, its compiler and the drop of its syntax tree once for each link of a chain such as
//! `1+1+1` or `{% elif %}`, of which it counts only some; and values once for each level that a template nests. A stack that
//! overflows ends the whole program, so every use of the engine runs on a thread whose stack is large enough for the worst that
//! its input can ask for. A stack that is not used takes address space, but no memory.
//!
//! # Reading a template
//!
//! Each level of recursion takes at least one character of the source. Measured with minijinja 3.1 for every chain and bracket
//! that its grammar has, the most that one character can ask for is 448 bytes in optimized builds (`-`, and `(` in the target
//! of a loop) and 2944 in builds without any optimization (the same `(`); [`READ_BYTES_PER_CHARACTER`] is twice the larger. What
//! the engine does count ends at 150 levels, which [`STACK_BYTES`] holds many times over. With sources of at most
//! [`super::LONGEST_SOURCE_BYTES`] that is 768 MiB of address space, of which at most 60 MB are touched.
//!
//! # Rendering
//!
//! A template can nest values one level for each unit of fuel or two; see [`RENDER_BYTES_PER_FUEL`].

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use minijinja::{Error, ErrorKind};

/// How long one use of the engine may take. Templates take milliseconds, also on slow devices.
pub(super) const DEADLINE: Duration = Duration::from_secs(5);

/// What every stack has.
const STACK_BYTES: usize = 15 << 20;
/// More for each character of a template that is read.
const READ_BYTES_PER_CHARACTER: usize = 6 << 10;
/// More for each unit of fuel of a rendering.
const RENDER_BYTES_PER_FUEL: usize = 512;

/// The most fuel of a rendering, so that its stack has less than 1 GiB.
pub(super) const MOST_FUEL: u64 = ((1 << 30) - STACK_BYTES as u64) / RENDER_BYTES_PER_FUEL as u64;

/// The stack for reading `source`.
pub(super) fn bytes_to_read(source: &str) -> usize {
    source.chars().count().saturating_mul(READ_BYTES_PER_CHARACTER).saturating_add(STACK_BYTES)
}

/// The stack for a rendering with `fuel`.
pub(super) fn bytes_to_render(fuel: u64) -> usize {
    let fuel = usize::try_from(fuel).unwrap_or(usize::MAX);
    fuel.saturating_mul(RENDER_BYTES_PER_FUEL).saturating_add(STACK_BYTES)
}

/// Runs `work` on a stack of its own, for at most [`DEADLINE`].
///
/// A thread cannot be stopped. One that takes longer is given up, and ends when its work does or with the program.
/// `is_given_up` remembers it, and what was given up once is not tried again.
pub(super) fn run<T: Send + 'static>(
    stack_bytes: usize,
    is_given_up: &AtomicBool,
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    let failed = |message: String| Err(Error::new(ErrorKind::InvalidOperation, message));
    let given_up = || failed(format!("the template was still running after {} s and was given up", DEADLINE.as_secs()));
    if is_given_up.load(Ordering::SeqCst) {
        return given_up();
    }
    let (send, receive) = mpsc::sync_channel(1);
    let work = move || {
        // Nobody listens any more when the deadline is over.
        let _ = send.send(work());
    };
    if let Err(error) = std::thread::Builder::new().stack_size(stack_bytes).spawn(work) {
        return failed(format!("no stack of {stack_bytes} bytes for the template: {error}"));
    }
    match receive.recv_timeout(DEADLINE) {
        Ok(result) => result,
        Err(mpsc::RecvTimeoutError::Disconnected) => failed("the template engine panicked".to_owned()),
        Err(mpsc::RecvTimeoutError::Timeout) => {
            is_given_up.store(true, Ordering::SeqCst);
            given_up()
        }
    }
}
