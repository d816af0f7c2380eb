//! The reference interpreter: every op in plain scalar code, one loop after the other.
//!
//! It is the definition that devices are tested against, so it prefers clarity and wide sums to speed; the
//! plan uses it as the device of last resort, and shows that.

use std::ops::Range;
use std::sync::Arc;

use duan_model::Model;
use duan_model::config::{NormConfig, NormKind, RopeStyle, Temperature};
use duan_model::graph::{LinearPart, Op, ValueId};
use duan_model::weights::{Matrix, MatrixId};
use duan_quant::{Activation, activation};
use half::f16;

use crate::contract::{Backend, CompileJob, Compiled, KvFormat, Limits, MemoryUse, Refusal, kv_f16};
use crate::error::{Error, Result};
use crate::inputs::{InputSums, MatrixInputs};
use crate::pass::{PAGE_TOKENS, PageId, Pass};
use crate::times::{Clock, OpTime, TimeLog};

const NAME: &str = "reference";

/// How the reference treats the input of a matrix whose format asks for integer activations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Precision {
    /// Codes it as devices do, so that bounds on devices are tight.
    Coded,
    /// Leaves it in f32: what the weights would give without that loss.
    Exact,
}

/// The scalar device that runs every graph.
#[derive(Debug, Clone, Copy)]
pub struct Reference {
    precision: Precision,
    memory_available_bytes: Option<u64>,
}

impl Reference {
    /// A reference of the given precision.
    pub fn new(precision: Precision) -> Self {
        Self { precision, memory_available_bytes: None }
    }

    /// The same, told how much memory the machine that it runs on could give.
    pub fn with_memory_available(self, memory_available_bytes: Option<u64>) -> Self {
        Self { memory_available_bytes, ..self }
    }
}

