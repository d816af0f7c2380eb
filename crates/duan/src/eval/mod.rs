//! How good models are on a text, and how far from a reference: [`evaluate`].
//!
//! Windows, scores and figures are those of [`duan_measure::quality`]; here models are loaded and run. Without a reference they are
//! gone through one after the other. With one they are loaded together where memory has room for all, and go through each window
//! side by side; otherwise the reference goes first, and its logits are kept in a file ([`scratch`]) that has no name and is gone
//! when it is closed, whatever ends the program.

mod error;
mod scratch;
pub(crate) mod subject;
pub(crate) mod text;

use std::path::PathBuf;
use std::sync::atomic::Ordering;

use duan_engine::{Event, MemoryNeed, Plan};
use duan_measure::quality::windows::{Step, scored, steps};
use duan_measure::quality::{Row, Score, Tally, compare_rows, score_rows};

pub use duan_measure::quality::Row as EvalRow;
pub use duan_measure::quality::chart;
pub use error::EvalError;
pub use text::EvalText;

use self::scratch::{KeptLogits, LogitsFile};
use self::subject::{Opening, Running};
use self::text::Windows;
use crate::devices::Devices;
use crate::error::Result;
use crate::options::EngineOptions;

/// The most bytes of logits that a pass asks for: with them come the widest passes, and beside a model they are little.
const LOGITS_BYTES: usize = 64 << 20;

/// What is to be evaluated, and how.
#[derive(Debug, Clone)]
pub struct EvalOptions {
    /// Devices, instruction sets, and the flag that ends it. Its context is not looked at.
    pub engine: EngineOptions,
    /// The models' files.
    pub models: Vec<PathBuf>,
    /// The file of the model that they are compared with.
    pub against: Option<PathBuf>,
    /// The texts; each is evaluated alone.
    pub texts: Vec<EvalText>,
    /// Tokens of a window, from 4 on.
    pub context: usize,
    /// The most windows of each text; `None` for all.
    pub windows: Option<usize>,
    /// Whether decode is timed as well.
    pub bench: bool,
    /// Whether models are loaded together with the reference: `None` where memory has room for all.
    pub together: Option<bool>,
    /// A folder on a disk, for the reference's logits where models are not loaded together. It is made where it is missing.
    pub folder: PathBuf,
}

/// What is told meanwhile.
#[derive(Debug)]
#[non_exhaustive]
pub enum EvalEvent<'a> {
    /// Devices were chosen for a model.
    Planned {
        /// The model's file.
        model: &'a str,
        /// For each op one.
        plan: &'a Plan,
    },
    /// A model is about to be loaded.
    Loading {
        /// Its file.
        model: &'a str,
    },
    /// What the engine tells of loading.
    Engine(&'a Event<'a>),
    /// The reference's logits go to a file, as memory has no room for all models.
    LogitsKept {
        /// Bytes that they will take.
        bytes: u64,
    },
    /// Decode is about to be timed.
    Timing {
        /// The model's file.
        model: &'a str,
    },
    /// What speaks against the numbers.
    Warning {
        /// One line.
        message: &'a str,
    },
    /// A window is done.
    Progress {
        /// Windows done, of all models and texts.
        done: usize,
        /// All of them.
        all: usize,
        /// The model's file; where several go side by side, the last.
        model: &'a str,
        /// The text's file.
        text: &'a str,
    },
}

/// What came out.
#[derive(Debug, Clone, PartialEq)]
pub struct Evaluation {
    /// A row for each model and text: all texts of the first model, then those of the next.
    pub rows: Vec<Row>,
    /// The rows of the reference, one for each text; none where there is no reference.
    pub reference: Vec<Row>,
}

type Tell<'a> = dyn FnMut(&EvalEvent<'_>) + 'a;

