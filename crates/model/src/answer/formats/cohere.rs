//! `<|START_ACTION|>[{"tool_call_id": ..., "tool_name": ..., "parameters": {...}}]<|END_ACTION|>`: Command R7B and later.

use crate::answer::format::{End, Format, JSON, Rule, Section, Then, Within};
use crate::answer::json;

pub(super) static FORMAT: Format = Format { name: "cohere", signs: &[&["<|START_ACTION|>"]], rules: &[RULES] };

const RULES: &[Rule] = &[
    Rule { marker: "<|START_THINKING|>", within: Within::Any, then: Then::Reasoning },
    Rule { marker: "<|END_THINKING|>", within: Within::Any, then: Then::Content },
    Rule { marker: "<|START_RESPONSE|>", within: Within::Any, then: Then::Content },
    Rule { marker: "<|END_RESPONSE|>", within: Within::Content, then: Then::Nothing },
    Rule { marker: "<|START_TEXT|>", within: Within::Any, then: Then::Content },
    Rule { marker: "<|END_TEXT|>", within: Within::Content, then: Then::Nothing },
    Rule { marker: "<|END_OF_TURN_TOKEN|>", within: Within::Any, then: Then::Nothing },
    Rule {
        marker: "<|START_ACTION|>",
        within: Within::Any,
        then: Then::Calls(Section::calls(
            End::Text { texts: &["<|END_ACTION|>"], quotes: JSON, is_left: false },
            json::read,
        )),
    },
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::tests::{SEARCH, WEATHER, expect, read, usual};

    #[test]
    fn answers_are_read() {
        let one =
            format!("    {{\"tool_call_id\": \"0\", \"tool_name\": \"get_weather\", \"parameters\": {}}}", WEATHER.1);
        let other = format!("    {{\"tool_call_id\": \"1\", \"tool_name\": \"search\", \"parameters\": {}}}", SEARCH.1);
        let wrapped = |calls: &str| format!("<|START_ACTION|>[\n{calls}\n]<|END_ACTION|>");
        let both = wrapped(&format!("{one},\n{other}"));
        let prompt = "<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>";
        usual(&FORMAT, prompt, &wrapped(&one), &both, ("<|START_THINKING|>", "<|END_THINKING|>"));
        let ids: Vec<_> = read(&FORMAT, "", &both).tool_calls.into_iter().map(|call| call.id).collect();
        assert_eq!(ids, [Some("0".to_owned()), Some("1".to_owned())]);
        let text = "<|START_RESPONSE|>It rains.<|END_RESPONSE|><|END_OF_TURN_TOKEN|>";
        expect(&FORMAT, &format!("{prompt}<|START_THINKING|><|END_THINKING|>"), text, "", "It rains.", &[]);
    }
}
