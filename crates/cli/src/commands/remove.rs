//! `duan remove NAME`

use std::collections::HashMap;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use duan::PackFolder;
use duan::hub::{CachedModel, Hub};
use duan::packs::{Packed, RemovedPacks};
use serde_json::json;

use super::list::belongs;
use crate::args::Common;
use crate::open;
use crate::output::style::on_one_line;
use crate::output::units::{bytes_text, counted};
use crate::output::{print_json, say};

/// Remove a fetched model, or what is here of one, from the cache
///
/// What was packed of it for faster starts goes too; --packed removes only that, of any model. Files that were never fetched, such
/// as a GGUF file of yours, are not touched.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The name that `duan list` shows; with --packed also the path of a GGUF file, or nothing for all
    #[arg(required_unless_present = "packed")]
    name: Option<String>,
    /// Remove packed weights only: the next start makes them anew
    #[arg(long)]
    packed: bool,
}

/// Deletes the model, or its packed weights, and says what became free.
pub(crate) fn run(args: Args, common: &Common) -> anyhow::Result<ExitCode> {
    let hub = open::hub(common)?;
    let packs = PackFolder::new(hub.cache_dir());
    match &args.name {
        Some(name) if !args.packed => remove_model(&hub, &packs, name, common)?,
        name => remove_packed(&hub, &packs, name.as_deref(), common)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn remove_model(hub: &Hub, packs: &PackFolder, name: &str, common: &Common) -> anyhow::Result<()> {
    // Which packs are the model's is known only while it is there.
    let here = hub.list()?;
    let packed = packs.list();
    let mine = |model: &CachedModel| -> Vec<String> {
        packed.iter().filter(|packed| belongs(packed, model)).map(|packed| packed.id.clone()).collect()
    };
    let mut ids: HashMap<String, Vec<String>> = here.iter().map(|model| (model.name.clone(), mine(model))).collect();
    let removed = hub.remove(name)?;
    let mine = ids.remove(&removed.name).unwrap_or_default();
    let packed = remove_where(packs, |packed| mine.contains(&packed.id))?;
    let bytes = removed.bytes + packed.bytes;
    if common.json {
        print_json(&json!({
            "name": removed.name,
            "freed_bytes": bytes,
            "packed_bytes": packed.bytes,
            "kept": removed.kept,
            "left": removed.left,
        }))?;
    } else {
        say(&format!("removed {}, {} are free again", removed.name, bytes_text(bytes)));
        if let Some(kept) = &removed.kept {
            say(&format!("what another program fetched stays: {}", on_one_line(&kept.display().to_string())));
        }
        for left in &removed.left {
            let shown = left.display().to_string();
            say(&format!("not deleted, because duan puts no files there: {}", on_one_line(&shown)));
        }
    }
    Ok(())
}

fn remove_packed(hub: &Hub, packs: &PackFolder, name: Option<&str>, common: &Common) -> anyhow::Result<()> {
    let here = if name.is_some() { hub.list()? } else { Vec::new() };
    let is_meant = |packed: &Packed| name.is_none_or(|name| is_called(packed, name, &here));
    let removed = remove_where(packs, is_meant)?;
    if let (Some(name), 0) = (name, removed.models) {
        bail!("no weights of {} are packed in {}; see `duan list`", on_one_line(name), packs.path().display());
    }
    if common.json {
        print_json(&json!({ "packed_models": removed.models, "freed_bytes": removed.bytes }))?;
    } else {
        let (models, bytes) = (counted(removed.models, "model"), bytes_text(removed.bytes));
        say(&format!("removed the packed weights of {models}, {bytes} are free again"));
    }
    Ok(())
}

/// Whether packed weights are those of the model that a person calls `name`: a name in the cache, or a path, also of a file that is gone.
fn is_called(packed: &Packed, name: &str, here: &[CachedModel]) -> bool {
    let path = Path::new(name);
    let is_path =
        || packed.paths.iter().any(|known| known == path || path.canonicalize().is_ok_and(|path| *known == path));
    packed.id == name || here.iter().any(|model| model.name == name && belongs(packed, model)) || is_path()
}

fn remove_where(packs: &PackFolder, is_meant: impl Fn(&Packed) -> bool) -> anyhow::Result<RemovedPacks> {
    packs.remove(is_meant).with_context(|| format!("cannot delete packed weights in {}", packs.path().display()))
}
