//! A model on the CPU: buffers sized at load, one `match` over the ops.

use std::ops::Range;

use duan_backend::{CompileJob, Compiled, Limits, MemoryUse, PAGE_TOKENS, PageId, Pass, Result};
use duan_model::Model;
use duan_model::config::{ActivationFunction, Temperature};
use duan_model::graph::{LinearPart, Node, Op, ValueId};
use duan_model::weights::{Matrix, MatrixId};
use duan_quant::Activation;
use half::f16;
use half::slice::HalfBitsSliceExt;

use crate::activations::{CodeRow, Coded};
use crate::error::{NAME, error};
use crate::isa::Isa;
use crate::kernels::{self, Job, Places, Run};
use crate::kv::{Cache, Numbers};
use crate::ops::attention::{self, Shape};
use crate::ops::elementwise::{Add, GatedAct, Scale, Softcap};
use crate::ops::experts::{Assignment, Mix, route};
use crate::ops::norm::Norm;
use crate::ops::pass_attention::PassAttention;
use crate::ops::rope::Rotations;
use crate::ops::short_conv::{ShortConv, States};
use crate::pool::Pool;
use crate::shared::SharedSlice;

/// The most matrices that one [`Op::Linear`] may have.
const MAX_PARTS: usize = 4;
/// Numbers below which an elementwise op is not worth waking anybody for.
const SMALL: usize = 1 << 14;
/// Rows of a matrix in one piece of work while many tokens are computed.
const PREFILL_ROWS: usize = 32;
/// Pieces of work per worker while one token is computed.
const DECODE_PIECES: usize = 8;

/// How many workers each phase uses.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Threads {
    pub(crate) prefill: usize,
    pub(crate) decode: usize,
}

/// What one worker needs.
pub(crate) struct Scratch {
    pub(crate) kernel: kernels::Scratch,
    pub(crate) attention: attention::Scratch,
}

/// A model ready to run.
pub(crate) struct CpuModel {
    model: Model,
    isa: Isa,
    threads: Threads,
    limits: Limits,
    pool: Pool,
    /// The kernel of each matrix.
    kernels: Vec<Run>,
    values: Vec<Vec<f32>>,
    coded: Coded,
    caches: Vec<Option<Cache>>,
    states: Vec<States>,
    /// The kernels of each short convolution [taps, width], and room for the state before a span.
    conv_kernels: Vec<Vec<f32>>,
    conv_past: Vec<f32>,
    /// Of each matrix that holds experts, the experts one by one.
    experts: Vec<Vec<Matrix>>,
    assignment: Assignment,
    rotations: Vec<Rotations>,
    scratch: Vec<Scratch>,
    weights_bytes: u64,
}

impl CpuModel {
    pub(crate) fn new(job: &CompileJob<'_>, isa: Isa, threads: Threads) -> Result<Self> {
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
        let (matrices, ropes) = (model.weights.matrices(), &model.config.ropes);
        let widest = matrices.iter().map(|matrix| matrix.columns()).max().unwrap_or(0);
        let key_dim = graph.caches.iter().map(|cache| cache.key_dim).max().unwrap_or(0);
        let value_dim = graph.caches.iter().map(|cache| cache.value_dim).max().unwrap_or(0);
        let workers = threads.prefill.max(threads.decode);
        let scratch = || Scratch {
            kernel: kernels::Scratch::new(widest),
            attention: attention::Scratch::new(key_dim, value_dim),
        };
        let pool = Pool::new(workers).map_err(|cause| error(format!("cannot start {workers} threads: {cause}")))?;
        let mut used_matrices: Vec<MatrixId> = used.iter().flat_map(|op| matrices_of(op)).collect();
        used_matrices.sort_by_key(|id| id.0);
        used_matrices.dedup();
        let runs_state =
            |state: usize| used.iter().any(|op| matches!(op, Op::ShortConv { state: own, .. } if *own == state));
        let states = graph.states.iter().enumerate();
        let states =
            states.map(|(index, state)| States::new(state.width, if runs_state(index) { limits.pages } else { 0 }));
        Ok(Self {
            kernels: matrices.iter().map(|matrix| kernels::pick(matrix.format())).collect(),
            values,
            coded: Coded::new(&coded_shapes(&model, &used, &limits)),
            caches: caches.collect(),
            states: states.collect(),
            conv_kernels: conv_kernels(&model),
            conv_past: vec![0.0; graph.states.iter().map(|state| state.width).max().unwrap_or(0)],
            experts: split_experts(&model),
            assignment: assignment(&used, limits.max_rows),
            rotations: ropes.iter().map(|rope| Rotations::new(rope, limits.context, limits.max_rows)).collect(),
            scratch: (0..workers).map(|_| scratch()).collect(),
            weights_bytes: used_matrices.iter().map(|&id| model.weights.matrix(id).bytes().len() as u64).sum(),
            model,
            isa,
            threads,
            limits,
            pool,
        })
    }
}

