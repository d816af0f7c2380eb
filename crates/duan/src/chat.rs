//! Conversations: several turns over one cache.
//!
//! Every prompt is the whole conversation, rendered by the model's own template. The session finds how much of it is in the
//! cache already, so a new turn costs its own tokens and no more.

use std::ops::ControlFlow;

use duan_engine::{Event, FinishReason, OnEvent};
use duan_model::template::{Message, RenderOptions};

use crate::answer::{Answer, How, Text};
use crate::engine::Engine;
use crate::error::{Error, Result};

impl Engine {
    /// Answers a prompt in the conversation; see [`Engine::chat_with`].
    ///
    /// # Errors
    /// As [`Engine::chat_with`].
    pub fn chat(&mut self, prompt: &str) -> Result<String> {
        Ok(self.chat_with(prompt, |_| ControlFlow::Continue(()))?.text)
    }

    /// Answers a prompt in the conversation, with events on the way; a break ends the answer there.
    ///
    /// Prompt and answer join the history, also when the answer is cut off; a cancelled one without any text leaves the history
    /// as it was, and so does an error.
    ///
    /// # Errors
    /// When no model is loaded or the model has no template, with the way to `complete`; when the template refuses the
    /// conversation, with the template's words; when the conversation does not fit in the context, with both numbers; when a
    /// device fails.
    pub fn chat_with(
        &mut self,
        prompt: &str,
        mut on_event: impl FnMut(&Event<'_>) -> ControlFlow<()>,
    ) -> Result<Answer> {
        self.history.push(Message::new("user", prompt));
        let result = self.answer_history(&mut on_event);
        match &result {
            Ok(answer) if answer.timings.finish_reason != FinishReason::Cancelled || !answer.text.is_empty() => {
                self.history.push(Message::new("assistant", &answer.text));
            }
            _ => {
                self.history.pop();
            }
        }
        result
    }

    /// The turns of the conversation so far; the system prompt is apart.
    pub fn history(&self) -> &[Message] {
        &self.history
    }

    /// Forgets the conversation. The system prompt stays.
    pub fn reset(&mut self) {
        self.history.clear();
    }

    /// What conversations begin with.
    pub fn system_prompt(&self) -> Option<&str> {
        self.options.system_prompt.as_deref()
    }

    /// What conversations begin with from now on; also counts for the one that goes on, whose turns are read again then.
    pub fn set_system_prompt(&mut self, text: Option<String>) {
        self.options.system_prompt = text;
    }

    fn answer_history(&mut self, on_event: &mut OnEvent<'_>) -> Result<Answer> {
        let system = self.options.system_prompt.iter().map(|text| Message::new("system", text));
        let messages: Vec<Message> = system.chain(self.history.iter().cloned()).collect();
        let (sampling, max_tokens) = (self.options.sampling.clone(), self.options.max_tokens);
        let cancel = self.options.cancel.clone();
        let loaded = self.loaded_mut()?;
        let prompt = loaded.chat_template()?.render(&messages, &RenderOptions::default())?;
        loaded.check_text(prompt.parts.iter().map(|part| part.text().len()).sum())?;
        let prompt = loaded.tokenizer.encode_prompt(&prompt);
        let how = How { sampling: &sampling, max_tokens, cancel: &cancel, text: Text::BeginsAnew };
        loaded.answer(&prompt, &how, on_event).map_err(|error| match error {
            Error::Engine(source @ duan_engine::Error::PromptTooLong { .. }) if messages.len() > 2 => {
                Error::ConversationTooLong { source }
            }
            other => other,
        })
    }
}
