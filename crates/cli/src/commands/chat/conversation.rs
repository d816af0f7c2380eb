//! The conversation of one run of `duan chat`: an engine, and how its answers are shown.

use duan::{Engine, Timings};

use crate::answer::{AnswerJson, AnswerView, Place, Streaming, say_stats, stats_page};
use crate::interrupt::Interrupt;
use crate::output::{print_json_line, say};
use crate::{is_broken_pipe, report};

/// An engine with a chat model, and what was last said about its answers.
pub(super) struct Conversation {
    pub(super) engine: Engine,
    interrupt: Interrupt,
    json: bool,
    stats: bool,
    last: Option<Timings>,
}

impl Conversation {
    /// A conversation without messages. `stats` says the figures of each answer on stderr.
    pub(super) fn new(engine: Engine, interrupt: Interrupt, json: bool, stats: bool) -> Conversation {
        Conversation { engine, interrupt, json, stats, last: None }
    }

    /// Answers a message: text as it comes, or one JSON document on a line.
    ///
    /// # Errors
    /// What the engine says, and where stdout cannot be written.
    pub(super) fn answer(&mut self, text: &str, place: Place) -> anyhow::Result<()> {
        let view = AnswerView::new(if self.json { Streaming::Kept } else { Streaming::ToStdout });
        let engine = &mut self.engine;
        let answer = view.watch(&self.interrupt, place, |on_event| engine.chat_with(text, on_event))?;
        if self.json {
            print_json_line(&AnswerJson::new(&answer))?;
        }
        if self.stats {
            say_stats(&answer.timings);
        }
        self.last = Some(answer.timings);
        Ok(())
    }

    /// The same for a person, who can go on after an error: a message that is too long leaves the conversation as it was.
    ///
    /// # Errors
    /// Where nobody can read answers any more.
    pub(super) fn answer_or_explain(&mut self, text: &str) -> anyhow::Result<()> {
        match self.answer(text, Place::Chat) {
            Err(error) if !is_broken_pipe(&error) => {
                report(&error);
                if !self.engine.history().is_empty() {
                    say("The conversation is as it was before this message; /reset begins a new one.");
                }
            }
            other => return other,
        }
        Ok(())
    }

    /// Forgets the conversation and begins another with this system message.
    pub(super) fn begin_anew(&mut self, system: Option<String>) {
        self.engine.set_system_prompt(system);
        self.engine.reset();
    }

    /// Whether Ctrl-C ended the last answer.
    pub(super) fn was_interrupted(&self) -> bool {
        self.interrupt.was_pressed()
    }

    /// The figures of the last answer, and how full the context is.
    ///
    /// # Errors
    /// Where no model is loaded.
    pub(super) fn last_stats(&self) -> anyhow::Result<String> {
        Ok(match &self.last {
            Some(timings) => stats_page(timings),
            None => format!("no answer yet; the context holds {} tokens", self.engine.context()?),
        })
    }
}
