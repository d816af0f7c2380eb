//! From the files of a folder to the keys by which GGUF describes a tokenizer.
//!
//! [`translate`] is a pure function: what the files hold goes in, entries of metadata come out, and
//! [`crate::tokenizer::Tokenizer`] and [`crate::template::ChatTemplate`] read those as they read any GGUF file's. `tokenizer.json`
//! says how text becomes tokens; where there is none, SentencePiece's `tokenizer.model` does. The other files name the tokens that
//! begin and end texts, and bring the chat template.
//!
//! What kind comes out is told from what the files do, never from a name:
//!
//! | the file has | `tokenizer.ggml.model` |
//! |---|---|
//! | BPE over bytes | `gpt2`, with the name of the row that cuts text so (`cutting.rs`) |
//! | BPE over characters with `▁`, whose merges act as scores would (`merges.rs`) | `llama`, with such scores |
//! | the same with other merges | `gemma4`, with the merges |
//! | Unigram | `t5` |
//! | BPE over words between white space | `whitespace` |
//!
//! What a file says that GGUF has no key for is written in keys of duan's own where it changes tokens
//! ([`crate::tokenizer::load::keys`]), and is an error where duan cannot do it.

mod cutting;
mod files;
mod json;
mod merges;
mod sentencepiece;
mod special;
mod templates;
#[cfg(test)]
mod tests;
mod tokens;

pub use files::Files;

use std::collections::HashSet;

use serde_json::Value as Json;

use crate::error::{Error, Result, quoted};
use crate::gguf::{Array, Metadata, StringArray, Value};
use crate::tokenizer::SpacePrefix;
use crate::tokenizer::keys;
use crate::tokenizer::normalize::Normalizer;
use crate::tokenizer::vocabulary::METASPACE;
use cutting::{Cutting, Normalizing};
use json::{AddedToken, TokenizerJson, Vocab, malformed, parse};
use sentencepiece::SentencePiece;
use special::{Sources, Special};
use tokens::{CONTROL, NORMAL, Tokens, UNKNOWN, kind_of_added, kind_of_listed};

/// The most that is said of one tokenizer.
const MOST_NOTES: usize = 16;

const REMEDY: &str = "this kind of tokenizer is not supported yet; use another model, or a GGUF file of it";

/// What came out of a translation.
#[derive(Debug, Clone, Default)]
pub struct Translation {
    /// Keys and values, in the order in which a GGUF file should have them; each key once.
    pub entries: Vec<(String, Value)>,
    /// What is odd about the files and can be lived with, one sentence each.
    pub notes: Vec<String>,
    /// The file that the chat template was in, where there is one.
    pub template_file: Option<&'static str>,
}

impl Translation {
    /// The entries as metadata; `file` is the name that errors show.
    ///
    /// # Errors
    /// None that a translation can lead to: its keys are there once.
    pub fn metadata(&self, file: &str) -> Result<Metadata> {
        let mut metadata = Metadata::new(file);
        for (key, value) in &self.entries {
            metadata.insert(key.clone(), value.clone())?;
        }
        Ok(metadata)
    }

    fn push(&mut self, key: &str, value: impl Into<Value>) {
        self.entries.push((key.to_owned(), value.into()));
    }
}

/// The small files as JSON; `null` for one that is missing.
struct Settings {
    tokenizer_config: Json,
    special_tokens_map: Json,
    added_tokens: Json,
    config: Json,
    generation_config: Json,
    embedding_rows: Option<u64>,
    /// Texts that some file lists among the special tokens.
    special: HashSet<String>,
}

impl Settings {
    fn read(files: &Files) -> Result<Settings> {
        let read = |name: &str, bytes: &Option<Vec<u8>>| match bytes {
            Some(bytes) => parse(&files.label(name), bytes),
            None => Ok(Json::Null),
        };
        let tokenizer_config = read("tokenizer_config.json", &files.tokenizer_config)?;
        let special_tokens_map = read("special_tokens_map.json", &files.special_tokens_map)?;
        let special = [&tokenizer_config, &special_tokens_map].into_iter().flat_map(special_texts).collect();
        Ok(Settings {
            tokenizer_config,
            special_tokens_map,
            special,
            embedding_rows: files.embedding_rows,
            added_tokens: read("added_tokens.json", &files.added_tokens)?,
            config: read("config.json", &files.config)?,
            generation_config: read("generation_config.json", &files.generation_config)?,
        })
    }

