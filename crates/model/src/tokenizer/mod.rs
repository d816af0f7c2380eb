//! Text to tokens and back, from the vocabulary in a GGUF file.
//!
//! Four kinds are known: byte-pair encoding by a list of merges (`tokenizer.ggml.model` is `gpt2`, `gemma4` or `whitespace`:
//! GPT-2, Llama 3, Qwen, SmolLM2, ...), SentencePiece's encoding by scores (`llama`: Llama 2, Mistral, Gemma, ...), its
//! encoding by probabilities (`t5`: T5, XLM-RoBERTa, ...), and RWKV's by longest match (`rwkv`). This is code of our own,
//! because vocabularies come as GGUF has them, without a `tokenizer.json`, and because all loops here take linear time
//! (up to the logarithm of a heap, or the length of the longest token, which is bounded) for any text.
//!
//! Text never becomes a control token. Only [`Tokenizer::encode_prompt`] makes control tokens, and only from parts of the
//! prompt that the chat template wrote itself, see [`crate::template`].
//!
//! Start reading at [`Tokenizer::encode`]. How text is cut before merging is a table, `pre_tokenizers.rs`; merging is
//! `merge.rs`; prompts are `prompt.rs`; output is `decode.rs`.

mod bpe;
mod byte_level;
mod charsmap;
mod decode;
pub(crate) mod load;
mod merge;
pub(crate) mod normalize;
pub(crate) mod pre_tokenizers;
mod prefixes;
mod prompt;
mod rwkv;
mod special;
mod split;
mod spm;
#[cfg(test)]
mod tests;
mod unigram;
pub(crate) mod vocabulary;

use std::borrow::Cow;

pub use decode::StreamDecoder;
pub(crate) use load::keys;
pub use vocabulary::TokenKind;

use crate::error::Result;
use crate::gguf::Metadata;
use bpe::Bpe;
use merge::Merger;
use normalize::Normalizer;
use rwkv::Rwkv;
use special::Finder;
use spm::Spm;
use unigram::Unigram;
use vocabulary::{METASPACE, Vocabulary};

/// The tokenizer of a model.
#[derive(Debug)]
pub struct Tokenizer {
    vocabulary: Vocabulary,
    model: Model,
    /// Finds the tokens that any text is searched for before merging.
    user_defined: Finder,
    /// Finds those and control tokens, for text of the template.
    marked: Finder,
    /// Name of the row that cuts text; empty where none does.
    pre_tokenizer: &'static str,
    normalizer: Normalizer,
    bos: Option<u32>,
    eos: Option<u32>,
    adds_bos: bool,
    space_prefix: SpacePrefix,
    /// Tokens that swallow the white space after them, ascending.
    strips_right: Vec<u32>,
    end_of_turn: Vec<u32>,
    warnings: Vec<String>,
}

#[derive(Debug)]
enum Model {
    Bpe(Bpe),
    Spm(Spm),
    Unigram(Unigram),
    Rwkv(Rwkv),
}

/// When a text gets a space in front that is not there, as SentencePiece's vocabularies want.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SpacePrefix {
    /// Never.
    Never,
    /// Each text between control tokens.
    Always,
    /// The same, where it does not begin with a space by itself.
    UnlessSpaced,
    /// The same, where nothing stands before it.
    First,
}

impl SpacePrefix {
    /// The name that `duan.tokenizer.space_prefix` has for it; GGUF's own key tells the others.
    pub(crate) fn name(self) -> Option<&'static str> {
        match self {
            SpacePrefix::Never | SpacePrefix::Always => None,
            SpacePrefix::UnlessSpaced => Some("unless_spaced"),
            SpacePrefix::First => Some("first"),
        }
    }

    /// What goes in front of `text`, before which there is something or not.
    fn of(self, text: &str, is_first: bool) -> &'static str {
        let adds = match self {
            SpacePrefix::Never => false,
            SpacePrefix::Always => true,
            SpacePrefix::UnlessSpaced => !text.starts_with([' ', '\u{2581}']),
            SpacePrefix::First => is_first && !text.starts_with([' ', '\u{2581}']),
        };
        if adds { METASPACE } else { "" }
    }
}

/// Text is merged in stretches of at most this many bytes, so that positions fit 32 bits.
const LONGEST_STRETCH_BYTES: usize = 1 << 30;

impl Tokenizer {
    /// Reads `tokenizer.ggml.*`. What is odd and can be lived with stands in [`Tokenizer::warnings`].
    ///
    /// # Errors
    /// Where keys are missing or have the wrong type or length, where the kind of tokenizer or the pre-tokenizer is unknown,
    /// and where a byte-pair tokenizer does not name its pre-tokenizer.
    pub fn from_gguf(metadata: &Metadata) -> Result<Tokenizer> {
        load::from_gguf(metadata)
    }

    /// Tokens of plain text. Control tokens never come out, whatever the text says, and no begin-of-text token is added.
    pub fn encode(&self, text: &str) -> Vec<u32> {
        let mut ids = Vec::new();
        self.append_text(text, &mut Merger::default(), &mut ids);
        ids
    }

