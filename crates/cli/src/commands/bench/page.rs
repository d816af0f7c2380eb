//! `duan bench --html`: the page, and the short profile in it.

use std::cell::RefCell;
use std::path::{Path, PathBuf};

use duan::bench::{BenchOptions, Row, Setup};
use duan::profile::{ModelProfile, ProfileEvent, ProfileOptions, Progress, profile};
use duan::{EngineOptions, page};

use crate::interrupt::Interrupt;
use crate::output::page::PageFile as Place;
use crate::output::work::WorkBar;
use crate::output::{say, warn};

/// Tokens of the profile's prompt, at most: it only has to show where the time goes.
const PROFILE_PROMPT: usize = 128;
/// Tokens one by one behind them, at most.
const PROFILE_GENERATE: usize = 16;
/// Rounds in which ops are timed.
const PROFILE_ROUNDS: usize = 3;

/// Where the page goes, and what is known for it while the benchmark runs.
pub(super) struct PageFile {
    place: Place,
    model: PathBuf,
    setup: RefCell<Option<Setup>>,
}

impl PageFile {
    /// Nothing where no page is wanted.
    ///
    /// # Errors
    /// Where its file is there (but for `force`) or cannot be written: nobody wants to hear that at the end.
    pub(super) fn checked(file: Option<&Path>, force: bool, model: &Path) -> anyhow::Result<Option<PageFile>> {
        let place = Place::checked(file, force, &[model])?;
        Ok(place.map(|place| PageFile { place, model: model.to_owned(), setup: RefCell::new(None) }))
    }

    /// What the numbers belong to; of several, the first.
    pub(super) fn see(&self, setup: &Setup) {
        self.setup.borrow_mut().get_or_insert_with(|| setup.clone());
    }

    /// Profiles the model for a moment, where there is an interrupt that can stop it, and writes the page. Without a row there is no page.
    ///
    /// # Errors
    /// Where the file cannot be written.
    pub(super) fn write(
        self,
        rows: &[Row],
        kept: &[i64],
        options: &BenchOptions,
        interrupt: Option<&Interrupt>,
    ) -> anyhow::Result<()> {
        if rows.is_empty() {
            say("nothing was measured, so there is no page");
            return Ok(());
        }
        let profiled = interrupt.and_then(|interrupt| self.profiled(options, interrupt));
        let html = page::of_bench(rows, self.setup.borrow().as_ref(), profiled.as_ref(), kept)?;
        self.place.write(&html)
    }

    /// A short profile; where there is none, that is said.
    fn profiled(&self, options: &BenchOptions, interrupt: &Interrupt) -> Option<ModelProfile> {
        let most = |of: fn(&duan::bench::Test) -> usize| options.tests.iter().map(of).max().unwrap_or(0);
        let options = ProfileOptions {
            engine: EngineOptions {
                threads: options.threads.first().copied().or(options.engine.threads),
                ..options.engine.clone()
            },
            prompt: most(|test| test.prompt).min(PROFILE_PROMPT),
            generate: most(|test| test.generate).min(PROFILE_GENERATE),
            depth: 0,
            rounds: PROFILE_ROUNDS,
            ceilings_folder: options.ceilings_folder.clone(),
            ceilings_again: false,
        };
        let bar = WorkBar::new("profiling for the page");
        let _answering = interrupt.answer();
        let profiled = profile(&self.model, &options, |event| match event {
            ProfileEvent::Loading => bar.say(|| "loading".to_owned()),
            ProfileEvent::Progress(Progress::Round { index, of }) => {
                bar.show(*index as u64, *of as u64, || format!("round {} of {of}", index + 1));
            }
            // What speaks against the machine was told with the benchmark.
            _ => {}
        });
        match profiled {
            Ok(Some(profiled)) => return Some(profiled),
            Ok(None) => say("stopped; the page has no profile"),
            Err(error) => warn(&format!("the page has no profile: {error}")),
        }
        None
    }
}
