//! What a file's chat template does, found out by rendering short conversations with it.

use duan_model::checkpoint::Checkpoint;
use duan_model::template::{ChatTemplate, Message, Part, Prompt, RenderOptions};
use duan_model::tokenizer::{TokenKind, Tokenizer};
use serde::Serialize;
use serde_json::json;

use super::{SpecialTokenFacts, without_file};

/// The key of the template for ordinary conversations; others are `tokenizer.chat_template.NAME`.
const KEY: &str = "tokenizer.chat_template";

/// What the conversations say that templates are tried with. Templates must show it as it is.
const SYSTEM: &str = "Rain is expected";
const USER: &str = "Which coat";
const ASSISTANT: &str = "The yellow one";
const TOOL: &str = "look_outside";

/// Whether the model's file says how conversations look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum TemplateStatus {
    /// There is no template.
    None,
    /// There is one without anything in it.
    Blank,
    /// There is one, and it cannot be used.
    Broken,
    /// There is one.
    Ready,
}

/// What a file's chat template is and does.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct TemplateFacts {
    /// Whether there is one that can be used.
    pub status: TemplateStatus,
    /// Why it cannot be used.
    pub error: Option<String>,
    /// The key it comes from.
    pub source: Option<String>,
    /// The file of a folder that it comes from; `None` for a GGUF file, in which it stands.
    pub file: Option<&'static str>,
    /// Its length in characters.
    pub characters: Option<usize>,
    /// The key of the template for conversations with tools, where it is another one.
    pub tool_use_source: Option<String>,
    /// Keys of all other templates, which are not used.
    pub unused_sources: Vec<String>,
    /// Whether a system message stays in the prompt; `None` where that could not be tried.
    pub takes_system: Option<bool>,
    /// Whether tools stay in the prompt.
    pub takes_tools: Option<bool>,
    /// Whether `enable_thinking` changes the prompt.
    pub switches_thinking: Option<bool>,
    /// Whether prompts begin with the begin-of-text token because the template writes it.
    pub writes_bos: Option<bool>,
    /// Whether it writes it twice.
    pub doubles_bos: Option<bool>,
    /// The token with which it ends the model's turn.
    pub turn_end: Option<SpecialTokenFacts>,
    /// Why an ordinary conversation cannot be rendered.
    pub trial_error: Option<String>,
}

impl TemplateFacts {
    pub(super) fn of(file: &Checkpoint, tokenizer: Option<&Tokenizer>) -> Self {
        let mut facts = Self {
            status: TemplateStatus::None,
            error: None,
            source: None,
            file: None,
            characters: None,
            tool_use_source: None,
            unused_sources: Vec::new(),
            takes_system: None,
            takes_tools: None,
            switches_thinking: None,
            writes_bos: None,
            doubles_bos: None,
            turn_end: None,
            trial_error: None,
        };
        let metadata = file.metadata();
        let template = match tokenizer {
            Some(tokenizer) => ChatTemplate::from_gguf(metadata, tokenizer),
            // Without a tokenizer nothing runs; whether the template is one can still be said.
            None => {
                let source = metadata.string(KEY).ok().flatten().filter(|source| !source.trim().is_empty());
                match source {
                    Some(source) => ChatTemplate::new(source, "", "").map(Some),
                    None => Ok(None),
                }
            }
        };
        match template {
            Ok(Some(template)) => facts.fill(file, &template, tokenizer),
            Ok(None) if metadata.get(KEY).is_some() => facts.status = TemplateStatus::Blank,
            Ok(None) => {}
            Err(error) => {
                facts.status = TemplateStatus::Broken;
                facts.source = Some(KEY.to_owned());
                facts.error = Some(without_file(file, &error));
            }
        }
        facts.file = file.template_file().filter(|_| facts.status != TemplateStatus::None);
        facts
    }

    /// Whether there is a template that can be used.
    pub fn is_ready(&self) -> bool {
        self.status == TemplateStatus::Ready
    }

