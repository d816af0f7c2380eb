//! What was written, as data: for tables and for programs.

use serde::Serialize;

use crate::coding::Loss;
use crate::mixed::{Budget, Mixture};
use crate::plan::{Plan, PlannedTensor, Reason, Target};
use crate::roles::layer;

/// A quantized file.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// Name of the mix.
    pub format: String,
    /// Length of the file.
    pub bytes: u64,
    /// Bits of all tensors together for each of their weights.
    pub bits_per_weight: f64,
    /// Weights of all tensors.
    pub weights: u64,
    /// Formats of the source that were quantized already: what was lost in them stays lost, and no error here counts it.
    pub requantized_from: Vec<&'static str>,
    /// All tensors.
    pub tensors: Vec<TensorReport>,
    /// Formats that gave way because rows do not divide into their blocks.
    pub fallbacks: Vec<Fallen>,
    /// The importance, where there was one.
    pub importance: Option<ImportanceReport>,
    /// The budget and what is expected, where formats were found by measuring.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub measured: Option<MeasuredReport>,
}

/// What formats that were found by measuring are to keep to, and what they are expected to do.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct MeasuredReport {
    /// The budget.
    pub budget: Budget,
    /// Whether it had room for the best format of every matrix.
    pub has_room: bool,
    /// The sum of what matrices are expected to move the output: Kullback-Leibler divergence in nats.
    pub divergence: f64,
}

/// One tensor.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TensorReport {
    /// Its name.
    pub name: String,
    /// Its layer, where it is in one.
    pub layer: Option<u32>,
    /// Its dims, the fastest first.
    pub dims: Vec<u64>,
    /// The type it had.
    pub from: String,
    /// The type it has.
    pub format: String,
    /// What chose it: `mix`, `recipe`, `measured`, `keep` or `untouched`.
    pub chosen_by: &'static str,
    /// Weights.
    pub weights: u64,
    /// Bytes.
    pub bytes: u64,
    /// Root mean square of the errors against the source, relative to that of the weights; 0 for a copy.
    pub error: f64,
    /// The same with each column as its importance says; none where there is no importance.
    pub weighted_error: Option<f64>,
    /// How far the output moved when it alone was in [`crate::mixed::PROBE`], in nats, where that was measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sensitivity: Option<f64>,
    /// How far the output is expected to move with it in its format, likewise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub divergence: Option<f64>,
    #[serde(skip)]
    loss: Loss,
}

/// Formats that gave way, and how often.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Fallen {
    /// What was wanted.
    pub from: &'static str,
    /// What took its place.
    pub to: String,
    /// Weights of a row.
    pub columns: u64,
    /// Tensors.
    pub tensors: usize,
}

/// What became of the importance.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct ImportanceReport {
    /// The file's name.
    pub file: String,
    /// Matrices, each expert for itself, that have an entry.
    pub slices: u64,
    /// Those whose entry could be used; the others were quantized without.
    pub used: u64,
    /// One line for each tensor that has an entry which could not be used.
    pub faults: Vec<String>,
    /// Matrices without an entry.
    pub missing: Vec<String>,
}

/// All tensors of one format.
#[derive(Debug, Clone, PartialEq)]
pub struct FormatRow {
    /// The format.
    pub format: String,
    /// Tensors.
    pub tensors: usize,
    /// Weights.
    pub weights: u64,
    /// Bytes.
    pub bytes: u64,
    /// As [`TensorReport::error`], of all together.
    pub error: f64,
}

/// All tensors of one layer.
#[derive(Debug, Clone, PartialEq)]
pub struct LayerRow {
    /// The layer, or none for tensors outside of layers.
    pub layer: Option<u32>,
    /// A tensor's name, for one outside of layers.
    pub name: Option<String>,
    /// Formats and how many matrices have each, the most frequent first.
    pub formats: Vec<(String, usize)>,
    /// Weights.
    pub weights: u64,
    /// Bytes.
    pub bytes: u64,
    /// As [`TensorReport::error`], of all together.
    pub error: f64,
    /// The sum of [`TensorReport::sensitivity`], where that was measured.
    pub sensitivity: Option<f64>,
    /// The sum of [`TensorReport::divergence`], likewise.
    pub divergence: Option<f64>,
}

/// Root mean square of errors, relative to that of weights.
fn relative(error: f64, weight: f64) -> f64 {
    if weight > 0.0 { (error / weight).sqrt() } else { 0.0 }
}

/// Bits for each weight.
fn bits(bytes: u64, weights: u64) -> f64 {
    if weights > 0 { bytes as f64 * 8.0 / weights as f64 } else { 0.0 }
}

impl Report {
    pub(crate) fn new(plan: &Plan, losses: &[Loss], file_bytes: u64, importance: Option<ImportanceReport>) -> Report {
        let tensors: Vec<TensorReport> = plan
            .tensors
            .iter()
            .zip(losses)
            .map(|(tensor, loss)| row(plan, tensor, loss, importance.is_some()))
            .collect();
        Report {
            format: plan.format.clone(),
            bytes: file_bytes,
            bits_per_weight: bits(plan.bytes(), plan.weights()),
            weights: plan.weights(),
            requantized_from: plan.requantized_from().iter().map(|format| format.name).collect(),
            tensors,
            fallbacks: fallbacks(plan),
            importance,
            measured: plan.measured.as_ref().map(|mixture| {
                let Mixture { budget, has_room, divergence, .. } = *mixture;
                MeasuredReport { budget, has_room, divergence }
            }),
        }
    }