    /// Rows of the model's embedding.
    fn vocab_size(&self) -> Option<u64> {
        let said = || self.config["vocab_size"].as_u64().or_else(|| self.config["text_config"]["vocab_size"].as_u64());
        self.embedding_rows.or_else(said)
    }

    /// Takes in the added tokens that only other files than `tokenizer.json` know.
    fn add_tokens(&self, file: &str, tokens: &mut Tokens, notes: &mut Vec<String>) -> Result<()> {
        let is_new =
            |tokens: &Tokens, id: u64| u32::try_from(id).map_or(true, |id| tokens.get(id).is_none_or(|t| !t.is_added));
        if let Some(decoder) = self.tokenizer_config["added_tokens_decoder"].as_object() {
            for (id, token) in decoder {
                let (Ok(id), Some(text)) = (id.parse::<u64>(), token["content"].as_str()) else {
                    let found = quoted(&format!("{id}: {token}"));
                    return Err(malformed(file, "`added_tokens_decoder`", "ids with the text of a token", found));
                };
                if is_new(tokens, id) && tokens.find(text).is_none_or(|known| u64::from(known) == id) {
                    tokens.add(text, id, kind_of_added(text, token["special"] == true), notes)?;
                }
            }
        }
        for (text, id) in self.added_tokens.as_object().into_iter().flatten() {
            let Some(id) = id.as_u64() else {
                return Err(malformed(file, "`added_tokens.json`", "an id for each token", quoted(&id.to_string())));
            };
            if is_new(tokens, id) && tokens.find(text).is_none_or(|known| u64::from(known) == id) {
                tokens.add(text, id, kind_of_added(text, self.special.contains(text)), notes)?;
            }
        }
        Ok(())
    }
}

/// The special tokens that a file lists.
fn special_texts(file: &Json) -> Vec<String> {
    let roles = ["bos", "eos", "unk", "sep", "pad", "cls", "mask"];
    let roles = roles.iter().map(|role| &file[format!("{role}_token")]);
    let others = file["additional_special_tokens"].as_array().into_iter().flatten();
    let text = |entry: &Json| entry.as_str().or(entry["content"].as_str()).map(str::to_owned);
    roles.chain(others).filter_map(text).collect()
}

/// Translates what the files hold.
///
/// # Errors
/// Where there is neither `tokenizer.json` nor `tokenizer.model`; where a file is no JSON, or breaks its format: an id or a token
/// that stands there twice, ids beyond any bound, missing merges; and where the tokenizer does something that duan cannot do, which
/// is named.
pub fn translate(files: &Files) -> Result<Translation> {
    let settings = Settings::read(files)?;
    let mut translation = Translation::default();
    let (templates, template_file) = templates::entries(files, &settings.tokenizer_config, &mut translation.notes)?;
    translation.template_file = template_file;
    if let Some(bytes) = &files.tokenizer {
        let file = files.label("tokenizer.json");
        Reader { file: &file, settings: &settings, translation: &mut translation }
            .tokenizer_json(parse(&file, bytes)?)?;
    } else if let Some(bytes) = &files.sentencepiece {
        let file = files.label("tokenizer.model");
        let model = sentencepiece::read(&file, bytes)?;
        Reader { file: &file, settings: &settings, translation: &mut translation }.sentencepiece(model)?;
    } else {
        let found = "there is neither tokenizer.json nor tokenizer.model, so text cannot become tokens";
        let folder = if files.folder.is_empty() { "the folder" } else { &files.folder };
        return Err(Error::wrong_file(folder, found, "fetch the model's tokenizer.json into the folder"));
    }
    translation.entries.extend(templates);
    let notes = &mut translation.notes;
    if notes.len() > MOST_NOTES {
        let others = notes.len() - MOST_NOTES;
        notes.truncate(MOST_NOTES);
        notes.push(format!("{others} more of the tokenizer's rules or tokens are odd"));
    }
    Ok(translation)
}

