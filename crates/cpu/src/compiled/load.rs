//! What is decided and sized once, when a model is loaded.

use duan_backend::{CompileJob, Limits, Result};
use duan_model::Model;
use duan_model::graph::{Node, Op};
use duan_quant::Activation;

use super::weights::DeviceWeights;
use super::{CpuModel, Scratch, Threads};
use crate::activations::Coded;
use crate::error::error;
use crate::isa::Isa;
use crate::kernels;
use crate::kv::Cache;
use crate::ops::attention;
use crate::ops::experts::Assignment;
use crate::ops::rope::Rotations;
use crate::ops::short_conv::States;
use crate::placement::Placement;
use crate::pool::Pool;

impl CpuModel {
    pub(crate) fn new(job: &CompileJob<'_>, isa: Isa, threads: Threads, placement: Placement) -> Result<Self> {
        let model = job.model.clone();
        let limits = job.limits.clone();
        let graph = &model.graph;
        let used: Vec<&Op> =
            graph.nodes.iter().enumerate().filter(|(index, _)| job.runs(*index)).map(|(_, n)| &n.op).collect();
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
        let weights = DeviceWeights::new(&model, &used, job.packing, &mut pool)?;
        let scratch = || Scratch {
            kernel: kernels::Scratch::new(weights.all()),
            attention: attention::Scratch::new(key_dim, value_dim),
        };
        let runs_state =
            |state: usize| used.iter().any(|op| matches!(op, Op::ShortConv { state: own, .. } if *own == state));
        let states = graph.states.iter().enumerate();
        let states =
            states.map(|(index, state)| States::new(state.width, if runs_state(index) { limits.pages } else { 0 }));
        Ok(Self {
            values,
            coded: Coded::new(&coded_shapes(&model, &used, &limits)),
            caches: caches.collect(),
            states: states.collect(),
            conv_kernels: conv_kernels(&model),
            conv_past: vec![0.0; graph.states.iter().map(|state| state.width).max().unwrap_or(0)],
            assignment: assignment(&used, limits.max_rows),
            rotations: ropes.iter().map(|rope| Rotations::new(rope, limits.context, limits.max_rows)).collect(),
            scratch: (0..workers).map(|_| scratch()).collect(),
            weights,
            model,
            isa,
            threads,
            limits,
            pool,
        })
    }
}

/// Rows and columns of everything that is coded for a matrix.
fn coded_shapes(model: &Model, ops: &[&Op], limits: &Limits) -> Vec<(usize, usize)> {
    let rows = limits.max_rows.max(limits.max_wanted_rows);
    let of = |op: &&Op| {
        let (rows, parts) = match op {
            Op::Linear { parts, .. } => (rows, parts),
            Op::ExpertLinear { parts, input_per_choice: true, used, .. } => (rows * used, parts),
            Op::ExpertLinear { parts, .. } => (rows, parts),
            _ => return None,
        };
        let mut matrices = parts.iter().map(|part| model.weights.matrix(part.matrix));
        let coded = matrices.find(|matrix| matrix.format().activation == Activation::Int8);
        coded.map(|matrix| (rows, matrix.columns()))
    };
    ops.iter().filter_map(of).collect()
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
