//! `duan inspect MODEL`

mod json;
mod layers;
mod lists;
mod page;
mod rows;
mod unfetched;
mod verdict;
mod words;

use std::process::ExitCode;

use duan::facts::Machine;
use duan::model::checkpoint::Checkpoint;
use duan::{Engine, EngineOptions, FileFacts};

use crate::args::{Common, bytes};
use crate::open;
use crate::output::{print, print_json};

/// Say whether a model can work here, what is in its file, and what it needs
///
/// Begins with one verdict, and three reasons at most with what to do about each. Works on every GGUF file and checkpoint folder that
/// can be read, also where this version cannot run it, and then says why. A model that is not here yet is not fetched: what the
/// catalogue knows of it is told.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Path, short name, hf:org/name[:Q4_K_M], ms:org/name, pypi:package or web address
    model: String,
    /// Tokens that prompt and answers may have together, for the memory needed
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = clap::value_parser!(u32).range(2..))]
    context: Option<u32>,
    /// Judge for this device: one of this machine (`duan devices` lists them); another machine, by a file with what
    /// `duan devices --json` prints there; or one that can give so much memory to a model, such as 6GiB or 800MB
    #[arg(long = "for", value_name = "DEVICE|FILE|SIZE")]
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
    /// What the person called it.
    name: String,
    file: Checkpoint,
    facts: FileFacts,
    /// Whether the person chose the context.
    is_context_chosen: bool,
}

/// Reads the file and prints what is in it. That it cannot run is a finding, not a failure.
pub(crate) fn run(args: Args, common: &Common) -> anyhow::Result<ExitCode> {
    let (engine, machine) = judged_for(&args, common)?;
    let Some(found) = open::find(&args.model, common)? else {
        return unfetched::run(&args.model, common, &machine);
    };
    let file = Checkpoint::open(&found.path)?;
    let facts = FileFacts::for_machine(&file, &engine, &machine)?;
    let findings = Findings { name: args.model, file, facts, is_context_chosen: args.context.is_some() };
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

/// The engine, and the machine that models are judged for.
fn judged_for(args: &Args, common: &Common) -> anyhow::Result<(Engine, Machine)> {
    let context = args.context.map(|context| context as usize);
    let packing = open::packing(common, false)?;
    let engine = |device: Option<String>| {
        Engine::new(EngineOptions { device, context, packing: packing.clone(), ..EngineOptions::default() })
    };
    let wanted = args.device.as_deref();
    let of_another = match wanted {
        Some(text) if text.starts_with(|first: char| first.is_ascii_digit()) && bytes(text).is_some() => {
            bytes(text).map(Machine::with_memory)
        }
        Some(text) if std::path::Path::new(text).is_file() => Some(Machine::read(text.as_ref())?),
        _ => None,
    };
    if let Some(machine) = of_another {
        return Ok((engine(None)?, machine));
    }
    let engine = engine(args.device.clone()).map_err(|error| match error {
        duan::Error::UnknownDevice { name, known } => anyhow::anyhow!(
            "--for {name}: expected a device of this machine ({known}), a file with what `duan devices --json` prints, or a size \
             such as 6GiB"
        ),
        other => other.into(),
    })?;
    let machine = Machine::here(&engine);
    Ok((engine, machine))
}
