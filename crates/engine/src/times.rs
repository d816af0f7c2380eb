//! How long passes take: what devices note of their ops, and what is done between devices.
//!
//! Everything has its room before the first pass, so that nothing is allocated while passes run.

use std::ops::Range;

use duan_backend::{Clock, OpTime};
use duan_model::graph::{Graph, ValueId};

use crate::error::Result;
use crate::run::Runner;

/// One pass, and what was done in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PassTimes {
    /// Tokens of the pass.
    pub rows: usize,
    /// When it began, by the clock that was given.
    pub start_ns: u64,
    /// How long it took.
    pub ns: u64,
    /// Values that went from one device to another, in order.
    pub copies: Vec<CopyTime>,
    /// What devices ran without another one between, in order.
    pub segments: Vec<SegmentTimes>,
}

/// A value that went from one device to another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopyTime {
    /// The device that had made it.
    pub from: String,
    /// The device that needed it.
    pub to: String,
    /// The value's name.
    pub value: &'static str,
    /// How much that was.
    pub bytes: u64,
    /// When it began.
    pub start_ns: u64,
    /// How long it took.
    pub ns: u64,
}

/// Consecutive ops of a pass on one device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SegmentTimes {
    /// The device.
    pub device: String,
    /// When it was called.
    pub start_ns: u64,
    /// How long it took until all was done.
    pub ns: u64,
    /// What the device noted, see [`OpTime`].
    pub ops: Vec<OpTime>,
}

/// What is noted while passes run.
#[derive(Debug)]
pub(crate) struct Marks {
    clock: Clock,
    /// How many passes there is room for.
    room: usize,
    passes: Vec<PassMark>,
    segments: Vec<SegmentMark>,
    copies: Vec<CopyMark>,
}

#[derive(Debug)]
struct PassMark {
    rows: usize,
    span: Span,
    segments: Range<usize>,
    copies: Range<usize>,
}

#[derive(Debug)]
struct SegmentMark {
    device: usize,
    span: Span,
    /// Which of the device's times.
    times: Range<usize>,
}

#[derive(Debug)]
struct CopyMark {
    from: usize,
    to: usize,
    value: ValueId,
    bytes: u64,
    span: Span,
}

#[derive(Debug, Clone, Copy)]
struct Span {
    start_ns: u64,
    ns: u64,
}

/// A pass that has begun.
pub(crate) struct Begun {
    start_ns: u64,
    segments: usize,
    copies: usize,
}

impl Marks {
    /// Room for so many passes of at most so many segments and copies.
    pub(crate) fn new(clock: Clock, passes: usize, segments: usize, copies: usize) -> Self {
        let room = |each: usize| passes.saturating_mul(each);
        Self {
            clock,
            room: passes,
            passes: Vec::with_capacity(passes),
            segments: Vec::with_capacity(room(segments)),
            copies: Vec::with_capacity(room(copies)),
        }
    }

    pub(crate) fn now_ns(&self) -> u64 {
        self.clock.now_ns()
    }

    /// A pass begins; nothing where there is no room for it.
    pub(crate) fn begin(&self) -> Option<Begun> {
        let (segments, copies) = (self.segments.len(), self.copies.len());
        (self.passes.len() < self.room).then(|| Begun { start_ns: self.now_ns(), segments, copies })
    }

    /// A value was copied since `start_ns`.
    pub(crate) fn copied(&mut self, (from, to): (usize, usize), value: ValueId, numbers: usize, start_ns: u64) {
        let bytes = (numbers * size_of::<f32>()) as u64;
        let span = self.since(start_ns);
        self.copies.push(CopyMark { from, to, value, bytes, span });
    }

    /// A device ran since `start_ns`, and noted these of its times.
    pub(crate) fn ran(&mut self, device: usize, times: Range<usize>, start_ns: u64) {
        let span = self.since(start_ns);
        self.segments.push(SegmentMark { device, span, times });
    }

    /// The pass is over.
    pub(crate) fn end(&mut self, begun: Begun, rows: usize) {
        let (segments, copies) = (begun.segments..self.segments.len(), begun.copies..self.copies.len());
        let span = self.since(begun.start_ns);
        self.passes.push(PassMark { rows, span, segments, copies });
    }

    fn since(&self, start_ns: u64) -> Span {
        Span { start_ns, ns: self.now_ns().saturating_sub(start_ns) }
    }

    /// All passes, with what devices noted and are called.
    fn told<'a>(
        &self,
        graph: &Graph,
        name: impl Fn(usize) -> String,
        times: impl Fn(usize) -> &'a [OpTime],
    ) -> Vec<PassTimes> {
        let copy = |&CopyMark { from, to, value, bytes, span: Span { start_ns, ns } }: &CopyMark| {
            let value = graph.values[value.0 as usize].name;
            CopyTime { from: name(from), to: name(to), value, bytes, start_ns, ns }
        };
        let segment = |mark: &SegmentMark| SegmentTimes {
            device: name(mark.device),
            start_ns: mark.span.start_ns,
            ns: mark.span.ns,
            ops: times(mark.device)[mark.times.clone()].to_vec(),
        };
        let pass = |mark: &PassMark| PassTimes {
            rows: mark.rows,
            start_ns: mark.span.start_ns,
            ns: mark.span.ns,
            copies: self.copies[mark.copies.clone()].iter().map(copy).collect(),
            segments: self.segments[mark.segments.clone()].iter().map(segment).collect(),
        };
        self.passes.iter().map(pass).collect()
    }
}

