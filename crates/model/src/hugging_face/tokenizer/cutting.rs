//! What a `tokenizer.json` does to text before merging: its `normalizer` and its `pre_tokenizer`.
//!
//! GGUF has a name where these files have steps. The name is found by comparing the steps with those of every row of
//! [`pre_tokenizers`], never from the name of the model: a wrong cut gives worse answers and no other sign. So each step that
//! is not known to mean what a row means is an error.

use serde_json::Value as Json;

use crate::error::{Error, Result, quoted};
use crate::tokenizer::SpacePrefix;
use crate::tokenizer::normalize::Normalizer;
use crate::tokenizer::pre_tokenizers::{self, PreTokenizer};
use crate::tokenizer::vocabulary::METASPACE;

use super::json::malformed;

/// What to do about a step that is not known.
const REMEDY: &str = "this model's way of cutting text is not supported yet; use another model, or a GGUF file of it";

/// What happens to the whole text.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Normalizing {
    /// Unicode's forms, or small letters.
    pub(super) form: Option<Normalizer>,
    /// `▁` is put in front, whatever comes there.
    prepends: bool,
    /// Spaces become `▁`.
    escapes: bool,
    /// Runs of spaces become one.
    pub(super) collapses: bool,
    /// Spaces at the end are dropped.
    pub(super) strips_end: bool,
    /// SentencePiece's precompiled rules.
    pub(super) charsmap: Option<Vec<u8>>,
}

/// How text is cut.
#[derive(Debug)]
pub(super) enum Cutting {
    /// By regular expressions; pieces are bytes in GPT-2's alphabet.
    Bytes(Vec<String>),
    /// Not at all, but for lines that no merge crosses; pieces are characters.
    Characters {
        prefix: SpacePrefix,
        /// Spaces are `▁`; otherwise they are themselves.
        escapes: bool,
        /// Pieces begin at each `▁`.
        splits: bool,
        /// White space at both ends is dropped, and separates words.
        strips: bool,
    },
    /// At white space, which is lost; pieces are characters.
    Words,
}

/// Where things stand in the file, for errors.
struct Place<'f> {
    file: &'f str,
    key: &'static str,
}

impl Place<'_> {
    fn unsupported(&self, what: &Json) -> Error {
        let what = format!("the step `{}` of `{}` is not known", quoted(&what.to_string()), self.key);
        Error::unsupported(self.file, what, REMEDY)
    }

    fn malformed(&self, expected: &str, found: &Json) -> Error {
        malformed(self.file, format!("`{}`", self.key), expected, quoted(&found.to_string()))
    }

    /// The steps of a `Sequence`, of sequences in it, or the one step that there is.
    fn steps<'j>(&self, json: Option<&'j Json>, list: &str) -> Result<Vec<&'j Json>> {
        let mut steps = Vec::new();
        // The depth of the file's JSON is bounded, and so is this list.
        let mut waiting: Vec<&Json> = json.filter(|json| !json.is_null()).into_iter().collect();
        while let Some(step) = waiting.pop() {
            match step["type"].as_str() {
                Some("Sequence") => {
                    let inner = step[list].as_array().ok_or_else(|| self.malformed("a list of steps", step))?;
                    waiting.extend(inner.iter().rev());
                }
                Some(_) => steps.push(step),
                None => return Err(self.malformed("steps with a type", step)),
            }
        }
        Ok(steps)
    }
}

/// A pattern of `Split` or `Replace`: a regular expression or plain text.
fn pattern(step: &Json) -> Option<(bool, &str)> {
    let pattern = &step["pattern"];
    let regex = pattern["Regex"].as_str().map(|regex| (true, regex));
    regex.or_else(|| pattern["String"].as_str().map(|text| (false, text)))
}

/// Reads `normalizer`.
pub(super) fn normalizing(file: &str, json: Option<&Json>) -> Result<Normalizing> {
    let place = Place { file, key: "normalizer" };
    let mut normalizing = Normalizing::default();
    for step in place.steps(json, "normalizers")? {
        let is_known = match step["type"].as_str().unwrap_or_default() {
            "NFC" => normalizing.form.replace(Normalizer::Nfc).is_none(),
            "NFKC" => normalizing.form.replace(Normalizer::Nfkc).is_none(),
            "Lowercase" => normalizing.form.replace(Normalizer::Lowercase).is_none(),
            "Prepend" => {
                normalizing.prepends = true;
                // Where spaces are escaped first, what is put in front is the same.
                step["prepend"] == METASPACE
            }
            "Replace" => normalizing.replace(step),
            "Strip" => {
                normalizing.strips_end = step["strip_right"] == true;
                normalizing.strips_end && normalizing.charsmap.is_some()
            }
            "Precompiled" => {
                let charsmap = step["precompiled_charsmap"].as_str().and_then(decode_base64);
                let charsmap = charsmap.ok_or_else(|| place.malformed("rules in base64", step))?;
                normalizing.charsmap = Some(charsmap);
                true
            }
            _ => false,
        };
        if !is_known {
            return Err(place.unsupported(step));
        }
    }
    Ok(normalizing)
}

