//! A model on its devices: each pass goes through the segments of the plan, and values are handed over in between.

use std::ops::Range;

use duan_backend::{Backend, CompileJob, Compiled, Limits, MatrixInputs, Packing, Pass};
use duan_model::Model;
use duan_model::graph::{Graph, ValueId};

use crate::error::Result;
use crate::event::DeviceMemory;
use crate::ledger::PageCopy;
use crate::plan::{Phase, Plan, Segment};
use crate::times::Marks;

/// A value that a device needs and another one has made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HandOver {
    from: usize,
    value: ValueId,
    width: usize,
    wanted_rows_only: bool,
}

/// A segment with what must arrive before it starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Step {
    device: usize,
    ops: Range<usize>,
    pub(crate) receives: Vec<HandOver>,
}

/// A device with its part of the model; devices without ops are not compiled.
pub(crate) struct Device {
    pub(crate) name: String,
    pub(crate) compiled: Box<dyn Compiled>,
}

/// The compiled devices of one plan. All decisions are made when it is built; running only follows the steps.
pub struct Runner {
    pub(crate) devices: Vec<Option<Device>>,
    pub(crate) prefill: Vec<Step>,
    pub(crate) decode: Vec<Step>,
    logits: ValueId,
    logits_device: usize,
    vocab_size: usize,
    /// How long everything takes, while that is noted.
    pub(crate) marks: Option<Marks>,
}

impl Runner {
    /// Compiles what the plan gives to each device. `backends` are in the order of [`Plan::devices`].
    ///
    /// # Errors
    /// When a device cannot compile its part.
    pub fn compile(
        model: &Model,
        backends: &[&dyn Backend],
        plan: &Plan,
        limits: &Limits,
        packing: Packing<'_>,
    ) -> Result<Self> {
        let mut devices = Vec::with_capacity(backends.len());
        for (index, backend) in backends.iter().enumerate() {
            let ops = plan.ops_of(index);
            if ops.is_empty() {
                devices.push(None);
                continue;
            }
            let compiled = backend.compile(&CompileJob { model, ops: &ops, limits: limits.clone(), packing })?;
            devices.push(Some(Device { name: backend.name().to_owned(), compiled }));
        }
        let prefill = steps(&model.graph, plan.segments(Phase::Prefill));
        let decode = steps(&model.graph, plan.segments(Phase::Decode));
        let logits_device = prefill.last().map_or(0, |step| step.device);
        let (logits, vocab_size) = (model.graph.logits, model.config.vocab_size);
        Ok(Self { devices, prefill, decode, logits, logits_device, vocab_size, marks: None })
    }

    /// Runs a pass and waits for it. A pass of one row is decode.
    ///
    /// # Errors
    /// When a device fails or the pass exceeds the limits.
    pub fn run(&mut self, pass: &Pass<'_>) -> Result<()> {
        let steps = if pass.rows() == 1 { &self.decode } else { &self.prefill };
        let begun = self.marks.as_ref().and_then(Marks::begin);
        let mut marks = if begun.is_some() { self.marks.as_mut() } else { None };
        for step in steps {
            for hand_over in &step.receives {
                let rows = if hand_over.wanted_rows_only { pass.wanted_rows() } else { pass.rows() };
                let (start_ns, numbers) = (now_ns(marks.as_deref()), rows * hand_over.width);
                copy_value(&mut self.devices, hand_over, step.device, numbers);
                if let Some(marks) = &mut marks {
                    marks.copied((hand_over.from, step.device), hand_over.value, numbers, start_ns);
                }
            }
            let (start_ns, compiled) = (now_ns(marks.as_deref()), compiled(&mut self.devices, step.device));
            let noted = compiled.observed_times().len();
            compiled.submit(pass, step.ops.clone())?;
            compiled.wait()?;
            if let Some(marks) = &mut marks {
                marks.ran(step.device, noted..compiled.observed_times().len(), start_ns);
            }
        }
        if let (Some(marks), Some(begun)) = (marks, begun) {
            marks.end(begun, pass.rows());
        }
        self.logits_device = steps.last().map_or(self.logits_device, |step| step.device);
        Ok(())
    }

    /// See [`Compiled::settle`].
    pub fn settle(&mut self) {
        self.devices.iter_mut().flatten().for_each(|device| device.compiled.settle());
    }

    /// The logits of the last pass's wanted rows `[rows, vocab_size]`.
    pub fn logits(&self, rows: usize) -> &[f32] {
        match &self.devices[self.logits_device] {
            Some(device) => device.compiled.value(self.logits, rows * self.vocab_size),
            None => &[],
        }
    }

