//! What is decided and sized once, when a model is loaded.

use std::ops::Range;
use std::sync::Arc;

use duan_backend::{CompileJob, Limits, Result};
use duan_model::Model;
use duan_model::graph::{Graph, Node, Op};
use duan_model::weights::MatrixId;
use duan_quant::Activation;

use super::fused::BLOCK_SUMS;
use super::fusion::{self, Fusion, Input, MatrixFacts, Runs, Step, Then};
use super::weights::DeviceWeights;
use super::{CpuModel, Scratch, Threads};
use crate::activations::Coded;
use crate::error::error;
use crate::kernels;
use crate::kv::Cache;
use crate::ops::attention;
use crate::ops::experts::Assignment;
use crate::ops::rope::Rotations;
use crate::ops::short_conv::States;
use crate::placement::Placement;
use crate::pool::Pool;
use crate::self_test::Picker;

impl CpuModel {
    pub(crate) fn new(
        job: &CompileJob<'_>,
        mut picker: Picker<'_>,
        threads: Threads,
        placement: Placement,
        no_fuse: &[Fusion],
    ) -> Result<Self> {
        let model = job.model.clone();
        let limits = job.limits.clone();
        let graph = &model.graph;
        let used_nodes: Vec<usize> = (0..graph.nodes.len()).filter(|&node| job.runs(node)).collect();
        let used: Vec<&Op> = used_nodes.iter().map(|&node| &graph.nodes[node].op).collect();
        let rows = |wanted_only: bool| if wanted_only { limits.max_wanted_rows } else { limits.max_rows };
        let values = graph.values.iter().map(|value| vec![0.0; rows(value.wanted_rows_only) * value.width]).collect();
        let cache_used =
            |cache: usize| used.iter().any(|op| matches!(op, Op::Attention { cache: own, .. } if *own == cache));
        let caches = graph.caches.iter().enumerate();
        let caches =
            caches.map(|(index, config)| cache_used(index).then(|| Cache::new(config, limits.pages, limits.kv_format)));
        let ropes = &model.config.ropes;
        let key_dim = graph.caches.iter().map(|cache| cache.key_dim).max().unwrap_or(0);
        let value_dim = graph.caches.iter().map(|cache| cache.value_dim).max().unwrap_or(0);
        let workers = placement.workers();
        let mut pool =
            Pool::new(placement).map_err(|cause| error(format!("cannot start {workers} threads: {cause}")))?;
        let weights = DeviceWeights::new(&model, &used, job.packing, &mut pool, &mut picker)?;
        let runs = runs(&model, job.ops, no_fuse);
        let room = RunRoom::of(graph, &runs);
        let scratch = || Scratch {
            kernel: kernels::Scratch::new(weights.all()),
            attention: attention::Scratch::new(key_dim, value_dim),
            sums: room.sums.map(|count| vec![0.0; count]),
            row: vec![0.0; room.row],
        };
        let runs_state =
            |state: usize| used.iter().any(|op| matches!(op, Op::ShortConv { state: own, .. } if *own == state));
        let states = graph.states.iter().enumerate();
        let states =
            states.map(|(index, state)| States::new(state.width, if runs_state(index) { limits.pages } else { 0 }));
        Ok(Self {
            values,
            coded: Coded::new(&coded_shapes(&model, &used_nodes, &limits, |node| !room.products.contains(&node))),
            products: Coded::new(&coded_shapes(&model, &used_nodes, &limits, |node| room.products.contains(&node))),
            runs: Arc::new(runs),
            caches: caches.collect(),
            states: states.collect(),
            conv_kernels: conv_kernels(&model),
            conv_past: vec![0.0; graph.states.iter().map(|state| state.width).max().unwrap_or(0)],
            assignment: assignment(&used, limits.max_rows),
            rotations: ropes.iter().map(|rope| Rotations::new(rope, limits.context, limits.max_rows)).collect(),
            scratch: (0..workers).map(|_| scratch()).collect(),
            weights,
            model,
            isa: picker.isa(),
            warnings: picker.into_warnings(),
            threads,
            limits,
            pool,
            observed: None,
            times: None,
        })
    }
}

