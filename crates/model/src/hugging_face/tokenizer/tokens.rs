//! The list of tokens: each id once, each text once, no id left out.

use std::collections::HashMap;

use super::json::{AddedToken, malformed};
use crate::error::{Error, Result, quoted};
use crate::gguf::StringArray;
use crate::tokenizer::load::MOST_TOKENS;
use crate::tokenizer::vocabulary::{METASPACE, byte_token_value};

/// Numbers of `tokenizer.ggml.token_type`.
pub(super) const NORMAL: i32 = 1;
pub(super) const UNKNOWN: i32 = 2;
pub(super) const CONTROL: i32 = 3;
pub(super) const USER_DEFINED: i32 = 4;
pub(super) const UNUSED: i32 = 5;
pub(super) const BYTE: i32 = 6;

/// How many places without a token there may be beside as many as there are tokens. Vocabularies are padded to round numbers.
const MOST_HOLES: usize = 1 << 16;

/// The score of a token that is found in text before all others; it is never merged. As other converters write it.
pub(super) const SCORE_OF_ADDED: f32 = -1000.0;

/// A token.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Token {
    pub(super) text: String,
    pub(super) kind: i32,
    pub(super) score: f32,
    /// Found in text before anything else happens to it.
    pub(super) is_added: bool,
}

/// All tokens that the files name, by id.
#[derive(Debug)]
pub(super) struct Tokens {
    file: String,
    by_id: HashMap<u32, Token>,
    by_text: HashMap<String, u32>,
}

impl Tokens {
    /// None yet; `file` is the name that errors show.
    pub(super) fn new(file: &str, capacity: usize) -> Tokens {
        Tokens {
            file: file.to_owned(),
            by_id: HashMap::with_capacity(capacity),
            by_text: HashMap::with_capacity(capacity),
        }
    }

    fn wrong(&self, expected: impl Into<String>, found: impl Into<String>) -> Error {
        malformed(&self.file, "the vocabulary", expected, found)
    }

    /// Takes a token of the vocabulary in.
    ///
    /// # Errors
    /// Where its id is too large, or its id or its text is there already.
    pub(super) fn insert(&mut self, text: String, id: u64, kind: i32, score: f32) -> Result<()> {
        let id = self.checked(&text, id)?;
        if let Some(other) = self.by_id.get(&id) {
            let found = format!("id {id} for `{}` and `{}`", quoted(&other.text), quoted(&text));
            return Err(self.wrong("each id once", found));
        }
        if let Some(other) = self.by_text.get(&text) {
            let found = format!("a duplicate: `{}` has ids {other} and {id}", quoted(&text));
            return Err(self.wrong("each token once", found));
        }
        self.by_text.insert(text.clone(), id);
        self.by_id.insert(id, Token { text, kind, score, is_added: false });
        Ok(())
    }

    fn checked(&self, text: &str, id: u64) -> Result<u32> {
        u32::try_from(id)
            .ok()
            .filter(|&id| (id as usize) < MOST_TOKENS)
            .ok_or_else(|| self.wrong(format!("ids below {MOST_TOKENS}"), format!("id {id} for `{}`", quoted(text))))
    }

    /// Takes a token in that is found in text before all others, and says what is odd about it. One that the vocabulary has is
    /// marked so.
    ///
    /// # Errors
    /// Where its id is too large, or another such token has it.
    pub(super) fn add(&mut self, text: &str, id: u64, kind: i32, notes: &mut Vec<String>) -> Result<()> {
        let mut id = self.checked(text, id)?;
        if text.is_empty() {
            notes.push(format!("added token {id} has no text and is left out"));
            return Ok(());
        }
        if let Some(&known) = self.by_text.get(text)
            && known != id
        {
            notes.push(format!(
                "added token `{}` has id {id}, and {known} in the vocabulary, which counts",
                quoted(text)
            ));
            id = known;
        }
        let token = Token { text: text.to_owned(), kind, score: SCORE_OF_ADDED, is_added: true };
        match self.by_id.insert(id, token) {
            Some(before) if before.text != text => {
                if before.is_added {
                    let found = format!("id {id} for `{}` and `{}`", quoted(&before.text), quoted(text));
                    return Err(self.wrong("each id of an added token once", found));
                }
                notes.push(format!("token {id} `{}` is replaced by `{}`", quoted(&before.text), quoted(text)));
                self.by_text.remove(&before.text);
            }
            // What stands for the unknown stays that.
            Some(before) if before.kind == UNKNOWN => {
                self.by_id.entry(id).and_modify(|token| token.kind = UNKNOWN);
            }
            _ => {}
        }
        self.by_text.insert(text.to_owned(), id);
        Ok(())
    }

    pub(super) fn find(&self, text: &str) -> Option<u32> {
        self.by_text.get(text).copied()
    }

