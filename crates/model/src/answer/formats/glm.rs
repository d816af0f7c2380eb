//! `<tool_call>NAME<arg_key>KEY</arg_key><arg_value>VALUE</arg_value></tool_call>`: GLM 4, Laguna, Ling, Spark.

use crate::answer::format::{
    Call, End, Format, Input, Next, Quote, Rule, Section, THINK, Then, Within, is_name, some, unfinished,
};
use crate::answer::tools::{object, to_json};

pub(super) static FORMAT: Format = Format { name: "glm", signs: &[&["<arg_key>"]], rules: &[THINK, RULES] };

const RULES: &[Rule] = &[Rule {
    marker: "<tool_call>",
    within: Within::Content,
    then: Then::Calls(Section::calls(
        End::Text {
            texts: &["</tool_call>"],
            quotes: &[Quote { open: "<arg_value>", close: "</arg_value>", has_escapes: false }],
            is_left: false,
        },
        |input| read(input, ["<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>"]),
    )),
}];

/// Reads a name and pairs of key and value between these tags.
pub(super) fn read(input: &Input<'_>, tags: [&str; 4]) -> Option<Next> {
    let [key_start, key_end, value_start, value_end] = tags;
    let (name, mut rest) = input.text.split_at(input.text.find(key_start).unwrap_or(input.text.len()));
    // A name that nothing follows may go on.
    let is_cut = !input.is_whole && rest.is_empty() && !name.contains('\n');
    let name = name.trim();
    if !is_name(name) || is_cut {
        return None;
    }
    let mut arguments = Vec::new();
    loop {
        rest = rest.trim_start();
        if rest.is_empty() {
            let arguments = object(arguments);
            let has_end = input.is_whole;
            return some(vec![if has_end { Call::new(name, arguments) } else { Call::incomplete(name, arguments) }]);
        }
        let pair = || {
            let (key, rest) = rest.strip_prefix(key_start)?.split_once(key_end)?;
            let (value, rest) = rest.trim_start().strip_prefix(value_start)?.split_once(value_end)?;
            Some((key.trim(), value, rest))
        };
        match pair() {
            Some((key, value, more)) => {
                arguments.push((key, to_json(value, input.tools.kind(name, key))));
                rest = more;
            }
            None if input.is_whole => return None,
            None => return unfinished(vec![Call::incomplete(name, object(arguments))], rest),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::tests::{expect, incomplete, usual};

    #[test]
    fn answers_are_read() {
        let one = "<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>Paris</arg_value>\n<arg_key>days</arg_key>\n<arg_value>3</arg_value>\n</tool_call>";
        let other = "<tool_call>search\n<arg_key>words</arg_key>\n<arg_value>[\"a, b\", \"it's <b> 中\"]</arg_value>\n<arg_key>deep</arg_key>\n<arg_value>true</arg_value>\n</tool_call>";
        usual(&FORMAT, "<|assistant|>", one, &format!("{one}\n{other}"), ("<think>", "</think>\n"));
        let (one, other) = (one.replace('\n', ""), other.replace('\n', ""));
        usual(&FORMAT, "<|assistant|>", &one, &format!("{one}{other}"), ("<think>", "</think>"));
    }

    #[test]
    fn odd_calls_are_read_or_stay_text() {
        expect(&FORMAT, "", "<tool_call>f</tool_call>", "", "", &[("f", "{}")]);
        let inside = "<tool_call>f<arg_key>a</arg_key><arg_value></tool_call></arg_value></tool_call>";
        expect(&FORMAT, "", inside, "", "", &[("f", "{\"a\": \"</tool_call>\"}")]);
        for text in [
            "<tool_call></tool_call>",
            "<tool_call>{\"name\": 1}</tool_call>",
            "<tool_call>f<arg_key>a</arg_key></tool_call>",
        ] {
            expect(&FORMAT, "", text, "", text, &[]);
        }
        incomplete(&FORMAT, "", "<tool_call>f\n<arg_key>a</arg_key>\n<arg_val", "f", "{}");
    }
}
