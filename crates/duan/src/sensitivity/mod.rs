//! How much the output of a model moves when one of its matrices is quantized: [`measure`] finds it out for each, so that
//! [`duan_quantize::mixed`] can choose formats under a budget.
//!
//! The model reads a few windows of text as it is. Then each matrix alone is put in the format of the probe, and all that comes behind
//! it runs again; the divergence of the logits from those before is its sensitivity. What formats lose of each matrix is found out
//! beside. All numbers are kept in a file while they come in, so that what was interrupted goes on, and another budget measures nothing.
//!
//! Start reading at [`measure`]; `window.rs` is what is done with one window, `key.rs` what tells models and texts from each other.

mod key;
mod window;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use duan_engine::{Event, Plan};
use duan_model::checkpoint::Checkpoint;
use duan_model::gguf::TensorInfo;
use duan_quant::{Format, format_by_name};
use duan_quantize::KeepRule;
use duan_quantize::importance::Importance;
use duan_quantize::mixed::{MeasuredWith, PROBE, Sensitivities, TensorSensitivity, Trials, rounded};

use self::window::{Used, Window};
use crate::devices::Devices;
use crate::error::Result;
use crate::eval::EvalText;
use crate::eval::subject::Opening;
use crate::eval::text::Windows;
use crate::importance::{ImportanceEvent, ImportanceOptions, gather};
use crate::options::EngineOptions;
use crate::packs::Packing;

/// Logits that are compared at once take so many bytes at most; those of the model as it was take as many again.
const LOGITS_BYTES: usize = 256 << 20;
/// The most windows where nobody says how many.
const MOST_WINDOWS: usize = 8;
/// The work of so many weights and tokens, where nobody says how many windows: ten minutes of two cores, more or less.
const WORK: f64 = 1e14;
/// Windows of which importance is gathered where none is given.
const IMPORTANCE_WINDOWS: usize = 32;
/// Seconds between two times that numbers are kept.
const KEEP_EVERY: Duration = Duration::from_secs(1);
/// The folder in the cache.
const FOLDER: &str = "sensitivity";

/// What is to be measured, and how.
#[derive(Debug, Clone)]
pub struct SensitivityOptions {
    /// Devices, instruction sets, threads, and the flag that ends it. Its sizes are not looked at.
    pub engine: EngineOptions,
    /// The model's file or folder.
    pub model: PathBuf,
    /// The texts.
    pub texts: Vec<EvalText>,
    /// Tokens of a window, from 4 on.
    pub context: usize,
    /// Windows in all; `None` for as many as take ten minutes or so, at most 8.
    pub windows: Option<usize>,
    /// Matrices that a rule takes are not measured.
    pub keep: Vec<KeepRule>,
    /// The importance; where there is none it is gathered from the same texts.
    pub importance: Option<PathBuf>,
    /// Where numbers are kept. `None` for a place in the cache that model, texts and options decide.
    pub file: Option<PathBuf>,
    /// The folder of the cache.
    pub cache_dir: PathBuf,
    /// Threads that code weights.
    pub threads: usize,
}

/// What is told meanwhile.
#[derive(Debug)]
#[non_exhaustive]
pub enum SensitivityEvent<'a> {
    /// Devices were chosen.
    Planned {
        /// For each op one.
        plan: &'a Plan,
    },
    /// The model is about to be loaded.
    Loading,
    /// What the engine tells of loading.
    Engine(&'a Event<'a>),
    /// What the user should know.
    Warning {
        /// One line.
        message: &'a str,
    },
    /// A step is done.
    Progress {
        /// What is being done.
        stage: Stage,
        /// Steps done before this run and in it.
        done: usize,
        /// All of them.
        all: usize,
        /// Steps done in this run.
        now: usize,
    },
}

/// What is being done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Importance is gathered, window by window.
    Importance,
    /// What formats lose, matrix by matrix.
    Errors,
    /// What the output does, matrix by matrix in each window.
    Divergences,
}

/// What was measured, now or before.
#[derive(Debug)]
pub struct Measured {
    /// The numbers.
    pub sensitivities: Sensitivities,
    /// The importance that goes with them.
    pub importance: Importance,
    /// Where they are kept.
    pub file: PathBuf,
    /// Steps that were done now; 0 where all was known.
    pub steps: usize,
}

/// What came of it.
#[derive(Debug)]
pub enum Outcome {
    /// Everything is measured.
    Done(Box<Measured>),
    /// It was cancelled. What was measured is kept in this file, where there is something.
    Cancelled(Option<PathBuf>),
}

