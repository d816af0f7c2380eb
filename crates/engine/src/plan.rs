//! Which device runs which op, for prefill and for decode, and why.
//!
//! [`make_plan`] is a pure function of the graph and of what each device refuses: it can be printed, tested on invented
//! devices and compared with what then happened. Devices come in the order of preference; the device of last resort is
//! asked only for ops that all others refuse. No rates are measured yet, so no cost is forecast.

use std::ops::Range;

use duan_backend::{Backend, Refusal};
use duan_model::Model;
use duan_model::graph::{Graph, Node, OpKind};
use serde::Serialize;

use crate::error::{Error, Result};

/// The two phases of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Many tokens in one pass: the prompt.
    Prefill,
    /// One token per pass: the answer.
    Decode,
}

/// What a device says about a graph.
#[derive(Debug, Clone)]
pub struct Offer {
    /// The device's name.
    pub device: String,
    /// The ops that it cannot run.
    pub refusals: Vec<Refusal>,
    /// Whether it is slow and only there so that every model runs.
    pub last_resort: bool,
}

/// Consecutive ops on one device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Segment {
    /// Range of the graph's nodes.
    pub ops: Range<usize>,
    /// Index into [`Plan::devices`].
    pub device: usize,
    /// Why this device.
    pub reason: String,
    /// Whether another device was preferred and refused.
    pub fallback: bool,
}

/// The device of each op, for both phases.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// The devices, in the order of the offers.
    pub devices: Vec<String>,
    /// Segments of a pass over a prompt; they cover the graph in order.
    pub prefill: Vec<Segment>,
    /// Segments of a pass of one token. Attentions and short convolutions are on the same device in both phases, as their keys, values and states are.
    pub decode: Vec<Segment>,
    /// For people: what devices run together.
    pub fusions: Vec<FusionCount>,
    /// For people: layer and kind of each node, so that a plan can be shown without its graph.
    nodes: Vec<(Option<usize>, OpKind)>,
}

/// How often a device runs ops together in one of its ways.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FusionCount {
    /// The device's name.
    pub device: String,
    /// What the device calls it.
    pub name: &'static str,
    /// How often in one pass.
    pub count: usize,
}

/// One row of a plan's table, and of its JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SegmentSummary {
    /// The phase.
    pub phase: Phase,
    /// First and last layer as `0-29` or `7`; empty where the segment touches none.
    pub layers: String,
    /// How many ops.
    pub ops: usize,
    /// Their kinds, each once, in the order in which they first come.
    pub kinds: Vec<&'static str>,
    /// The device's name.
    pub device: String,
    /// Why this device.
    pub reason: String,
    /// Whether another device was preferred and refused.
    pub fallback: bool,
    /// Forecast cost of one pass; `None` while no rates are measured.
    pub cost_ns: Option<u64>,
}

/// A plan as data: `segments[{phase, layers, ops, kinds, device, reason, fallback, cost_ns}]` and
/// `fusions[{device, name, count}]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PlanSummary {
    /// First those of prefill, then those of decode.
    pub segments: Vec<SegmentSummary>,
    /// What devices run together.
    pub fusions: Vec<FusionCount>,
}

/// Gives every op the first device that does not refuse it.
///
/// # Errors
/// [`Error::NoDevice`] when all refuse an op, and [`Error::FallbackForbidden`] when only the device of last resort
/// or another than the first runs it and `allow_fallback` is false.
pub fn make_plan(graph: &Graph, offers: &[Offer], allow_fallback: bool) -> Result<Plan> {
    let mut segments: Vec<Segment> = Vec::new();
    for (op, node) in graph.nodes.iter().enumerate() {
        let device = first_that_runs(op, node, offers)?;
        let fallback = device > 0;
        if fallback && !allow_fallback {
            let reason = refusal_text(op, &offers[..device]);
            let (kind, place) = (node.op.kind().name(), place(node));
            return Err(Error::FallbackForbidden { op, kind, place, device: offers[device].device.clone(), reason });
        }
        match segments.last_mut() {
            Some(last) if last.device == device => last.ops.end = op + 1,
            _ => segments.push(Segment { ops: op..op + 1, device, reason: String::new(), fallback }),
        }
    }
    for segment in &mut segments {
        segment.reason = reason(graph, segment, offers);
    }
    Ok(Plan {
        devices: offers.iter().map(|offer| offer.device.clone()).collect(),
        prefill: segments.clone(),
        decode: segments,
        fusions: Vec::new(),
        nodes: graph.nodes.iter().map(|node| (node.layer, node.op.kind())).collect(),
    })
}

fn refusal(op: usize, offer: &Offer) -> Option<&Refusal> {
    offer.refusals.iter().find(|refusal| refusal.op == op)
}

