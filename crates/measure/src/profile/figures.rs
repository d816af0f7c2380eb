//! From times to figures.

use std::ops::Range;

use duan_backend::{KvFormat, OpTime};
use duan_engine::{PassTimes, Phase};
use duan_model::Model;
use serde::Serialize;

use super::label;
use super::run::{RoundTimes, StepTimes, Times};
use crate::bench::statistics::median_interval;
use crate::bench::{MultiplyAdds, PassShape, median, op_cache_bytes, op_weights_bytes};
use crate::ceilings::{CeilingsAt, Verdict};

/// What figures are made from besides times.
#[derive(Clone, Copy)]
pub struct Sources<'a> {
    /// The model that ran.
    pub model: &'a Model,
    /// How its keys and values were kept.
    pub kv_format: KvFormat,
    /// What the machine can do at most, where that is known.
    pub ceilings: Option<&'a CeilingsAt>,
    /// What computes an op on a device of this name: see [`duan_engine::Executor::kernels`].
    pub kernels: &'a dyn Fn(&str, usize) -> Vec<String>,
}

/// Where the time went, for each phase that ran.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Profile {
    /// Prefill, then decode.
    pub phases: Vec<PhaseProfile>,
}

/// Where the time of one phase went. Sums are over all rounds that noted times; `ns` of ops and of the rest add up to `ns`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PhaseProfile {
    /// The phase.
    pub phase: Phase,
    /// Rounds that noted times.
    pub rounds: usize,
    /// Tokens of all these rounds.
    pub tokens: usize,
    /// Positions before the first of a round.
    pub n_depth: usize,
    /// Everything, from the first token to the choice of the one behind the last.
    pub ns: u64,
    /// What ops explain of it.
    pub ops_ns: u64,
    /// The least time that all ops need together, where the ceilings are known.
    pub least_ns: Option<f64>,
    /// That over `ns`.
    pub share: Option<f64>,
    /// Each op, or ops that ran together, in the order in which they run.
    pub ops: Vec<OpFigures>,
    /// Ops of the same kinds with the same weights of all layers, those that took longest first.
    pub kinds: Vec<KindFigures>,
    /// Layers with the same ops together; those before the first layer and behind the last by themselves.
    pub layers: Vec<LayerFigures>,
    /// What no op explains.
    pub rest: Vec<RestFigures>,
    /// How often memory was allocated, in all rounds; `None` where that is not counted.
    pub allocations: Option<u64>,
    /// What noting the times cost.
    pub overhead: Option<Overhead>,
}

/// One op, or ops that ran together.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct OpFigures {
    /// The layer; none before the first and behind the last.
    pub layer: Option<usize>,
    /// Index of the first op.
    pub first: usize,
    /// How many ops ran together.
    pub count: usize,
    /// What is the same for other layers.
    #[serde(flatten)]
    pub what: KindFigures,
}

/// Ops of the same kinds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct KindFigures {
    /// The kinds of the ops: `linear+add`.
    pub op: String,
    /// The matrices, without their layer: `ffn_gate, ffn_up`.
    pub weights: String,
    /// The device.
    pub device: String,
    /// What computed it; empty where there is only one way.
    pub kernel: String,
    /// How often it ran.
    pub calls: u64,
    /// How long, together.
    pub ns: u64,
    /// Bytes of weights, keys, values and states that were read for it.
    pub bytes: u64,
    /// Multiply-adds.
    pub multiply_adds: u64,
    /// The least time that it needs, where its ceiling is known.
    pub least_ns: Option<f64>,
    /// That over `ns`.
    pub share: Option<f64>,
    /// What the share means.
    pub verdict: Option<Verdict>,
}