/// The ops of a model that run together.
pub(crate) fn runs(model: &Model, ops: &[Range<usize>], no_fuse: &[Fusion]) -> Runs {
    let matrices = model.weights.matrices();
    // The number of an order is that of the first matrix that has it.
    let orders: Vec<Option<u32>> = matrices
        .iter()
        .map(|matrix| {
            let order = matrix.column_order()?;
            let first = matrices.iter().position(|other| other.column_order() == Some(order));
            first.map(|index| index as u32)
        })
        .collect();
    let facts = |id: MatrixId| {
        let matrix = model.weights.matrix(id);
        let coded = matrix.format().activation == Activation::Int8;
        let order = orders[id.0 as usize];
        MatrixFacts { rows: matrix.rows(), columns: matrix.columns(), coded, order }
    };
    fusion::find(&model.graph, ops, &facts, no_fuse)
}

/// What runs need room for.
#[derive(Default)]
struct RunRoom {
    /// Sums of a first and of a second matrix.
    sums: [usize; 2],
    /// Numbers of a row.
    row: usize,
    /// Matrices that read products as codes.
    products: Vec<usize>,
}

impl RunRoom {
    fn of(graph: &Graph, runs: &Runs) -> Self {
        let mut room = Self::default();
        for step in runs.steps() {
            match *step {
                Step::Norm { node, keep: false } => {
                    if let Op::Norm { width, .. } = graph.nodes[node].op {
                        room.row = room.row.max(width);
                    }
                }
                Step::Matrices { node, input, then } => {
                    match then {
                        Then::Nothing => {}
                        Then::Add { .. } => room.sums[0] = BLOCK_SUMS,
                        Then::Gate { .. } => room.sums = [BLOCK_SUMS; 2],
                    }
                    room.products.extend((input == Input::Products).then_some(node));
                }
                Step::Op(_) | Step::Norm { .. } => {}
            }
        }
        room
    }
}

/// Rows and columns of everything that is coded for the matrices of some of the `nodes`.
fn coded_shapes(
    model: &Model,
    nodes: &[usize],
    limits: &Limits,
    counts: impl Fn(usize) -> bool,
) -> Vec<(usize, usize)> {
    let rows = limits.max_rows.max(limits.max_wanted_rows);
    let of = |&node: &usize| {
        let (rows, parts) = match &model.graph.nodes[node].op {
            Op::Linear { parts, .. } => (rows, parts),
            Op::ExpertLinear { parts, input_per_choice: true, used, .. } => (rows * used, parts),
            Op::ExpertLinear { parts, .. } => (rows, parts),
            _ => return None,
        };
        let mut matrices = parts.iter().map(|part| model.weights.matrix(part.matrix));
        let coded = matrices.find(|matrix| matrix.format().activation == Activation::Int8);
        coded.map(|matrix| (rows, matrix.columns()))
    };
    nodes.iter().filter(|&&node| counts(node)).filter_map(of).collect()
}

/// The kernels of each short convolution, channels side by side.
fn conv_kernels(model: &Model) -> Vec<Vec<f32>> {
    let of = |node: &Node| match node.op {
        Op::ShortConv { kernel, taps, width, .. } => {
            let kernel = model.weights.vector(kernel); // [width, taps]
            Some((0..taps * width).map(|at| kernel[at % width * taps + at / width]).collect())
        }
        _ => None,
    };
    model.graph.nodes.iter().filter_map(of).collect()
}

/// Room for the largest mixture of experts.
fn assignment(ops: &[&Op], max_rows: usize) -> Assignment {
    let sizes = ops.iter().filter_map(|op| match op {
        Op::ExpertLinear { experts, used, .. } => Some((*used, *experts)),
        _ => None,
    });
    let (used, experts) = sizes.fold((0, 0), |(used, experts), size| (used.max(size.0), experts.max(size.1)));
    Assignment::new(max_rows * used, experts)
}