/// Evaluates models on texts. Gives nothing where it was cancelled.
///
/// # Errors
/// When a file cannot be read; a text is shorter than a window; a model's vocabulary is another than the reference's; the context is
/// beyond a model's; memory or disk do not suffice; logits are no numbers; a device fails.
pub fn evaluate(options: &EvalOptions, mut on_event: impl FnMut(&EvalEvent<'_>)) -> Result<Option<Evaluation>> {
    if options.context < 4 {
        return Err(EvalError::Context { context: options.context }.into());
    }
    let engine = EngineOptions {
        context: Some(options.context),
        logits_bytes: options.engine.logits_bytes.max(LOGITS_BYTES),
        warm_up: false,
        ..options.engine.clone()
    };
    let devices = Devices::open(&engine)?;
    let mut run = Run { options, engine: &engine, devices: &devices, tell: &mut on_event, done: 0, all: 0 };
    run.evaluate()
}

/// What the models are compared with.
enum Reference<'a> {
    None,
    /// Its model, side by side with them.
    Loaded(&'a mut Running, &'a mut Tally),
    /// The logits that it left, and what it made of the text.
    Kept(&'a mut KeptLogits),
}

struct Run<'a> {
    options: &'a EvalOptions,
    engine: &'a EngineOptions,
    devices: &'a Devices,
    tell: &'a mut Tell<'a>,
    done: usize,
    all: usize,
}

