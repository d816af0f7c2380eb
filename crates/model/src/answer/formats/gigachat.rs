//! `<|function_call|>{"name": ..., "arguments": {...}}`, or a message of the role `function call`: GigaChat 3.

use crate::answer::format::{End, Format, Rule, Section, THINK, Then, Within};
use crate::answer::json;

pub(super) static FORMAT: Format = Format {
    name: "gigachat",
    signs: &[&["<|function_call|>", "<|role_sep|>"], &["function call", "<|role_sep|>"]],
    rules: &[THINK, RULES],
};

const SECTION: Section = Section::calls(End::Json { after: "" }, json::read);

const RULES: &[Rule] = &[
    Rule { marker: "<|function_call|>", within: Within::Any, then: Then::Calls(SECTION) },
    Rule { marker: "function call<|role_sep|>", within: Within::Any, then: Then::Calls(SECTION) },
    Rule { marker: "<|message_sep|>", within: Within::Any, then: Then::Nothing },
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::tests::{SEARCH, WEATHER, expect, usual};

    #[test]
    fn answers_are_read() {
        let json = |(name, arguments): (&str, &str)| format!("{{\"name\": \"{name}\", \"arguments\": {arguments}}}");
        let prompt = "<|message_sep|>\n\nassistant<|role_sep|>\n";
        for start in ["<|function_call|>", "<|message_sep|>\n\nfunction call<|role_sep|>\n"] {
            let one = format!("{start}{}", json(WEATHER));
            usual(&FORMAT, prompt, &one, &format!("{one}{start}{}", json(SEARCH)), ("<think>", "</think>"));
        }
        expect(&FORMAT, "", "A function call is made.", "", "A function call is made.", &[]);
    }
}
