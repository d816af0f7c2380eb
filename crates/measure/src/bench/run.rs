//! Tests on a loaded model, round by round.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use duan_engine::{Executor, Session};

use super::{Error, Test, TimeSource};
use crate::cancel::unless_cancelled;

/// Tokens one by one that a round has which does not count: enough for caches and for the clock of a processor.
const WARM_UP_TOKENS: usize = 16;
/// A pause is looked at so often for whether it was cancelled.
const PAUSE_STEP: Duration = Duration::from_millis(20);

/// How tests are run.
#[derive(Clone, Copy)]
pub struct Job<'a> {
    /// The tests, in order.
    pub tests: &'a [Test],
    /// How many rounds of each test count.
    pub repetitions: usize,
    /// How many rounds before them do not count: the whole prompt, and the first tokens of decode.
    pub warm_ups: usize,
    /// Time without work before each round that counts.
    pub pause: Duration,
    /// Whether a round that does not count comes before each that does, too: other programs, with which rounds take turns, leave caches
    /// and clocks as they like, and have such a round themselves.
    pub warm_each_round: bool,
    /// What time it is.
    pub time: &'a dyn TimeSource,
    /// Ends it at the next pass once it is true.
    pub cancel: &'a AtomicBool,
}

/// What one round took.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Round {
    /// All tokens of the test, in nanoseconds.
    pub ns: u64,
    /// Where there is a prompt: from its first token to the choice of the token behind it.
    pub first_token_ns: Option<u64>,
    /// Each token of decode.
    pub token_ns: Vec<u64>,
}

/// What a test took.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// The test.
    pub test: Test,
    /// The rounds that count.
    pub rounds: Vec<Round>,
}

/// What is told while tests run.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Progress {
    /// A round that does not count.
    WarmingUp {
        /// The test.
        test: Test,
    },
    /// The context before the test is computed; not timed.
    FillingContext {
        /// The test.
        test: Test,
        /// Tokens done.
        done: usize,
    },
    /// A round that counts is about to begin, after its pause.
    Repetition {
        /// The test.
        test: Test,
        /// Which one, from 0.
        index: usize,
    },
    /// A round that counts is over.
    RoundDone {
        /// The test.
        test: Test,
        /// Which one, from 0.
        index: usize,
    },
}

/// Runs the tests. `on_progress` is told before and after each step, `on_outcome` after each test; neither is called while time is
/// taken. Gives false where it was cancelled: the test that ran then has no outcome.
///
/// # Errors
/// When a device fails, or the executor's context is too short for a test.
pub fn run(
    executor: &mut Executor,
    job: &Job<'_>,
    mut on_progress: impl FnMut(&Progress),
    mut on_outcome: impl FnMut(&Outcome),
) -> Result<bool, Error> {
    for &test in job.tests {
        let mut bench = Bench { session: Session::open(executor), executor, job, test };
        let outcome = bench.run(&mut on_progress);
        let Bench { session, executor, .. } = bench;
        session.close(executor);
        match outcome? {
            ControlFlow::Continue(outcome) => on_outcome(&outcome),
            ControlFlow::Break(()) => return Ok(false),
        }
    }
    Ok(true)
}

/// One test while it runs.
struct Bench<'a> {
    session: Session,
    executor: &'a mut Executor,
    job: &'a Job<'a>,
    test: Test,
}

/// What runs until it is cancelled.
type Run<T = ()> = Result<ControlFlow<(), T>, Error>;

