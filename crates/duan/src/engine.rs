//! The engine: devices, and at most one loaded model with its conversation.

use std::ops::ControlFlow;
use std::path::Path;
use std::time::Instant;

use duan_engine::{DeviceMemory, Event, Plan, SamplingOptions};
use duan_model::template::Message;
use duan_model::tokenizer::Tokenizer;
use duan_quant::Format;
use duan_system::{Local, State};

use crate::answer::{Answer, How, Text};
use crate::card::{Card, Known};
use crate::ceilings::{self, CeilingEvent, CeilingOptions, Ceilings, FoundCeilings};
use crate::devices::{DeviceInfo, Devices};
use crate::error::{Error, Result};
use crate::kernels::{KernelProgress, KernelReport};
use crate::loaded::{Loaded, Opened};
use crate::options::{CompleteOptions, EngineOptions};
use crate::summary::ModelSummary;

/// Runs one model at a time on the devices of this machine, and keeps it resident between requests.
///
/// ```no_run
/// let mut engine = duan::Engine::new(duan::EngineOptions::default())?;
/// engine.load_model("model.gguf")?;
/// println!("{}", engine.chat("Hello")?);
/// # Ok::<(), duan::Error>(())
/// ```
pub struct Engine {
    pub(crate) options: EngineOptions,
    devices: Devices,
    pub(crate) history: Vec<Message>,
    loaded: Option<Loaded>,
}

impl Engine {
    /// Checks the options and opens the devices. Nothing is loaded yet.
    ///
    /// # Errors
    /// When an option is out of its range, or a device is unknown or cannot be opened.
    pub fn new(options: EngineOptions) -> Result<Self> {
        options.sampling.validate()?;
        let devices = Devices::open(&options)?;
        Ok(Self { options, devices, history: Vec::new(), loaded: None })
    }

    /// The options as they are now.
    pub fn options(&self) -> &EngineOptions {
        &self.options
    }

    /// The devices of this machine.
    pub fn devices(&self) -> Vec<DeviceInfo> {
        self.devices.list()
    }