/// The matrices that an op reads.
fn matrices_of(op: &Op) -> Vec<MatrixId> {
    match op {
        Op::Embed { table, .. } => vec![*table],
        Op::Linear { parts, .. } | Op::ExpertLinear { parts, .. } => parts.iter().map(|part| part.matrix).collect(),
        _ => Vec::new(),
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

/// Of each matrix that holds experts, the experts one by one; nothing of the others.
fn split_experts(model: &Model) -> Vec<Vec<Matrix>> {
    let mut split = vec![Vec::new(); model.weights.matrices().len()];
    for node in &model.graph.nodes {
        let Op::ExpertLinear { experts, parts, .. } = &node.op else { continue };
        for part in parts {
            let matrix = model.weights.matrix(part.matrix);
            let rows = matrix.rows() / experts;
            let parts = (0..*experts).map(|expert| matrix.part(expert * rows..(expert + 1) * rows));
            split[part.matrix.0 as usize] = parts.collect();
        }
    }
    split
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

impl Compiled for CpuModel {
    fn submit(&mut self, pass: &Pass<'_>, ops: Range<usize>) -> Result<()> {
        pass.check(NAME, &self.limits, self.model.config.vocab_size)?;
        let graph = self.model.graph.clone();
        if graph.nodes[ops.clone()].iter().any(|node| matches!(node.op, Op::Rope { .. })) {
            self.rotations.iter_mut().for_each(|rotations| rotations.prepare(pass));
        }
        for node in &graph.nodes[ops] {
            self.run(&node.op, pass);
        }
        Ok(())
    }

    fn wait(&mut self) -> Result<()> {
        // `submit` returns when everything is done: the caller's thread is one of the workers.
        Ok(())
    }

    fn value(&self, value: ValueId, length: usize) -> &[f32] {
        &self.values[value.0 as usize][..length]
    }

    fn value_mut(&mut self, value: ValueId, length: usize) -> &mut [f32] {
        &mut self.values[value.0 as usize][..length]
    }

    fn read_kv(&self, cache: usize, page: PageId, positions: Range<usize>, keys: &mut [f16], values: &mut [f16]) {
        self.cache(cache).read(page, positions, keys, values);
    }

    fn write_kv(&mut self, cache: usize, page: PageId, positions: Range<usize>, keys: &[f16], values: &[f16]) {
        let cache = self.caches[cache].as_mut().expect("the graph's attention runs on this device");
        cache.write(page, positions, keys, values);
    }

    fn read_state(&self, state: usize, page: PageId, numbers: &mut [f32]) {
        numbers.copy_from_slice(self.states[state].page(page));
    }

    fn write_state(&mut self, state: usize, page: PageId, numbers: &[f32]) {
        self.states[state].page_mut(page).copy_from_slice(numbers);
    }

    fn copy_page(&mut self, from: PageId, to: PageId, count: usize) {
        assert!(count <= PAGE_TOKENS, "{count} positions of a page of {PAGE_TOKENS}");
        self.caches.iter_mut().flatten().for_each(|cache| cache.copy_page(from, to, count));
        self.states.iter_mut().filter(|states| states.bytes() > 0).for_each(|states| states.copy_page(from, to));
    }

    fn memory(&self) -> MemoryUse {
        let values: usize = self.values.iter().map(|value| value.len() * size_of::<f32>()).sum();
        let rotations: usize = self.rotations.iter().map(Rotations::bytes).sum();
        let scratch: usize =
            self.scratch.iter().map(|scratch| scratch.kernel.bytes() + scratch.attention.bytes()).sum();
        let caches: usize = self.caches.iter().flatten().map(Cache::bytes).sum();
        let states: usize = self.states.iter().map(States::bytes).sum();
        let kernels: usize = self.conv_kernels.iter().map(Vec::len).sum();
        let convolutions = (kernels + self.conv_past.len()) * size_of::<f32>();
        MemoryUse {
            weights_bytes: self.weights_bytes,
            kv_bytes: (caches + states) as u64,
            scratch_bytes: (values + rotations + scratch + convolutions + self.coded.bytes() + self.assignment.bytes())
                as u64,
        }
    }
}

impl CpuModel {
    /// One op, one line.
    fn run(&mut self, op: &Op, pass: &Pass<'_>) {
        let rows = pass.rows();
        match *op {
            Op::Embed { table, scale, output } => self.embed(pass, table, scale, output),
            Op::Norm { .. } => self.norm(op, pass),
            Op::Linear { input, ref parts } => self.linear(self.rows_of(input, pass), rows, input, parts),
            Op::Rope { value, heads, head_dim, rope } => self.rope(rows, value, heads, head_dim, rope),
            Op::PositionScale { value, width, temperature } => self.position_scale(pass, value, width, temperature),
            Op::Attention { .. } => self.attention(op, pass),
            Op::ShortConv { .. } => self.short_conv(op, pass),
            Op::Route { .. } => self.route(op, rows),
            Op::ExpertLinear { .. } => self.expert_linear(op, rows),
            Op::Mix { .. } => self.mix(op, rows),
            Op::GatedAct { gate, up, width, output, activation } => {
                self.gated_act(rows, gate, up, width, output, activation);
            }
            Op::Add { width, factor, target, addend } => self.add(rows, width, factor, target, addend),
            Op::SelectRows { input, output } => self.select_rows(pass, input, output),
            Op::Scale { value, factor } => self.scale(self.rows_of(value, pass), value, factor),
            Op::Softcap { value, cap } => self.softcap(self.rows_of(value, pass), value, cap),
        }
    }

    fn rows_of(&self, value: ValueId, pass: &Pass<'_>) -> usize {
        if self.model.graph.values[value.0 as usize].wanted_rows_only { pass.wanted_rows() } else { pass.rows() }
    }

    fn cache(&self, cache: usize) -> &Cache {
        self.caches[cache].as_ref().expect("the graph's attention runs on this device")
    }

    /// Workers for a pass of `rows` tokens.
    fn workers(&self, rows: usize) -> usize {
        if rows == 1 { self.threads.decode } else { self.threads.prefill }
    }

    /// Takes a value out, so that others can be read while it is written; [`CpuModel::give`] puts it back.
    fn take(&mut self, value: ValueId) -> Vec<f32> {
        std::mem::take(&mut self.values[value.0 as usize])
    }

    fn give(&mut self, value: ValueId, taken: Vec<f32>) {
        self.values[value.0 as usize] = taken;
    }

    /// Runs `work(first row, part)` over parts of `values` [rows, width], in parallel where it is worth it.
    fn each_row(
        pool: &mut Pool,
        workers: usize,
        values: &mut [f32],
        width: usize,
        work: &(dyn Fn(usize, &mut [f32]) + Sync),
    ) {
        let rows = values.len() / width.max(1);
        if values.len() < SMALL || rows == 1 {
            return work(0, values);
        }
        let rows_per_piece = rows.div_ceil(workers * 4);
        let shared = SharedSlice::new(values);
        pool.run(rows.div_ceil(rows_per_piece), workers, &|piece, _| {
            let first = piece * rows_per_piece;
            let last = rows.min(first + rows_per_piece);
            // SAFETY: pieces are consecutive ranges of rows.
            work(first, unsafe { shared.part(first * width..last * width) });
        });
    }

    fn embed(&mut self, pass: &Pass<'_>, table: MatrixId, scale: f32, output: ValueId) {
        let workers = self.workers(pass.rows());
        let matrix = self.model.weights.matrix(table);
        let width = matrix.columns();
        let out = &mut self.values[output.0 as usize][..pass.rows() * width];
        Self::each_row(&mut self.pool, workers, out, width, &|first, part| {
            for (row, &token) in part.chunks_exact_mut(width).zip(&pass.tokens[first..]) {
                (matrix.format().dequantize)(matrix.row(token as usize), row);
                if scale != 1.0 {
                    row.iter_mut().for_each(|x| *x *= scale);
                }
            }
        });
    }

    fn norm(&mut self, op: &Op, pass: &Pass<'_>) {
        let Op::Norm { input, weight, bias, width, groups, norm, output } = *op else { return };
        let rows = self.rows_of(input, pass);
        let (workers, isa) = (self.workers(rows), self.isa);
        let mut out = self.take(output);
        let weights = &self.model.weights;
        let (weight, bias) = (weights.vector(weight), bias.map(|bias| &weights.vector(bias)[..]));
        let group = width / groups;
        let input = (input != output).then(|| &self.values[input.0 as usize]);
        Self::each_row(&mut self.pool, workers, &mut out[..rows * width], width, &|first, part| {
            if let Some(input) = input {
                part.copy_from_slice(&input[first * width..][..part.len()]);
            }
            isa.run(Norm { values: part, group, weight, bias, norm });
        });
        self.give(output, out);
    }

    fn position_scale(&mut self, pass: &Pass<'_>, value: ValueId, width: usize, temperature: Temperature) {
        let isa = self.isa;
        let positions = pass.spans.iter().flat_map(|span| span.start..span.start + span.count);
        for (values, position) in self.values[value.0 as usize].chunks_exact_mut(width).zip(positions) {
            isa.run(Scale { values, factor: temperature.at(position) });
        }
    }

    /// `tokens` rows go through each matrix; `pass_rows` decides the phase.
    fn linear(&mut self, tokens: usize, pass_rows: usize, input: ValueId, parts: &[LinearPart]) {
        if tokens == 0 {
            return;
        }
        assert!(parts.len() <= MAX_PARTS, "{} matrices in one op", parts.len());
        let (workers, isa) = (self.workers(pass_rows), self.isa);
        let mut outs: [Vec<f32>; MAX_PARTS] = Default::default();
        for (out, part) in outs.iter_mut().zip(parts) {
            *out = self.take(part.output);
        }
        let weights = &self.model.weights;
        let columns = weights.matrix(parts[0].matrix).columns();
        let floats = &self.values[input.0 as usize][..tokens * columns];
        let is_coded = |part: &LinearPart| weights.matrix(part.matrix).format().activation == Activation::Int8;
        let coded = parts.iter().any(is_coded);
        if coded {
            code(&mut self.pool, workers, isa, &mut self.coded, floats, columns);
        }
        let coded = coded.then_some(&self.coded);

        let mut outs_left = outs.iter_mut();
        let jobs: [Option<(Job<'_>, Run)>; MAX_PARTS] = std::array::from_fn(|index| {
            let (part, out) = (parts.get(index)?, outs_left.next()?);
            let matrix = weights.matrix(part.matrix);
            let bias = part.bias.map(|bias| &weights.vector(bias)[..]);
            let out = SharedSlice::new(&mut out[..tokens * matrix.rows()]);
            Some((Job { matrix, bias, floats, tokens, places: None, out }, self.kernels[part.matrix.0 as usize]))
        });
        let total: usize = jobs.iter().flatten().map(|(job, _)| job.matrix.rows()).sum();
        let rows_per_piece = rows_per_piece(total, workers, tokens);
        let pieces = jobs.iter().flatten().map(|(job, _)| job.matrix.rows().div_ceil(rows_per_piece)).sum();
        let scratch = SharedSlice::new(&mut self.scratch);
        self.pool.run(pieces, workers, &|mut piece, worker| {
            // SAFETY: each worker has a number of its own, and uses the scratch of that number only.
            let scratch = &mut unsafe { scratch.part(worker..worker + 1) }[0];
            for (job, run) in jobs.iter().flatten() {
                let own = job.matrix.rows().div_ceil(rows_per_piece);
                if piece < own {
                    let first = piece * rows_per_piece;
                    let rows = first..job.matrix.rows().min(first + rows_per_piece);
                    return run(isa, job, coded, rows, &mut scratch.kernel);
                }
                piece -= own;
            }
        });
        for (out, part) in outs.into_iter().zip(parts) {
            self.give(part.output, out);
        }
    }

    fn rope(&mut self, rows: usize, value: ValueId, heads: usize, head_dim: usize, rope: usize) {
        let (workers, isa) = (self.workers(rows), self.isa);
        let rotations = &self.rotations[rope];
        let width = heads * head_dim;
        let values = &mut self.values[value.0 as usize][..rows * width];
        Self::each_row(&mut self.pool, workers, values, width, &|first, part| {
            isa.run(rotations.rotate(part, first, heads, head_dim));
        });
    }

    fn attention(&mut self, op: &Op, pass: &Pass<'_>) {
        let Op::Attention { query, key, value, output, heads, scale, softcap, cache } = *op else { return };
        let workers = self.workers(pass.rows());
        let mut out = self.take(output);
        let Self { caches, values, pool, scratch, isa, .. } = self;
        let cache = caches[cache].as_mut().expect("the graph's attention runs on this device");
        let config = cache.config.clone();
        let shape =
            Shape { key_dim: config.key_dim, value_dim: config.value_dim, scale, softcap, window: config.window };
        let pass_attention = PassAttention {
            isa: *isa,
            workers,
            pass,
            heads,
            kv_heads: config.kv_heads,
            shape,
            query: &values[query.0 as usize],
            key: &values[key.0 as usize],
            value: &values[value.0 as usize],
            out: SharedSlice::new(&mut out[..pass.rows() * heads * config.value_dim]),
            scratch: SharedSlice::new(scratch),
        };
        match (&mut cache.keys, &mut cache.values) {
            (Numbers::F16(keys), Numbers::F16(values)) => {
                pass_attention.run::<f16>(pool, keys.reinterpret_cast_mut(), values.reinterpret_cast_mut());
            }
            (Numbers::F32(keys), Numbers::F32(values)) => pass_attention.run(pool, keys, values),
            _ => unreachable!("keys and values are made in one format"),
        }
        self.give(output, out);
    }

    fn short_conv(&mut self, op: &Op, pass: &Pass<'_>) {
        let Op::ShortConv { input, width, state, output, .. } = *op else { return };
        let (workers, isa) = (self.workers(pass.rows()), self.isa);
        let mut out = self.take(output);
        let Self { values, states, conv_kernels, conv_past, pool, .. } = self;
        let states = &mut states[state];
        for (first, span) in pass.spans_with_rows() {
            let past = &mut conv_past[..conv_kernels[state].len() - width];
            match span.start.checked_sub(1) {
                Some(before) => past.copy_from_slice(states.page(span.pages[before / PAGE_TOKENS])),
                None => past.fill(0.0),
            }
            let input = &values[input.0 as usize][first * 3 * width..][..span.count * 3 * width];
            let conv = ShortConv { input, past, kernel: &conv_kernels[state], width };
            let out = &mut out[first * width..][..span.count * width];
            Self::each_row(pool, workers, out, width, &|first, part| isa.run(conv.rows(first, part)));
            conv.keep(span, states);
        }
        self.give(output, out);
    }

    fn route(&mut self, op: &Op, rows: usize) {
        let Op::Route { scores, experts, used, normalize, output } = *op else { return };
        let workers = self.workers(rows);
        let mut out = self.take(output);
        let scores = &self.values[scores.0 as usize];
        Self::each_row(&mut self.pool, workers, &mut out[..rows * 2 * used], 2 * used, &|first, part| {
            for (row, chosen) in (first..).zip(part.chunks_exact_mut(2 * used)) {
                route(&scores[row * experts..][..experts], normalize, chosen);
            }
        });
        self.give(output, out);
    }

    /// Each expert computes all rows that chose it, so that its weights are read once.
    fn expert_linear(&mut self, op: &Op, rows: usize) {
        let Op::ExpertLinear { input, input_per_choice, chosen, experts, used, ref parts } = *op else { return };
        assert!(parts.len() <= MAX_PARTS, "{} matrices in one op", parts.len());
        let (workers, isa) = (self.workers(rows), self.isa);
        self.assignment.sort(&self.values[chosen.0 as usize][..rows * 2 * used], used, experts);
        let mut outs: [Vec<f32>; MAX_PARTS] = Default::default();
        for (out, part) in outs.iter_mut().zip(parts) {
            *out = self.take(part.output);
        }
        let weights = &self.model.weights;
        let matrix_of = |part: &LinearPart| weights.matrix(part.matrix);
        let columns = matrix_of(&parts[0]).columns();
        let input_rows = if input_per_choice { rows * used } else { rows };
        let floats = &self.values[input.0 as usize][..input_rows * columns];
        let coded = parts.iter().any(|part| matrix_of(part).format().activation == Activation::Int8);
        if coded {
            code(&mut self.pool, workers, isa, &mut self.coded, floats, columns);
        }
        let coded = coded.then_some(&self.coded);

        let (assignment, kernels, experts_of) = (&self.assignment, &self.kernels, &self.experts);
        let mut outs_left = outs.iter_mut();
        let outputs: [Option<(&LinearPart, usize, SharedSlice<'_, f32>)>; MAX_PARTS] = std::array::from_fn(|index| {
            let (part, out) = (parts.get(index)?, outs_left.next()?);
            let width = matrix_of(part).rows() / experts;
            Some((part, width, SharedSlice::new(&mut out[..rows * used * width])))
        });
        let width: usize = outputs.iter().flatten().map(|output| output.1).sum();
        let rows_per_piece = rows_per_piece(width * assignment.active().len(), workers, rows);
        let pieces_of = |width: usize| width.div_ceil(rows_per_piece);
        let pieces_per_expert: usize = outputs.iter().flatten().map(|output| pieces_of(output.1)).sum();
        let scratch = SharedSlice::new(&mut self.scratch);
        self.pool.run(pieces_per_expert * assignment.active().len(), workers, &|piece, worker| {
            // SAFETY: each worker has a number of its own, and uses the scratch of that number only.
            let scratch = &mut unsafe { scratch.part(worker..worker + 1) }[0];
            let expert = assignment.active()[piece / pieces_per_expert] as usize;
            let mut piece = piece % pieces_per_expert;
            let (choices, choosers) = assignment.of(expert);
            let places = Places { inputs: if input_per_choice { choices } else { choosers }, outputs: choices };
            for &(part, width, out) in outputs.iter().flatten() {
                if piece < pieces_of(width) {
                    let first = piece * rows_per_piece;
                    let matrix = &experts_of[part.matrix.0 as usize][expert];
                    let bias = part.bias.map(|bias| &weights.vector(bias)[expert * width..][..width]);
                    let job = Job { matrix, bias, floats, tokens: choices.len(), places: Some(places), out };
                    let run = kernels[part.matrix.0 as usize];
                    return run(isa, &job, coded, first..width.min(first + rows_per_piece), &mut scratch.kernel);
                }
                piece -= pieces_of(width);
            }
        });
        for (out, part) in outs.into_iter().zip(parts) {
            self.give(part.output, out);
        }
    }

    fn mix(&mut self, op: &Op, rows: usize) {
        let Op::Mix { input, chosen, used, width, output } = *op else { return };
        let (workers, isa) = (self.workers(rows), self.isa);
        let mut out = self.take(output);
        let (input, chosen) = (&self.values[input.0 as usize], &self.values[chosen.0 as usize]);
        Self::each_row(&mut self.pool, workers, &mut out[..rows * width], width, &|first, part| {
            let (input, chosen) = (&input[first * used * width..], &chosen[first * 2 * used..]);
            isa.run(Mix { input, chosen, used, width, out: part });
        });
        self.give(output, out);
    }

    fn gated_act(
        &mut self,
        rows: usize,
        gate: ValueId,
        up: ValueId,
        width: usize,
        output: ValueId,
        activation: ActivationFunction,
    ) {
        let (workers, isa) = (self.workers(rows), self.isa);
        // The op works in place on the gate; another output gets a copy first.
        if gate != output {
            let mut out = self.take(output);
            out[..rows * width].copy_from_slice(&self.values[gate.0 as usize][..rows * width]);
            self.give(output, out);
        }
        let mut out = self.take(output);
        let up = &self.values[up.0 as usize];
        Self::each_row(&mut self.pool, workers, &mut out[..rows * width], width, &|first, part| {
            isa.run(GatedAct { up: &up[first * width..][..part.len()], gate: part, activation });
        });
        self.give(output, out);
    }

    fn add(&mut self, rows: usize, width: usize, factor: f32, target: ValueId, addend: ValueId) {
        let (workers, isa) = (self.workers(rows), self.isa);
        let mut out = self.take(target);
        let addend = &self.values[addend.0 as usize];
        Self::each_row(&mut self.pool, workers, &mut out[..rows * width], width, &|first, part| {
            isa.run(Add { addend: &addend[first * width..][..part.len()], target: part, factor });
        });
        self.give(target, out);
    }

    fn select_rows(&mut self, pass: &Pass<'_>, input: ValueId, output: ValueId) {
        let width = self.model.graph.values[input.0 as usize].width;
        let mut out = self.take(output);
        let input = &self.values[input.0 as usize];
        for (row, from) in out.chunks_exact_mut(width).zip(pass.wanted()) {
            row.copy_from_slice(&input[from * width..][..width]);
        }
        self.give(output, out);
    }

    fn scale(&mut self, rows: usize, value: ValueId, factor: f32) {
        let (workers, isa) = (self.workers(rows), self.isa);
        let width = self.model.graph.values[value.0 as usize].width;
        let values = &mut self.values[value.0 as usize][..rows * width];
        Self::each_row(&mut self.pool, workers, values, width, &|_, part| isa.run(Scale { values: part, factor }));
    }

    fn softcap(&mut self, rows: usize, value: ValueId, cap: f32) {
        let (workers, isa) = (self.workers(rows), self.isa);
        let width = self.model.graph.values[value.0 as usize].width;
        let values = &mut self.values[value.0 as usize][..rows * width];
        Self::each_row(&mut self.pool, workers, values, width, &|_, part| isa.run(Softcap { values: part, cap }));
    }
}

/// Codes activations [rows, columns].
fn code(pool: &mut Pool, workers: usize, isa: Isa, coded: &mut Coded, floats: &[f32], columns: usize) {
    let rows = floats.len() / columns;
    let writer = coded.fill(rows, columns);
    // A single row is coded by the caller alone; many are shared out.
    pool.run(rows, workers, &|row, _| {
        // SAFETY: each row is one piece of work.
        let to = unsafe { writer.row(row) };
        isa.run(CodeRow { from: &floats[row * columns..][..columns], to });
    });
}

/// Rows of a matrix in one piece of work: large enough to pay for taking it, small enough that nobody waits long.
fn rows_per_piece(rows: usize, workers: usize, tokens: usize) -> usize {
    let wish = if tokens == 1 { rows.div_ceil(workers * DECODE_PIECES) } else { PREFILL_ROWS };
    wish.next_multiple_of(4)
}
