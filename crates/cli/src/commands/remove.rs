//! `duan remove NAME`

use std::process::ExitCode;

use serde_json::json;

use crate::args::Common;
use crate::open;
use crate::output::units::bytes_text;
use crate::output::{print_json, say};

/// Remove a fetched model, or what is here of one, from the cache
///
/// Files that were never fetched, such as a GGUF file of yours, are not touched.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The name that `duan list` shows
    name: String,
}

/// Deletes the model and says what became free.
pub(crate) fn run(args: Args, common: &Common) -> anyhow::Result<ExitCode> {
    let removed = open::hub(common)?.remove(&args.name)?;
    if common.json {
        print_json(&json!({ "name": removed.name, "freed_bytes": removed.bytes }))?;
    } else {
        say(&format!("removed {}, {} are free again", removed.name, bytes_text(removed.bytes)));
    }
    Ok(ExitCode::SUCCESS)
}
