//! The ops between the matrices: each takes its values out, shares the rows out where there are enough, and puts them back.

use duan_backend::{PAGE_TOKENS, Pass};
use duan_model::config::{ActivationFunction, Temperature};
use duan_model::graph::{Op, ValueId};
use half::f16;
use half::slice::HalfBitsSliceExt;

use super::CpuModel;
use crate::kv::Numbers;
use crate::ops::attention::Shape;
use crate::ops::elementwise::{Add, GatedAct, Scale, Softcap};
use crate::ops::experts::{Mix, route};
use crate::ops::norm::Norm;
use crate::ops::pass_attention::PassAttention;
use crate::ops::short_conv::ShortConv;
use crate::shared::SharedSlice;

impl CpuModel {
    pub(super) fn norm(&mut self, op: &Op, pass: &Pass<'_>) {
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

    pub(super) fn position_scale(&mut self, pass: &Pass<'_>, value: ValueId, width: usize, temperature: Temperature) {
        let isa = self.isa;
        let positions = pass.spans.iter().flat_map(|span| span.start..span.start + span.count);
        for (values, position) in self.values[value.0 as usize].chunks_exact_mut(width).zip(positions) {
            isa.run(Scale { values, factor: temperature.at(position) });
        }
    }

    pub(super) fn rope(&mut self, rows: usize, value: ValueId, heads: usize, head_dim: usize, rope: usize) {
        let (workers, isa) = (self.workers(rows), self.isa);
        let rotations = &self.rotations[rope];
        let width = heads * head_dim;
        let values = &mut self.values[value.0 as usize][..rows * width];
        Self::each_row(&mut self.pool, workers, values, width, &|first, part| {
            isa.run(rotations.rotate(part, first, heads, head_dim));
        });
    }

    pub(super) fn attention(&mut self, op: &Op, pass: &Pass<'_>) {
        let Op::Attention { query, key, value, output, heads, scale, softcap, sinks, cache } = *op else { return };
        let workers = self.workers(pass.rows());
        let mut out = self.take(output);
        let Self { caches, values, pool, scratch, isa, model, .. } = self;
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
            sinks: sinks.map(|sinks| &model.weights.vector(sinks)[..]),
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

    pub(super) fn short_conv(&mut self, op: &Op, pass: &Pass<'_>) {
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

    pub(super) fn route(&mut self, op: &Op, rows: usize) {
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

    pub(super) fn mix(&mut self, op: &Op, rows: usize) {
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

    pub(super) fn gated_act(
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

    pub(super) fn add(&mut self, rows: usize, width: usize, factor: f32, target: ValueId, addend: ValueId) {
        let (workers, isa) = (self.workers(rows), self.isa);
        let mut out = self.take(target);
        let addend = &self.values[addend.0 as usize];
        Self::each_row(&mut self.pool, workers, &mut out[..rows * width], width, &|first, part| {
            isa.run(Add { addend: &addend[first * width..][..part.len()], target: part, factor });
        });
        self.give(target, out);
    }

    pub(super) fn select_rows(&mut self, pass: &Pass<'_>, input: ValueId, output: ValueId) {
        let width = self.model.graph.values[input.0 as usize].width;
        let mut out = self.take(output);
        let input = &self.values[input.0 as usize];
        for (row, from) in out.chunks_exact_mut(width).zip(pass.wanted()) {
            row.copy_from_slice(&input[from * width..][..width]);
        }
        self.give(output, out);
    }

    pub(super) fn scale(&mut self, rows: usize, value: ValueId, factor: f32) {
        let (workers, isa) = (self.workers(rows), self.isa);
        let width = self.model.graph.values[value.0 as usize].width;
        let values = &mut self.values[value.0 as usize][..rows * width];
        Self::each_row(&mut self.pool, workers, values, width, &|_, part| isa.run(Scale { values: part, factor }));
    }

    pub(super) fn softcap(&mut self, rows: usize, value: ValueId, cap: f32) {
        let (workers, isa) = (self.workers(rows), self.isa);
        let width = self.model.graph.values[value.0 as usize].width;
        let values = &mut self.values[value.0 as usize][..rows * width];
        Self::each_row(&mut self.pool, workers, values, width, &|_, part| isa.run(Softcap { values: part, cap }));
    }
}