/// Reads the file with the vocabulary.
struct Reader<'r> {
    file: &'r str,
    settings: &'r Settings,
    translation: &'r mut Translation,
}

/// What becomes of text, and the keys that say so.
struct Method {
    model: &'static str,
    pre: &'static str,
    has_scores: bool,
    merges: Option<StringArray>,
    others: Vec<(&'static str, Value)>,
}

impl Method {
    fn new(model: &'static str, pre: &'static str) -> Method {
        Method { model, pre, has_scores: false, merges: None, others: Vec::new() }
    }

    fn with_prefix(mut self, prefix: SpacePrefix) -> Method {
        self.others.push((keys::ADDS_SPACE_PREFIX, (prefix != SpacePrefix::Never).into()));
        self.others.extend(prefix.name().map(|name| (keys::SPACE_PREFIX, name.into())));
        self
    }

    fn with_form(mut self, form: Option<Normalizer>) -> Method {
        self.others.extend(form.map(|form| (keys::NORMALIZER, form.name().into())));
        self
    }
}

impl Reader<'_> {
    fn unsupported(&self, what: impl Into<String>) -> Error {
        Error::unsupported(self.file, what, REMEDY)
    }

    fn tokenizer_json(&mut self, json: TokenizerJson) -> Result<()> {
        let normalizing = cutting::normalizing(self.file, json.normalizer.as_ref())?;
        let cutting = cutting::cutting(self.file, json.pre_tokenizer.as_ref(), &normalizing)?;
        let model = &json.model;
        for (key, text) in [
            ("continuing_subword_prefix", &model.continuing_subword_prefix),
            ("end_of_word_suffix", &model.end_of_word_suffix),
        ] {
            if let Some(text) = text.as_deref().filter(|text| !text.is_empty()) {
                return Err(self.unsupported(format!("tokens are written with `{}` (`{key}`)", quoted(text))));
            }
        }
        let added = json.added_tokens.unwrap_or_default();
        let model = json.model;
        let kind = model.kind.clone().unwrap_or_else(|| {
            if matches!(model.vocab, Vocab::Scores(_)) { "Unigram".to_owned() } else { "BPE".to_owned() }
        });
        let (tokens, method) = match (&*kind, &cutting) {
            ("BPE", Cutting::Bytes(regexes)) => self.bytes(model, &added, regexes, &normalizing)?,
            ("BPE", _) => self.characters(model, &added, &cutting, &normalizing)?,
            ("Unigram", Cutting::Characters { .. }) => self.unigram(model, &added, &cutting, normalizing)?,
            ("Unigram", _) => return Err(self.unsupported("Unigram is not known with this `pre_tokenizer`")),
            (other, _) => {
                return Err(
                    self.unsupported(format!("the kind of the model is `{}`, not BPE or Unigram", quoted(other)))
                );
            }
        };
        let notes = &mut self.translation.notes;
        let strips_right = tokens::strips_right(&added, &tokens, notes);
        let post_processor = json.post_processor.unwrap_or_default();
        self.write(&tokens, method, &post_processor, |special| special, &strips_right)
    }

    /// The tokens that a byte-pair model lists, with the added ones; `unknown` is the one that stands for what has none.
    fn tokens(
        &mut self,
        listed: Vec<(String, u64)>,
        added: &[AddedToken],
        unknown: Option<&str>,
        has_bytes: bool,
    ) -> Result<Tokens> {
        let mut tokens = Tokens::new(self.file, listed.len());
        for (text, id) in listed {
            let kind = kind_of_listed(&text, has_bytes);
            tokens.insert(text, id, kind, 0.0)?;
        }
        if let Some(id) = unknown.and_then(|text| tokens.find(text)) {
            tokens.set_kind(id, UNKNOWN);
        }
        self.add(&mut tokens, added)?;
        Ok(tokens)
    }

