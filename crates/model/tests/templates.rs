//! Templates against Jinja2, and what may not happen with any template.

use duan_model::Error;
use duan_model::template::{ChatTemplate, Message, RenderOptions};
use serde_json::Value;

fn messages(json: &Value) -> Vec<Message> {
    let text = |message: &Value, key: &str| message[key].as_str().unwrap().to_owned();
    json.as_array()
        .unwrap()
        .iter()
        .map(|message| Message::new(text(message, "role"), text(message, "content")))
        .collect()
}

fn options(variables: &Value) -> RenderOptions {
    let clock = "2025-01-24T03:04:05+00:00[UTC]".parse().unwrap();
    RenderOptions { now: Some(clock), variables: variables.as_object().unwrap().clone(), ..RenderOptions::default() }
}

/// `templates.json` is made by `templates_generate.py`.
#[test]
fn snippets_render_as_with_jinja2() {
    let cases: Vec<Value> = serde_json::from_str(include_str!("fixtures/templates.json")).unwrap();
    assert!(cases.len() >= 60);
    let mut wrong = Vec::new();
    for case in &cases {
        let name = case["name"].as_str().unwrap();
        let template = ChatTemplate::new(case["source"].as_str().unwrap(), "<s>", "</s>");
        let template = template.unwrap_or_else(|error| panic!("{name}: {error}"));
        let rendered = template.render(&messages(&case["messages"]), &options(&case["variables"]));
        match (rendered, case["expected"].as_str(), case["refusal"].as_str()) {
            (Ok(prompt), Some(expected), _) if prompt.text() == expected => {}
            (Err(Error::Refused { message, .. }), _, Some(refusal)) if message == refusal => {}
            // An error of Python or Jinja2, in its own words.
            (Err(Error::Template { .. }), None, Some(_)) if case["is_failure"] == true => {}
            (Ok(prompt), expected, refusal) => {
                wrong.push(format!("{name}: expected {:?}\n     got {:?}", expected.or(refusal), prompt.text()))
            }
            (Err(error), expected, _) => wrong.push(format!("{name}: expected {expected:?}\n     got {error}")),
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
}
