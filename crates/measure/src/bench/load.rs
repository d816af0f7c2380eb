//! What it takes until a model is ready, and until it says its first word.

use duan_system::Reading;
use serde::{Deserialize, Serialize};

/// How a model was loaded.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LoadFigures {
    /// From opening the file to weights that are ready, in nanoseconds.
    pub load_ns: u64,
    /// Which part of the file was in the page cache before, from 0 to 1.
    pub file_in_page_cache: Reading<f64>,
    /// Whether weights were read as they had been laid out in an earlier start (`kept`), or laid out (`laid out`); `as in file`
    /// where devices read them from the file.
    pub weights: String,
}

/// A start of the program up to the first token, as it is at different times.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct StartFigures {
    /// `first`: weights are laid out; `second`: they are read as an earlier start laid them out.
    pub start: String,
    /// `warm`: the files were in the page cache; `cold`: they had been taken out of it.
    pub page_cache: String,
    /// Which part of the files was there before, from 0 to 1.
    pub files_in_page_cache: Reading<f64>,
    /// From opening the file to weights that are ready, in nanoseconds.
    pub load_ns: u64,
    /// The tiny passes that take the costs of first use.
    pub warm_up_ns: u64,
    /// A prompt and the choice of the first token.
    pub prompt_ns: u64,
    /// All of these.
    pub first_token_ns: u64,
}