impl Normalizing {
    /// Takes a `Replace` step in; false where it is another than those of SentencePiece's kind.
    fn replace(&mut self, step: &Json) -> bool {
        let content = step["content"].as_str().unwrap_or_default();
        match pattern(step) {
            Some((_, " ")) if content == METASPACE => self.escapes = true,
            Some((true, " {2,}")) if content == METASPACE || content == " " => self.collapses = true,
            _ => return false,
        }
        true
    }

    /// Whether nothing happens but Unicode's forms.
    fn is_form_alone(&self) -> bool {
        *self == Normalizing { form: self.form, ..Normalizing::default() }
    }
}

/// Reads `pre_tokenizer`.
pub(super) fn cutting(file: &str, json: Option<&Json>, normalizing: &Normalizing) -> Result<Cutting> {
    let place = Place { file, key: "pre_tokenizer" };
    let steps = place.steps(json, "pretokenizers")?;
    if steps.iter().any(|step| step["type"] == "ByteLevel") {
        if !normalizing.is_form_alone() {
            let what = "`normalizer` changes spaces, and `pre_tokenizer` writes bytes";
            return Err(Error::unsupported(file, what, REMEDY));
        }
        return Ok(Cutting::Bytes(regexes(&place, &steps)?));
    }
    let mut prefix = if normalizing.prepends { SpacePrefix::Always } else { SpacePrefix::Never };
    let (mut escapes, mut splits, mut strips, mut cuts_words) = (normalizing.escapes, false, false, false);
    for step in steps {
        match step["type"].as_str().unwrap_or_default() {
            "Metaspace" if !normalizing.prepends => {
                prefix = metaspace_prefix(step).ok_or_else(|| place.unsupported(step))?;
                splits = step["split"] != false;
                (escapes, strips, cuts_words) = (true, cuts_words, false);
            }
            // There are no spaces left.
            "Split" if escapes && pattern(step) == Some((false, " ")) => {}
            "WhitespaceSplit" if !escapes => cuts_words = true,
            _ => return Err(place.unsupported(step)),
        }
    }
    if prefix != SpacePrefix::Never && !escapes {
        return Err(Error::unsupported(file, "`normalizer` puts ▁ in front, and leaves spaces", REMEDY));
    }
    Ok(if cuts_words { Cutting::Words } else { Cutting::Characters { prefix, escapes, splits, strips } })
}

/// What a `Metaspace` step puts in front; `None` where it writes spaces otherwise.
fn metaspace_prefix(step: &Json) -> Option<SpacePrefix> {
    if step["replacement"].as_str().is_some_and(|replacement| replacement != METASPACE) {
        return None;
    }
    match (step["prepend_scheme"].as_str(), step["add_prefix_space"].as_bool()) {
        (Some("never"), _) | (None, Some(false)) => Some(SpacePrefix::Never),
        (Some("always") | None, _) => Some(SpacePrefix::UnlessSpaced),
        (Some("first"), _) => Some(SpacePrefix::First),
        (Some(_), _) => None,
    }
}

/// The regular expressions of a byte-level pre-tokenizer, in the words of the rows.
fn regexes(place: &Place, steps: &[&Json]) -> Result<Vec<String>> {
    let mut regexes = Vec::new();
    for step in steps {
        let regex = match step["type"].as_str().unwrap_or_default() {
            "Split" => split_regex(step),
            "Digits" if step["individual_digits"] == true => Some(r"\p{N}".to_owned()),
            "Digits" => Some(r"\p{N}+".to_owned()),
            "Punctuation" if step["behavior"] == "Contiguous" => Some(r"[\p{P}$+<=>^~|`]+".to_owned()),
            "Punctuation" if step["behavior"] == "Isolated" || step["behavior"].is_null() => {
                Some(r"[\p{P}!-/:-@\[-`{-~]".to_owned())
            }
            "ByteLevel" if step["add_prefix_space"] == true => None,
            // It cuts by GPT-2's expression where it does not say.
            "ByteLevel" if step["use_regex"] == false => continue,
            "ByteLevel" => Some(pre_tokenizers::GPT_2.to_owned()),
            _ => None,
        };
        regexes.push(regex.ok_or_else(|| place.unsupported(step))?);
    }
    Ok(regexes)
}

