//! Rounds of prefill and decode with the times of every op, and rounds without, in turn: what noting the times costs is their
//! difference.

use std::ops::{ControlFlow, Range};
use std::sync::atomic::{AtomicBool, Ordering};

use duan_backend::Clock;
use duan_engine::{Executor, PassTimes, Phase, Sampler, SamplingOptions, Session};

use crate::bench::Error;
use crate::cancel::unless_cancelled;

/// Tokens one by one that the round has which does not count.
const WARM_UP_TOKENS: usize = 16;

/// What is run.
#[derive(Clone, Copy)]
pub struct Job<'a> {
    /// Tokens of the prompt; 0 for no prefill.
    pub prompt: usize,
    /// Tokens one by one behind it; 0 for no decode.
    pub generate: usize,
    /// Tokens of context before both.
    pub depth: usize,
    /// How many rounds note times; as many do not.
    pub rounds: usize,
    /// What time it is.
    pub clock: &'a Clock,
    /// How often memory was allocated so far, where that is counted.
    pub allocations: &'a dyn Fn() -> Option<u64>,
    /// Ends it at the next pass once it is true.
    pub cancel: &'a AtomicBool,
}

impl Job<'_> {
    /// Positions that the context must have.
    pub fn positions(&self) -> usize {
        self.prompt.saturating_add(self.generate).saturating_add(self.depth)
    }
}

/// A prompt, or a token of decode, until the token behind it is chosen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepTimes {
    /// Whether it is the prompt.
    pub phase: Phase,
    /// Positions before it.
    pub position: usize,
    /// Its tokens.
    pub tokens: usize,
    /// When it began.
    pub start_ns: u64,
    /// How long its passes took, with what the engine does around them.
    pub fed_ns: u64,
    /// How long the choice of the next token took.
    pub chosen_ns: u64,
    /// Which passes of its round are its own; none where times were not noted.
    pub passes: Range<usize>,
    /// How often memory was allocated meanwhile, where that is counted.
    pub allocations: Option<u64>,
}

impl StepTimes {
    /// All of it.
    pub fn ns(&self) -> u64 {
        self.fed_ns + self.chosen_ns
    }
}

/// One round.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RoundTimes {
    /// The prompt, then each token.
    pub steps: Vec<StepTimes>,
    /// What was noted; nothing in a round without.
    pub passes: Vec<PassTimes>,
}

/// All rounds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Times {
    /// Those with the times of ops.
    pub noted: Vec<RoundTimes>,
    /// Those without.
    pub plain: Vec<RoundTimes>,
}

/// What is told before each step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Progress {
    /// A round that does not count.
    WarmingUp,
    /// The context before is computed.
    FillingContext,
    /// A round that counts, from 0, of all.
    Round {
        /// Which one.
        index: usize,
        /// How many there are.
        of: usize,
    },
}

/// Runs all rounds. Nothing where it was cancelled.
///
/// # Errors
/// When there is nothing to run, a device fails or cannot note times, or the executor's context is too short.
pub fn run(
    executor: &mut Executor,
    job: &Job<'_>,
    on_progress: &mut dyn FnMut(Progress),
) -> Result<Option<Times>, Error> {
    if job.rounds == 0 || job.prompt + job.generate == 0 {
        return Err(Error::Nothing);
    }
    let session = Session::open(executor);
    let sampler = Sampler::new(&SamplingOptions::greedy(), executor.vocab_size())?;
    let mut runner = Rounds { session, executor, job, sampler };
    let ran = runner.all(on_progress);
    let Rounds { session, executor, .. } = runner;
    session.close(executor);
    let observed = executor.observe_times(None, 0);
    let times = ran?;
    observed?;
    Ok(match times {
        ControlFlow::Continue(times) => Some(times),
        ControlFlow::Break(()) => None,
    })
}

struct Rounds<'a> {
    session: Session,
    executor: &'a mut Executor,
    job: &'a Job<'a>,
    sampler: Sampler,
}

type Run<T = ()> = Result<ControlFlow<(), T>, Error>;

