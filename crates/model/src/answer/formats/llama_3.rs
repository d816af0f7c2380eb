//! `{"name": ..., "parameters": {...}}` and nothing else, or `<|python_tag|>` and a call or a program: Llama 3.1 to 3.3.

use crate::answer::format::{Call, End, Format, Input, Next, Rule, Section, THINK, Then, Within, some};
use crate::answer::tools::{object, quoted};
use crate::answer::{json, python};

pub(super) static FORMAT: Format = Format {
    name: "llama-3",
    signs: &[&["<|python_tag|>"], &["<|start_header_id|>", "\"parameters\": "]],
    rules: &[THINK, RULES, PYTHON],
};

const RULES: &[Rule] = &[
    Rule {
        marker: "{",
        within: Within::StartWithTools,
        then: Then::Calls(Section::with_marker(End::Json { after: "" }, known)),
    },
    Rule { marker: ";", within: Within::AfterCall, then: Then::Nothing },
    Rule { marker: "<|eot_id|>", within: Within::Any, then: Then::Nothing },
    Rule { marker: "<|eom_id|>", within: Within::Any, then: Then::Nothing },
];

/// Calls and programs behind a control token.
pub(super) const PYTHON: &[Rule] = &[Rule {
    marker: "<|python_tag|>",
    within: Within::Any,
    then: Then::Calls(Section::calls(
        End::Text { texts: &["<|eom_id|>", "<|eot_id|>"], quotes: &[], is_left: false },
        behind_tag,
    )),
}];

/// Calls of the request's tools: any other JSON is an answer in JSON.
fn known(input: &Input<'_>) -> Option<Next> {
    match json::read(input)? {
        Next::Calls(calls) if calls.iter().all(|call| input.tools.has(&call.name)) => Some(Next::Calls(calls)),
        _ => None,
    }
}

/// Tools that run programs, and the argument that the program is.
const RUNNERS: &[&str] = &["python", "ipython", "code_interpreter"];

fn behind_tag(input: &Input<'_>) -> Option<Next> {
    if let Some(calls) = json::read(input) {
        return Some(calls);
    }
    // Calls of the tools that the model has by itself: `brave_search.call(query="...")`.
    if let Some(Next::Calls(calls)) = python::read(input)
        && calls.iter().all(|call| call.name.ends_with(".call"))
    {
        let without = |call: Call| Call { name: call.name.trim_end_matches(".call").to_owned(), ..call };
        return some(calls.into_iter().map(without).collect());
    }
    let runner = RUNNERS.iter().find(|name| input.tools.has(name))?;
    let arguments = object([("code", quoted(input.text.trim()))]);
    some(vec![Call { is_complete: input.is_whole, ..Call::new(runner, arguments) }])
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::answer::tests::{SEARCH, WEATHER, expect, incomplete, usual};
    use crate::answer::{Answer, Parser};

    #[test]
    fn answers_are_read() {
        let call = |(name, arguments): (&str, &str)| format!("{{\"name\": \"{name}\", \"parameters\": {arguments}}}");
        let prompt = "<|start_header_id|>assistant<|end_header_id|>\n\n";
        let tagged = |call: String| format!("<|python_tag|>{call}<|eom_id|>");
        let (one, both) = (tagged(call(WEATHER)), tagged(format!("{}; {}", call(WEATHER), call(SEARCH))));
        usual(&FORMAT, prompt, &one, &both, ("<think>", "</think>"));
        expect(&FORMAT, prompt, &call(WEATHER), "", "", &[WEATHER]);
        for between in ["; ", "\n", ""] {
            let both = format!("{}{between}{}<|eot_id|>", call(WEATHER), call(SEARCH));
            expect(&FORMAT, prompt, &both, "", "", &[WEATHER, SEARCH]);
        }
        incomplete(&FORMAT, prompt, "{\"name\": \"f\", \"parameters\": {\"a\"", "f", "{\"a\"");
    }

    #[test]
    fn other_json_is_text() {
        for text in
            ["{\"a\": 1}", "{\"name\": \"unknown\", \"parameters\": {}}", "{", "{\"name\"", "Hi {\"name\": \"f\"}"]
        {
            expect(&FORMAT, "", text, "", text, &[]);
        }
        let text = "{\"name\": \"f\", \"parameters\": {}}";
        let mut parser = Parser::new(&FORMAT, "", &[]);
        let events = [parser.feed(text), parser.finish()].concat();
        assert_eq!(Answer::new(events).content, text, "without tools, JSON is an answer");
    }

    #[test]
    fn own_tools_and_programs_are_called() {
        let text = "<|python_tag|>brave_search.call(query=\"weather in Paris\")";
        expect(&FORMAT, "", text, "", "", &[("brave_search", "{\"query\": \"weather in Paris\"}")]);
        let program = "<|python_tag|>import math\nprint(math.pi)";
        expect(&FORMAT, "", program, "", program, &[]);
        let tools = [json!({"name": "python", "parameters": {}})];
        let mut parser = Parser::new(&FORMAT, "", &tools);
        let events = [parser.feed(&format!("{program}<|eom_id|>")), parser.finish()].concat();
        let call = &Answer::new(events).tool_calls[0];
        assert_eq!(call.arguments, "{\"code\": \"import math\\nprint(math.pi)\"}");
        assert!(call.name == "python" && call.is_complete);
    }
}
