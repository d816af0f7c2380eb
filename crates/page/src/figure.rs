//! A number of the page, for people and for programs.

use serde::Serialize;

use crate::numbers::{percent, three_digits, whole};

/// A number that stands in the page as text, and beside it as it is. Programs find it by its name, in the page and in its data.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Figure {
    /// What it is, with its unit at the end: `tg128.median_tokens_per_s`. No name comes twice with different values.
    pub name: String,
    /// The number.
    pub value: f64,
    /// As it is shown, in `unit`.
    pub text: String,
    /// What is shown behind it; empty where the text says it.
    pub unit: &'static str,
    /// The shown number times this is `value`: a share of 0.54 is shown as 54 %.
    pub scale: f64,
}

impl Figure {
    /// A number in its unit with three digits; none where there is no number.
    pub fn new(name: impl Into<String>, value: impl Into<Option<f64>>, unit: &'static str) -> Option<Figure> {
        let value = value.into().filter(|value| value.is_finite())?;
        Some(Figure { name: name.into(), value, text: three_digits(value), unit, scale: 1.0 })
    }

    /// A number that is shown in a smaller or larger unit: `scale` is what one of these is.
    pub fn scaled(
        name: impl Into<String>,
        value: impl Into<Option<f64>>,
        unit: &'static str,
        scale: f64,
    ) -> Option<Figure> {
        let value = value.into().filter(|value| value.is_finite())?;
        Some(Figure { name: name.into(), value, text: three_digits(value / scale), unit, scale })
    }

    /// How many there are of something.
    pub fn count(name: impl Into<String>, count: Option<u64>, unit: &'static str) -> Option<Figure> {
        let value = count? as f64;
        Some(Figure { name: name.into(), value, text: whole(value), unit, scale: 1.0 })
    }

    /// A part, shown as per cent.
    pub fn share(name: impl Into<String>, part: impl Into<Option<f64>>) -> Option<Figure> {
        let value = part.into().filter(|value| value.is_finite())?;
        Some(Figure { name: name.into(), value, text: percent(value), unit: "", scale: 0.01 })
    }
}
