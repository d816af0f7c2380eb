//! What is said of a model that is not here yet: what the catalogue knows, and nothing is fetched for it.

use std::process::ExitCode;

use duan::facts::{Machine, Verdict};
use duan::hub::{CatalogueEntry, ModelName};
use serde_json::{Value, json};

use super::rows::Group;
use crate::args::Common;
use crate::open;
use crate::output::style::on_one_line;
use crate::output::units::bytes_text;
use crate::output::{Style, print, print_json};

/// Prints the verdict on a model that is not here.
pub(super) fn run(name: &str, common: &Common, machine: &Machine) -> anyhow::Result<ExitCode> {
    let entry = match ModelName::parse(name)? {
        ModelName::Catalogue(entry) => Some(entry),
        _ => None,
    };
    let hub = open::hub(common)?;
    let verdict = match entry {
        Some(entry) => Verdict::before_fetching(entry, hub.cache_dir(), machine),
        None => Verdict::of_nothing(),
    };
    if common.json {
        print_json(&json!({
            "file": null, "verdict": verdict, "name": name, "is_fetched": false, "catalogue": entry.map(entry_json),
        }))?;
    } else {
        print(&page(name, entry, &verdict, machine))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn page(name: &str, entry: Option<&CatalogueEntry>, verdict: &Verdict, machine: &Machine) -> String {
    let style = Style::stdout();
    let mut out = super::verdict::lines(verdict, name, style) + "\n";
    let mut group = Group::new("MODEL");
    group.row("name", on_one_line(name));
    if let Some(entry) = entry {
        group.row("about", entry.summary);
        group.row("licence", entry.licence);
        group.row("download", bytes_text(entry.download_bytes()));
        group.row("memory", format!("about {}, with an ordinary conversation", bytes_text(entry.memory_bytes())));
        group.maybe("free memory", machine.memory_available_bytes.map(bytes_text));
    }
    out += &group.text(style);
    out + &format!("`duan fetch {}` fetches it; then everything is known\n", on_one_line(name))
}

fn entry_json(entry: &CatalogueEntry) -> Value {
    json!({
        "summary": entry.summary,
        "licence": entry.licence,
        "bytes": entry.file_bytes,
        "download_bytes": entry.download_bytes(),
        "memory_bytes": entry.memory_bytes(),
        "chat": entry.is_chat,
    })
}
