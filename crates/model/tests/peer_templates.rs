//! Templates that others publish, for six conversations: the text must be what transformers and Jinja2 make of them.
//!
//! `DUAN_PEER_TEMPLATES` names the file that `fixtures/templates_peers.py` writes; without it there is nothing to test, and the
//! tests say so.

use duan_model::Error;
use duan_model::answer::{Answer, Format, Parser};
use duan_model::template::{ChatTemplate, Message, RenderOptions, ToolCall};
use serde_json::{Value, json};

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
        Err(_) if case["expected"].is_null() => return None,
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

/// The turns of the model that are written and read again: name, thoughts, text, calls.
fn turns() -> Vec<(&'static str, Message)> {
    let weather = ToolCall::new("get_weather", json!({"city": "Paris", "unit": "c", "days": 3}));
    let search = ToolCall::new("search", json!({"words": ["中文", "it's </b>", "\"quoted\" {}"], "deep": true}));
    let turn = |content: &str, tool_calls: Vec<ToolCall>| {
        let with_id = |(index, call): (usize, ToolCall)| ToolCall { id: Some(format!("abcdefgh{index}")), ..call };
        let tool_calls = tool_calls.into_iter().enumerate().map(with_id).collect();
        Message { tool_calls, ..Message::assistant(content) }
    };
    let thinking = Message { reasoning_content: Some("Look it up.".to_owned()), ..turn("", vec![weather.clone()]) };
    vec![
        ("one call", turn("", vec![weather.clone()])),
        ("two calls", turn("", vec![weather.clone(), search.clone()])),
        ("a call after content", turn("I look it up.", vec![search])),
        ("a call after reasoning", thinking),
        ("no arguments", turn("", vec![ToolCall::new("now", json!({}))])),
    ]
}

/// Where the model's own text begins in a turn: what the generation prompt has in common with it, without the beginning of a
/// marker that only looks alike.
fn common(prompt: &str, turn: &str) -> usize {
    let same: usize = prompt.chars().zip(turn.chars()).take_while(|(a, b)| a == b).map(|(a, _)| a.len_utf8()).sum();
    match turn[..same].rfind(['<', '[']) {
        Some(open) if same < turn.len() && !turn[open..same].contains(['>', ']']) => open,
        _ => same,
    }
}

/// What became of a turn that was written by a template and read by its parser.
enum Outcome {
    Equal,
    /// The template refuses it, or does not write its calls.
    Unwritten,
    Different(String),
}

fn round_trip(source: &str, tools: &[Value], turn: &Message) -> Outcome {
    const QUESTION: &str = "What is the weather?";
    let template = ChatTemplate::new(source, "<s>", "</s>").unwrap();
    let variables = json!({"functions": "[]", "datetime": "now"});
    let options = |add_generation_prompt| RenderOptions {
        add_generation_prompt,
        tools: tools.to_vec(),
        variables: variables.as_object().unwrap().clone(),
        repair: true,
        ..RenderOptions::default()
    };
    let question = Message::user(QUESTION);
    let after = |messages: &[Message], is_prompt| {
        let text = template.render(messages, &options(is_prompt)).ok()?.text();
        let at = text.rfind(QUESTION)? + QUESTION.len();
        Some(text[at..].to_owned())
    };
    let (Some(prompt), Some(written)) =
        (after(std::slice::from_ref(&question), true), after(&[question.clone(), turn.clone()], false))
    else {
        return Outcome::Unwritten;
    };
    if !turn.tool_calls.iter().all(|call| written.contains(&call.name)) {
        return Outcome::Unwritten;
    }
    // The model goes on where the generation prompt ends. Where a template writes its turns otherwise, the turn counts.
    let (begun, text) = written.split_at(common(&prompt, &written));
    let format = Format::of(source);
    let read = |begun: &str| {
        let mut parser = Parser::new(format, begun, tools);
        let mut events = parser.feed(text);
        events.extend(parser.finish());
        Answer::new(events)
    };
    let answer = read(begun);
    if is_read(turn, text, &answer) || is_read(turn, text, &read(&prompt)) {
        return Outcome::Equal;
    }
    Outcome::Different(format!("{}\n  {begun:?} | {text:?}\n  {answer:?}", format.name))
}

/// Whether an answer is the turn that was written as `text`.
fn is_read(turn: &Message, text: &str, answer: &Answer) -> bool {
    let calls = answer.tool_calls.iter().map(|call| {
        assert!(call.is_complete, "{call:?}");
        (call.name.clone(), serde_json::from_str(&call.arguments).unwrap_or(Value::Null))
    });
    let expected = turn.tool_calls.iter().map(|call| (call.name.clone(), call.arguments.clone()));
    let reasoning = turn.reasoning_content.as_deref().filter(|thought| text.contains(*thought)).unwrap_or_default();
    // Templates may leave content off, and write on after the turn, but nothing of the calls may be in it.
    let content = if text.contains(turn.content.as_str()) { turn.content.as_str() } else { "" };
    let is_clean =
        !answer.content.contains("Paris") && !turn.tool_calls.iter().any(|call| answer.content.contains(&call.name));
    calls.eq(expected) && answer.reasoning == reasoning && answer.content.contains(content) && is_clean
}

/// Turns that cannot be read as they were given, because the template writes something else.
const ODD: [(&str, &str, &str); 2] = [
    ("NVIDIA-Nemotron-Nano-v2.jinja", "a call after content", "opens thoughts and never closes them"),
    ("openai-gpt-oss-120b.jinja", "a call after content", "writes the content into the channel of thoughts"),
];

#[test]
fn calls_are_read_as_they_were_written() {
    let Some(cases) = cases() else { return };
    let (mut equal, mut all, mut unwritten, mut wrong) = (0, 0, Vec::new(), Vec::new());
    for case in cases.iter().filter(|case| case["conversation"] == "tools") {
        let (file, source) = (case["file"].as_str().unwrap(), case["source"].as_str().unwrap());
        let tools = case["tools"].as_array().unwrap();
        let tools = [
            &tools[..],
            &[json!({"type": "function", "function": {"name": "now", "description": "The time",
            "parameters": {"type": "object", "properties": {}, "required": []}}})],
        ]
        .concat();
        let format = Format::of(source).name;
        for (name, turn) in turns() {
            match round_trip(source, &tools, &turn) {
                Outcome::Equal => equal += 1,
                Outcome::Unwritten => {
                    unwritten.push(format!("{file} ({format}): {name}"));
                    continue;
                }
                Outcome::Different(_) if ODD.iter().any(|(odd, turn, _)| (*odd, *turn) == (file, name)) => {
                    let why = ODD.iter().find(|(odd, turn, _)| (*odd, *turn) == (file, name)).map_or("", |odd| odd.2);
                    println!("{file}: {name}: the template {why}");
                }
                Outcome::Different(why) => wrong.push(format!("{file}: {name}: {why}")),
            }
            all += 1;
        }
    }
    println!("not written by their templates:\n  {}", unwritten.join("\n  "));
    println!("{equal} of {all} turns with calls are read as they were written");
    assert!(wrong.is_empty() && equal > 250, "{}", wrong.join("\n"));
}
