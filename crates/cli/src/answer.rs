//! An answer while it is made: a view of the engine's events, and what is said after it.

use std::io::{self, IsTerminal};
use std::ops::ControlFlow;

use duan::{Answer, Event, FinishReason, Timings};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;

use crate::interrupt::Interrupt;
use crate::output::style::safe_for_terminal;
use crate::output::units::{counted, grouped, three_digits};
use crate::output::{Style, print, say, warn};

/// Prompts below this are read too fast for anybody to wonder.
const SHOW_PREFILL_FROM: usize = 256;

/// Where the text of an answer goes while it is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Streaming {
    /// To stdout, piece by piece.
    ToStdout,
    /// Nowhere: it is printed as JSON when it is whole.
    Kept,
}

/// Shows one answer.
pub(crate) struct AnswerView {
    streaming: Streaming,
    is_terminal: bool,
    waiting: Option<ProgressBar>,
    nearly_full: bool,
}

impl AnswerView {
    /// A view of an answer that begins now.
    pub(crate) fn new(streaming: Streaming) -> AnswerView {
        AnswerView { streaming, is_terminal: io::stdout().is_terminal(), waiting: None, nearly_full: false }
    }

    /// Shows all events of the answer that `make` makes, and what the person must know about its end. Ctrl-C ends it.
    ///
    /// # Errors
    /// What `make` says, and where stdout cannot be written.
    pub(crate) fn watch(
        mut self,
        interrupt: &Interrupt,
        place: Place,
        make: impl FnOnce(&mut dyn FnMut(&Event<'_>) -> ControlFlow<()>) -> duan::Result<Answer>,
    ) -> anyhow::Result<Answer> {
        let answering = interrupt.answer();
        let mut unwritten = None;
        let answer = make(&mut |event| match self.show(event) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                unwritten = Some(error);
                ControlFlow::Break(())
            }
        });
        drop(answering);
        self.stop_waiting();
        if let Some(error) = unwritten {
            return Err(error.into());
        }
        let answer = answer?;
        self.finish(&answer, place)?;
        Ok(answer)
    }

    fn show(&mut self, event: &Event<'_>) -> io::Result<()> {
        match event {
            Event::Text { text } => {
                self.stop_waiting();
                if self.streaming == Streaming::ToStdout {
                    return if self.is_terminal { print(&safe_for_terminal(text)) } else { print(text) };
                }
            }
            Event::PrefillProgress { done, total, cached } => self.show_prefill(*done, *total, *cached),
            Event::ContextNearlyFull { .. } => self.nearly_full = true,
            Event::Warning { message } => warn(message),
            _ => {}
        }
        Ok(())
    }

    fn finish(&self, answer: &Answer, place: Place) -> io::Result<()> {
        if self.streaming == Streaming::ToStdout && !answer.text.ends_with('\n') {
            print("\n")?;
        }
        let timings = &answer.timings;
        match timings.finish_reason {
            FinishReason::Context => warn(&format!(
                "the context of {} is full, the answer is cut off; {}",
                counted(timings.context, "token"),
                place.remedy()
            )),
            FinishReason::Length if place == Place::Chat => {
                say("(the answer reached the most tokens that -n allows and is cut off)");
            }
            FinishReason::Cancelled => say("(stopped)"),
            _ if self.nearly_full && place == Place::Chat => warn(&format!(
                "{} of the context's {} are taken; {}",
                grouped(timings.context_used as u64),
                counted(timings.context, "token"),
                place.remedy()
            )),
            _ => {}
        }
        Ok(())
    }

    fn show_prefill(&mut self, done: usize, total: usize, cached: usize) {
        if total.saturating_sub(cached) < SHOW_PREFILL_FROM || !io::stderr().is_terminal() {
            return;
        }
        let bar = self.waiting.get_or_insert_with(|| {
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(10));
            bar.set_style(ProgressStyle::with_template("{msg}").unwrap_or_else(|_| ProgressStyle::default_spinner()));
            bar
        });
        bar.set_message(format!("reading the prompt: {} of {}", grouped(done as u64), counted(total, "token")));
        bar.tick();
    }

    fn stop_waiting(&mut self) {
        if let Some(bar) = self.waiting.take() {
            bar.finish_and_clear();
        }
    }
}

impl Drop for AnswerView {
    fn drop(&mut self) {
        self.stop_waiting();
    }
}

/// Where an answer is given, which decides what helps when the context ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// In a chat at the terminal.
    Chat,
    /// Anywhere else.
    Once,
}

impl Place {
    fn remedy(self) -> &'static str {
        match self {
            Place::Chat => "/reset forgets the conversation, and a larger --context at the start makes more room",
            Place::Once => "shorten the prompt, or start with a larger --context",
        }
    }
}

/// The line after an answer: both phases apart, and how much of the context is taken.
pub(crate) fn stats_line(timings: &Timings) -> String {
    let rate = |value: Option<f64>| value.map_or(String::new(), |rate| format!(", {} tok/s", three_digits(rate)));
    let cached = match timings.cached_tokens {
        0 => String::new(),
        cached => format!(" (+ {} cached)", grouped(cached as u64)),
    };
    format!(
        "prefill {}{cached}{} · decode {}{} · context {} of {}",
        counted(timings.prefill_tokens(), "token"),
        rate(timings.prefill_tokens_per_s()),
        counted(timings.decode_tokens, "token"),
        rate(timings.decode_tokens_per_s()),
        timings.context_used,
        timings.context,
    )
}

