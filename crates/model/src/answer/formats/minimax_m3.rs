//! `<invoke name="NAME"><KEY>VALUE</KEY></invoke>`, where each tag follows `]<]minimax[>[` and values are nested tags: MiniMax M3.

use crate::answer::format::{Call, End, Format, Input, Next, Rule, Section, Then, Within, is_name, unfinished};
use crate::answer::tools::{Kind, object, to_json};

pub(super) static FORMAT: Format = Format { name: "minimax-m3", signs: &[&["]<]minimax[>["]], rules: &[RULES] };

/// What stands in front of each tag.
const MARK: &str = "]<]minimax[>[";

/// Tags nested deeper than this are refused.
const DEEPEST: usize = 64;

const RULES: &[Rule] = &[
    Rule { marker: "<mm:think>", within: Within::Start, then: Then::Reasoning },
    Rule { marker: "</mm:think>", within: Within::Reasoning, then: Then::Content },
    Rule { marker: "</mm:think>", within: Within::Start, then: Then::Content },
    Rule {
        marker: "]<]minimax[>[<tool_call>",
        within: Within::Any,
        then: Then::Calls(Section::calls(
            End::Text { texts: &["]<]minimax[>[</tool_call>"], quotes: &[], is_left: false },
            read,
        )),
    },
];

/// A tag that is open: its name, its text, and the tags in it.
struct Element<'t> {
    name: &'t str,
    text: &'t str,
    children: Vec<(&'t str, String)>,
}

impl Element<'_> {
    fn json(self, kind: Kind) -> String {
        if self.children.is_empty() {
            return to_json(self.text, kind);
        }
        if self.children.iter().all(|(name, _)| *name == "item") {
            let items: Vec<String> = self.children.into_iter().map(|(_, value)| value).collect();
            return format!("[{}]", items.join(", "));
        }
        object(self.children)
    }
}

fn read(input: &Input<'_>) -> Option<Next> {
    let mut calls: Vec<Call> = Vec::new();
    let mut open: Vec<Element<'_>> = Vec::new();
    let mut rest = "";
    let mut tags = input.text.split(MARK);
    if !tags.next()?.trim().is_empty() {
        return None;
    }
    for tag in tags {
        let Some((name, text)) = tag.strip_prefix('<').and_then(|tag| tag.split_once('>')) else {
            if input.is_whole {
                return None;
            }
            if open.is_empty() {
                rest = tag;
            }
            break;
        };
        match name.strip_prefix('/') {
            Some(name) => {
                let element = open.pop()?;
                match (open.last_mut(), element.name.strip_prefix("invoke name=\"")) {
                    (None, Some(function)) if name == "invoke" => {
                        calls.push(Call::new(function.trim_end_matches('"'), object(element.children)));
                    }
                    (Some(parent), _) if name == element.name => {
                        let function =
                            parent.name.strip_prefix("invoke name=\"").map(|name| name.trim_end_matches('"'));
                        let kind = function.map_or(Kind::Any, |function| input.tools.kind(function, name));
                        parent.children.push((element.name, element.json(kind)));
                    }
                    _ => return None,
                }
                if !text.trim().is_empty() {
                    // At the end this is the beginning of the next mark, or what the model says after its calls.
                    if input.is_whole {
                        return None;
                    }
                    if open.is_empty() {
                        rest = &input.text[text.as_ptr().addr() - input.text.as_ptr().addr()..];
                    }
                    break;
                }
            }
            None if open.len() < DEEPEST => open.push(Element { name, text, children: Vec::new() }),
            None => return None,
        }
    }
    if let Some(element) = open.into_iter().next() {
        let function = element.name.strip_prefix("invoke name=\"").filter(|_| !input.is_whole)?;
        calls.push(Call::incomplete(function.trim_end_matches('"'), object(element.children)));
    }
    if calls.iter().all(|call| is_name(&call.name)) { unfinished(calls, rest) } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::tests::{expect, incomplete, usual};

    fn marked(text: &str) -> String {
        text.replace('^', MARK)
    }

    #[test]
    fn answers_are_read() {
        let one = "^<invoke name=\"get_weather\">^<city>Paris^</city>^<days>3^</days>^</invoke>\n";
        let other = "^<invoke name=\"search\">^<words>^<item>a, b^</item>^<item>it's <b> 中^</item>^</words>^<deep>true^</deep>^</invoke>\n";
        let wrapped = |calls: &str| marked(&format!("^<tool_call>\n{calls}^</tool_call>"));
        let both = wrapped(&format!("{one}{other}"));
        usual(&FORMAT, "]~b]ai\n", &wrapped(one), &both, ("<mm:think>", "</mm:think>"));
    }

    #[test]
    fn values_are_nested() {
        let call = |inside: &str| marked(&format!("^<tool_call>^<invoke name=\"g\">{inside}^</invoke>^</tool_call>"));
        let nested = "^<a>^<item>^<k>v^</k>^<l>2^</l>^</item>^</a>^<b>^</b>";
        expect(&FORMAT, "", &call(nested), "", "", &[("g", "{\"a\": [{\"k\": \"v\", \"l\": 2}], \"b\": \"\"}")]);
        expect(&FORMAT, "", &call(""), "", "", &[("g", "{}")]);
        for inside in ["^<a>", "^</a>", "^<a>^</b>", "^a", "^<a>x^</a>y", &"^<a>".repeat(100)] {
            expect(&FORMAT, "", &call(inside), "", &call(inside), &[]);
        }
        let text = marked("^<tool_call>\n^<invoke name=\"g\">^<a>x^</a>^<b>y");
        incomplete(&FORMAT, "", &text, "g", "{\"a\": \"x\"}");
    }
}