    fn add(&mut self, tokens: &mut Tokens, added: &[AddedToken]) -> Result<()> {
        let notes = &mut self.translation.notes;
        for token in added {
            let kind = kind_of_added(&token.content, token.special);
            tokens.add(&token.content, token.id, kind, notes)?;
        }
        self.settings.add_tokens(self.file, tokens, notes)
    }

    /// The tokens and ids of a byte-pair model.
    fn listed(&self, vocab: Vocab) -> Result<Vec<(String, u64)>> {
        match vocab {
            Vocab::Ids(ids) => Ok(ids),
            Vocab::Scores(_) => Err(malformed(self.file, "`model.vocab`", "an object of tokens and ids", "a list")),
        }
    }

    /// A byte-pair tokenizer over bytes.
    fn bytes(
        &mut self,
        model: json::Model,
        added: &[AddedToken],
        regexes: &[String],
        normalizing: &Normalizing,
    ) -> Result<(Tokens, Method)> {
        let form = normalizing.form.unwrap_or(Normalizer::None);
        let whole_pieces = model.ignore_merges.unwrap_or(false);
        let row = cutting::row(self.file, regexes, form, whole_pieces)?;
        let tokens = self.listed(model.vocab)?;
        let tokens = self.tokens(tokens, added, None, false)?;
        let merges = merges::sides(self.file, model.merges, &tokens, false)?;
        let mut method = Method::new("gpt2", row.names[0]);
        method.merges = Some(merges.iter().map(|(left, right)| format!("{left} {right}")).collect());
        if row.normalizer != form {
            method = method.with_form(Some(form));
        }
        if row.whole_pieces != whole_pieces {
            method.others.push((keys::WHOLE_PIECES, whole_pieces.into()));
        }
        Ok((tokens, method))
    }

    /// A byte-pair tokenizer over characters.
    fn characters(
        &mut self,
        model: json::Model,
        added: &[AddedToken],
        cutting: &Cutting,
        normalizing: &Normalizing,
    ) -> Result<(Tokens, Method)> {
        if normalizing.collapses || normalizing.strips_end || normalizing.charsmap.is_some() {
            return Err(self.unsupported("the normalizer of a Unigram model stands before a BPE model"));
        }
        if model.ignore_merges == Some(true) {
            return Err(self.unsupported("`ignore_merges` is set for a BPE model over characters"));
        }
        let mut listed = self.listed(model.vocab)?;
        let has_bytes = model.byte_fallback.unwrap_or(false);
        let escapes = matches!(cutting, Cutting::Characters { escapes: false, .. });
        if escapes {
            // Spaces are written ▁ here, so that character must not be one of the vocabulary's own.
            if listed.iter().any(|(text, _)| text.contains(METASPACE)) {
                return Err(self.unsupported("tokens have both spaces and `▁`, which are one here"));
            }
            listed.iter_mut().for_each(|(text, _)| *text = text.replace(' ', METASPACE));
        }
        let tokens = self.tokens(listed, added, model.unk_token.as_deref(), has_bytes)?;
        let sides = merges::sides(self.file, model.merges, &tokens, escapes)?;
        let list = || sides.iter().map(|(left, right)| format!("{left} {right}")).collect();
        let Cutting::Characters { prefix, splits, strips, .. } = *cutting else {
            let mut method = Method::new("whitespace", "whitespace");
            method.merges = Some(list());
            return match normalizing.form {
                form @ (None | Some(Normalizer::Lowercase)) => {
                    method.others.push((keys::LOWERCASE, form.is_some().into()));
                    Ok((tokens, method))
                }
                other => Ok((tokens, method.with_form(other))),
            };
        };
        if strips {
            return Err(self.unsupported("`WhitespaceSplit` stands before `Metaspace` in a BPE model"));
        }
        self.check_splits(splits, &tokens)?;
        let scores = merges::scores(&sides, &tokens);
        let mut tokens = tokens;
        let mut method = match scores {
            Some(scores) => {
                tokens.set_scores(&scores);
                let mut method = Method::new("llama", "default");
                method.has_scores = true;
                method
            }
            None if merges::crosses_lines(&sides) => {
                return Err(
                    self.unsupported("merges join newlines to other characters, in an order that no scores have")
                );
            }
            None => {
                let mut method = Method::new("gemma4", "gemma4");
                method.merges = Some(list());
                method
            }
        };
        method = method.with_prefix(prefix).with_form(normalizing.form);
        Ok((tokens, method))
    }