/// The figures of an answer, one a line.
pub(crate) fn stats_page(timings: &Timings) -> String {
    let seconds = |nanoseconds: u64| format!("{:.3} s", nanoseconds as f64 / 1e9);
    let rate = |value: Option<f64>| value.map_or(String::new(), |rate| format!(", {} tok/s", three_digits(rate)));
    let used = timings.context_used;
    [
        format!(
            "  prefill      {} in {}{}",
            counted(timings.prefill_tokens(), "token"),
            seconds(timings.prefill_ns),
            rate(timings.prefill_tokens_per_s())
        ),
        format!("  cached       {}", counted(timings.cached_tokens, "token")),
        format!("  first token  after {}", seconds(timings.first_token_ns)),
        format!(
            "  decode       {} in {}{}",
            counted(timings.decode_tokens, "token"),
            seconds(timings.decode_ns),
            rate(timings.decode_tokens_per_s())
        ),
        format!("  together     {}", seconds(timings.total_ns)),
        format!("  context      {used} of {}, {} left", timings.context, timings.context.saturating_sub(used)),
        format!("  seed         {}", timings.seed),
        format!("  ended by     {}", timings.finish_reason.name()),
    ]
    .join("\n")
}

/// Whether the line is said where nobody asked for it: only to a person.
pub(crate) fn stats_are_wanted(asked_for: bool) -> bool {
    asked_for || io::stderr().is_terminal()
}

/// Says the line, as talk that should not draw the eye.
pub(crate) fn say_stats(timings: &Timings) {
    say(&Style::stderr().dim(&stats_line(timings)));
}

/// The figures of an answer under llama-server's names.
///
/// `predicted_n` counts every token of the answer. The first of them comes out of the prefill, so `predicted_ms` and the
/// rates belong to the others.
#[derive(Debug, Serialize)]
pub(crate) struct TimingsJson {
    cache_n: usize,
    prompt_n: usize,
    prompt_ms: f64,
    prompt_per_token_ms: Option<f64>,
    prompt_per_second: Option<f64>,
    first_token_ms: f64,
    predicted_n: usize,
    predicted_ms: f64,
    predicted_per_token_ms: Option<f64>,
    predicted_per_second: Option<f64>,
    total_ms: f64,
}

impl From<&Timings> for TimingsJson {
    fn from(timings: &Timings) -> TimingsJson {
        let ms = |nanoseconds: u64| nanoseconds as f64 / 1e6;
        let per_token = |rate: Option<f64>| rate.map(|rate| 1000.0 / rate);
        TimingsJson {
            cache_n: timings.cached_tokens,
            prompt_n: timings.prefill_tokens(),
            prompt_ms: ms(timings.prefill_ns),
            prompt_per_token_ms: per_token(timings.prefill_tokens_per_s()),
            prompt_per_second: timings.prefill_tokens_per_s(),
            first_token_ms: ms(timings.first_token_ns),
            predicted_n: timings.generated_tokens,
            predicted_ms: ms(timings.decode_ns),
            predicted_per_token_ms: per_token(timings.decode_tokens_per_s()),
            predicted_per_second: timings.decode_tokens_per_s(),
            total_ms: ms(timings.total_ns),
        }
    }
}

/// An answer for programs.
#[derive(Debug, Serialize)]
pub(crate) struct AnswerJson<'a> {
    text: &'a str,
    tokens: &'a [u32],
    prompt_tokens: usize,
    finish_reason: &'static str,
    seed: u64,
    context: ContextJson,
    timings: TimingsJson,
}

#[derive(Debug, Serialize)]
struct ContextJson {
    used: usize,
    size: usize,
}

impl<'a> AnswerJson<'a> {
    /// The answer with its figures.
    pub(crate) fn new(answer: &'a Answer) -> AnswerJson<'a> {
        let timings = &answer.timings;
        AnswerJson {
            text: &answer.text,
            tokens: &answer.tokens,
            prompt_tokens: timings.prompt_tokens,
            finish_reason: timings.finish_reason.name(),
            seed: timings.seed,
            context: ContextJson { used: timings.context_used, size: timings.context },
            timings: timings.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timings() -> Timings {
        Timings {
            prompt_tokens: 34,
            cached_tokens: 0,
            prefill_ns: 82_524_272,
            first_token_ns: 83_000_000,
            generated_tokens: 59,
            decode_tokens: 58,
            decode_ns: 816_901_408,
            total_ns: 900_000_000,
            context_used: 92,
            context: 2048,
            seed: 7,
            finish_reason: FinishReason::Stop,
        }
    }

    #[test]
    fn the_line_keeps_prefill_and_decode_apart() {
        let mut timings = timings();
        let expected = "prefill 34 tokens, 412 tok/s · decode 58 tokens, 71.0 tok/s · context 92 of 2048";
        assert_eq!(stats_line(&timings), expected);
        timings.cached_tokens = 33;
        timings.decode_tokens = 0;
        let expected = "prefill 1 token (+ 33 cached), 12.1 tok/s · decode 0 tokens · context 92 of 2048";
        assert_eq!(stats_line(&timings), expected);
    }

    #[test]
    fn json_has_the_names_that_scripts_rely_on() {
        let answer = Answer { text: "Paris".into(), tokens: vec![7], timings: timings() };
        let json = serde_json::to_value(AnswerJson::new(&answer)).unwrap();
        assert_eq!((&json["text"], &json["tokens"][0]), (&"Paris".into(), &7.into()));
        assert_eq!(json["finish_reason"], "stop");
        assert_eq!(json["prompt_tokens"], 34);
        assert_eq!(json["timings"]["prompt_n"], 34);
        assert_eq!(json["timings"]["predicted_n"], 59);
        assert_eq!(json["timings"]["prompt_ms"], 82.524272);
        let rate = json["timings"]["predicted_per_second"].as_f64().unwrap();
        assert!((rate - 71.0).abs() < 0.01, "{rate}");
    }
}
