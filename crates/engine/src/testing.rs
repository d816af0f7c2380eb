//! For tests without a model: a device that computes the next token from the history that it finds in its own pages.

use std::collections::HashSet;
use std::ops::Range;
use std::sync::{Arc, Mutex};

use duan_backend::{Backend, CompileJob, Compiled, Limits, MemoryUse, PAGE_TOKENS, PageId, Pass, Refusal};
use duan_model::Model;
use duan_model::config::{ModelConfig, NormConfig, NormKind};
use duan_model::graph::{Graph, Node, Op, StateConfig, Value, ValueId};
use duan_model::weights::{MatrixId, Weights};
use half::f16;

use crate::{Executor, Offer, Plan, Sizes, make_plan};

/// Tokens of the scripted model.
pub(crate) const VOCAB: usize = 64;

/// What a scripted device was asked for: start, tokens and wanted rows of each pass.
pub(crate) type Passes = Arc<Mutex<Vec<(usize, Vec<u32>, usize)>>>;

/// What stands for a forward pass: the next token of a history.
pub(crate) type NextToken = fn(&[u32]) -> u32;

/// A device whose keys are token ids: row by row it stores the token in its page, reads the whole history back through the
/// pages, and gives the logit 1 to the next token of that history. A page that was mapped, shared or copied wrongly
/// changes the answer.
pub(crate) struct Scripted {
    pub(crate) next: NextToken,
    pub(crate) passes: Passes,
    pub(crate) memory_available_bytes: Option<u64>,
    /// The pass with this index fails.
    pub(crate) failing_pass: Option<usize>,
}

impl Scripted {
    pub(crate) fn new(next: NextToken) -> Self {
        Self { next, passes: Passes::default(), memory_available_bytes: None, failing_pass: None }
    }

    /// Loaded with a context and a number of rows per pass.
    pub(crate) fn load(&self, context: usize, max_rows: usize) -> Executor {
        self.load_model(&scripted_model(), context, max_rows)
    }

    /// The same with a model that keeps state beside keys and values.
    pub(crate) fn load_with_state(&self, context: usize, max_rows: usize) -> Executor {
        let state = StateConfig { layer: 0, width: 1 };
        self.load_model(&scripted_model_with(vec![state]), context, max_rows)
    }

    fn load_model(&self, model: &Model, context: usize, max_rows: usize) -> Executor {
        let sizes = Sizes { context: Some(context), max_rows, ..Sizes::default() };
        Executor::load(model, &[self], &self.plan(), &sizes).unwrap()
    }

    pub(crate) fn plan(&self) -> Plan {
        let offer = Offer { device: "scripted".into(), refusals: Vec::new(), last_resort: false };
        make_plan(&scripted_model().graph, &[offer], true).unwrap()
    }
}

/// A model of one value and no weights; 4096 positions.
pub(crate) fn scripted_model() -> Model {
    scripted_model_with(Vec::new())
}

fn scripted_model_with(states: Vec<StateConfig>) -> Model {
    let stream = ValueId(0);
    let logits = ValueId(1);
    let value = |name, wanted_rows_only| Value { name, width: VOCAB, wanted_rows_only };
    let node = |op| Node { layer: None, op };
    let graph = Graph {
        nodes: vec![
            node(Op::Embed { table: MatrixId(0), scale: 1.0, output: stream }),
            node(Op::SelectRows { input: stream, output: logits }),
        ],
        values: vec![value("stream", false), value("logits", true)],
        caches: Vec::new(),
        states,
        logits,
    };
    let config = ModelConfig {
        family: "scripted",
        name: None,
        vocab_size: VOCAB,
        hidden_size: VOCAB,
        context_length: 4096,
        embedding_scale: 1.0,
        norm: NormConfig { kind: NormKind::Rms, epsilon: 1e-5 },
        ropes: Vec::new(),
        layers: Vec::new(),
        final_norm: "output_norm",
        tied_head: true,
        logit_scale: 1.0,
        logit_softcap: None,
    };
    let weights = Arc::new(Weights::default());
    Model { config: Arc::new(config), graph: Arc::new(graph), weights, unused_tensors: Vec::new() }
}