impl Run<'_> {
    fn evaluate(&mut self) -> Result<Option<Evaluation>> {
        let reference = self.options.against.as_ref().map(|path| self.open(path)).transpose()?;
        let models = self.options.models.iter().map(|path| self.open(path)).collect::<Result<Vec<_>>>()?;
        if let Some(reference) = &reference {
            for model in &models {
                model.check_vocabulary(reference)?;
            }
        } else if models.iter().any(|model| model.check_vocabulary(&models[0]).is_err()) {
            let message =
                "the models have different vocabularies, so their perplexities cannot be compared with each other";
            (self.tell)(&EvalEvent::Warning { message });
        }
        let of = |opening: &Opening| {
            let texts = self.options.texts.iter();
            texts.map(|text| Windows::new(text, opening, self.options.context, self.options.windows)).collect()
        };
        let windows = models.iter().chain(&reference).map(of).collect::<Result<Vec<Vec<Windows>>>>()?;
        self.all = windows.iter().flatten().map(|windows| windows.count).sum();
        match reference {
            None => self.alone(models, &windows),
            Some(reference) if self.fit_together(&models, &reference)? => self.together(models, reference, &windows),
            Some(reference) => self.through_a_file(models, reference, &windows),
        }
    }

    fn open(&mut self, path: &std::path::Path) -> Result<Opening> {
        let opening = Opening::open(path, self.engine, self.devices)?;
        for message in &opening.warnings {
            (self.tell)(&EvalEvent::Warning { message });
        }
        (self.tell)(&EvalEvent::Planned { model: &opening.about.model, plan: &opening.plan });
        Ok(opening)
    }

    fn load(&mut self, opening: Opening) -> Result<Running> {
        (self.tell)(&EvalEvent::Loading { model: &opening.about.model });
        let tell = &mut *self.tell;
        opening.load(self.engine, self.devices, &mut |event| tell(&EvalEvent::Engine(event)))
    }

    /// Loads a model and times its decode, where that is wanted, before anything else is in memory.
    fn load_and_time(&mut self, opening: Opening) -> Result<Option<Running>> {
        let mut running = self.load(opening)?;
        if self.options.bench {
            (self.tell)(&EvalEvent::Timing { model: &running.about.model });
            if !running.time_decode(&self.engine.cancel)? {
                return Ok(None);
            }
        }
        Ok(Some(running))
    }

    /// Whether memory has room for all models at once.
    fn fit_together(&self, models: &[Opening], reference: &Opening) -> Result<bool> {
        if let Some(together) = self.options.together {
            return Ok(together);
        }
        let mut needed_bytes = 0u64;
        for opening in models.iter().chain([reference]) {
            let limits = self.engine.sizes().limits_for(&opening.model.config).map_err(crate::Error::from)?;
            let need = MemoryNeed::of(&opening.model, self.options.context, &limits);
            needed_bytes = needed_bytes.saturating_add(need.total_bytes);
        }
        Ok(self.devices.preferred().memory_available_bytes().is_none_or(|available| needed_bytes <= available))
    }

    /// One model after the other, compared with nothing.
    fn alone(&mut self, models: Vec<Opening>, windows: &[Vec<Windows>]) -> Result<Option<Evaluation>> {
        let mut rows = Vec::new();
        for (opening, windows) in models.into_iter().zip(windows) {
            let Some(mut running) = self.load_and_time(opening)? else { return Ok(None) };
            for (text, windows) in self.options.texts.iter().zip(windows) {
                let mut tally = Tally::default();
                let models = [(&mut running, &mut tally)];
                if !self.text(text, windows, Reference::None, models, None)? {
                    return Ok(None);
                }
                rows.push(self.row(&running, text, windows, &tally, None));
            }
        }
        Ok(Some(Evaluation { rows, reference: Vec::new() }))
    }

    /// All models and the reference side by side.
    fn together(
        &mut self,
        models: Vec<Opening>,
        reference: Opening,
        windows: &[Vec<Windows>],
    ) -> Result<Option<Evaluation>> {
        let mut loaded = Vec::new();
        for opening in models.into_iter().chain([reference]) {
            let Some(running) = self.load_and_time(opening)? else { return Ok(None) };
            loaded.push(running);
        }
        let Some(mut reference) = loaded.pop() else { return Ok(None) };
        let (mut rows, mut reference_rows) = (vec![Vec::new(); loaded.len()], Vec::new());
        for (index, text) in self.options.texts.iter().enumerate() {
            let (mut reference_tally, mut tallies) = (Tally::default(), vec![Tally::default(); loaded.len()]);
            let windows = &windows[0][index];
            let beside = Reference::Loaded(&mut reference, &mut reference_tally);
            if !self.text(text, windows, beside, loaded.iter_mut().zip(&mut tallies), None)? {
                return Ok(None);
            }
            for ((rows, model), tally) in rows.iter_mut().zip(&loaded).zip(&tallies) {
                rows.push(self.row(model, text, windows, tally, Some((&reference.about.model, &reference_tally))));
            }
            reference_rows.push(self.row(&reference, text, windows, &reference_tally, None));
        }
        Ok(Some(Evaluation { rows: rows.into_iter().flatten().collect(), reference: reference_rows }))
    }

    /// The reference first, then one model after the other beside the logits that it left.
    fn through_a_file(
        &mut self,
        models: Vec<Opening>,
        reference: Opening,
        windows: &[Vec<Windows>],
    ) -> Result<Option<Evaluation>> {
        let vocab_size = reference.model.config.vocab_size;
        let rows_of = |windows: &Windows| windows.count * scored(self.options.context).len();
        let all_rows = windows[0].iter().map(rows_of).sum();
        let mut file = LogitsFile::new(&self.options.folder, vocab_size, all_rows)?;
        (self.tell)(&EvalEvent::LogitsKept { bytes: file.bytes() });
        let (mut reference_rows, mut reference_tallies) = (Vec::new(), Vec::new());
        let reference_name = reference.about.model.clone();
        {
            let Some(mut running) = self.load_and_time(reference)? else { return Ok(None) };
            for (text, windows) in self.options.texts.iter().zip(&windows[0]) {
                let mut tally = Tally::default();
                if !self.text(text, windows, Reference::None, [(&mut running, &mut tally)], Some(&mut file))? {
                    return Ok(None);
                }
                reference_rows.push(self.row(&running, text, windows, &tally, None));
                reference_tallies.push(tally);
            }
        }
        let mut kept = file.finish()?;
        let mut rows = Vec::new();
        for opening in models {
            kept.rewind()?;
            let Some(mut running) = self.load_and_time(opening)? else { return Ok(None) };
            for ((text, windows), reference) in self.options.texts.iter().zip(&windows[0]).zip(&reference_tallies) {
                let mut tally = Tally::default();
                if !self.text(text, windows, Reference::Kept(&mut kept), [(&mut running, &mut tally)], None)? {
                    return Ok(None);
                }
                rows.push(self.row(&running, text, windows, &tally, Some((&reference_name, reference))));
            }
        }
        Ok(Some(Evaluation { rows, reference: reference_rows }))
    }

    /// All windows of a text through some models. False where it was cancelled.
    fn text<'m>(
        &mut self,
        text: &EvalText,
        windows: &Windows,
        mut reference: Reference<'_>,
        models: impl IntoIterator<Item = (&'m mut Running, &'m mut Tally)>,
        mut file: Option<&mut LogitsFile>,
    ) -> Result<bool> {
        let mut models: Vec<_> = models.into_iter().collect();
        let limits =
            |running: &Running| (running.executor.limits().max_rows, running.executor.limits().max_wanted_rows);
        let mut all: Vec<(usize, usize)> = models.iter().map(|(model, _)| limits(model)).collect();
        if let Reference::Loaded(running, _) = &reference {
            all.push(limits(running));
        }
        let max_rows = all.iter().map(|limits| limits.0).min().unwrap_or(1);
        let max_wanted = all.iter().map(|limits| limits.1).min().unwrap_or(1);
        let steps = steps(windows.length, max_rows, max_wanted);
        for index in 0..windows.count {
            let tokens = windows.window(index);
            models.iter_mut().for_each(|(model, _)| model.begin());
            if let Reference::Loaded(running, _) = &mut reference {
                running.begin();
            }
            for step in &steps {
                if self.engine.cancel.load(Ordering::Relaxed) {
                    return Ok(false);
                }
                step_of_all(&tokens, step, index, &mut reference, &mut models, file.as_deref_mut())?;
            }
            self.done += models.len() + usize::from(matches!(reference, Reference::Loaded(..)));
            if let Some((model, _)) = models.last() {
                let (done, all, model, text) = (self.done, self.all, &*model.about.model, &*text.label);
                (self.tell)(&EvalEvent::Progress { done, all, model, text });
            }
        }
        Ok(true)
    }

    fn row(
        &self,
        model: &Running,
        text: &EvalText,
        windows: &Windows,
        tally: &Tally,
        reference: Option<(&str, &Tally)>,
    ) -> Row {
        let figures = tally.figures(reference.map(|(_, tally)| tally));
        let extent = (windows.length, windows.count, tally.tokens());
        Row::new(&model.about, &text.label, extent, &figures, reference.map(|(name, _)| name), model.decode_ts)
    }
}

