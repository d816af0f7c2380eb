//! Every single time as a trace, in the form that trace viewers open: the JSON of "Trace Event Format", as Chrome's about:tracing and
//! Perfetto (ui.perfetto.dev) read it.
//!
//! Written are complete events (`"ph": "X"`), which lie in each other on one track, and the names of tracks (`"ph": "M"`). One track is
//! the engine's: steps, in them passes, in them copies between devices, and the choice of the token. Each device has one: segments, in
//! them ops. Times are microseconds since the first step, with the nanoseconds behind the point.
//! Source: "Trace Event Format", Nduca and others, 2016.

use std::io::{self, Write};

use duan_engine::Phase;
use serde::Serialize;
use serde_json::{Value, json};

use super::figures::Sources;
use super::label;
use super::run::{RoundTimes, StepTimes, Times};

/// The number of the one process.
const PROCESS: u64 = 1;
/// The engine's track; those of devices follow.
const ENGINE: u64 = 1;

/// One event, with the format's names.
#[derive(Serialize)]
struct Event<'a> {
    name: &'a str,
    cat: &'a str,
    ph: &'a str,
    ts: f64,
    dur: f64,
    pid: u64,
    tid: u64,
    args: Value,
}

/// Writes all rounds that noted times.
///
/// # Errors
/// What `out` gives.
pub fn write_trace(out: &mut dyn Write, times: &Times, sources: Sources<'_>) -> io::Result<()> {
    let rounds = || times.noted.iter();
    let start_ns = rounds().flat_map(|round| &round.steps).map(|step| step.start_ns).min().unwrap_or(0);
    let mut devices: Vec<&str> = Vec::new();
    for segment in rounds().flat_map(|round| &round.passes).flat_map(|pass| &pass.segments) {
        if !devices.contains(&&*segment.device) {
            devices.push(&segment.device);
        }
    }
    out.write_all(b"{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n")?;
    let mut trace = Trace { out, devices, sources, start_ns, is_first: true };
    trace.tracks()?;
    for (index, round) in rounds().enumerate() {
        for step in &round.steps {
            trace.step(index, round, step)?;
        }
    }
    trace.out.write_all(b"\n]}\n")
}

struct Trace<'a> {
    out: &'a mut dyn Write,
    devices: Vec<&'a str>,
    sources: Sources<'a>,
    start_ns: u64,
    is_first: bool,
}

impl Trace<'_> {
    fn tracks(&mut self) -> io::Result<()> {
        let name = |what: &str, tid: u64, name: &str| json!({ "name": what, "ph": "M", "pid": PROCESS, "tid": tid, "args": { "name": name } });
        self.write(&name("process_name", ENGINE, "duan"))?;
        self.write(&name("thread_name", ENGINE, "engine"))?;
        for (index, device) in self.devices.clone().into_iter().enumerate() {
            self.write(&name("thread_name", ENGINE + 1 + index as u64, device))?;
        }
        Ok(())
    }

    fn step(&mut self, round: usize, times: &RoundTimes, step: &StepTimes) -> io::Result<()> {
        let (name, word) = match step.phase {
            Phase::Prefill => (format!("prefill of {} tokens at {}", step.tokens, step.position), "prefill"),
            Phase::Decode => (format!("token {}", step.position), "decode"),
        };
        let args = json!({ "round": round, "position": step.position, "tokens": step.tokens, "allocations": step.allocations });
        self.span(ENGINE, (&name, word), step.start_ns, step.ns(), args)?;
        for pass in &times.passes[step.passes.clone()] {
            self.span(ENGINE, ("pass", word), pass.start_ns, pass.ns, json!({ "rows": pass.rows }))?;
            for copy in &pass.copies {
                let args = json!({ "from": copy.from, "to": copy.to, "bytes": copy.bytes });
                let name = format!("copy of {}", copy.value);
                self.span(ENGINE, (&name, "copy"), copy.start_ns, copy.ns, args)?;
            }
            for segment in &pass.segments {
                self.segment(segment)?;
            }
        }
        let chosen_at = step.start_ns + step.fed_ns;
        self.span(ENGINE, ("choosing the token", "choice"), chosen_at, step.chosen_ns, json!({}))
    }

    fn segment(&mut self, segment: &duan_engine::SegmentTimes) -> io::Result<()> {
        let place = self.devices.iter().position(|device| *device == segment.device).unwrap_or(0);
        let track = ENGINE + 1 + place as u64;
        self.span(track, ("segment", "segment"), segment.start_ns, segment.ns, json!({ "ops": segment.ops.len() }))?;
        let model = self.sources.model;
        for time in &segment.ops {
            if time.ops.is_empty() {
                self.span(track, ("making the pass ready", "prepare"), time.start_ns, time.ns, json!({}))?;
                continue;
            }
            let (kinds, weights) = (label::kinds(model, &time.ops), label::weights(model, &time.ops));
            let name = if weights.is_empty() { kinds.clone() } else { format!("{kinds} {weights}") };
            let kernels: Vec<String> =
                time.ops.clone().flat_map(|op| (self.sources.kernels)(&segment.device, op)).collect();
            let args = json!({
                "layer": model.graph.nodes[time.ops.start].layer,
                "first_op": time.ops.start,
                "ops": time.ops.len(),
                "kernel": kernels.join(", "),
            });
            self.span(track, (&name, &kinds), time.start_ns, time.ns, args)?;
        }
        Ok(())
    }

    fn span(&mut self, tid: u64, (name, cat): (&str, &str), start_ns: u64, ns: u64, args: Value) -> io::Result<()> {
        let us = |ns: u64| ns as f64 / 1000.0;
        let ts = us(start_ns.saturating_sub(self.start_ns));
        self.write(&Event { name, cat, ph: "X", ts, dur: us(ns), pid: PROCESS, tid, args })
    }

    fn write(&mut self, event: &impl Serialize) -> io::Result<()> {
        if !std::mem::replace(&mut self.is_first, false) {
            self.out.write_all(b",\n")?;
        }
        Ok(serde_json::to_writer(&mut *self.out, event)?)
    }
}
