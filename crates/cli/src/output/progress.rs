//! How making a model ready looks: a bar on a terminal, a line now and then elsewhere.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use duan::hub::Progress;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::say;
use super::style::{on_one_line, shortened};
use super::table::terminal_width;
use super::units::{bytes_text, seconds_text};

/// How often a line is printed where there is no terminal.
const LINE_EVERY: Duration = Duration::from_secs(5);

/// Terminals below this many columns have no room for a file's name beside the numbers.
const WIDTH_FOR_NAMES: usize = 90;

/// A view of [`Progress`] on stderr.
pub(crate) struct FetchView {
    bar: Option<ProgressBar>,
    shown: Shown,
    last_line: Option<Instant>,
}

/// The step that is on the screen; a new step begins a new bar.
#[derive(PartialEq, Eq)]
enum Shown {
    Nothing,
    Step(&'static str, String),
}

/// One step with its numbers, in the form that both views need.
struct Step<'a> {
    word: &'static str,
    file: &'a str,
    done_bytes: u64,
    total_bytes: Option<u64>,
    rate_bytes_per_s: Option<f64>,
}

impl FetchView {
    /// A view for one model.
    pub(crate) fn new() -> FetchView {
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(10));
            bar.set_style(style_without_length());
            bar
        });
        FetchView { bar, shown: Shown::Nothing, last_line: None }
    }

    /// Shows one event.
    pub(crate) fn show(&mut self, event: &Progress) {
        match event {
            Progress::Waiting { name } => self.talk(&format!("waiting for another process that fetches {name}")),
            Progress::Connecting { host } => self.message(&format!("asking {}", on_one_line(host))),
            Progress::Retrying { attempt, wait_ms, reason } => self.talk(&format!(
                "{}; try {attempt} follows in {}",
                on_one_line(reason),
                seconds_text((*wait_ms as f64 / 1000.0).max(1.0))
            )),
            Progress::Downloading { file, done_bytes, total_bytes, rate_bytes_per_s } => self.step(&Step {
                word: "fetching",
                file,
                done_bytes: *done_bytes,
                total_bytes: *total_bytes,
                rate_bytes_per_s: *rate_bytes_per_s,
            }),
            Progress::Verifying { file, done_bytes, total_bytes } => {
                self.step(&Step::local("verifying", file, *done_bytes, *total_bytes));
            }
            Progress::Extracting { file, done_bytes, total_bytes } => {
                self.step(&Step::local("unpacking", file, *done_bytes, *total_bytes));
            }
            _ => {}
        }
    }

    /// Takes the bar off the screen.
    pub(crate) fn finish(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
        self.shown = Shown::Nothing;
    }

    fn talk(&mut self, text: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| say(text)),
            None => say(text),
        }
    }

    fn message(&mut self, text: &str) {
        if let Some(bar) = &self.bar
            && self.shown == Shown::Nothing
        {
            bar.set_style(style_without_length());
            bar.set_message(text.to_owned());
            bar.tick();
        }
    }

    fn step(&mut self, step: &Step<'_>) {
        let shown = Shown::Step(step.word, step.file.to_owned());
        let begins = self.shown != shown;
        self.shown = shown;
        match &self.bar {
            Some(bar) => {
                if begins {
                    bar.set_style(if step.total_bytes.is_some() {
                        style_with_length()
                    } else {
                        style_without_length()
                    });
                    bar.set_length(step.total_bytes.unwrap_or(0));
                    bar.set_prefix(step.title());
                }
                bar.set_position(step.done_bytes);
                bar.set_message(step.numbers());
            }
            None => self.line(step, begins),
        }
    }

    /// A line at the beginning of a step and then every few seconds.
    fn line(&mut self, step: &Step<'_>, begins: bool) {
        let due = self.last_line.is_none_or(|last| last.elapsed() >= LINE_EVERY);
        if begins || due {
            self.last_line = Some(Instant::now());
            say(&format!("{} {}: {}", step.word, on_one_line(file_name(step.file)), step.numbers()));
        }
    }
}

impl Drop for FetchView {
    fn drop(&mut self) {
        self.finish();
    }
}

impl<'a> Step<'a> {
    fn local(word: &'static str, file: &'a str, done_bytes: u64, total_bytes: u64) -> Step<'a> {
        Step { word, file, done_bytes, total_bytes: Some(total_bytes), rate_bytes_per_s: None }
    }

    /// What is done to which file; without the file where the numbers would not fit beside it.
    fn title(&self) -> String {
        if terminal_width().is_some_and(|width| width < WIDTH_FOR_NAMES) {
            return self.word.to_owned();
        }
        format!("{} {}", self.word, shortened(&on_one_line(file_name(self.file)), 28))
    }

    /// "12.3 MB of 92.9 MB, 8.12 MB/s, 9s left"
    fn numbers(&self) -> String {
        let mut out = bytes_text(self.done_bytes);
        if let Some(total) = self.total_bytes {
            out.push_str(&format!(" of {}", bytes_text(total)));
        }
        if let Some(rate) = self.rate_bytes_per_s.filter(|rate| *rate >= 1.0) {
            out.push_str(&format!(", {}/s", bytes_text(rate as u64)));
            let left = self.total_bytes.map(|total| total.saturating_sub(self.done_bytes)).filter(|left| *left > 0);
            if let Some(left) = left {
                out.push_str(&format!(", {} left", seconds_text(left as f64 / rate)));
            }
        }
        out
    }
}

/// The last part of a path inside an archive: the folders before it tell nobody anything.
fn file_name(file: &str) -> &str {
    file.rsplit('/').next().unwrap_or(file)
}

fn style_with_length() -> ProgressStyle {
    styled("{prefix} {wide_bar} {percent:>3}% {msg}")
}

fn style_without_length() -> ProgressStyle {
    styled("{prefix} {spinner} {msg}")
}

/// Both templates are constants that a test has seen; the plain style stands in where one is wrong.
fn styled(template: &str) -> ProgressStyle {
    let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    style.progress_chars("=> ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_tell_size_rate_and_time_left() {
        let mut step = Step {
            word: "fetching",
            file: "a/b.whl",
            done_bytes: 12_300_000,
            total_bytes: Some(92_871_040),
            rate_bytes_per_s: Some(8_120_000.0),
        };
        assert_eq!(step.numbers(), "12.3 MB of 92.9 MB, 8.12 MB/s, 10s left");
        step.done_bytes = 92_871_040;
        assert_eq!(step.numbers(), "92.9 MB of 92.9 MB, 8.12 MB/s");
        step.rate_bytes_per_s = Some(0.0);
        step.total_bytes = None;
        assert_eq!(step.numbers(), "92.9 MB");
        assert_eq!(file_name(step.file), "b.whl");
    }

    #[test]
    fn templates_are_read() {
        assert!(ProgressStyle::with_template("{prefix} {wide_bar} {percent:>3}% {msg}").is_ok());
        assert!(ProgressStyle::with_template("{prefix} {spinner} {msg}").is_ok());
    }
}
