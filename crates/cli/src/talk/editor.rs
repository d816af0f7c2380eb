//! The line editor of `chat`: history, several lines, commands completed with Tab.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use rustyline::completion::Completer;
use rustyline::config::{Behavior, BellStyle, CompletionType};
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::FileHistory;
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{Config, Context, Editor, Helper};

use super::{Input, slash};
use crate::output::{Style, warn};

/// Messages kept in the history file.
const HISTORY_MESSAGES: usize = 1000;

/// A prompt on the terminal.
pub(crate) struct LineEditor {
    editor: Editor<Rules, FileHistory>,
    history: Option<PathBuf>,
    prompt: (String, String),
}

impl LineEditor {
    /// Opens the terminal and reads the history of earlier chats. A history that cannot be kept is a warning.
    ///
    /// # Errors
    /// Where the terminal cannot be used.
    pub(crate) fn new() -> anyhow::Result<LineEditor> {
        let config = Config::builder()
            .max_history_size(HISTORY_MESSAGES)?
            .history_ignore_dups(true)?
            .completion_type(CompletionType::List)
            .bell_style(BellStyle::None)
            // stdout may be a file that takes the answers only.
            .behavior(Behavior::PreferTerm)
            .bracketed_paste(true)
            .build();
        let mut editor = Editor::with_config(config).context("cannot use the terminal; give the message with -p")?;
        editor.set_helper(Some(Rules));
        let history = history_path();
        if let Some(path) = &history {
            match prepare(path) {
                Ok(true) => {
                    // A history that cannot be read, for example because it was edited, costs nothing but itself.
                    let _ = editor.load_history(path);
                }
                Ok(false) => {}
                Err(error) => warn(&format!(
                    "{}: {error}; earlier messages are not remembered, make the folder writable or set XDG_STATE_HOME",
                    path.display()
                )),
            }
        }
        let prompt = ("> ".to_owned(), Style::stderr().bold("> "));
        Ok(LineEditor { editor, history, prompt })
    }

    /// Waits for a message.
    ///
    /// # Errors
    /// Where the terminal fails.
    pub(crate) fn read(&mut self) -> anyhow::Result<Input> {
        loop {
            match self.editor.readline(&self.prompt) {
                Ok(typed) => {
                    let text = joined(&typed);
                    if text.is_empty() {
                        continue;
                    }
                    self.remember(&typed);
                    return Ok(Input::Text(text));
                }
                Err(ReadlineError::Interrupted) => return Ok(Input::Cleared),
                Err(ReadlineError::Eof) => return Ok(Input::End),
                Err(ReadlineError::Signal(_)) => {}
                Err(error) => return Err(error).context("cannot read from the terminal; give the message with -p"),
            }
        }
    }

    fn remember(&mut self, typed: &str) {
        let added = self.editor.add_history_entry(typed.trim_end()).unwrap_or(false);
        if let Some(path) = &self.history
            && added
            && self.editor.append_history(path).is_err()
        {
            // `new` has said why; a message is not worth a second warning.
            self.history = None;
        }
    }
}

/// Where earlier messages are kept: under the XDG folder for state.
fn history_path() -> Option<PathBuf> {
    let from_environment = std::env::var_os("XDG_STATE_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let state = from_environment.or_else(|| std::env::home_dir().map(|home| home.join(".local/state")))?;
    Some(state.join("duan").join("history"))
}

/// Makes the folder of the history; tells whether there is a history.
fn prepare(path: &Path) -> std::io::Result<bool> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    path.try_exists()
}

/// What the editor knows about our input.
struct Rules;

impl Helper for Rules {}
impl Highlighter for Rules {}
impl Hinter for Rules {
    type Hint = String;
}

impl Validator for Rules {
    fn validate(&self, context: &mut ValidationContext<'_>) -> rustyline::Result<ValidationResult> {
        Ok(if continues(context.input()) { ValidationResult::Incomplete } else { ValidationResult::Valid(None) })
    }
}

impl Completer for Rules {
    type Candidate = String;

    fn complete(&self, line: &str, position: usize, _: &Context<'_>) -> rustyline::Result<(usize, Vec<String>)> {
        let typed = line.get(..position).unwrap_or(line);
        Ok((0, slash::completions(typed)))
    }
}

/// Whether a message goes on in the next line: its last line ends in a backslash, or a ``` fence is open.
pub(crate) fn continues(text: &str) -> bool {
    fence_is_open(text) || text.ends_with('\\')
}

fn fence_is_open(text: &str) -> bool {
    text.lines().filter(|line| line.trim_start().starts_with("```")).count() % 2 == 1
}

/// The message of what was typed: backslashes that only continue a line are gone, and so are blanks at the end.
/// Between fences a backslash is text.
pub(crate) fn joined(typed: &str) -> String {
    let mut out = String::with_capacity(typed.len());
    let mut fenced = false;
    let mut lines = typed.split('\n').peekable();
    while let Some(line) = lines.next() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        }
        match line.strip_suffix('\\') {
            Some(line) if !fenced && lines.peek().is_some() => out.push_str(line),
            _ => out.push_str(line),
        }
        if lines.peek().is_some() {
            out.push('\n');
        }
    }
    out.truncate(out.trim_end().len());
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backslash_or_an_open_fence_continues() {
        assert!(!continues("one line"));
        assert!(continues("one \\"));
        assert!(!continues("one \\\ntwo"));
        assert!(continues("```rust\nfn main() {}"));
        assert!(!continues("```rust\nfn main() {}\n```"));
        assert!(continues("```\na\n```\nand\n  ```"));
        assert!(!continues("inline ```code``` only"));
    }

    #[test]
    fn lines_are_joined_as_the_person_meant() {
        assert_eq!(joined("a \\\nb"), "a \nb");
        assert_eq!(joined("```\nC:\\\nb\n```"), "```\nC:\\\nb\n```");
        assert_eq!(joined("pasted\ntext\n\n"), "pasted\ntext");
        assert_eq!(joined("  \n "), "");
        assert_eq!(joined("ends in \\"), "ends in \\");
    }
}
