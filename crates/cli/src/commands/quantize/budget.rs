//! Formats found by measuring: `--bits-per-weight` and `--size`.

use std::cell::RefCell;
use std::path::PathBuf;
use std::time::Instant;

use duan::eval::EvalText;
use duan::model::checkpoint::Checkpoint;
use duan::packs::Packing;
use duan::quantize::importance::Importance;
use duan::quantize::mixed::{Budget, Mixture, check_budget, choose};
use duan::sensitivity::{Measured, Outcome, SensitivityEvent, SensitivityOptions, Stage, measure};
use duan::{EngineOptions, Event};

use super::Args;
use crate::args::{Common, bytes, isa_of_environment};
use crate::interrupt::Interrupt;
use crate::open;
use crate::output::style::on_one_line;
use crate::output::units::{counted, seconds_text};
use crate::output::work::WorkBar;
use crate::output::{say, warn};

/// Bits for each weight, as people type them.
pub(super) fn bits_per_weight(text: &str) -> Result<f64, String> {
    let bits = text.parse().ok().filter(|bits: &f64| (1.0..=32.0).contains(bits));
    bits.ok_or_else(|| "expected a number from 1 to 32, as in 4.5".to_owned())
}

/// The length of a file, as people type it.
pub(super) fn size(text: &str) -> Result<u64, String> {
    let plain = text.parse().ok().filter(|bytes: &u64| *bytes > 0);
    plain.or_else(|| bytes(text)).ok_or_else(|| "expected a number with its unit, as in 3.5GiB or 800MB".to_owned())
}

/// What was found: formats, and the importance that goes with them.
pub(super) struct Found {
    pub(super) mixture: Mixture,
    pub(super) importance: Importance,
}

impl Args {
    /// The budget, where there is one.
    pub(super) fn budget(&self) -> Option<Budget> {
        self.bits_per_weight.map(Budget::BitsPerWeight).or(self.size.map(Budget::FileBytes))
    }
}

/// Measures and chooses. None where Ctrl-C ended it.
///
/// # Errors
/// As [`measure`] and [`choose`].
pub(super) fn find(
    args: &Args,
    source: &Checkpoint,
    model: PathBuf,
    budget: Budget,
    interrupt: &Interrupt,
    common: &Common,
) -> anyhow::Result<Option<Found>> {
    // Said before the long work.
    check_budget(source, &args.keep, budget)?;
    let threads = super::threads(args);
    let options = SensitivityOptions {
        engine: EngineOptions {
            threads: Some(threads),
            threads_prefill: Some(threads),
            isa: isa_of_environment(),
            packing: Packing::InMemory,
            cancel: interrupt.flag(),
            ..EngineOptions::default()
        },
        model,
        texts: args.texts.iter().map(|path| EvalText::read(path)).collect::<Result<_, _>>()?,
        context: args.context as usize,
        windows: args.chunks.map(|chunks| chunks as usize),
        keep: args.keep.clone(),
        importance: args.importance.clone(),
        file: args.sensitivity.clone(),
        cache_dir: open::hub(common)?.cache_dir().to_owned(),
        threads,
    };
    let outcome = {
        let _answering = interrupt.answer();
        let view = View::new(args.src.clone());
        measure(source, &options, |event| view.show(event))?
    };
    let measured = match outcome {
        Outcome::Done(measured) => measured,
        Outcome::Cancelled(kept) => {
            let kept = kept.map(|path| on_one_line(&path.display().to_string()));
            say(&match kept {
                Some(file) => {
                    format!("stopped; what was measured is kept in {file}, and the same command goes on from there")
                }
                None => "stopped; nothing was left behind".to_owned(),
            });
            return Ok(None);
        }
    };
    let Measured { sensitivities, importance, file, steps } = *measured;
    if steps > 0 {
        let tensors = counted(sensitivities.tensors.len(), "tensor");
        let windows = counted(sensitivities.with.windows, "window");
        let file = on_one_line(&file.display().to_string());
        say(&format!("{tensors} measured in {windows} of {} tokens, kept in {file}", sensitivities.with.context));
    }
    let mixture = choose(source, &args.keep, Some(&importance), &sensitivities, budget)?;
    Ok(Some(Found { mixture, importance }))
}

/// How far it is.
struct View {
    bar: WorkBar,
    /// The stage, and when its first step in this run was done.
    stage: RefCell<Option<(Stage, Instant)>>,
    model: String,
}

impl View {
    fn new(model: String) -> View {
        View { bar: WorkBar::new("measuring"), stage: RefCell::new(None), model }
    }

    fn show(&self, event: &SensitivityEvent<'_>) {
        match event {
            SensitivityEvent::Planned { plan } => self.bar.talk(|| open::warn_of_fallbacks(plan, &self.model)),
            SensitivityEvent::Loading => self.bar.say(|| format!("loading {}", on_one_line(&self.model))),
            SensitivityEvent::Warning { message } => self.bar.talk(|| warn(message)),
            SensitivityEvent::Engine(Event::DeviceWarning { message, .. }) => self.bar.talk(|| warn(message)),
            SensitivityEvent::Progress { stage, done, all, now } => {
                let mut seen = self.stage.borrow_mut();
                let (_, started) = *seen.get_or_insert((*stage, Instant::now()));
                if seen.is_none_or(|seen| seen.0 != *stage) {
                    *seen = Some((*stage, Instant::now()));
                }
                self.bar.show(*done as u64, *all as u64, || {
                    let what = match stage {
                        Stage::Importance => "importance, step 1 of 3",
                        Stage::Errors => "errors, step 2 of 3",
                        Stage::Divergences => "sensitivities, step 3 of 3",
                    };
                    // The first step began before its end was told of.
                    if *now < 2 {
                        return what.to_owned();
                    }
                    let left = started.elapsed().as_secs_f64() * (all - done) as f64 / (*now - 1) as f64;
                    format!("{} left, {what}", seconds_text(left))
                });
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budgets_are_numbers_that_a_file_can_have() {
        assert_eq!(bits_per_weight("4.5"), Ok(4.5));
        for text in ["", "0", "nan", "inf", "-4", "33", "4,5", "4.5GiB"] {
            assert!(bits_per_weight(text).is_err(), "{text}");
        }
        assert_eq!(
            [size("3.5GiB"), size("800 MB"), size("1234567")],
            [Ok(3_758_096_384), Ok(800_000_000), Ok(1_234_567)]
        );
        for text in ["", "0", "-1", "3.5", "GiB", "0GB", "4.5 bits"] {
            assert!(size(text).is_err(), "{text}");
        }
    }
}
