//! How text becomes tokens, and the tokens with a meaning of their own.

use duan_model::gguf::{Metadata, StringArray};
use duan_model::tokenizer::{TokenKind, Tokenizer};
use serde::Serialize;

use super::text;

/// How text becomes tokens.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct TokenizerFacts {
    /// Whether this version can use it.
    #[serde(rename = "supported")]
    pub is_supported: bool,
    /// The kind, as the file names it.
    pub model: Option<String>,
    /// How text is cut before merging, as the file names it.
    pub pre_tokenizer: Option<String>,
    /// The same as this version uses it, where it cuts text at all.
    pub pre_tokenizer_used: Option<String>,
    /// Whether the file does not name it and it was recognized by the vocabulary.
    pub is_pre_tokenizer_recovered: bool,
    /// Tokens of the vocabulary.
    pub vocab_size: usize,
    /// Merges, where the file has a list of them.
    pub merges: Option<usize>,
    /// Tokens that are structure and not text; `None` where the tokenizer cannot be used.
    pub control_tokens: Option<usize>,
    /// Places of the vocabulary that are not used.
    pub unused_tokens: Option<usize>,
    /// Id of the token that begins a text.
    pub bos: Option<u32>,
    /// Id of the token that ends a text.
    pub eos: Option<u32>,
    /// Whether texts begin with it.
    pub adds_bos: bool,
    /// Whether the file asks for the token that ends a text behind each text; this version never puts it.
    pub asks_for_eos: bool,
    /// Whether a space is put in front of texts.
    pub adds_space_prefix: bool,
    /// Ids of all tokens that end the model's turn.
    pub end_of_turn: Vec<u32>,
    /// The tokens that the file names by their roles, in a fixed order.
    pub special: Vec<SpecialTokenFacts>,
    /// The tokens that end the model's turn.
    pub end_of_turn_tokens: Vec<SpecialTokenFacts>,
}

/// A token with a meaning of its own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct SpecialTokenFacts {
    /// What it is for, as the file's key says: `bos`, `eos`, `padding`, ...
    pub role: &'static str,
    /// The id.
    pub id: u32,
    /// Its text in the file; `None` where the vocabulary has no such id.
    pub text: Option<String>,
}

/// Roles and the keys `tokenizer.ggml.KEY_token_id` that name their tokens; `seperator` is how files spell it.
const ROLES: &[(&str, &[&str])] = &[
    ("bos", &["bos"]),
    ("eos", &["eos"]),
    ("eot", &["eot"]),
    ("eom", &["eom"]),
    ("padding", &["padding"]),
    ("unknown", &["unknown"]),
    ("separator", &["seperator", "separator"]),
    ("class", &["cls"]),
    ("mask", &["mask"]),
    ("fim_prefix", &["fim_pre", "prefix"]),
    ("fim_suffix", &["fim_suf", "suffix"]),
    ("fim_middle", &["fim_mid", "middle"]),
    ("fim_padding", &["fim_pad"]),
    ("fim_repository", &["fim_rep"]),
    ("fim_file", &["fim_sep"]),
];

impl TokenizerFacts {
    pub(super) fn of(metadata: &Metadata, tokenizer: Option<&Tokenizer>) -> Self {
        let texts = metadata.strings("tokenizer.ggml.tokens").ok().flatten();
        let flag = |key: &str| metadata.bool(&format!("tokenizer.ggml.{key}")).ok().flatten();
        let special = special(metadata, texts, tokenizer);
        let id_of = |role: &str| special.iter().find(|token| token.role == role).map(|token| token.id);
        let end_of_turn = match tokenizer {
            Some(tokenizer) => tokenizer.end_of_turn().to_vec(),
            None => ["eos", "eot", "eom"].into_iter().filter_map(id_of).collect(),
        };
        let used = tokenizer.map(Tokenizer::pre_tokenizer).filter(|name| !name.is_empty());
        let pre_tokenizer = text(metadata, "tokenizer.ggml.pre");
        let count = |kind: TokenKind| {
            let tokenizer = tokenizer?;
            let ids = 0..u32::try_from(tokenizer.vocab_size()).unwrap_or(u32::MAX);
            Some(ids.filter(|&id| tokenizer.token_kind(id) == kind).count())
        };
        // SentencePiece puts a space in front where nobody says otherwise.
        let model = text(metadata, "tokenizer.ggml.model");
        let by_scores = model.as_deref() == Some("llama");
        Self {
            is_supported: tokenizer.is_some(),
            // Other kinds cut text in one way only, which needs no name.
            is_pre_tokenizer_recovered: model.as_deref() == Some("gpt2") && used.is_some() && pre_tokenizer.is_none(),
            model,
            pre_tokenizer,
            pre_tokenizer_used: used.map(str::to_owned),
            vocab_size: texts.map_or(0, StringArray::len),
            merges: metadata.strings("tokenizer.ggml.merges").ok().flatten().map(StringArray::len),
            control_tokens: count(TokenKind::Control),
            unused_tokens: count(TokenKind::Unused),
            bos: tokenizer.map_or_else(|| id_of("bos"), Tokenizer::bos),
            eos: tokenizer.map_or_else(|| id_of("eos"), Tokenizer::eos),
            adds_bos: tokenizer.map_or_else(|| flag("add_bos_token").unwrap_or(false), Tokenizer::adds_bos),
            asks_for_eos: flag("add_eos_token").unwrap_or(false),
            adds_space_prefix: flag("add_space_prefix").unwrap_or(by_scores),
            end_of_turn_tokens: end_of_turn.iter().map(|&id| token("end_of_turn", id, texts)).collect(),
            end_of_turn,
            special,
        }
    }

    /// The token of a role, by which the file names it.
    pub fn token(&self, role: &str) -> Option<&SpecialTokenFacts> {
        self.special.iter().find(|token| token.role == role)
    }
}

/// The tokens that the file names by their roles, and those that the tokenizer knows in their usual places.
fn special(metadata: &Metadata, texts: Option<&StringArray>, tokenizer: Option<&Tokenizer>) -> Vec<SpecialTokenFacts> {
    let id = |key: &&str| metadata.u32(&format!("tokenizer.ggml.{key}_token_id")).ok().flatten();
    let usual = |role: &str| match role {
        "bos" => tokenizer?.bos(),
        "eos" => tokenizer?.eos(),
        _ => None,
    };
    let tokens = ROLES.iter().map(|(role, keys)| (*role, keys.iter().find_map(id).or_else(|| usual(role))));
    tokens.filter_map(|(role, id)| Some(token(role, id?, texts))).collect()
}

fn token(role: &'static str, id: u32, texts: Option<&StringArray>) -> SpecialTokenFacts {
    SpecialTokenFacts { role, id, text: texts.and_then(|texts| texts.get(id as usize)).map(str::to_owned) }
}
