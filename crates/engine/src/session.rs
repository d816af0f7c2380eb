//! One conversation: tokens in, one token out.
//!
//! A session is a sequence of the ledger and what can be done with it. Its prompt is always the whole conversation: what of it
//! is in the cache already is kept, the rest is fed in pieces. The context's end is an error before the answer or a reason
//! for its end, never silent.

use std::ops::{ControlFlow, Range};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use crate::error::{Error, Result};
use crate::event::{Event, FinishReason, Timings};
use crate::executor::Executor;
use crate::ledger::SequenceId;
use crate::rerun::KeptValues;
use crate::sampling::Sampler;

/// Who is told what happens; a break ends the answer.
pub type OnEvent<'a> = dyn FnMut(&Event<'_>) -> ControlFlow<()> + 'a;

/// What ends an answer.
#[derive(Debug, Clone, Copy)]
pub struct Until<'a> {
    /// The most tokens of the answer; `None` goes on to the context's end.
    pub max_tokens: Option<usize>,
    /// Tokens that end the model's turn.
    pub stop_tokens: &'a [u32],
    /// Ends the answer at the next token or piece of the prompt once it is true. It is never written here.
    pub cancel: &'a AtomicBool,
}

/// One conversation on an [`Executor`]; use it with the one that it was opened on, and close it there.
#[derive(Debug)]
pub struct Session {
    sequence: SequenceId,
}

impl Session {
    /// An empty session.
    pub fn open(executor: &mut Executor) -> Self {
        Self { sequence: executor.ledger_mut().open() }
    }

    /// A second session that begins with the same tokens; what is in the cache is shared until one of them writes.
    pub fn fork(&self, executor: &mut Executor) -> Self {
        Self { sequence: executor.ledger_mut().fork(self.sequence) }
    }

    /// Gives the session's part of the cache back.
    pub fn close(self, executor: &mut Executor) {
        executor.ledger_mut().close(self.sequence);
    }

