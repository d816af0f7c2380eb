//! Chat templates.

/// A piece of a rendered prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    /// Text of the template itself, which may hold control tokens.
    Template(String),
    /// Text of a message, which is text whatever it says.
    Content(String),
}

/// A rendered prompt.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Prompt {
    /// In order; together they are the prompt's text.
    pub parts: Vec<Part>,
}