/// Measures `source`, which is the model of the options.
///
/// # Errors
/// When a file cannot be read, is another model's, or cannot be written; a text is shorter than a window; the context is beyond the
/// model's; the memory does not suffice; or the model runs on a device that cannot put other weights in the place of a matrix's own.
pub fn measure(
    source: &Checkpoint,
    options: &SensitivityOptions,
    mut on_event: impl FnMut(&SensitivityEvent<'_>),
) -> Result<Outcome> {
    let is_cancelled = || options.engine.cancel.load(Ordering::Relaxed);
    let floats = source.in_formats(in_floats(source))?;
    let mut engine = EngineOptions {
        context: Some(options.context),
        prefill_rows: options.context,
        warm_up: false,
        packing: Packing::InMemory,
        format: None,
        ..options.engine.clone()
    };
    let devices = Devices::open(&engine)?;
    let opening = Opening::of(floats, &engine, &devices)?;
    let vocab_size = opening.model.config.vocab_size;
    let scored = (LOGITS_BYTES / size_of::<f32>() / vocab_size.max(1)).clamp(1, (options.context / 2).max(1));
    engine.logits_bytes = scored * vocab_size * size_of::<f32>();
    on_event(&SensitivityEvent::Planned { plan: &opening.plan });

    let shapes = Trials::new(source, &options.keep, None)?;
    let windows = windows(&opening, &shapes, options)?;
    let mut with = MeasuredWith {
        model: key::model(source)?,
        text: key::texts(&options.texts),
        context: options.context,
        windows: windows.len(),
        scored,
        probe: PROBE.to_owned(),
        importance: match &options.importance {
            Some(path) => key::file(path)?,
            None => String::new(),
        },
    };
    let place = match &options.file {
        Some(file) => file.clone(),
        None => in_cache(&options.cache_dir, &with)?,
    };
    let mut now = 0;
    let importance = match &options.importance {
        Some(path) => Importance::open(path)?,
        None => match own_importance(options, &place, &mut now, &mut on_event)? {
            Some((importance, key)) => {
                with.importance = key;
                importance
            }
            None => return Ok(Outcome::Cancelled(None)),
        },
    };
    let mut kept = Kept::open(&place, with, options.file.is_some(), &mut on_event)?;

    let trials = Trials::new(source, &options.keep, Some(&importance))?;
    let open: Vec<_> = trials.matrices().iter().filter(|trial| trial.is_open()).collect();
    for (index, trial) in open.iter().enumerate() {
        if kept.sensitivities.tensors.contains_key(&trial.name) {
            continue;
        }
        let errors = trials.errors(trial, options.threads, &options.engine.cancel)?;
        let Some(errors) = errors else { return kept.cancelled() };
        let tensor = TensorSensitivity { divergences: Vec::new(), errors };
        kept.sensitivities.tensors.insert(trial.name.clone(), tensor);
        kept.step()?;
        let (done, now) = (index + 1, kept.steps);
        on_event(&SensitivityEvent::Progress { stage: Stage::Errors, done, all: open.len(), now });
    }

    let used = Used::of(&opening.model, &open);
    let known = |kept: &Kept, used: &Used<'_>| kept.sensitivities.tensors[&used.trial.name].divergences.len();
    let (all, before) = (used.len() * windows.len(), used.iter().map(|used| known(&kept, used)).sum::<usize>());
    if before < all {
        on_event(&SensitivityEvent::Loading);
        let model = opening.model.clone();
        let mut running = opening.load(&engine, &devices, &mut |event| on_event(&SensitivityEvent::Engine(event)))?;
        let mut done = before;
        for (index, tokens) in windows.iter().enumerate() {
            if used.iter().all(|used| known(&kept, used) > index) {
                continue;
            }
            let mut window = Window::begin(&mut running, &model, tokens, scored, options.threads)?;
            for used in &used {
                window.advance(used.node)?;
                if known(&kept, used) > index {
                    continue;
                }
                if is_cancelled() {
                    return kept.cancelled();
                }
                let divergence = window.divergence(&trials, used)?;
                let tensor = kept.sensitivities.tensors.entry(used.trial.name.clone()).or_default();
                tensor.divergences.push(rounded(divergence));
                kept.step()?;
                done += 1;
                let stage = Stage::Divergences;
                on_event(&SensitivityEvent::Progress { stage, done, all, now: done - before });
            }
        }
    }
    kept.write()?;
    let steps = now + kept.steps;
    Ok(Outcome::Done(Box::new(Measured { sensitivities: kept.sensitivities, importance, file: place, steps })))
}

/// Weights that are quantized already are brought into floats, so that what a format loses can be put in their place.
fn in_floats(source: &Checkpoint) -> impl Fn(&TensorInfo) -> Option<&'static Format> {
    let sorted = source.clone();
    move |tensor| {
        let is_quantized = tensor.format().is_some_and(|format| format.block_weights > 1);
        let wanted = match sorted.column_order(tensor) {
            Some(_) => Some("F32"),
            None => is_quantized.then_some("F16"),
        };
        wanted.and_then(format_by_name)
    }
}

