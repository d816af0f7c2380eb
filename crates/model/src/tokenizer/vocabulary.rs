//! The tokens of a vocabulary: text, bytes, kind and score of each, and the way back from bytes to the token.

use std::hash::{BuildHasher, RandomState};

use super::byte_level;
use crate::gguf::StringArray;

/// What a token is for, as `tokenizer.ggml.token_type` says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenKind {
    /// A piece of text.
    Normal,
    /// Stands for what the vocabulary cannot express.
    Unknown,
    /// Structure of a conversation: begin and end of text, of a turn. Text never becomes one.
    Control,
    /// A piece of text that is matched before all others, whatever stands around it.
    UserDefined,
    /// A place that is kept free.
    Unused,
    /// One byte, written `<0x0A>`, for text that no other token covers.
    Byte,
}

impl TokenKind {
    /// From the number in the file: 1 to 6; any other number is a normal token.
    pub(super) fn from_file(number: i32) -> TokenKind {
        match number {
            2 => TokenKind::Unknown,
            3 => TokenKind::Control,
            4 => TokenKind::UserDefined,
            5 => TokenKind::Unused,
            6 => TokenKind::Byte,
            _ => TokenKind::Normal,
        }
    }

    /// Whether running text may become this token; what remains is reached by rules of their own.
    fn is_text(self) -> bool {
        matches!(self, TokenKind::Normal | TokenKind::UserDefined | TokenKind::Unused)
    }
}

/// How the file writes the bytes of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Spelling {
    /// A character for each byte, see [`byte_level`].
    ByteLevel,
    /// Plain text, with `▁` for a space.
    Metaspace,
    /// As Python writes bytes: `\n`, `\x00`, see [`append_unescaped`].
    Escaped,
}

/// The character that stands for a space in vocabularies of SentencePiece's style.
pub(crate) const METASPACE: &str = "\u{2581}";

/// The tokens; their ids are 0 to [`Vocabulary::len`] - 1.
#[derive(Debug)]
pub(super) struct Vocabulary {
    texts: StringArray,
    kinds: Vec<TokenKind>,
    /// What a token prints, one after the other; `ends[i]` is where token `i` ends.
    bytes: Vec<u8>,
    ends: Vec<usize>,
    spelling: Spelling,
    index: Index,
    /// Tokens that have the text of an earlier one; that one is found.
    pub(super) duplicates: usize,
    /// Bytes of the longest key in the index.
    longest_key: usize,
}

impl Vocabulary {
    /// From the file's texts and kinds, which are equally many.
    pub(super) fn new(texts: StringArray, kinds: Vec<TokenKind>, spelling: Spelling) -> Vocabulary {
        let mut bytes = Vec::with_capacity(texts.text_bytes());
        let mut ends = Vec::with_capacity(texts.len());
        let mut keys = Vec::with_capacity(texts.len());
        for (id, (text, &kind)) in texts.iter().zip(&kinds).enumerate() {
            let spelled = append_token_bytes(text, kind, spelling, &mut bytes);
            if spelled && kind.is_text() && !text.is_empty() {
                keys.push(id as u32);
            }
            ends.push(bytes.len());
        }
        let mut vocabulary = Vocabulary {
            index: Index::with_capacity(keys.len()),
            texts,
            kinds,
            bytes,
            ends,
            spelling,
            duplicates: 0,
            longest_key: 0,
        };
        vocabulary.fill_index(&keys);
        vocabulary
    }

    fn fill_index(&mut self, keys: &[u32]) {
        let mut index = std::mem::replace(&mut self.index, Index::with_capacity(keys.len()));
        self.longest_key = keys.iter().map(|&id| self.key(id).len()).max().unwrap_or(0);
        for &id in keys {
            let key = self.key(id);
            if !index.insert(id, key, |other| self.key(other)) {
                self.duplicates += 1;
            }
        }
        self.index = index;
    }

    /// Number of tokens.
    pub(super) fn len(&self) -> usize {
        self.kinds.len()
    }

    /// Text of a token as the file has it.
    pub(super) fn text(&self, id: u32) -> Option<&str> {
        self.texts.get(id as usize)
    }

    /// What a token prints; nothing for ids beyond the vocabulary.
    pub(super) fn bytes(&self, id: u32) -> &[u8] {
        let id = id as usize;
        match self.ends.get(id) {
            Some(&end) => &self.bytes[if id == 0 { 0 } else { self.ends[id - 1] }..end],
            None => &[],
        }
    }

    /// Kind of a token; ids beyond the vocabulary are unused ones.
    pub(super) fn kind(&self, id: u32) -> TokenKind {
        self.kinds.get(id as usize).copied().unwrap_or(TokenKind::Unused)
    }

