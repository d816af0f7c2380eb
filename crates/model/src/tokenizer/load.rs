//! Making a tokenizer from the metadata of a GGUF file.

use std::collections::HashSet;

use super::bpe::{Bpe, Merges};
use super::charsmap::Charsmap;
use super::normalize::Normalizer;
use super::pre_tokenizers::{self, Form, PRE_TOKENIZERS, PreTokenizer};
use super::rwkv::Rwkv;
use super::special::{Finder, end_of_turn_by_name, miscast_starts_of_turn, strips_right};
use super::spm::Spm;
use super::unigram::Unigram;
use super::vocabulary::{Spelling, TokenKind, Vocabulary};
use super::{Model, SpacePrefix, Tokenizer};
use crate::error::{Error, Result, quoted};
use crate::gguf::{Array, Metadata, StringArray, Value};

/// Keys of the metadata. Those that begin with `duan.` are duan's own: a `tokenizer.json` says what GGUF has no key for, and where
/// that changes tokens, it is written beside GGUF's keys. Other programs pass them over.
pub(crate) mod keys {
    pub(crate) const MODEL: &str = "tokenizer.ggml.model";
    pub(crate) const PRE: &str = "tokenizer.ggml.pre";
    pub(crate) const TOKENS: &str = "tokenizer.ggml.tokens";
    pub(crate) const TYPES: &str = "tokenizer.ggml.token_type";
    pub(crate) const SCORES: &str = "tokenizer.ggml.scores";
    pub(crate) const MERGES: &str = "tokenizer.ggml.merges";
    pub(crate) const CHARSMAP: &str = "tokenizer.ggml.precompiled_charsmap";
    pub(crate) const ADDS_BOS: &str = "tokenizer.ggml.add_bos_token";
    pub(crate) const ADDS_EOS: &str = "tokenizer.ggml.add_eos_token";
    pub(crate) const ADDS_SPACE_PREFIX: &str = "tokenizer.ggml.add_space_prefix";
    pub(crate) const REMOVES_EXTRA_SPACES: &str = "tokenizer.ggml.remove_extra_whitespaces";
    pub(crate) const LOWERCASE: &str = "tokenizer.ggml.normalizer.lowercase";
    /// A string: what happens to text instead of what the pre-tokenizer's row says: `none`, `nfc`, `nfkc`, `lowercase`.
    pub(crate) const NORMALIZER: &str = "duan.tokenizer.normalizer";
    /// A bool: whether a piece that is a token is taken whole, instead of what the row says.
    pub(crate) const WHOLE_PIECES: &str = "duan.tokenizer.whole_pieces";
    /// A string: which texts get a space in front, where not all do: `first`, `unless_spaced`.
    pub(crate) const SPACE_PREFIX: &str = "duan.tokenizer.space_prefix";
    /// Ids of tokens that swallow the white space after them.
    pub(crate) const STRIPS_RIGHT: &str = "duan.tokenizer.strips_right";
    /// Ids of tokens that end a turn, beside those that GGUF has keys for.
    pub(crate) const END_OF_TURN: &str = "duan.tokenizer.end_of_turn";
}

use keys::{CHARSMAP, MERGES, MODEL, PRE, SCORES, TOKENS, TYPES};

/// The most tokens that a vocabulary may have. The largest known ones have about 260 thousand.
pub(crate) const MOST_TOKENS: usize = 1 << 24;

/// The most merges that a vocabulary may have. Ranks and places in the table of merges are 32-bit numbers.
pub(crate) const MOST_MERGES: usize = 1 << 26;

/// The kind of tokenizer that the file names.
#[derive(Debug, Clone, Copy)]
enum Kind {
    /// Byte-pair encoding, by merges, of text that is cut as the row says.
    Merges(&'static PreTokenizer),
    /// SentencePiece's, by scores.
    Scores,
    /// SentencePiece's, by probabilities.
    Unigram,
    /// RWKV's, by longest match.
    LongestMatch,
}

impl Kind {
    fn read(metadata: &Metadata, warnings: &mut Vec<String>) -> Result<Kind> {
        match metadata.required(MODEL, metadata.string(MODEL)?)? {
            "gpt2" => Ok(Kind::Merges(named_pre_tokenizer(metadata, warnings)?)),
            // These kinds are named after how they cut text, and need no other name.
            "gemma4" => Ok(Kind::Merges(pre_tokenizer(metadata, "gemma4")?)),
            "whitespace" => Ok(Kind::Merges(pre_tokenizer(metadata, "whitespace")?)),
            "llama" => Ok(Kind::Scores),
            "t5" => Ok(Kind::Unigram),
            "rwkv" => Ok(Kind::LongestMatch),
            other => {
                let expected = "gpt2, llama, t5, gemma4, whitespace or rwkv";
                Err(Error::key(metadata.file(), MODEL, expected, format!("\"{}\"", quoted(other)))
                    .with_remedy("this kind of tokenizer is not supported, use another model"))
            }
        }
    }

