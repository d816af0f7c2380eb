//! What a check says.

use std::fmt;

/// One line of a check: where, what is wrong, and what to do.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Finding {
    /// The file, from the repository's root.
    pub(crate) path: String,
    /// The line, from 1; 0 for the whole file.
    pub(crate) line: usize,
    /// What is wrong.
    pub(crate) what: String,
    /// What to do.
    pub(crate) remedy: String,
    /// Whether it is only worth a look: it does not make the check fail.
    pub(crate) is_note: bool,
}

impl Finding {
    /// A broken rule.
    pub(crate) fn violation(path: &str, line: usize, what: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line, what: what.into(), remedy: remedy.into(), is_note: false }
    }

    /// Something worth a look.
    pub(crate) fn note(path: &str, line: usize, what: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { is_note: true, ..Self::violation(path, line, what, remedy) }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_note {
            write!(out, "note: ")?;
        }
        match self.line {
            0 => write!(out, "{}: ", self.path)?,
            line => write!(out, "{}:{line}: ", self.path)?,
        }
        write!(out, "{}; {}", self.what, self.remedy)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_is_one_line_with_its_remedy() {
        let violation = Finding::violation("a/b.rs", 7, "too long", "split it");
        assert_eq!(violation.to_string(), "a/b.rs:7: too long; split it");
        assert_eq!(Finding::note("a", 0, "odd", "look").to_string(), "note: a: odd; look");
    }
}