    /// The device that runs all of the model.
    ///
    /// # Errors
    /// Where there are several.
    pub(crate) fn only_device(&mut self) -> Result<&mut dyn Compiled> {
        let mut devices = self.devices.iter_mut().flatten();
        match (devices.next(), devices.next()) {
            (Some(device), None) => Ok(&mut *device.compiled),
            _ => {
                let what = "the model is spread over several devices, and this needs one that runs all of it";
                Err(duan_backend::Error::new("engine", what).into())
            }
        }
    }

    /// See [`Compiled::observe_inputs`]; on every device.
    ///
    /// # Errors
    /// When a device cannot.
    pub fn observe_inputs(&mut self, on: bool) -> Result<()> {
        for device in self.devices.iter_mut().flatten() {
            device.compiled.observe_inputs(on)?;
        }
        Ok(())
    }

    /// What the devices summed up, see [`Compiled::observed_inputs`].
    pub fn observed_inputs(&self) -> Vec<MatrixInputs> {
        self.devices.iter().flatten().flat_map(|device| device.compiled.observed_inputs()).collect()
    }

    /// Copies a page on every device.
    pub fn copy_page(&mut self, copy: PageCopy) {
        for device in self.devices.iter_mut().flatten() {
            device.compiled.copy_page(copy.from, copy.to, copy.count);
        }
    }

    /// What each device holds.
    pub fn memory(&self) -> Vec<DeviceMemory> {
        let of = |device: &Device| {
            let memory = device.compiled.memory();
            DeviceMemory {
                device: device.name.clone(),
                weights_bytes: memory.weights_bytes,
                kv_bytes: memory.kv_bytes,
                scratch_bytes: memory.scratch_bytes,
            }
        };
        self.devices.iter().flatten().map(of).collect()
    }

    /// What each device has to say: its name and a line.
    pub fn warnings(&self) -> Vec<(String, String)> {
        let of = |device: &Device| {
            let lines = device.compiled.warnings().to_vec();
            let name = device.name.clone();
            lines.into_iter().map(move |line| (name.clone(), line))
        };
        self.devices.iter().flatten().flat_map(of).collect()
    }
}

impl std::fmt::Debug for Runner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Runner").field("prefill", &self.prefill).field("decode", &self.decode).finish_non_exhaustive()
    }
}

/// The time, where somebody notes it.
fn now_ns(marks: Option<&Marks>) -> u64 {
    marks.map_or(0, Marks::now_ns)
}

fn compiled(devices: &mut [Option<Device>], index: usize) -> &mut dyn Compiled {
    &mut *devices[index].as_mut().expect("a device that the plan uses was compiled").compiled
}

fn copy_value(devices: &mut [Option<Device>], hand_over: &HandOver, to: usize, length: usize) {
    let pair = devices.get_disjoint_mut([hand_over.from, to]);
    let [Some(from), Some(to)] = pair.expect("a value is handed over between two devices of the plan") else {
        unreachable!("a device that the plan uses was compiled")
    };
    let source = from.compiled.value(hand_over.value, length);
    to.compiled.value_mut(hand_over.value, length).copy_from_slice(source);
}

/// The segments with their hand-overs: every value that a segment reads before it writes it, where the newest version lies on
/// another device. A device that received a value keeps it until somebody writes a newer one.
fn steps(graph: &Graph, segments: &[Segment]) -> Vec<Step> {
    // Of each value: who wrote the newest version, and who has it.
    let mut newest: Vec<Option<(usize, Vec<usize>)>> = vec![None; graph.values.len()];
    let mut steps = Vec::with_capacity(segments.len());
    for segment in segments {
        let device = segment.device;
        let mut receives = Vec::new();
        for node in &graph.nodes[segment.ops.clone()] {
            for value in node.op.reads() {
                let Some((from, holders)) = &mut newest[value.0 as usize] else { continue };
                if !holders.contains(&device) {
                    holders.push(device);
                    let of = &graph.values[value.0 as usize];
                    let (width, wanted_rows_only) = (of.width, of.wanted_rows_only);
                    receives.push(HandOver { from: *from, value, width, wanted_rows_only });
                }
            }
            for value in node.op.writes() {
                newest[value.0 as usize] = Some((device, vec![device]));
            }
        }
        steps.push(Step { device, ops: segment.ops.clone(), receives });
    }
    steps
}

#[cfg(test)]
#[path = "run_tests.rs"]
mod tests;