    pub(super) fn get(&self, id: u32) -> Option<&Token> {
        self.by_id.get(&id)
    }

    pub(super) fn set_kind(&mut self, id: u32, kind: i32) {
        self.by_id.entry(id).and_modify(|token| token.kind = kind);
    }

    /// Gives tokens their scores.
    pub(super) fn set_scores(&mut self, scores: &[(u32, f32)]) {
        for &(id, score) in scores {
            self.by_id.entry(id).and_modify(|token| token.score = score);
        }
    }

    /// All tokens in order of their ids.
    pub(super) fn in_order(&self) -> Vec<(u32, &Token)> {
        let mut tokens: Vec<(u32, &Token)> = self.by_id.iter().map(|(&id, token)| (id, token)).collect();
        tokens.sort_unstable_by_key(|&(id, _)| id);
        tokens
    }

    pub(super) fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Gives the tokens whose id is no more than the model has rows for, `vocab_size`, with unused ones where there is none. Without
    /// `vocab_size`, the last one ends the list.
    ///
    /// # Errors
    /// Where nearly all of the list would be such places.
    pub(super) fn list(&self, vocab_size: Option<u64>, notes: &mut Vec<String>) -> Result<List> {
        let ends = self.by_id.keys().max().map_or(0, |&id| id as usize + 1);
        let size = vocab_size.map_or(ends, |size| usize::try_from(size).unwrap_or(usize::MAX));
        let beyond: Vec<(u32, &Token)> = self.in_order().into_iter().filter(|&(id, _)| id as usize >= size).collect();
        if let Some((id, first)) = beyond.first() {
            notes.push(format!(
                "{} tokens from {id} `{}` on have no row in the model, whose vocab_size is {size}, and are left out",
                beyond.len(),
                quoted(&first.text)
            ));
        }
        let holes = size.saturating_sub(self.len());
        if size == 0 || size > MOST_TOKENS || holes > self.len() + MOST_HOLES {
            let found = format!("{} tokens for {size} places", self.len());
            return Err(self.wrong(format!("1 to {MOST_TOKENS} places, most of them with a token"), found));
        }
        let mut list =
            List { texts: StringArray::new(), kinds: Vec::with_capacity(size), scores: Vec::with_capacity(size) };
        for id in 0..size as u32 {
            let unused;
            let token = match self.get(id) {
                Some(token) => token,
                None => {
                    unused = Token { text: format!("[PAD{id}]"), kind: UNUSED, score: -10000.0, is_added: false };
                    &unused
                }
            };
            // Other readers look for these in text as it stands, before spaces are escaped.
            if token.kind == USER_DEFINED && token.is_added && token.text.contains(METASPACE) {
                list.texts.push(&token.text.replace(METASPACE, " "));
            } else {
                list.texts.push(&token.text);
            }
            list.kinds.push(token.kind);
            list.scores.push(token.score);
        }
        Ok(list)
    }
}

/// The tokens as GGUF has them.
pub(super) struct List {
    pub(super) texts: StringArray,
    pub(super) kinds: Vec<i32>,
    pub(super) scores: Vec<f32>,
}

/// What an added token is for. Many files mark only some of the tokens that structure a conversation; those in brackets with bars,
/// and Gemma's places that are kept free, are taken for such as other converters take them.
pub(super) fn kind_of_added(text: &str, special: bool) -> i32 {
    let in_brackets = |open: &str, close: &str| text.starts_with(open) && text.ends_with(close);
    let looks_so = in_brackets("<|", "|>")
        || in_brackets("<｜", "｜>")
        || in_brackets("<unused", ">")
        || ["<pad>", "<mask>", "<2mass>", "[@BOS@]"].contains(&text);
    if special || looks_so { CONTROL } else { USER_DEFINED }
}

/// What a token of the vocabulary is for, where characters that are no token fall back to bytes or do not.
pub(super) fn kind_of_listed(text: &str, has_bytes: bool) -> i32 {
    if has_bytes && byte_token_value(text).is_some() { BYTE } else { NORMAL }
}

/// The added tokens that swallow the white space after them; what else such a token asks for and cannot have is said.
pub(super) fn strips_right(added: &[AddedToken], tokens: &Tokens, notes: &mut Vec<String>) -> Vec<u32> {
    let mut ids: Vec<u32> =
        added.iter().filter(|token| token.rstrip).filter_map(|token| tokens.find(&token.content)).collect();
    ids.sort_unstable();
    ids.dedup();
    let others: Vec<&AddedToken> = added.iter().filter(|token| token.lstrip || token.single_word).collect();
    if let Some(first) = others.first() {
        notes.push(format!(
            "{} added tokens, `{}` first, ask for white space before them to be dropped or for whole words; they are found \
             everywhere",
            others.len(),
            quoted(&first.content)
        ));
    }
    ids
}
