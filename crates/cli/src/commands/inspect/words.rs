//! Tokenizer, special tokens and chat template, in words.

use duan::FileFacts;
use duan::facts::{SpecialTokenFacts, TemplateFacts, TemplateStatus, TokenizerFacts};

use super::rows::{Group, joined, shown};
use crate::output::style::{on_one_line, shortened};
use crate::output::units::{counted, grouped};

/// Longest text of a token that is shown whole, in characters.
const LONGEST_TOKEN: usize = 40;

/// Tokens that end a turn are rarely more than three.
const MOST_TOKENS: usize = 8;

/// The group about text.
pub(super) fn group(facts: &FileFacts) -> Group {
    let tokenizer = &facts.tokenizer;
    let mut group = Group::new("TEXT");
    group.maybe("tokenizer", tokenizer.model.as_deref().map(|model| kind(model, tokenizer)));
    if tokenizer.vocab_size > 0 {
        group.row("vocabulary", vocabulary(tokenizer));
    }
    group.maybe("BOS", tokenizer.token("bos").map(|token| bos(token, facts)));
    group.maybe("EOS", tokenizer.token("eos").map(token));
    let ends = tokenizer.end_of_turn_tokens.iter().take(MOST_TOKENS).map(token).collect::<Vec<_>>().join(", ");
    let more = if tokenizer.end_of_turn.len() > MOST_TOKENS { ", ..." } else { "" };
    if tokenizer.vocab_size > 0 {
        let none = || "none known".to_owned();
        group.row("end of turn", if ends.is_empty() { none() } else { ends + more });
    }
    group.maybe("other tokens", others(tokenizer));
    if tokenizer.vocab_size > 0 || facts.template.status != TemplateStatus::None {
        group.rows("chat template", template(&facts.template));
    }
    group
}

fn kind(model: &str, tokenizer: &TokenizerFacts) -> String {
    let kind = match model {
        "gpt2" => "byte-level BPE",
        "llama" => "SentencePiece, by scores",
        "gemma4" => "BPE of characters",
        "whitespace" => "BPE of words",
        "t5" => "unigram, by scores",
        "bert" => "WordPiece",
        "rwkv" => "RWKV, by longest match",
        _ => "",
    };
    let name = if kind.is_empty() { format!("\"{}\"", shown(model)) } else { kind.to_owned() };
    let pre = match (&tokenizer.pre_tokenizer_used, &tokenizer.pre_tokenizer) {
        (Some(used), _) if tokenizer.is_pre_tokenizer_recovered => {
            Some(format!("pre-tokenizer {used} (not named in the file, known by the tokens)"))
        }
        (Some(used), Some(name)) if used != name => {
            Some(format!("pre-tokenizer {}, which cuts as {used}", shown(name)))
        }
        (Some(used), _) => Some(format!("pre-tokenizer {used}")),
        // The word says nothing where text is not cut.
        (None, Some(name)) if !tokenizer.is_supported && name != "default" => {
            Some(format!("pre-tokenizer {}", shown(name)))
        }
        (None, _) => None,
    };
    let refused = (!tokenizer.is_supported).then(|| "not supported by this version".to_owned());
    joined([Some(name), pre, refused])
}

fn vocabulary(tokenizer: &TokenizerFacts) -> String {
    let merges = tokenizer.merges.map(|merges| counted(merges, "merge"));
    let control = tokenizer
        .control_tokens
        .filter(|&count| count > 0)
        .map(|count| format!("{} for control", grouped(count as u64)));
    let unused =
        tokenizer.unused_tokens.filter(|&count| count > 0).map(|count| format!("{} unused", grouped(count as u64)));
    joined([Some(counted(tokenizer.vocab_size, "token")), merges, control, unused])
}

/// `<|im_end|>` (2).
fn token(token: &SpecialTokenFacts) -> String {
    match &token.text {
        Some(text) => format!("{} ({})", shortened(&on_one_line(text), LONGEST_TOKEN), token.id),
        None => format!("{}, which is beyond the vocabulary", token.id),
    }
}

fn bos(bos: &SpecialTokenFacts, facts: &FileFacts) -> String {
    let writes = facts.template.writes_bos == Some(true);
    let place = match (facts.tokenizer.adds_bos, writes) {
        (true, true) => "begins texts; the template writes it too, and it comes once",
        (true, false) => "begins texts",
        (false, true) => "the template begins with it, other texts do not",
        (false, false) => "not put in front of texts",
    };
    format!("{}, {place}", token(bos))
}

fn others(tokenizer: &TokenizerFacts) -> Option<String> {
    let others = tokenizer.special.iter().filter(|token| !matches!(token.role, "bos" | "eos" | "eot" | "eom"));
    let text: Vec<String> = others.map(|other| format!("{} {}", other.role.replace('_', " "), token(other))).collect();
    (!text.is_empty()).then(|| text.join(", "))
}

fn template(template: &TemplateFacts) -> Vec<String> {
    let source = template.source.as_deref().map(shown).unwrap_or_default();
    let mut lines = match template.status {
        TemplateStatus::None => return vec!["none".to_owned()],
        TemplateStatus::Blank => return vec!["empty".to_owned()],
        TemplateStatus::Broken => {
            let error = template.error.as_deref().unwrap_or_default();
            return vec![format!("cannot be used: {}", shortened(&on_one_line(error), 300))];
        }
        TemplateStatus::Ready => {
            let length = template.characters.map(|count| counted(count, "character"));
            let source = template.file.map_or(source, str::to_owned);
            vec![joined([Some(format!("from {source}")), length])]
        }
        _ => vec![source],
    };
    lines.extend(abilities(template));
    lines.extend(template.tool_use_source.as_deref().map(|key| format!("for tools from {}", shown(key))));
    let names: Vec<&str> = template.unused_sources.iter().map(|key| key.rsplit('.').next().unwrap_or(key)).collect();
    lines.extend((!names.is_empty()).then(|| format!("others, not used: {}", shown(&names.join(", ")))));
    lines
}

/// What the template did with conversations that it was tried with.
fn abilities(template: &TemplateFacts) -> Option<String> {
    let ability = |answer: Option<bool>, yes: &str, no: &str| {
        answer.map(|is_able| if is_able { yes } else { no }).filter(|text| !text.is_empty()).map(str::to_owned)
    };
    let text = joined([
        ability(template.takes_system, "takes system messages", "no system messages"),
        ability(template.takes_tools, "tools", "no tools"),
        ability(template.switches_thinking, "thinking can be switched", ""),
    ]);
    (!text.is_empty()).then_some(text)
}
