//! Encoding prompts: which tokens are structure there, and that no text of a message becomes one.
//!
//! Control tokens are structure. Many files mark the tokens that a template writes around messages as user-defined ones, which
//! are matched in all text; in a prompt those are structure as well.

use std::collections::HashMap;

use super::merge::Merger;
use super::vocabulary::{METASPACE, TokenKind, Vocabulary};
use super::{Tokenizer, special::Found};
use crate::template::{Part, Prompt, ROLES};

impl Tokenizer {
    /// Tokens of a prompt: template parts may become control tokens, content parts may not, not even together with what
    /// stands beside them. Between control tokens, text is encoded as one, across the borders of parts.
    ///
    /// A user-defined token that the template writes (`<|im_start|>` in careless conversions, `</think>`) counts as a control
    /// token here: one whose text stands in [`Prompt::template`] or in a template part, and one that is a role in brackets
    /// (`<|user|>`), which templates put together. In contents its text is encoded as any other text.
    ///
    /// The begin-of-text token comes first where the file asks for it ([`Tokenizer::adds_bos`]) and the prompt does not begin
    /// with it already; it is never doubled.
    pub fn encode_prompt(&self, prompt: &Prompt) -> Vec<u32> {
        let mut encoder = Encoder {
            tokenizer: self,
            structure: Structure { vocabulary: &self.vocabulary, prompt, known: HashMap::new() },
            merger: Merger::default(),
            ids: Vec::new(),
            text: String::new(),
        };
        for part in &prompt.parts {
            let part = match part {
                Part::Content(content) => {
                    encoder.text.push_str(content);
                    continue;
                }
                Part::Template(part) => part,
            };
            let mut done = 0;
            for found in self.marked.find(part) {
                if encoder.structure.holds(found.id) {
                    encoder.text.push_str(&part[done..found.start]);
                    encoder.append_structure(found.id);
                    done = found.end;
                }
            }
            encoder.text.push_str(&part[done..]);
        }
        encoder.encode_text();
        let mut ids = encoder.ids;
        if let Some(bos) = self.bos.filter(|&bos| self.adds_bos && ids.first() != Some(&bos)) {
            ids.insert(0, bos);
        }
        ids
    }
}

/// Encodes one prompt.
struct Encoder<'p> {
    tokenizer: &'p Tokenizer,
    structure: Structure<'p>,
    merger: Merger,
    ids: Vec<u32>,
    /// Text since the last structure, which is not encoded yet.
    text: String,
}

impl Encoder<'_> {
    fn append_structure(&mut self, id: u32) {
        self.encode_text();
        self.ids.push(id);
    }

    fn encode_text(&mut self) {
        let text = std::mem::take(&mut self.text);
        let swallows = self.ids.last().is_some_and(|&id| self.tokenizer.strips_right(id));
        self.append_text(if swallows { text.trim_start() } else { &text });
    }

    /// Encodes text between structure, in which user-defined tokens are matched that are no structure.
    fn append_text(&mut self, text: &str) {
        // Where plain text begins that is not encoded yet, and where the search goes on.
        let (mut done, mut from) = (0, 0);
        while let Some(Found { id, start, end }) = self.tokenizer.user_defined.find(&text[from..]).next() {
            let (start, end) = (from + start, from + end);
            if self.structure.holds(id) {
                // Another token may begin inside this text.
                from = text.ceil_char_boundary(start + 1);
                continue;
            }
            self.append_plain(&text[done..start]);
            self.ids.push(id);
            done = self.tokenizer.end_of_token(text, id, end);
            from = done;
        }
        self.append_plain(&text[done..]);
    }

    /// Whether a token is structure that merging may lead to. Control tokens it never leads to, and the unknown token stands
    /// for what has no other.
    fn is_marker(&mut self, id: u32) -> bool {
        self.tokenizer.vocabulary.kind(id) == TokenKind::UserDefined && self.structure.holds(id)
    }

    /// Encodes text without user-defined tokens in it, or with the text of some that are structure.
    fn append_plain(&mut self, text: &str) {
        let before = self.ids.len();
        self.tokenizer.append_plain(text, &mut self.merger, &mut self.ids);
        if (before..self.ids.len()).all(|place| !self.is_marker(self.ids[place])) {
            return;
        }
        // Merging leads to structure; its characters one by one do not.
        for id in self.ids.split_off(before) {
            if !self.is_marker(id) {
                self.ids.push(id);
                continue;
            }
            let token = self.tokenizer.vocabulary.text(id).unwrap_or_default();
            for character in token.split_inclusive(|_| true) {
                self.tokenizer.append_merged("", character, &mut self.merger, &mut self.ids);
            }
        }
    }
}

/// Which tokens are structure in a prompt.
struct Structure<'p> {
    vocabulary: &'p Vocabulary,
    prompt: &'p Prompt,
    /// User-defined tokens that were looked up before.
    known: HashMap<u32, bool>,
}

impl Structure<'_> {
    fn holds(&mut self, id: u32) -> bool {
        let text = self.vocabulary.text(id).unwrap_or_default();
        match self.vocabulary.kind(id) {
            TokenKind::UserDefined => {}
            // A control token of white space alone could not be told from the white space of a message.
            TokenKind::Control | TokenKind::Unknown => return !text.trim().is_empty(),
            _ => return false,
        }
        let prompt = self.prompt;
        *self.known.entry(id).or_insert_with(|| is_written_by_template(text, prompt))
    }
}

/// Whether a user-defined token of this text is one of those that the template of `prompt` writes.
fn is_written_by_template(token: &str, prompt: &Prompt) -> bool {
    let is_blank = |c: char| c.is_whitespace() || METASPACE.contains(c);
    let is_marker = token.chars().nth(1).is_some() && token.chars().any(|c| !is_blank(c) && !c.is_alphanumeric());
    if !is_marker {
        return false;
    }
    let mut template_parts = prompt.parts.iter().filter_map(|part| match part {
        Part::Template(text) => Some(text),
        Part::Content(_) => None,
    });
    let has_template = !prompt.template.is_empty() || template_parts.clone().next().is_some();
    prompt.template.contains(token)
        || template_parts.any(|text| text.contains(token))
        || has_template && is_role_in_brackets(token)
}

/// Whether a token is the name of a role with other characters on both sides.
fn is_role_in_brackets(token: &str) -> bool {
    let is_bracket = |c: char| !c.is_alphanumeric();
    let name = token.trim_matches(is_bracket);
    token.starts_with(is_bracket) && token.ends_with(is_bracket) && ROLES.contains(&name.to_lowercase().as_str())
}
