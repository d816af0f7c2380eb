//! Texts, and how a model's tokenizer cuts them into windows.

use std::path::Path;

use duan_measure::quality::windows;

use super::error::EvalError;
use super::subject::Opening;
use crate::error::Result;

/// A text to evaluate models on, or to look at what a model's matrices are multiplied with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EvalText {
    /// What it is called: its file.
    pub label: String,
    /// The text; never empty.
    pub text: String,
}

impl EvalText {
    /// Reads a text from a file.
    ///
    /// # Errors
    /// When it cannot be read, is not UTF-8 or is empty.
    pub fn read(path: &Path) -> Result<Self> {
        let label = path.to_string_lossy().into_owned();
        let bytes = match std::fs::read(path) {
            Ok(bytes) => bytes,
            Err(source) => return Err(EvalError::Unreadable { text: label, source }.into()),
        };
        match String::from_utf8(bytes) {
            Ok(text) if text.is_empty() => Err(EvalError::Empty { text: label }.into()),
            Ok(text) => Ok(Self { label, text }),
            Err(error) => Err(EvalError::NotUtf8 { text: label, offset: error.utf8_error().valid_up_to() }.into()),
        }
    }
}

/// A text as a model's tokenizer cuts it.
pub(crate) struct Windows {
    tokens: Vec<u32>,
    bos: Option<u32>,
    /// Tokens of a window.
    pub(crate) length: usize,
    /// Windows that are used.
    pub(crate) count: usize,
}

impl Windows {
    /// At most `most` windows of `length` tokens. As llama-perplexity does it, the whole text begins with the token that begins texts
    /// where the model has one, and so does each window.
    pub(crate) fn new(text: &EvalText, opening: &Opening, length: usize, most: Option<usize>) -> Result<Self> {
        let tokenizer = &opening.tokenizer;
        let bos = tokenizer.bos().filter(|_| tokenizer.adds_bos());
        let mut tokens: Vec<u32> = bos.into_iter().collect();
        tokens.extend(tokenizer.encode(&text.text));
        let count = (tokens.len() / length).min(most.unwrap_or(usize::MAX));
        if count == 0 {
            let (text, model) = (text.label.clone(), opening.about.model.clone());
            return Err(EvalError::TooShort { text, model, tokens: tokens.len(), context: length }.into());
        }
        tokens.truncate(count * length);
        Ok(Self { tokens, bos, length, count })
    }

    /// The tokens of a window. Panics beyond the last.
    pub(crate) fn window(&self, index: usize) -> Vec<u32> {
        windows::window(&self.tokens, index, self.length, self.bos).expect("a window that was counted")
    }
}
