//! `<tool_call:opensource>NAME<tool_sep:opensource>`, then pairs of key and value, all in `<tool_calls:opensource>`: Hunyuan 3.

use crate::answer::format::{End, Format, Input, Next, Quote, Rule, Section, Then, Within};

use super::glm;

pub(super) static FORMAT: Format =
    Format { name: "hunyuan-3", signs: &[&["<tool_sep{}>", ":opensource"]], rules: &[RULES] };

const RULES: &[Rule] = &[
    Rule { marker: "<think:opensource>", within: Within::Any, then: Then::Reasoning },
    Rule { marker: "</think:opensource>", within: Within::Any, then: Then::Content },
    Rule { marker: "<tool_calls:opensource>", within: Within::Content, then: Then::Nothing },
    Rule { marker: "</tool_calls:opensource>", within: Within::Content, then: Then::Nothing },
    Rule {
        marker: "<tool_call:opensource>",
        within: Within::Content,
        then: Then::Calls(Section::calls(
            End::Text {
                texts: &["</tool_call:opensource>"],
                quotes: &[Quote {
                    open: "<arg_value:opensource>",
                    close: "</arg_value:opensource>",
                    has_escapes: false,
                }],
                is_left: false,
            },
            read,
        )),
    },
];

fn read(input: &Input<'_>) -> Option<Next> {
    // The name has an end of its own, which says nothing more.
    let text = input.text.replacen("<tool_sep:opensource>", "\n", 1);
    let tags = ["<arg_key:opensource>", "</arg_key:opensource>", "<arg_value:opensource>", "</arg_value:opensource>"];
    glm::read(&Input { text: &text, name: None, is_whole: input.is_whole, tools: input.tools }, tags)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::tests::{expect, usual};

    #[test]
    fn answers_are_read() {
        let tagged = |text: &str| text.replace('>', ":opensource>");
        let one = "<tool_call>get_weather<tool_sep>\n<arg_key>city</arg_key>\n<arg_value>Paris</arg_value>\n<arg_key>days</arg_key>\n<arg_value>3</arg_value>\n</tool_call>";
        let other = "<tool_call>search<tool_sep>\n<arg_key>words</arg_key>\n<arg_value>[\"a, b\", \"it's <b* 中\"]</arg_value>\n<arg_key>deep</arg_key>\n<arg_value>true</arg_value>\n</tool_call>";
        let (one, other) = (tagged(one), tagged(other).replace('*', ">"));
        let wrapped = |calls: &str| format!("<tool_calls:opensource>\n{calls}\n</tool_calls:opensource>");
        let thoughts = ("<think:opensource>", "</think:opensource>");
        usual(&FORMAT, "<｜hy_Assistant:opensource｜>", &wrapped(&one), &wrapped(&format!("{one}\n{other}")), thoughts);
        expect(
            &FORMAT,
            "",
            "<tool_call:opensource></tool_call:opensource>",
            "",
            "<tool_call:opensource></tool_call:opensource>",
            &[],
        );
    }
}