/// The expression of a `Split` step whose matches are pieces, and what stands between them too.
fn split_regex(step: &Json) -> Option<String> {
    let (is_regex, text) = pattern(step)?;
    let regex = if is_regex { text.to_owned() } else { escaped(text) };
    let is_inverted = step["invert"] == true;
    match step["behavior"].as_str()? {
        "Isolated" => Some(regex),
        // What the expression does not match is dropped: nothing, where it matches every character.
        "Removed" if is_inverted && regex.contains(r"[^\s\p{L}\p{N}]+") && regex.ends_with(r"|\s+(?!\S)|\s+") => {
            Some(regex)
        }
        _ => None,
    }
}

/// A regular expression that matches `text` alone.
fn escaped(text: &str) -> String {
    let mut regex = String::with_capacity(text.len());
    for character in text.chars() {
        if character.is_ascii_punctuation() {
            regex.push('\\');
        }
        regex.push(character);
    }
    regex
}

/// A row whose steps are `regexes`, and that does the same besides where there is one; the others are for keys of duan's own to
/// tell.
pub(super) fn row(
    file: &str,
    regexes: &[String],
    form: Normalizer,
    whole_pieces: bool,
) -> Result<&'static PreTokenizer> {
    pre_tokenizers::by_steps(regexes, form, whole_pieces).ok_or_else(|| {
        let unknown = regexes.iter().position(|regex| !pre_tokenizers::is_step(regex));
        let what = match unknown {
            Some(index) => format!(
                "regex {} of {} in `pre_tokenizer` is not known: `{}`",
                index + 1,
                regexes.len(),
                quoted(&regexes[index])
            ),
            None => format!("the {} regexes of `pre_tokenizer` are known, but not in this order", regexes.len()),
        };
        Error::unsupported(file, what, REMEDY)
    })
}

