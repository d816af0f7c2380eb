//! Chat templates: the one that is used, and those with names.

use serde_json::Value as Json;

use super::Files;
use super::json::parse;
use crate::error::{Result, quoted};
use crate::gguf::{StringArray, Value};

/// The most templates that have names.
const MOST_NAMED: usize = 64;

/// What the files hold, in the order in which they were found.
#[derive(Default)]
struct Found {
    default: Option<String>,
    named: Vec<(String, String)>,
}

impl Found {
    fn is_empty(&self) -> bool {
        self.default.is_none() && self.named.is_empty()
    }

    fn add(&mut self, name: &str, template: String, notes: &mut Vec<String>) {
        if name == "default" {
            self.default.get_or_insert(template);
            return;
        }
        // Names become parts of keys, and are written there as other converters write them.
        let key: String = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
        if key.is_empty() || self.named.len() >= MOST_NAMED {
            notes.push(format!("the chat template named `{}` is left out", quoted(name)));
        } else if self.named.iter().all(|(other, _)| *other != key) {
            self.named.push((key, template));
        }
    }

    /// Takes in a template as JSON has it: a string, or a list of templates with names, or an object of them.
    fn add_json(&mut self, json: &Json, notes: &mut Vec<String>) {
        match json {
            Json::String(template) => self.add("default", template.clone(), notes),
            Json::Array(list) => {
                for entry in list {
                    if let (Some(name), Some(template)) = (entry["name"].as_str(), entry["template"].as_str()) {
                        self.add(name, template.to_owned(), notes);
                    } else {
                        notes.push("a chat template without a name or a text is left out".to_owned());
                    }
                }
            }
            Json::Object(named) => {
                for (name, template) in named {
                    if let Some(template) = template.as_str() {
                        self.add(name, template.to_owned(), notes);
                    }
                }
            }
            Json::Null => {}
            _ => notes.push("`chat_template` is neither a text nor a list of templates and is left out".to_owned()),
        }
    }
}

/// Entries, and the file that they are from.
type Entries = (Vec<(String, Value)>, Option<&'static str>);

/// The entries for chat templates, and which file they are from: the default one where several have some.
///
/// Files for themselves come first, as `transformers` reads them: `chat_template.jinja` with those in `additional_chat_templates`,
/// then `chat_template` in `tokenizer_config.json`, then `chat_template.json`.
pub(super) fn entries(files: &Files, config: &Json, notes: &mut Vec<String>) -> Result<Entries> {
    let mut found = Found::default();
    if let Some(template) = &files.chat_template {
        found.add("default", text(template, "chat_template.jinja", notes), notes);
    }
    for (name, template) in &files.named_chat_templates {
        found.add(name, text(template, name, notes), notes);
    }
    let mut file = if found.default.is_some() { "chat_template.jinja" } else { "additional_chat_templates" };
    if found.is_empty() {
        file = "tokenizer_config.json";
        found.add_json(&config["chat_template"], notes);
    }
    if found.is_empty()
        && let Some(bytes) = &files.chat_template_json
    {
        file = "chat_template.json";
        let json: Json = parse(&files.label(file), bytes)?;
        found.add_json(&json["chat_template"], notes);
    }
    let file = (!found.is_empty()).then_some(file);
    let mut entries = Vec::new();
    if !found.named.is_empty() {
        let names: StringArray = found.named.iter().map(|(name, _)| name).collect();
        entries.push(("tokenizer.chat_templates".to_owned(), names.into()));
    }
    entries
        .extend(found.named.into_iter().map(|(name, text)| (format!("tokenizer.chat_template.{name}"), text.into())));
    entries.extend(found.default.map(|text| ("tokenizer.chat_template".to_owned(), text.into())));
    Ok((entries, file))
}

fn text(bytes: &[u8], name: &str, notes: &mut Vec<String>) -> String {
    let text = String::from_utf8_lossy(bytes);
    if let std::borrow::Cow::Owned(_) = text {
        notes.push(format!("the chat template `{}` is not UTF-8 throughout", quoted(name)));
    }
    text.into_owned()
}
