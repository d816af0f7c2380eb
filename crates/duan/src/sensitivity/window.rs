//! One window of text: read once by the model as it is, and then, for each matrix, from the op on that multiplies with it.

use duan_engine::KeptValues;
use duan_measure::quality::{Score, compare_rows, score_rows};
use duan_model::Model;
use duan_model::graph::Op;
use duan_model::weights::MatrixId;
use duan_quantize::mixed::{Trial, Trials};

use crate::error::Result;
use crate::eval::EvalError;
use crate::eval::subject::Running;

/// A matrix of the file that the model computes with.
pub(super) struct Used<'t> {
    pub(super) trial: &'t Trial,
    /// The first op that reads it.
    pub(super) node: usize,
    /// The matrices of the model that are (parts of) it.
    matrices: Vec<MatrixId>,
}

impl<'t> Used<'t> {
    /// Those of `trials` that the model computes with, in the order in which it does.
    pub(super) fn of(model: &Model, trials: &[&'t Trial]) -> Vec<Used<'t>> {
        let mut used: Vec<Used<'t>> = Vec::with_capacity(trials.len());
        for (node, read) in model.graph.nodes.iter().enumerate() {
            let matrices: Vec<MatrixId> = match &read.op {
                Op::Embed { table, .. } => vec![*table],
                Op::Linear { parts, .. } | Op::ExpertLinear { parts, .. } => {
                    parts.iter().map(|part| part.matrix).collect()
                }
                _ => Vec::new(),
            };
            for matrix in matrices {
                let name = model.weights.matrix(matrix).name();
                let Some(trial) = trials.iter().copied().find(|trial| trial.name == name) else { continue };
                match used.iter_mut().find(|used| used.trial.name == name) {
                    Some(used) if used.matrices.contains(&matrix) => {}
                    Some(used) => used.matrices.push(matrix),
                    None => used.push(Used { trial, node, matrices: vec![matrix] }),
                }
            }
        }
        used
    }
}

/// A window while matrices are measured on it, in the order in which the model computes with them.
pub(super) struct Window<'r> {
    running: &'r mut Running,
    model: &'r Model,
    /// Tokens of the window, and those at its end whose logits are compared.
    rows: (usize, usize),
    /// Logits of the model as it is [scored, vocab_size], and what they say.
    reference: (Vec<f32>, Vec<Score>),
    /// What stands before the op `node` of the model as it is.
    kept: KeptValues,
    node: usize,
    threads: usize,
}

impl<'r> Window<'r> {
    /// Reads the window.
    pub(super) fn begin(
        running: &'r mut Running,
        model: &'r Model,
        tokens: &[u32],
        scored: usize,
        threads: usize,
    ) -> Result<Self> {
        running.begin();
        running.pass(tokens, scored)?;
        let rows = (tokens.len(), scored);
        let logits = running.executor.logits(scored).to_vec();
        let kept = running.keep_values(rows, 0)?;
        let mut window = Self { running, model, rows, reference: (Vec::new(), Vec::new()), kept, node: 0, threads };
        let scores = window.scores(&logits)?;
        window.reference = (logits, scores);
        Ok(window)
    }

    /// Goes on to the op `node`, at which or behind which the window stands, with the model as it is.
    pub(super) fn advance(&mut self, node: usize) -> Result<()> {
        if node > self.node {
            self.running.rerun(self.rows, &self.kept, self.node..node)?;
            self.kept = self.running.keep_values(self.rows, node)?;
            self.node = node;
        }
        Ok(())
    }

    /// How far the logits move with the matrix, which the next op is the first to read, in the probe's format: the mean, in nats.
    pub(super) fn divergence(&mut self, trials: &Trials<'_>, used: &Used<'_>) -> Result<f64> {
        for &id in &used.matrices {
            let bytes = trials.perturbed(used.trial, self.model.weights.matrix(id), self.threads)?;
            self.running.executor.replace_matrix(id, Some(bytes.into()))?;
        }
        let ran = self.running.rerun(self.rows, &self.kept, self.node..self.model.graph.nodes.len());
        for &id in &used.matrices {
            self.running.executor.replace_matrix(id, None)?;
        }
        ran?;
        let logits = self.running.executor.logits(self.rows.1);
        let scores = self.scores(logits)?;
        let (own, of_own) = (&self.reference.0, &self.reference.1);
        let compared = compare_rows((own, of_own), (logits, &scores), self.threads);
        Ok(compared.iter().map(|row| row.divergence).sum::<f64>() / compared.len().max(1) as f64)
    }

    fn scores(&self, logits: &[f32]) -> Result<Vec<Score>> {
        // Which token came is not asked here.
        let targets = vec![0; self.rows.1];
        let scored = score_rows(logits, &targets, self.threads);
        let first = self.rows.0 - self.rows.1;
        let wrong = |row: usize| EvalError::NotFinite {
            model: self.running.about.model.clone(),
            window: 0,
            position: first + row,
        };
        Ok(scored.map_err(|not_finite| wrong(not_finite.row))?)
    }
}
