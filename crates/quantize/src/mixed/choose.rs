//! From what was measured and a budget to a format for each matrix.

use std::collections::BTreeMap;

use duan_model::quoted;
use duan_quant::Format;
use serde::Serialize;

use super::assign::{self, assign};
use super::sensitivities::{Sensitivities, TensorSensitivity};
use super::trials::{PROBE, Trial, Trials};
use crate::error::{Error, Result};
use crate::fallback::{fallback, known};
use crate::importance::Importance;
use crate::keep::KeepRule;
use crate::plan::{Choice, Plan, PlanOptions};
use crate::recipe::Recipe;
use crate::run::foresee;
use crate::source::Source;

/// What a matrix gets of which nothing can be known: one that the model does not use.
const UNKNOWN: &str = "Q8_0";
const ALIGNMENT_KEY: &str = "general.alignment";
const ALIGNMENT: u64 = 32;

/// What a file may take.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Budget {
    /// Bits of all tensors together for each of their weights.
    BitsPerWeight(f64),
    /// Length of the file.
    FileBytes(u64),
}

/// Formats that were found by measuring.
#[derive(Debug, Clone, PartialEq)]
pub struct Mixture {
    /// A format for each matrix that no rule takes. It is called by the mix whose format has most bytes.
    pub recipe: Recipe,
    /// The budget.
    pub budget: Budget,
    /// The sum of what all matrices are expected to move the output, in nats.
    pub divergence: f64,
    /// Whether the budget left room for the best format of every matrix.
    pub has_room: bool,
    /// What is known of each matrix.
    pub tensors: BTreeMap<String, MeasuredTensor>,
}

/// What is known of one matrix.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MeasuredTensor {
    /// How far the output moves, in nats, when it alone is in [`PROBE`].
    pub sensitivity: f64,
    /// The same for the format that it got, as its errors say.
    pub divergence: f64,
}

/// A matrix and what it may get.
struct Thing<'t> {
    trial: &'t Trial,
    options: Vec<(&'static Format, f64)>,
    sensitivity: f64,
}

/// Finds the formats with which the output moves least, within the budget. `keep` and `importance` are those of the file.
///
/// # Errors
/// Where a matrix was not measured; a budget that is too small, with the smallest that would do; and as [`Plan::new`].
pub fn choose(
    source: &dyn Source,
    keep: &[KeepRule],
    importance: Option<&Importance>,
    sensitivities: &Sensitivities,
    budget: Budget,
) -> Result<Mixture> {
    let trials = Trials::new(source, keep, importance)?;
    let things: Vec<Thing<'_>> =
        trials.matrices().iter().map(|trial| thing(trial, sensitivities)).collect::<Result<_>>()?;
    let alignment = source.metadata().u32(ALIGNMENT_KEY).ok().flatten().map_or(ALIGNMENT, u64::from).max(1);
    let counted = |bytes: u64| match budget {
        Budget::BitsPerWeight(_) => bytes,
        Budget::FileBytes(_) => bytes.next_multiple_of(alignment),
    };
    let size = |thing: &Thing<'_>, option: usize| counted(bytes_in(thing.trial, thing.options[option].0));
    let options: Vec<Vec<assign::Choice>> = things
        .iter()
        .map(|thing| {
            let option = |at: usize| assign::Choice { bytes: size(thing, at), cost: thing.options[at].1 };
            (0..thing.options.len()).map(option).collect()
        })
        .collect();
    let mixture = |chosen: &[usize]| Mixture::new(&things, chosen, budget);
    // What everything else takes: the file in some formats, less what these take in them.
    let any: Vec<usize> = vec![0; things.len()];
    let has_importance = importance.is_some();
    let first = mixture(&any);
    let plan = Plan::new(source, &PlanOptions { choice: Choice::Measured(&first), keep, has_importance })?;
    let weights = plan.weights();
    let (all, limit) = match budget {
        Budget::BitsPerWeight(bits) => (plan.bytes(), (bits * weights as f64 / 8.0) as u64),
        Budget::FileBytes(bytes) => (foresee(source, &plan, importance)?.bytes, bytes),
    };
    let taken = |chosen: &[usize]| -> u64 { things.iter().zip(chosen).map(|(thing, &at)| size(thing, at)).sum() };
    let rest = all - taken(&any);
    let Some(chosen) = limit.checked_sub(rest).and_then(|budget| assign(&options, budget)) else {
        let least: u64 = options.iter().map(|options| options.iter().map(|o| o.bytes).min().unwrap_or(0)).sum();
        return Err(too_small(budget, rest + least, weights));
    };
    let mut found = mixture(&chosen);
    let least_cost = |options: &Vec<assign::Choice>| options.iter().map(|o| o.cost).fold(f64::INFINITY, f64::min);
    found.has_room = options.iter().zip(&chosen).all(|(options, &at)| options[at].cost <= least_cost(options));
    Ok(found)
}

