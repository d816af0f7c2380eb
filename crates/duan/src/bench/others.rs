//! Other engines, whose commands run in turn with rounds of ours.

use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use duan_measure::bench::{Row, Test};
use duan_measure::others::{Other, OtherFigures, Printed, Ran, Values};
use duan_system::{Why, run_to_end};

use super::BenchEvent;
use crate::error::{Error, Result};

/// A program that prints more has gone wrong.
const OUTPUT_LIMIT_BYTES: u64 = 16 << 20;
/// Of a line in a message, no more letters.
const LINE_LETTERS: usize = 120;

/// All of them, while ours is measured.
pub(super) struct Others<'a> {
    all: Vec<Running<'a>>,
    tried: bool,
    model: &'a Path,
    cancel: &'a AtomicBool,
}

struct Running<'a> {
    other: &'a Other,
    /// Of the test that runs.
    ran: Vec<Ran>,
    /// Why it is not run any more.
    failed: Option<String>,
}

impl<'a> Others<'a> {
    pub(super) fn new(others: &'a [Other], model: &'a Path, cancel: &'a AtomicBool) -> Others<'a> {
        let all = others.iter().map(|other| Running { other, ran: Vec::new(), failed: None }).collect();
        Others { all, tried: false, model, cancel }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Runs each once for the first test of each kind, so that a command which cannot work is known before anything is measured; nothing
    /// the second time. Gives false where it was cancelled.
    pub(super) fn try_out(
        &mut self,
        tests: &[Test],
        threads: impl Fn(Test) -> usize,
        on_event: &mut dyn FnMut(&BenchEvent<'_>),
    ) -> Result<bool> {
        if std::mem::replace(&mut self.tried, true) {
            return Ok(true);
        }
        let first = |is_decode: bool| tests.iter().copied().find(|test| (test.prompt == 0) == is_decode);
        for Running { other, .. } in &self.all {
            let name = other.command.name();
            for test in [first(false), first(true)].into_iter().flatten() {
                on_event(&BenchEvent::OtherRuns { name, test, index: None });
                match self.run_one(other, test, threads(test)) {
                    None => return Ok(false),
                    Some(Ok(_)) => {}
                    Some(Err(what)) => return Err(Error::Other { name: name.to_owned(), what }),
                }
            }
        }
        Ok(true)
    }

    /// Begins a test.
    pub(super) fn begin(&mut self) {
        self.all.iter_mut().for_each(|one| one.ran.clear());
    }

    /// Runs each once behind a round of ours.
    pub(super) fn run(&mut self, test: Test, index: usize, threads: usize, on_event: &mut dyn FnMut(&BenchEvent<'_>)) {
        for place in 0..self.all.len() {
            let Running { other, failed, .. } = &self.all[place];
            if failed.is_some() {
                continue;
            }
            on_event(&BenchEvent::OtherRuns { name: other.command.name(), test, index: Some(index) });
            match self.run_one(other, test, threads) {
                None => return,
                Some(Ok(ran)) => self.all[place].ran.push(ran),
                Some(Err(what)) => {
                    let message = format!("{}: {what}; it is not run again", other.command.name());
                    on_event(&BenchEvent::Warning { message: &message });
                    self.all[place].failed = Some(what);
                }
            }
        }
    }

    /// What came of them beside a row of ours.
    pub(super) fn figures(&self, test: Test, threads: usize, row: &Row) -> Vec<OtherFigures> {
        let figures = |one: &Running<'_>| {
            let words = self.words(one.other, test, threads);
            OtherFigures::new(one.other, &words, test, row, &one.ran, one.failed.clone())
        };
        self.all.iter().map(figures).collect()
    }

    /// That one of them failed, where one did.
    pub(super) fn end(self) -> Result<()> {
        let failed = |one: Running<'_>| Some((one.other.command.name().to_owned(), one.failed?));
        match self.all.into_iter().find_map(failed) {
            Some((name, what)) => Err(Error::Other { name, what }),
            None => Ok(()),
        }
    }

    fn words(&self, other: &Other, test: Test, threads: usize) -> Vec<OsString> {
        other.command.filled(Values { model: self.model, test, threads })
    }

    /// One run; nothing where it was cancelled.
    fn run_one(&self, other: &Other, test: Test, threads: usize) -> Option<std::result::Result<Ran, String>> {
        let printed = match run(&self.words(other, test, threads), self.cancel) {
            // Who interrupts a program interrupts its children too.
            _ if self.cancel.load(Ordering::Relaxed) => return None,
            Ok(printed) => printed,
            Err(what) => return Some(Err(what)),
        };
        Some(other.read(&printed, test))
    }
}

/// What a command prints, where it succeeds.
fn run(words: &[OsString], cancel: &AtomicBool) -> std::result::Result<Printed, String> {
    let [program, arguments @ ..] = words else { return Err("there is no command".to_owned()) };
    let mut command = Command::new(program);
    command.args(arguments).stderr(Stdio::piped());
    let mut give_up = || cancel.load(Ordering::Relaxed).then(|| Why::Other("it was stopped".to_owned()));
    let program = program.to_string_lossy();
    let ended = run_to_end(&mut command, OUTPUT_LIMIT_BYTES, &mut give_up).map_err(|why| match why {
        Why::NoProgram => format!("there is no program {program}; name one that is in the PATH, or give its path"),
        Why::TooLong(bytes) => format!("{program} prints more than {} MiB", bytes >> 20),
        why => format!("{program}: {why}"),
    })?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let printed = Printed { stdout: text(&ended.stdout), stderr: text(&ended.stderr) };
    if ended.status.success() {
        return Ok(printed);
    }
    let last = |text: &str| text.lines().rev().map(str::trim).find(|line| !line.is_empty()).map(str::to_owned);
    let said = last(&printed.stderr).or_else(|| last(&printed.stdout));
    let said = said.map_or("said nothing".to_owned(), |line| {
        format!("said: {}", line.chars().take(LINE_LETTERS).collect::<String>())
    });
    Err(format!("{program} failed with {} and {said}", ended.status))
}
