//! What happens to text before it is cut into pieces, where the model's own tokenizer does something to it.

use std::borrow::Cow;

use unicode_normalization::{IsNormalized, UnicodeNormalization, is_nfc_quick};

/// A change of the whole text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Normalizer {
    /// Text stays as it is.
    None,
    /// Unicode's normalization form C: letters and their marks are composed where one character for both exists.
    Nfc,
    /// The same, with characters that only look otherwise replaced by the usual ones first: form KC.
    Nfkc,
    /// Small letters throughout.
    Lowercase,
}

impl Normalizer {
    /// The changed text; time and space are linear in its length.
    pub(crate) fn apply<'t>(self, text: &'t str) -> Cow<'t, str> {
        match self {
            Normalizer::None => Cow::Borrowed(text),
            Normalizer::Nfc if is_nfc_quick(text.chars()) == IsNormalized::Yes => Cow::Borrowed(text),
            Normalizer::Nfc => Cow::Owned(text.nfc().collect()),
            Normalizer::Nfkc => Cow::Owned(text.nfkc().collect()),
            Normalizer::Lowercase => Cow::Owned(text.to_lowercase()),
        }
    }

    /// The name that `duan.tokenizer.normalizer` has for it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Normalizer::None => "none",
            Normalizer::Nfc => "nfc",
            Normalizer::Nfkc => "nfkc",
            Normalizer::Lowercase => "lowercase",
        }
    }

    /// The normalizer of that name.
    pub(crate) fn by_name(name: &str) -> Option<Normalizer> {
        let all = [Normalizer::None, Normalizer::Nfc, Normalizer::Nfkc, Normalizer::Lowercase];
        all.into_iter().find(|normalizer| normalizer.name() == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_and_marks_are_composed_where_the_row_asks() {
        assert_eq!(Normalizer::Nfc.apply("e\u{301} \u{1112}\u{1161}\u{11ab} \u{212b}"), "é 한 Å");
        assert!(matches!(Normalizer::Nfc.apply("é 한"), Cow::Borrowed("é 한")));
        assert_eq!(Normalizer::None.apply("e\u{301}"), "e\u{301}");
        assert_eq!(Normalizer::Nfkc.apply("\u{ff21}e\u{301}"), "Aé");
        assert_eq!(Normalizer::Lowercase.apply("ÄB c"), "äb c");
    }
}