fn too_small(budget: Budget, least: u64, weights: u64) -> Error {
    let bits = least as f64 * 8.0 / weights.max(1) as f64;
    let what = match budget {
        Budget::BitsPerWeight(wanted) => {
            // Rounded up, so that what is said can be asked for.
            format!(
                "{wanted} bits per weight are too few: the fewest possible are {:.3}",
                (bits * 1000.0).ceil() / 1000.0
            )
        }
        Budget::FileBytes(wanted) => {
            format!(
                "a file of {wanted} bytes is too small: the smallest possible has {least} bytes, {bits:.2} bits for each weight"
            )
        }
    };
    let remedy =
        "allow that much, or give fewer bits by --keep: a head, and an embedding that is the head too, have at least 6";
    Error::Format { what, remedy: remedy.to_owned() }
}

/// Bytes of a matrix in a format whose blocks divide its rows.
fn bytes_in(trial: &Trial, format: &Format) -> u64 {
    trial.weights() / format.block_weights as u64 * format.block_bytes as u64
}

/// What a matrix may get, and what that costs.
fn thing<'t>(trial: &'t Trial, sensitivities: &Sensitivities) -> Result<Thing<'t>> {
    let unmeasured = || {
        let what = format!("tensor `{}` was not measured", quoted(&trial.name));
        Error::Format { what, remedy: "measure it first".to_owned() }
    };
    let only = |format| Ok(Thing { trial, options: vec![(format, 0.0)], sensitivity: 0.0 });
    if !trial.is_open() {
        return only(trial.own.unwrap_or_else(|| fallback(known(UNKNOWN), trial.columns())));
    }
    let tensor = sensitivities.tensors.get(&trial.name).ok_or_else(unmeasured)?;
    if tensor.divergences.is_empty() {
        // The model does not use it.
        return only(fallback(known(UNKNOWN), trial.columns()));
    }
    let options: Vec<_> =
        trial.candidates.iter().filter_map(|&format| Some((format, cost(trial, tensor, format)?))).collect();
    if options.is_empty() {
        return Err(unmeasured());
    }
    Ok(Thing { trial, options, sensitivity: tensor.divergence() })
}

/// How far the output is expected to move with a matrix in a format: what was measured with the probe, as often as the squared error
/// is larger.
fn cost(trial: &Trial, tensor: &TensorSensitivity, format: &'static Format) -> Option<f64> {
    if trial.own == Some(format) {
        return Some(0.0);
    }
    let (error, probe) = (*tensor.errors.get(format.name)?, *tensor.errors.get(PROBE)?);
    // Where the probe loses nothing, all of it is zeros.
    Some(if probe > 0.0 { tensor.divergence() * (error / probe) } else { 0.0 })
}

impl Mixture {
    fn new(things: &[Thing<'_>], chosen: &[usize], budget: Budget) -> Mixture {
        let mut bytes: BTreeMap<&str, u64> = BTreeMap::new();
        let (mut tensors, mut lines, mut divergence) = (BTreeMap::new(), Vec::with_capacity(things.len()), 0.0);
        for (thing, &at) in things.iter().zip(chosen) {
            let (format, cost) = thing.options[at];
            *bytes.entry(format.name).or_default() += bytes_in(thing.trial, format);
            lines.push((thing.trial.name.clone(), format));
            let measured = MeasuredTensor { sensitivity: thing.sensitivity, divergence: cost };
            tensors.insert(thing.trial.name.clone(), measured);
            divergence += cost;
        }
        let most = bytes.into_iter().max_by_key(|row| row.1).map_or("F16", |row| row.0);
        let recipe = Recipe { format: mix_of(most).to_owned(), tensors: lines };
        Mixture { recipe, budget, divergence, has_room: false, tensors }
    }
}

/// The mix that people call a file by, most of which is in this format.
fn mix_of(format: &str) -> &str {
    let named = |name: &str| crate::MIXES.iter().find(|mix| mix.name == name).map(|mix| mix.name);
    named(&format!("{format}_M")).or_else(|| named(format)).unwrap_or("F16")
}

#[cfg(test)]
#[path = "choose_tests.rs"]
mod tests;
