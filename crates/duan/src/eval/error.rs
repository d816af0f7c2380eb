//! What speaks against an evaluation.

use std::io;

/// Why models cannot be evaluated.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EvalError {
    /// A text cannot be read.
    #[error("{text}: cannot read the text: {source}; check the path and its permissions")]
    Unreadable {
        /// The text's file.
        text: String,
        /// What the system said.
        source: io::Error,
    },
    /// A text is no text.
    #[error("{text}: expected UTF-8, found another byte at offset {offset}; convert the text to UTF-8 first")]
    NotUtf8 {
        /// The text's file.
        text: String,
        /// The first byte that is none.
        offset: usize,
    },
    /// A text has no letter.
    #[error("{text}: the text is empty; give a file with at least one window of tokens")]
    Empty {
        /// The text's file.
        text: String,
    },
    /// A text is shorter than a window.
    #[error(
        "{text}: the text has {tokens} tokens for {model}, and a window has {context}; give a longer text or a smaller --context"
    )]
    TooShort {
        /// The text's file.
        text: String,
        /// The model whose tokens are counted.
        model: String,
        /// Tokens of the text.
        tokens: usize,
        /// Tokens of a window.
        context: usize,
    },
    /// Windows are too short to score anything.
    #[error("context: expected at least 4 tokens, of which the second half is scored, found {context}")]
    Context {
        /// Tokens of a window.
        context: usize,
    },
    /// Two models do not speak of the same tokens.
    #[error(
        "{model} and the reference {reference} have different vocabularies ({difference}); compare models of one family"
    )]
    OtherVocabulary {
        /// The model's file.
        model: String,
        /// The reference's file.
        reference: String,
        /// The first difference.
        difference: String,
    },
    /// A model computes nonsense.
    #[error(
        "{model}: a logit is not finite in window {window} at position {position}; the file may be damaged: fetch or make it again"
    )]
    NotFinite {
        /// The model's file.
        model: String,
        /// The window, from 0.
        window: usize,
        /// The position within it.
        position: usize,
    },
    /// The reference's logits do not fit on the disk.
    #[error(
        "{folder}: the reference's logits need {needed_bytes} bytes of disk, as memory has no room for all models at once, and \
         {free_bytes} are free; choose fewer windows with --chunks, or free some memory or disk"
    )]
    NoRoom {
        /// The folder where they would go.
        folder: String,
        /// Bytes that they take.
        needed_bytes: u64,
        /// Bytes that are free.
        free_bytes: u64,
    },
    /// The reference's logits cannot be written or read.
    #[error(
        "{folder}: cannot keep the reference's logits there: {source}; free some disk, or choose fewer windows with --chunks"
    )]
    Scratch {
        /// The folder.
        folder: String,
        /// What the system said.
        source: io::Error,
    },
    /// The reference's logits came back as something else.
    #[error(
        "the reference's logits did not come back from the disk as they were written; check the disk and run this again"
    )]
    KeptAreDamaged,
}
