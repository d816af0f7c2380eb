//! A model that is evaluated: opened, then loaded.

use std::ops::Range;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use duan_engine::{Event, Executor, KeptValues, Plan, Session};
use duan_measure::bench::{self, Job, Monotonic, Round, Test, statistics};
use duan_measure::quality::About;
use duan_model::Model;
use duan_model::checkpoint::Checkpoint;
use duan_model::gguf::FileLength;
use duan_model::tokenizer::Tokenizer;

use super::error::EvalError;
use crate::devices::Devices;
use crate::error::Result;
use crate::loaded::Opened;
use crate::options::EngineOptions;
use crate::resident;

/// Tokens of decode that are timed, and how often.
const TIMED: (usize, usize) = (64, 3);

/// A model of which everything but the weights was read.
pub(crate) struct Opening {
    pub(crate) about: About,
    pub(crate) model: Model,
    pub(crate) tokenizer: Tokenizer,
    pub(crate) plan: Plan,
    pub(crate) warnings: Vec<String>,
    file: Checkpoint,
}

impl Opening {
    pub(crate) fn open(path: &Path, options: &EngineOptions, devices: &Devices) -> Result<Self> {
        Self::of(options.open(path)?, options, devices)
    }

    /// The same of what was opened already.
    pub(crate) fn of(file: Checkpoint, options: &EngineOptions, devices: &Devices) -> Result<Self> {
        let Opened { file, model, tokenizer, warnings, .. } = Opened::of(file)?;
        // A context beyond the model's is told before anything is loaded.
        options.sizes().limits_for(&model.config)?;
        let plan = devices.plan(&model, options.allow_fallback)?;
        let tensors = file.tensors();
        let about = About {
            model: file.label().to_owned(),
            model_bytes: tensors.iter().filter_map(|tensor| tensor.bytes).fold(0, u64::saturating_add),
            parameters: tensors.iter().map(|tensor| tensor.dims.iter().product::<u64>()).fold(0, u64::saturating_add),
        };
        Ok(Self { about, model, tokenizer, plan, warnings, file })
    }

    /// Whether logits of this model and of `reference` are about the same tokens.
    pub(crate) fn check_vocabulary(&self, reference: &Self) -> Result<()> {
        match self.difference(reference) {
            None => Ok(()),
            Some(difference) => {
                let (model, reference) = (self.about.model.clone(), reference.about.model.clone());
                Err(EvalError::OtherVocabulary { model, reference, difference }.into())
            }
        }
    }

    fn difference(&self, other: &Self) -> Option<String> {
        let sizes = [self.model.config.vocab_size, other.model.config.vocab_size];
        if sizes[0] != sizes[1] {
            return Some(format!("{} and {} tokens", sizes[0], sizes[1]));
        }
        let bos = |opening: &Self| opening.tokenizer.bos().filter(|_| opening.tokenizer.adds_bos());
        if bos(self) != bos(other) {
            return Some(format!("texts begin with token {:?} and {:?}", bos(self), bos(other)));
        }
        let texts = [&self.tokenizer, &other.tokenizer];
        let ids = 0..u32::try_from(sizes[0]).unwrap_or(u32::MAX);
        let differs = |id: &u32| texts[0].token_text(*id) != texts[1].token_text(*id);
        ids.into_iter().find(differs).map(|id| {
            let [own, other] = texts.map(|tokenizer| duan_model::quoted(tokenizer.token_text(id).unwrap_or("nothing")));
            format!("token {id} is `{own}` and `{other}`")
        })
    }

    pub(crate) fn load(
        self,
        options: &EngineOptions,
        devices: &Devices,
        on_event: &mut dyn FnMut(&Event<'_>),
    ) -> Result<Running> {
        let Self { about, model, plan, file, .. } = self;
        let length = file.length();
        length.check()?;
        let mut executor = resident::load(&file, &model, &plan, options, devices, on_event)?;
        let session = Session::open(&mut executor);
        Ok(Running { about, executor, session, length, decode_ts: None })
    }
}

/// A loaded model with one sequence.
pub(crate) struct Running {
    pub(crate) about: About,
    pub(crate) executor: Executor,
    session: Session,
    length: FileLength,
    /// See [`Running::time_decode`].
    pub(crate) decode_ts: Option<f64>,
}

impl Running {
    /// Begins a window.
    pub(crate) fn begin(&mut self) {
        self.session.rewind(&mut self.executor, 0);
    }

    /// Feeds the next tokens; the logits of the last `wanted` can be read afterwards.
    pub(crate) fn pass(&mut self, tokens: &[u32], wanted: usize) -> Result<()> {
        self.length.check()?;
        Ok(self.session.pass(&mut self.executor, tokens, wanted)?)
    }

    /// What the ops from `first` on would find now, for the last pass of `rows` tokens and wanted ones.
    pub(crate) fn keep_values(&mut self, rows: (usize, usize), first: usize) -> Result<KeptValues> {
        Ok(self.session.keep_values(&mut self.executor, rows, first)?)
    }

    /// Runs `ops` of the last pass once more, from what was kept before them.
    pub(crate) fn rerun(&mut self, rows: (usize, usize), kept: &KeptValues, ops: Range<usize>) -> Result<()> {
        self.length.check()?;
        Ok(self.session.rerun(&mut self.executor, rows, kept, ops)?)
    }

    /// Measures decode after an empty context, as `bench` does. False where it was cancelled.
    pub(crate) fn time_decode(&mut self, cancel: &AtomicBool) -> Result<bool> {
        let (generate, repetitions) = TIMED;
        let generate = generate.min(self.executor.context() - 1);
        self.begin();
        self.executor.settle();
        let tests = [Test { prompt: 0, generate, depth: 0 }];
        let (pause, time) = (Duration::ZERO, Monotonic::new());
        let job = Job { tests: &tests, repetitions, warm_ups: 1, pause, warm_each_round: false, time: &time, cancel };
        let mut decode_ts = None;
        let is_done = bench::run(
            &mut self.executor,
            &job,
            |_| {},
            |outcome| {
                let rate = |round: &Round| generate as f64 * 1e9 / round.ns.max(1) as f64;
                let rates: Vec<f64> = outcome.rounds.iter().map(rate).collect();
                decode_ts = Some(statistics::median(&rates));
            },
        )?;
        self.decode_ts = decode_ts;
        Ok(is_done)
    }
}