/// The tokens of the windows, evenly spread over the texts.
fn windows(opening: &Opening, trials: &Trials<'_>, options: &SensitivityOptions) -> Result<Vec<Vec<u32>>> {
    let open: Vec<u64> =
        trials.matrices().iter().filter(|trial| trial.is_open()).map(|trial| trial.weights()).collect();
    let weights = open.iter().sum::<u64>() as f64;
    let most = options.windows.unwrap_or_else(|| {
        let fits = WORK / (weights * open.len() as f64 * options.context as f64).max(1.0);
        (fits as usize).clamp(1, MOST_WINDOWS)
    });
    let texts = options.texts.len().max(1);
    let mut all = Vec::with_capacity(most.min(1 << 10));
    for (index, text) in options.texts.iter().enumerate() {
        let cut = Windows::new(text, opening, options.context, None)?;
        // The first texts have what does not divide; each has one at least.
        let share = (most / texts + usize::from(index < most % texts)).clamp(1, cut.count);
        all.extend((0..share).map(|at| cut.window(at * cut.count / share)));
    }
    Ok(all)
}

/// The file for what was measured with these, in the cache.
fn in_cache(cache_dir: &Path, with: &MeasuredWith) -> Result<PathBuf> {
    let folder = cache_dir.join(FOLDER);
    fs::create_dir_all(&folder)
        .map_err(|error| duan_model::Error::io(folder.display().to_string(), "make it", error))?;
    Ok(folder.join(format!("{}.json", key::of(with))))
}

/// The importance that was gathered for the numbers at `place`, now or before, and what tells it from others. None where it was cancelled.
fn own_importance(
    options: &SensitivityOptions,
    place: &Path,
    now: &mut usize,
    on_event: &mut impl FnMut(&SensitivityEvent<'_>),
) -> Result<Option<(Importance, String)>> {
    let path = place.with_extension("imatrix.gguf");
    if Sensitivities::read(place).ok().flatten().is_some()
        && let (Ok(importance), Ok(key)) = (Importance::open(&path), key::file(&path))
    {
        return Ok(Some((importance, key)));
    }
    let gathering = ImportanceOptions {
        engine: EngineOptions { packing: Packing::InMemory, ..options.engine.clone() },
        model: options.model.clone(),
        texts: options.texts.clone(),
        context: options.context,
        windows: Some((IMPORTANCE_WINDOWS / options.texts.len().max(1)).max(1)),
        head: true,
    };
    let gathered = gather(&gathering, |event| match event {
        ImportanceEvent::Loading => on_event(&SensitivityEvent::Loading),
        ImportanceEvent::Warning { message } => on_event(&SensitivityEvent::Warning { message }),
        ImportanceEvent::Progress { done, all, .. } => {
            *now += 1;
            let (stage, done, all, now) = (Stage::Importance, *done, *all, *now);
            on_event(&SensitivityEvent::Progress { stage, done, all, now });
        }
        _ => {}
    })?;
    let Some(gathered) = gathered else { return Ok(None) };
    gathered.write(&path, true)?;
    let key = key::file(&path)?;
    Ok(Some((Importance::open(&path)?, key)))
}

/// Numbers that are kept while they come in.
struct Kept<'p> {
    sensitivities: Sensitivities,
    place: &'p Path,
    written: Instant,
    steps: usize,
}

impl<'p> Kept<'p> {
    /// Those that are there already, where they are of the same. A file that a person named and that is none is an error; one in the
    /// cache is made anew.
    fn open(
        place: &'p Path,
        with: MeasuredWith,
        is_named: bool,
        on_event: &mut impl FnMut(&SensitivityEvent<'_>),
    ) -> Result<Self> {
        let read = Sensitivities::read(place).and_then(|read| match read {
            Some(found) => match found.difference(&with) {
                Some(difference) => Err(Sensitivities::stranger(place, difference)),
                None => Ok(Some(found)),
            },
            None => Ok(None),
        });
        let sensitivities = match read {
            Ok(found) => found.unwrap_or_else(|| Sensitivities::new(with)),
            Err(error) if is_named => return Err(error.into()),
            Err(error) => {
                on_event(&SensitivityEvent::Warning { message: &format!("measuring anew: {error}") });
                Sensitivities::new(with)
            }
        };
        let mut kept = Kept { sensitivities, place, written: Instant::now(), steps: 0 };
        // That it cannot be written is said before the work.
        kept.write()?;
        Ok(kept)
    }

    /// One number more.
    fn step(&mut self) -> Result<()> {
        self.steps += 1;
        if self.written.elapsed() >= KEEP_EVERY { self.write() } else { Ok(()) }
    }

    fn write(&mut self) -> Result<()> {
        self.sensitivities.write(self.place)?;
        self.written = Instant::now();
        Ok(())
    }

    fn cancelled(&mut self) -> Result<Outcome> {
        self.write()?;
        Ok(Outcome::Cancelled(Some(self.place.to_owned())))
    }
}

#[cfg(test)]
mod tests;