    fn row(self) -> Option<&'static PreTokenizer> {
        if let Kind::Merges(row) = self { Some(row) } else { None }
    }

    fn spelling(self) -> Spelling {
        match self {
            Kind::Merges(row) if row.form == Form::Bytes => Spelling::ByteLevel,
            Kind::Merges(_) | Kind::Scores | Kind::Unigram => Spelling::Metaspace,
            Kind::LongestMatch => Spelling::Escaped,
        }
    }

    /// Whether texts begin with a begin-of-text token where the file does not say.
    fn adds_bos(self) -> bool {
        match self {
            Kind::Merges(row) => row.adds_bos,
            Kind::Scores => true,
            Kind::Unigram | Kind::LongestMatch => false,
        }
    }
}

pub(super) fn from_gguf(metadata: &Metadata) -> Result<Tokenizer> {
    let mut warnings = Vec::new();
    let kind = Kind::read(metadata, &mut warnings)?;
    let texts = tokens(metadata)?;
    let mut kinds = token_kinds(metadata, texts.len(), &mut warnings)?;
    let special = SpecialIds::read(metadata, kind, texts, &mut kinds, &mut warnings)?;
    let mut end_of_turn = special.end_of_turn(texts, &mut kinds, &mut warnings);
    for id in ids_at(metadata, keys::END_OF_TURN, texts.len())? {
        if !end_of_turn.contains(&id) {
            end_of_turn.push(id);
        }
    }
    // Some files name the end of the text as their unknown token; text must not become that.
    let unknown = special.unknown.filter(|&id| kinds[id as usize] != TokenKind::Control);
    let vocabulary = Vocabulary::new(texts.clone(), kinds, kind.spelling());
    if vocabulary.duplicates > 0 {
        warnings.push(format!("{} tokens have the text of an earlier one and are never used", vocabulary.duplicates));
    }
    let model = model(metadata, &vocabulary, kind, unknown, &mut warnings)?;
    let adds_bos = metadata.bool(keys::ADDS_BOS)?.unwrap_or(kind.adds_bos());
    if adds_bos && special.bos.is_none() {
        warnings.push("texts should begin with a begin-of-text token, and the file names none".to_owned());
    }
    let user_defined = finder(metadata, &vocabulary, &[TokenKind::UserDefined])?;
    let marked = [TokenKind::UserDefined, TokenKind::Control, TokenKind::Unknown];
    Ok(Tokenizer {
        user_defined,
        marked: finder(metadata, &vocabulary, &marked)?,
        pre_tokenizer: kind.row().map_or("", |row| row.names[0]),
        normalizer: normalizer(metadata, kind)?,
        strips_right: strips_right_of(metadata, texts)?,
        vocabulary,
        model,
        bos: special.bos,
        eos: special.eos,
        adds_bos: adds_bos && special.bos.is_some(),
        space_prefix: space_prefix(metadata, kind)?,
        end_of_turn,
        warnings,
    })
}

/// Ids that a key of duan's own lists, each of them a token.
fn ids_at(metadata: &Metadata, key: &str, tokens: usize) -> Result<Vec<u32>> {
    let ids = metadata.u32s(key)?.map(std::borrow::Cow::into_owned).unwrap_or_default();
    match ids.iter().find(|&&id| id as usize >= tokens) {
        None if ids.len() <= 1024 => Ok(ids),
        None => Err(Error::key(metadata.file(), key, "at most 1024 tokens", format!("{}", ids.len()))),
        Some(id) => Err(Error::key(metadata.file(), key, format!("ids below {tokens}"), id.to_string())),
    }
}

