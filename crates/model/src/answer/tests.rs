//! What all formats are tested with.

use serde_json::{Value, json};

use super::*;

/// A call with a text and a number, as JSON.
pub(super) const WEATHER: (&str, &str) = ("get_weather", "{\"city\": \"Paris\", \"days\": 3}");
/// A call with a list and a truth value.
pub(super) const SEARCH: (&str, &str) = ("search", "{\"words\": [\"a, b\", \"it's <b> 中\"], \"deep\": true}");

pub(super) fn tools() -> Vec<Value> {
    let function = |name: &str, properties: Value| json!({"type": "function", "function": {"name": name, "parameters": {"type": "object", "properties": properties}}});
    vec![
        function("get_weather", json!({"city": {"type": "string"}, "days": {"type": "integer"}})),
        function("search", json!({"words": {"type": "array"}, "deep": {"type": "boolean"}})),
        function("f", json!({"a": {"type": "string"}})),
    ]
}

/// An answer that comes in these pieces; every byte must be accounted for.
fn read_in<'t>(format: &'static Format, prompt: &str, pieces: impl Iterator<Item = &'t str>) -> Answer {
    let mut parser = Parser::new(format, prompt, &tools());
    let (mut events, mut length) = (Vec::new(), 0);
    for piece in pieces {
        events.extend(parser.feed(piece));
        length += piece.len();
        assert!(parser.accounted().total() <= length);
    }
    let (last, accounted) = parser.finish_accounted();
    events.extend(last);
    assert_eq!(accounted.total(), length, "{}: {events:?} {accounted:?}", format.name);
    Answer::new(events)
}

/// What comes of an answer, which must not depend on how it is cut.
pub(super) fn read(format: &'static Format, prompt: &str, text: &str) -> Answer {
    let whole = read_in(format, prompt, [text].into_iter());
    let characters = text.char_indices().map(|(at, c)| &text[at..at + c.len_utf8()]);
    assert_eq!(read_in(format, prompt, characters), whole, "{}: {text:?} by characters", format.name);
    for at in (0..text.len()).filter(|&at| text.is_char_boundary(at)) {
        let (front, back) = text.split_at(at);
        assert_eq!(read_in(format, prompt, [front, back].into_iter()), whole, "{}: {text:?} cut at {at}", format.name);
    }
    whole
}

pub(super) fn expect(
    format: &'static Format,
    prompt: &str,
    text: &str,
    reasoning: &str,
    content: &str,
    calls: &[(&str, &str)],
) {
    let answer = read(format, prompt, text);
    let found: Vec<(&str, &str)> =
        answer.tool_calls.iter().map(|call| (call.name.as_str(), call.arguments.as_str())).collect();
    let found = (answer.reasoning.as_str(), answer.content.as_str(), &found[..]);
    assert_eq!(found, (reasoning, content, calls), "{}: {text:?}", format.name);
    for (index, call) in answer.tool_calls.iter().enumerate() {
        assert!(call.is_complete && call.index == index, "{}: {text:?}: {call:?}", format.name);
    }
}

/// An answer whose only call is not complete.
pub(super) fn incomplete(format: &'static Format, prompt: &str, text: &str, name: &str, arguments: &str) {
    let answer = read(format, prompt, text);
    match &answer.tool_calls[..] {
        [call] => assert_eq!(
            (call.name.as_str(), call.arguments.as_str(), call.is_complete),
            (name, arguments, false),
            "{}: {text:?}",
            format.name
        ),
        other => panic!("{}: {text:?}: {other:?}, {answer:?}", format.name),
    }
}

/// The usual answers: a call, two calls, a call after text, a call after thoughts, none. `thoughts` stand between these two.
pub(super) fn usual(format: &'static Format, prompt: &str, one: &str, two: &str, thoughts: (&str, &str)) {
    let (open, close) = thoughts;
    expect(format, prompt, one, "", "", &[WEATHER]);
    expect(format, prompt, two, "", "", &[WEATHER, SEARCH]);
    expect(format, prompt, &format!("Let me look.\n\n{one}"), "", "Let me look.", &[WEATHER]);
    let thought = "Hm: {\"a\": [1]} <b>\n\nI must look.";
    expect(format, prompt, &format!("{open}{thought}{close}{one}"), thought, "", &[WEATHER]);
    let both = format!("{open}{thought}{close}Let me look.\n{two}\n");
    expect(format, prompt, &both, thought, "Let me look.", &[WEATHER, SEARCH]);
    expect(format, prompt, &format!("{open}{thought}{close}It rains."), thought, "It rains.", &[]);
    expect(format, prompt, &format!("{open}{thought}"), thought, "", &[]);
    let plain = "It <rains> [a lot] {today}: `f(1)`.\n* one\n* \"two\" <|x\n";
    expect(format, prompt, plain, "", plain, &[]);
    let prefilled = format!("{prompt}{open}");
    expect(format, &prefilled, &format!("{thought}{close}{one}"), thought, "", &[WEATHER]);
    expect(format, &format!("{prompt}{open}{close}"), one, "", "", &[WEATHER]);
    cuts(format, prompt, two);
}

