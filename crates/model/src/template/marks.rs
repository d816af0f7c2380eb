//! Marked text: characters of messages that can be told from characters of the template, wherever a template moves them.
//!
//! Each character of a message is replaced by a stand-in of Unicode's private use planes 15 and 16, one to one. A template
//! can cut, join and repeat marked text as it likes; every character that comes out is still known to be from a message or
//! not. White space is not marked, so that templates strip and split as they do with plain text.

use std::collections::HashMap;

use minijinja::value::Object;

use super::Part;

/// Characters up to U+FFFD have their stand-in at this distance, in plane 15. Order is kept.
const PLANE_15: u32 = 0xf_0000;

/// Others get the next free one of plane 16.
const PLANE_16: u32 = 0x10_0000;

/// Places in each of the two planes; their last two are no characters.
const PLACES: u32 = 0xfffe;

/// The stand-ins of one prompt.
#[derive(Debug, Default)]
pub(super) struct Marks {
    /// Originals of the stand-ins in plane 16.
    originals: Vec<char>,
    stand_ins: HashMap<char, char>,
}

/// Lets filters find the marks of the prompt that is rendered.
impl Object for Marks {}

/// More different characters than there are stand-ins for.
#[derive(Debug)]
pub(super) struct TooManyCharacters;

impl Marks {
    /// `text` with stand-ins for all but white space.
    pub(super) fn mark(&mut self, text: &str) -> Result<String, TooManyCharacters> {
        text.chars().map(|character| self.stand_in(character)).collect()
    }

    fn stand_in(&mut self, character: char) -> Result<char, TooManyCharacters> {
        if let Some(stand_in) = self.known_stand_in(character) {
            return Ok(stand_in);
        }
        let place = u32::try_from(self.originals.len()).ok().filter(|&place| place < PLACES);
        let stand_in = place.and_then(|place| char::from_u32(PLANE_16 + place)).ok_or(TooManyCharacters)?;
        self.originals.push(character);
        self.stand_ins.insert(character, stand_in);
        Ok(stand_in)
    }

    /// The stand-in of a character, where it has one already or needs no table.
    pub(super) fn known_stand_in(&self, character: char) -> Option<char> {
        if character.is_whitespace() {
            return Some(character);
        }
        if (character as u32) < PLACES {
            return char::from_u32(PLANE_15 + character as u32);
        }
        self.stand_ins.get(&character).copied()
    }

    /// Whether a text has stand-ins.
    pub(super) fn are_in(&self, text: &str) -> bool {
        text.chars().any(|character| self.original(character).is_some())
    }

    /// `text` with the originals of its stand-ins.
    pub(super) fn plain(&self, text: &str) -> String {
        text.chars().map(|character| self.original(character).unwrap_or(character)).collect()
    }

    /// The original of a stand-in; `None` for all other characters.
    pub(super) fn original(&self, character: char) -> Option<char> {
        match character as u32 {
            code @ PLANE_15..PLANE_16 => char::from_u32(code - PLANE_15),
            code @ PLANE_16.. => self.originals.get((code - PLANE_16) as usize).copied(),
            _ => None,
        }
    }

    /// Cuts rendered text into what the template wrote and what messages said, stand-ins replaced by their originals. White
    /// space between two characters of messages counts as theirs.
    pub(super) fn parts(&self, rendered: &str) -> Vec<Part> {
        let mut parts = Vec::new();
        // The part in the making; a content part may be followed by white space whose side is not known yet.
        let (mut text, mut is_content, mut space) = (String::new(), false, String::new());
        for character in rendered.chars() {
            match self.original(character) {
                Some(original) => {
                    if !is_content {
                        finish(&mut parts, &mut text, false);
                        is_content = true;
                    }
                    text.push_str(&space);
                    space.clear();
                    text.push(original);
                }
                None if is_content && character.is_whitespace() => space.push(character),
                None => {
                    if is_content {
                        finish(&mut parts, &mut text, true);
                        is_content = false;
                        std::mem::swap(&mut text, &mut space);
                    }
                    text.push(character);
                }
            }
        }
        finish(&mut parts, &mut text, is_content);
        finish(&mut parts, &mut space, false);
        parts
    }
}

fn finish(parts: &mut Vec<Part>, text: &mut String, is_content: bool) {
    if !text.is_empty() {
        let text = std::mem::take(text);
        parts.push(if is_content { Part::Content(text) } else { Part::Template(text) });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stand_ins_lead_back_to_every_character() {
        let mut marks = Marks::default();
        let text = "<|a|> 中\u{fffd}\u{ffff}😊😀😊\u{f0000}\u{100000}\u{10ffff}\u{e000}";
        let marked = marks.mark(text).unwrap();
        assert_eq!(marked.chars().count(), text.chars().count());
        assert!(marked.chars().all(|c| c == ' ' || c as u32 >= PLANE_15));
        let back: String = marked.chars().map(|c| marks.original(c).unwrap_or(c)).collect();
        assert_eq!(back, text);
        assert_eq!(marks.original('a'), None);
    }

    #[test]
    fn running_out_of_stand_ins_is_an_error() {
        let mut marks = Marks::default();
        let many: String = (0x20000..0x20000 + PLACES).filter_map(char::from_u32).collect();
        assert!(marks.mark(&many).is_ok());
        assert!(marks.mark("\u{1f600}").is_err());
        assert!(marks.mark(&many).is_ok(), "known ones are still there");
    }

    #[test]
    fn parts_are_told_apart() {
        let mut marks = Marks::default();
        let mut render = |pieces: &[(&str, bool)]| {
            let text: String = pieces
                .iter()
                .map(|&(text, marked)| if marked { marks.mark(text).unwrap() } else { text.into() })
                .collect();
            marks.parts(&text)
        };
        let template = |text: &str| Part::Template(text.to_owned());
        let content = |text: &str| Part::Content(text.to_owned());
        assert_eq!(
            render(&[("<u>\n", false), ("a b", true), ("\n</u>", false)]),
            [template("<u>\n"), content("a b"), template("\n</u>")]
        );
        assert_eq!(
            render(&[("a", true), (" \n", false), ("b", true), ("\n", false)]),
            [content("a \nb"), template("\n")]
        );
        assert_eq!(render(&[("", false)]), []);
        assert_eq!(render(&[(" ", true), ("x", false)]), [template(" x")]);
    }
}
