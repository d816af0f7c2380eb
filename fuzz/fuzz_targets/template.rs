//! Reads an arbitrary template and renders an arbitrary conversation with it.
//!
//! Beyond not crashing, text of a message must never count as the template's.

#![no_main]

use duan_model::Error;
use duan_model::template::{ChatTemplate, Message, Part, RenderOptions, ToolCall};
use libfuzzer_sys::arbitrary::{self, Arbitrary};
use libfuzzer_sys::fuzz_target;

#[derive(Debug, Arbitrary)]
struct Input {
    source: String,
    messages: Vec<(u8, String)>,
    has_tools: bool,
    repair: bool,
}

const ROLES: [&str; 5] = ["system", "user", "assistant", "tool", "wizard"];

/// Stands in every message, and in no template that is tried.
const SECRET: char = '\u{18b0}';

fuzz_target!(|input: Input| {
    if input.source.contains(SECRET) || input.source.contains("18b0") {
        return;
    }
    let template = match ChatTemplate::new(&input.source, "<s>", "</s>") {
        Ok(template) => template,
        Err(error) => return assert_one_line(&error),
    };
    let messages: Vec<Message> = input.messages.iter().map(|(role, text)| message(*role, text)).collect();
    let mut options = RenderOptions { repair: input.repair, ..RenderOptions::default() };
    if input.has_tools {
        let name = format!("get{SECRET}");
        options.tools.push(serde_json::json!({"type": "function", "function": {"name": name, name.as_str(): [name]}}));
    }
    match template.render(&messages, &options) {
        Ok(prompt) => {
            for part in &prompt.parts {
                if let Part::Template(text) = part {
                    assert!(!text.contains(SECRET), "text of a message counts as the template's: {text:?}");
                }
            }
        }
        Err(error) => assert_one_line(&error),
    }
});

fn message(role: u8, text: &str) -> Message {
    let mut message = Message::new(ROLES[role as usize % ROLES.len()], format!("{SECRET}{text}{SECRET}"));
    if role & 8 != 0 {
        message.tool_calls.push(ToolCall::new(format!("f{SECRET}"), text));
    }
    if role & 16 != 0 {
        message.reasoning_content = Some(format!("{text}{SECRET}"));
    }
    message
}

fn assert_one_line(error: &Error) {
    assert!(!error.to_string().contains('\n'), "a message of several lines: {error}");
}
