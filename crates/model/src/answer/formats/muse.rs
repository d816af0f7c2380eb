//! Messages to a recipient: ` to=self<|message|>` thoughts, ` to=user<|message|>` text, ` to=NAME<|message|>` calls, which are written
//! as `<atem:invoke name="NAME"><atem:parameter name="KEY">VALUE</atem:parameter></atem:invoke>`: Muse.

use crate::answer::format::{End, Format, Input, Next, Quote, Rule, Section, Then, Within};
use crate::answer::tagged::{self, Tags, unknown};

pub(super) static FORMAT: Format = Format { name: "muse", signs: &[&["<atem:function_calls>"]], rules: &[RULES] };

const TAGS: Tags = Tags {
    call: "<atem:invoke name=\"",
    name_end: "\"",
    call_end: "</atem:invoke>",
    parameter: "<atem:parameter name=\"",
    parameter_name_end: "\"",
    parameter_tag_end: ">",
    parameter_end: "</atem:parameter>",
    kind: unknown,
    has_lines: false,
};

const RULES: &[Rule] = &[
    Rule {
        marker: "<|start|>assistant",
        within: Within::Any,
        then: Then::Header(Section::header(&["<|message|>"], recipient)),
    },
    Rule { marker: "<|eom|>", within: Within::Any, then: Then::Content },
    Rule { marker: "<|eot|>", within: Within::Any, then: Then::Content },
    Rule {
        marker: "<atem:function_calls>",
        within: Within::Content,
        then: Then::Calls(Section::calls(
            End::Text {
                texts: &["</atem:function_calls>"],
                quotes: &[Quote { open: "<atem:parameter name=", close: "</atem:parameter>", has_escapes: false }],
                is_left: false,
            },
            |input| tagged::read(input, &TAGS),
        )),
    },
];

fn recipient(input: &Input<'_>) -> Option<Next> {
    match input.text.trim().strip_prefix("to=") {
        Some("self") => Some(Next::Reasoning),
        Some(_) => Some(Next::Content),
        None if input.text.trim().is_empty() => Some(Next::Content),
        None => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::tests::{SEARCH, WEATHER, expect};

    const ONE: &str = "<atem:function_calls>\n<atem:invoke name=\"get_weather\">\n<atem:parameter name=\"city\">Paris</atem:parameter>\n<atem:parameter name=\"days\">3</atem:parameter>\n</atem:invoke>\n</atem:function_calls>";
    const OTHER: &str = "<atem:function_calls>\n<atem:invoke name=\"search\">\n<atem:parameter name=\"words\">[\"a, b\", \"it's <b> 中\"]</atem:parameter>\n<atem:parameter name=\"deep\">true</atem:parameter>\n</atem:invoke>\n</atem:function_calls>";

    #[test]
    fn answers_are_read() {
        let prompt = "<|start|>assistant";
        let call = format!(" to=get_weather<|message|>{ONE}");
        expect(&FORMAT, prompt, &format!("{call}<|eot|>"), "", "", &[WEATHER]);
        let both = format!("{call}<|eom|><|start|>assistant to=search<|message|>{OTHER}<|eot|>");
        expect(&FORMAT, prompt, &both, "", "", &[WEATHER, SEARCH]);
        let thought = format!(" to=self<|message|>Hm.<|eom|><|start|>assistant{both}");
        expect(&FORMAT, prompt, &thought, "Hm.", "", &[WEATHER, SEARCH]);
        let text = format!(" to=user<|message|>Let me look.<|eom|><|start|>assistant{call}");
        expect(&FORMAT, prompt, &text, "", "Let me look.", &[WEATHER]);
        expect(&FORMAT, prompt, " to=user<|message|>It rains.<|eot|>", "", "It rains.", &[]);
        expect(&FORMAT, prompt, "It rains.", "", "It rains.", &[]);
        expect(&FORMAT, prompt, " to=self<|message|>Hm", "Hm", "", &[]);
    }
}
