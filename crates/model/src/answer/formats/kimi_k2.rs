//! `<|tool_call_begin|>functions.NAME:0<|tool_call_argument_begin|>{...}<|tool_call_end|>`, all in a section: Kimi K2.

use crate::answer::format::{Call, End, Format, Input, JSON, Next, Rule, Section, THINK, Then, Within, some};
use crate::answer::json::named;

pub(super) static FORMAT: Format =
    Format { name: "kimi-k2", signs: &[&["<|tool_calls_section_begin|>"]], rules: &[THINK, RULES] };

const RULES: &[Rule] = &[
    Rule { marker: "<|tool_calls_section_begin|>", within: Within::Any, then: Then::Content },
    Rule { marker: "<|tool_calls_section_end|>", within: Within::Any, then: Then::Nothing },
    Rule { marker: "<|im_end|>", within: Within::Any, then: Then::Nothing },
    Rule {
        marker: "<|tool_call_begin|>",
        within: Within::Any,
        then: Then::Calls(Section::calls(
            End::Text { texts: &["<|tool_call_end|>"], quotes: JSON, is_left: false },
            read,
        )),
    },
];

fn read(input: &Input<'_>) -> Option<Next> {
    let (id, arguments) = input.text.split_once("<|tool_call_argument_begin|>")?;
    let id = id.trim();
    // The id is made of the name and a number.
    let name = id.rsplit_once(':').filter(|(_, number)| number.bytes().all(|b| b.is_ascii_digit()));
    let name = name.map_or(id, |(name, _)| name);
    let name = name.strip_prefix("functions.").unwrap_or(name);
    some(vec![Call { id: Some(id.to_owned()), ..named(name, arguments, input.is_whole)? }])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::tests::{SEARCH, WEATHER, expect, read, usual};

    fn call(index: usize, (name, arguments): (&str, &str)) -> String {
        format!("<|tool_call_begin|>functions.{name}:{index}<|tool_call_argument_begin|>{arguments}<|tool_call_end|>")
    }

    #[test]
    fn answers_are_read() {
        let wrapped = |calls: &str| format!("<|tool_calls_section_begin|>{calls}<|tool_calls_section_end|>");
        let both = wrapped(&format!("{}{}", call(0, WEATHER), call(1, SEARCH)));
        let prompt = "<|im_assistant|>assistant<|im_middle|>";
        usual(&FORMAT, prompt, &wrapped(&call(0, WEATHER)), &both, ("<think>", "</think>"));
        let ids: Vec<_> = read(&FORMAT, "", &both).tool_calls.into_iter().filter_map(|call| call.id).collect();
        assert_eq!(ids, ["functions.get_weather:0", "functions.search:1"]);
        let text = "<|tool_call_begin|>f:0<|tool_call_end|>";
        expect(&FORMAT, "", text, "", text, &[]);
    }
}
