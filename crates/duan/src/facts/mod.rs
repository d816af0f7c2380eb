//! Everything that can be said of a model's file without loading its weights, as data with stable names.
//!
//! It works on every GGUF file that opens: also where the family, a tensor type or the tokenizer is not supported, for
//! vocabularies without weights, and for models of several files. What cannot be known is `None`; why the model cannot run
//! stands in [`FileFacts::problems`], what is odd and can be lived with in [`FileFacts::odd`].
//!
//! Strings come from the file as they are, whatever they hold: who shows them must keep them from commanding a terminal.
//!
//! Start reading at [`FileFacts::of`]; each part of the facts is one file here.

mod about;
mod circumstances;
mod config;
mod machine;
mod memory;
mod mount;
mod odd;
mod template;
mod tokenizer;
mod types;
mod verdict;

pub(crate) use about::file_type;

use duan_model::checkpoint::Checkpoint;
use duan_model::gguf::{GgufFile, Metadata};
use duan_model::{Model, families};
use serde::Serialize;

use crate::engine::Engine;
use crate::error::Result;

pub use about::{AboutFacts, BaseModelFacts};
pub use config::{
    AttentionFacts, ConfigFacts, ConfigSource, ExpertsFacts, MlpFacts, NormFacts, RopeFacts, RopeScalingFacts,
    ShortConvFacts, TemperatureFacts,
};
pub use machine::Machine;
pub use memory::{MemoryFacts, MemoryRow};
pub use mount::SlowMount;
pub use odd::{Oddity, OddityKind};
pub use template::{TemplateFacts, TemplateStatus};
pub use tokenizer::{SpecialTokenFacts, TokenizerFacts};
pub use types::{DiskTypeFacts, TypeFacts};
pub(crate) use types::{bits_per_weight, of as types_of};
pub use verdict::{CanRun, Circumstances, MemoryNeeded, Reason, ReasonKind, Talks, Unknown, Verdict};

/// What is known of a model's file.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct FileFacts {
    /// Whether it can work here, or on the machine that it was judged for, and why.
    pub verdict: Verdict,
    /// Length of the file, or of all files of weights of a split model or a folder.
    pub bytes: u64,
    /// Number of files: 1, or more for a split model or a folder.
    pub pieces: usize,
    /// The files that were read, of which a folder's configuration is one; empty where they are in memory.
    pub files: Vec<DiskFile>,
    /// What the weights lie in: `GGUF` or `safetensors`.
    pub container: &'static str,
    /// Version of GGUF; `None` for a folder.
    pub version: Option<u32>,
    /// Alignment of the tensors' data in a GGUF file, in bytes.
    pub alignment: Option<u32>,
    /// The model's own name.
    pub name: Option<String>,
    /// The family, as the file names it.
    pub architecture: Option<String>,
    /// Whether this version runs the family.
    pub is_family_supported: bool,
    /// Whose it is and where it comes from.
    pub about: AboutFacts,
    /// Number of tensors.
    pub tensor_count: usize,
    /// Weights in all tensors.
    pub weights: u64,
    /// Weights that one token uses, where the model is a mixture of experts.
    pub active_weights: Option<u64>,
    /// Bits of all tensors per weight, where the sizes of all types are known and there are weights.
    pub bits_per_weight: Option<f64>,
    /// The tensors by type, that of the most weights first.
    pub types: Vec<TypeFacts>,
    /// A folder's tensors by the types of their numbers in its files, where these are others; empty for a GGUF file.
    pub disk_types: Vec<DiskTypeFacts>,
    /// How the model is built.
    pub config: ConfigFacts,
    /// How text becomes tokens.
    pub tokenizer: TokenizerFacts,
    /// How conversations look.
    pub template: TemplateFacts,
    /// What it takes to run; `None` where this version cannot run it.
    pub memory: Option<MemoryFacts>,
    /// Tensors that the forward pass does not use.
    pub unused_tensors: Vec<String>,
    /// Why it cannot run here, one line each; empty where it can.
    pub problems: Vec<String>,
    /// What is odd and can be lived with.
    pub odd: Vec<Oddity>,
}

impl FileFacts {
    /// Reads all facts of an open file; memory is judged by the engine's options and preferred device.
    ///
    /// # Errors
    /// When the context of the engine's options is not one of this model.
    pub fn of(file: &Checkpoint, engine: &Engine) -> Result<Self> {
        Self::for_machine(file, engine, &Machine::here(engine))
    }

