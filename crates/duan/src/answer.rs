//! An answer while it is made: tokens to text as they come.

use std::ops::ControlFlow;
use std::sync::atomic::AtomicBool;

use duan_engine::{Event, OnEvent, Sampler, SamplingOptions, Timings, Until};

use crate::error::Result;
use crate::loaded::Loaded;

/// A complete or cut off answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The text.
    pub text: String,
    /// Its tokens, without the one that ended the turn.
    pub tokens: Vec<u32>,
    /// What it took, and why it ended.
    pub timings: Timings,
}

/// How one prompt is answered.
pub(crate) struct How<'a> {
    pub(crate) sampling: &'a SamplingOptions,
    pub(crate) max_tokens: Option<usize>,
    pub(crate) cancel: &'a AtomicBool,
    pub(crate) text: Text,
}

/// Where the text of an answer begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Text {
    /// After the prompt's: together they are the text of all tokens.
    GoesOn,
    /// Anew, as what is said in a turn: vocabularies that put a space in front of texts lose it here.
    BeginsAnew,
}

impl Loaded {
    /// Answers a prompt, with all events of an answer.
    pub(crate) fn answer(&mut self, prompt: &[u32], how: &How<'_>, on_event: &mut OnEvent<'_>) -> Result<Answer> {
        self.check_file()?;
        let mut sampler = Sampler::new(how.sampling, self.executor.vocab_size())?;
        let stop_tokens = self.tokenizer.end_of_turn();
        let until = Until { max_tokens: how.max_tokens, stop_tokens, cancel: how.cancel };
        // Room for all tokens that can come, so that nothing grows between tokens; texts have a few bytes per token.
        let room = self.executor.context().saturating_sub(prompt.len()).saturating_add(1);
        let room = how.max_tokens.map_or(room, |most| room.min(most));
        let mut tokens = Vec::with_capacity(room);
        let mut text = String::with_capacity(room.saturating_mul(BYTES_PER_TOKEN));
        let mut decoder = match how.text {
            Text::GoesOn => self.tokenizer.decoder().after(prompt),
            Text::BeginsAnew => self.tokenizer.decoder(),
        };
        let mut tell = |event: &Event<'_>| {
            let flow = on_event(event);
            let Event::Token { id, ends_turn: false } = *event else { return flow };
            tokens.push(id);
            let before = text.len();
            decoder.push(id, &mut text);
            let text_flow = tell_text(&text[before..], on_event);
            if flow.is_break() { flow } else { text_flow }
        };
        let timings = self.session.answer(&mut self.executor, prompt, &mut sampler, &until, &mut tell)?;
        let before = text.len();
        decoder.finish(&mut text);
        // The answer is at its end already, so a break has nothing left to end.
        let _ = tell_text(&text[before..], on_event);
        let _ = on_event(&Event::Finished { timings: &timings });
        Ok(Answer { text, tokens, timings })
    }
}

/// What is set aside for the text of one token; longer texts grow their buffer.
const BYTES_PER_TOKEN: usize = 8;

fn tell_text(text: &str, on_event: &mut OnEvent<'_>) -> ControlFlow<()> {
    if text.is_empty() { ControlFlow::Continue(()) } else { on_event(&Event::Text { text }) }
}
