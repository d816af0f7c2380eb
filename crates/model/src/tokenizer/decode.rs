//! From tokens back to text, one token at a time, always in whole characters.

use super::vocabulary::TokenKind;
use super::{SpacePrefix, Tokenizer, vocabulary::Vocabulary};

/// Turns tokens into text as they come.
///
/// The bytes of tokens are kept as they are. After each token, everything that is text for certain goes out; an unfinished
/// character, at most 3 bytes, waits for the next token. Bytes that can never become a character give one U+FFFD for each
/// maximal part of a character, as the Unicode standard recommends (section 3.9, "U+FFFD Substitution of Maximal Subparts").
/// What goes out is never taken back, and all that goes out together is the text of all tokens decoded at once.
///
/// Control tokens print nothing unless asked. Where the vocabulary puts a space in front of a text, one space at the very
/// start of the output is left out.
#[derive(Debug)]
pub struct StreamDecoder<'t> {
    vocabulary: &'t Vocabulary,
    /// Bytes of an unfinished character.
    pending: Vec<u8>,
    /// Whether a space in front is still to be left out.
    strips_space: bool,
    prints_control: bool,
}

impl<'t> StreamDecoder<'t> {
    pub(super) fn new(tokenizer: &'t Tokenizer) -> StreamDecoder<'t> {
        StreamDecoder {
            vocabulary: &tokenizer.vocabulary,
            pending: Vec::with_capacity(4),
            strips_space: tokenizer.space_prefix != SpacePrefix::Never,
            prints_control: false,
        }
    }

    /// Control tokens print their names from now on, for those who want to see them.
    #[must_use]
    pub fn with_control_tokens(mut self) -> StreamDecoder<'t> {
        self.prints_control = true;
        self
    }

    /// Goes on after `ids`, whose text is elsewhere: what comes out from now on is what these tokens add to it.
    #[must_use]
    pub fn after(mut self, ids: &[u32]) -> StreamDecoder<'t> {
        let mut text = String::new();
        for &id in ids {
            self.push(id, &mut text);
            text.clear();
        }
        self
    }

    /// Appends to `text` what token `id` completes. An id beyond the vocabulary prints nothing.
    pub fn push(&mut self, id: u32, text: &mut String) {
        let is_hidden = matches!(self.vocabulary.kind(id), TokenKind::Control | TokenKind::Unknown);
        if is_hidden && !self.prints_control {
            return;
        }
        let mut bytes = self.vocabulary.bytes(id);
        if self.strips_space && !bytes.is_empty() {
            self.strips_space = false;
            bytes = bytes.strip_prefix(b" ").unwrap_or(bytes);
        }
        if self.pending.is_empty() {
            // Most tokens are whole characters: no copy of their bytes is needed.
            let rest = append_whole_characters(bytes, text);
            self.pending.extend_from_slice(rest);
            return;
        }
        self.pending.extend_from_slice(bytes);
        let waiting = append_whole_characters(&self.pending, text).len();
        let done = self.pending.len() - waiting;
        self.pending.drain(..done);
    }

    /// Appends what is still waiting: U+FFFD where the last character never came to its end. The decoder is then as new, but
    /// takes no space away.
    pub fn finish(&mut self, text: &mut String) {
        if !self.pending.is_empty() {
            self.pending.clear();
            text.push(char::REPLACEMENT_CHARACTER);
        }
    }
}

/// Appends the text of `bytes` up to an unfinished character at their end, which is returned.
fn append_whole_characters<'b>(mut bytes: &'b [u8], text: &mut String) -> &'b [u8] {
    loop {
        let error = match std::str::from_utf8(bytes) {
            Ok(valid) => {
                text.push_str(valid);
                return &[];
            }
            Err(error) => error,
        };
        let (valid, rest) = bytes.split_at(error.valid_up_to());
        // The standard library has just found this part to be valid, so nothing is replaced here.
        text.push_str(&String::from_utf8_lossy(valid));
        match error.error_len() {
            None => return rest,
            Some(length) => {
                text.push(char::REPLACEMENT_CHARACTER);
                bytes = &rest[length..];
            }
        }
    }
}
