//! Other engines beside ours, on the same file and in the same run: their commands, what these print, and the ratio pair by pair.
//!
//! After each round of ours every other engine runs once: a pair are two runs that followed each other, so that what the machine did
//! meanwhile was done to both. The ratio is the median of the ratios of all pairs, with the interval that holds it in 90 of 100 cases.
//! Who runs the commands is somebody else.
//!
//! Start reading at [`Other`].

mod command;
mod figures;
mod read;

pub use command::{Command, Values};
pub use figures::{OtherFigures, Ratio, merge_records};
pub use read::{Pattern, Printed, Ran};

use crate::bench::Test;

/// Another engine: how it is called, and how its output is read.
#[derive(Debug, Clone)]
pub struct Other {
    /// Its command, with its name.
    pub command: Command,
    /// Where in the output its rates stand; without one it is what llama-bench writes for programs.
    pub pattern: Option<Pattern>,
}

impl Other {
    /// What the command measured in a run of a test.
    ///
    /// # Errors
    /// Where no rate of this test is in what it printed; the reason in one line, with the remedy.
    pub fn read(&self, printed: &Printed, test: Test) -> Result<Ran, String> {
        match &self.pattern {
            Some(pattern) => pattern.read(printed, test),
            None => read::llama_bench(printed, test),
        }
    }

    /// How its output is read, in words.
    pub fn read_by(&self) -> &'static str {
        if self.pattern.is_some() { "pattern" } else { "llama-bench" }
    }
}

#[cfg(test)]
mod tests;