    /// Measures what runs for each of `formats` on the CPU, all formats that duan reads where there are none: its self-test, its
    /// share of the read bandwidth with one token and of the multiplier's peak with many. Takes about 20 seconds for all.
    /// `on_progress` is told before each step and may end it; then there is nothing.
    ///
    /// # Errors
    /// When the system gives no memory or threads, or when nothing that multiplies a format is right on this CPU.
    pub fn kernels(
        &self,
        formats: &[&'static Format],
        mut on_progress: impl FnMut(&KernelProgress) -> ControlFlow<()>,
    ) -> Result<Option<KernelReport>> {
        self.devices.kernels(formats, &mut on_progress)
    }

    /// What this machine can do at most: how fast it reads memory and multiplies, its clock, and what its threads lose by waiting for each
    /// other. Figures that were kept are used where they still hold; otherwise they are measured, which takes some seconds, and kept.
    /// Nothing where it was cancelled.
    ///
    /// # Errors
    /// When the system gives no threads to measure with.
    pub fn ceilings(
        &self,
        options: &CeilingOptions<'_>,
        mut on_event: impl FnMut(&CeilingEvent<'_>),
    ) -> Result<Option<FoundCeilings>> {
        ceilings::find(&self.devices, &State::read(&Local::here()), options, &mut on_event)
    }

    /// What this device is good for, by its state, its memory, the built-in catalogue, and its ceilings where there are any. Nothing is
    /// measured for it.
    pub fn card(&self, ceilings: Option<&Ceilings>) -> Card {
        let cpu = self.devices.cpu();
        Card::of(&Known {
            state: &State::read(&Local::here()),
            ceilings,
            isa: &cpu.isa,
            kernel_formats: &cpu.kernel_formats,
            threads_decode: cpu.threads_decode,
            threads_prefill: cpu.threads_prefill,
            memory_available_bytes: self.devices.preferred().memory_available_bytes(),
            catalogue: duan_hub::catalogue(),
        })
    }

    /// Loads the model in the file at `path`; see [`Engine::load_model_with`].
    ///
    /// # Errors
    /// As [`Engine::load_model_with`].
    pub fn load_model(&mut self, path: impl AsRef<Path>) -> Result<()> {
        self.load_model_with(path, |_| ())
    }

    /// Loads the model in the file at `path` in place of the one before, and begins a new conversation. What can be found wrong
    /// by reading the file is found before the old model goes.
    ///
    /// # Errors
    /// When the file cannot be read, is damaged or of a kind that is not read here; when an op has no device; when the memory
    /// does not suffice, with the numbers, before anything is allocated; when a device fails.
    pub fn load_model_with(&mut self, path: impl AsRef<Path>, mut on_event: impl FnMut(&Event<'_>)) -> Result<()> {
        let started = Instant::now();
        let path = path.as_ref();
        on_event(&Event::LoadStarted { file: &path.to_string_lossy() });
        let opened = Opened::open(path, &self.options)?;
        for message in &opened.warnings {
            on_event(&Event::Warning { message });
        }
        let plan = self.devices.plan(&opened.model, self.options.allow_fallback)?;
        on_event(&Event::Planned { plan: &plan });
        // Two models may not fit in memory together.
        self.loaded = None;
        self.history.clear();
        self.loaded = Some(Loaded::load(opened, plan, &self.options, &self.devices, started, &mut on_event)?);
        Ok(())
    }

    /// Waits until laid-out weights are kept that are to be ([`Event::PackKept`]). Dropping the engine, or loading another model,
    /// gives up what is not kept yet.
    pub fn settle(&mut self) {
        if let Some(loaded) = &mut self.loaded {
            loaded.executor.settle();
        }
    }

    /// Continues a text without a template; see [`Engine::complete_with`].
    ///
    /// # Errors
    /// As [`Engine::complete_with`].
    pub fn complete(&mut self, text: &str, options: &CompleteOptions) -> Result<Answer> {
        self.complete_with(text, options, |_| ControlFlow::Continue(()))
    }

    /// Continues a text without a template. The conversation is not touched, but its part of the cache is given up.
    ///
    /// # Errors
    /// When no model is loaded, an option is out of its range, the text is empty or too long, or a device fails.
    pub fn complete_with(
        &mut self,
        text: &str,
        options: &CompleteOptions,
        on_event: impl FnMut(&Event<'_>) -> ControlFlow<()>,
    ) -> Result<Answer> {
        let loaded = self.loaded()?;
        loaded.check_text(text.len())?;
        let tokenizer = &loaded.tokenizer;
        let mut tokens = Vec::new();
        if options.bos.unwrap_or(tokenizer.adds_bos()) {
            tokens.extend(tokenizer.bos());
        }
        tokens.extend(tokenizer.encode(text));
        self.complete_tokens_with(&tokens, options, on_event)
    }

    /// Continues tokens as they are; `bos` of the options does not count.
    ///
    /// # Errors
    /// As [`Engine::complete_with`], and when a token is not in the vocabulary.
    pub fn complete_tokens_with(
        &mut self,
        tokens: &[u32],
        options: &CompleteOptions,
        mut on_event: impl FnMut(&Event<'_>) -> ControlFlow<()>,
    ) -> Result<Answer> {
        let loaded = self.loaded.as_mut().ok_or(Error::NoModel)?;
        let CompleteOptions { max_tokens, sampling, .. } = options;
        let how = How { sampling, max_tokens: *max_tokens, cancel: &self.options.cancel, text: Text::GoesOn };
        loaded.answer(tokens, &how, &mut on_event)
    }

    /// Whether the loaded model can hold a conversation.
    ///
    /// # Errors
    /// When no model is loaded; [`Error::NoChatTemplate`] for a base model; [`Error::BrokenTemplate`] where the file's template
    /// cannot be used, with file, key, line and problem.
    pub fn check_chat(&self) -> Result<()> {
        self.loaded()?.chat_template().map(|_| ())
    }

    /// The logits behind every one of `tokens`, read as one sequence from position 0: `on_row` gets position and logits
    /// `[vocab_size]`, in order; a break ends it. Few rows are in memory at a time. The conversation's part of the cache
    /// is given up. Ends early, without an error, when the engine is cancelled.
    ///
    /// # Errors
    /// When no model is loaded, the tokens do not fit in the context or in the vocabulary, or a device fails.
    pub fn logits(&mut self, tokens: &[u32], on_row: impl FnMut(usize, &[f32]) -> ControlFlow<()>) -> Result<()> {
        let loaded = self.loaded.as_mut().ok_or(Error::NoModel)?;
        loaded.check_file()?;
        Ok(loaded.session.evaluate(&mut loaded.executor, tokens, &self.options.cancel, on_row)?)
    }

    /// How tokens are chosen in conversations from now on.
    ///
    /// # Errors
    /// When an option is out of its range; the old ones stay then.
    pub fn set_sampling(&mut self, sampling: SamplingOptions) -> Result<()> {
        sampling.validate()?;
        self.options.sampling = sampling;
        Ok(())
    }

    /// The most tokens of one answer in conversations from now on.
    pub fn set_max_tokens(&mut self, max_tokens: Option<usize>) {
        self.options.max_tokens = max_tokens;
    }

    /// The plan of the loaded model.
    ///
    /// # Errors
    /// When no model is loaded.
    pub fn plan(&self) -> Result<&Plan> {
        Ok(&self.loaded()?.plan)
    }

    /// What the loaded model is and needs.
    ///
    /// # Errors
    /// When no model is loaded.
    pub fn summary(&self) -> Result<&ModelSummary> {
        Ok(&self.loaded()?.summary)
    }

    /// The tokenizer of the loaded model.
    ///
    /// # Errors
    /// When no model is loaded.
    pub fn tokenizer(&self) -> Result<&Tokenizer> {
        Ok(&self.loaded()?.tokenizer)
    }

    /// What each device holds for the loaded model.
    ///
    /// # Errors
    /// When no model is loaded.
    pub fn memory(&self) -> Result<Vec<DeviceMemory>> {
        Ok(self.loaded()?.executor.memory())
    }

    /// Positions of the context.
    ///
    /// # Errors
    /// When no model is loaded.
    pub fn context(&self) -> Result<usize> {
        Ok(self.loaded()?.executor.context())
    }

    /// Positions of the context that are taken by what was last fed.
    ///
    /// # Errors
    /// When no model is loaded.
    pub fn context_used(&self) -> Result<usize> {
        let loaded = self.loaded()?;
        Ok(loaded.session.tokens(&loaded.executor).len())
    }

    /// What the file at `path` is and needs, without loading its weights.
    ///
    /// # Errors
    /// When the file cannot be read, is damaged or of a kind that is not read here, or the context is larger than the model's.
    pub fn inspect(&self, path: impl AsRef<Path>) -> Result<ModelSummary> {
        Opened::open(path.as_ref(), &self.options)?.summary(&self.options, &self.devices)
    }

    /// The plan for the file at `path`, without loading its weights.
    ///
    /// # Errors
    /// When the file cannot be read or an op has no device.
    pub fn plan_model(&self, path: impl AsRef<Path>) -> Result<Plan> {
        let opened = Opened::open(path.as_ref(), &self.options)?;
        self.devices.plan(&opened.model, self.options.allow_fallback)
    }

    /// The devices, opened.
    pub(crate) fn device_set(&self) -> &Devices {
        &self.devices
    }

    fn loaded(&self) -> Result<&Loaded> {
        self.loaded.as_ref().ok_or(Error::NoModel)
    }

    pub(crate) fn loaded_mut(&mut self) -> Result<&mut Loaded> {
        self.loaded.as_mut().ok_or(Error::NoModel)
    }
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let file = self.loaded.as_ref().map(|loaded| loaded.file.as_str());
        f.debug_struct("Engine").field("options", &self.options).field("file", &file).finish_non_exhaustive()
    }
}