/// Bytes from base64, as RFC 4648 has it; `None` for anything else.
fn decode_base64(text: &str) -> Option<Vec<u8>> {
    let digits = text.trim_end_matches('=').as_bytes();
    let mut bytes = Vec::with_capacity(digits.len() / 4 * 3 + 2);
    for group in digits.chunks(4) {
        let mut bits = 0u32;
        for &digit in group {
            let value = match digit {
                b'A'..=b'Z' => digit - b'A',
                b'a'..=b'z' => digit - b'a' + 26,
                b'0'..=b'9' => digit - b'0' + 52,
                b'+' => 62,
                b'/' => 63,
                _ => return None,
            };
            bits = bits << 6 | u32::from(value);
        }
        bits <<= 6 * (4 - group.len());
        bytes.extend_from_slice(bits.to_be_bytes().get(1..group.len())?);
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn base64_is_decoded() {
        assert_eq!(decode_base64("AAEC/w==").unwrap(), [0, 1, 2, 255]);
        assert_eq!(decode_base64("TWFu").unwrap(), b"Man");
        assert_eq!(decode_base64("TWE=").unwrap(), b"Ma");
        assert_eq!(decode_base64("").unwrap(), b"");
        assert!(decode_base64("T*Fu").is_none());
    }

    fn bytes(json: &Json) -> Result<Vec<String>> {
        match cutting("t", Some(json), &Normalizing::default())? {
            Cutting::Bytes(regexes) => Ok(regexes),
            other => panic!("{other:?}"),
        }
    }

    fn split(regex: &str) -> Json {
        json!({"type": "Split", "pattern": {"Regex": regex}, "behavior": "Isolated", "invert": false})
    }

    fn byte_level(regex: bool) -> Json {
        json!({"type": "ByteLevel", "add_prefix_space": false, "use_regex": regex})
    }

    fn sequence(steps: &[Json]) -> Json {
        json!({"type": "Sequence", "pretokenizers": steps})
    }

    #[test]
    fn rows_are_told_from_the_steps() {
        let name = |json: &Json, form, whole| Ok::<_, Error>(row("t", &bytes(json)?, form, whole)?.names[0]);
        let digits = json!({"type": "Digits", "individual_digits": true});
        let none = Normalizer::None;
        assert_eq!(name(&byte_level(true), none, false).unwrap(), "gpt-2");
        assert_eq!(name(&byte_level(true), Normalizer::Nfc, false).unwrap(), "mpt");
        assert_eq!(name(&sequence(&[digits.clone(), byte_level(true)]), none, false).unwrap(), "smollm");
        assert_eq!(name(&sequence(&[digits, byte_level(true)]), Normalizer::Nfc, false).unwrap(), "command-r");
        // The same expression with other quantifiers and other line ends.
        let gpt_4 = "'(?i:[sdmt]|ll|ve|re)|[^\r\n\\p{L}\\p{N}]?+\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]++[\r\n]*|\\s*[\r\n]|\\s+(?!\\S)|\\s+";
        let json = sequence(&[split(gpt_4), byte_level(false)]);
        assert_eq!(name(&json, none, false).unwrap(), "dbrx");
        assert_eq!(name(&json, none, true).unwrap(), "llama-bpe");
        // No row composes letters and cuts so: the nearest one, and a key of duan's own beside it.
        assert_eq!(name(&json, Normalizer::Nfc, true).unwrap(), "llama-bpe");
        let error = name(&sequence(&[split(r"\p{N}"), split("a+b"), byte_level(false)]), none, false).unwrap_err();
        assert!(error.to_string().contains("regex 2 of 2 in `pre_tokenizer` is not known: `a+b`"), "{error}");
        let error = name(&sequence(&[byte_level(true), split(r"\p{N}")]), none, false).unwrap_err();
        assert!(error.to_string().contains("not in this order"), "{error}");
    }

    #[test]
    fn every_row_of_bytes_is_found_by_its_own_steps() {
        for row_of_name in pre_tokenizers::PRE_TOKENIZERS {
            if row_of_name.form != pre_tokenizers::Form::Bytes {
                continue;
            }
            let steps: Vec<Json> =
                row_of_name.steps.iter().map(|step| split(step)).chain([byte_level(false)]).collect();
            let found = row("t", &bytes(&sequence(&steps)).unwrap(), row_of_name.normalizer, row_of_name.whole_pieces);
            let found = found.unwrap();
            assert_eq!(found.steps, row_of_name.steps, "{}", row_of_name.names[0]);
            assert_eq!(found.normalizer, row_of_name.normalizer);
            assert_eq!(found.whole_pieces, row_of_name.whole_pieces);
        }
    }

    #[test]
    fn what_is_not_known_is_refused_by_name() {
        let refused = |json: &Json| bytes(json).unwrap_err().to_string();
        let prefix = json!({"type": "ByteLevel", "add_prefix_space": true, "use_regex": true});
        assert!(refused(&prefix).contains("add_prefix_space"));
        let removed = json!({"type": "Split", "pattern": {"Regex": "a"}, "behavior": "Removed", "invert": true});
        assert!(refused(&sequence(&[removed, byte_level(true)])).contains("Removed"));
        assert!(refused(&sequence(&[json!({"type": "UnicodeScripts"}), byte_level(true)])).contains("UnicodeScripts"));
        let error = normalizing("t", Some(&json!({"type": "StripAccents"}))).unwrap_err().to_string();
        assert!(error.contains("`normalizer`") && error.contains("StripAccents"), "{error}");
        assert!(normalizing("t", Some(&json!({"no": "type"}))).is_err());
    }

    #[test]
    fn spaces_are_told_from_the_steps() {
        let prepend = json!({"type": "Sequence", "normalizers": [
            {"type": "Prepend", "prepend": "▁"},
            {"type": "Replace", "pattern": {"String": " "}, "content": "▁"},
        ]});
        let normalizing = normalizing("t", Some(&prepend)).unwrap();
        let Cutting::Characters { prefix, escapes, splits, .. } = cutting("t", None, &normalizing).unwrap() else {
            panic!()
        };
        assert_eq!((prefix, escapes, splits), (SpacePrefix::Always, true, false));
        let metaspace = json!({"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": false});
        let Cutting::Characters { prefix, escapes, splits, .. } =
            cutting("t", Some(&metaspace), &Normalizing::default()).unwrap()
        else {
            panic!()
        };
        assert_eq!((prefix, escapes, splits), (SpacePrefix::First, true, false));
        assert!(cutting("t", Some(&metaspace), &normalizing).is_err());
    }
}
