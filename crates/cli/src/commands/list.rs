//! `duan list`

use std::process::ExitCode;

use duan::PackFolder;
use duan::hub::{CacheState, CachedModel, CatalogueEntry, best_that_fits, catalogue};
use duan::packs::Packed;
use serde_json::{Value, json};

use crate::args::Common;
use crate::open;
use crate::output::style::on_one_line;
use crate::output::units::{ByteUnit, bytes_text};
use crate::output::{Align, Table, print, print_json, say};

/// List the models that are here, and those that can be fetched by a short name
///
/// Of those that can be fetched it says which ones the memory of this machine can hold now, and marks the best of them.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

/// Prints what the cache holds and the rest of the catalogue.
pub(crate) fn run(_: Args, common: &Common) -> anyhow::Result<ExitCode> {
    let hub = open::hub(common)?;
    let here = hub.list()?;
    let packs = PackFolder::new(hub.cache_dir());
    let packed = packs.list();
    let packed_bytes: u64 = packed.iter().map(|packed| packed.bytes).sum();
    let absent: Vec<&CatalogueEntry> =
        catalogue().iter().filter(|entry| here.iter().all(|model| model.name != entry.name)).collect();
    let available = open::memory_available_bytes();
    if common.json {
        let models: Vec<Value> = here.iter().map(|model| model_json(model, &packed)).collect();
        let available: Vec<Value> = absent.iter().map(|entry| entry_json(entry, available)).collect();
        print_json(&json!({
            "cache": hub.cache_dir(),
            "models": models,
            "available": available,
            "packed": packed,
            "packed_bytes": packed_bytes,
        }))?;
        return Ok(ExitCode::SUCCESS);
    }
    print(&table(&here, &absent, &packed, available).text())?;
    if here.is_empty() {
        say(&format!("nothing is kept in {} yet; `duan fetch NAME` fetches one", hub.cache_dir().display()));
    } else {
        let total = here.iter().map(|model| model.bytes).sum();
        say(&format!("{} in {}", bytes_text(total), hub.cache_dir().display()));
    }
    if !packed.is_empty() {
        let (bytes, folder) = (bytes_text(packed_bytes), packs.path().display());
        say(&format!(
            "{bytes} of packed weights in {folder}, for faster starts; `duan remove --packed [MODEL]` deletes them"
        ));
    }
    Ok(ExitCode::SUCCESS)
}

fn table(here: &[CachedModel], absent: &[&CatalogueEntry], packed: &[Packed], available: Option<u64>) -> Table {
    let sizes = here.iter().map(|model| model.bytes).chain(absent.iter().map(|entry| entry.file_bytes));
    let sizes = sizes.chain(packed.iter().map(|packed| packed.bytes));
    let unit = ByteUnit::for_largest(sizes);
    let mut table = Table::new(&[
        ("NAME", Align::Left),
        (unit.name(), Align::Right),
        ("PACKED", Align::Right),
        ("STATE", Align::Left),
        ("LICENCE", Align::Left),
    ]);
    for model in here {
        let licence = model.licence.as_deref().unwrap_or("not known");
        let state = match model.state {
            CacheState::Verified => "here".to_owned(),
            CacheState::NotCompared => "here, not verified: its source gives no hash".to_owned(),
            CacheState::Changed => "here, changed; verified again at its next use".to_owned(),
            CacheState::Partial => format!("partly here; `duan fetch {}` goes on", model.name),
            _ => state_name(model.state).to_owned(),
        };
        let packed = packed_of(model, packed).map_or_else(none, |packed| unit.number(packed.bytes));
        table.row([on_one_line(&model.name), unit.number(model.bytes), packed, state, on_one_line(licence)]);
    }
    for packed in packed.iter().filter(|packed| here.iter().all(|model| !belongs(packed, model))) {
        let name = packed.paths.first().map_or_else(|| packed.id.clone(), |path| path.display().to_string());
        let state = "used by its path".to_owned();
        table.row([on_one_line(&name), none(), unit.number(packed.bytes), state, none()]);
    }
    for entry in absent {
        let state = outlook(entry, available);
        table.row([entry.name.to_owned(), unit.number(entry.file_bytes), none(), state, entry.licence.to_owned()]);
    }
    table
}

/// Whether a model that is not here could be used here.
fn outlook(entry: &CatalogueEntry, available: Option<u64>) -> String {
    match available {
        Some(available) if !entry.fits(available) => {
            format!("needs about {} of memory, {} are free", bytes_text(entry.memory_bytes()), bytes_text(available))
        }
        Some(available) if best_that_fits(available) == Some(entry) => "can be fetched, the best that fits".to_owned(),
        _ => "can be fetched".to_owned(),
    }
}

/// A cell for which there is nothing.
fn none() -> String {
    "-".to_owned()
}

/// The packed weights of a model in the cache.
fn packed_of<'a>(model: &CachedModel, packed: &'a [Packed]) -> Option<&'a Packed> {
    packed.iter().find(|packed| belongs(packed, model))
}

/// Whether packed weights are those of a model in the cache.
pub(super) fn belongs(packed: &Packed, model: &CachedModel) -> bool {
    let is_there = || model.path.canonicalize().is_ok_and(|path| packed.paths.contains(&path));
    model.sha256.as_ref() == Some(&packed.id) || is_there()
}

fn state_name(state: CacheState) -> &'static str {
    match state {
        CacheState::Verified => "verified",
        CacheState::NotCompared => "not verified",
        CacheState::Changed => "changed",
        CacheState::Partial => "partial",
        _ => "other",
    }
}

fn model_json(model: &CachedModel, packed: &[Packed]) -> Value {
    json!({
        "name": model.name,
        "path": model.path,
        "bytes": model.bytes,
        "packed_bytes": packed_of(model, packed).map_or(0, |packed| packed.bytes),
        "state": state_name(model.state),
        "sha256": model.sha256,
        "source": model.source,
        "licence": model.licence,
        "fetched_unix_s": model.fetched_unix_s,
    })
}

fn entry_json(entry: &CatalogueEntry, available: Option<u64>) -> Value {
    json!({
        "name": entry.name,
        "bytes": entry.file_bytes,
        "download_bytes": entry.download_bytes(),
        "memory_bytes": entry.memory_bytes(),
        "fits": available.map(|available| entry.fits(available)),
        "sha256": entry.sha256(),
        "licence": entry.licence,
        "summary": entry.summary,
        "chat": entry.is_chat,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_says_so_and_the_best_that_does_is_marked() {
        let states = |available: Option<u64>| {
            let entries =
                catalogue().iter().filter(|entry| ["smollm2-135m", "qwen3-0.6b", "qwen3-4b"].contains(&entry.name));
            entries.map(|entry| outlook(entry, available)).collect::<Vec<_>>()
        };
        let best = "can be fetched, the best that fits";
        let too_large = |needed: &str, free: &str| format!("needs about {needed} of memory, {free} are free");
        assert_eq!(states(None), ["can be fetched"; 3]);
        assert_eq!(states(Some(64_000_000_000)), ["can be fetched", "can be fetched", best]);
        let free = "1.10 GB";
        assert_eq!(states(Some(1_100_000_000)), ["can be fetched", best, &too_large("3.32 GB", free)]);
    }
}