    /// Tensors by format, the most bytes first.
    pub fn by_format(&self) -> Vec<FormatRow> {
        let mut rows: Vec<(FormatRow, Loss)> = Vec::new();
        for tensor in &self.tensors {
            let at = rows.iter().position(|row| row.0.format == tensor.format).unwrap_or_else(|| {
                let format = tensor.format.clone();
                let row = FormatRow { format, tensors: 0, weights: 0, bytes: 0, error: 0.0 };
                rows.push((row, Loss::default()));
                rows.len() - 1
            });
            let (row, loss) = &mut rows[at];
            row.tensors += 1;
            row.weights += tensor.weights;
            row.bytes += tensor.bytes;
            loss.add(&tensor.loss);
            row.error = relative(loss.error, loss.weight);
        }
        let mut rows: Vec<FormatRow> = rows.into_iter().map(|row| row.0).collect();
        rows.sort_by_key(|row| std::cmp::Reverse(row.bytes));
        rows
    }

    /// Layers in their order, before them the tensors that are in none.
    pub fn by_layer(&self) -> Vec<LayerRow> {
        let mut rows: Vec<(LayerRow, Loss)> = Vec::new();
        for tensor in &self.tensors {
            let known = rows.iter().position(|row| tensor.layer.is_some() && row.0.layer == tensor.layer);
            let at = known.unwrap_or_else(|| {
                let name = tensor.layer.is_none().then(|| tensor.name.clone());
                let row = LayerRow {
                    layer: tensor.layer,
                    name,
                    formats: Vec::new(),
                    weights: 0,
                    bytes: 0,
                    error: 0.0,
                    sensitivity: None,
                    divergence: None,
                };
                rows.push((row, Loss::default()));
                rows.len() - 1
            });
            let (row, loss) = &mut rows[at];
            row.weights += tensor.weights;
            row.bytes += tensor.bytes;
            loss.add(&tensor.loss);
            row.error = relative(loss.error, loss.weight);
            let sum =
                |sum: &mut Option<f64>, own: Option<f64>| *sum = own.map_or(*sum, |own| Some(sum.unwrap_or(0.0) + own));
            sum(&mut row.sensitivity, tensor.sensitivity);
            sum(&mut row.divergence, tensor.divergence);
            // Vectors are few bytes, and would stand in every row.
            if tensor.chosen_by != UNTOUCHED || row.name.is_some() {
                match row.formats.iter_mut().find(|format| format.0 == tensor.format) {
                    Some(format) => format.1 += 1,
                    None => row.formats.push((tensor.format.clone(), 1)),
                }
            }
        }
        let mut rows: Vec<LayerRow> = rows.into_iter().map(|row| row.0).collect();
        rows.iter_mut().for_each(|row| row.formats.sort_by_key(|format| std::cmp::Reverse(format.1)));
        rows.sort_by_key(|row| row.layer);
        rows
    }
}

impl FormatRow {
    /// Bits for each weight.
    pub fn bits_per_weight(&self) -> f64 {
        bits(self.bytes, self.weights)
    }
}

impl LayerRow {
    /// Bits for each weight.
    pub fn bits_per_weight(&self) -> f64 {
        bits(self.bytes, self.weights)
    }
}

const UNTOUCHED: &str = "untouched";

fn row(plan: &Plan, tensor: &PlannedTensor, loss: &Loss, has_importance: bool) -> TensorReport {
    let is_coded = tensor.target != Target::Copy;
    let from = tensor.source.type_name().into_owned();
    let measured = plan.measured.as_ref().and_then(|mixture| mixture.tensors.get(&tensor.source.name));
    TensorReport {
        name: tensor.source.name.clone(),
        layer: layer(&tensor.source.name),
        dims: tensor.source.dims.clone(),
        format: tensor.format().map_or_else(|| from.clone(), |format| format.name.to_owned()),
        from,
        chosen_by: match tensor.reason {
            Reason::Untouched => UNTOUCHED,
            Reason::Mix => "mix",
            Reason::Recipe => "recipe",
            Reason::Measured => "measured",
            Reason::Keep(_) => "keep",
        },
        weights: tensor.source.elements(),
        bytes: tensor.bytes,
        error: relative(loss.error, loss.weight),
        weighted_error: (has_importance && is_coded).then(|| relative(loss.weighted_error, loss.weighted_weight)),
        sensitivity: measured.map(|measured| measured.sensitivity),
        divergence: measured.map(|measured| measured.divergence),
        loss: *loss,
    }
}

fn fallbacks(plan: &Plan) -> Vec<Fallen> {
    let mut rows: Vec<Fallen> = Vec::new();
    for tensor in &plan.tensors {
        let Some((from, to)) = tensor.fallback_from.zip(tensor.format()) else { continue };
        let columns = tensor.columns();
        match rows.iter_mut().find(|row| (row.from, &*row.to, row.columns) == (from.name, to.name, columns)) {
            Some(row) => row.tensors += 1,
            None => rows.push(Fallen { from: from.name, to: to.name.to_owned(), columns, tensors: 1 }),
        }
    }
    rows
}
