//! What is odd about a file, with what follows from it.

use duan_model::checkpoint::Checkpoint;
use duan_model::gguf::Value;
use duan_model::quoted;
use duan_model::tokenizer::Tokenizer;
use serde::Serialize;

use super::{FileFacts, SpecialTokenFacts, TemplateStatus};

/// Names that a sentence lists before it says that there are more.
const SHOWN_NAMES: usize = 4;

/// Something odd that can be lived with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Oddity {
    /// Which.
    pub kind: OddityKind,
    /// A sentence with what follows from it.
    pub text: String,
}

/// What can be odd about a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum OddityKind {
    /// It is no model that writes text: an adapter, a part for images, an embedding model.
    NoTextModel,
    /// The tokenizer's own remarks.
    Tokenizer,
    /// What was left out or taken otherwise while a folder was translated.
    Translation,
    /// The embedding table has more rows than there are tokens.
    PaddedVocabulary,
    /// The embedding table has fewer rows than there are tokens.
    ShortVocabulary,
    /// There is no chat template.
    NoTemplate,
    /// The template cannot be used.
    BrokenTemplate,
    /// The template fails for a plain question.
    FailingTemplate,
    /// There is a template, and no token that ends a turn.
    NoEndOfTurn,
    /// The template ends turns with a token that does not end answers.
    UnknownTurnEnd,
    /// The file's end-of-text token is not the one that ends turns.
    OtherTurnEnd,
    /// The template drops or refuses system messages.
    NoSystemMessages,
    /// There is a template for tools, and it does not take them in their usual form.
    OtherToolForm,
    /// The template writes the begin-of-text token twice.
    DoubledBos,
    /// The file asks for the end-of-text token behind texts.
    AddedEos,
    /// The head reads the embedding table.
    TiedHead,
    /// Tensors that the forward pass does not use.
    UnusedTensors,
    /// The whole context of the model does not fit here.
    LargeContext,
    /// Keys without a name, or strings without anything in them.
    BlankKeys,
    /// The file does not say under which licence the model is.
    NoLicence,
}

/// All that is odd about the file that `facts` tell of.
pub(super) fn of(facts: &FileFacts, file: &Checkpoint, tokenizer: Option<&Tokenizer>) -> Vec<Oddity> {
    let mut odd = Vec::new();
    let mut add = |kind: OddityKind, text: Option<String>| odd.extend(text.map(|text| Oddity { kind, text }));
    let no_text_model = no_text_model(facts, file);
    let writes_text = no_text_model.is_none() && !facts.is_vocabulary_only();
    add(OddityKind::NoTextModel, no_text_model);
    for warning in tokenizer.map_or(&[][..], Tokenizer::warnings) {
        add(OddityKind::Tokenizer, Some(warning.clone()));
    }
    for warning in file.warnings() {
        add(OddityKind::Translation, Some(warning.clone()));
    }
    let (kind, text) = vocabulary(facts);
    add(kind, text);
    let (kind, text) = template(facts, writes_text);
    add(kind, text);
    if facts.template.is_ready() {
        let (kind, text) = turn_end(facts);
        add(kind, text);
        add(OddityKind::NoSystemMessages, no_system(facts));
        add(OddityKind::OtherToolForm, other_tool_form(facts));
        add(OddityKind::DoubledBos, doubled_bos(facts));
    }
    add(OddityKind::AddedEos, added_eos(facts));
    add(OddityKind::TiedHead, tied_head(facts));
    add(OddityKind::UnusedTensors, unused_tensors(facts));
    add(OddityKind::LargeContext, large_context(facts));
    add(OddityKind::BlankKeys, blank_keys(file));
    add(OddityKind::NoLicence, no_licence(facts));
    odd
}

/// Files of other uses have keys of their own.
fn no_text_model(facts: &FileFacts, file: &Checkpoint) -> Option<String> {
    let what = match facts.about.kind.as_deref() {
        Some("adapter") => "an adapter (LoRA), which changes another model and is none by itself".to_owned(),
        Some("mmproj") => "the part of a model that reads images or sound, and not its text model".to_owned(),
        Some("imatrix") => "statistics for quantizing, and no model".to_owned(),
        Some("model") | None => {
            let key = |key: &str| file.metadata().get(&format!("{}.{key}", facts.architecture.as_deref()?));
            let is_bidirectional = key("attention.causal") == Some(&Value::Bool(false));
            if !is_bidirectional && key("pooling_type").is_none() {
                return None;
            }
            "a model for embeddings or ranking, which does not write text".to_owned()
        }
        Some(other) => format!("\"{}\" by its own word, and no model", quoted(other)),
    };
    Some(format!("this is {what}"))
}

fn vocabulary(facts: &FileFacts) -> (OddityKind, Option<String>) {
    let tokens = facts.tokenizer.vocab_size;
    match facts.config.vocab_size.filter(|_| tokens > 0 && !facts.is_vocabulary_only()) {
        Some(rows) if rows > tokens => {
            let padding = rows - tokens;
            let text = format!(
                "the vocabulary is padded: the embedding table has {rows} rows for {tokens} tokens; the last {padding} stand \
                 for no text"
            );
            (OddityKind::PaddedVocabulary, Some(text))
        }
        Some(rows) if rows < tokens => {
            let text = format!(
                "the vocabulary has {tokens} tokens and the embedding table only {rows} rows; text that needs the others \
                 is refused"
            );
            (OddityKind::ShortVocabulary, Some(text))
        }
        _ => (OddityKind::PaddedVocabulary, None),
    }
}