impl Bench<'_> {
    fn run(&mut self, on_progress: &mut dyn FnMut(&Progress)) -> Run<Outcome> {
        let Test { prompt, generate, depth } = self.test;
        let test = self.test;
        for _ in 0..self.job.warm_ups {
            on_progress(&Progress::WarmingUp { test });
            self.session.rewind(self.executor, 0);
            let tokens = self.tokens(0, prompt + generate.min(WARM_UP_TOKENS));
            let (prompt, generate) = tokens.split_at(prompt);
            unless_cancelled!(self.round(prompt, generate));
        }
        self.session.rewind(self.executor, 0);
        let context = self.tokens(0, depth);
        if depth > 0 {
            on_progress(&Progress::FillingContext { test, done: 0 });
        }
        unless_cancelled!(self.prefill(&context, &mut |done| on_progress(&Progress::FillingContext { test, done })));
        let (prompt, generate) = (self.tokens(depth, prompt), self.tokens(depth + prompt, generate));
        let mut rounds = Vec::with_capacity(self.job.repetitions);
        for index in 0..self.job.repetitions {
            unless_cancelled!(self.go_back(&context));
            unless_cancelled!(self.pause());
            if self.job.warm_each_round {
                unless_cancelled!(self.round(&prompt, &generate[..generate.len().min(WARM_UP_TOKENS)]));
                unless_cancelled!(self.go_back(&context));
            }
            on_progress(&Progress::Repetition { test, index });
            rounds.push(unless_cancelled!(self.round(&prompt, &generate)));
            on_progress(&Progress::RoundDone { test, index });
        }
        Ok(ControlFlow::Continue(Outcome { test, rounds }))
    }

    /// To the end of the context. Models with state beside keys and values may have to go back further.
    fn go_back(&mut self, context: &[u32]) -> Run {
        let kept = self.session.rewind(self.executor, context.len());
        self.prefill(&context[kept.min(context.len())..], &mut |_| ())
    }

    /// The prompt at once and the rest one by one, with the time that each takes. What is done between both belongs to neither.
    fn round(&mut self, prompt: &[u32], generate: &[u32]) -> Run<Round> {
        let mut round = Round { token_ns: Vec::with_capacity(generate.len()), ..Round::default() };
        if !prompt.is_empty() {
            let start = self.now_ns();
            unless_cancelled!(self.prefill(prompt, &mut |_| ()));
            round.ns = self.now_ns().saturating_sub(start);
            std::hint::black_box(most_likely(self.executor.logits(1)));
            round.first_token_ns = Some(self.now_ns().saturating_sub(start));
        }
        for token in generate {
            let start = self.now_ns();
            unless_cancelled!(self.prefill(std::slice::from_ref(token), &mut |_| ()));
            let ns = self.now_ns().saturating_sub(start);
            round.token_ns.push(ns);
            round.ns = round.ns.saturating_add(ns);
        }
        Ok(ControlFlow::Continue(round))
    }

    fn now_ns(&self) -> u64 {
        self.job.time.now_ns()
    }

    /// Waits as long as asked for, unless it is cancelled.
    fn pause(&self) -> Run {
        let start = Instant::now();
        loop {
            if self.job.cancel.load(Ordering::Relaxed) {
                return Ok(ControlFlow::Break(()));
            }
            let left = self.job.pause.saturating_sub(start.elapsed());
            if left.is_zero() {
                return Ok(ControlFlow::Continue(()));
            }
            std::thread::sleep(left.min(PAUSE_STEP));
        }
    }

    fn tokens(&self, first: usize, count: usize) -> Vec<u32> {
        made_up_tokens(self.executor.vocab_size(), first, count)
    }

    fn prefill(&mut self, tokens: &[u32], after_piece: &mut dyn FnMut(usize)) -> Run {
        if tokens.is_empty() {
            return Ok(ControlFlow::Continue(()));
        }
        let cancel = self.job.cancel;
        Ok(self.session.feed(self.executor, tokens, |done| {
            after_piece(done);
            if cancel.load(Ordering::Relaxed) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?)
    }
}

/// Some tokens of a vocabulary for `count` positions from `first` on, the same in every run.
pub(crate) fn made_up_tokens(vocab_size: usize, first: usize, count: usize) -> Vec<u32> {
    (first..first + count).map(|position| (position as u64 * 7919 % vocab_size as u64) as u32).collect()
}

/// The place of the greatest logit, as a greedy sampler finds it. Made-up tokens may lead to logits that are no numbers: they are as
/// good as others here.
fn most_likely(logits: &[f32]) -> usize {
    let best = logits.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1));
    best.map_or(0, |(index, _)| index)
}