    /// Ids of one kind, ascending.
    pub(super) fn of_kind(&self, kind: TokenKind) -> impl Iterator<Item = u32> + '_ {
        (0..self.len() as u32).filter(move |&id| self.kinds[id as usize] == kind)
    }

    /// The token that running text of these bytes becomes. With [`Spelling::Metaspace`], the spaces of `key` are written `▁`;
    /// with the others, it is the text itself.
    pub(super) fn find(&self, key: &[u8]) -> Option<u32> {
        if key.len() > self.longest_key {
            return None;
        }
        self.index.find(key, |id| self.key(id))
    }

    /// As [`Vocabulary::find`], looking at token `guess` first.
    pub(super) fn find_near(&self, key: &[u8], guess: u32) -> Option<u32> {
        // Of equal tokens the first one is found, so a right guess still has to be that one.
        let is_found = self.duplicates == 0
            && (guess as usize) < self.len()
            && self.kind(guess) == TokenKind::Normal
            && self.key(guess) == key;
        if is_found { Some(guess) } else { self.find(key) }
    }

    /// The first token with this text, of any kind. Slow; for loading.
    pub(super) fn find_text(&self, text: &str) -> Option<u32> {
        self.texts.iter().position(|other| other == text).map(|id| id as u32)
    }

    /// The bytes by which running text finds a token.
    pub(super) fn key(&self, id: u32) -> &[u8] {
        match self.spelling {
            Spelling::ByteLevel | Spelling::Escaped => self.bytes(id),
            Spelling::Metaspace => self.text(id).unwrap_or_default().as_bytes(),
        }
    }
}

/// Appends what a token prints. False where a byte-level token has characters outside its alphabet: it prints its text as it
/// stands, and no text becomes it.
fn append_token_bytes(text: &str, kind: TokenKind, spelling: Spelling, bytes: &mut Vec<u8>) -> bool {
    match (kind, spelling) {
        (TokenKind::Byte, _) => match byte_token_value(text) {
            Some(byte) => bytes.push(byte),
            None => bytes.extend_from_slice(text.as_bytes()),
        },
        (TokenKind::Control | TokenKind::Unknown | TokenKind::UserDefined, _) => {
            bytes.extend_from_slice(text.as_bytes());
        }
        (TokenKind::Normal | TokenKind::Unused, Spelling::Metaspace) => {
            let mut parts = text.split(METASPACE);
            bytes.extend_from_slice(parts.next().unwrap_or_default().as_bytes());
            for part in parts {
                bytes.push(b' ');
                bytes.extend_from_slice(part.as_bytes());
            }
        }
        (TokenKind::Normal | TokenKind::Unused, Spelling::Escaped) => append_unescaped(text, bytes),
        (TokenKind::Normal | TokenKind::Unused, Spelling::ByteLevel) => {
            if !byte_level::append_bytes(text, bytes) {
                bytes.extend_from_slice(text.as_bytes());
                return false;
            }
        }
    }
    true
}