fn template(facts: &FileFacts, writes_text: bool) -> (OddityKind, Option<String>) {
    let template = &facts.template;
    match template.status {
        TemplateStatus::None | TemplateStatus::Blank if writes_text => {
            let what = if template.status == TemplateStatus::None { "there is no" } else { "there is only an empty" };
            let text =
                format!("{what} chat template: probably a base model, which continues text and does not converse");
            (OddityKind::NoTemplate, Some(text))
        }
        TemplateStatus::None | TemplateStatus::Blank => (OddityKind::NoTemplate, None),
        TemplateStatus::Broken => {
            let error = template.error.as_deref().unwrap_or_default();
            (OddityKind::BrokenTemplate, Some(format!("the chat template cannot be used: {error}")))
        }
        TemplateStatus::Ready => {
            let text = template.trial_error.as_ref().map(|error| format!("the template fails for a question: {error}"));
            (OddityKind::FailingTemplate, text)
        }
    }
}

fn turn_end(facts: &FileFacts) -> (OddityKind, Option<String>) {
    let tokenizer = &facts.tokenizer;
    if tokenizer.end_of_turn.is_empty() {
        let text = "no token ends the model's turn, and there is a chat template: answers run on until they are stopped or \
                    the context is full";
        return (OddityKind::NoEndOfTurn, Some(text.to_owned()));
    }
    let Some(end) = facts.template.turn_end.as_ref().filter(|end| Some(end.id) != tokenizer.eos) else {
        return (OddityKind::OtherTurnEnd, None);
    };
    let name = name(end);
    if !tokenizer.end_of_turn.contains(&end.id) {
        let text = format!(
            "the template ends turns with {name}, which the file does not make an end of turn: answers may run on into the \
             next turn"
        );
        return (OddityKind::UnknownTurnEnd, Some(text));
    }
    let text = match tokenizer.token("eos") {
        Some(eos) => format!(
            "the template ends turns with {name}, and EOS is {}: both end answers here, and programs that know EOS alone \
             run on",
            self::name(eos)
        ),
        None => format!("the file names no EOS; the template ends turns with {name}, which ends answers here"),
    };
    (OddityKind::OtherTurnEnd, Some(text))
}

fn no_system(facts: &FileFacts) -> Option<String> {
    let is_dropped = facts.template.takes_system == Some(false);
    is_dropped.then(|| "the template refuses or drops system messages; say it in the first question".to_owned())
}

fn other_tool_form(facts: &FileFacts) -> Option<String> {
    let key = facts.template.tool_use_source.as_ref().filter(|_| facts.template.takes_tools == Some(false))?;
    let form = "{\"type\": \"function\", \"function\": ...}";
    Some(format!("`{key}` does not take tools in their usual form ({form}), so it cannot be used with them"))
}

fn doubled_bos(facts: &FileFacts) -> Option<String> {
    let bos = facts.tokenizer.token("bos").filter(|_| facts.template.doubles_bos == Some(true))?;
    Some(format!("the template begins prompts with {} twice, which the model was hardly trained with", name(bos)))
}

fn added_eos(facts: &FileFacts) -> Option<String> {
    let eos = facts.tokenizer.token("eos").filter(|_| facts.tokenizer.asks_for_eos && !facts.is_vocabulary_only())?;
    Some(format!("the file asks for {} behind every text, as embedding models need it; it is not put there", name(eos)))
}

fn tied_head(facts: &FileFacts) -> Option<String> {
    let is_tied = facts.config.tied_head == Some(true) && !facts.is_vocabulary_only();
    is_tied.then(|| {
        "the head is tied: the embedding table is also what tokens are chosen by, so its format counts twice".to_owned()
    })
}

fn unused_tensors(facts: &FileFacts) -> Option<String> {
    let names = &facts.unused_tensors;
    let list = listed(names)?;
    let noun = if names.len() == 1 { "tensor is" } else { "tensors are" };
    Some(format!("{} {noun} not used ({list}): what they are for is left out", names.len()))
}

fn large_context(facts: &FileFacts) -> Option<String> {
    let memory = facts.memory.as_ref()?;
    let whole = memory.rows.last().filter(|row| row.is_whole && row.fits == Some(false))?.need.context;
    let largest = memory.largest_context?;
    let text = match largest {
        0 => return None,
        _ => format!("its whole context of {whole} tokens does not fit in this memory; at most {largest} tokens do"),
    };
    Some(text)
}

fn blank_keys(file: &Checkpoint) -> Option<String> {
    let is_blank = |value: &Value| matches!(value, Value::String(text) if text.trim().is_empty());
    let blank = file.metadata().iter().filter(|(key, value)| key.trim().is_empty() || is_blank(value));
    let names: Vec<String> = blank.map(|(key, _)| key.to_owned()).collect();
    let list = listed(&names)?;
    let noun = if names.len() == 1 { "key has" } else { "keys have" };
    Some(format!("{} {noun} no value or no name ({list}): taken as if not there", names.len()))
}

fn no_licence(facts: &FileFacts) -> Option<String> {
    let about = &facts.about;
    let says_none = about.license.is_none() && about.license_name.is_none() && about.license_link.is_none();
    let is_asked_for = says_none && !facts.is_vocabulary_only();
    is_asked_for.then(|| "the file does not say under which licence the model is; ask where it comes from".to_owned())
}

/// The first names of a list, in quotes.
fn listed(names: &[String]) -> Option<String> {
    let shown: Vec<String> = names.iter().take(SHOWN_NAMES).map(|name| format!("`{}`", quoted(name))).collect();
    let more = if names.len() > SHOWN_NAMES { ", ..." } else { "" };
    (!shown.is_empty()).then(|| shown.join(", ") + more)
}

/// A token by its text, or by its id where it has none.
fn name(token: &SpecialTokenFacts) -> String {
    match &token.text {
        Some(text) => quoted(text).to_string(),
        None => format!("token {}", token.id),
    }
}
