//! `duan inspect MODEL`

mod json;
mod layers;
mod lists;
mod page;
mod rows;
mod words;

use std::process::ExitCode;

use duan::model::checkpoint::Checkpoint;
use duan::{Engine, EngineOptions, FileFacts};

use crate::args::Common;
use crate::open;
use crate::output::{print, print_json};

/// Show what is in a model's file, what it needs, and whether it can run here
///
/// Works on every GGUF file that can be read, also where this version cannot run it, and then says why.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Path, short name, hf:org/name[:Q4_K_M], ms:org/name, pypi:package or web address
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

/// A file and what was found out about it.
struct Findings {
    file: Checkpoint,
    facts: FileFacts,
    /// Whether the person chose the context.
    is_context_chosen: bool,
}

/// Reads the file and prints what is in it. That it cannot run is a finding, not a failure.
pub(crate) fn run(args: Args, common: &Common) -> anyhow::Result<ExitCode> {
    let found = open::fetch(&args.model, common)?;
    let file = Checkpoint::open(&found.file.path)?;
    let context = args.context.map(|context| context as usize);
    let engine = Engine::new(EngineOptions { device: args.device, context, ..EngineOptions::default() })?;
    let facts = FileFacts::of(&file, &engine)?;
    let findings = Findings { file, facts, is_context_chosen: context.is_some() };
    if common.json {
        print_json(&json::Document::of(&findings))?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut out = page::page(&findings);
    if args.metadata {
        out.push('\n');
        out.push_str(&lists::metadata(&findings.file));
    }
    if args.tensors {
        out.push('\n');
        out.push_str(&lists::tensors(&findings.file));
    }
    print(&out)?;
    Ok(ExitCode::SUCCESS)
}
