//! Where the time goes: kinds of ops beside their ceiling, layers, and what no op explains.

use duan_measure::profile::{KindFigures, LayerFigures, OpFigures, PhaseProfile, Profile, RestFigures};
use serde::Serialize;

use super::{Share, width};
use crate::figure::Figure;
use crate::numbers::{bytes, counted, three_digits, whole};
use crate::page::Section;

/// So many single ops are listed, those that took longest.
const TOP_OPS: usize = 12;

#[derive(Serialize)]
struct View {
    phases: Vec<PhaseView>,
}

#[derive(Serialize)]
struct PhaseView {
    name: &'static str,
    summary: String,
    kinds: Vec<Row>,
    ops: Vec<Row>,
    layers: Vec<LayerRow>,
    rest: Vec<RestRow>,
    overhead: String,
    allocations: String,
}

/// Ops, with a bar of their time in which the least time is dark.
#[derive(Serialize)]
struct Row {
    place: String,
    op: String,
    weights: String,
    kernel: String,
    calls: u64,
    time: Option<Figure>,
    part: Option<Figure>,
    bytes: String,
    share: Option<Share>,
    width: f64,
    least_width: f64,
}

#[derive(Serialize)]
struct LayerRow {
    what: String,
    time: Option<Figure>,
    width: f64,
    spread: String,
    share: Option<Share>,
}

#[derive(Serialize)]
struct RestRow {
    what: &'static str,
    time: Option<Figure>,
    part: Option<Figure>,
}

/// A phase's name.
pub(crate) fn phase_name(phase: impl Serialize) -> &'static str {
    // Phases are known by their JSON: their type is the engine's.
    let name = serde_json::to_value(phase).ok();
    match name.as_ref().and_then(|name| name.as_str()) {
        Some("prefill") => "prefill",
        Some("decode") => "decode",
        _ => "phase",
    }
}

/// The section; none where no phase ran.
pub(crate) fn section(profile: &Profile) -> Option<Section> {
    let phases: Vec<PhaseView> = profile.phases.iter().map(phase_view).collect();
    let of = |phase: &PhaseView| {
        let of_row = |row: &Row| [row.time.clone(), row.share.as_ref().map(|share| share.figure.clone())];
        let parts = phase.kinds.iter().map(|row| row.part.clone());
        let rows = phase.kinds.iter().chain(&phase.ops).flat_map(of_row).chain(parts);
        let layers = phase
            .layers
            .iter()
            .flat_map(|row| [row.time.clone(), row.share.as_ref().map(|share| share.figure.clone())]);
        let rest = phase.rest.iter().flat_map(|row| [row.time.clone(), row.part.clone()]);
        rows.chain(layers).chain(rest).flatten().collect::<Vec<_>>()
    };
    let figures = phases.iter().flat_map(of).collect();
    (!phases.is_empty()).then(|| Section::new("profile", "Where the time goes", View { phases }, figures))
}

fn phase_view(phase: &PhaseProfile) -> PhaseView {
    let name = phase_name(phase.phase);
    let longest = phase.kinds.iter().map(|kind| kind.ns).max().unwrap_or(0);
    let kind = |(index, kind): (usize, &KindFigures)| row(&format!("{name}.kind{}", index + 1), phase, kind, longest);
    let mut ops: Vec<&OpFigures> = phase.ops.iter().collect();
    ops.sort_by_key(|op| std::cmp::Reverse(op.what.ns));
    let longest_op = ops.first().map_or(0, |op| op.what.ns);
    let op = |(index, op): (usize, &&OpFigures)| {
        let place = op.layer.map_or_else(|| "outside".to_owned(), |layer| format!("layer {layer}"));
        Row { place, ..row(&format!("{name}.op{}", index + 1), phase, &op.what, longest_op) }
    };
    let longest_layers = phase.layers.iter().map(|layer| layer.ns).max().unwrap_or(0);
    let layer = |(index, layer): (usize, &LayerFigures)| {
        layer_row(&format!("{name}.layers{}", index + 1), layer, longest_layers)
    };
    let rest = |(index, rest): (usize, &RestFigures)| RestRow {
        what: rest.what,
        time: Figure::scaled(format!("{name}.rest{}_ns", index + 1), rest.ns as f64, "ms", 1e6),
        part: part(&format!("{name}.rest{}_part", index + 1), rest.ns, phase.ns),
    };
    let overhead = phase.overhead.map_or_else(String::new, |overhead| {
        let interval = overhead.interval.map_or_else(String::new, |(low, high)| {
            format!(" (90 % interval {:+.1} % to {:+.1} %)", low * 100.0, high * 100.0)
        });
        format!("Rounds with times took {:+.1} %{interval}.", overhead.part * 100.0)
    });
    PhaseView {
        name,
        summary: format!(
            "{} with {}, behind {}.",
            counted(phase.rounds, "round"),
            counted(phase.tokens, "token"),
            counted(phase.n_depth, "token")
        ),
        kinds: phase.kinds.iter().enumerate().map(kind).collect(),
        ops: ops.iter().take(TOP_OPS).enumerate().map(op).collect(),
        layers: phase.layers.iter().enumerate().map(layer).collect(),
        rest: phase.rest.iter().enumerate().map(rest).collect(),
        overhead,
        allocations: phase
            .allocations
            .map_or_else(String::new, |count| format!("Memory was allocated {} times.", whole(count as f64))),
    }
}

fn part(name: &str, ns: u64, of: u64) -> Option<Figure> {
    Figure::share(name, (of > 0).then(|| ns as f64 / of as f64))
}

fn row(name: &str, phase: &PhaseProfile, kind: &KindFigures, longest: u64) -> Row {
    let width = width(kind.ns as f64, longest as f64);
    Row {
        place: String::new(),
        op: kind.op.clone(),
        weights: kind.weights.clone(),
        kernel: if kind.kernel.is_empty() { kind.device.clone() } else { format!("{}: {}", kind.device, kind.kernel) },
        calls: kind.calls,
        time: Figure::scaled(format!("{name}_ns"), kind.ns as f64, "ms", 1e6),
        part: part(&format!("{name}_part"), kind.ns, phase.ns),
        bytes: if kind.bytes == 0 { String::new() } else { bytes(kind.bytes as f64) },
        share: Share::of(format!("{name}_share"), kind.share),
        width,
        least_width: kind.share.filter(|share| share.is_finite()).map_or(0.0, |share| width * share.clamp(0.0, 1.0)),
    }
}

fn layer_row(name: &str, layer: &LayerFigures, longest: u64) -> LayerRow {
    let what = match (layer.layers.as_slice(), &layer.outside) {
        ([], outside) => outside.clone().unwrap_or_default(),
        ([one], _) => format!("layer {one}"),
        ([first, .., last], _) if last - first + 1 == layer.layers.len() => format!("layers {first} to {last}"),
        (some, _) => format!("layers {}", some.iter().map(usize::to_string).collect::<Vec<_>>().join(", ")),
    };
    let ms = |ns: u64| three_digits(ns as f64 / 1e6);
    let spread = match layer.layers.len() {
        0 | 1 => String::new(),
        _ => format!("{} to {} ms each", ms(layer.least_layer_ns), ms(layer.most_layer_ns)),
    };
    LayerRow {
        what,
        time: Figure::scaled(format!("{name}_ns"), layer.ns as f64, "ms", 1e6),
        width: width(layer.ns as f64, longest as f64),
        spread,
        share: Share::of(format!("{name}_share"), layer.share),
    }
}
