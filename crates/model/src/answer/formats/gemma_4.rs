//! `<|tool_call>call:NAME{KEY:<|"|>VALUE<|"|>}<tool_call|>`, and thoughts in `<|channel>thought`: Gemma 4.

use crate::answer::format::{Call, End, Format, Input, Next, Quote, Rule, Section, Then, Within, is_name, some};
use crate::answer::json;
use crate::answer::tools::quoted;

pub(super) static FORMAT: Format = Format { name: "gemma-4", signs: &[&["<|tool_call>call:"]], rules: &[RULES] };

/// What stands around texts.
const QUOTE: &str = "<|\"|>";

/// Lists nested deeper than this are refused.
const DEEPEST: usize = 64;

const RULES: &[Rule] = &[
    Rule { marker: "<|channel>thought\n", within: Within::Any, then: Then::Reasoning },
    Rule { marker: "<|channel>thought", within: Within::Any, then: Then::Reasoning },
    Rule { marker: "<channel|>", within: Within::Any, then: Then::Content },
    Rule { marker: "<turn|>", within: Within::Any, then: Then::Nothing },
    Rule {
        marker: "<|tool_call>",
        within: Within::Any,
        then: Then::Calls(Section::calls(
            End::Text {
                texts: &["<tool_call|>"],
                quotes: &[Quote { open: QUOTE, close: QUOTE, has_escapes: false }],
                is_left: false,
            },
            read,
        )),
    },
];

fn read(input: &Input<'_>) -> Option<Next> {
    let text = input.text.trim();
    let (name, arguments) = text.strip_prefix("call:")?.split_at(text.find('{')? - "call:".len());
    if !is_name(name.trim()) {
        return None;
    }
    let mut cursor = Cursor { rest: arguments };
    match cursor.value(0) {
        Some(object) if cursor.rest.trim().is_empty() => some(vec![Call::new(name.trim(), object)]),
        _ if input.is_whole => None,
        _ => some(vec![Call::incomplete(name.trim(), arguments)]),
    }
}

struct Cursor<'t> {
    rest: &'t str,
}

impl<'t> Cursor<'t> {
    fn takes(&mut self, text: &str) -> bool {
        self.rest = self.rest.trim_start();
        match self.rest.strip_prefix(text) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    /// What stands between two quotes, the first of which is read.
    fn text(&mut self) -> Option<&'t str> {
        let (text, rest) = self.rest.split_once(QUOTE)?;
        self.rest = rest;
        Some(text)
    }

    /// A value as JSON.
    fn value(&mut self, depth: usize) -> Option<String> {
        if depth > DEEPEST {
            return None;
        }
        if self.takes(QUOTE) {
            return self.text().map(quoted);
        }
        if self.takes("{") {
            let entries = self.items("}", |cursor| {
                let key = if cursor.takes(QUOTE) { cursor.text()? } else { cursor.word(":") };
                let key = quoted(key.trim());
                if !cursor.takes(":") {
                    return None;
                }
                Some(format!("{key}: {}", cursor.value(depth + 1)?))
            })?;
            return Some(format!("{{{}}}", entries.join(", ")));
        }
        if self.takes("[") {
            return Some(format!("[{}]", self.items("]", |cursor| cursor.value(depth + 1))?.join(", ")));
        }
        let word = self.word(",]}").trim();
        if word == "None" {
            return Some("null".to_owned());
        }
        json::is_value(word).then(|| word.to_owned())
    }

    /// What stands before one of these characters.
    fn word(&mut self, ends: &str) -> &'t str {
        let (word, rest) = self.rest.split_at(self.rest.find(|c| ends.contains(c)).unwrap_or(self.rest.len()));
        self.rest = rest;
        word
    }

    fn items(&mut self, close: &str, item: impl Fn(&mut Self) -> Option<String>) -> Option<Vec<String>> {
        let mut items = Vec::new();
        while !self.takes(close) {
            if !items.is_empty() && !self.takes(",") {
                return None;
            }
            items.push(item(self)?);
        }
        Some(items)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::tests::{expect, incomplete, usual};

    #[test]
    fn answers_are_read() {
        let one = "<|tool_call>call:get_weather{city:<|\"|>Paris<|\"|>,days:3}<tool_call|>";
        let other = "<|tool_call>call:search{words:[<|\"|>a, b<|\"|>,<|\"|>it's <b> 中<|\"|>],deep:true}<tool_call|>";
        let thoughts = ("<|channel>thought\n", "\n<channel|>");
        usual(&FORMAT, "<|turn>model\n", one, &format!("{one}{other}"), thoughts);
    }

    #[test]
    fn values_may_be_nested() {
        let call = |arguments: &str| format!("<|tool_call>call:f{arguments}<tool_call|>");
        for (written, json) in [
            ("{}", "{}"),
            ("{a:{<|\"|>b c<|\"|>:[1,-2.5,null,None]},d:[]}", "{\"a\": {\"b c\": [1, -2.5, null, null]}, \"d\": []}"),
            ("{a:<|\"|>}<tool_call|>\"<|\"|>}", "{\"a\": \"}<tool_call|>\\\"\"}"),
        ] {
            expect(&FORMAT, "", &call(written), "", "", &[("f", json)]);
        }
        for written in ["", "{a}", "{a:}", "{a:x}", "{a:1", "{a:1}}", "{a:1 b:2}", &"{a:".repeat(100)] {
            expect(&FORMAT, "", &call(written), "", &call(written), &[]);
        }
        incomplete(&FORMAT, "", "<|tool_call>call:f{a:<|\"|>b", "f", "{a:<|\"|>b");
    }
}
