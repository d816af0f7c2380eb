//! Templates that others publish, for six conversations: the text must be what transformers and Jinja2 make of them.
//!
//! `DUAN_PEER_TEMPLATES` names the file that `fixtures/templates_peers.py` writes; without it there is nothing to test, and the
//! tests say so.

use duan_model::Error;
use duan_model::template::{ChatTemplate, Message, RenderOptions, ToolCall};
use serde_json::Value;

fn cases() -> Option<Vec<Value>> {
    let Some(path) = std::env::var_os("DUAN_PEER_TEMPLATES") else {
        println!("skipped: DUAN_PEER_TEMPLATES is not set");
        return None;
    };
    Some(serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap())
}

fn text(json: &Value, key: &str) -> Option<String> {
    json[key].as_str().map(str::to_owned)
}

fn message(json: &Value) -> Message {
    let calls = json["tool_calls"].as_array().into_iter().flatten().map(|call| {
        let function = &call["function"];
        let mut tool_call = ToolCall::new(text(function, "name").unwrap(), function["arguments"].clone());
        tool_call.id = text(call, "id");
        tool_call
    });
    Message {
        role: text(json, "role").unwrap(),
        content: text(json, "content").unwrap(),
        name: text(json, "name"),
        reasoning_content: text(json, "reasoning_content"),
        tool_calls: calls.collect(),
        tool_call_id: text(json, "tool_call_id"),
    }
}

fn options(case: &Value) -> RenderOptions {
    RenderOptions {
        add_generation_prompt: case["add_generation_prompt"].as_bool().unwrap_or(true),
        tools: case["tools"].as_array().cloned().unwrap_or_default(),
        now: Some("2025-01-24T03:04:05+00:00[UTC]".parse().unwrap()),
        ..RenderOptions::default()
    }
}

/// What is wrong with a rendering, if anything.
fn difference(case: &Value) -> Option<String> {
    let messages: Vec<Message> = case["messages"].as_array().unwrap().iter().map(message).collect();
    let template = match ChatTemplate::new(case["source"].as_str().unwrap(), "<s>", "</s>") {
        Ok(template) => template,
        Err(error) => return Some(format!("cannot be read: {error}")),
    };
    let rendered = template.render(&messages, &options(case));
    let failure = case["failure"].as_str();
    match (rendered, case["expected"].as_str(), case["refusal"].as_str()) {
        (Ok(prompt), Some(expected), _) if prompt.text() == expected => None,
        (Err(Error::Refused { message, .. }), None, Some(refusal)) if message == refusal => None,
        // Errors of Python itself, whose words are its own.
        (Err(Error::Template { .. }), None, refusal) if failure.or(refusal).is_some() => None,
        (Ok(prompt), Some(expected), _) => {
            let text = prompt.text();
            let same = text.bytes().zip(expected.bytes()).take_while(|(a, b)| a == b).count();
            let around = |text: &str| {
                String::from_utf8_lossy(&text.as_bytes()[same.saturating_sub(30)..])
                    .chars()
                    .take(90)
                    .collect::<String>()
            };
            Some(format!("expected {:?}\n     got {:?}", around(expected), around(&text)))
        }
        (Ok(prompt), None, refusal) => {
            Some(format!("expected {:?}\n     got {} bytes of text", failure.or(refusal), prompt.text().len()))
        }
        (Err(error), expected, refusal) => {
            Some(format!("expected {} bytes or {refusal:?}\n     got {error}", expected.map_or(0, str::len)))
        }
    }
}

#[test]
fn every_rendering_is_that_of_jinja2() {
    let Some(cases) = cases() else { return };
    assert!(cases.len() >= 400, "only {} renderings", cases.len());
    let wrong: Vec<String> = cases
        .iter()
        .filter_map(|case| difference(case).map(|wrong| format!("{}, {}: {wrong}", case["file"], case["conversation"])))
        .collect();
    println!("{} of {} renderings equal, or refused alike", cases.len() - wrong.len(), cases.len());
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
