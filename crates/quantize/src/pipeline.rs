//! Pieces are coded by all threads at once and handed out in their order, with few of them in between.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use crate::coding::{Coded, Coder, Scratch};
use crate::error::{Error, Result};
use crate::pieces::Cutter;

/// Workers take the next piece, whoever has time, but run no further ahead of the one that is handed out next than `window` pieces: what
/// is coded and not written yet is bounded.
pub(crate) struct Pipeline<'a> {
    coder: &'a Coder<'a>,
    state: Mutex<State>,
    /// A piece was handed out, or it is over: workers may go on.
    room: Condvar,
    /// A piece is coded, or it is over: the next may be handed out.
    coded: Condvar,
    window: usize,
}

struct State {
    cutter: Cutter,
    /// Pieces that were taken and not handed out, in their order; none where a worker is still at one.
    slots: VecDeque<Option<Result<Coded>>>,
    /// Pieces that were handed out.
    handed_out: usize,
    /// Whether all pieces were taken.
    is_cut: bool,
    is_over: bool,
}

impl<'a> Pipeline<'a> {
    pub(crate) fn new(coder: &'a Coder<'a>, cutter: Cutter, threads: usize) -> Pipeline<'a> {
        let state = State { cutter, slots: VecDeque::new(), handed_out: 0, is_cut: false, is_over: false };
        let (room, coded) = (Condvar::new(), Condvar::new());
        Pipeline { coder, state: Mutex::new(state), room, coded, window: 2 * threads }
    }

    /// What each thread does until all pieces are taken, or it is over.
    pub(crate) fn work(&self) {
        let _end = OverOnPanic(self);
        let mut scratch = Scratch::default();
        let mut state = self.lock();
        loop {
            if state.is_over {
                return;
            }
            if state.slots.len() >= self.window {
                state = self.room.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            let Some(piece) = state.cutter.next() else {
                state.is_cut = true;
                self.coded.notify_one();
                return;
            };
            let number = state.handed_out + state.slots.len();
            state.slots.push_back(None);
            drop(state);
            let result = self.coder.code(piece, &mut scratch);
            state = self.lock();
            // Handed out are only pieces that are done, so this one still has its slot.
            let slot = number - state.handed_out;
            state.slots[slot] = Some(result);
            if slot == 0 {
                self.coded.notify_one();
            }
        }
    }

    /// The next piece in order.
    ///
    /// # Errors
    /// Those of the piece, and [`Error::Format`] where a worker failed by a fault of ours, or nobody works any more.
    pub(crate) fn next(&self) -> Result<Coded> {
        let mut state = self.lock();
        loop {
            if matches!(state.slots.front(), Some(Some(_))) {
                let result = state.slots.pop_front().flatten();
                state.handed_out += 1;
                self.room.notify_one();
                return result.expect("the slot was looked at");
            }
            if state.is_over || (state.is_cut && state.slots.is_empty()) {
                let (what, remedy) = ("the work ended before its end".to_owned(), "report this".to_owned());
                return Err(Error::Format { what, remedy });
            }
            state = self.coded.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Ends the work: whoever waits goes on, and no piece is taken any more.
    pub(crate) fn end(&self) {
        self.lock().is_over = true;
        self.room.notify_all();
        self.coded.notify_all();
    }

    /// A thread that panicked left the state as it was between two steps, so it can still be used.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Where a worker panics, nobody must wait for it.
struct OverOnPanic<'p, 'a>(&'p Pipeline<'a>);

impl Drop for OverOnPanic<'_, '_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.end();
        }
    }
}