/// Layers that do the same.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LayerFigures {
    /// The layers, ascending; none for what stands outside of them.
    pub layers: Vec<usize>,
    /// What stands outside, by its ops, where there are no layers.
    pub outside: Option<String>,
    /// Ops, or ops that ran together, of one layer.
    pub ops: usize,
    /// How long, all of them together.
    pub ns: u64,
    /// The shortest.
    pub least_layer_ns: u64,
    /// The longest.
    pub most_layer_ns: u64,
    /// Which layer that was.
    pub most_layer: Option<usize>,
    /// What was read, all of them together.
    pub bytes: u64,
    /// The least time that they need together.
    pub least_ns: Option<f64>,
    /// That over `ns`.
    pub share: Option<f64>,
}

/// Time that no op explains.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RestFigures {
    /// What it went to.
    pub what: &'static str,
    /// How long.
    pub ns: u64,
    /// Bytes that were copied.
    pub bytes: Option<u64>,
}

/// How much longer rounds with times took than rounds without: 0.01 is one in a hundred.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Overhead {
    /// The estimate.
    pub part: f64,
    /// The 90 % interval; none of too few rounds.
    pub interval: Option<(f64, f64)>,
}

impl Profile {
    /// The figures of some rounds.
    pub fn of(times: &Times, sources: Sources<'_>) -> Self {
        let phases = [Phase::Prefill, Phase::Decode].into_iter();
        Self { phases: phases.filter_map(|phase| PhaseProfile::of(times, phase, sources)).collect() }
    }
}

/// What is summed up of one place in the graph.
struct Sum {
    ops: Range<usize>,
    device: String,
    calls: u64,
    ns: u64,
    bytes: u64,
    multiply_adds: MultiplyAdds,
}

impl PhaseProfile {
    fn of(times: &Times, phase: Phase, sources: Sources<'_>) -> Option<Self> {
        let steps = || times.noted.iter().flat_map(|round| of_phase(round, phase).map(move |step| (round, step)));
        let n_depth = steps().map(|(_, step)| step.position).next()?;
        let mut sums: Vec<Sum> = Vec::new();
        let mut rest = Rest::default();
        for (round, step) in steps() {
            let passes = &round.passes[step.passes.clone()];
            let mut start = step.position;
            for (index, pass) in passes.iter().enumerate() {
                let wanted = usize::from(index + 1 == passes.len());
                add_pass(&mut sums, pass, PassShape { start, rows: pass.rows, wanted }, sources);
                rest.add_pass(pass);
                start += pass.rows;
            }
            rest.engine_ns += step.fed_ns.saturating_sub(passes.iter().map(|pass| pass.ns).sum());
            rest.choice_ns += step.chosen_ns;
        }
        sums.sort_by_key(|sum| (sum.ops.start, sum.ops.end));
        let ops: Vec<OpFigures> = sums.into_iter().map(|sum| sum.figures(phase, sources)).collect();
        let ns: u64 = steps().map(|(_, step)| step.ns()).sum();
        let least_ns = total_least(ops.iter().map(|op| &op.what));
        let allocations = steps().map(|(_, step)| step.allocations).sum();
        Some(Self {
            phase,
            rounds: times.noted.len(),
            tokens: steps().map(|(_, step)| step.tokens).sum(),
            n_depth,
            ns,
            ops_ns: ops.iter().map(|op| op.what.ns).sum(),
            least_ns,
            share: share(least_ns, ns),
            kinds: kinds(&ops),
            layers: layers(&ops),
            ops,
            rest: rest.figures(),
            allocations,
            overhead: overhead(times, phase),
        })
    }
}

fn of_phase(round: &RoundTimes, phase: Phase) -> impl Iterator<Item = &StepTimes> {
    round.steps.iter().filter(move |step| step.phase == phase)
}

/// Adds what the devices noted of a pass.
fn add_pass(sums: &mut Vec<Sum>, pass: &PassTimes, shape: PassShape, sources: Sources<'_>) {
    // Passes of one kind have the same ops in the same order, so the next is mostly where the last one was found.
    let mut next = 0;
    for segment in &pass.segments {
        for OpTime { ops, ns, .. } in segment.ops.iter().filter(|time| !time.ops.is_empty()) {
            let is_it = |sum: &Sum| sum.ops == *ops && sum.device == segment.device;
            let at = if sums.get(next).is_some_and(is_it) { Some(next) } else { sums.iter().position(is_it) };
            let at = at.unwrap_or_else(|| {
                sums.push(Sum::new(ops.clone(), segment.device.clone()));
                sums.len() - 1
            });
            sums[at].add(*ns, shape, sources);
            next = at + 1;
        }
    }
}