    /// The same, judged for `machine`. The sizes are those of the engine's options.
    ///
    /// # Errors
    /// As [`FileFacts::of`].
    pub fn for_machine(file: &Checkpoint, engine: &Engine, machine: &Machine) -> Result<Self> {
        let metadata = file.metadata();
        let (mut problems, mut stops) = (Vec::new(), Vec::new());
        let tokenizer = file.tokenizer();
        let model = match read_model(file, tokenizer.is_ok()) {
            Ok(model) => Some(model),
            Err((problem, stop)) => {
                problems.push(problem);
                stops.push(stop);
                None
            }
        };
        if let Err(error) = &tokenizer {
            let problem = without_file(file, error);
            problems.push(problem.clone());
            stops.push(ReasonKind::Tokenizer { problem });
        }
        let tokenizer = tokenizer.ok();
        let config = config::of(file, model.as_ref());
        let memory = model.as_ref().map(|model| MemoryFacts::of(model, &engine.options().sizes(), machine));
        let memory = match memory {
            // Nobody asked for a context, and the model's own cannot be used.
            Some(Err(error)) if engine.options().context.is_none() => {
                problems.push(error.to_string());
                stops.push(ReasonKind::Model { problem: error.to_string() });
                None
            }
            memory => memory.transpose()?,
        };
        problems.extend(memory.as_ref().and_then(MemoryFacts::problem));
        let types = types::of(file);
        let architecture = text(metadata, "general.architecture");
        let mut facts = Self {
            verdict: Verdict::of_nothing(),
            files: disk_files(file),
            disk_types: types::on_disk(file),
            bytes: file.file_bytes(),
            pieces: file.piece_count(),
            container: if file.gguf().is_some() { "GGUF" } else { "safetensors" },
            version: file.gguf().map(GgufFile::version),
            alignment: file.gguf().map(GgufFile::alignment),
            name: text(metadata, "general.name"),
            is_family_supported: architecture.as_deref().is_some_and(is_family),
            architecture,
            about: AboutFacts::of(metadata),
            tensor_count: file.tensors().len(),
            weights: types.iter().map(|row| row.weights).fold(0, u64::saturating_add),
            active_weights: types::active_weights(file, config.experts()),
            bits_per_weight: types::bits_per_weight(&types),
            types,
            config,
            template: TemplateFacts::of(file, tokenizer.as_ref()),
            tokenizer: TokenizerFacts::of(metadata, tokenizer.as_ref()),
            memory,
            unused_tensors: model.as_ref().map_or_else(Vec::new, |model| model.unused_tensors.clone()),
            problems,
            odd: Vec::new(),
        };
        facts.odd = odd::of(&facts, file, tokenizer.as_ref());
        facts.verdict = Verdict::of(&Circumstances::of(&facts, (file, model.as_ref()), engine, machine, stops));
        Ok(facts)
    }

    /// Whether the file is a vocabulary without weights.
    pub fn is_vocabulary_only(&self) -> bool {
        self.tensor_count == 0
    }

    /// Whether it can run here.
    pub fn runs(&self) -> bool {
        self.problems.is_empty()
    }
}

/// A file on the disk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct DiskFile {
    /// Its name, without folders.
    pub name: String,
    /// Its length.
    pub bytes: u64,
}

fn disk_files(file: &Checkpoint) -> Vec<DiskFile> {
    let files = file.disk_files().ok().flatten().unwrap_or_default();
    let entry = |(path, file): (std::path::PathBuf, std::fs::File)| {
        let name = path.file_name()?.to_string_lossy().into_owned();
        Some(DiskFile { name, bytes: file.metadata().ok()?.len() })
    };
    files.into_iter().filter_map(entry).collect()
}

/// The model, or why it cannot be read; `has_tokenizer` tells what a file without weights is good for.
fn read_model(file: &Checkpoint, has_tokenizer: bool) -> std::result::Result<Model, (String, ReasonKind)> {
    if file.tensors().is_empty() {
        let use_of = if has_tokenizer { ", which can be used to cut text into tokens" } else { "" };
        let problem = format!("the file has no weights, only a vocabulary{use_of}");
        return Err((problem, ReasonKind::NoWeights { has_tokenizer }));
    }
    Model::from_checkpoint(file).map_err(|error| {
        let problem = without_file(file, &error);
        (problem.clone(), stop(file, problem))
    })
}

/// What stops a model that cannot be read.
fn stop(file: &Checkpoint, problem: String) -> ReasonKind {
    let name = text(file.metadata(), "general.architecture");
    if !name.as_deref().is_some_and(is_family) {
        return ReasonKind::Family { name };
    }
    let types = file.unsupported_types();
    if types.is_empty() {
        return ReasonKind::Model { problem };
    }
    let tensors = types.iter().map(|row| row.count).sum();
    ReasonKind::Tensors { types: types.into_iter().map(|row| row.name).collect(), tensors }
}

/// Whether this version runs the family of this name.
fn is_family(name: &str) -> bool {
    families::FAMILIES.iter().any(|family| family.name == name)
}

/// The error without the file's name, which whoever shows facts has said already.
fn without_file(file: &Checkpoint, error: &duan_model::Error) -> String {
    let text = error.to_string();
    text.strip_prefix(file.label()).and_then(|rest| rest.strip_prefix(": ")).unwrap_or(&text).to_owned()
}

/// The string at a key; one that is blank says nothing.
fn text(metadata: &Metadata, key: &str) -> Option<String> {
    let text = metadata.string(key).ok().flatten()?;
    (!text.trim().is_empty()).then(|| text.to_owned())
}
