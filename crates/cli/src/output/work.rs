//! How far a piece of work is: a bar on a terminal, and nothing in a pipe.

use std::io::IsTerminal;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// A bar on stderr, where that is a terminal.
pub(crate) struct WorkBar {
    bar: Option<ProgressBar>,
}

const TEMPLATE: &str = "{prefix} {wide_bar} {percent:>3}% {msg}";

impl WorkBar {
    /// A bar for work that `title` names.
    pub(crate) fn new(title: &str) -> WorkBar {
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::with_draw_target(Some(1), ProgressDrawTarget::stderr_with_hz(10));
            // The template is a constant that a test has seen; the plain style stands in where it is wrong.
            let style = ProgressStyle::with_template(TEMPLATE).unwrap_or_else(|_| ProgressStyle::default_bar());
            bar.set_style(style.progress_chars("=> "));
            bar.set_prefix(title.to_owned());
            bar
        });
        WorkBar { bar }
    }

    /// `done` of `all`, and what there is to say of it. `message` is only made where it is seen.
    pub(crate) fn show(&self, done: u64, all: u64, message: impl FnOnce() -> String) {
        if let Some(bar) = &self.bar {
            bar.set_length(all);
            bar.set_position(done);
            bar.set_message(message());
        }
    }

    /// What is being done, at the same place of the bar.
    pub(crate) fn say(&self, message: impl FnOnce() -> String) {
        if let Some(bar) = &self.bar {
            bar.set_message(message());
        }
    }

    /// Says something while the bar is off the screen.
    pub(crate) fn talk(&self, say: impl FnOnce()) {
        match &self.bar {
            Some(bar) => bar.suspend(say),
            None => say(),
        }
    }
}

impl Drop for WorkBar {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_template_is_read() {
        assert!(ProgressStyle::with_template(TEMPLATE).is_ok());
    }
}
