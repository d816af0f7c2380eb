//! From a path to a model that answers, stage by stage: file, model and words, plan, executor.

use std::path::Path;
use std::time::Instant;

use duan_engine::{Event, Executor, Plan, Session};
use duan_model::Model;
use duan_model::checkpoint::Checkpoint;
use duan_model::gguf::FileLength;
use duan_model::template::ChatTemplate;
use duan_model::tokenizer::Tokenizer;

use crate::devices::Devices;
use crate::error::{Error, Result};
use crate::options::EngineOptions;
use crate::resident;
use crate::summary::ModelSummary;

/// Whether and how the model talks.
pub(crate) enum Template {
    /// A base model.
    None,
    /// There is one, and it cannot be used.
    Broken(String),
    /// A chat model.
    Ready(Box<ChatTemplate>),
}

/// A file that was read: everything but the weights' bytes.
pub(crate) struct Opened {
    pub(crate) file: Checkpoint,
    pub(crate) model: Model,
    pub(crate) tokenizer: Tokenizer,
    pub(crate) template: Template,
    pub(crate) warnings: Vec<String>,
}

impl Opened {
    /// Reads header, configuration, tokenizer and template.
    pub(crate) fn open(path: &Path, options: &EngineOptions) -> Result<Self> {
        Self::of(options.open(path)?)
    }

    /// The same of a checkpoint.
    pub(crate) fn of(file: Checkpoint) -> Result<Self> {
        let model = Model::from_checkpoint(&file)?;
        let tokenizer = file.tokenizer().map_err(duan_model::Error::or_from_another_source)?;
        let config = &model.config;
        tracing::info!(
            file = file.label(),
            bytes = file.file_bytes(),
            family = config.family,
            layers = config.layers.len(),
            vocab_size = config.vocab_size,
            pre_tokenizer = tokenizer.pre_tokenizer(),
            "model read"
        );
        let mut warnings = file.warnings().to_vec();
        warnings.extend_from_slice(tokenizer.warnings());
        let template = match ChatTemplate::from_gguf(file.metadata(), &tokenizer) {
            Ok(Some(template)) => Template::Ready(Box::new(template)),
            Ok(None) => Template::None,
            Err(error) => {
                tracing::info!(%error, "no usable chat template");
                Template::Broken(error.to_string())
            }
        };
        if let [first, ..] = &model.unused_tensors[..] {
            let (count, first) = (model.unused_tensors.len(), duan_model::quoted(first));
            let tensors = if count == 1 { "tensor of the file is" } else { "tensors of the file are" };
            warnings.push(format!(
                "{count} {tensors} not used, for example `{first}`: what they are for is left out, and answers may be wrong"
            ));
        }
        Ok(Self { file, model, tokenizer, template, warnings })
    }

    pub(crate) fn summary(&self, options: &EngineOptions, devices: &Devices) -> Result<ModelSummary> {
        let template = match &self.template {
            Template::Ready(template) => Some(template.source_name()),
            Template::None | Template::Broken(_) => None,
        };
        let Self { file, model, tokenizer, warnings, .. } = self;
        ModelSummary::new(file, model, tokenizer, template, warnings, &options.sizes(), devices.preferred())
    }
}

/// A model that is resident on its devices.
pub(crate) struct Loaded {
    pub(crate) file: String,
    pub(crate) tokenizer: Tokenizer,
    pub(crate) template: Template,
    pub(crate) plan: Plan,
    pub(crate) summary: ModelSummary,
    pub(crate) executor: Executor,
    pub(crate) session: Session,
    length: FileLength,
    longest_token_bytes: usize,
}

impl Loaded {
    /// Compiles an opened model and warms it up.
    pub(crate) fn load(
        opened: Opened,
        plan: Plan,
        options: &EngineOptions,
        devices: &Devices,
        started: Instant,
        on_event: &mut dyn FnMut(&Event<'_>),
    ) -> Result<Self> {
        let summary = opened.summary(options, devices)?;
        for segment in plan.prefill.iter().chain(&plan.decode) {
            tracing::debug!(ops = ?segment.ops, device = plan.devices[segment.device], reason = ?segment.reason, "segment");
        }
        let mut executor = resident::load(&opened.file, &opened.model, &plan, options, devices, on_event)?;
        let (memory, context) = (executor.memory(), executor.context());
        tracing::info!(context, ?memory, load_ns = nanoseconds(started), "model loaded");
        on_event(&Event::Loaded { memory: &memory, context, load_ns: nanoseconds(started) });
        if options.warm_up {
            let warm_up_started = Instant::now();
            executor.warm_up()?;
            on_event(&Event::WarmedUp { warm_up_ns: nanoseconds(warm_up_started) });
        }
        let session = Session::open(&mut executor);
        let Opened { file, tokenizer, template, .. } = opened;
        let longest_token_bytes = longest_token_bytes(&tokenizer);
        let length = file.length();
        let file = file.label().to_owned();
        Ok(Self { file, tokenizer, template, plan, summary, executor, session, length, longest_token_bytes })
    }

    /// What can be said of a prompt of so many bytes before it is cut into tokens, which takes time and memory: no context holds
    /// more bytes than so many of the longest token.
    ///
    /// # Errors
    /// When the text is longer than that.
    pub(crate) fn check_text(&self, bytes: usize) -> Result<()> {
        let context = self.executor.context();
        let most_bytes = context.saturating_mul(self.longest_token_bytes);
        if bytes > most_bytes { Err(Error::TextTooLong { bytes, context, most_bytes }) } else { Ok(()) }
    }

    /// Whether the weights are still where they were.
    ///
    /// # Errors
    /// When the file was cut while it was in use.
    pub(crate) fn check_file(&self) -> Result<()> {
        Ok(self.length.check()?)
    }

    /// The template, or why there is none to use.
    pub(crate) fn chat_template(&self) -> Result<&ChatTemplate> {
        match &self.template {
            Template::Ready(template) => Ok(template),
            Template::None => Err(Error::NoChatTemplate { file: self.file.clone() }),
            Template::Broken(message) => Err(Error::BrokenTemplate { message: message.clone() }),
        }
    }
}

/// Bytes of text that the longest token of a vocabulary stands for.
fn longest_token_bytes(tokenizer: &Tokenizer) -> usize {
    let ids = 0..u32::try_from(tokenizer.vocab_size()).unwrap_or(u32::MAX);
    ids.map(|id| tokenizer.token_bytes(id).len().max(tokenizer.token_text(id).map_or(0, str::len))).max().unwrap_or(0)
}

fn nanoseconds(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_nanos()).unwrap_or(u64::MAX)
}
