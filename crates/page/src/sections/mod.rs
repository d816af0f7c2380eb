//! One file for each section: from measured data to what its template needs.

pub(crate) mod bench;
pub(crate) mod ceilings;
pub(crate) mod comparison;
pub(crate) mod headline;
pub(crate) mod memory;
pub(crate) mod others;
pub(crate) mod profile;
pub(crate) mod records;
pub(crate) mod state;

use duan_measure::ceilings::Verdict;
use serde::Serialize;

use crate::figure::Figure;

/// A share of a ceiling with what it means.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Share {
    figure: Figure,
    /// A class of the style.
    class: &'static str,
    /// In words.
    words: &'static str,
    /// How long its bar is, in parts of a hundred.
    width: f64,
}

impl Share {
    /// None where there is no number.
    pub(crate) fn of(name: impl Into<String>, share: Option<f64>) -> Option<Share> {
        let figure = Figure::share(name, share)?;
        let verdict = Verdict::of(figure.value);
        let words = match verdict {
            Verdict::Good => "good: the machine is used",
            Verdict::Room => "room: there is something to be had",
            Verdict::Setting => "setting: something is set wrongly",
            Verdict::Fault => "fault: faster than the machine can be, so one of both was measured wrongly",
        };
        let width = (figure.value * 100.0).clamp(0.0, 100.0);
        Some(Share { figure, class: verdict.name(), words, width })
    }
}

/// A number in a bar of a table, as long as it is of the longest.
pub(crate) fn width(value: f64, longest: f64) -> f64 {
    if value.is_finite() && longest > 0.0 { (value / longest * 100.0).clamp(0.0, 100.0) } else { 0.0 }
}
