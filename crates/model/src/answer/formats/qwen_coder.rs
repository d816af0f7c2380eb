//! `<tool_call><function=NAME><parameter=KEY>VALUE</parameter></function></tool_call>`: Qwen3-Coder, Qwen 3.5, Nemotron 3, Step 3.5.

use crate::answer::format::{End, Format, Quote, Rule, Section, THINK, Then, Within};
use crate::answer::tagged::{self, Tags, unknown};

pub(super) static FORMAT: Format =
    Format { name: "qwen-coder", signs: &[&["<function=", "<parameter="]], rules: &[THINK, RULES] };

pub(super) const TAGS: Tags = Tags {
    call: "<function=",
    name_end: ">",
    call_end: "</function>",
    parameter: "<parameter=",
    parameter_name_end: ">",
    parameter_tag_end: "",
    parameter_end: "</parameter>",
    kind: unknown,
    has_lines: true,
};

const VALUES: &[Quote] = &[Quote { open: "<parameter=", close: "</parameter>", has_escapes: false }];

const RULES: &[Rule] = &[
    Rule {
        marker: "<tool_call>",
        within: Within::Content,
        then: Then::Calls(Section::calls(
            End::Text { texts: &["</tool_call>"], quotes: VALUES, is_left: false },
            |input| tagged::read(input, &TAGS),
        )),
    },
    // Models leave the outer tag off.
    Rule {
        marker: "<function=",
        within: Within::ContentWithTools,
        then: Then::Calls(Section::with_marker(
            End::Text { texts: &["</function>"], quotes: VALUES, is_left: false },
            |input| tagged::read(input, &TAGS),
        )),
    },
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::tests::{expect, incomplete, usual};

    const ONE: &str = "<tool_call>\n<function=get_weather>\n<parameter=city>\nParis\n</parameter>\n<parameter=days>\n3\n</parameter>\n</function>\n</tool_call>";
    const OTHER: &str = "<tool_call>\n<function=search>\n<parameter=words>\n[\"a, b\", \"it's <b> 中\"]\n</parameter>\n<parameter=deep>\nTrue\n</parameter>\n</function>\n</tool_call>";

    #[test]
    fn answers_are_read() {
        let prompt = "<|im_start|>assistant\n";
        usual(&FORMAT, prompt, ONE, &format!("{ONE}\n{OTHER}"), ("<think>\n", "\n</think>\n\n"));
        let bare = ONE.replace("<tool_call>\n", "").replace("\n</tool_call>", "");
        usual(&FORMAT, prompt, &bare, &format!("{bare}{OTHER}"), ("<think>\n", "\n</think>\n\n"));
    }

    #[test]
    fn values_are_taken_as_they_stand() {
        let with = |value: &str| {
            format!("<tool_call>\n<function=f>\n<parameter=a>\n{value}\n</parameter>\n</function>\n</tool_call>")
        };
        expect(
            &FORMAT,
            "",
            &with("</tool_call> </function>\n  \"x\" \\n"),
            "",
            "",
            &[("f", "{\"a\": \"</tool_call> </function>\\n  \\\"x\\\" \\\\n\"}")],
        );
        expect(&FORMAT, "", &with("3"), "", "", &[("f", "{\"a\": \"3\"}")]);
        let unknown = with("3").replace("=f>", "=unknown>");
        expect(&FORMAT, "", &unknown, "", "", &[("unknown", "{\"a\": 3}")]);
        expect(&FORMAT, "", "<tool_call><function=f></function></tool_call>", "", "", &[("f", "{}")]);
    }

    #[test]
    fn what_is_no_call_stays_text() {
        for text in [
            "<tool_call>\n<function=f>\nx\n</function>\n</tool_call>",
            "<tool_call>{\"name\": \"f\"}</tool_call>",
            "<tool_call>\n<function=>\n</function>\n</tool_call>",
            "<function=a b></function>",
        ] {
            expect(&FORMAT, "", text, "", text, &[]);
        }
        incomplete(
            &FORMAT,
            "",
            "<tool_call>\n<function=f>\n<parameter=a>\nx\n</parameter>\n<para",
            "f",
            "{\"a\": \"x\"}",
        );
    }
}
