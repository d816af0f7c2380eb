//! `functools[{"name": ..., "arguments": {...}}]`: Firefunction 2.

use crate::answer::format::{End, Format, Input, Next, Rule, Section, THINK, Then, Within};
use crate::answer::json;

pub(super) static FORMAT: Format = Format { name: "firefunction", signs: &[&["functools["]], rules: &[THINK, RULES] };

const RULES: &[Rule] = &[Rule {
    marker: "functools[",
    within: Within::Content,
    then: Then::Calls(Section::with_marker(End::Json { after: "functools" }, without_marker)),
}];

fn without_marker(input: &Input<'_>) -> Option<Next> {
    let text = input.text.strip_prefix("functools")?;
    json::read(&Input { text, name: None, is_whole: input.is_whole, tools: input.tools })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::tests::{SEARCH, WEATHER, expect, usual};

    #[test]
    fn answers_are_read() {
        let one = format!("{{\"name\": \"get_weather\", \"arguments\": {}}}", WEATHER.1);
        let other = format!("{{\"name\": \"search\", \"arguments\": {}}}", SEARCH.1);
        let both = format!(" functools[{one}, {other}]");
        usual(&FORMAT, "assistant<|end_header_id|>\n\n", &format!(" functools[{one}]"), &both, ("<think>", "</think>"));
        for text in ["from functools import reduce", "functools[0]", "functools["] {
            expect(&FORMAT, "", text, "", text, &[]);
        }
    }
}