    /// Where pieces begin at each `▁`, no token may have one behind its first character: it would be found, and must not be.
    fn check_splits(&self, splits: bool, tokens: &Tokens) -> Result<()> {
        let is_inside = |text: &str| text.chars().skip(1).any(|c| METASPACE.starts_with(c));
        let inside = tokens.in_order().into_iter().find(|(_, token)| token.kind == NORMAL && is_inside(&token.text));
        match inside {
            Some((id, token)) if splits => {
                Err(self
                    .unsupported(format!("token {id} `{}` goes over a space where text is cut", quoted(&token.text))))
            }
            _ => Ok(()),
        }
    }

    /// SentencePiece's encoding by probabilities.
    fn unigram(
        &mut self,
        model: json::Model,
        added: &[AddedToken],
        cutting: &Cutting,
        normalizing: Normalizing,
    ) -> Result<(Tokens, Method)> {
        let Vocab::Scores(listed) = model.vocab else {
            return Err(malformed(self.file, "`model.vocab`", "a list of tokens and scores", "an object"));
        };
        let &Cutting::Characters { prefix, escapes: true, splits, strips } = cutting else {
            return Err(self.unsupported("spaces are not written `▁` for a Unigram model"));
        };
        let has_bytes = model.byte_fallback.unwrap_or(false);
        let mut tokens = Tokens::new(self.file, listed.len());
        for (id, (text, score)) in listed.into_iter().enumerate() {
            let kind = if model.unk_id == Some(id as u64) { UNKNOWN } else { kind_of_listed(&text, has_bytes) };
            tokens.insert(text, id as u64, kind, score as f32)?;
        }
        self.add(&mut tokens, added)?;
        self.check_splits(splits, &tokens)?;
        let removes = strips || normalizing.collapses && normalizing.strips_end;
        if normalizing.collapses && !removes {
            self.translation.notes.push("spaces at the end of a text stay one token, where they are kept".to_owned());
        }
        // Where spaces in front are dropped first, no text begins with one.
        let prefix = if removes && prefix == SpacePrefix::UnlessSpaced { SpacePrefix::Always } else { prefix };
        let mut method = Method::new("t5", "default").with_prefix(prefix).with_form(normalizing.form);
        method.has_scores = true;
        method.others.push((keys::REMOVES_EXTRA_SPACES, removes.into()));
        if let Some(charsmap) = normalizing.charsmap.filter(|charsmap| !charsmap.is_empty()) {
            method.others.push((keys::CHARSMAP, Array::U8(charsmap).into()));
        }
        Ok((tokens, method))
    }