/// Tokens that swallow the white space after them, ascending: those of the file, or those known by name.
fn strips_right_of(metadata: &Metadata, texts: &StringArray) -> Result<Vec<u32>> {
    if metadata.get(keys::STRIPS_RIGHT).is_none() {
        return Ok(strips_right(texts));
    }
    let mut ids = ids_at(metadata, keys::STRIPS_RIGHT, texts.len())?;
    ids.sort_unstable();
    ids.dedup();
    Ok(ids)
}

/// Which texts get a space in front.
fn space_prefix(metadata: &Metadata, kind: Kind) -> Result<SpacePrefix> {
    let usual = match kind {
        Kind::Scores | Kind::Unigram => true,
        Kind::Merges(row) if row.form == Form::Characters => false,
        Kind::Merges(_) | Kind::LongestMatch => return Ok(SpacePrefix::Never),
    };
    if !metadata.bool(keys::ADDS_SPACE_PREFIX)?.unwrap_or(usual) {
        return Ok(SpacePrefix::Never);
    }
    let Some(name) = metadata.string(keys::SPACE_PREFIX)? else { return Ok(SpacePrefix::Always) };
    let named = [SpacePrefix::UnlessSpaced, SpacePrefix::First].into_iter().find(|prefix| prefix.name() == Some(name));
    named.ok_or_else(|| {
        Error::key(metadata.file(), keys::SPACE_PREFIX, "unless_spaced or first", format!("\"{}\"", quoted(name)))
    })
}

/// What is done to text before it is cut: what the row says, or the file where it says something.
fn normalizer(metadata: &Metadata, kind: Kind) -> Result<Normalizer> {
    if let Some(name) = metadata.string(keys::NORMALIZER)? {
        return Normalizer::by_name(name).ok_or_else(|| {
            let expected = "none, nfc, nfkc or lowercase";
            Error::key(metadata.file(), keys::NORMALIZER, expected, format!("\"{}\"", quoted(name)))
        });
    }
    let Some(row) = kind.row() else { return Ok(Normalizer::None) };
    let lowercase = row.form == Form::Words && metadata.bool(keys::LOWERCASE)?.unwrap_or(false);
    Ok(if lowercase { Normalizer::Lowercase } else { row.normalizer })
}

fn model(
    metadata: &Metadata,
    vocabulary: &Vocabulary,
    kind: Kind,
    unknown: Option<u32>,
    warnings: &mut Vec<String>,
) -> Result<Model> {
    if matches!(kind, Kind::LongestMatch | Kind::Unigram) {
        check_lengths(metadata, vocabulary)?;
    }
    Ok(match kind {
        Kind::Merges(row) => byte_pair(metadata, vocabulary, row, kind.spelling(), unknown, warnings)?,
        Kind::Scores => Model::Spm(Spm::new(vocabulary, &scores(metadata, vocabulary.len())?, unknown)),
        Kind::LongestMatch => Model::Rwkv(Rwkv::new(vocabulary, unknown)),
        Kind::Unigram => {
            let removes_extra_spaces = metadata.bool(keys::REMOVES_EXTRA_SPACES)?.unwrap_or(false);
            let scores = scores(metadata, vocabulary.len())?;
            Model::Unigram(Unigram::new(vocabulary, &scores, unknown, charsmap(metadata)?, removes_extra_spaces))
        }
    })
}

/// Tokens that are looked for at every place of a text: each place costs as many steps as the longest has bytes.
fn check_lengths(metadata: &Metadata, vocabulary: &Vocabulary) -> Result<()> {
    const LONGEST_BYTES: usize = 1024;
    let too_long = (0..vocabulary.len() as u32).find(|&id| vocabulary.key(id).len() > LONGEST_BYTES);
    let Some(id) = too_long else { return Ok(()) };
    let expected = format!("tokens of at most {LONGEST_BYTES} bytes in a vocabulary of this kind");
    let found = format!("token {id} of {} bytes", vocabulary.key(id).len());
    Err(Error::key(metadata.file(), TOKENS, expected, found))
}

