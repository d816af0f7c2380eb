//! `<|tool_call:begin|>ID<|tool_call:name|>NAME<|tool_call:args|>{...}<|tool_call:end|>`, thoughts and content with their own marks: Solar.

use crate::answer::format::{Call, End, Format, Input, JSON, Next, Rule, Section, Then, Within, some};
use crate::answer::json::named;

pub(super) static FORMAT: Format = Format { name: "solar", signs: &[&["<|tool_call:begin|>"]], rules: &[RULES] };

const RULES: &[Rule] = &[
    Rule { marker: "<|think|>", within: Within::Any, then: Then::Reasoning },
    Rule { marker: "<|content|>", within: Within::Any, then: Then::Content },
    Rule { marker: "<|tool_calls|>", within: Within::Any, then: Then::Content },
    Rule { marker: "<|calls|>", within: Within::Any, then: Then::Nothing },
    Rule { marker: "<|end|>", within: Within::Any, then: Then::Content },
    Rule { marker: "<|begin|>assistant", within: Within::Any, then: Then::Nothing },
    Rule {
        marker: "<|tool_call:begin|>",
        within: Within::Any,
        then: Then::Calls(Section::calls(
            End::Text { texts: &["<|tool_call:end|>"], quotes: JSON, is_left: false },
            read,
        )),
    },
];

fn read(input: &Input<'_>) -> Option<Next> {
    let (id, rest) = input.text.split_once("<|tool_call:name|>")?;
    let (name, arguments) = rest.split_once("<|tool_call:args|>")?;
    some(vec![Call { id: Some(id.trim().to_owned()), ..named(name, arguments, input.is_whole)? }])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::tests::{SEARCH, WEATHER, expect, usual};

    #[test]
    fn answers_are_read() {
        let call = |(name, arguments): (&str, &str)| {
            format!(
                "<|tool_call:begin|>a1b2c3d4e5<|tool_call:name|>{name}<|tool_call:args|>{arguments}<|tool_call:end|>"
            )
        };
        let one = format!("<|tool_calls|>{}<|calls|>", call(WEATHER));
        let two = format!("<|tool_calls|>{}{}<|calls|>", call(WEATHER), call(SEARCH));
        usual(&FORMAT, "<|begin|>assistant", &one, &two, ("<|think|>", "<|end|><|begin|>assistant"));
        let text = "<|think|>Hm<|end|><|begin|>assistant<|content|>Hello<|end|>";
        expect(&FORMAT, "<|begin|>assistant", text, "Hm", "Hello", &[]);
    }
}