impl Rounds<'_> {
    fn all(&mut self, on_progress: &mut dyn FnMut(Progress)) -> Run<Times> {
        let Job { prompt, generate, depth, rounds, .. } = *self.job;
        on_progress(Progress::WarmingUp);
        unless_cancelled!(self.round(prompt, generate.min(WARM_UP_TOKENS), false));
        let mut times = Times::default();
        for index in 0..2 * rounds {
            if depth > 0 {
                on_progress(Progress::FillingContext);
            }
            // Models with state beside keys and values may have to go back further.
            let kept = self.session.rewind(self.executor, depth).min(depth);
            let context = self.tokens(kept, depth - kept);
            unless_cancelled!(self.feed(&context));
            on_progress(Progress::Round { index, of: 2 * rounds });
            // With, without, without, with: what grows slowly meanwhile is the same for both.
            let is_noted = matches!(index % 4, 0 | 3);
            let round = unless_cancelled!(self.round(prompt, generate, is_noted));
            if is_noted { times.noted.push(round) } else { times.plain.push(round) }
        }
        Ok(ControlFlow::Continue(times))
    }

    /// A round behind what the session holds.
    fn round(&mut self, prompt: usize, generate: usize, is_noted: bool) -> Run<RoundTimes> {
        let start = self.session.tokens(self.executor).len();
        let tokens = self.tokens(start, prompt + generate);
        let passes = prompt.div_ceil(self.executor.limits().max_rows) + generate;
        let mut steps = Vec::with_capacity(1 + generate);
        self.executor.observe_times(is_noted.then(|| self.job.clock.clone()), passes)?;
        let mut done = 0;
        let lengths = (prompt > 0).then_some(prompt).into_iter().chain((0..generate).map(|_| 1));
        for (index, length) in lengths.enumerate() {
            let phase = if index == 0 && prompt > 0 { Phase::Prefill } else { Phase::Decode };
            let step = self.step(&tokens[done..done + length], phase, start + done);
            steps.push(unless_cancelled!(step));
            done += length;
        }
        let passes = self.executor.observed_times();
        self.executor.observe_times(None, 0)?;
        if is_noted {
            let mut first = 0;
            for step in &mut steps {
                let count = step.tokens.div_ceil(self.executor.limits().max_rows);
                step.passes = first..first + count;
                first += count;
            }
        }
        Ok(ControlFlow::Continue(RoundTimes { steps, passes }))
    }

    fn step(&mut self, tokens: &[u32], phase: Phase, position: usize) -> Run<StepTimes> {
        let before = (self.job.allocations)();
        let start_ns = self.job.clock.now_ns();
        unless_cancelled!(self.feed(tokens));
        let fed_ns = self.job.clock.now_ns();
        // Made-up tokens may lead to logits that are no numbers: then there is nothing to choose.
        let _ = std::hint::black_box(self.sampler.sample(self.executor.logits(1)));
        let chosen_ns = self.job.clock.now_ns();
        let allocations = (self.job.allocations)().zip(before).map(|(after, before)| after.saturating_sub(before));
        Ok(ControlFlow::Continue(StepTimes {
            phase,
            position,
            tokens: tokens.len(),
            start_ns,
            fed_ns: fed_ns.saturating_sub(start_ns),
            chosen_ns: chosen_ns.saturating_sub(fed_ns),
            passes: 0..0,
            allocations,
        }))
    }

    fn feed(&mut self, tokens: &[u32]) -> Run {
        if self.job.cancel.load(Ordering::Relaxed) {
            return Ok(ControlFlow::Break(()));
        }
        if tokens.is_empty() {
            return Ok(ControlFlow::Continue(()));
        }
        let cancel = self.job.cancel;
        Ok(self.session.feed(self.executor, tokens, |_| {
            if cancel.load(Ordering::Relaxed) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?)
    }

    /// Some tokens of the vocabulary for `count` positions from `first` on: those of a benchmark.
    fn tokens(&self, first: usize, count: usize) -> Vec<u32> {
        crate::bench::made_up_tokens(self.executor.vocab_size(), first, count)
    }
}
