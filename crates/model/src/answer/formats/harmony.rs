//! Messages in channels: `<|channel|>analysis<|message|>` thoughts, `<|channel|>final<|message|>` text, and calls with a recipient,
//! ` to=functions.NAME`, before or after the channel: gpt-oss. The prompt ends with `<|start|>assistant`.

use crate::answer::format::{End, Format, Input, JSON, Next, Rule, Section, Then, Within, is_name};
use crate::answer::json;

pub(super) static FORMAT: Format =
    Format { name: "harmony", signs: &[&["<|channel|>", "<|message|>"]], rules: &[RULES] };

const RULES: &[Rule] = &[
    Rule {
        marker: "<|start|>assistant",
        within: Within::Any,
        then: Then::Header(Section::header(&["<|message|>"], header)),
    },
    // Where the beginning was left off.
    Rule { marker: "<|channel|>", within: Within::Any, then: Then::Header(Section::header(&["<|message|>"], channel)) },
    Rule { marker: "<|end|>", within: Within::Any, then: Then::Content },
    Rule { marker: "<|return|>", within: Within::Any, then: Then::Content },
    Rule { marker: "<|call|>", within: Within::Any, then: Then::Content },
];

static ARGUMENTS: Section = Section::calls(
    End::Text { texts: &["<|call|>", "<|end|>", "<|return|>", "<|start|>"], quotes: JSON, is_left: true },
    json::read_arguments,
);

fn header(input: &Input<'_>) -> Option<Next> {
    let (before, channel) = input.text.split_once("<|channel|>").unwrap_or((input.text, ""));
    next(before, channel)
}

fn channel(input: &Input<'_>) -> Option<Next> {
    next("", input.text)
}

/// What a message is, by what stands before `<|channel|>` and after it.
fn next(before: &str, after: &str) -> Option<Next> {
    let mut words = after.split_whitespace();
    let channel = words.next().unwrap_or("final");
    let recipient = before.split_whitespace().chain(words).find_map(|word| word.strip_prefix("to="));
    // A control token may follow without a space.
    let recipient = recipient.map(|name| name.split_once("<|").map_or(name, |(name, _)| name));
    match (recipient, channel) {
        (Some(name), _) if name != "user" && name != "assistant" => {
            let name = name.strip_prefix("functions.").unwrap_or(name);
            is_name(name).then(|| Next::Arguments(name.to_owned(), &ARGUMENTS))
        }
        (_, "analysis") => Some(Next::Reasoning),
        (_, "final" | "commentary") => Some(Next::Content),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::tests::{SEARCH, WEATHER, expect, incomplete};

    const PROMPT: &str = "<|start|>assistant";

    #[test]
    fn calls_are_read_in_both_forms() {
        let old = |(name, arguments): (&str, &str)| {
            format!(" to=functions.{name}<|channel|>commentary json<|message|>{arguments}<|call|>")
        };
        let new = |(name, arguments): (&str, &str)| {
            format!("<|channel|>commentary to=functions.{name} <|constrain|>json<|message|>{arguments}<|call|>")
        };
        for call in [&old as &dyn Fn((&'static str, &'static str)) -> String, &new] {
            expect(&FORMAT, PROMPT, &call(WEATHER), "", "", &[WEATHER]);
            let both = format!("{}<|start|>assistant{}", call(WEATHER), call(SEARCH));
            expect(&FORMAT, PROMPT, &both, "", "", &[WEATHER, SEARCH]);
            let thought = format!("<|channel|>analysis<|message|>Hm: {{}}.<|end|><|start|>assistant{both}");
            expect(&FORMAT, PROMPT, &thought, "Hm: {}.", "", &[WEATHER, SEARCH]);
            let text = format!("<|channel|>commentary<|message|>Let me look.<|end|><|start|>assistant{both}");
            expect(&FORMAT, PROMPT, &text, "", "Let me look.", &[WEATHER, SEARCH]);
        }
    }

    #[test]
    fn channels_are_told_apart() {
        let text = "<|channel|>analysis<|message|>One.<|end|><|start|>assistant<|channel|>analysis<|message|>Two.<|end|>\
                    <|start|>assistant<|channel|>final<|message|>It rains.\n<|return|>";
        expect(&FORMAT, PROMPT, text, "One.\n\nTwo.", "It rains.", &[]);
        expect(&FORMAT, PROMPT, "<|channel|>final<|message|> <b> {\"a\": 1}", "", "<b> {\"a\": 1}", &[]);
        expect(&FORMAT, PROMPT, "<|message|>It rains.", "", "It rains.", &[]);
        expect(&FORMAT, "<|start|>assistant<|channel|>final<|message|>", "It rains.", "", "It rains.", &[]);
        expect(&FORMAT, PROMPT, "It rains.", "", "It rains.", &[]);
        let long = format!("It rains {}.", "and rains ".repeat(50));
        expect(&FORMAT, PROMPT, &long, "", &long, &[]);
        let unknown = "<|channel|>music<|message|>La";
        expect(&FORMAT, PROMPT, unknown, "", unknown, &[]);
    }

    #[test]
    fn calls_that_end_early_or_are_no_json_are_incomplete() {
        incomplete(
            &FORMAT,
            PROMPT,
            " to=functions.f<|channel|>commentary json<|message|>{\"a\": \"<|call|>",
            "f",
            "{\"a\": \"<|call|>",
        );
        incomplete(&FORMAT, PROMPT, "<|channel|>commentary to=functions.f<|message|>print(1)<|call|>", "f", "print(1)");
    }
}