fn first_that_runs(op: usize, node: &Node, offers: &[Offer]) -> Result<usize> {
    let runs = |last_resort: bool| {
        let fits = |offer: &Offer| offer.last_resort == last_resort && refusal(op, offer).is_none();
        offers.iter().position(fits)
    };
    runs(false).or_else(|| runs(true)).ok_or_else(|| {
        let reasons = if offers.is_empty() { "there is no device".to_owned() } else { refusal_text(op, offers) };
        Error::NoDevice { op, kind: node.op.kind().name(), place: place(node), reasons }
    })
}

/// `cpu: no kernel for it; gpu: too wide`, of the offers that refuse the op.
fn refusal_text(op: usize, offers: &[Offer]) -> String {
    let texts = offers.iter().filter_map(|offer| Some(format!("{}: {}", offer.device, refusal(op, offer)?.reason)));
    texts.collect::<Vec<_>>().join("; ")
}

fn place(node: &Node) -> String {
    node.layer.map_or_else(|| "outside of the layers".to_owned(), |layer| format!("layer {layer}"))
}

fn reason(graph: &Graph, segment: &Segment, offers: &[Offer]) -> String {
    if !segment.fallback {
        return "first choice".to_owned();
    }
    let mut reasons: Vec<String> = Vec::new();
    for op in segment.ops.clone() {
        for offer in &offers[..segment.device] {
            let Some(refusal) = refusal(op, offer) else { continue };
            let text = format!("{} refuses {}: {}", offer.device, graph.nodes[op].op.kind(), refusal.reason);
            if !reasons.contains(&text) {
                reasons.push(text);
            }
        }
    }
    reasons.join("; ")
}

impl Plan {
    /// The segments of a phase.
    pub fn segments(&self, phase: Phase) -> &[Segment] {
        match phase {
            Phase::Prefill => &self.prefill,
            Phase::Decode => &self.decode,
        }
    }

    /// The ops of one device in either phase, as ascending ranges: what it must compile.
    pub fn ops_of(&self, device: usize) -> Vec<Range<usize>> {
        let mut ranges: Vec<Range<usize>> = Vec::new();
        for op in 0..self.nodes.len() {
            let mut segments = self.prefill.iter().chain(&self.decode);
            if !segments.any(|segment| segment.device == device && segment.ops.contains(&op)) {
                continue;
            }
            match ranges.last_mut() {
                Some(last) if last.end == op => last.end = op + 1,
                _ => ranges.push(op..op + 1),
            }
        }
        ranges
    }

    /// The plan with what each of its devices says of ops that it runs together; `backends` are in the order of
    /// [`Plan::devices`].
    #[must_use]
    pub fn with_fusions(mut self, model: &Model, backends: &[&dyn Backend]) -> Self {
        for (index, backend) in backends.iter().enumerate() {
            let device = &self.devices[index];
            let counts = backend.fusions(model, &self.ops_of(index)).into_iter();
            let counts = counts.map(|(name, count)| FusionCount { device: device.clone(), name, count });
            self.fusions.extend(counts.collect::<Vec<_>>());
        }
        self
    }

    /// Whether anything runs on another device than the preferred one.
    pub fn has_fallback(&self) -> bool {
        self.prefill.iter().chain(&self.decode).any(|segment| segment.fallback)
    }

    /// The rows of what runs on another device than the preferred one.
    pub fn fallbacks(&self) -> Vec<SegmentSummary> {
        self.summary().segments.into_iter().filter(|segment| segment.fallback).collect()
    }

    /// The plan as data.
    pub fn summary(&self) -> PlanSummary {
        let rows = |phase| self.segments(phase).iter().map(move |segment| self.summarize(phase, segment));
        let segments = rows(Phase::Prefill).chain(rows(Phase::Decode)).collect();
        PlanSummary { segments, fusions: self.fusions.clone() }
    }

    fn summarize(&self, phase: Phase, segment: &Segment) -> SegmentSummary {
        let nodes = &self.nodes[segment.ops.clone()];
        let layers: Vec<usize> = nodes.iter().filter_map(|(layer, _)| *layer).collect();
        let layers = match (layers.first(), layers.last()) {
            (Some(first), Some(last)) if first == last => first.to_string(),
            (Some(first), Some(last)) => format!("{first}-{last}"),
            _ => String::new(),
        };
        let mut kinds = Vec::new();
        for (_, kind) in nodes {
            if !kinds.contains(&kind.name()) {
                kinds.push(kind.name());
            }
        }
        SegmentSummary {
            phase,
            layers,
            ops: nodes.len(),
            kinds,
            device: self.devices[segment.device].clone(),
            reason: segment.reason.clone(),
            fallback: segment.fallback,
            cost_ns: None,
        }
    }
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
