//! `duan records`

mod filter;
mod list;
mod page;
mod profile;
mod travel;

use std::process::ExitCode;

use anyhow::bail;
use clap::Subcommand;
use duan::records::{self, Record, Records};
use serde_json::json;

use crate::args::Common;
use crate::output::style::on_one_line;
use crate::output::units::counted;
use crate::output::{print, print_json, say, warn};
use filter::FilterArgs;

pub(super) use profile::profile_line;

/// Show, tag, delete and move the records of benchmarks
///
/// Every benchmark is kept with its settings and all its samples, in one file (see `duan records path`). RECORD is a number that
/// `duan records list` shows, a tag that only one record has, `last`, or `last~1` for the one before it. `duan compare` sets two beside
/// each other.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

/// What is done with records.
#[derive(Debug, Subcommand)]
enum Action {
    /// List records, the newest first
    List(FilterArgs),
    /// Show a record with all its settings and samples
    Show(page::Args),
    /// Give tags to a record
    Tag {
        /// The record
        record: String,
        /// Tags, without blanks
        #[arg(required = true)]
        tags: Vec<String>,
    },
    /// Take tags from a record
    Untag {
        /// The record
        record: String,
        /// Tags
        #[arg(required = true)]
        tags: Vec<String>,
    },
    /// Delete records, and say which
    Delete(DeleteArgs),
    /// Write records as JSON or in columns, to stdout or a file
    Export(travel::ExportArgs),
    /// Add records that were exported elsewhere, or results of llama-bench; what is here already is not added again
    Import(travel::ImportArgs),
    /// Print where the records are kept
    Path,
}

/// What is deleted.
#[derive(Debug, clap::Args)]
struct DeleteArgs {
    /// The records
    #[arg(value_name = "RECORD", conflicts_with_all = ["model", "chip", "test", "since", "tag", "backend", "limit"])]
    records: Vec<String>,
    #[command(flatten)]
    filter: FilterArgs,
    /// Delete all that the options name
    #[arg(long)]
    yes: bool,
}

/// Does it.
pub(crate) fn run(args: Args, common: &Common) -> anyhow::Result<ExitCode> {
    match args.action {
        Action::List(filter) => list::run(&filter, common)?,
        Action::Show(args) => page::run(&args, common)?,
        Action::Tag { record, tags } => tag(&record, &tags, common)?,
        Action::Untag { record, tags } => untag(&record, &tags, common)?,
        Action::Delete(args) => delete(&args, common)?,
        Action::Export(args) => travel::export(&args)?,
        Action::Import(args) => travel::import(&args, common)?,
        Action::Path => path(common)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// The records; without any, the one that is asked for is missing.
fn open(record: &str) -> anyhow::Result<Records> {
    let missing = || records::Error::NoRecord { name: record.escape_debug().to_string() };
    // Looked for before anything is made.
    records::open_existing()?.ok_or_else(missing)?;
    Ok(records::open()?)
}

fn tag(name: &str, tags: &[String], common: &Common) -> anyhow::Result<()> {
    let mut records = open(name)?;
    let record = records.find(name)?;
    records.tag(record.id, tags)?;
    tell_tags(&records, record.id, common)
}

fn untag(name: &str, tags: &[String], common: &Common) -> anyhow::Result<()> {
    let mut records = open(name)?;
    let record = records.find(name)?;
    if records.untag(record.id, tags)? == 0 {
        bail!(
            "record {} has no tag {}; see `duan records show {}`",
            record.id,
            on_one_line(&tags.join(", ")),
            record.id
        );
    }
    tell_tags(&records, record.id, common)
}

fn tell_tags(records: &Records, id: i64, common: &Common) -> anyhow::Result<()> {
    let tags = records.get(id)?.map(|record| record.head.tags).unwrap_or_default();
    if common.json {
        print_json(&json!({ "id": id, "tags": tags }))?;
    } else if tags.is_empty() {
        say(&format!("record {id} has no tags"));
    } else {
        say(&format!("record {id} has the tags {}", on_one_line(&tags.join(", "))));
    }
    Ok(())
}

fn delete(args: &DeleteArgs, common: &Common) -> anyhow::Result<()> {
    if args.records.is_empty() && args.filter.is_empty() {
        bail!(
            "nothing says which records to delete; name them by their numbers, or by options such as --tag, with --yes"
        );
    }
    let mut records = match args.records.first() {
        Some(name) => open(name)?,
        None => match records::open_existing()? {
            Some(_) => records::open()?,
            None => return tell_deleted(&[], common),
        },
    };
    let mut found: Vec<Record> = Vec::new();
    if args.records.is_empty() {
        found = records.list(&args.filter.filter()?)?;
        if !args.yes && !found.is_empty() {
            bail!(
                "{} would be deleted; say --yes to delete them, or see them with `duan records list`",
                counted(found.len(), "record")
            );
        }
    }
    for name in &args.records {
        let record = records.find(name)?;
        if found.iter().all(|known| known.id != record.id) {
            found.push(record);
        }
    }
    let ids: Vec<i64> = found.iter().map(|record| record.id).collect();
    if records.delete(&ids)? < ids.len() {
        warn("some of them were deleted by another program meanwhile");
    }
    tell_deleted(&found, common)
}

fn tell_deleted(found: &[Record], common: &Common) -> anyhow::Result<()> {
    if common.json {
        return print_json(&json!({ "deleted": found }));
    }
    for record in found {
        say(&format!("deleted record {}: {}", record.id, list::line(record)));
    }
    if found.is_empty() {
        say("no record is meant, nothing was deleted");
    }
    Ok(())
}

fn path(common: &Common) -> anyhow::Result<()> {
    let path = records::path()?;
    if common.json {
        print_json(&json!({ "path": path, "exists": path.exists() }))?;
    } else {
        print(&format!("{}\n", path.display()))?;
    }
    Ok(())
}
