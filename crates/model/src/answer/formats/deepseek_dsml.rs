//! `<｜DSML｜invoke name="NAME"><｜DSML｜parameter name="KEY" string="true">VALUE</｜DSML｜parameter></｜DSML｜invoke>`, all in
//! `<｜DSML｜function_calls>` or `<｜DSML｜tool_calls>`: DeepSeek V3.2 and V4.

use crate::answer::format::{End, Format, Quote, Rule, Section, THINK, Then, Within};
use crate::answer::tagged::{self, Tags};
use crate::answer::tools::Kind;

pub(super) static FORMAT: Format = Format { name: "deepseek-dsml", signs: &[&["DSML"]], rules: &[THINK, RULES] };

const TAGS: Tags = Tags {
    call: "<｜DSML｜invoke name=\"",
    name_end: "\"",
    call_end: "</｜DSML｜invoke>",
    parameter: "<｜DSML｜parameter name=\"",
    parameter_name_end: "\"",
    parameter_tag_end: ">",
    parameter_end: "</｜DSML｜parameter>",
    kind,
    has_lines: false,
};

fn kind(attributes: &str) -> Kind {
    match attributes.trim() {
        "string=\"true\"" => Kind::Text,
        "string=\"false\"" => Kind::Other,
        _ => Kind::Any,
    }
}

const fn section(end: &'static [&'static str]) -> Section {
    const VALUES: &[Quote] =
        &[Quote { open: "<｜DSML｜parameter name=", close: "</｜DSML｜parameter>", has_escapes: false }];
    Section::calls(End::Text { texts: end, quotes: VALUES, is_left: false }, |input| tagged::read(input, &TAGS))
}

const RULES: &[Rule] = &[
    Rule {
        marker: "<｜DSML｜function_calls>",
        within: Within::Any,
        then: Then::Calls(section(&["</｜DSML｜function_calls>"])),
    },
    Rule {
        marker: "<｜DSML｜tool_calls>",
        within: Within::Any,
        then: Then::Calls(section(&["</｜DSML｜tool_calls>"])),
    },
    Rule { marker: "<｜end▁of▁sentence｜>", within: Within::Any, then: Then::Nothing },
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::tests::{expect, usual};

    #[test]
    fn answers_are_read() {
        let one = "<｜DSML｜invoke name=\"get_weather\">\n<｜DSML｜parameter name=\"city\" string=\"true\">Paris</｜DSML｜parameter>\n<｜DSML｜parameter name=\"days\" string=\"false\">3</｜DSML｜parameter>\n</｜DSML｜invoke>";
        let other = "<｜DSML｜invoke name=\"search\">\n<｜DSML｜parameter name=\"words\" string=\"false\">[\"a, b\", \"it's <b> 中\"]</｜DSML｜parameter>\n<｜DSML｜parameter name=\"deep\" string=\"false\">true</｜DSML｜parameter>\n</｜DSML｜invoke>";
        for tag in ["function_calls", "tool_calls"] {
            let wrapped = |calls: &str| format!("<｜DSML｜{tag}>\n{calls}\n</｜DSML｜{tag}>");
            let both = wrapped(&format!("{one}\n{other}"));
            usual(&FORMAT, "<｜Assistant｜>", &wrapped(one), &both, ("<think>", "</think>"));
        }
        let typed = |kind: &str| {
            format!(
                "<｜DSML｜tool_calls><｜DSML｜invoke name=\"g\"><｜DSML｜parameter name=\"x\"{kind}>3</｜DSML｜parameter></｜DSML｜invoke></｜DSML｜tool_calls>"
            )
        };
        expect(&FORMAT, "", &typed(" string=\"true\""), "", "", &[("g", "{\"x\": \"3\"}")]);
        expect(&FORMAT, "", &typed(""), "", "", &[("g", "{\"x\": 3}")]);
    }
}
