//! `Action:`, then a JSON list in a block of code: Command R and R+. The template asks to call `directly-answer` where no tool is needed.

use crate::answer::format::{End, Format, JSON, Rule, Section, Then, Within};
use crate::answer::json;

pub(super) static FORMAT: Format =
    Format { name: "command-r-plus", signs: &[&["<|CHATBOT_TOKEN|>", "Action:", "```json"]], rules: &[RULES] };

const END: End = End::Text { texts: &["```"], quotes: JSON, is_left: false };

const RULES: &[Rule] = &[
    Rule {
        marker: "Action:\n```json",
        within: Within::ContentWithTools,
        then: Then::Calls(Section::calls(END, json::read)),
    },
    Rule {
        marker: "Action: ```json",
        within: Within::ContentWithTools,
        then: Then::Calls(Section::calls(END, json::read)),
    },
    Rule { marker: "<|END_OF_TURN_TOKEN|>", within: Within::Any, then: Then::Nothing },
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::tests::{SEARCH, WEATHER, expect};

    #[test]
    fn answers_are_read() {
        let one =
            format!("    {{\n        \"tool_name\": \"get_weather\",\n        \"parameters\": {}\n    }}", WEATHER.1);
        let other = format!("    {{\n        \"tool_name\": \"search\",\n        \"parameters\": {}\n    }}", SEARCH.1);
        for start in ["Action:\n```json\n", "Action: ```json\n"] {
            let wrapped = |calls: &str| format!("{start}[\n{calls}\n]\n```");
            expect(&FORMAT, "", &wrapped(&one), "", "", &[WEATHER]);
            let both = wrapped(&format!("{one},\n{other}"));
            expect(&FORMAT, "", &both, "", "", &[WEATHER, SEARCH]);
            expect(&FORMAT, "", &format!("Let me look.\n{both}\n"), "", "Let me look.", &[WEATHER, SEARCH]);
        }
        for text in ["Action: none", "Action:\n```json\n{\"a\": 1}\n```\n", "```json\n[]\n```"] {
            expect(&FORMAT, "", text, "", text, &[]);
        }
    }
}