impl Sum {
    fn new(ops: Range<usize>, device: String) -> Self {
        Self { ops, device, calls: 0, ns: 0, bytes: 0, multiply_adds: MultiplyAdds::default() }
    }

    fn add(&mut self, ns: u64, shape: PassShape, Sources { model, kv_format, .. }: Sources<'_>) {
        self.calls += 1;
        self.ns += ns;
        for node in &model.graph.nodes[self.ops.clone()] {
            self.bytes += op_weights_bytes(model, &node.op, shape);
            self.bytes += op_cache_bytes(model, &node.op, kv_format, shape);
            self.multiply_adds.add_op(model, &node.op, shape);
        }
    }

    fn figures(self, phase: Phase, sources: Sources<'_>) -> OpFigures {
        let Sum { ops, device, calls, ns, bytes, multiply_adds } = self;
        let mut kernels: Vec<String> = Vec::new();
        for name in ops.clone().flat_map(|op| (sources.kernels)(&device, op)) {
            if !kernels.contains(&name) {
                kernels.push(name);
            }
        }
        let least_s = sources.ceilings.and_then(|ceilings| match phase {
            Phase::Prefill => ceilings.least_multiplying_s(&multiply_adds),
            Phase::Decode => ceilings.least_reading_s(bytes),
        });
        let least_ns = least_s.filter(|&least_s| least_s > 0.0).map(|least_s| least_s * 1e9);
        let what = KindFigures {
            op: label::kinds(sources.model, &ops),
            weights: label::weights(sources.model, &ops),
            kernel: kernels.join(", "),
            device,
            calls,
            ns,
            bytes,
            multiply_adds: multiply_adds.total(),
            least_ns,
            share: share(least_ns, ns),
            verdict: share(least_ns, ns).map(Verdict::of),
        };
        let layer = sources.model.graph.nodes[ops.start].layer;
        OpFigures { layer, first: ops.start, count: ops.len(), what }
    }
}

/// The least time over the time.
fn share(least_ns: Option<f64>, ns: u64) -> Option<f64> {
    least_ns.filter(|_| ns > 0).map(|least_ns| least_ns / ns as f64)
}

/// The least times of those that have one; `None` where none has.
fn total_least<'a>(figures: impl Iterator<Item = &'a KindFigures>) -> Option<f64> {
    figures.filter_map(|figures| figures.least_ns).reduce(|a, b| a + b)
}

/// Ops of the same name, device and kernel together, those that took longest first.
fn kinds(ops: &[OpFigures]) -> Vec<KindFigures> {
    let mut kinds: Vec<KindFigures> = Vec::new();
    for OpFigures { what, .. } in ops {
        let name =
            |kind: &KindFigures| (kind.op.clone(), kind.weights.clone(), kind.device.clone(), kind.kernel.clone());
        let Some(kind) = kinds.iter_mut().find(|kind| name(kind) == name(what)) else {
            kinds.push(what.clone());
            continue;
        };
        kind.calls += what.calls;
        kind.ns += what.ns;
        kind.bytes += what.bytes;
        kind.multiply_adds += what.multiply_adds;
        kind.least_ns = total_least([&*kind, what].into_iter());
        kind.share = share(kind.least_ns, kind.ns);
        kind.verdict = kind.share.map(Verdict::of);
    }
    kinds.sort_by_key(|kind| std::cmp::Reverse(kind.ns));
    kinds
}

