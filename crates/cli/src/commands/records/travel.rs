//! `duan records export` and `duan records import`

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::ValueEnum;
use duan::records::{self, Exported, ImportReport};
use serde_json::json;

use super::filter::FilterArgs;
use crate::args::Common;
use crate::output::style::on_one_line;
use crate::output::units::counted;
use crate::output::{json_for_terminal, print, print_json, say};

/// What is exported, and how.
#[derive(Debug, clap::Args)]
pub(crate) struct ExportArgs {
    /// The records [default: all that the options name]
    #[arg(value_name = "RECORD", conflicts_with_all = ["model", "chip", "test", "since", "tag", "backend", "limit"])]
    records: Vec<String>,
    /// How they are written
    #[arg(long, value_name = "FORMAT", default_value = "json", ignore_case = true)]
    format: Form,
    /// Write to this file instead of stdout
    #[arg(short = 'o', long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Replace the file where it is there
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    filter: FilterArgs,
}

/// How records are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Form {
    /// All of them, to be imported elsewhere
    Json,
    /// A line for each figure with all its settings
    Csv,
    /// The columns of `llama-bench -o csv`
    LlamaBench,
}

/// Which files are imported.
#[derive(Debug, clap::Args)]
pub(crate) struct ImportArgs {
    /// Files of `duan records export` or `llama-bench -o json` (or jsonl); - reads stdin
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
}

/// Writes records. Without any, the file has none.
pub(super) fn export(args: &ExportArgs) -> anyhow::Result<()> {
    let exported = chosen(args)?;
    let text = match args.format {
        Form::Json => json_for_terminal(records::json(&exported)),
        Form::Csv => records::csv(&exported),
        Form::LlamaBench => records::llama_bench(&exported),
    };
    let Some(path) = &args.output else { return Ok(print(&text)?) };
    records::write(path, &text, args.force)?;
    let count = counted(exported.len(), "record");
    say(&format!("wrote {count} to {}", on_one_line(&path.display().to_string())));
    Ok(())
}

fn chosen(args: &ExportArgs) -> anyhow::Result<Vec<Exported>> {
    let filter = args.filter.filter()?;
    let Some(records) = records::open_existing()? else {
        return match args.records.first() {
            Some(name) => Err(records::Error::NoRecord { name: name.escape_debug().to_string() }.into()),
            None => Ok(Vec::new()),
        };
    };
    if args.records.is_empty() {
        return Ok(records.export(&filter)?);
    }
    let found = args.records.iter().map(|name| records.exported(records.find(name)?));
    Ok(found.collect::<Result<_, _>>()?)
}

/// Adds what files hold. Each is read whole before anything of it is added.
pub(super) fn import(args: &ImportArgs, common: &Common) -> anyhow::Result<()> {
    let mut all = ImportReport::default();
    for file in &args.files {
        let report = import_one(file)?;
        all.added.extend(report.added);
        all.known += report.known;
    }
    if common.json {
        return print_json(&json!({ "added": all.added, "known": all.known }));
    }
    let added = match all.added[..] {
        [] => "nothing new".to_owned(),
        [one] => format!("added record {one}"),
        [first, .., last] => format!("added {}, {first} to {last}", counted(all.added.len(), "record")),
    };
    let known = match all.known {
        0 => String::new(),
        known => format!("; {} here already", if known == 1 { "1 was".to_owned() } else { format!("{known} were") }),
    };
    say(&format!("{added}{known}"));
    Ok(())
}

fn import_one(file: &Path) -> anyhow::Result<ImportReport> {
    let found = records::read_file(file)?;
    let mut records = records::open()?;
    let report = records.import(&found);
    report.with_context(|| on_one_line(&file.display().to_string()))
}
