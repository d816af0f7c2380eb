//! `<|open|>call tool="NAME" index="1"<|sep|>`, then an `argument` for each, with key and type: Kimi K3.

use crate::answer::format::{
    Call, End, Format, Input, Next, Quote, Rule, Section, Then, Within, is_name, some, unfinished,
};
use crate::answer::json::named;
use crate::answer::tools::{Kind, object, to_json};

pub(super) static FORMAT: Format = Format { name: "kimi-k3", signs: &[&["<|open|>", "<|sep|>"]], rules: &[RULES] };

const RULES: &[Rule] = &[
    Rule { marker: "<|open|>think<|sep|>", within: Within::Any, then: Then::Reasoning },
    Rule { marker: "<|close|>think<|sep|>", within: Within::Any, then: Then::Content },
    Rule { marker: "<|open|>response<|sep|>", within: Within::Any, then: Then::Content },
    Rule { marker: "<|close|>response<|sep|>", within: Within::Any, then: Then::Nothing },
    Rule { marker: "<|open|>tools<|sep|>", within: Within::Any, then: Then::Nothing },
    Rule { marker: "<|close|>tools<|sep|>", within: Within::Any, then: Then::Nothing },
    Rule { marker: "<|close|>message<|sep|>", within: Within::Any, then: Then::Nothing },
    Rule { marker: "<|end_of_msg|>", within: Within::Any, then: Then::Nothing },
    Rule {
        marker: "<|open|>call ",
        within: Within::Any,
        then: Then::Calls(Section::calls(
            End::Text {
                texts: &["<|close|>call<|sep|>"],
                quotes: &[
                    Quote { open: "<|open|>argument ", close: "<|close|>argument<|sep|>", has_escapes: false },
                    Quote { open: "<|open|>json ", close: "<|close|>json<|sep|>", has_escapes: false },
                ],
                is_left: false,
            },
            read,
        )),
    },
];

fn read(input: &Input<'_>) -> Option<Next> {
    let (head, mut rest) = input.text.split_once("<|sep|>")?;
    let name = attribute(head, "tool")?;
    if !is_name(&name) {
        return None;
    }
    if let Some(json) = rest.strip_prefix("<|open|>json ") {
        let json = json.split_once("<|sep|>")?.1;
        let arguments = json.split_once("<|close|>json<|sep|>").map_or(json, |(json, _)| json);
        return some(vec![named(&name, arguments, input.is_whole)?]);
    }
    let mut arguments: Vec<(String, String)> = Vec::new();
    let object_of =
        |arguments: &[(String, String)]| object(arguments.iter().map(|(key, value)| (key.as_str(), value.clone())));
    loop {
        rest = rest.trim_start();
        if rest.is_empty() {
            let arguments = object_of(&arguments);
            return some(vec![Call { is_complete: input.is_whole, ..Call::new(&name, arguments) }]);
        }
        let next = || {
            let (head, rest) = rest.strip_prefix("<|open|>argument ")?.split_once("<|sep|>")?;
            let (value, rest) = rest.split_once("<|close|>argument<|sep|>")?;
            let kind = if attribute(head, "type")? == "string" { Kind::Text } else { Kind::Other };
            Some(((attribute(head, "key")?, to_json(value, kind)), rest))
        };
        match next() {
            Some((argument, more)) => {
                arguments.push(argument);
                rest = more;
            }
            None if input.is_whole => return None,
            None => return unfinished(vec![Call::incomplete(&name, object_of(&arguments))], rest),
        }
    }
}

/// The value of an attribute: `key="city" type="string"`.
fn attribute(head: &str, name: &str) -> Option<String> {
    let mut rest = head.trim_start();
    while let Some((found, after)) = rest.split_once("=\"") {
        let (value, more) = after.split_once('"')?;
        if found.trim() == name {
            return Some(value.replace("&quot;", "\"").replace("&amp;", "&"));
        }
        rest = more;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::tests::{WEATHER, expect, incomplete, usual};

    fn argument(key: &str, kind: &str, value: &str) -> String {
        format!("<|open|>argument key=\"{key}\" type=\"{kind}\"<|sep|>{value}<|close|>argument<|sep|>")
    }

    fn call(name: &str, arguments: &str) -> String {
        format!("<|open|>call tool=\"{name}\" index=\"1\"<|sep|>{arguments}<|close|>call<|sep|>")
    }

    #[test]
    fn answers_are_read() {
        let one = call("get_weather", &(argument("city", "string", "Paris") + &argument("days", "number", "3")));
        let words = argument("words", "array", "[\"a, b\", \"it's <b> 中\"]");
        let other = call("search", &(words + &argument("deep", "boolean", "true")));
        let wrapped = |calls: &str| {
            format!("<|open|>response<|sep|><|close|>response<|sep|><|open|>tools<|sep|>{calls}<|close|>tools<|sep|>")
        };
        let both = wrapped(&format!("{one}{other}"));
        let thoughts = ("<|open|>think<|sep|>", "<|close|>think<|sep|>");
        usual(&FORMAT, "<|open|>message role=\"assistant\"<|sep|>", &wrapped(&one), &both, thoughts);
        let json = format!("<|open|>json type=\"object\"<|sep|>{}<|close|>json<|sep|>", WEATHER.1);
        expect(&FORMAT, "", &call("get_weather", &json), "", "", &[WEATHER]);
        let text = "<|open|>response<|sep|>It rains.<|close|>response<|sep|><|close|>message<|sep|><|end_of_msg|>";
        expect(&FORMAT, "", text, "", "It rains.", &[]);
    }

    #[test]
    fn odd_calls_are_read_or_stay_text() {
        let quoted = argument("a &quot;b&quot; &amp;", "string", "<|close|>call<|sep|>");
        let arguments = "{\"a \\\"b\\\" &\": \"<|close|>call<|sep|>\"}";
        expect(&FORMAT, "", &call("f", &quoted), "", "", &[("f", arguments)]);
        expect(&FORMAT, "", &call("f", ""), "", "", &[("f", "{}")]);
        let text = call("f", "x");
        expect(&FORMAT, "", &text, "", &text, &[]);
        incomplete(&FORMAT, "", "<|open|>call tool=\"f\" index=\"1\"<|sep|><|open|>arg", "f", "{}");
    }
}
