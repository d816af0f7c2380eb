//! Which ops run together: found once, at load, from the graph alone.
//!
//! The graph stays what all devices share. [`find`] looks for runs of consecutive ops whose results in between need not be
//! kept, and says for each how the CPU goes through it. What it needs is the ops, the shapes and formats of their matrices, and
//! which values somebody reads later, be it another device. Running together changes no bit: each number goes
//! through the same operations in the same order, only sooner and nearer to where it was made.

use std::fmt;
use std::ops::Range;
use std::str::FromStr;

use duan_backend::Error;
use duan_model::graph::{Graph, LinearPart, Op, ValueId};
use duan_model::weights::MatrixId;

use crate::error::error;

/// Ops that the CPU runs together where the data allows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Fusion {
    /// A norm codes its result for the matrices that read it.
    Norm,
    /// The matrices of one op (queries, keys and values) are shared out among the workers together, not one after the other.
    Qkv,
    /// Whoever computes a part of gate and up applies the activation, and codes the product for the next matrix.
    GateUp,
    /// Whoever computes a part of a result that joins the residual stream adds it.
    Residual,
}

impl Fusion {
    /// All fusions.
    pub const ALL: [Fusion; 4] = [Self::Norm, Self::Qkv, Self::GateUp, Self::Residual];

    /// The name as people type it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Norm => "norm",
            Self::Qkv => "qkv",
            Self::GateUp => "gate-up",
            Self::Residual => "residual",
        }
    }
}

impl fmt::Display for Fusion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Fusion {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        Self::ALL.into_iter().find(|fusion| fusion.name() == name).ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            error(format!("fusion: expected one of {names}, found \"{}\"", name.escape_debug()))
        })
    }
}

/// What is to be known of a matrix.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MatrixFacts {
    /// Output width, of all parts where it has several.
    pub(crate) rows: usize,
    /// Input width.
    pub(crate) columns: usize,
    /// Whether its kernel reads activations as codes.
    pub(crate) coded: bool,
    /// The same number for all that read their input in the same order; `None` for the input's own. Codes that are left for a
    /// matrix are in that.
    pub(crate) order: Option<u32>,
}

/// Consecutive ops that run together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Run {
    /// Their indices into the graph's nodes.
    pub(crate) nodes: Range<usize>,
    /// How the CPU goes through them.
    pub(crate) steps: Vec<Step>,
}

/// What is done in one go. Numbers of ops are indices into the graph's nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Step {
    /// An op as it is.
    Op(usize),
    /// A norm that codes its result; the floats are kept where somebody reads them.
    Norm { node: usize, keep: bool },
    /// A `Linear` or `ExpertLinear`: where its activations come from, and what is done with its results.
    Matrices { node: usize, input: Input, then: Then },
}

impl Step {
    /// The ops that are done in it.
    pub(crate) fn nodes(&self) -> Range<usize> {
        match *self {
            Self::Op(node) | Self::Norm { node, .. } | Self::Matrices { node, then: Then::Nothing, .. } => {
                node..node + 1
            }
            Self::Matrices { node, then: Then::Gate { node: last, .. } | Then::Add { node: last }, .. } => {
                node..last + 1
            }
        }
    }
}

/// Where the activations of matrices come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Input {
    /// From their value, to be coded where the matrices ask for codes.
    Value,
    /// A norm of this run left their codes.
    Normed,
    /// A [`Then::Gate`] of this run left their codes.
    Products,
}

/// What is done with results while they are in the cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Then {
    /// They are stored.
    Nothing,
    /// The `GatedAct` at `node`; its products are coded, kept as floats, or both.
    Gate { node: usize, code: bool, keep: bool },
    /// The `Add` at `node`.
    Add { node: usize },
}

/// The runs of a graph, ready to be looked up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Runs {
    runs: Vec<Run>,
    /// For each node the run that begins there.
    begins: Vec<Option<u32>>,
    /// Whether the matrices of one op are shared out together.
    pub(crate) together: bool,
    counts: [usize; Fusion::ALL.len()],
}

impl Runs {
    /// The run that begins at `node` and ends before `end`.
    pub(crate) fn at(&self, node: usize, end: usize) -> Option<&Run> {
        self.begins[node].map(|run| &self.runs[run as usize]).filter(|run| run.nodes.end <= end)
    }

    /// Every step of every run.
    pub(crate) fn steps(&self) -> impl Iterator<Item = &Step> {
        self.runs.iter().flat_map(|run| &run.steps)
    }

    /// How often each fusion applies.
    pub(crate) fn counts(&self) -> impl Iterator<Item = (Fusion, usize)> {
        Fusion::ALL.into_iter().zip(self.counts)
    }
}