/// One step of a window through the reference and the models.
fn step_of_all(
    tokens: &[u32],
    step: &Step,
    window: usize,
    reference: &mut Reference<'_>,
    models: &mut [(&mut Running, &mut Tally)],
    mut file: Option<&mut LogitsFile>,
) -> Result<()> {
    let fed = &tokens[step.positions.clone()];
    if let Reference::Loaded(running, _) = reference {
        running.pass(fed, step.wanted)?;
    }
    for (model, _) in models.iter_mut() {
        model.pass(fed, step.wanted)?;
    }
    if step.wanted == 0 {
        return Ok(());
    }
    let first = step.positions.end - step.wanted;
    let targets = &tokens[first + 1..=step.positions.end];
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let score = |model: &Running| {
        let logits = model.executor.logits(step.wanted);
        score_rows(logits, targets, threads).map_err(|wrong| EvalError::NotFinite {
            model: model.about.model.clone(),
            window,
            position: first + wrong.row,
        })
    };
    let beside: Option<(&[f32], Vec<Score>)> = match reference {
        Reference::None => None,
        Reference::Loaded(running, tally) => {
            let scores = score(running)?;
            tally.score(&scores);
            Some((running.executor.logits(step.wanted), scores))
        }
        Reference::Kept(kept) => {
            let (logits, tops) = kept.next(step.wanted)?;
            let scores = score_rows(logits, targets, threads).map_err(|_| EvalError::KeptAreDamaged)?;
            let scores = scores.into_iter().zip(tops).map(|(score, &top)| Score { top, ..score }).collect();
            Some((logits, scores))
        }
    };
    for (model, tally) in models.iter_mut() {
        let scores = score(model)?;
        let logits = model.executor.logits(step.wanted);
        tally.score(&scores);
        if let Some((reference_logits, reference_scores)) = &beside {
            tally.compare(&compare_rows((reference_logits, reference_scores), (logits, &scores), threads));
        }
        if let Some(file) = file.as_deref_mut() {
            file.write(logits, &scores)?;
        }
    }
    Ok(())
}
