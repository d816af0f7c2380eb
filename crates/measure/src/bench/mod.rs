//! Prefill and decode rates in llama-bench's meaning, beside the ceiling that the memory puts over decode.
//!
//! `ppN` is N tokens in passes of many, `tgN` is N tokens one by one, each behind `-d` tokens of context; no tokenizer, no
//! sampling. Every round starts from the same context, which is computed once for each test and not timed; rounds that do not count come
//! first, and pauses between them let a device get back its breath and the machine do what it has to do. The time to the first token is
//! that of a prompt and of choosing a token from its logits: it belongs to prefill, and never to decode.
//!
//! The ceiling of decode is the memory's read bandwidth over the bytes that a token reads (`cost.rs`); the share is the median
//! rate over the ceiling. A share above 1 is no success but a fault of the measurement, and is reported as one.
//!
//! Start reading at [`run()`] in `run.rs`; `conditions.rs` says whether the machine was the same all the while, and `row.rs` is what
//! becomes of the results.

pub mod conditions;
mod cost;
mod earlier;
mod load;
mod memory;
mod multiply_adds;
mod row;
mod run;
pub mod statistics;
mod time;

use serde::{Deserialize, Serialize};

pub use cost::{PassShape, bytes_per_token, cache_bytes, op_cache_bytes, op_weights_bytes, weights_bytes};
pub use earlier::EarlierRuns;
pub use load::{LoadFigures, StartFigures};
pub use memory::{MemoryCurve, MemoryFigures, MemoryWatch};
pub use multiply_adds::{MultiplyAdds, multiply_adds};
pub use row::{Outlier, Quantiles, Row, Setup, kv_name};
pub(crate) use run::made_up_tokens;
pub use run::{Job, Outcome, Progress, Round, run};
pub use statistics::{Interval, deviation, mean, median, range};
pub use time::{Monotonic, TimeSource};

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

#[cfg(test)]
mod rigged;
#[cfg(test)]
mod tests;