/// Appends the bytes that Python would write as `text`: `\t`, `\n`, `\r`, `\x` with two hexadecimal digits, and a backslash
/// before any other character for that character.
fn append_unescaped(text: &str, bytes: &mut Vec<u8>) {
    let mut rest = text;
    while let Some((plain, escaped)) = rest.split_once('\\') {
        bytes.extend_from_slice(plain.as_bytes());
        let hex = escaped.strip_prefix('x').and_then(|digits| digits.get(..2));
        if let Some(byte) = hex.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            bytes.push(byte);
            rest = &escaped[3..];
            continue;
        }
        let Some(character) = escaped.chars().next() else { return };
        rest = &escaped[character.len_utf8()..];
        match character {
            't' => bytes.push(b'\t'),
            'n' => bytes.push(b'\n'),
            'r' => bytes.push(b'\r'),
            other => bytes.extend_from_slice(other.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
    bytes.extend_from_slice(rest.as_bytes());
}

/// The byte for which a text such as `<0x0A>` stands.
pub(crate) fn byte_token_value(text: &str) -> Option<u8> {
    let digits = text.strip_prefix("<0x")?.strip_suffix('>')?;
    if digits.len() != 2 || !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return None;
    }
    u8::from_str_radix(digits, 16).ok()
}

/// Token ids by key: a hash table with open addressing that holds ids alone, since the keys stand in the vocabulary already.
///
/// The hash is keyed at random, so that no file can bring keys that all fall on one place. It multiplies eight bytes at a
/// time and folds the halves of the product together; loading a large vocabulary takes a million look-ups, for which the
/// standard library's hash takes more time than all the rest.
#[derive(Debug)]
struct Index {
    /// A power of two of places, at least twice the number of keys; [`Index::FREE`] where no id stands.
    places: Vec<u32>,
    seed: u64,
    multiplier: u64,
}

impl Index {
    const FREE: u32 = u32::MAX;

    fn with_capacity(keys: usize) -> Index {
        let random = RandomState::new();
        Index {
            places: vec![Index::FREE; (keys * 2).next_power_of_two().max(2)],
            seed: random.hash_one(0),
            multiplier: random.hash_one(1) | 1,
        }
    }

    /// False where the key is there already; the table is then unchanged.
    fn insert<'a>(&mut self, id: u32, key: &[u8], key_of: impl Fn(u32) -> &'a [u8]) -> bool {
        let place = self.place(key, key_of);
        let is_free = self.places[place] == Index::FREE;
        if is_free {
            self.places[place] = id;
        }
        is_free
    }

    fn find<'a>(&self, key: &[u8], key_of: impl Fn(u32) -> &'a [u8]) -> Option<u32> {
        Some(self.places[self.place(key, key_of)]).filter(|&id| id != Index::FREE)
    }

    fn hash(&self, key: &[u8]) -> u64 {
        let fold = |word: u64| {
            let product = u128::from(word) * u128::from(self.multiplier);
            product as u64 ^ (product >> 64) as u64
        };
        let mut hash = self.seed ^ key.len() as u64;
        for chunk in key.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            hash = fold(hash ^ u64::from_le_bytes(word));
        }
        fold(hash ^ self.seed)
    }

    /// Where `key` stands, or the free place where it would.
    fn place<'a>(&self, key: &[u8], key_of: impl Fn(u32) -> &'a [u8]) -> usize {
        let mask = self.places.len() - 1;
        let mut place = self.hash(key) as usize & mask;
        while self.places[place] != Index::FREE && key_of(self.places[place]) != key {
            place = (place + 1) & mask;
        }
        place
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vocabulary(tokens: &[(&str, TokenKind)], spelling: Spelling) -> Vocabulary {
        let texts = tokens.iter().map(|token| token.0).collect();
        Vocabulary::new(texts, tokens.iter().map(|token| token.1).collect(), spelling)
    }

    #[test]
    fn tokens_print_what_they_stand_for() {
        use TokenKind::{Byte, Control, Normal, UserDefined};
        let tokens =
            [("▁a▁", Normal), ("<0x0A>", Byte), ("▁▁", UserDefined), ("<s>", Control), ("", Normal), ("<0xZZ>", Byte)];
        let vocabulary = vocabulary(&tokens, Spelling::Metaspace);
        assert_eq!(vocabulary.bytes(0), b" a ");
        assert_eq!(vocabulary.bytes(1), b"\n");
        assert_eq!(vocabulary.bytes(2), "▁▁".as_bytes());
        assert_eq!(vocabulary.bytes(3), b"<s>");
        assert_eq!(vocabulary.bytes(4), b"");
        assert_eq!(vocabulary.bytes(5), b"<0xZZ>");
        assert_eq!(vocabulary.bytes(6), b"");
        assert_eq!(vocabulary.bytes(u32::MAX), b"");
    }

    #[test]
    fn only_text_is_found() {
        use TokenKind::{Byte, Control, Normal, Unknown, UserDefined};
        let tokens = [
            ("<s>", Control),
            ("<unk>", Unknown),
            ("<0x0A>", Byte),
            ("Ġa", Normal),
            ("中", Normal),
            ("b", UserDefined),
            ("Ġa", Normal),
            ("", Normal),
        ];
        let vocabulary = vocabulary(&tokens, Spelling::ByteLevel);
        assert_eq!(vocabulary.find(b"<s>"), None);
        assert_eq!(vocabulary.find(b"<unk>"), None);
        assert_eq!(vocabulary.find(b"<0x0A>"), None);
        assert_eq!(vocabulary.find(b" a"), Some(3), "the first of two equal tokens");
        assert_eq!(vocabulary.duplicates, 1);
        assert_eq!(vocabulary.find("中".as_bytes()), None, "not in the byte-level alphabet");
        assert_eq!(vocabulary.find(b"b"), Some(5));
        assert_eq!(vocabulary.find(b""), None);
        assert_eq!(vocabulary.find_text("<s>"), Some(0));
    }

    #[test]
    fn escapes_are_those_of_python() {
        let unescaped = |text: &str| {
            let mut bytes = Vec::new();
            append_unescaped(text, &mut bytes);
            bytes
        };
        assert_eq!(unescaped(r"a\n\t\r\\\'b"), b"a\n\t\r\\'b");
        assert_eq!(unescaped(r"\x00\xfFa"), [0, 255, b'a']);
        assert_eq!(unescaped(r"\xg0\é\"), "xg0é".as_bytes());
        assert_eq!(unescaped("\\x1é"), "x1é".as_bytes());
    }

    #[test]
    fn byte_tokens_are_two_hex_digits() {
        assert_eq!(byte_token_value("<0xfF>"), Some(255));
        assert_eq!(byte_token_value("<0x+1>"), None);
        assert_eq!(byte_token_value("<0x123>"), None);
        assert_eq!(byte_token_value("0x12"), None);
    }
}
