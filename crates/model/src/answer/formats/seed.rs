//! `<seed:tool_call><function=NAME><parameter=KEY>VALUE</parameter></function></seed:tool_call>`: Seed-OSS.

use crate::answer::format::{End, Format, Quote, Rule, Section, Then, Within};
use crate::answer::tagged::{self, Tags};

use super::qwen_coder::TAGS;

pub(super) static FORMAT: Format = Format { name: "seed", signs: &[&["<seed:tool_call>"]], rules: &[RULES] };

const RULES: &[Rule] = &[
    Rule { marker: "<seed:think>", within: Within::Start, then: Then::Reasoning },
    Rule { marker: "</seed:think>", within: Within::Reasoning, then: Then::Content },
    Rule { marker: "</seed:think>", within: Within::Start, then: Then::Content },
    Rule {
        marker: "<seed:tool_call>",
        within: Within::Content,
        then: Then::Calls(Section::calls(
            End::Text {
                texts: &["</seed:tool_call>"],
                quotes: &[Quote { open: "<parameter=", close: "</parameter>", has_escapes: false }],
                is_left: false,
            },
            |input| tagged::read(input, &Tags { has_lines: false, ..TAGS }),
        )),
    },
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::tests::{expect, usual};

    #[test]
    fn answers_are_read() {
        let one = "<seed:tool_call>\n<function=get_weather>\n<parameter=city>Paris</parameter>\n<parameter=days>3</parameter>\n</function>\n</seed:tool_call>";
        let other = "<seed:tool_call>\n<function=search>\n<parameter=words>['a, b', \"it's <b> 中\"]</parameter>\n<parameter=deep>True</parameter>\n</function>\n</seed:tool_call>";
        let prompt = "<seed:bos>assistant\n";
        usual(&FORMAT, prompt, one, &format!("{one}\n{other}"), ("<seed:think>", "</seed:think>"));
        let budget = "<seed:bos>assistant\n<seed:think><seed:cot_budget_reflect>Little.</seed:cot_budget_reflect>";
        expect(&FORMAT, budget, "Hm</seed:think>Hello", "Hm", "Hello", &[]);
    }

    #[test]
    fn values_keep_their_lines() {
        let text = "<seed:tool_call><function=f><parameter=a>\none\ntwo\n</parameter></function></seed:tool_call>";
        expect(&FORMAT, "", text, "", "", &[("f", "{\"a\": \"\\none\\ntwo\\n\"}")]);
    }
}
