//! `<tool_calls>`, then a JSON object on each line, then `</tool_calls>`: MiniMax M1.

use crate::answer::format::{End, Format, JSON, Rule, Section, THINK, Then, Within};
use crate::answer::json;

pub(super) static FORMAT: Format = Format { name: "minimax-m1", signs: &[&["<tool_calls>"]], rules: &[THINK, RULES] };

pub(super) const RULES: &[Rule] = &[Rule {
    marker: "<tool_calls>",
    within: Within::Content,
    then: Then::Calls(Section::calls(
        End::Text { texts: &["</tool_calls>"], quotes: JSON, is_left: false },
        json::read,
    )),
}];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::tests::{SEARCH, WEATHER, usual};

    #[test]
    fn answers_are_read() {
        let one = format!("{{\"name\": \"get_weather\", \"arguments\": {}}}", WEATHER.1);
        let other = format!("{{\"name\": \"search\", \"arguments\": {}}}", SEARCH.1);
        let wrapped = |calls: &str| format!("<tool_calls>\n{calls}\n</tool_calls>");
        let both = wrapped(&format!("{one}\n{other}"));
        usual(&FORMAT, "ai name=assistant\n", &wrapped(&one), &both, ("<think>\n", "\n</think>\n\n"));
    }
}
