//! Reads arbitrary answers with the parser of every format, in two ways of cutting.
//!
//! Beyond not crashing, both ways must give the same, and every byte must have become something.

#![no_main]

use duan_model::answer::{Accounted, Answer, Format, Parser};
use libfuzzer_sys::fuzz_target;
use serde_json::Value;

fuzz_target!(|input: &[u8]| {
    // The first bytes say how the text is cut, what the prompt ends with, and whether there are tools.
    let Some((head, text)) = input.split_first_chunk::<4>() else { return };
    let text = String::from_utf8_lossy(text);
    let tools = if head[0] & 1 == 0 { vec![] } else { tools() };
    let prompt =
        ["", "<think>\n", "<think></think>", "<|start|>assistant", ">>>", "<|START_THINKING|>"][head[1] as usize % 6];
    for format in Format::all() {
        let whole = read(format, prompt, &tools, [text.as_ref()].into_iter());
        let pieces = read(format, prompt, &tools, Cuts { rest: &text, seed: u32::from_le_bytes(*head) | 1 });
        assert_eq!(whole, pieces, "{}: the answer depends on the cuts", format.name);
        assert_eq!(whole.1.total(), text.len(), "{}: text is lost", format.name);
        let written: usize = whole.0.reasoning.len() + whole.0.content.len();
        assert!(written >= whole.1.text, "{}: text is lost", format.name);
        for (index, call) in whole.0.tool_calls.iter().enumerate() {
            assert!(call.index == index && !call.name.is_empty(), "{}: {call:?}", format.name);
            if call.is_complete {
                serde_json::from_str::<serde::de::IgnoredAny>(&call.arguments)
                    .unwrap_or_else(|error| panic!("{}: {error}: {call:?}", format.name));
            }
        }
    }
});

fn read<'t>(
    format: &'static Format,
    prompt: &str,
    tools: &[Value],
    pieces: impl Iterator<Item = &'t str>,
) -> (Answer, Accounted) {
    let mut parser = Parser::new(format, prompt, tools);
    let mut events = Vec::new();
    for piece in pieces {
        events.extend(parser.feed(piece));
    }
    let (last, accounted) = parser.finish_accounted();
    events.extend(last);
    (Answer::new(events), accounted)
}

fn tools() -> Vec<Value> {
    let parameters = serde_json::json!({"properties": {"a": {"type": "string"}, "b": {"type": "integer"}}});
    ["f", "python"].map(|name| serde_json::json!({"name": name, "parameters": parameters})).to_vec()
}

/// Pieces of a text, most of them short.
struct Cuts<'t> {
    rest: &'t str,
    seed: u32,
}

impl<'t> Iterator for Cuts<'t> {
    type Item = &'t str;

    fn next(&mut self) -> Option<&'t str> {
        if self.rest.is_empty() {
            return None;
        }
        self.seed ^= self.seed << 13;
        self.seed ^= self.seed >> 17;
        self.seed ^= self.seed << 5;
        let length = if self.seed & 3 == 0 { self.seed as usize % 64 } else { self.seed as usize % 4 };
        let mut length = length.min(self.rest.len());
        while !self.rest.is_char_boundary(length) {
            length += 1;
        }
        let (piece, rest) = self.rest.split_at(length);
        self.rest = rest;
        Some(piece)
    }
}