/// Finds the runs within `ops`, the ranges that a device runs, without the fusions `off`.
pub(crate) fn find(
    graph: &Graph,
    ops: &[Range<usize>],
    facts: &dyn Fn(MatrixId) -> MatrixFacts,
    off: &[Fusion],
) -> Runs {
    let mut runs: Vec<Run> = Vec::new();
    let mut begins = vec![None; graph.nodes.len()];
    let on = |fusion| !off.contains(&fusion);
    for range in ops {
        let finder = Finder { graph, facts, end: range.end, off };
        let mut node = range.start;
        while node < range.end {
            let Some(run) = finder.run_at(node) else {
                node += 1;
                continue;
            };
            begins[node] = Some(runs.len() as u32);
            node = run.nodes.end;
            runs.push(run);
        }
    }
    let together = on(Fusion::Qkv);
    let counts = Fusion::ALL.map(|fusion| count(graph, ops, &runs, fusion, on(fusion)));
    Runs { runs, begins, together, counts }
}

/// How often a fusion applies; one that several matrices of one op come under counts once.
fn count(graph: &Graph, ops: &[Range<usize>], runs: &[Run], fusion: Fusion, on: bool) -> usize {
    let steps = || runs.iter().flat_map(|run| &run.steps);
    let gated = |at: usize| {
        steps().any(|step| matches!(step, Step::Matrices { node, then: Then::Gate { .. }, .. } if *node == at))
    };
    match fusion {
        Fusion::Norm => steps().filter(|step| matches!(step, Step::Norm { .. })).count(),
        Fusion::GateUp => steps().filter(|step| matches!(step, Step::Matrices { then: Then::Gate { .. }, .. })).count(),
        Fusion::Residual => {
            steps().filter(|step| matches!(step, Step::Matrices { then: Then::Add { .. }, .. })).count()
        }
        Fusion::Qkv if !on => 0,
        Fusion::Qkv => {
            let several = |at: &usize| matches!(&graph.nodes[*at].op, Op::Linear { parts, .. } if parts.len() > 1);
            ops.iter().cloned().flatten().filter(several).filter(|&at| !gated(at)).count()
        }
    }
}

/// Looks for runs that end before `end`.
struct Finder<'a> {
    graph: &'a Graph,
    facts: &'a dyn Fn(MatrixId) -> MatrixFacts,
    end: usize,
    off: &'a [Fusion],
}