fn charsmap(metadata: &Metadata) -> Result<Option<Charsmap>> {
    let charsmap = match metadata.get(CHARSMAP) {
        None => return Ok(None),
        Some(Value::Array(Array::U8(bytes))) => Charsmap::new(bytes),
        Some(Value::Array(Array::I8(bytes))) => {
            Charsmap::new(&bytes.iter().map(|byte| byte.cast_unsigned()).collect::<Vec<u8>>())
        }
        Some(other) => Err(other.type_name().to_owned()),
    };
    charsmap.map(Some).map_err(|found| {
        Error::key(metadata.file(), CHARSMAP, "bytes of SentencePiece's precompiled rules", found)
            .with_remedy("the file was made wrongly, get it from another source")
    })
}

fn tokens(metadata: &Metadata) -> Result<&StringArray> {
    let texts = metadata.required(TOKENS, metadata.strings(TOKENS)?)?;
    if texts.is_empty() || texts.len() > MOST_TOKENS {
        let expected = format!("1 to {MOST_TOKENS} tokens");
        return Err(Error::key(metadata.file(), TOKENS, expected, format!("{} tokens", texts.len())));
    }
    Ok(texts)
}

/// A list that has at least one item for each token, cut to their number.
fn for_each_token<T>(metadata: &Metadata, key: &str, mut items: Vec<T>, tokens: usize) -> Result<Vec<T>> {
    if items.len() < tokens {
        let expected = format!("an item for each of {tokens} tokens");
        return Err(Error::key(metadata.file(), key, expected, format!("{} items", items.len()))
            .with_remedy("the file was made wrongly, get it from another source"));
    }
    items.truncate(tokens);
    Ok(items)
}

fn token_kinds(metadata: &Metadata, tokens: usize, warnings: &mut Vec<String>) -> Result<Vec<TokenKind>> {
    let Some(numbers) = metadata.i32s(TYPES)? else {
        warnings.push(format!("`{TYPES}` is missing: control tokens are known by the file's ids and by name alone"));
        return Ok(vec![TokenKind::Normal; tokens]);
    };
    for_each_token(metadata, TYPES, numbers.iter().map(|&number| TokenKind::from_file(number)).collect(), tokens)
}

fn scores(metadata: &Metadata, tokens: usize) -> Result<Vec<f32>> {
    let scores = match metadata.f32s(SCORES) {
        Ok(scores) => metadata.required(SCORES, scores)?.into_owned(),
        // Some converters write whole numbers.
        Err(error) => match metadata.i32s(SCORES) {
            Ok(Some(scores)) => scores.iter().map(|&score| score as f32).collect(),
            _ => return Err(error),
        },
    };
    for_each_token(metadata, SCORES, scores, tokens)
}

fn byte_pair(
    metadata: &Metadata,
    vocabulary: &Vocabulary,
    row: &PreTokenizer,
    spelling: Spelling,
    unknown: Option<u32>,
    warnings: &mut Vec<String>,
) -> Result<Model> {
    let list = metadata.required(MERGES, metadata.strings(MERGES)?)?;
    if list.len() > MOST_MERGES {
        let expected = format!("at most {MOST_MERGES} merges");
        return Err(Error::key(metadata.file(), MERGES, expected, format!("{} merges", list.len())));
    }
    let (merges, left_out) = Merges::new(list, vocabulary, spelling);
    if left_out > 0 {
        warnings.push(format!("{left_out} of {} merges name no token and are left out", list.len()));
    }
    let whole_pieces = metadata.bool(keys::WHOLE_PIECES)?.unwrap_or(row.whole_pieces);
    let bpe = Bpe::new(vocabulary, merges, &PreTokenizer { whole_pieces, ..*row }, unknown)
        .map_err(|message| Error::unsupported(metadata.file(), message, "this is a fault of duan, please report it"))?;
    Ok(Model::Bpe(bpe))
}

fn finder(metadata: &Metadata, vocabulary: &Vocabulary, kinds: &[TokenKind]) -> Result<Finder> {
    Finder::new(vocabulary, kinds).map_err(|message| {
        Error::key(metadata.file(), TOKENS, "control and user-defined tokens of a usual size", message)
    })
}

/// The row of the name in the file.
fn named_pre_tokenizer(metadata: &Metadata, warnings: &mut Vec<String>) -> Result<&'static PreTokenizer> {
    let name = match metadata.string(PRE)? {
        Some(name) => name,
        None if is_llama_3(tokens(metadata)?) => {
            warnings.push(format!("`{PRE}` is missing: taken as llama-bpe, because the tokens are those of Llama 3"));
            "llama-bpe"
        }
        None => {
            return Err(Error::key(metadata.file(), PRE, "the name of a pre-tokenizer", "no such key").with_remedy(
                "how text is cut cannot be guessed; get a newer conversion of the model, or convert it again",
            ));
        }
    };
    pre_tokenizer(metadata, name)
}

