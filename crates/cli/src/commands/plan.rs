//! `duan plan MODEL`

use std::process::ExitCode;

use clap::builder::PossibleValuesParser;
use duan::{Engine, EngineOptions, OpKind, Phase, PlanSummary};

use crate::args::{Common, EngineArgs};
use crate::open;
use crate::output::style::on_one_line;
use crate::output::{Align, Table, print, print_json};

/// Show which device runs which part of a model, and why
///
/// Each row sums up the segments of a phase that run on one device for one reason; --json lists every segment in order.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Path, short name, hf:org/name[:Q4_K_M], ms:org/name, pypi:package or web address
    model: String,
    /// An experiment: tell the CPU to refuse ops of this kind, so that they fall back; can be given several times
    #[arg(long, value_name = "OP", value_parser = kinds())]
    refuse: Vec<String>,
    /// An experiment: fail, naming the op, where an op would fall back
    #[arg(long)]
    no_fallback: bool,
    #[command(flatten)]
    engine: EngineArgs,
}

fn kinds() -> PossibleValuesParser {
    PossibleValuesParser::new(OpKind::ALL.map(OpKind::name))
}

/// Plans without loading the weights.
pub(crate) fn run(args: Args, common: &Common) -> anyhow::Result<ExitCode> {
    let refuse = OpKind::ALL.into_iter().filter(|kind| args.refuse.iter().any(|name| name == kind.name())).collect();
    let options = EngineOptions { refuse, allow_fallback: !args.no_fallback, ..EngineOptions::default() };
    let engine = Engine::new(open::engine_options(&args.engine, options))?;
    let found = open::fetch(&args.model, common)?;
    let plan = engine.plan_model(&found.file.path)?.summary();
    if common.json {
        print_json(&plan)?;
    } else {
        print(&format!("{}{}", table(&plan).text(), fusions_text(&plan)))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Segments of one phase that have device and reason in common: what people want to know of a plan that goes to and fro
/// in each layer.
struct Row<'a> {
    phase: &'static str,
    device: &'a str,
    reason: &'a str,
    segments: usize,
    ops: usize,
    /// First and last layer; none where no segment touches one.
    layers: Option<(usize, usize)>,
}

fn rows(plan: &PlanSummary) -> Vec<Row<'_>> {
    let mut rows: Vec<Row<'_>> = Vec::new();
    for segment in &plan.segments {
        let phase = match segment.phase {
            Phase::Prefill => "prefill",
            Phase::Decode => "decode",
        };
        let (device, reason) = (segment.device.as_str(), segment.reason.as_str());
        let same = |row: &Row<'_>| row.phase == phase && row.device == device && row.reason == reason;
        let index = rows.iter().position(same).unwrap_or_else(|| {
            rows.push(Row { phase, device, reason, segments: 0, ops: 0, layers: None });
            rows.len() - 1
        });
        let row = &mut rows[index];
        row.segments += 1;
        row.ops += segment.ops;
        row.layers = match (row.layers, layers_of(&segment.layers)) {
            (Some((first, last)), Some((from, to))) => Some((first.min(from), last.max(to))),
            (one, other) => one.or(other),
        };
    }
    rows
}

/// Reads `0-29`, `7`, or nothing.
fn layers_of(text: &str) -> Option<(usize, usize)> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    Some((first.parse().ok()?, last.parse().ok()?))
}

/// A line for each device that runs ops together; a device that could and does not says 0.
fn fusions_text(plan: &PlanSummary) -> String {
    let mut text = String::new();
    for counts in plan.fusions.chunk_by(|one, next| one.device == next.device) {
        let counted: Vec<String> = counts.iter().map(|row| format!("{} {}", row.name, row.count)).collect();
        text += &format!("\nrun together on {}: {}\n", counts[0].device, counted.join(", "));
    }
    text
}

fn table(plan: &PlanSummary) -> Table {
    let mut table = Table::new(&[
        ("PHASE", Align::Left),
        ("DEVICE", Align::Left),
        ("LAYERS", Align::Right),
        ("OPS", Align::Right),
        ("SEGMENTS", Align::Right),
        ("REASON", Align::Left),
    ]);
    for row in rows(plan) {
        let layers = row.layers.map_or("-".to_owned(), |(first, last)| format!("{first}-{last}"));
        table.row([
            row.phase.to_owned(),
            row.device.to_owned(),
            layers,
            row.ops.to_string(),
            row.segments.to_string(),
            on_one_line(row.reason),
        ]);
    }
    table
}
