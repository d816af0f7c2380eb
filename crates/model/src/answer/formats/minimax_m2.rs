//! `<minimax:tool_call><invoke name="NAME"><parameter name="KEY">VALUE</parameter></invoke></minimax:tool_call>`: MiniMax M2.

use crate::answer::format::{End, Format, Quote, Rule, Section, THINK, Then, Within};
use crate::answer::tagged::{self, Tags, unknown};

pub(super) static FORMAT: Format =
    Format { name: "minimax-m2", signs: &[&["<minimax:tool_call>"]], rules: &[THINK, RULES] };

const TAGS: Tags = Tags {
    call: "<invoke name=\"",
    name_end: "\"",
    call_end: "</invoke>",
    parameter: "<parameter name=\"",
    parameter_name_end: "\"",
    parameter_tag_end: ">",
    parameter_end: "</parameter>",
    kind: unknown,
    has_lines: false,
};

const RULES: &[Rule] = &[Rule {
    marker: "<minimax:tool_call>",
    within: Within::Any,
    then: Then::Calls(Section::calls(
        End::Text {
            texts: &["</minimax:tool_call>"],
            quotes: &[Quote { open: "<parameter name=", close: "</parameter>", has_escapes: false }],
            is_left: false,
        },
        |input| tagged::read(input, &TAGS),
    )),
}];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::tests::{expect, usual};

    #[test]
    fn answers_are_read() {
        let one = "<invoke name=\"get_weather\">\n<parameter name=\"city\">Paris</parameter>\n<parameter name=\"days\">3</parameter>\n</invoke>";
        let other = "<invoke name=\"search\">\n<parameter name=\"words\">[\"a, b\", \"it's <b> 中\"]</parameter>\n<parameter name=\"deep\">true</parameter>\n</invoke>";
        let wrapped = |calls: &str| format!("<minimax:tool_call>\n{calls}\n</minimax:tool_call>");
        let both = wrapped(&format!("{one}\n{other}"));
        usual(&FORMAT, "]~b]ai\n", &wrapped(one), &both, ("<think>\n", "\n</think>\n\n"));
        expect(&FORMAT, "<think>\n", &format!("Hm\n{}", wrapped(one)), "Hm", "", &[crate::answer::tests::WEATHER]);
    }
}
