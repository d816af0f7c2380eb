//! `<|tool_call_start|>[NAME(KEY='VALUE')]<|tool_call_end|>`: LFM 2.

use crate::answer::format::{End, Format, Input, Next, PYTHON, Rule, Section, THINK, Then, Within};
use crate::answer::{json, python};

pub(super) static FORMAT: Format = Format {
    name: "lfm2",
    // Not every template writes calls.
    signs: &[&["<|tool_call_start|>"], &["<|tool_list_start|>"], &["List of tools: ["]],
    rules: &[THINK, RULES],
};

const RULES: &[Rule] = &[Rule {
    marker: "<|tool_call_start|>",
    within: Within::Any,
    then: Then::Calls(Section::calls(
        End::Text { texts: &["<|tool_call_end|>"], quotes: PYTHON, is_left: false },
        read,
    )),
}];

/// Python, or JSON where the system prompt asks for it.
fn read(input: &Input<'_>) -> Option<Next> {
    python::read(input).or_else(|| json::read(input))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::tests::{SEARCH, WEATHER, expect, incomplete, usual};

    #[test]
    fn answers_are_read() {
        let (one, other) = ("get_weather(city='Paris', days=3)", "search(words=['a, b', \"it's <b> 中\"], deep=True)");
        let wrapped = |calls: &str| format!("<|tool_call_start|>[{calls}]<|tool_call_end|>");
        let both = wrapped(&format!("{one}, {other}"));
        usual(&FORMAT, "<|im_start|>assistant\n", &wrapped(one), &both, ("<think>", "</think>"));
        let json =
            format!("<|tool_call_start|>[{{\"name\": \"search\", \"arguments\": {}}}]<|tool_call_end|>", SEARCH.1);
        expect(&FORMAT, "", &json, "", "", &[SEARCH]);
        expect(&FORMAT, "", &format!("{}It rains.", wrapped(one)), "", "It rains.", &[WEATHER]);
        let text = wrapped("f(1)");
        expect(&FORMAT, "", &text, "", &text, &[]);
        incomplete(&FORMAT, "", "<|tool_call_start|>[f(a='x', b='y", "f", "{\"a\": \"x\"}");
    }
}