impl Finder<'_> {
    fn on(&self, fusion: Fusion) -> bool {
        !self.off.contains(&fusion)
    }

    /// The op at `node`, if it may be in a run.
    fn op(&self, node: usize) -> Option<&Op> {
        (node < self.end).then(|| &self.graph.nodes[node].op)
    }

    /// The run that begins at `first`: a norm with the matrices that read it, then matrices as long as one reads the products
    /// of the one before.
    fn run_at(&self, first: usize) -> Option<Run> {
        let (mut steps, mut input) = (Vec::new(), Input::Value);
        let mut node = first;
        if let Some((norm, readers)) = self.norm_at(first) {
            steps.push(norm);
            input = Input::Normed;
            // Whatever stands before the last reader runs as it is, but for matrices, which find the codes.
            for between in first + 1..readers.end - 1 {
                steps.push(match self.op(between)? {
                    Op::Linear { .. } => Step::Matrices { node: between, input, then: Then::Nothing },
                    _ => Step::Op(between),
                });
            }
            node = readers.end - 1;
        }
        while let Some(Op::Linear { parts, .. } | Op::ExpertLinear { parts, .. }) = self.op(node) {
            // Products that are read as codes lie where the next ones would go.
            let gate = if input == Input::Products { None } else { self.gate_at(node, parts) };
            let then = gate.or_else(|| self.add_at(node, parts)).unwrap_or(Then::Nothing);
            steps.push(Step::Matrices { node, input, then });
            node += if then == Then::Nothing { 1 } else { 2 };
            if !matches!(then, Then::Gate { code: true, .. }) {
                break;
            }
            input = Input::Products;
        }
        let trivial = [Step::Matrices { node: first, input: Input::Value, then: Then::Nothing }];
        (node > first && steps != trivial).then_some(Run { nodes: first..node, steps })
    }

    /// A norm whose result is read as codes, and the nodes up to the last that finds those codes: a `Linear`, or the
    /// `Linear` that scores experts, the choice among them and their matrices.
    fn norm_at(&self, node: usize) -> Option<(Step, Range<usize>)> {
        let Op::Norm { width, output, .. } = *self.op(node)? else { return None };
        let Some(Op::Linear { input, parts }) = self.op(node + 1) else { return None };
        if !self.on(Fusion::Norm) || *input != output {
            return None;
        }
        let mut readers = node + 1..node + 2;
        let mut all: Vec<&LinearPart> = parts.iter().collect();
        if let (Some(Op::Route { .. }), Some(Op::ExpertLinear { input, input_per_choice: false, parts, .. })) =
            (self.op(node + 2), self.op(node + 3))
            && *input == output
        {
            all.extend(parts);
            readers.end = node + 4;
        }
        let facts = |part: &&LinearPart| (self.facts)(part.matrix);
        let written = self.graph.nodes[readers.clone()].iter().any(|node| node.op.writes().contains(&output));
        let is_sorted = all.iter().any(|part| facts(part).order.is_some());
        if written
            || is_sorted
            || !all.iter().any(|part| facts(part).coded)
            || all.iter().any(|part| facts(part).columns != width)
        {
            return None;
        }
        let keep = all.iter().any(|part| !facts(part).coded) || self.is_read_after(output, readers.end - 1);
        Some((Step::Norm { node, keep }, readers))
    }

    /// The activation behind the matrices at `node`, when these are its gate and its up and nobody else reads either.
    fn gate_at(&self, node: usize, parts: &[LinearPart]) -> Option<Then> {
        let Op::GatedAct { gate, up, width, output, .. } = *self.op(node + 1)? else { return None };
        // What runs them together reads the row of whoever chose the expert.
        if matches!(self.graph.nodes[node].op, Op::ExpertLinear { input_per_choice: true, .. }) {
            return None;
        }
        let [first, second] = parts else { return None };
        let inner = self.rows_of_one(node, first);
        let fits = inner == self.rows_of_one(node, second) && inner * self.choices(node) == width;
        let are_both = gate != up && [[gate, up], [up, gate]].contains(&[first.output, second.output]);
        let are_both = are_both && (self.facts)(first.matrix).order == (self.facts)(second.matrix).order;
        let input = self.graph.nodes[node].op.reads();
        let is_left = |value: ValueId| value != output && self.is_read_after(value, node + 1);
        if !self.on(Fusion::GateUp) || !fits || !are_both || input.contains(&output) || is_left(gate) || is_left(up) {
            return None;
        }
        let (code, keep) = self.products(node, output, inner);
        Some(Then::Gate { node: node + 1, code, keep })
    }

    /// Output width of a matrix of the op at `node`, of one expert where it has several.
    fn rows_of_one(&self, node: usize, part: &LinearPart) -> usize {
        let rows = (self.facts)(part.matrix).rows;
        if let Op::ExpertLinear { experts, .. } = self.graph.nodes[node].op { rows / experts } else { rows }
    }

    /// How many results the op at `node` has for a row: one, or that of each expert that the row chose.
    fn choices(&self, node: usize) -> usize {
        if let Op::ExpertLinear { used, .. } = self.graph.nodes[node].op { used } else { 1 }
    }

    /// Whether products in `output`, `inner` numbers each, of the activation after `node` are to be coded, and whether their
    /// floats are to be kept.
    fn products(&self, node: usize, output: ValueId, inner: usize) -> (bool, bool) {
        let experts = matches!(self.graph.nodes[node].op, Op::ExpertLinear { .. });
        let parts = match self.op(node + 2) {
            Some(Op::Linear { input, parts }) if *input == output && !experts => parts,
            Some(Op::ExpertLinear { input, input_per_choice: true, parts, .. }) if *input == output && experts => parts,
            _ => return (false, true),
        };
        let coded = |part: &LinearPart| (self.facts)(part.matrix).coded;
        let fits = |part: &LinearPart| {
            let facts = (self.facts)(part.matrix);
            facts.columns == inner && facts.order.is_none()
        };
        let writes = self.graph.nodes[node + 2].op.writes().contains(&output);
        if !parts.iter().any(coded) || !parts.iter().all(fits) || writes {
            return (false, true);
        }
        (true, !parts.iter().all(coded) || self.is_read_after(output, node + 2))
    }

    /// The sum behind the matrix at `node`, when nobody else reads the matrix's result.
    fn add_at(&self, node: usize, parts: &[LinearPart]) -> Option<Then> {
        let Op::Linear { input, .. } = self.graph.nodes[node].op else { return None };
        let Op::Add { width, target, addend, .. } = *self.op(node + 1)? else { return None };
        let [part] = parts else { return None };
        let rows_only = |value: ValueId| self.graph.values[value.0 as usize].wanted_rows_only;
        let fits = part.output == addend && (self.facts)(part.matrix).rows == width;
        let apart = target != addend && target != input && rows_only(target) == rows_only(addend);
        let fuses = self.on(Fusion::Residual) && fits && apart && !self.is_read_after(addend, node + 1);
        fuses.then_some(Then::Add { node: node + 1 })
    }

    /// Whether anybody, on whatever device, reads what `value` holds after `node`.
    fn is_read_after(&self, value: ValueId, node: usize) -> bool {
        for later in &self.graph.nodes[node + 1..] {
            if later.op.reads().contains(&value) {
                return true;
            }
            if later.op.writes().contains(&value) {
                return false;
            }
        }
        value == self.graph.logits
    }
}

#[cfg(test)]
#[path = "fusion_tests.rs"]
mod tests;