    /// Encodes text that stands between control tokens, or at the beginning or end.
    fn append_text(&self, text: &str, merger: &mut Merger, ids: &mut Vec<u32>) {
        let mut done = 0;
        for found in self.user_defined.find(text) {
            self.append_plain(&text[done..found.start], merger, ids);
            ids.push(found.id);
            done = self.end_of_token(text, found.id, found.end);
        }
        self.append_plain(&text[done..], merger, ids);
    }

    /// Where text goes on after a token that ends at `end`: behind the white space that the token swallows, where it does.
    fn end_of_token(&self, text: &str, id: u32, end: usize) -> usize {
        let rest = &text[end..];
        if self.strips_right(id) { end + (rest.len() - rest.trim_start().len()) } else { end }
    }

    fn strips_right(&self, id: u32) -> bool {
        self.strips_right.binary_search(&id).is_ok()
    }

    /// Encodes text without user-defined tokens in it.
    fn append_plain(&self, text: &str, merger: &mut Merger, ids: &mut Vec<u32>) {
        let normalized = self.normalizer.apply(text);
        let mut text = &*normalized;
        let mut prefix = self.space_prefix.of(text, ids.is_empty());
        while !text.is_empty() {
            let (stretch, rest) = text.split_at(text.floor_char_boundary(LONGEST_STRETCH_BYTES));
            self.append_merged(prefix, stretch, merger, ids);
            prefix = "";
            text = rest;
        }
    }

    /// Encodes normalized text by merging alone; `prefix` goes in front where the vocabulary is SentencePiece's.
    fn append_merged(&self, prefix: &str, text: &str, merger: &mut Merger, ids: &mut Vec<u32>) {
        match &self.model {
            Model::Bpe(bpe) if bpe.escapes_spaces() => {
                let escaped = format!("{prefix}{}", text.replace(' ', METASPACE));
                bpe.encode(&self.vocabulary, &escaped, merger, ids);
            }
            Model::Bpe(bpe) => bpe.encode(&self.vocabulary, text, merger, ids),
            Model::Spm(spm) => {
                let escaped = format!("{prefix}{}", text.replace(' ', METASPACE));
                spm.encode(&self.vocabulary, &escaped, merger, ids);
            }
            Model::Unigram(unigram) => unigram.encode(&self.vocabulary, prefix, text, merger, ids),
            Model::Rwkv(rwkv) => rwkv.encode(&self.vocabulary, text, merger, ids),
        }
    }

    /// The token that begins a text, where there is one.
    pub fn bos(&self) -> Option<u32> {
        self.bos
    }

    /// Whether texts for this model begin with [`Tokenizer::bos`].
    pub fn adds_bos(&self) -> bool {
        self.adds_bos
    }

    /// The token that ends a text, where there is one.
    pub fn eos(&self) -> Option<u32> {
        self.eos
    }

    /// All tokens that end the model's turn, each once; never out of range.
    pub fn end_of_turn(&self) -> &[u32] {
        &self.end_of_turn
    }

    /// Number of tokens in the vocabulary. The model's output may be wider, with places for which there is no token.
    pub fn vocab_size(&self) -> usize {
        self.vocabulary.len()
    }

    /// Text of a token as the file writes it; `None` beyond the vocabulary.
    pub fn token_text(&self, id: u32) -> Option<&str> {
        self.vocabulary.text(id)
    }

    /// What a token prints, which may be a part of a character; nothing beyond the vocabulary. Control tokens give their
    /// names.
    pub fn token_bytes(&self, id: u32) -> Cow<'_, [u8]> {
        Cow::Borrowed(self.vocabulary.bytes(id))
    }

    /// What a token is for; ids beyond the vocabulary are unused places.
    pub fn token_kind(&self, id: u32) -> TokenKind {
        self.vocabulary.kind(id)
    }

    /// Whether a token is structure rather than text.
    pub fn is_control(&self, id: u32) -> bool {
        self.vocabulary.kind(id) == TokenKind::Control
    }

    /// The first token whose text in the file is exactly this, of whatever kind. Looks at all tokens.
    pub fn find_token(&self, text: &str) -> Option<u32> {
        self.vocabulary.find_text(text)
    }

    /// Name of the pre-tokenizer, by which text is cut before merging; empty where the tokenizer has none.
    pub fn pre_tokenizer(&self) -> &'static str {
        self.pre_tokenizer
    }

    /// What is odd about the vocabulary, one sentence each.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// A decoder for a stream of tokens that starts now.
    pub fn decoder(&self) -> StreamDecoder<'_> {
        StreamDecoder::new(self)
    }

    /// Text of tokens; control tokens print nothing.
    pub fn decode(&self, ids: &[u32]) -> String {
        let mut decoder = self.decoder();
        let mut text = String::new();
        for &id in ids {
            decoder.push(id, &mut text);
        }
        decoder.finish(&mut text);
        text
    }
}
