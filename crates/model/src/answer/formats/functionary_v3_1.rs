//! `<function=NAME>{...}</function>`: Functionary 3.1, as Llama 3.1 was taught it.

use crate::answer::format::{End, Format, Input, JSON, Next, Rule, Section, THINK, Then, Within, some};
use crate::answer::json::named;

use super::llama_3;

pub(super) static FORMAT: Format = Format {
    name: "functionary-v3.1",
    signs: &[&["<function=", "</function>"]],
    rules: &[THINK, RULES, llama_3::PYTHON],
};

const RULES: &[Rule] = &[Rule {
    marker: "<function=",
    within: Within::Content,
    then: Then::Calls(Section::calls(End::Text { texts: &["</function>"], quotes: JSON, is_left: false }, read)),
}];

fn read(input: &Input<'_>) -> Option<Next> {
    let (name, arguments) = input.text.split_once('>')?;
    some(vec![named(name, arguments, input.is_whole)?])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::tests::{SEARCH, WEATHER, expect, incomplete, usual};

    #[test]
    fn answers_are_read() {
        let call = |(name, arguments): (&str, &str)| format!("<function={name}>{arguments}</function>");
        let both = format!("{}{}", call(WEATHER), call(SEARCH));
        usual(&FORMAT, "assistant<|end_header_id|>\n\n", &call(WEATHER), &both, ("<think>", "</think>"));
        for text in ["<function=f>x</function>", "<function=a b>{}</function>", "<function={}</function>", "<function="]
        {
            expect(&FORMAT, "", text, "", text, &[]);
        }
        incomplete(&FORMAT, "", "<function=f>{\"a\"", "f", "{\"a\"");
    }
}