impl Backend for Reference {
    fn name(&self) -> &'static str {
        NAME
    }

    fn description(&self) -> String {
        "plain scalar code, one thread: correct and slow".into()
    }

    fn memory_available_bytes(&self) -> Option<u64> {
        self.memory_available_bytes
    }

    fn refusals(&self, _model: &Model) -> Vec<Refusal> {
        Vec::new()
    }

    fn compile(&self, job: &CompileJob<'_>) -> Result<Box<dyn Compiled>> {
        let graph = &job.model.graph;
        let rows = |wanted_rows_only| if wanted_rows_only { job.limits.max_wanted_rows } else { job.limits.max_rows };
        let values = graph.values.iter().map(|value| vec![0.0; rows(value.wanted_rows_only) * value.width]).collect();
        let attends_here = |cache: usize| {
            let is_it = |op: &Op| matches!(op, Op::Attention { cache: own, .. } if *own == cache);
            graph.nodes.iter().enumerate().any(|(index, node)| is_it(&node.op) && job.runs(index))
        };
        let caches = graph
            .caches
            .iter()
            .enumerate()
            .map(|(index, cache)| {
                let positions = if attends_here(index) { job.limits.pages * PAGE_TOKENS } else { 0 };
                Cache {
                    keys: vec![0.0; positions * cache.kv_heads * cache.key_dim],
                    values: vec![0.0; positions * cache.kv_heads * cache.value_dim],
                    key_width: cache.kv_heads * cache.key_dim,
                    value_width: cache.kv_heads * cache.value_dim,
                }
            })
            .collect();
        let context = job.limits.context;
        let ropes = job.model.config.ropes.iter();
        let states = graph.states.iter().map(|state| vec![0.0; job.limits.pages * state.width]).collect();
        // Rows that no file has are made once, of the matrices that are read here.
        let is_read = |id: MatrixId| {
            graph.nodes.iter().enumerate().any(|(index, node)| job.runs(index) && matrices_of(&node.op).contains(&id))
        };
        let weights = job.model.weights.resident(is_read).map_err(|error| Error::new(NAME, error.to_string()))?;
        Ok(Box::new(Interpreter {
            model: Model { weights: Arc::new(weights), ..job.model.clone() },
            precision: self.precision,
            limits: job.limits.clone(),
            frequencies: ropes.map(|rope| rope.frequencies(context)).collect(),
            values,
            caches,
            states,
            observed: None,
            times: None,
        }))
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

/// Keys and values of one attention: position after position, in f32 that hold what the KV format can.
struct Cache {
    keys: Vec<f32>,   // [pages * PAGE_TOKENS, kv_heads * key_dim]
    values: Vec<f32>, // [pages * PAGE_TOKENS, kv_heads * value_dim]
    key_width: usize,
    value_width: usize,
}

impl Cache {
    fn key(&self, slot: usize) -> &[f32] {
        &self.keys[slot * self.key_width..][..self.key_width]
    }

    fn value(&self, slot: usize) -> &[f32] {
        &self.values[slot * self.value_width..][..self.value_width]
    }
}

/// Where a position of a sequence lies in the cache.
fn slot(pages: &[PageId], position: usize) -> usize {
    pages[position / PAGE_TOKENS] as usize * PAGE_TOKENS + position % PAGE_TOKENS
}

struct Interpreter {
    model: Model,
    precision: Precision,
    limits: Limits,
    frequencies: Vec<Vec<f32>>,
    values: Vec<Vec<f32>>,
    caches: Vec<Cache>,
    /// [pages, width] of each
    states: Vec<Vec<f32>>,
    /// What matrices were multiplied with, while that is observed.
    observed: Option<InputSums>,
    /// How long ops took, while that is observed.
    times: Option<TimeLog>,
}

impl Compiled for Interpreter {
    fn submit(&mut self, pass: &Pass<'_>, ops: Range<usize>) -> Result<()> {
        pass.check(NAME, &self.limits, self.model.config.vocab_size)?;
        let graph = self.model.graph.clone();
        if let Some(times) = &mut self.times {
            times.begin();
        }
        for node in ops {
            self.note_inputs(node, pass);
            self.run(&graph.nodes[node].op, pass);
            if let Some(times) = &mut self.times {
                times.note(node..node + 1);
            }
        }
        Ok(())
    }

    fn observe_times(&mut self, clock: Option<Clock>, passes: usize) -> Result<()> {
        self.times = clock.map(|clock| TimeLog::new(clock, passes.saturating_mul(self.model.graph.nodes.len())));
        Ok(())
    }

    fn observed_times(&self) -> &[OpTime] {
        self.times.as_ref().map_or(&[], TimeLog::times)
    }

    fn observe_inputs(&mut self, on: bool) -> Result<()> {
        self.observed = on.then(|| InputSums::new(&self.model.graph));
        Ok(())
    }

    fn observed_inputs(&self) -> Vec<MatrixInputs> {
        self.observed.as_ref().map(|sums| sums.of_matrices(&self.model)).unwrap_or_default()
    }

    fn wait(&mut self) -> Result<()> {
        Ok(())
    }

    fn value(&self, value: ValueId, length: usize) -> &[f32] {
        &self.values[value.0 as usize][..length]
    }

    fn value_mut(&mut self, value: ValueId, length: usize) -> &mut [f32] {
        &mut self.values[value.0 as usize][..length]
    }

    fn read_kv(&self, cache: usize, page: PageId, positions: Range<usize>, keys: &mut [f16], values: &mut [f16]) {
        let cache = &self.caches[cache];
        let slots = slot_range(page, positions);
        let narrow = |from: &[f32], to: &mut [f16]| to.iter_mut().zip(from).for_each(|(to, from)| *to = kv_f16(*from));
        narrow(&cache.keys[scaled(&slots, cache.key_width)], keys);
        narrow(&cache.values[scaled(&slots, cache.value_width)], values);
    }

    fn write_kv(&mut self, cache: usize, page: PageId, positions: Range<usize>, keys: &[f16], values: &[f16]) {
        let cache = &mut self.caches[cache];
        let slots = slot_range(page, positions);
        let widen = |from: &[f16], to: &mut [f32]| to.iter_mut().zip(from).for_each(|(to, from)| *to = from.to_f32());
        widen(keys, &mut cache.keys[scaled(&slots, cache.key_width)]);
        widen(values, &mut cache.values[scaled(&slots, cache.value_width)]);
    }

    fn read_state(&self, state: usize, page: PageId, numbers: &mut [f32]) {
        numbers.copy_from_slice(&self.states[state][self.state_range(state, page)]);
    }

    fn write_state(&mut self, state: usize, page: PageId, numbers: &[f32]) {
        let range = self.state_range(state, page);
        self.states[state][range].copy_from_slice(numbers);
    }

    fn copy_page(&mut self, from: PageId, to: PageId, count: usize) {
        for state in 0..self.states.len() {
            let (source, target) = (self.state_range(state, from), self.state_range(state, to));
            self.states[state].copy_within(source, target.start);
        }
        for cache in self.caches.iter_mut().filter(|cache| !cache.keys.is_empty()) {
            let (source, target) = (slot_range(from, 0..count), slot_range(to, 0..count));
            cache.keys.copy_within(scaled(&source, cache.key_width), target.start * cache.key_width);
            cache.values.copy_within(scaled(&source, cache.value_width), target.start * cache.value_width);
        }
    }

    fn memory(&self) -> MemoryUse {
        let bytes = |floats: usize| (floats * size_of::<f32>()) as u64;
        MemoryUse {
            weights_bytes: self.model.weights.bytes(),
            kv_bytes: self.caches.iter().map(|cache| bytes(cache.keys.len() + cache.values.len())).sum::<u64>()
                + self.states.iter().map(|state| bytes(state.len())).sum::<u64>(),
            scratch_bytes: self.values.iter().map(|value| bytes(value.len())).sum(),
        }
    }
}

fn slot_range(page: PageId, positions: Range<usize>) -> Range<usize> {
    assert!(positions.end <= PAGE_TOKENS, "positions {positions:?} of a page of {PAGE_TOKENS}");
    let first = page as usize * PAGE_TOKENS;
    first + positions.start..first + positions.end
}

fn scaled(range: &Range<usize>, width: usize) -> Range<usize> {
    range.start * width..range.end * width
}

impl Interpreter {
    fn run(&mut self, op: &Op, pass: &Pass<'_>) {
        let rows = pass.rows();
        match *op {
            Op::Embed { table, scale, output } => {
                let matrix = self.model.weights.matrix(table);
                let out = &mut self.values[output.0 as usize];
                for (row, &token) in out.chunks_exact_mut(matrix.columns()).zip(pass.tokens) {
                    (matrix.format().dequantize)(matrix.row(token as usize), row);
                    if let Some(order) = matrix.column_order() {
                        let sorted = row.to_vec();
                        sorted.iter().zip(order).for_each(|(x, &column)| row[column as usize] = *x);
                    }
                    row.iter_mut().for_each(|x| *x *= scale);
                }
            }
            Op::Norm { .. } => self.norm(op, pass),
            Op::Linear { input, ref parts } => {
                let rows = self.rows_of(input, pass);
                parts.iter().for_each(|part| self.linear(input, part, rows));
            }
            Op::Rope { value, heads, head_dim, rope } => self.rope(pass, value, heads, head_dim, rope),
            Op::PositionScale { value, width, temperature } => self.position_scale(pass, value, width, temperature),
            Op::Attention { .. } => self.attention(op, pass),
            Op::ShortConv { .. } => self.short_conv(op, pass),
            Op::Route { .. } => self.route(op, rows),
            Op::ExpertLinear { .. } => self.expert_linear(op, rows),
            Op::Mix { .. } => self.mix(op, rows),
            Op::GatedAct { gate, up, width, output, activation } => {
                for index in 0..rows * width {
                    let gated = activation.apply(self.values[gate.0 as usize][index]);
                    self.values[output.0 as usize][index] = gated * self.values[up.0 as usize][index];
                }
            }
            Op::Add { width, factor, target, addend } => {
                for index in 0..rows * width {
                    self.values[target.0 as usize][index] += factor * self.values[addend.0 as usize][index];
                }
            }
            Op::SelectRows { input, output } => {
                let width = self.model.graph.values[input.0 as usize].width;
                for (to, from) in pass.wanted().enumerate() {
                    for column in 0..width {
                        self.values[output.0 as usize][to * width + column] =
                            self.values[input.0 as usize][from * width + column];
                    }
                }
            }
            Op::Scale { value, factor } => {
                let length = pass.wanted_rows() * self.model.graph.values[value.0 as usize].width;
                self.values[value.0 as usize][..length].iter_mut().for_each(|x| *x *= factor);
            }
            Op::Softcap { value, cap } => {
                let length = pass.wanted_rows() * self.model.graph.values[value.0 as usize].width;
                self.values[value.0 as usize][..length].iter_mut().for_each(|x| *x = cap * (*x / cap).tanh());
            }
        }
    }

    fn note_inputs(&mut self, node: usize, pass: &Pass<'_>) {
        if let Op::Linear { input, .. } | Op::ExpertLinear { input, .. } = self.model.graph.nodes[node].op
            && let Some(mut sums) = self.observed.take()
        {
            sums.note(&self.model, node, self.rows_of(input, pass), |value| &self.values[value.0 as usize]);
            self.observed = Some(sums);
        }
    }

    fn rows_of(&self, value: ValueId, pass: &Pass<'_>) -> usize {
        if self.model.graph.values[value.0 as usize].wanted_rows_only { pass.wanted_rows() } else { pass.rows() }
    }

    fn state_range(&self, state: usize, page: PageId) -> Range<usize> {
        let width = self.model.graph.states[state].width;
        page as usize * width..(page as usize + 1) * width
    }

    fn norm(&mut self, op: &Op, pass: &Pass<'_>) {
        let Op::Norm { input, weight, bias, width, groups, norm, output } = *op else { return };
        let weight = self.model.weights.vector(weight).clone(); // [width] or [width / groups]
        let bias = bias.map(|bias| self.model.weights.vector(bias).clone());
        let group = width / groups;
        for start in (0..self.rows_of(input, pass) * width).step_by(group) {
            let (mean, factor) = mean_and_factor(&self.values[input.0 as usize][start..start + group], norm);
            for at in start..start + group {
                let x = self.values[input.0 as usize][at] - mean;
                let column = at % width % weight.len();
                let bias = bias.as_ref().map_or(0.0, |bias| bias[column]);
                self.values[output.0 as usize][at] = x * factor * weight[column] + bias;
            }
        }
    }

    fn position_scale(&mut self, pass: &Pass<'_>, value: ValueId, width: usize, temperature: Temperature) {
        let positions = pass.spans.iter().flat_map(|span| span.start..span.start + span.count);
        for (row, position) in self.values[value.0 as usize].chunks_exact_mut(width).zip(positions) {
            row.iter_mut().for_each(|x| *x *= temperature.at(position));
        }
    }

    fn linear(&mut self, input: ValueId, part: &LinearPart, rows: usize) {
        let matrix = self.model.weights.matrix(part.matrix);
        let bias = part.bias.map(|bias| self.model.weights.vector(bias));
        let (width, columns) = (matrix.rows(), matrix.columns());
        let x = self.inputs(matrix, &self.values[input.0 as usize][..rows * columns]); // [rows, columns]
        let mut weights = vec![0.0; columns];
        for column in 0..width {
            (matrix.format().dequantize)(matrix.row(column), &mut weights);
            for (row, x) in x.chunks_exact(columns).enumerate() {
                let bias = bias.map_or(0.0, |bias| bias[column]);
                self.values[part.output.0 as usize][row * width + column] = dot(x, &weights) + bias;
            }
        }
    }

    /// Activations [rows, columns] as a matrix gets them.
    fn inputs(&self, matrix: &Matrix, x: &[f32]) -> Vec<f32> {
        let mut x = match matrix.column_order() {
            None => x.to_vec(),
            Some(order) => {
                let sorted = |x: &[f32]| order.iter().map(|&column| x[column as usize]).collect::<Vec<f32>>();
                x.chunks_exact(matrix.columns()).flat_map(sorted).collect()
            }
        };
        if self.precision == Precision::Coded && matrix.format().activation == Activation::Int8 {
            code_and_decode(&mut x);
        }
        x
    }

    fn route(&mut self, op: &Op, rows: usize) {
        let Op::Route { scores, experts, used, normalize, output } = *op else { return };
        for row in 0..rows {
            let scores = &self.values[scores.0 as usize][row * experts..][..experts];
            let largest = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            let weights: Vec<f64> = scores.iter().map(|&score| f64::from(score - largest).exp()).collect();
            let mut order: Vec<usize> = (0..experts).collect();
            // The sort is stable, so the first of equals comes first.
            order.sort_by(|&a, &b| scores[b].total_cmp(&scores[a]));
            order.truncate(used);
            let total: f64 =
                if normalize { order.iter().map(|&expert| weights[expert]).sum() } else { weights.iter().sum() };
            for (place, expert) in order.into_iter().enumerate() {
                let output = &mut self.values[output.0 as usize][row * 2 * used..][..2 * used];
                output[place] = expert as f32;
                output[used + place] = (weights[expert] / total) as f32;
            }
        }
    }

    fn expert_linear(&mut self, op: &Op, rows: usize) {
        let Op::ExpertLinear { input, input_per_choice, chosen, experts, used, ref parts } = *op else { return };
        for part in parts {
            let matrix = self.model.weights.matrix(part.matrix).clone();
            let bias = part.bias.map(|bias| self.model.weights.vector(bias).clone());
            let (width, columns) = (matrix.rows() / experts, matrix.columns());
            let mut weights = vec![0.0; columns];
            for choice in 0..rows * used {
                let (row, place) = (choice / used, choice % used);
                let at = if input_per_choice { choice } else { row } * columns;
                let x = self.inputs(&matrix, &self.values[input.0 as usize][at..at + columns]);
                let expert = self.values[chosen.0 as usize][row * 2 * used + place] as usize;
                for column in 0..width {
                    (matrix.format().dequantize)(matrix.row(expert * width + column), &mut weights);
                    let bias = bias.as_ref().map_or(0.0, |bias| bias[expert * width + column]);
                    self.values[part.output.0 as usize][choice * width + column] = dot(&x, &weights) + bias;
                }
            }
        }
    }

    fn mix(&mut self, op: &Op, rows: usize) {
        let Op::Mix { input, chosen, used, width, output } = *op else { return };
        for row in 0..rows {
            for column in 0..width {
                let sum = (0..used).fold(0.0f64, |sum, place| {
                    let weight = self.values[chosen.0 as usize][row * 2 * used + used + place];
                    sum + f64::from(weight)
                        * f64::from(self.values[input.0 as usize][(row * used + place) * width + column])
                });
                self.values[output.0 as usize][row * width + column] = sum as f32;
            }
        }
    }

    /// Walks through each span with the last `taps - 1` of `b * x`, which it finds in the page of the position before, and
    /// leaves them in every page that it comes through.
    fn short_conv(&mut self, op: &Op, pass: &Pass<'_>) {
        let Op::ShortConv { input, kernel, taps, width, state, output } = *op else { return };
        let kernel = self.model.weights.vector(kernel).clone(); // [width, taps]
        for (first, span) in pass.spans_with_rows() {
            let mut past = vec![0.0; (taps - 1) * width];
            if span.start > 0 {
                self.read_state(state, span.pages[(span.start - 1) / PAGE_TOKENS], &mut past);
            }
            for index in 0..span.count {
                let row = &self.values[input.0 as usize][(first + index) * 3 * width..][..3 * width];
                let product = |channel: usize| row[channel] * row[2 * width + channel];
                past.extend((0..width).map(product)); // now [taps, width]
                let convolved: Vec<f32> = (0..width)
                    .map(|channel| {
                        let tap = |tap: usize| {
                            f64::from(kernel[channel * taps + tap]) * f64::from(past[tap * width + channel])
                        };
                        row[width + channel] * (0..taps).map(tap).sum::<f64>() as f32
                    })
                    .collect();
                self.values[output.0 as usize][(first + index) * width..][..width].copy_from_slice(&convolved);
                past.drain(..width);
                self.write_state(state, span.pages[(span.start + index) / PAGE_TOKENS], &past);
            }
        }
    }

    fn rope(&mut self, pass: &Pass<'_>, value: ValueId, heads: usize, head_dim: usize, rope: usize) {
        let (style, magnitude) = (self.model.config.ropes[rope].style, self.model.config.ropes[rope].magnitude);
        let frequencies = &self.frequencies[rope]; // [dims / 2]
        for (first, span) in pass.spans_with_rows() {
            for index in 0..span.count {
                let row = &mut self.values[value.0 as usize][(first + index) * heads * head_dim..][..heads * head_dim];
                for head in row.chunks_exact_mut(head_dim) {
                    for (pair, frequency) in frequencies.iter().enumerate() {
                        let (low, high) = match style {
                            RopeStyle::AdjacentPairs => (2 * pair, 2 * pair + 1),
                            RopeStyle::SplitHalves => (pair, pair + frequencies.len()),
                        };
                        let (sin, cos) = ((span.start + index) as f32 * frequency).sin_cos();
                        let (sin, cos) = (sin * magnitude, cos * magnitude);
                        let (x, y) = (head[low], head[high]);
                        head[low] = x * cos - y * sin;
                        head[high] = x * sin + y * cos;
                    }
                }
            }
        }
    }

    fn attention(&mut self, op: &Op, pass: &Pass<'_>) {
        let Op::Attention { query, key, value, output, heads, scale, softcap, sinks, cache } = *op else { return };
        let sinks = sinks.map(|sinks| self.model.weights.vector(sinks).clone()); // [heads]
        let config = self.model.graph.caches[cache].clone();
        let (key_dim, value_dim) = (config.key_dim, config.value_dim);
        let heads_per_kv = heads / config.kv_heads;
        for (first, span) in pass.spans_with_rows() {
            for index in 0..span.count {
                let row = first + index;
                let position = span.start + index;
                self.store(cache, slot(span.pages, position), key, value, row);
                let earliest = config.window.map_or(0, |window| (position + 1).saturating_sub(window));
                for head in 0..heads {
                    let kv_head = head / heads_per_kv;
                    let cache = &self.caches[cache];
                    let query = &self.values[query.0 as usize][(row * heads + head) * key_dim..][..key_dim];
                    let score = |position: usize| {
                        let key = &cache.key(slot(span.pages, position))[kv_head * key_dim..][..key_dim];
                        let dot: f64 = query.iter().zip(key).map(|(&q, &k)| f64::from(q) * f64::from(k)).sum();
                        let scaled = dot as f32 * scale;
                        softcap.map_or(scaled, |cap| cap * (scaled / cap).tanh())
                    };
                    let scores: Vec<f32> = (earliest..=position).map(score).collect();
                    let sink = sinks.as_ref().map(|sinks| sinks[head]);
                    let weighted = softmax_sum(&scores, sink, value_dim, |index| {
                        &cache.value(slot(span.pages, earliest + index))[kv_head * value_dim..][..value_dim]
                    });
                    self.values[output.0 as usize][(row * heads + head) * value_dim..][..value_dim]
                        .copy_from_slice(&weighted);
                }
            }
        }
    }

    /// Stores one row's keys and values in the cache, as the KV format can hold them.
    fn store(&mut self, cache: usize, slot: usize, key: ValueId, value: ValueId, row: usize) {
        let kept = |x: f32| match self.limits.kv_format {
            KvFormat::F16 => kv_f16(x).to_f32(),
            KvFormat::F32 => x,
        };
        let Cache { key_width, value_width, .. } = self.caches[cache];
        for column in 0..key_width {
            self.caches[cache].keys[slot * key_width + column] =
                kept(self.values[key.0 as usize][row * key_width + column]);
        }
        for column in 0..value_width {
            self.caches[cache].values[slot * value_width + column] =
                kept(self.values[value.0 as usize][row * value_width + column]);
        }
    }
}

/// `sum(softmax(scores)[i] * value(i))` [width], where a sink is one more score and has no value. Subtracting the largest
/// score keeps every exponential in 0..=1.
fn softmax_sum<'a>(scores: &[f32], sink: Option<f32>, width: usize, value: impl Fn(usize) -> &'a [f32]) -> Vec<f32> {
    let largest = scores.iter().copied().chain(sink).fold(f32::NEG_INFINITY, f32::max);
    let mut total = sink.map_or(0.0, |sink| f64::from(sink - largest).exp());
    let mut sum = vec![0.0f64; width];
    for (index, score) in scores.iter().enumerate() {
        let weight = f64::from(score - largest).exp();
        total += weight;
        sum.iter_mut().zip(value(index)).for_each(|(sum, &value)| *sum += weight * f64::from(value));
    }
    sum.iter().map(|&sum| (sum / total) as f32).collect()
}