fn pre_tokenizer(metadata: &Metadata, name: &str) -> Result<&'static PreTokenizer> {
    pre_tokenizers::by_name(name).ok_or_else(|| {
        let known: Vec<&str> = PRE_TOKENIZERS.iter().map(|row| row.names[0]).collect();
        let expected = format!("a known pre-tokenizer ({}, ...)", known.join(", "));
        Error::key(metadata.file(), PRE, expected, format!("\"{}\"", quoted(name)))
            .with_remedy("this model's way of cutting text is not supported yet, use another model")
    })
}

/// Old Llama 3 files lack the name of their pre-tokenizer. Nothing else has this many tokens with these names in these places.
fn is_llama_3(texts: &StringArray) -> bool {
    let markers = [
        (128_000, "<|begin_of_text|>"),
        (128_001, "<|end_of_text|>"),
        (128_006, "<|start_header_id|>"),
        (128_007, "<|end_header_id|>"),
        (128_009, "<|eot_id|>"),
    ];
    texts.len() == 128_256 && markers.iter().all(|&(id, text)| texts.get(id) == Some(text))
}

/// Tokens that the file names by id.
struct SpecialIds {
    bos: Option<u32>,
    eos: Option<u32>,
    /// End of a turn, and of a message that waits for a tool.
    eot: Option<u32>,
    eom: Option<u32>,
    unknown: Option<u32>,
}

impl SpecialIds {
    fn read(
        metadata: &Metadata,
        kind: Kind,
        texts: &StringArray,
        kinds: &mut [TokenKind],
        warnings: &mut Vec<String>,
    ) -> Result<SpecialIds> {
        let mut id = |name: &str, usual: Option<(u32, &str)>| -> Result<Option<u32>> {
            let key = format!("tokenizer.ggml.{name}_token_id");
            match metadata.u32(&key)? {
                Some(id) if (id as usize) < texts.len() => Ok(Some(id)),
                Some(id) => {
                    warnings.push(format!("`{key}` is {id}, beyond the {} tokens, and is ignored", texts.len()));
                    Ok(None)
                }
                // SentencePiece's own places, where the file leaves them out and the token has the usual name.
                None => Ok(usual
                    .filter(|&(id, text)| matches!(kind, Kind::Scores) && texts.get(id as usize) == Some(text))
                    .map(|(id, _)| id)),
            }
        };
        let mut ids = SpecialIds {
            bos: id("bos", Some((1, "<s>")))?,
            eos: id("eos", Some((2, "</s>")))?,
            eot: id("eot", None)?,
            eom: id("eom", None)?,
            unknown: id("unknown", Some((0, "<unk>")))?,
        };
        if matches!(kind, Kind::Unigram) && ids.unknown.is_none() {
            let unknown = kinds.iter().position(|&kind| kind == TokenKind::Unknown);
            ids.unknown = unknown.map(|id| id as u32);
        }
        if metadata.get(TYPES).is_none() {
            // Without kinds, these are what the file says about control tokens.
            for id in [ids.bos, ids.eos, ids.eot, ids.eom].into_iter().flatten() {
                kinds[id as usize] = TokenKind::Control;
            }
        }
        Ok(ids)
    }

    /// All tokens that end a turn: those of the file first, then those known by name. Tokens that end or begin a turn by name
    /// become control tokens.
    fn end_of_turn(&self, texts: &StringArray, kinds: &mut [TokenKind], warnings: &mut Vec<String>) -> Vec<u32> {
        let (by_name, miscast) = end_of_turn_by_name(texts, kinds);
        let starts = miscast_starts_of_turn(texts, kinds);
        for id in miscast.into_iter().chain(starts) {
            kinds[id as usize] = TokenKind::Control;
            let text = texts.get(id as usize).unwrap_or_default();
            warnings
                .push(format!("token {id} `{}` is not marked as a control token, and is taken for one", quoted(text)));
        }
        let mut seen = HashSet::new();
        let all = [self.eos, self.eot, self.eom].into_iter().flatten().chain(by_name);
        all.filter(|&id| seen.insert(id)).collect()
    }
}
