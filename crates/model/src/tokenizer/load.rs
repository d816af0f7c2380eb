//! Making a tokenizer from the metadata of a GGUF file.

use super::bpe::{Bpe, Merges};
use super::pre_tokenizers::{self, GEMMA_4, PRE_TOKENIZERS, PreTokenizer};
use super::special::{Finder, end_of_turn_by_name, miscast_starts_of_turn};
use super::spm::Spm;
use super::vocabulary::{Spelling, TokenKind, Vocabulary};
use super::{Model, Tokenizer};
use crate::error::{Error, Result, quoted};
use crate::gguf::{Metadata, StringArray};

const MODEL: &str = "tokenizer.ggml.model";
const PRE: &str = "tokenizer.ggml.pre";
const TOKENS: &str = "tokenizer.ggml.tokens";
const TYPES: &str = "tokenizer.ggml.token_type";
const SCORES: &str = "tokenizer.ggml.scores";
const MERGES: &str = "tokenizer.ggml.merges";

/// The most tokens that a vocabulary may have. The largest known ones have about 260 thousand.
const MOST_TOKENS: usize = 1 << 24;

/// The most merges that a vocabulary may have. Ranks and places in the table of merges are 32-bit numbers.
const MOST_MERGES: usize = 1 << 26;

/// The kind of tokenizer that the file names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Byte-level byte-pair encoding, by merges.
    ByteLevel,
    /// SentencePiece's, by scores.
    Scores,
    /// Gemma 4: characters, by merges.
    CharacterMerges,
}

impl Kind {
    fn spelling(self) -> Spelling {
        match self {
            Kind::ByteLevel => Spelling::ByteLevel,
            Kind::Scores | Kind::CharacterMerges => Spelling::Metaspace,
        }
    }
}

pub(super) fn from_gguf(metadata: &Metadata) -> Result<Tokenizer> {
    let mut warnings = Vec::new();
    let kind = kind(metadata)?;
    let texts = tokens(metadata)?;
    let row = match kind {
        Kind::ByteLevel => Some(pre_tokenizer(metadata, texts, &mut warnings)?),
        Kind::CharacterMerges => Some(&GEMMA_4),
        Kind::Scores => None,
    };
    let mut kinds = token_kinds(metadata, texts.len(), &mut warnings)?;
    let special = SpecialIds::read(metadata, kind, texts, &mut kinds, &mut warnings)?;
    let end_of_turn = special.end_of_turn(texts, &mut kinds, &mut warnings);
    // Some files name the end of the text as their unknown token; text must not become that.
    let unknown = special.unknown.filter(|&id| kinds[id as usize] != TokenKind::Control);
    let vocabulary = Vocabulary::new(texts.clone(), kinds, kind.spelling());
    if vocabulary.duplicates > 0 {
        warnings.push(format!("{} tokens have the text of an earlier one and are never used", vocabulary.duplicates));
    }
    let model = match row {
        Some(row) => byte_pair(metadata, &vocabulary, row, kind.spelling(), unknown, &mut warnings)?,
        None => Model::Spm(Spm::new(&vocabulary, &scores(metadata, vocabulary.len())?, unknown)),
    };
    let adds_space_prefix = match kind {
        Kind::Scores => metadata.bool("tokenizer.ggml.add_space_prefix")?.unwrap_or(true),
        _ => false,
    };
    let adds_bos = metadata.bool("tokenizer.ggml.add_bos_token")?.unwrap_or(row.is_none_or(|row| row.adds_bos));
    if adds_bos && special.bos.is_none() {
        warnings.push("texts should begin with a begin-of-text token, and the file names none".to_owned());
    }
    let user_defined = finder(metadata, &vocabulary, &[TokenKind::UserDefined])?;
    let marked = [TokenKind::UserDefined, TokenKind::Control, TokenKind::Unknown];
    Ok(Tokenizer {
        user_defined,
        marked: finder(metadata, &vocabulary, &marked)?,
        pre_tokenizer: row.map_or("", |row| row.names[0]),
        vocabulary,
        model,
        bos: special.bos,
        eos: special.eos,
        adds_bos: adds_bos && special.bos.is_some(),
        adds_space_prefix,
        end_of_turn,
        warnings,
    })
}

fn kind(metadata: &Metadata) -> Result<Kind> {
    match metadata.required(MODEL, metadata.string(MODEL)?)? {
        "gpt2" => Ok(Kind::ByteLevel),
        "llama" => Ok(Kind::Scores),
        "gemma4" => Ok(Kind::CharacterMerges),
        other => Err(Error::key(metadata.file(), MODEL, "gpt2, llama or gemma4", format!("\"{}\"", quoted(other)))
            .with_remedy("this kind of tokenizer is not supported, use another model")),
    }
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
    let bpe = Bpe::new(vocabulary, merges, row, spelling, unknown)
        .map_err(|message| Error::unsupported(metadata.file(), message, "this is a fault of duan, please report it"))?;
    Ok(Model::Bpe(bpe))
}

fn finder(metadata: &Metadata, vocabulary: &Vocabulary, kinds: &[TokenKind]) -> Result<Finder> {
    Finder::new(vocabulary, kinds).map_err(|message| {
        Error::key(metadata.file(), TOKENS, "control and user-defined tokens of a usual size", message)
    })
}

fn pre_tokenizer(
    metadata: &Metadata,
    texts: &StringArray,
    warnings: &mut Vec<String>,
) -> Result<&'static PreTokenizer> {
    let name = match metadata.string(PRE)? {
        Some(name) => name,
        None if is_llama_3(texts) => {
            warnings.push(format!("`{PRE}` is missing: taken as llama-bpe, because the tokens are those of Llama 3"));
            "llama-bpe"
        }
        None => {
            return Err(Error::key(metadata.file(), PRE, "the name of a pre-tokenizer", "no such key").with_remedy(
                "how text is cut cannot be guessed; get a newer conversion of the model, or convert it again",
            ));
        }
    };
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
                    .filter(|&(id, text)| kind == Kind::Scores && texts.get(id as usize) == Some(text))
                    .map(|(id, _)| id)),
            }
        };
        let ids = SpecialIds {
            bos: id("bos", Some((1, "<s>")))?,
            eos: id("eos", Some((2, "</s>")))?,
            eot: id("eot", None)?,
            eom: id("eom", None)?,
            unknown: id("unknown", Some((0, "<unk>")))?,
        };
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
        let mut ids = Vec::new();
        for id in [self.eos, self.eot, self.eom].into_iter().flatten().chain(by_name) {
            if !ids.contains(&id) {
                ids.push(id);
            }
        }
        ids
    }
}
