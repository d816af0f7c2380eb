//! Colour, only where somebody sees it, and never as the only carrier of a meaning.

use std::io::IsTerminal;

/// Whether and how text is emphasized on one stream.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Style {
    coloured: bool,
}

impl Style {
    /// For text on stderr.
    pub(crate) fn stderr() -> Style {
        Style { coloured: std::io::stderr().is_terminal() && terminal_takes_colour() }
    }

    /// For data on stdout.
    pub(crate) fn stdout() -> Style {
        Style { coloured: std::io::stdout().is_terminal() && terminal_takes_colour() }
    }

    /// Talk beside the answer, which should not draw the eye.
    pub(crate) fn dim(self, text: &str) -> String {
        self.with("2", text)
    }

    /// A heading or a name.
    pub(crate) fn bold(self, text: &str) -> String {
        self.with("1", text)
    }

    /// The word that begins an error.
    pub(crate) fn error(self, text: &str) -> String {
        self.with("1;31", text)
    }

    /// The word that begins a warning.
    pub(crate) fn warning(self, text: &str) -> String {
        self.with("1;33", text)
    }

    fn with(self, code: &str, text: &str) -> String {
        if self.coloured { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

/// The conventions that users rely on: NO_COLOR (any value but the empty one) and terminals without escape codes.
fn terminal_takes_colour() -> bool {
    let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let dumb = std::env::var_os("TERM").is_some_and(|value| value == "dumb");
    !refused && !dumb
}

/// Text from a model or a file as it may go to a terminal: line breaks and tabs stay, every other control character
/// and what turns the direction of writing is shown as its escape, so that no text can command the terminal.
pub(crate) fn safe_for_terminal(text: &str) -> std::borrow::Cow<'_, str> {
    if !text.chars().any(commands_terminal) {
        return text.into();
    }
    let mut out = String::with_capacity(text.len() + 8);
    for character in text.chars() {
        if commands_terminal(character) {
            out.extend(character.escape_unicode());
        } else {
            out.push(character);
        }
    }
    out.into()
}

fn commands_terminal(character: char) -> bool {
    (character.is_control() && !matches!(character, '\n' | '\t'))
        || matches!(character, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Text on one line, between the marks that a table or an error puts around it: every control character escaped.
pub(crate) fn on_one_line(text: &str) -> String {
    text.chars()
        .flat_map(|character| {
            let escape = commands_terminal(character) || matches!(character, '\n' | '\t' | '\u{2028}' | '\u{2029}');
            if escape { character.escape_default().collect::<Vec<_>>() } else { vec![character] }
        })
        .collect()
}

/// Text cut to `limit` characters, with a mark where something is missing.
pub(crate) fn shortened(text: &str, limit: usize) -> String {
    if text.chars().count() <= limit {
        return text.to_owned();
    }
    text.chars().take(limit.saturating_sub(3)).chain("...".chars()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_style_adds_nothing() {
        let plain = Style { coloured: false };
        assert_eq!(plain.error("error:"), "error:");
        assert_eq!(Style { coloured: true }.dim("x"), "\x1b[2mx\x1b[0m");
    }

    #[test]
    fn text_cannot_command_the_terminal() {
        assert_eq!(safe_for_terminal("a\nb\tc 你好"), "a\nb\tc 你好");
        assert_eq!(safe_for_terminal("\x1b]0;title\x07"), "\\u{1b}]0;title\\u{7}");
        assert_eq!(safe_for_terminal("a\u{202e}b\r"), "a\\u{202e}b\\u{d}");
        assert_eq!(on_one_line("a\nb\u{1b}"), "a\\nb\\u{1b}");
    }

    #[test]
    fn shortening_counts_characters() {
        assert_eq!(shortened("四个汉字", 4), "四个汉字");
        assert_eq!(shortened("abcdefgh", 6), "abc...");
    }
}