/// Every beginning of an answer is text, or calls of which at most the last is not complete; nothing is both.
fn cuts(format: &'static Format, prompt: &str, two: &str) {
    let mut most = 0;
    for at in (0..two.len()).filter(|&at| two.is_char_boundary(at)) {
        let answer = read_in(format, prompt, [&two[..at]].into_iter());
        let complete = answer.tool_calls.iter().take_while(|call| call.is_complete).count();
        assert!(answer.tool_calls.len() - complete <= 1, "{}: {:?}", format.name, &two[..at]);
        assert!(complete >= most, "{}: a call is lost: {:?}: {answer:?}", format.name, &two[..at]);
        most = complete;
        for (call, expected) in answer.tool_calls.iter().zip([WEATHER, SEARCH]) {
            assert_eq!(call.name, expected.0);
            assert!(!call.is_complete || call.arguments == expected.1, "{}: {call:?}", format.name);
        }
        let text: String = [answer.reasoning.as_str(), &answer.content].concat();
        assert!(two[..at].contains(text.trim()), "{}: {:?}: {answer:?}", format.name, &two[..at]);
    }
}

#[test]
fn formats_are_known_by_their_signs() {
    let mut names = Vec::new();
    for format in Format::all() {
        for signs in format.signs {
            assert_eq!(Format::of(&signs.join(" ")).name, format.name, "{signs:?}");
        }
        names.push(format.name);
    }
    assert_eq!(Format::of("{{ messages }}").name, "plain");
    assert_eq!(names.len(), 32);
    let mut distinct = names.clone();
    distinct.sort_unstable();
    distinct.dedup();
    assert_eq!(distinct.len(), names.len(), "{names:?}");
}

/// A marker must not be empty, and none may hide another in the same place.
#[test]
fn markers_are_distinct() {
    for format in Format::all() {
        let rules: Vec<_> = format.all_rules().collect();
        for (index, rule) in rules.iter().enumerate() {
            assert!(!rule.marker.trim().is_empty(), "{}", format.name);
            let is_same = |other: &&&format::Rule| other.marker == rule.marker && other.within == rule.within;
            assert!(!rules[index + 1..].iter().any(|other| is_same(&other)), "{}: {}", format.name, rule.marker);
        }
    }
}

/// Calls, their beginnings and their ends in any order, for every format: nothing may be lost, or depend on the cuts.
#[test]
fn markers_in_any_order_lose_nothing() {
    for format in Format::all() {
        let markers: Vec<&str> = format.all_rules().map(|rule| rule.marker).collect();
        let fillers = ["x", "{\"name\": \"f\", \"arguments\": {\"a\": \"", "\"}}", " \n", "f", "]", "中<", "</think>"];
        let mut seed = 7u64;
        for _ in 0..40 {
            let mut text = String::new();
            for _ in 0..6 {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let pick = (seed >> 33) as usize;
                text.push_str(if pick.is_multiple_of(2) {
                    markers[pick / 2 % markers.len()]
                } else {
                    fillers[pick / 2 % fillers.len()]
                });
            }
            read(format, "", &text);
        }
    }
}

#[test]
fn tool_calls_that_are_too_long_become_text() {
    let format = Format::of("<tool_call>");
    let long = format!("<tool_call>{{\"name\": \"f\", \"arguments\": \"{}", "x".repeat(LONGEST_CALL_BYTES));
    let pieces = long.as_bytes().chunks(4099).map(|piece| std::str::from_utf8(piece).unwrap());
    let answer = read_in(format, "", pieces);
    assert_eq!(answer.content, long);
    assert_eq!(read_in(format, "", [long.as_str()].into_iter()), answer);
    let held: usize = {
        let mut parser = Parser::new(format, "", &[]);
        let told: usize = long
            .as_bytes()
            .chunks(4099)
            .map(|piece| {
                parser.feed(std::str::from_utf8(piece).unwrap());
                parser.accounted().total()
            })
            .max()
            .unwrap();
        long.len() - told
    };
    assert!(held < 4099, "what became text is told at once: {held} bytes are held");
}