impl Backend for Scripted {
    fn name(&self) -> &'static str {
        "scripted"
    }

    fn description(&self) -> String {
        "a device for tests".into()
    }

    fn memory_available_bytes(&self) -> Option<u64> {
        self.memory_available_bytes
    }

    fn refusals(&self, _model: &Model) -> Vec<Refusal> {
        Vec::new()
    }

    fn compile(&self, job: &CompileJob<'_>) -> duan_backend::Result<Box<dyn Compiled>> {
        Ok(Box::new(ScriptedModel {
            warnings: vec!["it is only a script".into()],
            next: self.next,
            passes: self.passes.clone(),
            failing_pass: self.failing_pass,
            limits: job.limits.clone(),
            kept: vec![None; job.limits.pages * PAGE_TOKENS],
            logits: vec![0.0; job.limits.max_wanted_rows * VOCAB],
        }))
    }
}

struct ScriptedModel {
    warnings: Vec<String>,
    next: NextToken,
    passes: Passes,
    failing_pass: Option<usize>,
    limits: Limits,
    kept: Vec<Option<u32>>,
    logits: Vec<f32>,
}

impl ScriptedModel {
    fn run(&mut self, pass: &Pass<'_>) {
        let wanted: HashSet<usize> = pass.wanted().collect();
        let mut done = 0;
        for (first, span) in pass.spans_with_rows() {
            let slot =
                |position: usize| span.pages[position / PAGE_TOKENS] as usize * PAGE_TOKENS + position % PAGE_TOKENS;
            for row in 0..span.count {
                let position = span.start + row;
                self.kept[slot(position)] = Some(pass.tokens[first + row]);
                if wanted.contains(&(first + row)) {
                    let history =
                        (0..=position).map(|position| self.kept[slot(position)].expect("a position was never written"));
                    let next = (self.next)(&history.collect::<Vec<_>>());
                    let logits = &mut self.logits[done * VOCAB..][..VOCAB];
                    logits.fill(0.0);
                    // A token outside of the vocabulary stands for a row that is no number.
                    match logits.get_mut(next as usize) {
                        Some(logit) => *logit = 1.0,
                        None => logits[5] = f32::NAN,
                    }
                    done += 1;
                }
            }
        }
    }
}

impl Compiled for ScriptedModel {
    fn submit(&mut self, pass: &Pass<'_>, _ops: Range<usize>) -> duan_backend::Result<()> {
        pass.check("scripted", &self.limits, VOCAB)?;
        let mut passes = self.passes.lock().unwrap();
        passes.push((pass.spans[0].start, pass.tokens.to_vec(), pass.wanted_rows()));
        if self.failing_pass == Some(passes.len() - 1) {
            return Err(duan_backend::Error::new("scripted", "unplugged"));
        }
        drop(passes);
        self.run(pass);
        Ok(())
    }

    fn wait(&mut self) -> duan_backend::Result<()> {
        Ok(())
    }

    fn value(&self, _value: ValueId, length: usize) -> &[f32] {
        &self.logits[..length]
    }

    fn value_mut(&mut self, _value: ValueId, length: usize) -> &mut [f32] {
        &mut self.logits[..length]
    }

    fn read_kv(&self, _cache: usize, _page: PageId, _positions: Range<usize>, _keys: &mut [f16], _values: &mut [f16]) {
        unreachable!("the scripted model has no caches")
    }

    fn write_kv(&mut self, _cache: usize, _page: PageId, _positions: Range<usize>, _keys: &[f16], _values: &[f16]) {
        unreachable!("the scripted model has no caches")
    }

    fn read_state(&self, _state: usize, _page: PageId, _numbers: &mut [f32]) {
        unreachable!("nobody hands the state of the scripted model over")
    }

    fn write_state(&mut self, _state: usize, _page: PageId, _numbers: &[f32]) {
        unreachable!("nobody hands the state of the scripted model over")
    }

    fn copy_page(&mut self, from: PageId, to: PageId, count: usize) {
        let from = from as usize * PAGE_TOKENS;
        let to = to as usize * PAGE_TOKENS;
        // Only what is valid is copied; the rest of the page must not be read before it is written.
        self.kept[to..to + PAGE_TOKENS].fill(None);
        self.kept.copy_within(from..from + count, to);
    }

    fn warnings(&self) -> &[String] {
        &self.warnings
    }

    fn memory(&self) -> MemoryUse {
        MemoryUse { weights_bytes: 1, kv_bytes: 2, scratch_bytes: 3 }
    }
}