/// Layers with the same ops on the same devices, in the order in which they first come.
fn layers(ops: &[OpFigures]) -> Vec<LayerFigures> {
    let mut folded: Vec<(Vec<[&str; 4]>, LayerFigures)> = Vec::new();
    for own in ops.chunk_by(|a, b| a.layer == b.layer) {
        let signature: Vec<[&str; 4]> = own
            .iter()
            .map(|OpFigures { what, .. }| [&*what.op, &*what.weights, &*what.device, &*what.kernel])
            .collect();
        let layer = own[0].layer;
        let (ns, bytes) = own.iter().fold((0, 0), |(ns, bytes), op| (ns + op.what.ns, bytes + op.what.bytes));
        let least_ns = total_least(own.iter().map(|op| &op.what));
        let same = folded
            .iter_mut()
            .find(|(other, figures)| layer.is_some() && !figures.layers.is_empty() && *other == signature);
        let Some((_, figures)) = same else {
            let kinds: Vec<&str> = own.iter().map(|op| &*op.what.op).collect();
            let figures = LayerFigures {
                layers: layer.into_iter().collect(),
                outside: layer.is_none().then(|| kinds.join(", ")),
                ops: own.len(),
                ns,
                least_layer_ns: ns,
                most_layer_ns: ns,
                most_layer: layer,
                bytes,
                least_ns,
                share: share(least_ns, ns),
            };
            folded.push((signature, figures));
            continue;
        };
        figures.layers.extend(layer);
        figures.ns += ns;
        figures.bytes += bytes;
        figures.least_layer_ns = figures.least_layer_ns.min(ns);
        if ns > figures.most_layer_ns {
            (figures.most_layer_ns, figures.most_layer) = (ns, layer);
        }
        figures.least_ns = [figures.least_ns, least_ns].into_iter().flatten().reduce(|a, b| a + b);
        figures.share = share(figures.least_ns, figures.ns);
    }
    folded.into_iter().map(|(_, figures)| figures).collect()
}

/// What no op explains.
#[derive(Default)]
struct Rest {
    prepared_ns: u64,
    copied_ns: u64,
    copied_bytes: u64,
    calls_ns: u64,
    engine_ns: u64,
    choice_ns: u64,
}

impl Rest {
    fn add_pass(&mut self, pass: &PassTimes) {
        let noted = |is_empty: bool| -> u64 {
            let times = pass.segments.iter().flat_map(|segment| &segment.ops);
            times.filter(|time| time.ops.is_empty() == is_empty).map(|time| time.ns).sum()
        };
        let copied_ns: u64 = pass.copies.iter().map(|copy| copy.ns).sum();
        self.prepared_ns += noted(true);
        self.copied_ns += copied_ns;
        self.copied_bytes += pass.copies.iter().map(|copy| copy.bytes).sum::<u64>();
        self.calls_ns += pass.ns.saturating_sub(noted(true) + noted(false) + copied_ns);
    }

    fn figures(&self) -> Vec<RestFigures> {
        let row = |what, ns| RestFigures { what, ns, bytes: None };
        let mut rows = vec![
            row("making a pass ready", self.prepared_ns),
            RestFigures { bytes: Some(self.copied_bytes), ..row("copies between devices", self.copied_ns) },
            row("calling devices", self.calls_ns),
            row("sessions and ledger", self.engine_ns),
            row("choosing the token", self.choice_ns),
        ];
        rows.retain(|row| row.ns > 0 || row.bytes.is_some_and(|bytes| bytes > 0));
        rows
    }
}

/// A round with times by the one without that is its neighbour. Tokens of one round share what it had, so that rounds are what counts.
fn overhead(times: &Times, phase: Phase) -> Option<Overhead> {
    let ns = |round: &RoundTimes| of_phase(round, phase).map(StepTimes::ns).sum::<u64>() as f64;
    let pairs = times.noted.iter().zip(&times.plain).map(|(noted, plain)| (ns(noted), ns(plain)));
    let ratios: Vec<f64> = pairs.filter(|(_, plain)| *plain > 0.0).map(|(noted, plain)| noted / plain).collect();
    let interval = median_interval(&ratios).map(|interval| (interval.low - 1.0, interval.high - 1.0));
    (!ratios.is_empty()).then(|| Overhead { part: median(&ratios) - 1.0, interval })
}