/// Each marker begins something that never ends: work must not grow with the square.
#[test]
fn of_many_beginnings_nothing_is_read_twice() {
    for format in Format::all() {
        for rule in format.all_rules() {
            let text = rule.marker.repeat((1 << 17) / rule.marker.len());
            let answer = read_in(format, "", [text.as_str()].into_iter());
            let read = answer.reasoning.len() + answer.content.len();
            assert!(read + answer.tool_calls.len() <= text.len(), "{}: {read} of {}", format.name, text.len());
        }
    }
}

#[test]
fn objects_in_objects_in_objects_end_nothing() {
    let nested = format!("{}{{}}{}", "{\"function\":".repeat(40_000), "}".repeat(40_000));
    for format in Format::all() {
        for rule in format.all_rules() {
            // All of it ends as text, or as the arguments of a tool of that name where keys are names.
            let answer = read_in(format, "", [rule.marker, nested.as_str()].into_iter());
            let calls: usize = answer.tool_calls.iter().map(|call| call.arguments.len()).sum();
            let kept = answer.reasoning.len() + answer.content.len() + calls;
            assert!(kept + 32 >= nested.len(), "{}: {kept} of {}", format.name, nested.len());
        }
    }
    let text = format!("<tool_call>{nested}</tool_call>");
    let answer = read_in(Format::of("<tool_call>"), "", [text.as_str()].into_iter());
    assert!(answer.tool_calls.is_empty() && answer.content == text);
}

#[test]
fn what_follows_a_call_without_an_end_is_kept() {
    let format = Format::of("<tool_call>\n<function=example>\n<parameter=a>");
    let answer = read_in(format, "", ["<tool_call>\n<function=f>\nNo, I answer myself: 42"].into_iter());
    assert_eq!(answer.tool_calls.len(), 1, "{answer:?}");
    assert!(answer.content.contains("No, I answer myself: 42"), "{answer:?}");
}

#[test]
fn white_space_is_held_back_to_a_bound() {
    let format = Format::of("");
    let text = format!("a{}b", " \u{3000}\n".repeat(4000));
    assert_eq!(read_in(format, "", text.split_inclusive('\n')).content, text);
    let thought = format!("<think>{}a</think>{}b", " ".repeat(10_000), "\n".repeat(10_000));
    let answer = read_in(format, "", [thought.as_str()].into_iter());
    assert_eq!((answer.reasoning.as_str(), answer.content.as_str()), ("a", "b"));
    let characters = thought.char_indices().map(|(at, c)| &thought[at..at + c.len_utf8()]);
    assert_eq!(read_in(format, "", characters), answer);
}

#[test]
fn only_what_may_become_a_marker_is_held_back() {
    let mut parser = Parser::new(Format::of("<tool_call>"), "", &tools());
    let content = |text: &str| vec![Event::Content(text.to_owned())];
    assert_eq!(parser.feed("Hello"), content("Hello"));
    assert_eq!(parser.feed(" <"), []);
    assert_eq!(parser.feed("b> and <to"), content(" <b> and"));
    assert_eq!(parser.feed("ol"), []);
    assert_eq!(parser.feed("s>"), content(" <tools>"));
    assert_eq!(parser.feed(" \n"), []);
    assert_eq!(parser.finish(), content(" \n"));
}

#[test]
fn the_format_is_that_of_the_template() {
    use crate::template::{ChatTemplate, Message, RenderOptions};
    let source = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}\
                  {% if add_generation_prompt %}<|im_start|>assistant\n<think>\n{% endif %}{# <tool_call> #}";
    let template = ChatTemplate::new(source, "", "").unwrap();
    let options = RenderOptions::default();
    let format = template.answer_format(&options).unwrap();
    assert_eq!(format.name, "hermes");
    let prompt = template.render(&[Message::user("What does <think> mean?")], &options).unwrap();
    assert_eq!(prompt.generation_prompt(), "<|im_end|>\n<|im_start|>assistant\n<think>\n");
    let mut parser = Parser::new(format, prompt.generation_prompt(), &[]);
    assert_eq!(parser.feed("Hm</think>Hi"), [Event::Reasoning("Hm".to_owned()), Event::Content("Hi".to_owned())]);
    assert_eq!(parser.finish(), []);
}
