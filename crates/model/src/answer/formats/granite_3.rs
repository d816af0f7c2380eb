//! `<|tool_call|>[{"name": ..., "arguments": {...}}]`: Granite 3.

use crate::answer::format::{End, Format, Rule, Section, THINK, Then, Within};
use crate::answer::json;

pub(super) static FORMAT: Format = Format { name: "granite-3", signs: &[&["<|tool_call|>"]], rules: &[THINK, RULES] };

const SECTION: Section = Section::calls(End::Json { after: "" }, json::read);

const RULES: &[Rule] = &[
    Rule { marker: "<|tool_call|>", within: Within::Any, then: Then::Calls(SECTION) },
    // So Granite 3 writes it as well.
    Rule { marker: "<tool_call>", within: Within::Start, then: Then::Calls(SECTION) },
    Rule { marker: "<response>", within: Within::Start, then: Then::Nothing },
    Rule { marker: "</response>", within: Within::Content, then: Then::Nothing },
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::tests::{SEARCH, WEATHER, expect, usual};

    #[test]
    fn answers_are_read() {
        let one = format!("{{\"name\": \"get_weather\", \"arguments\": {}}}", WEATHER.1);
        let other = format!("{{\"name\": \"search\", \"arguments\": {}}}", SEARCH.1);
        let both = format!("<|tool_call|>[{one}, {other}]");
        let prompt = "<|start_of_role|>assistant<|end_of_role|>";
        usual(&FORMAT, prompt, &format!("<|tool_call|>[{one}]"), &both, ("<think>", "</think>"));
        expect(&FORMAT, prompt, &format!("<tool_call>[{one}]"), "", "", &[WEATHER]);
        expect(&FORMAT, prompt, "<think>Hm</think><response>Hello</response>", "Hm", "Hello", &[]);
    }
}
