//! Prefill and decode rates in llama-bench's meaning, beside the ceiling that the memory puts over decode.
//!
//! `ppN` is N tokens in passes of many, `tgN` is N tokens one by one, each behind `-d` tokens of context; no tokenizer, no
//! sampling. Every repetition starts from the same context, which is computed once for each test and not timed.
//!
//! The ceiling of decode is the memory's read bandwidth over the bytes that a token reads (`cost.rs`); the share is the median
//! rate over the ceiling. A share above 1 is no success but a fault of the measurement, and is reported as one.
//!
//! Start reading at [`run`]; `row.rs` is what becomes of its results.

mod cost;
mod multiply_adds;
mod row;
pub mod statistics;

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use duan_engine::{Executor, Session};
use serde::{Deserialize, Serialize};

pub use cost::{bytes_per_token, cache_bytes, weights_bytes};
pub use multiply_adds::{MultiplyAdds, multiply_adds};
pub use row::{Row, Setup};
pub use statistics::{deviation, mean, median, range};

/// One test: prefill of `prompt` tokens or decode of `generate` tokens, behind `depth` tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Test {
    /// Tokens in passes of many.
    pub prompt: usize,
    /// Tokens one by one, after those.
    pub generate: usize,
    /// Tokens of context before.
    pub depth: usize,
}

impl Test {
    /// The tests of all combinations, in llama-bench's order; numbers of 0 make none.
    pub fn all(prompts: &[usize], generates: &[usize], depths: &[usize]) -> Vec<Test> {
        let at = |depth: usize| {
            let prompts = prompts.iter().map(move |&prompt| Test { prompt, generate: 0, depth });
            let generates = generates.iter().map(move |&generate| Test { prompt: 0, generate, depth });
            prompts.chain(generates).filter(|test| test.tokens() > 0)
        };
        depths.iter().flat_map(|&depth| at(depth)).collect()
    }

    /// Tokens that are timed.
    pub fn tokens(&self) -> usize {
        self.prompt.saturating_add(self.generate)
    }

    /// Positions that the context must have.
    pub fn positions(&self) -> usize {
        self.tokens().saturating_add(self.depth)
    }

    /// Its name, as llama-bench has it: `pp512`, `tg128 @ d4096`.
    pub fn name(&self) -> String {
        let what = match (self.prompt, self.generate) {
            (prompt, 0) => format!("pp{prompt}"),
            (0, generate) => format!("tg{generate}"),
            (prompt, generate) => format!("pp{prompt}+tg{generate}"),
        };
        if self.depth == 0 { what } else { format!("{what} @ d{}", self.depth) }
    }
}

/// How fast the memory was read in the same run, by as many threads as decode has.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Bandwidth {
    /// The best read.
    pub bytes_per_s: f64,
    /// Bytes of one read.
    pub bytes: u64,
    /// How many reads there were.
    pub reads: usize,
    /// Threads that read.
    pub threads: usize,
    /// The kind of pages.
    pub pages: String,
    /// The way of reading that was fastest.
    pub way: String,
}

/// How tests are run.
#[derive(Debug, Clone, Copy)]
pub struct Job<'a> {
    /// The tests, in order.
    pub tests: &'a [Test],
    /// How often each is repeated.
    pub repetitions: usize,
    /// Whether each test begins with a run that does not count.
    pub warm_up: bool,
    /// Ends it at the next pass once it is true.
    pub cancel: &'a AtomicBool,
}

/// What a test took.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// The test.
    pub test: Test,
    /// Nanoseconds of each repetition.
    pub samples_ns: Vec<u64>,
}

/// What is told while tests run.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Progress {
    /// A run that does not count.
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
    /// A repetition begins.
    Repetition {
        /// The test.
        test: Test,
        /// Which one, from 0.
        index: usize,
    },
}

/// What can go wrong.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A test is longer than the model's context.
    #[error(
        "{test} needs {needed} positions, and the model was trained for {context}; choose fewer tokens with -p, -n or -d"
    )]
    TooLong {
        /// The test's name.
        test: String,
        /// Positions that it needs.
        needed: usize,
        /// Positions that the model has.
        context: usize,
    },
    /// There is nothing to run.
    #[error("no test is left to run; ask for at least 1 token with -p or -n, and for at least 1 repetition")]
    Nothing,
    /// Running failed.
    #[error(transparent)]
    Engine(#[from] duan_engine::Error),
}

/// The positions that a context needs for all tests of a model that was trained for `model_context`.
///
/// # Errors
/// When there is no test, or one does not fit.
pub fn positions(tests: &[Test], model_context: usize) -> Result<usize, Error> {
    if let Some(test) = tests.iter().find(|test| test.positions() > model_context) {
        return Err(Error::TooLong { test: test.name(), needed: test.positions(), context: model_context });
    }
    // No context is shorter than two positions.
    tests.iter().map(|test| test.positions().max(2)).max().ok_or(Error::Nothing)
}

/// Runs the tests. `on_progress` is told before each step, `on_outcome` after each test; neither is called while time is taken.
/// Gives false where it was cancelled: the test that ran then has no outcome.
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

/// Leaves the function when the run was cancelled.
macro_rules! unless_cancelled {
    ($run:expr) => {
        if $run?.is_break() {
            return Ok(ControlFlow::Break(()));
        }
    };
}

impl Bench<'_> {
    fn run(&mut self, on_progress: &mut dyn FnMut(&Progress)) -> Run<Outcome> {
        let Test { prompt, generate, depth } = self.test;
        let test = self.test;
        if self.job.warm_up {
            on_progress(&Progress::WarmingUp { test });
            unless_cancelled!(self.prefill(&self.tokens(0, prompt), &mut |_| ()));
            unless_cancelled!(self.decode(&self.tokens(0, generate.min(1))));
        }
        self.session.rewind(self.executor, 0);
        let context = self.tokens(0, depth);
        if depth > 0 {
            on_progress(&Progress::FillingContext { test, done: 0 });
        }
        unless_cancelled!(self.prefill(&context, &mut |done| on_progress(&Progress::FillingContext { test, done })));
        let (prompt, generate) = (self.tokens(depth, prompt), self.tokens(depth + prompt, generate));
        let mut samples_ns = Vec::with_capacity(self.job.repetitions);
        for index in 0..self.job.repetitions {
            on_progress(&Progress::Repetition { test, index });
            // Models with state beside keys and values may have to go back further.
            let kept = self.session.rewind(self.executor, depth);
            unless_cancelled!(self.prefill(&context[kept.min(depth)..], &mut |_| ()));
            let start = Instant::now();
            unless_cancelled!(self.prefill(&prompt, &mut |_| ()));
            unless_cancelled!(self.decode(&generate));
            samples_ns.push(u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX));
        }
        Ok(ControlFlow::Continue(Outcome { test, samples_ns }))
    }

    /// Some tokens of the vocabulary for `count` positions from `first` on, the same in every run.
    fn tokens(&self, first: usize, count: usize) -> Vec<u32> {
        let vocab_size = self.executor.vocab_size() as u64;
        (first..first + count).map(|position| (position as u64 * 7919 % vocab_size) as u32).collect()
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

    fn decode(&mut self, tokens: &[u32]) -> Run {
        for token in tokens {
            unless_cancelled!(self.prefill(std::slice::from_ref(token), &mut |_| ()));
        }
        Ok(ControlFlow::Continue(()))
    }
}

#[cfg(test)]
mod tests;
