//! `<|tools_prefix|>[{"NAME": {...}}]<|tools_suffix|>`, and thoughts in `<|inner_prefix|>`: Apertus.

use crate::answer::format::{End, Format, JSON, Rule, Section, Then, Within};
use crate::answer::json;

pub(super) static FORMAT: Format = Format { name: "apertus", signs: &[&["<|tools_prefix|>"]], rules: &[RULES] };

const RULES: &[Rule] = &[
    Rule { marker: "<|inner_prefix|>", within: Within::Any, then: Then::Reasoning },
    Rule { marker: "<|inner_suffix|>", within: Within::Any, then: Then::Content },
    Rule { marker: "<|assistant_end|>", within: Within::Any, then: Then::Nothing },
    Rule {
        marker: "<|tools_prefix|>",
        within: Within::Any,
        then: Then::Calls(Section::calls(
            End::Text { texts: &["<|tools_suffix|>"], quotes: JSON, is_left: false },
            json::read_keyed,
        )),
    },
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::tests::{SEARCH, WEATHER, expect, usual};

    #[test]
    fn answers_are_read() {
        let one = format!("{{\"get_weather\": {}}}", WEATHER.1);
        let other = format!("{{\"search\": {}}}", SEARCH.1);
        let wrapped = |calls: &str| format!("<|tools_prefix|>[{calls}]<|tools_suffix|>");
        let both = wrapped(&format!("{one}, {other}"));
        usual(&FORMAT, "<|assistant_start|>", &wrapped(&one), &both, ("<|inner_prefix|>", "<|inner_suffix|>"));
        let text = wrapped("{\"f\": 1}");
        expect(&FORMAT, "", &text, "", &text, &[]);
    }
}
