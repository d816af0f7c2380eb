//! What a model answers: its thoughts, its text, and the tools that it calls, told apart while it writes.
//!
//! A chat template shows a model how to write thoughts and calls of tools, and each family has its own way: tags, JSON, XML,
//! Python, channels. This is the other direction. A [`Format`] is the way of one family, as data; [`Format::of`] finds it by the
//! template; a [`Parser`] takes the answer piece by piece, in whatever pieces, and gives [`Event`]s.
//!
//! ```
//! use duan_model::answer::{Event, Format, Parser};
//!
//! let format = Format::of("... <tool_call> ...");
//! let mut parser = Parser::new(format, "<|im_start|>assistant\n", &[]);
//! let mut events = parser.feed("<think>Hm.</think>Let me look.\n<tool_");
//! events.extend(parser.feed("call>{\"name\": \"look\", \"arguments\": {}}</tool_call>"));
//! events.extend(parser.finish());
//! assert!(matches!(&events[..], [Event::Reasoning(thought), Event::Content(text), Event::ToolCall(call)]
//!     if thought == "Hm." && text == "Let me look." && call.name == "look"));
//! ```
//!
//! # What a caller owes
//!
//! * The text that the model wrote, *with control tokens as their text*: many formats are written in them. What ends the turn may
//!   be left out or not.
//! * The generation prompt, see [`crate::template::Prompt::generation_prompt`]: many templates begin the thoughts for the model.
//! * The definitions of the tools, where the request had any. They say which arguments are texts, in formats that do not; and
//!   without them the formats that have no marks of their own (a bare JSON object) are taken as text.
//!
//! # What is promised
//!
//! * The result does not depend on how the text was cut. Only what may still become a marker is held back, and white space that
//!   may be the last before one; and a call, which is one event, once it is whole.
//! * No text is lost. What looks like a call and is none becomes content as it was written. What ends in the middle of a call is
//!   a call with [`ToolCall::is_complete`] false, if its name is known. [`Parser::accounted`] says what each byte became.
//! * Arguments that the model wrote as JSON are passed on as they were written. Others are made into JSON.
//! * White space around thoughts, calls and markers is dropped.
//! * Work is linear in the length of the answer, and memory is bounded by the longest call, [`LONGEST_CALL_BYTES`].
//!
//! A new format is a file in `formats/` with its tests, and a line in `formats/mod.rs`.

mod format;
mod formats;
mod json;
mod parser;
mod python;
mod section;
mod tagged;
#[cfg(test)]
mod tests;
mod tools;

pub use format::{Format, LONGEST_CALL_BYTES};
pub use parser::{Accounted, Answer, Event, Parser, ToolCall};
