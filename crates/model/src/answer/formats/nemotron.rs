//! `<TOOLCALL>[{"name": ..., "arguments": {...}}]</TOOLCALL>`: Nemotron Nano 2.

use crate::answer::format::{End, Format, JSON, Rule, Section, THINK, Then, Within};
use crate::answer::json;

pub(super) static FORMAT: Format = Format { name: "nemotron", signs: &[&["<TOOLCALL>"]], rules: &[THINK, RULES] };

const RULES: &[Rule] = &[Rule {
    marker: "<TOOLCALL>",
    within: Within::Content,
    then: Then::Calls(Section::calls(End::Text { texts: &["</TOOLCALL>"], quotes: JSON, is_left: false }, json::read)),
}];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::tests::{SEARCH, WEATHER, usual};

    #[test]
    fn answers_are_read() {
        let one = format!("{{\"name\": \"get_weather\", \"arguments\": {}}}", WEATHER.1);
        let other = format!("{{\"name\": \"search\", \"arguments\": {}}}", SEARCH.1);
        let wrapped = |calls: &str| format!("<TOOLCALL>[{calls}]</TOOLCALL>");
        let both = wrapped(&format!("{one}, {other}"));
        usual(&FORMAT, "<SPECIAL_11>Assistant\n", &wrapped(&one), &both, ("<think>\n", "\n</think>\n\n"));
    }
}
