//! How much each column of a model's matrices is used: [`gather`] reads texts through the engine and sums up what the matrices are
//! multiplied with. Quantizers weigh their errors with it; the field calls it an imatrix.
//!
//! As llama-imatrix does it: windows of equal length, one behind the other, each from an empty context, with the token that begins
//! texts in place of the first where the model has one; every position counts.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use duan_backend::MatrixInputs;
use duan_engine::{Event, Plan};
use duan_model::Model;
use duan_quantize::importance::{ImportanceData, ImportanceEntry};

use crate::devices::Devices;
use crate::error::{Error, Result};
use crate::eval::EvalText;
use crate::eval::subject::{Opening, Running};
use crate::eval::text::Windows;
use crate::options::EngineOptions;

/// What is to be read, and how.
#[derive(Debug, Clone)]
pub struct ImportanceOptions {
    /// Devices, instruction sets, and the flag that ends it. Its context is not looked at.
    pub engine: EngineOptions,
    /// The model's file.
    pub model: PathBuf,
    /// The texts.
    pub texts: Vec<EvalText>,
    /// Tokens of a window, from 4 on.
    pub context: usize,
    /// The most windows of each text; `None` for all.
    pub windows: Option<usize>,
    /// Whether the matrix that makes the logits is looked at too, which it must run for.
    pub head: bool,
}

/// What is told meanwhile.
#[derive(Debug)]
#[non_exhaustive]
pub enum ImportanceEvent<'a> {
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
    /// A window is done.
    Progress {
        /// Windows done, of all texts.
        done: usize,
        /// All of them.
        all: usize,
        /// The text's file.
        text: &'a str,
    },
}

/// What was gathered.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Gathered {
    /// The texts' files.
    pub texts: Vec<String>,
    /// Windows that were read.
    pub windows: usize,
    /// Tokens of a window.
    pub context: usize,
    /// By the tensor's name.
    pub matrices: BTreeMap<String, MatrixUse>,
}

/// What one matrix was multiplied with, or each of a stack of experts.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct MatrixUse {
    /// Sums of the squares of the inputs [experts, columns].
    pub sums: Vec<f64>,
    /// Inputs of each expert [experts]; 0 for one that was never used.
    pub counts: Vec<u64>,
}

impl Gathered {
    /// Writes the file `path`, an imatrix in GGUF as llama.cpp's tools read it, whole or not at all. One that is there is replaced only
    /// with `force`.
    ///
    /// # Errors
    /// When there is a file already, or it cannot be written.
    pub fn write(&self, path: &Path, force: bool) -> Result<()> {
        let whole = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        let entries = self.matrices.iter().map(|(name, MatrixUse { sums, counts })| {
            let sums = sums.iter().map(|&sum| sum as f32).collect();
            (name.clone(), ImportanceEntry { sums, counts: counts.clone() })
        });
        let data = ImportanceData {
            datasets: self.texts.clone(),
            chunk_count: whole(self.windows),
            chunk_size: whole(self.context),
            entries: entries.collect(),
        };
        Ok(data.write(path, force)?)
    }
}

impl MatrixUse {
    fn add(&mut self, inputs: MatrixInputs) {
        if self.counts.is_empty() {
            (self.sums, self.counts) = (inputs.squares, inputs.counts);
            return;
        }
        self.sums.iter_mut().zip(inputs.squares).for_each(|(sum, more)| *sum += more);
        self.counts.iter_mut().zip(inputs.counts).for_each(|(count, more)| *count += more);
    }
}

/// Reads the texts through the model. Gives nothing where it was cancelled.
///
/// # Errors
/// When the file cannot be read; a text is shorter than a window; the context is beyond the model's; the memory does not suffice; a
/// device cannot tell what its matrices are multiplied with, or fails; or what they are multiplied with is not finite.
pub fn gather(options: &ImportanceOptions, mut on_event: impl FnMut(&ImportanceEvent<'_>)) -> Result<Option<Gathered>> {
    let engine = EngineOptions { context: Some(options.context), warm_up: false, ..options.engine.clone() };
    let devices = Devices::open(&engine)?;
    let opening = Opening::open(&options.model, &engine, &devices)?;
    for message in &opening.warnings {
        on_event(&ImportanceEvent::Warning { message });
    }
    on_event(&ImportanceEvent::Planned { plan: &opening.plan });
    let texts = options.texts.iter();
    let windows: Vec<Windows> =
        texts.map(|text| Windows::new(text, &opening, options.context, options.windows)).collect::<Result<_>>()?;
    let (label, model) = (opening.about.model.clone(), opening.model.clone());
    on_event(&ImportanceEvent::Loading);
    let mut running = opening.load(&engine, &devices, &mut |event| on_event(&ImportanceEvent::Engine(event)))?;
    running.executor.observe_inputs(true)?;
    let all = windows.iter().map(|windows| windows.count).sum();
    let mut done = 0;
    for (text, windows) in options.texts.iter().zip(&windows) {
        for index in 0..windows.count {
            let is_cancelled = || engine.cancel.load(Ordering::Relaxed);
            if read(&mut running, &windows.window(index), options.head, is_cancelled)?.is_break() {
                return Ok(None);
            }
            done += 1;
            on_event(&ImportanceEvent::Progress { done, all, text: &text.label });
        }
    }
    let matrices = by_name(&label, &model, running.executor.observed_inputs())?;
    let texts = options.texts.iter().map(|text| text.label.clone()).collect();
    Ok(Some(Gathered { texts, windows: all, context: options.context, matrices }))
}

/// A window from an empty context.
fn read(running: &mut Running, tokens: &[u32], head: bool, is_cancelled: impl Fn() -> bool) -> Result<ControlFlow<()>> {
    running.begin();
    let limits = running.executor.limits();
    let most = if head { limits.max_rows.min(limits.max_wanted_rows) } else { limits.max_rows };
    for piece in tokens.chunks(most) {
        if is_cancelled() {
            return Ok(ControlFlow::Break(()));
        }
        running.pass(piece, if head { piece.len() } else { 0 })?;
    }
    Ok(ControlFlow::Continue(()))
}

/// The sums by the tensors' names; matrices that nothing was multiplied with are left out.
fn by_name(file: &str, model: &Model, observed: Vec<MatrixInputs>) -> Result<BTreeMap<String, MatrixUse>> {
    let mut matrices: BTreeMap<String, MatrixUse> = BTreeMap::new();
    for inputs in observed {
        if inputs.counts.iter().all(|&count| count == 0) {
            continue;
        }
        let name = model.weights.matrix(inputs.matrix).name();
        if inputs.squares.iter().any(|&sum| !(sum as f32).is_finite()) {
            return Err(Error::InputsNotFinite { file: file.to_owned(), tensor: duan_model::quoted(name) });
        }
        matrices.entry(name.to_owned()).or_default().add(inputs);
    }
    Ok(matrices)
}