impl Runner {
    /// Notes how long everything takes from now on, anew, by this clock, with room for `passes` passes; or no more (`None`).
    ///
    /// # Errors
    /// When a device cannot; then nothing is noted.
    pub fn observe_times(&mut self, clock: Option<Clock>, passes: usize) -> Result<()> {
        self.marks = None;
        for index in 0..self.devices.len() {
            let Some(device) = &mut self.devices[index] else { continue };
            if let Err(error) = device.compiled.observe_times(clock.clone(), passes) {
                // Those before must not go on.
                for device in self.devices[..index].iter_mut().flatten() {
                    device.compiled.observe_times(None, 0)?;
                }
                return Err(error.into());
            }
        }
        let most = |count: fn(&[crate::run::Step]) -> usize| count(&self.prefill).max(count(&self.decode));
        let segments = most(|steps| steps.len());
        let copies = most(|steps| steps.iter().map(|step| step.receives.len()).sum());
        self.marks = clock.map(|clock| Marks::new(clock, passes, segments, copies));
        Ok(())
    }

    /// What was noted since [`Runner::observe_times`].
    pub fn observed_times(&self, graph: &Graph) -> Vec<PassTimes> {
        let Some(marks) = &self.marks else { return Vec::new() };
        let device = |index: usize| self.devices[index].as_ref();
        let name = |index| device(index).map_or_else(String::new, |device| device.name.clone());
        marks.told(graph, name, |index| device(index).map_or(&[], |device| device.compiled.observed_times()))
    }

    /// For people: what computes an op on a device of this name, see [`duan_backend::Compiled::kernels`].
    pub fn kernels(&self, device: &str, op: usize) -> Vec<String> {
        let found = self.devices.iter().flatten().find(|found| found.name == device);
        found.map(|device| device.compiled.kernels(op)).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use duan_backend::{Backend, KvFormat, Limits, PAGE_TOKENS, Packing, Pass, Precision, Reference, Refusal};
    use duan_model::Model;
    use duan_model::gguf::GgufFile;

    use super::*;
    use crate::plan::{Offer, make_plan};

    /// Two reference devices, the second of which runs only ops `second`, through a prompt of three tokens and one more.
    fn times(second: Range<usize>, passes: usize) -> (Model, Vec<PassTimes>) {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../backend/tests/fixtures/smollm2/model.gguf");
        let model = Model::from_gguf(&GgufFile::open(std::path::Path::new(path)).unwrap()).unwrap();
        let refuses = |device: usize, op: usize| second.contains(&op) == (device == 0);
        let offers = (0..2).map(|device| {
            let refused = (0..model.graph.nodes.len()).filter(|&op| refuses(device, op));
            let refusals = refused.map(|op| Refusal { op, reason: "not its turn".into() }).collect();
            Offer { device: format!("reference {device}"), refusals, last_resort: false }
        });
        let plan = make_plan(&model.graph, &offers.collect::<Vec<_>>(), true).unwrap();
        let limits =
            Limits { max_rows: 4, max_wanted_rows: 1, pages: 1, context: PAGE_TOKENS, kv_format: KvFormat::F16 };
        let reference = Reference::new(Precision::Coded);
        let backends: [&dyn Backend; 2] = [&reference, &reference];
        let mut runner = Runner::compile(&model, &backends, &plan, &limits, Packing::InMemory).unwrap();
        let now_ns = AtomicU64::new(0);
        let clock = Clock::made_up(move || now_ns.fetch_add(1, Ordering::Relaxed));
        runner.observe_times(Some(clock), passes).unwrap();
        for (start, tokens) in [(0, &[1, 2, 3][..]), (3, &[4])] {
            let spans = [duan_backend::Span { sequence: 0, start, count: tokens.len(), wanted: 1, pages: &[0] }];
            runner.run(&Pass { tokens, spans: &spans }).unwrap();
        }
        let times = runner.observed_times(&model.graph);
        runner.observe_times(None, 0).unwrap();
        assert!(runner.observed_times(&model.graph).is_empty());
        (model, times)
    }

    #[test]
    fn every_op_and_every_copy_has_its_time() {
        let (model, times) = times(5..7, 2);
        let nodes = model.graph.nodes.len();
        assert_eq!(times.iter().map(|pass| pass.rows).collect::<Vec<_>>(), [3, 1]);
        for pass in &times {
            let ops: Vec<usize> =
                pass.segments.iter().flat_map(|segment| &segment.ops).flat_map(|time| time.ops.clone()).collect();
            assert_eq!(ops, (0..nodes).collect::<Vec<_>>());
            assert_eq!(pass.segments.iter().map(|segment| segment.ops.len()).collect::<Vec<_>>(), [5, 2, nodes - 7]);
            assert!(!pass.copies.is_empty());
            for copy in &pass.copies {
                let value = model.graph.values.iter().find(|value| value.name == copy.value).unwrap();
                assert_eq!(copy.bytes, (pass.rows * value.width * 4) as u64);
                assert_eq!(copy.ns, 1);
            }
            // The clock goes on by one with each read: a read where a segment begins, one where its first op does, one behind each op,
            // one where it ends; two for each copy and for the pass.
            for segment in &pass.segments {
                assert_eq!(segment.ns, segment.ops.len() as u64 + 2);
                assert!(segment.ops.iter().all(|time| time.ns == 1));
                assert_eq!(segment.ops[0].start_ns, segment.start_ns + 1);
            }
            let reads = pass.segments.iter().map(|segment| segment.ns + 1).sum::<u64>() + 2 * pass.copies.len() as u64;
            assert_eq!(pass.ns, reads + 1);
        }
        assert_eq!(times[1].start_ns, times[0].start_ns + times[0].ns + 1);
    }

    #[test]
    fn passes_without_room_are_not_told() {
        let (_, times) = times(0..0, 1);
        assert_eq!(times.len(), 1);
        assert_eq!((times[0].rows, times[0].segments.len(), times[0].copies.len()), (3, 1, 0));
    }
}
