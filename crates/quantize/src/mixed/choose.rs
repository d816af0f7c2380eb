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
    let knapsack = Knapsack::new(source, keep, importance, &things, budget)?;
    let chosen = knapsack.left.and_then(|left| assign(&knapsack.options, left));
    let Some(chosen) = chosen else { return Err(too_small(budget, knapsack.least, knapsack.weights)) };
    let mut found = Mixture::new(&things, &chosen, budget);
    let least_cost = |options: &Vec<assign::Choice>| options.iter().map(|o| o.cost).fold(f64::INFINITY, f64::min);
    found.has_room = knapsack.options.iter().zip(&chosen).all(|(options, &at)| options[at].cost <= least_cost(options));
    Ok(found)
}

/// Says of a budget that it is too small before anything is measured, as far as bytes alone tell it.
///
/// # Errors
/// As [`choose`], but for what was measured.
pub fn check_budget(source: &dyn Source, keep: &[KeepRule], budget: Budget) -> Result<()> {
    let trials = Trials::new(source, keep, None)?;
    let things = trials.matrices().iter().map(|trial| match trial.is_open() {
        true => {
            Thing { trial, options: trial.candidates.iter().map(|&format| (format, 0.0)).collect(), sensitivity: 0.0 }
        }
        false => only(trial),
    });
    let things: Vec<Thing<'_>> = things.collect();
    let knapsack = Knapsack::new(source, keep, None, &things, budget)?;
    let is_enough = knapsack.left.is_some_and(|left| assign(&knapsack.options, left).is_some());
    if is_enough { Ok(()) } else { Err(too_small(budget, knapsack.least, knapsack.weights)) }
}

/// The things, as what they take and cost.
struct Knapsack {
    options: Vec<Vec<assign::Choice>>,
    /// Bytes of the budget that are left for the things; none where what everything else takes is more already.
    left: Option<u64>,
    /// The fewest bytes that are possible, as the budget counts.
    least: u64,
    /// Weights of all tensors.
    weights: u64,
}

impl Knapsack {
    fn new(
        source: &dyn Source,
        keep: &[KeepRule],
        importance: Option<&Importance>,
        things: &[Thing<'_>],
        budget: Budget,
    ) -> Result<Knapsack> {
        let alignment = source.metadata().u32(ALIGNMENT_KEY).ok().flatten().map_or(ALIGNMENT, u64::from).max(1);
        let counted = |bytes: u64| match budget {
            Budget::BitsPerWeight(_) => bytes,
            Budget::FileBytes(_) => bytes.next_multiple_of(alignment),
        };
        let choices = |thing: &Thing<'_>| {
            let choice = |&(format, cost): &(&Format, f64)| assign::Choice {
                bytes: counted(bytes_in(thing.trial, format)),
                cost,
            };
            thing.options.iter().map(choice).collect()
        };
        let options: Vec<Vec<assign::Choice>> = things.iter().map(choices).collect();
        // What everything else takes: the file with the first option of each, less what these take.
        let first = Mixture::new(things, &vec![0; things.len()], budget);
        let has_importance = importance.is_some();
        let plan = Plan::new(source, &PlanOptions { choice: Choice::Measured(&first), keep, has_importance })?;
        let weights = plan.weights();
        let (all, limit) = match budget {
            Budget::BitsPerWeight(bits) => (plan.bytes(), (bits * weights as f64 / 8.0) as u64),
            Budget::FileBytes(bytes) => (foresee(source, &plan, importance)?.bytes, bytes),
        };
        let rest = all - options.iter().map(|options| options[0].bytes).sum::<u64>();
        let least = options.iter().map(|options| options.iter().map(|o| o.bytes).min().unwrap_or(0)).sum::<u64>();
        Ok(Knapsack { options, left: limit.checked_sub(rest), least: rest + least, weights })
    }
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

/// What a matrix gets for which there is no choice.
fn only(trial: &Trial) -> Thing<'_> {
    let format = trial.own.unwrap_or_else(|| fallback(known(UNKNOWN), trial.columns()));
    Thing { trial, options: vec![(format, 0.0)], sensitivity: 0.0 }
}

/// What a matrix may get, and what that costs.
fn thing<'t>(trial: &'t Trial, sensitivities: &Sensitivities) -> Result<Thing<'t>> {
    let unmeasured = || {
        let what = format!("tensor `{}` was not measured", quoted(&trial.name));
        Error::Format { what, remedy: "measure it first".to_owned() }
    };
    if !trial.is_open() {
        return Ok(only(trial));
    }
    let tensor = sensitivities.tensors.get(&trial.name).ok_or_else(unmeasured)?;
    if tensor.divergences.is_empty() {
        // The model does not use it.
        return Ok(Thing { options: vec![(fallback(known(UNKNOWN), trial.columns()), 0.0)], ..only(trial) });
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
