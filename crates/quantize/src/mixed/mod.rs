//! A format for each matrix, found by measuring, so that a file fits a budget.
//!
//! What a matrix costs in a format is how far the model's output moves (Kullback-Leibler divergence from the model as it was, in nats)
//! when that matrix alone is in that format. It is measured once, in one format ([`PROBE`]), by whoever can run the model; for small
//! errors it grows with their squares, so that for every other format the squared errors say the rest ([`Trials::errors`]). Both are kept
//! in a file, [`Sensitivities`]. The formats are then those with the least sum of divergences whose bytes fit the budget ([`choose`]).
//!
//! **Where to start reading:** `choose.rs`, then `assign.rs` (the search), `trials.rs` (what formats lose) and `sensitivities.rs` (the
//! file).

mod assign;
mod choose;
mod sensitivities;
mod trials;

pub use choose::{Budget, MeasuredTensor, Mixture, check_budget, choose};
pub use sensitivities::{MeasuredWith, Sensitivities, TensorSensitivity, rounded};
pub use trials::{CANDIDATES, PROBE, Trial, Trials};
