//! The one error of the facade.

/// The crate's result.
pub type Result<T> = std::result::Result<T, Error>;

/// Whatever goes wrong between a path and an answer. The text is one line that says where, what was expected and found, and
/// what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file, its tokenizer or its template; also what a template refuses, in the template's own words.
    #[error(transparent)]
    Model(Box<duan_model::Error>),
    /// A model could not be fetched by its name.
    #[error(transparent)]
    Hub(#[from] duan_hub::Error),
    /// Options, prompts that are too long, plans that cannot be made, memory that does not suffice, devices that fail.
    #[error(transparent)]
    Engine(#[from] duan_engine::Error),
    /// A benchmark that cannot be run.
    #[error(transparent)]
    Bench(#[from] duan_measure::bench::Error),
    /// Another engine that was to run beside ours cannot, or tells nothing that can be read.
    #[error("{name}: {what}")]
    Other {
        /// What it is called.
        name: String,
        /// What was the matter, with the remedy.
        what: String,
    },
    /// Records that cannot be read, written or found.
    #[error(transparent)]
    Records(#[from] duan_measure::records::Error),
    /// A page that cannot be written.
    #[error(transparent)]
    Page(#[from] duan_page::Error),
    /// Models that cannot be evaluated.
    #[error(transparent)]
    Eval(#[from] crate::eval::EvalError),
    /// A model computes nonsense.
    #[error(
        "{file}: what `{tensor}` is multiplied with is not finite; the file may be damaged: fetch or make it again"
    )]
    InputsNotFinite {
        /// The file.
        file: String,
        /// The tensor.
        tensor: String,
    },
    /// A model could not be made ready: mostly, the memory does not suffice.
    #[error("{file}: {source}")]
    Load {
        /// The file.
        file: String,
        /// Why.
        source: duan_engine::Error,
    },
    /// The conversation has grown beyond the context.
    #[error("{source}, or start a new conversation")]
    ConversationTooLong {
        /// With the numbers.
        source: duan_engine::Error,
    },
    /// A text is so long that it cannot fit in the context, however it is cut into tokens.
    #[error(
        "the text has {bytes} bytes, and a context of {context} tokens holds at most {most_bytes}; give a shorter text, or \
         load the model with a larger context where it allows one"
    )]
    TextTooLong {
        /// Bytes of the text.
        bytes: usize,
        /// Positions of the context.
        context: usize,
        /// Bytes of so many of the vocabulary's longest token.
        most_bytes: usize,
    },
    /// A file could not be written.
    #[error(transparent)]
    Write(#[from] duan_files::WriteError),
    /// A model, or importance, that cannot be quantized or written.
    #[error(transparent)]
    Quantize(Box<duan_quantize::Error>),
    /// Something was to be written over what is read.
    #[error("{file} is read here, and was not changed; name another file")]
    SameFile {
        /// The file.
        file: String,
    },
    /// There is no such weight format, or it can only be read.
    #[error("format: expected one of {known}, found \"{name}\"")]
    UnknownFormat {
        /// What was asked for.
        name: String,
        /// What can be written.
        known: String,
    },
    /// A device could not be opened.
    #[error(transparent)]
    Device(#[from] duan_backend::Error),
    /// Something was asked of an engine without a model.
    #[error("no model is loaded; call load_model first")]
    NoModel,
    /// The model was not trained for conversations, or its file does not say how they look.
    #[error(
        "{file}: the file has no chat template, so this is a base model that continues text and does not answer; \
         use `complete`, or a model whose name says chat, instruct or it"
    )]
    NoChatTemplate {
        /// The file.
        file: String,
    },
    /// The file's template cannot be used; `complete` still works.
    #[error("{message} (`complete` works without a template)")]
    BrokenTemplate {
        /// What is wrong with it.
        message: String,
    },
    /// A file does not tell of a machine.
    #[error("{file}: expected what `duan devices --json` prints on the other machine, found something else or nothing")]
    NoMachine {
        /// The file.
        file: String,
    },
    /// There is no such device.
    #[error("device: expected one of {known}, found \"{name}\"")]
    UnknownDevice {
        /// What was asked for.
        name: String,
        /// What there is.
        known: String,
    },
}

// In a box, because it is much larger than the others.
impl From<duan_model::Error> for Error {
    fn from(error: duan_model::Error) -> Self {
        Self::Model(Box::new(error))
    }
}

impl From<duan_quantize::Error> for Error {
    fn from(error: duan_quantize::Error) -> Self {
        Self::Quantize(Box::new(error))
    }
}
