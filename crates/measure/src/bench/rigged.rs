//! A device whose passes take a known time, for tests of what is made of times.
//!
//! It computes what the reference computes. How time passes is said from outside: a number that only the device moves, so that every
//! figure is exact, or the system's clock, with the device waiting as long.

use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use duan_backend::{Backend, CompileJob, Compiled, MemoryUse, PageId, Pass, Precision, Reference, Refusal};
use duan_model::Model;
use duan_model::graph::ValueId;
use half::f16;

/// How long things take, in nanoseconds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Delays {
    /// Compiling a model.
    pub(crate) load_ns: u64,
    /// A pass of several tokens.
    pub(crate) batch_ns: u64,
    /// Each token of such a pass.
    pub(crate) batch_token_ns: u64,
    /// A pass of one token.
    pub(crate) token_ns: u64,
    /// For each position before that token.
    pub(crate) position_ns: u64,
}

/// Lets the time go on to so many nanoseconds after a moment: what was really computed since then is part of it.
pub(crate) type PassBy = Arc<dyn Fn(Instant, u64) + Send + Sync>;

/// The reference, with delays.
pub(crate) struct Rigged {
    inner: Reference,
    delays: Delays,
    pass_by: PassBy,
}

impl Rigged {
    /// One with these delays.
    pub(crate) fn new(delays: Delays, pass_by: PassBy) -> Rigged {
        Rigged { inner: Reference::new(Precision::Coded), delays, pass_by }
    }
}

impl Backend for Rigged {
    fn name(&self) -> &'static str {
        "rigged"
    }

    fn description(&self) -> String {
        "the reference, with known delays".to_owned()
    }

    fn memory_available_bytes(&self) -> Option<u64> {
        None
    }

    fn refusals(&self, model: &Model) -> Vec<Refusal> {
        self.inner.refusals(model)
    }

    fn compile(&self, job: &CompileJob<'_>) -> duan_backend::Result<Box<dyn Compiled>> {
        let start = Instant::now();
        let inner = self.inner.compile(job)?;
        (self.pass_by)(start, self.delays.load_ns);
        Ok(Box::new(RiggedModel { inner, delays: self.delays, pass_by: self.pass_by.clone() }))
    }
}

struct RiggedModel {
    inner: Box<dyn Compiled>,
    delays: Delays,
    pass_by: PassBy,
}

impl RiggedModel {
    fn delay_ns(&self, pass: &Pass<'_>) -> u64 {
        let Delays { batch_ns, batch_token_ns, token_ns, position_ns, .. } = self.delays;
        match (pass.tokens.len(), pass.spans) {
            (1, [span, ..]) => token_ns + position_ns * span.start as u64,
            (tokens, _) => batch_ns + batch_token_ns * tokens as u64,
        }
    }
}

impl Compiled for RiggedModel {
    fn submit(&mut self, pass: &Pass<'_>, ops: Range<usize>) -> duan_backend::Result<()> {
        let start = Instant::now();
        self.inner.submit(pass, ops)?;
        (self.pass_by)(start, self.delay_ns(pass));
        Ok(())
    }

    fn wait(&mut self) -> duan_backend::Result<()> {
        self.inner.wait()
    }

    fn value(&self, value: ValueId, length: usize) -> &[f32] {
        self.inner.value(value, length)
    }

    fn value_mut(&mut self, value: ValueId, length: usize) -> &mut [f32] {
        self.inner.value_mut(value, length)
    }

    fn read_kv(&self, cache: usize, page: PageId, positions: Range<usize>, keys: &mut [f16], values: &mut [f16]) {
        self.inner.read_kv(cache, page, positions, keys, values);
    }

    fn write_kv(&mut self, cache: usize, page: PageId, positions: Range<usize>, keys: &[f16], values: &[f16]) {
        self.inner.write_kv(cache, page, positions, keys, values);
    }

    fn read_state(&self, state: usize, page: PageId, numbers: &mut [f32]) {
        self.inner.read_state(state, page, numbers);
    }

    fn write_state(&mut self, state: usize, page: PageId, numbers: &[f32]) {
        self.inner.write_state(state, page, numbers);
    }

    fn copy_page(&mut self, from: PageId, to: PageId, count: usize) {
        self.inner.copy_page(from, to, count);
    }

    fn memory(&self) -> MemoryUse {
        self.inner.memory()
    }
}