    fn sentencepiece(&mut self, model: SentencePiece) -> Result<()> {
        if model.treats_space_as_suffix || !model.escapes_spaces {
            return Err(self.unsupported("spaces are written at the end of words, or not as `▁`"));
        }
        let mut method = match model.model_type {
            1 => Method::new("t5", "default"),
            2 => Method::new("llama", "default"),
            other => return Err(self.unsupported(format!("SentencePiece's model type is {other}, not 1 or 2"))),
        };
        let is_bpe = model.model_type == 2;
        let mut tokens = Tokens::new(self.file, model.pieces.len());
        for (id, piece) in model.pieces.into_iter().enumerate() {
            tokens.insert(piece.text, id as u64, piece.kind, piece.score)?;
        }
        self.settings.add_tokens(self.file, &mut tokens, &mut self.translation.notes)?;
        let configured = self.settings.tokenizer_config["add_prefix_space"].as_bool();
        let adds_prefix = configured.unwrap_or(model.adds_space_prefix);
        method = method.with_prefix(if adds_prefix { SpacePrefix::Always } else { SpacePrefix::Never });
        method.has_scores = true;
        if is_bpe {
            if !model.charsmap.is_empty() {
                self.translation.notes.push("SentencePiece's rules for characters are left out".to_owned());
            }
        } else {
            method.others.push((keys::REMOVES_EXTRA_SPACES, model.removes_extra_spaces.into()));
            if !model.charsmap.is_empty() {
                method.others.push((keys::CHARSMAP, Array::U8(model.charsmap).into()));
            }
        }
        let id = |id: Option<u64>| {
            let id = id.and_then(|id| u32::try_from(id).ok());
            id.filter(|&id| tokens.get(id).is_some_and(|token| token.kind == CONTROL || token.kind == UNKNOWN))
        };
        let (bos, eos, pad, unk) = (id(model.bos_id), id(model.eos_id), id(model.pad_id), id(model.unk_id));
        let with_own = |special: Special| Special {
            bos: special.bos.or(bos),
            eos: special.eos.or(eos),
            padding: special.padding.or(pad),
            unknown: special.unknown.or(unk),
            // As SentencePiece's tokenizers of this kind do where nothing is said.
            adds_bos: special.adds_bos.or(is_bpe.then_some(true)),
            adds_eos: special.adds_eos.or((!is_bpe).then_some(true)),
            ..special
        };
        self.write(&tokens, method, &Json::Null, with_own, &[])
    }

    /// Writes all entries but those of templates.
    fn write(
        &mut self,
        tokens: &Tokens,
        method: Method,
        post_processor: &Json,
        with_own: impl FnOnce(Special) -> Special,
        strips_right: &[u32],
    ) -> Result<()> {
        let Settings { tokenizer_config, special_tokens_map, config, generation_config, .. } = self.settings;
        let translation = &mut *self.translation;
        let list = tokens.list(self.settings.vocab_size(), &mut translation.notes)?;
        let places = list.texts.len();
        let sources = Sources { tokenizer_config, special_tokens_map, config, generation_config, post_processor };
        let special = with_own(sources.read(tokens, places, &mut translation.notes));
        translation.push(keys::MODEL, method.model);
        translation.push(keys::PRE, method.pre);
        translation.push(keys::TOKENS, list.texts);
        if method.has_scores {
            translation.push(keys::SCORES, Array::F32(list.scores));
        }
        translation.push(keys::TYPES, Array::I32(list.kinds));
        if let Some(merges) = method.merges {
            translation.push(keys::MERGES, merges);
        }
        let is_place = |id: &u32| (*id as usize) < places;
        for (name, id) in [
            ("bos", special.bos),
            ("eos", special.eos),
            ("eot", special.eot),
            ("eom", special.eom),
            ("unknown", special.unknown),
            // GGUF's own spelling.
            ("seperator", special.separator),
            ("padding", special.padding),
            ("mask", special.mask),
        ] {
            if let Some(id) = id.filter(is_place) {
                translation.push(&format!("tokenizer.ggml.{name}_token_id"), id);
            }
        }
        let adds_bos = special.adds_bos.unwrap_or(false) && special.bos.is_some();
        translation.push(keys::ADDS_BOS, adds_bos);
        translation.push(keys::ADDS_EOS, special.adds_eos.unwrap_or(false) && special.eos.is_some());
        for (key, value) in method.others {
            translation.push(key, value);
        }
        for (key, ids) in [(keys::STRIPS_RIGHT, strips_right), (keys::END_OF_TURN, &special.others)] {
            let ids: Vec<u32> = ids.iter().copied().filter(is_place).collect();
            if !ids.is_empty() {
                translation.push(key, Array::U32(ids));
            }
        }
        Ok(())
    }
}
