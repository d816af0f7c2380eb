//! `[TOOL_CALLS][{"name": ..., "arguments": {...}, "id": ...}]`: Mistral up to 2024.

use crate::answer::format::{End, Format, Rule, Section, Then, Within};
use crate::answer::json;

use super::mistral::THINK;

pub(super) static FORMAT: Format = Format { name: "mistral-list", signs: &[&["[TOOL_CALLS]"]], rules: &[THINK, RULES] };

const RULES: &[Rule] = &[Rule {
    marker: "[TOOL_CALLS]",
    within: Within::Any,
    then: Then::Calls(Section::calls(End::Json { after: "" }, json::read)),
}];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::tests::{SEARCH, WEATHER, expect, read, usual};

    #[test]
    fn answers_are_read() {
        let one = format!("{{\"name\": \"get_weather\", \"arguments\": {}, \"id\": \"abcdefgh1\"}}", WEATHER.1);
        let other = format!("{{\"name\": \"search\", \"arguments\": {}, \"id\": \"abcdefgh2\"}}", SEARCH.1);
        let both = format!("[TOOL_CALLS][{one}, {other}]");
        usual(&FORMAT, "[/INST]", &format!("[TOOL_CALLS] [{one}]"), &both, ("[THINK]", "[/THINK]"));
        assert_eq!(read(&FORMAT, "", &both).tool_calls[1].id.as_deref(), Some("abcdefgh2"));
        for text in ["[TOOL_CALLS] none", "[TOOL_CALLS][1]", "[TOOL_CALLS][{\"name\": 1}]"] {
            expect(&FORMAT, "", text, "", text, &[]);
        }
    }
}