    /// The tokens that are in the cache.
    pub fn tokens<'a>(&self, executor: &'a Executor) -> &'a [u32] {
        executor.ledger().tokens(self.sequence)
    }

    /// Forgets what is behind the first `length` tokens. Returns how many are left: `length`, or the nearest number below it
    /// that the model can go back to.
    pub fn rewind(&mut self, executor: &mut Executor, length: usize) -> usize {
        executor.ledger_mut().rewind(self.sequence, length)
    }

    /// Keeps what the cache and `tokens` have in common at their beginning and forgets the rest. The last of `tokens` is never
    /// kept, as its logits are wanted. Returns how many tokens were kept.
    pub fn keep_common(&mut self, executor: &mut Executor, tokens: &[u32]) -> usize {
        let common = executor.ledger().common_prefix(self.sequence, tokens);
        self.rewind(executor, common.min(tokens.len().saturating_sub(1)))
    }

    /// Appends `tokens` in pieces of at most `max_rows`; the logits of the last one can be read afterwards. `after_piece` is
    /// told how many are done; a break ends it there.
    ///
    /// # Errors
    /// When there are none, a token is unknown, they do not fit, or a device fails. The pieces before stay in the cache.
    pub fn feed(
        &mut self,
        executor: &mut Executor,
        tokens: &[u32],
        mut after_piece: impl FnMut(usize) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>> {
        if tokens.is_empty() {
            return Err(Error::EmptyPrompt);
        }
        self.check_room(executor, tokens.len())?;
        let mut done = 0;
        for piece in tokens.chunks(executor.limits().max_rows) {
            done += piece.len();
            executor.pass(self.sequence, piece, usize::from(done == tokens.len()))?;
            if after_piece(done).is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Appends `tokens`, at most `max_rows`, in one pass; the logits of its last `wanted` rows, at most `max_wanted_rows`, can be read
    /// afterwards.
    ///
    /// # Errors
    /// When a token is unknown, the tokens do not fit in the context or in a pass, or a device fails.
    pub fn pass(&mut self, executor: &mut Executor, tokens: &[u32], wanted: usize) -> Result<()> {
        executor.pass(self.sequence, tokens, wanted)
    }

    /// See [`Executor::keep_values`].
    ///
    /// # Errors
    /// As there.
    pub fn keep_values(&self, executor: &mut Executor, rows: (usize, usize), first: usize) -> Result<KeptValues> {
        executor.keep_values(self.sequence, rows, first)
    }

    /// See [`Executor::rerun`].
    ///
    /// # Errors
    /// As there.
    pub fn rerun(
        &self,
        executor: &mut Executor,
        rows: (usize, usize),
        kept: &KeptValues,
        ops: Range<usize>,
    ) -> Result<()> {
        executor.rerun(self.sequence, rows, kept, ops)
    }

    /// Chooses the next token from the logits of the last pass, and notes it as recent. It is not in the cache yet.
    ///
    /// # Errors
    /// When a logit is not finite.
    pub fn next(&mut self, executor: &Executor, sampler: &mut Sampler) -> Result<u32> {
        let token = sampler.sample(executor.logits(1))?;
        sampler.accept(token);
        Ok(token)
    }

    /// Answers a prompt: the tokens of the whole conversation. Emits the events of an answer but for texts, which need a
    /// tokenizer, and the last one, which comes after the last text.
    ///
    /// # Errors
    /// When the prompt is empty, too long or has unknown tokens, the logits are no numbers, or a device fails.
    pub fn answer(
        &mut self,
        executor: &mut Executor,
        prompt: &[u32],
        sampler: &mut Sampler,
        until: &Until<'_>,
        on_event: &mut OnEvent<'_>,
    ) -> Result<Timings> {
        let mut answer = Answer::start(self, executor, prompt, sampler, until, on_event)?;
        let finish_reason = match answer.prefill()? {
            ControlFlow::Break(()) => FinishReason::Cancelled,
            ControlFlow::Continue(()) => answer.decode()?,
        };
        Ok(answer.finish(finish_reason))
    }

    /// The logits of every one of `tokens`, read as one sequence from position 0: `on_row` gets position and logits
    /// `[vocab_size]`, in order; a break ends it. Few rows are in memory at a time. Ends early, without an error, when `cancel`
    /// becomes true.
    ///
    /// # Errors
    /// When a token is unknown, the tokens do not fit in the context, or a device fails.
    pub fn evaluate(
        &mut self,
        executor: &mut Executor,
        tokens: &[u32],
        cancel: &AtomicBool,
        mut on_row: impl FnMut(usize, &[f32]) -> ControlFlow<()>,
    ) -> Result<()> {
        self.rewind(executor, 0);
        self.check_room(executor, tokens.len())?;
        let rows = executor.limits().max_wanted_rows;
        for (index, piece) in tokens.chunks(rows).enumerate() {
            if cancel.load(Ordering::Relaxed) {
                return Ok(());
            }
            executor.pass(self.sequence, piece, piece.len())?;
            let logits = executor.logits(piece.len());
            for (row, logits) in logits.chunks_exact(executor.vocab_size()).enumerate() {
                if on_row(index * rows + row, logits).is_break() {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    fn check_room(&self, executor: &Executor, tokens: usize) -> Result<()> {
        let (used, context) = (self.tokens(executor).len(), executor.context());
        if tokens > context - used { Err(Error::ContextFull { tokens, used, context }) } else { Ok(()) }
    }
}

/// An answer while it is made.
struct Answer<'a, 'e> {
    session: &'a mut Session,
    executor: &'a mut Executor,
    sampler: &'a mut Sampler,
    prompt: &'a [u32],
    until: &'a Until<'a>,
    on_event: &'a mut OnEvent<'e>,
    started: Instant,
    warned: bool,
    timings: Timings,
}

impl<'a, 'e> Answer<'a, 'e> {
    fn start(
        session: &'a mut Session,
        executor: &'a mut Executor,
        prompt: &'a [u32],
        sampler: &'a mut Sampler,
        until: &'a Until<'a>,
        on_event: &'a mut OnEvent<'e>,
    ) -> Result<Self> {
        let started = Instant::now();
        let (tokens, context) = (prompt.len(), executor.context());
        if tokens == 0 {
            return Err(Error::EmptyPrompt);
        }
        if tokens >= context {
            return Err(Error::PromptTooLong { tokens, context, model_context: executor.model_context() });
        }
        let cached_tokens = session.keep_common(executor, prompt);
        sampler.accept_all(prompt);
        let timings = Timings {
            prompt_tokens: tokens,
            cached_tokens,
            prefill_ns: 0,
            first_token_ns: 0,
            generated_tokens: 0,
            decode_tokens: 0,
            decode_ns: 0,
            total_ns: 0,
            context_used: cached_tokens,
            context,
            seed: sampler.seed(),
            finish_reason: FinishReason::Stop,
        };
        Ok(Self { session, executor, sampler, prompt, until, on_event, started, warned: false, timings })
    }

    /// Feeds what of the prompt is not cached. Time in the callbacks is not counted as prefill.
    fn prefill(&mut self) -> Result<ControlFlow<()>> {
        let Timings { prompt_tokens: total, cached_tokens: cached, .. } = self.timings;
        if self.is_cancelled() {
            return Ok(ControlFlow::Break(()));
        }
        let (on_event, cancel, prefill_ns) = (&mut *self.on_event, self.until.cancel, &mut self.timings.prefill_ns);
        let mut piece_started = Instant::now();
        let after_piece = |done: usize| {
            *prefill_ns += nanoseconds(piece_started);
            let flow = on_event(&Event::PrefillProgress { done: cached + done, total, cached });
            piece_started = Instant::now();
            if cancel.load(Ordering::Relaxed) { ControlFlow::Break(()) } else { flow }
        };
        let flow = self.session.feed(self.executor, &self.prompt[cached..], after_piece)?;
        if self.warn_if_nearly_full().is_break() { Ok(ControlFlow::Break(())) } else { Ok(flow) }
    }

    fn decode(&mut self) -> Result<FinishReason> {
        let most = self.until.max_tokens.unwrap_or(usize::MAX);
        if most == 0 {
            return Ok(FinishReason::Length);
        }
        loop {
            let id = self.session.next(self.executor, self.sampler)?;
            self.timings.generated_tokens += 1;
            if self.timings.generated_tokens == 1 {
                self.timings.first_token_ns = nanoseconds(self.started);
            }
            let ends_turn = self.until.stop_tokens.contains(&id);
            let flow = (self.on_event)(&Event::Token { id, ends_turn });
            if ends_turn {
                return Ok(FinishReason::Stop);
            }
            if self.timings.generated_tokens >= most {
                return Ok(FinishReason::Length);
            }
            if flow.is_break() || self.is_cancelled() {
                return Ok(FinishReason::Cancelled);
            }
            if self.used() == self.executor.context() {
                return Ok(FinishReason::Context);
            }
            let pass_started = Instant::now();
            self.executor.pass(self.session.sequence, &[id], 1)?;
            self.timings.decode_ns += nanoseconds(pass_started);
            self.timings.decode_tokens += 1;
            if self.warn_if_nearly_full().is_break() {
                return Ok(FinishReason::Cancelled);
            }
        }
    }

    fn finish(mut self, finish_reason: FinishReason) -> Timings {
        self.timings.finish_reason = finish_reason;
        self.timings.context_used = self.used();
        self.timings.total_ns = nanoseconds(self.started);
        let Timings { prompt_tokens, cached_tokens, prefill_ns, decode_tokens, decode_ns, context_used, .. } =
            self.timings;
        tracing::debug!(prompt_tokens, cached_tokens, prefill_ns, "prefill");
        tracing::debug!(decode_tokens, decode_ns, context_used, ?finish_reason, "decode");
        self.timings
    }

    fn used(&self) -> usize {
        self.session.tokens(self.executor).len()
    }

    fn is_cancelled(&self) -> bool {
        self.until.cancel.load(Ordering::Relaxed)
    }

    /// Tells once that less than an eighth of the context is left.
    fn warn_if_nearly_full(&mut self) -> ControlFlow<()> {
        let (used, context) = (self.used(), self.executor.context());
        if self.warned || used < context - context / 8 {
            return ControlFlow::Continue(());
        }
        self.warned = true;
        (self.on_event)(&Event::ContextNearlyFull { used, context })
    }
}

fn nanoseconds(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
#[path = "session_tests.rs"]
mod tests;
