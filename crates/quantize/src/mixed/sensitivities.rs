//! What was measured of a model, as a file: so that it is measured once for all budgets, and goes on where it was interrupted.
//!
//! ```json
//! {
//!   "duan_sensitivities": 1,
//!   "with": { "model": "9f...", "text": "41...", "context": 512, "windows": 2, "scored": 256, "probe": "IQ4_NL", "importance": "07..." },
//!   "tensors": {
//!     "blk.0.attn_q.weight": { "divergences": [0.00031, 0.00027], "errors": { "IQ4_NL": 12.5, "Q8_0": 0.061 } }
//!   }
//! }
//! ```
//!
//! `divergences` are means over the scored tokens of each window, in nats, with the tensor alone in the probe's format; `errors` are
//! weighted squared errors. A file of another model, text or way of measuring is told from one that can be gone on with by `with`.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read as _;
use std::ops::ControlFlow;
use std::path::Path;

use duan_model::quoted;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// The version of the file, and of how is measured: what an older one says is not comparable.
const VERSION: u32 = 1;
/// A file longer than this is none.
const LIMIT_BYTES: u64 = 64 << 20;
/// More divergence than this is none of two distributions of numbers that a computer writes.
const MOST_DIVERGENCE: f64 = 1e6;

/// What is less than this counts as nothing.
const LEAST: f64 = 1e-13;

const REMEDY: &str = "name another file with --sensitivity, or delete this one to measure anew";

/// What sensitivities depend on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MeasuredWith {
    /// What tells the model from others.
    pub model: String,
    /// What tells the text from others.
    pub text: String,
    /// Tokens of a window.
    pub context: usize,
    /// Windows.
    pub windows: usize,
    /// Tokens at the end of each window whose logits are compared.
    pub scored: usize,
    /// The format in which effects are measured.
    pub probe: String,
    /// What tells the importance from others.
    pub importance: String,
}

/// What is known of one tensor.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TensorSensitivity {
    /// By window: how far the output moves, in nats, when this tensor alone is in the probe's format.
    pub divergences: Vec<f64>,
    /// By format: weighted squared errors.
    pub errors: BTreeMap<String, f64>,
}

impl TensorSensitivity {
    /// The mean over the windows.
    pub fn divergence(&self) -> f64 {
        self.divergences.iter().sum::<f64>() / self.divergences.len().max(1) as f64
    }
}

/// A measured number as it is kept: with nine digits, so that what is read from the file is the same to the bit (nine digits times a power
/// of ten that a float holds), and 0 where it is less than any effect.
pub fn rounded(number: f64) -> f64 {
    if number < LEAST { 0.0 } else { format!("{number:.8e}").parse().unwrap_or(number) }
}

/// All that was measured.
#[derive(Debug, Clone, PartialEq)]
pub struct Sensitivities {
    /// With what.
    pub with: MeasuredWith,
    /// By the tensor's name.
    pub tensors: BTreeMap<String, TensorSensitivity>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    duan_sensitivities: u32,
    with: MeasuredWith,
    tensors: BTreeMap<String, TensorSensitivity>,
}

impl Sensitivities {
    /// Nothing measured yet.
    pub fn new(with: MeasuredWith) -> Sensitivities {
        Sensitivities { with, tensors: BTreeMap::new() }
    }

    /// Reads them from their text; `file` is what messages call it.
    ///
    /// # Errors
    /// Where it is no such file, of another version, or has a number that nobody can have measured.
    pub fn parse(text: &[u8], file: &str) -> Result<Sensitivities> {
        let document: Document = serde_json::from_slice(text)
            .map_err(|error| wrong(file, format!("this holds no sensitivities: {}", quoted(&error.to_string()))))?;
        if document.duan_sensitivities != VERSION {
            let found = document.duan_sensitivities;
            return Err(wrong(file, format!("sensitivities of version {found}, and {VERSION} is known")));
        }
        let Document { with, tensors, .. } = document;
        for (name, tensor) in &tensors {
            let is_wrong = |number: &f64| !(0.0..=MOST_DIVERGENCE).contains(number);
            let is_no_error = |number: &f64| !(*number >= 0.0 && number.is_finite());
            let has_more = tensor.divergences.len() > with.windows;
            if has_more || tensor.divergences.iter().any(is_wrong) || tensor.errors.values().any(is_no_error) {
                return Err(wrong(
                    file,
                    format!("what it says of tensor `{}` cannot have been measured", quoted(name)),
                ));
            }
        }
        Ok(Sensitivities { with, tensors })
    }

    /// Reads the file at `path`; none where there is none.
    ///
    /// # Errors
    /// As [`Sensitivities::parse`], and where it cannot be read.
    pub fn read(path: &Path) -> Result<Option<Sensitivities>> {
        let label = path.display().to_string();
        let mut text = Vec::new();
        let file = match File::open(path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            file => file,
        };
        let read = file.and_then(|file| file.take(LIMIT_BYTES + 1).read_to_end(&mut text));
        read.map_err(|error| duan_model::Error::io(quoted(&label), "read it", error))?;
        if text.len() as u64 > LIMIT_BYTES {
            return Err(wrong(
                &quoted(&label),
                format!("longer than {LIMIT_BYTES} bytes, so this holds no sensitivities"),
            ));
        }
        Sensitivities::parse(&text, &quoted(&label)).map(Some)
    }