/// What a norm subtracts from a group, and what it multiplies the rest with before the weight.
fn mean_and_factor(x: &[f32], norm: NormConfig) -> (f32, f32) {
    let count = x.len() as f64;
    let mean = match norm.kind {
        NormKind::Rms => 0.0,
        NormKind::Layer => x.iter().map(|&x| f64::from(x)).sum::<f64>() / count,
    };
    let mean_square = x.iter().map(|&x| (f64::from(x) - mean).powi(2)).sum::<f64>() / count;
    (mean as f32, (1.0 / (mean_square + f64::from(norm.epsilon)).sqrt()) as f32)
}

fn dot(x: &[f32], weights: &[f32]) -> f32 {
    x.iter().zip(weights).map(|(&x, &w)| f64::from(x) * f64::from(w)).sum::<f64>() as f32
}

/// What remains of activations after their integer coding.
fn code_and_decode(x: &mut [f32]) {
    let mut codes = vec![0i8; x.len()];
    let mut scales = vec![0.0f32; x.len() / activation::GROUP];
    activation::quantize(x, &mut codes, &mut scales);
    activation::dequantize(&codes, &scales, x);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three positions with values two wide.
    const SCORES: [f32; 3] = [0.5, -1.0, 2.0];
    const VALUES: [[f32; 2]; 4] = [[1.0, -3.0], [0.25, 8.0], [-2.0, 1.5], [0.0, 0.0]];

    fn sum(scores: &[f32], sink: Option<f32>) -> Vec<f32> {
        softmax_sum(scores, sink, 2, |index| &VALUES[index])
    }

    #[test]
    fn a_sink_is_one_more_key_whose_value_is_zero() {
        for sink in [-3.0, 0.0, 1.25, 40.0] {
            let [a, b, c] = SCORES;
            assert_eq!(sum(&SCORES, Some(sink)), sum(&[a, b, c, sink], None), "{sink}");
        }
        // e^0 / (e^0 + e^0)
        assert_eq!(sum(&[0.0], Some(0.0)), [0.5, -1.5]);
    }

    #[test]
    fn a_sink_far_below_the_scores_is_none_and_one_far_above_leaves_nothing() {
        assert_eq!(sum(&SCORES, Some(-1e4)), sum(&SCORES, None));
        assert_eq!(sum(&SCORES, Some(f32::NEG_INFINITY)), sum(&SCORES, None));
        assert_eq!(sum(&SCORES, Some(1e4)), [0.0, 0.0]);
    }
}
