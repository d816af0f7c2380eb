//! `<｜tool▁call▁begin｜>NAME<｜tool▁sep｜>{...}<｜tool▁call▁end｜>`: DeepSeek V3.1; R1 and V3 write
//! `function<｜tool▁sep｜>NAME` and the arguments in a block of code.

use crate::answer::format::{End, Format, Input, JSON, Next, Rule, Section, THINK, Then, Within, some};
use crate::answer::json::named;

pub(super) static FORMAT: Format =
    Format { name: "deepseek", signs: &[&["<｜tool▁calls▁begin｜>"]], rules: &[THINK, RULES] };

const RULES: &[Rule] = &[
    Rule { marker: "<｜tool▁calls▁begin｜>", within: Within::Any, then: Then::Content },
    Rule { marker: "<｜tool▁calls▁end｜>", within: Within::Any, then: Then::Nothing },
    Rule { marker: "<｜end▁of▁sentence｜>", within: Within::Any, then: Then::Nothing },
    Rule {
        marker: "<｜tool▁call▁begin｜>",
        within: Within::Any,
        then: Then::Calls(Section::calls(
            End::Text { texts: &["<｜tool▁call▁end｜>"], quotes: JSON, is_left: false },
            read,
        )),
    },
];

fn read(input: &Input<'_>) -> Option<Next> {
    let (first, rest) = input.text.split_once("<｜tool▁sep｜>")?;
    if first.trim() != "function" {
        return some(vec![named(first, rest, input.is_whole)?]);
    }
    let (name, arguments) = match rest.split_once("```json") {
        Some((name, arguments)) => (name, arguments.trim_end().trim_end_matches('`')),
        None => match rest.split_once('\n') {
            Some((name, arguments)) if input.is_whole => (name, arguments),
            Some((name, _)) => (name, ""),
            None => (Some(rest).filter(|_| input.is_whole)?, ""),
        },
    };
    some(vec![named(name, arguments, input.is_whole)?])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::tests::{SEARCH, WEATHER, expect, incomplete, usual};

    #[test]
    fn answers_are_read() {
        for is_r1 in [true, false] {
            let call = |(name, arguments): (&str, &str)| match is_r1 {
                true => format!(
                    "<｜tool▁call▁begin｜>function<｜tool▁sep｜>{name}\n```json\n{arguments}\n```<｜tool▁call▁end｜>"
                ),
                false => format!("<｜tool▁call▁begin｜>{name}<｜tool▁sep｜>{arguments}<｜tool▁call▁end｜>"),
            };
            let wrapped = |calls: &str| format!("<｜tool▁calls▁begin｜>{calls}<｜tool▁calls▁end｜>");
            let both = wrapped(&format!("{}{}", call(WEATHER), call(SEARCH)));
            usual(&FORMAT, "<｜Assistant｜>", &wrapped(&call(WEATHER)), &both, ("<think>", "</think>"));
            let inside = format!("Hm{}", wrapped(&call(WEATHER)));
            expect(&FORMAT, "<｜Assistant｜><think>\n", &inside, "Hm", "", &[WEATHER]);
        }
        let text = "<｜tool▁call▁begin｜>f<｜tool▁sep｜>{bad<｜tool▁call▁end｜>";
        expect(&FORMAT, "", text, "", text, &[]);
        incomplete(&FORMAT, "", "<｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n{\"a\"", "f", "{\"a\"");
    }
}
