//! The files' JSON: the parts of `tokenizer.json` that matter here, read in one pass.
//!
//! serde_json refuses what is nested deeper than 128, so that no file exhausts the stack.

use std::fmt;

use serde::Deserialize;
use serde::de::{DeserializeOwned, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::Value as Json;
use serde_json::value::RawValue;

use crate::error::{Error, Result, quoted};
use crate::gguf::failed_download;

/// What to do about a file that breaks the rules of its format.
const REMEDY: &str = "the file is damaged, or made by a tool that does it differently; get it from another source";

/// `tokenizer.json`, as far as it says how text becomes tokens.
#[derive(Deserialize)]
pub(super) struct TokenizerJson {
    pub(super) added_tokens: Option<Vec<AddedToken>>,
    #[serde(default, deserialize_with = "bounded")]
    pub(super) normalizer: Option<Json>,
    #[serde(default, deserialize_with = "bounded")]
    pub(super) pre_tokenizer: Option<Json>,
    #[serde(default, deserialize_with = "bounded")]
    pub(super) post_processor: Option<Json>,
    pub(super) model: Model,
}

/// The longest text of a part that is kept as JSON, which takes many times as much memory. The longest known ones have half a
/// megabyte.
const LONGEST_PART_BYTES: usize = 4 << 20;

/// Any JSON of a bounded length.
fn bounded<'de, D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Option<Json>, D::Error> {
    let Some(text) = Option::<Box<RawValue>>::deserialize(deserializer)? else { return Ok(None) };
    if text.get().len() > LONGEST_PART_BYTES {
        return Err(D::Error::custom(format!("a part of more than {LONGEST_PART_BYTES} bytes")));
    }
    serde_json::from_str(text.get()).map_err(D::Error::custom)
}

/// A token that is found in text before anything else happens to it.
#[derive(Deserialize)]
pub(super) struct AddedToken {
    pub(super) id: u64,
    pub(super) content: String,
    #[serde(default)]
    pub(super) single_word: bool,
    #[serde(default)]
    pub(super) lstrip: bool,
    #[serde(default)]
    pub(super) rstrip: bool,
    #[serde(default)]
    pub(super) special: bool,
}

/// `model`: the vocabulary, and how pieces of text become its tokens.
#[derive(Deserialize)]
pub(super) struct Model {
    #[serde(rename = "type")]
    pub(super) kind: Option<String>,
    pub(super) vocab: Vocab,
    pub(super) merges: Option<Vec<Merge>>,
    pub(super) unk_token: Option<String>,
    pub(super) unk_id: Option<u64>,
    pub(super) byte_fallback: Option<bool>,
    pub(super) ignore_merges: Option<bool>,
    pub(super) continuing_subword_prefix: Option<String>,
    pub(super) end_of_word_suffix: Option<String>,
}

/// Tokens as the file lists them.
pub(super) enum Vocab {
    /// Each with its id, in the file's order: a JSON object, in which a text may stand twice.
    Ids(Vec<(String, u64)>),
    /// Each with its score; the place in the list is the id.
    Scores(Vec<(String, f64)>),
}

/// A merge as the file writes it.
pub(super) enum Merge {
    /// Both sides with a space between them; a side may have spaces itself.
    Text(String),
    /// Both sides, as `tokenizers` writes them since 0.20.
    Pair(String, String),
}

impl<'de> Deserialize<'de> for Vocab {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Vocab, D::Error> {
        deserializer.deserialize_any(VocabVisitor)
    }
}

struct VocabVisitor;

impl<'de> Visitor<'de> for VocabVisitor {
    type Value = Vocab;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("an object of tokens and ids, or a list of tokens and scores")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> std::result::Result<Vocab, A::Error> {
        let mut ids = Vec::new();
        while let Some(entry) = map.next_entry()? {
            ids.push(entry);
        }
        Ok(Vocab::Ids(ids))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> std::result::Result<Vocab, A::Error> {
        let mut scores = Vec::new();
        while let Some(item) = list.next_element()? {
            scores.push(item);
        }
        Ok(Vocab::Scores(scores))
    }
}

impl<'de> Deserialize<'de> for Merge {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Merge, D::Error> {
        deserializer.deserialize_any(MergeVisitor)
    }
}

struct MergeVisitor;

impl<'de> Visitor<'de> for MergeVisitor {
    type Value = Merge;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("a merge: two strings in a list, or one with a space between both sides")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> std::result::Result<Merge, E> {
        Ok(Merge::Text(text.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> std::result::Result<Merge, A::Error> {
        let missing = |count| serde::de::Error::invalid_length(count, &self);
        let left = list.next_element()?.ok_or_else(|| missing(0))?;
        let right = list.next_element()?.ok_or_else(|| missing(1))?;
        if list.next_element::<serde::de::IgnoredAny>()?.is_some() {
            return Err(missing(3));
        }
        Ok(Merge::Pair(left, right))
    }
}

/// Reads a file's JSON; `file` is the name that errors show.
pub(super) fn parse<T: DeserializeOwned>(file: &str, bytes: &[u8]) -> Result<T> {
    // Some editors of Windows put a mark of the byte order in front.
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    if let Some((what, remedy)) = failed_download(bytes) {
        return Err(Error::wrong_file(file, format!("this is {what}, not a JSON file"), remedy));
    }
    serde_json::from_slice(bytes).map_err(|error| {
        let place = format!("line {} column {}", error.line(), error.column());
        malformed(file, place, "JSON as this file's format has it", quoted_error(&error))
    })
}

/// What serde_json found, without the place, which stands elsewhere.
fn quoted_error(error: &serde_json::Error) -> String {
    let text = error.to_string();
    quoted(text.rsplit_once(" at line ").map_or(&*text, |(found, _)| found))
}

/// An error about what stands in a file.
pub(super) fn malformed(
    file: &str,
    place: impl Into<String>,
    expected: impl Into<String>,
    found: impl Into<String>,
) -> Error {
    let (file, place) = (file.to_owned(), place.into());
    Error::Malformed { file, place, expected: expected.into(), found: found.into(), remedy: REMEDY.to_owned() }
}