    /// Writes the file, whole or not at all; one that is there is replaced.
    ///
    /// # Errors
    /// As [`duan_files::write_whole`].
    pub fn write(&self, path: &Path) -> Result<()> {
        let Sensitivities { with, tensors } = self.clone();
        let document = Document { duan_sensitivities: VERSION, with, tensors };
        let mut text = serde_json::to_string_pretty(&document).expect("strings and finite numbers become JSON");
        text.push('\n');
        let mut go_on = |_| ControlFlow::Continue(());
        duan_files::write_whole(path, text.len() as u64, true, &mut go_on, |out| out.write_all(text.as_bytes()))?;
        Ok(())
    }

    /// What is not the same in what `self` was measured with and in `wanted`: its name, for people.
    pub fn difference(&self, wanted: &MeasuredWith) -> Option<&'static str> {
        let MeasuredWith { model, text, context, windows, scored, probe, importance } = &self.with;
        let same = [
            (*model == wanted.model, "model"),
            (*text == wanted.text, "text"),
            ((context, windows, scored) == (&wanted.context, &wanted.windows, &wanted.scored), "number of tokens"),
            (*probe == wanted.probe, "probe"),
            (*importance == wanted.importance, "importance"),
        ];
        same.into_iter().find(|(is_same, _)| !is_same).map(|(_, name)| name)
    }

    /// The error for a file that says something of another `difference`.
    pub fn stranger(path: &Path, difference: &str) -> Error {
        let file = quoted(&path.display().to_string());
        wrong(&file, format!("what is in it was measured with another {difference}"))
    }
}

fn wrong(file: &str, what: String) -> Error {
    Error::Recipe { file: file.to_owned(), what, remedy: REMEDY }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> Sensitivities {
        let with = MeasuredWith {
            model: "m".into(),
            text: "t".into(),
            context: 512,
            windows: 2,
            scored: 256,
            probe: "IQ4_NL".into(),
            importance: "none".into(),
        };
        let errors = [("Q8_0".to_owned(), rounded(0.1 + 0.2)), ("IQ4_NL".to_owned(), rounded(1.0 / 3e9))].into();
        let tensor = TensorSensitivity { divergences: vec![rounded(1.0 / 3.0), 0.0625], errors };
        Sensitivities { with, tensors: [("blk.0.attn_q.weight".to_owned(), tensor)].into() }
    }

    #[test]
    fn what_is_written_is_read_to_the_bit() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s.json");
        assert_eq!(Sensitivities::read(&path).unwrap(), None);
        let sensitivities = example();
        for _ in 0..2 {
            sensitivities.write(&path).unwrap();
        }
        assert_eq!(Sensitivities::read(&path).unwrap(), Some(sensitivities));
        assert!(Sensitivities::read(folder.path()).unwrap_err().to_string().contains("cannot read it"));
    }

    #[test]
    fn numbers_are_kept_with_nine_digits() {
        assert_eq!(
            [1.0 / 3.0, 2e-14, 1e-13, 123_456_789_012.0].map(rounded),
            [0.333333333, 0.0, 1e-13, 123_456_789_000.0]
        );
        let mut number = 0.9e-13;
        while number < 1e20 {
            number *= 1.0 + 1.0 / 7.0;
            let text = serde_json::to_string(&rounded(number)).unwrap();
            assert_eq!(serde_json::from_str::<f64>(&text).unwrap(), rounded(number), "{text}");
        }
    }

    #[test]
    fn what_is_damaged_or_of_another_model_is_told_in_one_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s.json");
        example().write(&path).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        let message = |text: &str| Sensitivities::parse(text.as_bytes(), "s.json").unwrap_err().to_string();
        for (damaged, part) in [
            (text[..text.len() / 2].to_owned(), "no sensitivities"),
            (text.replace("\"duan_sensitivities\": 1", "\"duan_sensitivities\": 2"), "version 2"),
            (text.replace("0.0625", "-1.0"), "tensor `blk.0.attn_q.weight` cannot have been measured"),
            (text.replace("0.0625", "1, 2"), "cannot have been measured"),
            (text.replace("3.33333333e-10", "1e999"), "no sensitivities"),
            (text.replace("\"scored\"", "\"scores\""), "unknown field"),
        ] {
            let message = message(&damaged);
            assert!(
                message.contains(part) && message.contains("--sensitivity") && !message.contains('\n'),
                "{message}"
            );
        }
        let own = example();
        let other = |change: &dyn Fn(&mut MeasuredWith)| {
            let mut with = own.with.clone();
            change(&mut with);
            own.difference(&with)
        };
        assert_eq!(other(&|_| {}), None);
        assert_eq!(other(&|with| with.model.push('x')), Some("model"));
        assert_eq!(other(&|with| with.windows = 3), Some("number of tokens"));
        let message = Sensitivities::stranger(Path::new("s.json"), "text").to_string();
        assert!(message.starts_with("s.json: what is in it was measured with another text; "), "{message}");
    }
}
