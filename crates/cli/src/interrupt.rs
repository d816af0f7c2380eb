//! Ctrl-C: ends the answer that is being written, not the program; where nothing is being written it ends the program.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use crate::output::say;

/// Exit code of a program that Ctrl-C ended, as shells expect it (128 and the signal's number).
pub(crate) const INTERRUPTED: u8 = 130;

/// What the signal's handler and the program share.
#[derive(Clone, Default)]
pub(crate) struct Interrupt {
    cancel: Arc<AtomicBool>,
    answering: Arc<AtomicBool>,
    presses: Arc<AtomicU32>,
}

impl Interrupt {
    /// Installs the handler; once per process.
    ///
    /// # Errors
    /// Where the system refuses.
    pub(crate) fn install() -> anyhow::Result<Interrupt> {
        let interrupt = Interrupt::default();
        let shared = interrupt.clone();
        ctrlc::set_handler(move || shared.pressed())?;
        Ok(interrupt)
    }

    /// The flag that the engine watches: true once the answer is to end.
    pub(crate) fn flag(&self) -> Arc<AtomicBool> {
        self.cancel.clone()
    }

    /// While the guard lives, Ctrl-C ends the answer.
    pub(crate) fn answer(&self) -> Answering<'_> {
        self.cancel.store(false, Ordering::SeqCst);
        self.presses.store(0, Ordering::SeqCst);
        self.answering.store(true, Ordering::SeqCst);
        Answering { interrupt: self }
    }

    /// Whether Ctrl-C was pressed since the last answer began.
    pub(crate) fn was_pressed(&self) -> bool {
        self.cancel.load(Ordering::SeqCst)
    }

    fn pressed(&self) {
        if !self.answering.load(Ordering::SeqCst) {
            leave();
        }
        self.cancel.store(true, Ordering::SeqCst);
        match self.presses.fetch_add(1, Ordering::SeqCst) {
            0 => {}
            1 => say("\nstopping after this step; press Ctrl-C once more to leave at once"),
            _ => leave(),
        }
    }
}

/// See [`Interrupt::answer`].
pub(crate) struct Answering<'a> {
    interrupt: &'a Interrupt,
}

impl Drop for Answering<'_> {
    fn drop(&mut self) {
        self.interrupt.answering.store(false, Ordering::SeqCst);
    }
}

fn leave() -> ! {
    // The terminal shows ^C in the middle of a line.
    say("");
    std::process::exit(i32::from(INTERRUPTED));
}
