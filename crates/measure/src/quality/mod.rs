//! How good a model is: perplexity on a text, and how far its next-token distributions are from those of a reference.
//!
//! A text is cut into windows ([`windows`]), of which the second half is scored, as llama-perplexity does it. Each row of logits
//! becomes a [`Score`], and beside the reference's row a [`Comparison`]; a [`Tally`] collects them, and gives [`Figures`]: numbers
//! with their standard errors. All sums are f64. Rows of logits are looked at as they come and not kept; where a reference's have
//! to be, [`compact`] has a form of two bytes a logit. [`Row`] is what faces show, and [`chart`] draws it.
//!
//! Everything here is a pure function: who runs the models hands the rows in.

pub mod chart;
pub mod compact;
mod figures;
mod row;
mod rows;
pub mod windows;

pub use figures::{Beside, Estimate, Figures, Tally, mean, quantile, share};
pub use row::{About, Row};
pub use rows::{Comparison, NotFinite, Score, compare, compare_rows, score, score_rows};

#[cfg(test)]
mod tests;
