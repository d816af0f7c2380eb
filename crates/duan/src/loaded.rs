//! From a path to a model that answers, stage by stage: file, model and words, plan, executor.

use std::path::Path;
use std::time::Instant;

use duan_engine::{Event, Executor, Plan, Session};
use duan_model::Model;
use duan_model::gguf::GgufFile;
use duan_model::template::ChatTemplate;
use duan_model::tokenizer::Tokenizer;

use crate::devices::Devices;
use crate::error::{Error, Result};
use crate::options::EngineOptions;
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
    pub(crate) file: GgufFile,
    pub(crate) model: Model,
    pub(crate) tokenizer: Tokenizer,
    pub(crate) template: Template,
    pub(crate) warnings: Vec<String>,
}

impl Opened {
    /// Reads header, configuration, tokenizer and template.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let file = GgufFile::open(path)?;
        let model = Model::from_gguf(&file)?;
        let tokenizer = Tokenizer::from_gguf(file.metadata())?;
        let mut warnings = tokenizer.warnings().to_vec();
        let template = match ChatTemplate::from_gguf(file.metadata(), &tokenizer) {
            Ok(Some(template)) => Template::Ready(Box::new(template)),
            Ok(None) => Template::None,
            Err(error) => {
                warnings.push(error.to_string());
                Template::Broken(error.to_string())
            }
        };
        if let [first, ..] = &model.unused_tensors[..] {
            let count = model.unused_tensors.len();
            let first = duan_model::quoted(first);
            warnings
                .push(format!("{count} tensors of the file are not used by this architecture, for example `{first}`"));
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
        let mut executor = Executor::load(&opened.model, &devices.backends(), &plan, &options.sizes())?;
        let (memory, context) = (executor.memory(), executor.context());
        on_event(&Event::Loaded { memory: &memory, context, load_ns: nanoseconds(started) });
        if options.warm_up {
            let warm_up_started = Instant::now();
            executor.warm_up()?;
            on_event(&Event::WarmedUp { warm_up_ns: nanoseconds(warm_up_started) });
        }
        let session = Session::open(&mut executor);
        let Opened { file, tokenizer, template, .. } = opened;
        Ok(Self { file: file.label().to_owned(), tokenizer, template, plan, summary, executor, session })
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

fn nanoseconds(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_nanos()).unwrap_or(u64::MAX)
}
