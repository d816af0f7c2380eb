//! How a person types: the line editor, commands that begin with a slash, and plain lines where there is no terminal.

pub(crate) mod editor;
pub(crate) mod lines;
pub(crate) mod slash;

/// One thing that the person did.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Input {
    /// Text, possibly of several lines; not empty, ends without blanks.
    Text(String),
    /// Ctrl-C at the prompt: the line is cleared.
    Cleared,
    /// Ctrl-D, or the input is at its end.
    End,
}
