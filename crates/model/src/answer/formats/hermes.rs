//! `<tool_call>{"name": ..., "arguments": {...}}</tool_call>`: Hermes, Qwen 2.5 and 3, Granite 4, MiMo and many others.

use crate::answer::format::{End, Format, JSON, Rule, Section, THINK, Then, Within};
use crate::answer::json;

pub(super) static FORMAT: Format = Format { name: "hermes", signs: &[&["<tool_call>"]], rules: &[THINK, RULES] };

const RULES: &[Rule] = &[Rule {
    marker: "<tool_call>",
    within: Within::Content,
    then: Then::Calls(Section::calls(End::Text { texts: &["</tool_call>"], quotes: JSON, is_left: false }, json::read)),
}];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::tests::{SEARCH, WEATHER, expect, incomplete, usual};

    #[test]
    fn answers_are_read() {
        let one = format!("<tool_call>\n{{\"name\": \"get_weather\", \"arguments\": {}}}\n</tool_call>", WEATHER.1);
        let other = format!("<tool_call>\n{{\"name\": \"search\", \"arguments\": {}}}\n</tool_call>", SEARCH.1);
        usual(&FORMAT, "<|im_start|>assistant\n", &one, &format!("{one}\n{other}"), ("<think>\n", "\n</think>\n\n"));
    }

    #[test]
    fn what_is_no_call_stays_text() {
        for text in [
            "<tool_call>\n{\"name\": \"f\", \"arguments\": {}\n</tool_call>",
            "<tool_call>nothing</tool_call> and more",
            "<tool_call></tool_call>",
            "<tool_call>{\"arguments\": {}}</tool_call>",
            "<tool_call>{\"name\": \"f\" \"arguments\": {}}</tool_call>",
            "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": \"b}}</tool_call> and text",
            "<tool_call",
            "<tool_calls>",
        ] {
            expect(&FORMAT, "", text, "", text, &[]);
        }
        let found = "a <tool_call> tag: <tool_call>{\"name\": \"f\"}</tool_call>";
        expect(&FORMAT, "", found, "", "a <tool_call> tag:", &[("f", "{}")]);
    }

    #[test]
    fn arguments_may_hold_anything() {
        let arguments = "{\"a\": \"</tool_call>\\\"}{\", \"b\": {\"c\": [\"\\u4e2d\", {}]}, \"d\":1e3}";
        let text = format!("<tool_call>{{\"name\":\"f\",\"arguments\":{arguments}}}</tool_call>");
        expect(&FORMAT, "", &text, "", "", &[("f", arguments)]);
        // Without the end, as models leave it off.
        expect(&FORMAT, "", text.trim_end_matches("</tool_call>"), "", "", &[("f", arguments)]);
    }

    #[test]
    fn a_call_that_ends_early_is_incomplete() {
        incomplete(&FORMAT, "", "Look:\n<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": \"b", "f", "{\"a\": \"b");
        incomplete(&FORMAT, "", "Look:\n<tool_call>\n{\"name\": \"f\"", "f", "");
    }
}
