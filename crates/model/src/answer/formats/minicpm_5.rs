//! `<function name="NAME"><param name="KEY">VALUE</param></function>`: MiniCPM 5.

use crate::answer::format::{End, Format, Quote, Rule, Section, THINK, Then, Within};
use crate::answer::tagged::{self, Tags, unknown};

pub(super) static FORMAT: Format =
    Format { name: "minicpm-5", signs: &[&["<function name=", "<param name="]], rules: &[THINK, RULES] };

const TAGS: Tags = Tags {
    call: "<function name=\"",
    name_end: "\"",
    call_end: "</function>",
    parameter: "<param name=\"",
    parameter_name_end: "\"",
    parameter_tag_end: ">",
    parameter_end: "</param>",
    kind: unknown,
    has_lines: false,
};

const RULES: &[Rule] = &[Rule {
    marker: "<function name=\"",
    within: Within::Content,
    then: Then::Calls(Section::with_marker(
        End::Text {
            texts: &["</function>"],
            quotes: &[
                Quote { open: "<![CDATA[", close: "]]>", has_escapes: false },
                Quote { open: "<param name=", close: "</param>", has_escapes: false },
            ],
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
        let one = "<function name=\"get_weather\"><param name=\"city\">Paris</param><param name=\"days\">3</param></function>";
        let other = "<function name=\"search\"><param name=\"words\"><![CDATA[[\"a, b\", \"it's <b> 中\"]]]></param><param name=\"deep\">True</param></function>";
        usual(&FORMAT, "<|im_start|>assistant\n", one, &format!("{one}\n{other}"), ("<think>\n", "\n</think>\n\n"));
    }

    #[test]
    fn values_may_be_wrapped() {
        let text = "<function name=\"f\"><param name=\"a\"><![CDATA[\n<b> & c\n]]></param></function>";
        expect(&FORMAT, "", text, "", "", &[("f", "{\"a\": \"\\n<b> & c\\n\"}")]);
        let text = "<function name=\"f\"><param name=\"a\">x</function>";
        expect(&FORMAT, "", text, "", text, &[]);
    }
}
