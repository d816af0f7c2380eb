//! `<tool_calls>[{"name": ..., "arguments": {...}}]</tool_calls>`, and thoughts up to `[BEGIN FINAL RESPONSE]`: Apriel.

use crate::answer::format::{Format, Rule, Then, Within};

use super::minimax_m1;

pub(super) static FORMAT: Format =
    Format { name: "apriel", signs: &[&["[BEGIN FINAL RESPONSE]"]], rules: &[RULES, minimax_m1::RULES] };

const RULES: &[Rule] = &[
    Rule { marker: "Here are my reasoning steps:", within: Within::Start, then: Then::Reasoning },
    Rule { marker: "[BEGIN FINAL RESPONSE]", within: Within::Reasoning, then: Then::Content },
    Rule { marker: "[BEGIN FINAL RESPONSE]", within: Within::Start, then: Then::Content },
    Rule { marker: "[END FINAL RESPONSE]", within: Within::Content, then: Then::Nothing },
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::tests::{SEARCH, WEATHER, expect, usual};

    #[test]
    fn answers_are_read() {
        let one = format!("{{\"name\": \"get_weather\", \"arguments\": {}, \"id\": \"1\"}}", WEATHER.1);
        let other = format!("{{\"name\": \"search\", \"arguments\": {}, \"id\": \"2\"}}", SEARCH.1);
        let wrapped = |calls: &str| format!("<tool_calls>[{calls}]</tool_calls>");
        let both = wrapped(&format!("{one}, {other}"));
        let thoughts = ("Here are my reasoning steps:\n", "\n[BEGIN FINAL RESPONSE]\n");
        usual(&FORMAT, "<|begin_assistant|>\n", &wrapped(&one), &both, thoughts);
        let prompt = "<|begin_assistant|>\nHere are my reasoning steps:\n";
        expect(&FORMAT, prompt, "Hm\n[BEGIN FINAL RESPONSE]Hello[END FINAL RESPONSE]\n", "Hm", "Hello", &[]);
    }
}