    fn fill(&mut self, file: &Checkpoint, template: &ChatTemplate, tokenizer: Option<&Tokenizer>) {
        self.status = TemplateStatus::Ready;
        self.characters = Some(template.source().chars().count());
        let source = if tokenizer.is_some() { template.source_name() } else { KEY };
        self.source = Some(source.to_owned());
        self.tool_use_source = template.tool_use_source_name().map(str::to_owned);
        let is_used = |key: &str| key == source || Some(key) == template.tool_use_source_name();
        let named =
            file.metadata().iter().map(|(key, _)| key).filter(|key| key.starts_with("tokenizer.chat_template."));
        self.unused_sources = named.filter(|key| !is_used(key)).map(str::to_owned).collect();
        match template.render(&[Message::user(USER)], &RenderOptions::default()) {
            Ok(prompt) => self.try_out(template, tokenizer, &prompt),
            Err(error) => self.trial_error = Some(without_file(file, &error)),
        }
    }

    /// Finds out what the template does with other conversations; `plain` is one question.
    fn try_out(&mut self, template: &ChatTemplate, tokenizer: Option<&Tokenizer>, plain: &Prompt) {
        let shows = |messages: &[Message], options: &RenderOptions, word: &str| {
            template.render(messages, options).is_ok_and(|prompt| prompt.text().contains(word))
        };
        let with_system = [Message::system(SYSTEM), Message::user(USER)];
        self.takes_system = Some(shows(&with_system, &RenderOptions::default(), SYSTEM));
        self.takes_tools =
            Some(shows(&with_system[1..], &with_tool(), TOOL) || shows(&with_system, &with_tool(), TOOL));
        let thinking = |is_on: bool| {
            let variables = [("enable_thinking".to_owned(), json!(is_on))].into_iter().collect();
            let options = RenderOptions { variables, ..RenderOptions::default() };
            template.render(&[Message::user(USER)], &options).ok().map(|prompt| prompt.text())
        };
        self.switches_thinking = Some(thinking(true) != thinking(false));
        let Some(tokenizer) = tokenizer else { return };
        if let Some(bos) = tokenizer.bos() {
            let text = tokenizer.token_text(bos).unwrap_or_default();
            self.writes_bos = Some(!text.is_empty() && plain.text().starts_with(text));
            self.doubles_bos = Some(tokenizer.encode_prompt(plain).starts_with(&[bos, bos]));
        }
        self.turn_end = turn_end(template, tokenizer);
    }
}

fn with_tool() -> RenderOptions {
    let parameters = json!({ "type": "object", "properties": {}, "required": [] });
    let function = json!({ "name": TOOL, "description": "Tells the weather", "parameters": parameters });
    RenderOptions { tools: vec![json!({ "type": "function", "function": function })], ..RenderOptions::default() }
}

/// The first special token behind what the model said.
fn turn_end(template: &ChatTemplate, tokenizer: &Tokenizer) -> Option<SpecialTokenFacts> {
    let messages = [Message::user(USER), Message::assistant(ASSISTANT)];
    let options = RenderOptions { add_generation_prompt: false, ..RenderOptions::default() };
    let prompt = template.render(&messages, &options).ok()?;
    let said = prompt.parts.iter().rposition(|part| matches!(part, Part::Content(text) if text.contains(ASSISTANT)))?;
    let behind = Prompt { parts: prompt.parts[said + 1..].to_vec(), template: prompt.template.clone() };
    let mut ids = &tokenizer.encode_prompt(&behind)[..];
    if let (Some(bos), true) = (tokenizer.bos(), tokenizer.adds_bos()) {
        ids = ids.strip_prefix(&[bos]).unwrap_or(ids);
    }
    let is_special = |id: &&u32| matches!(tokenizer.token_kind(**id), TokenKind::Control | TokenKind::UserDefined);
    let id = *ids.iter().find(is_special)?;
    Some(SpecialTokenFacts { role: "turn_end", id, text: tokenizer.token_text(id).map(str::to_owned) })
}
