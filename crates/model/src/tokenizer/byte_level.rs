//! The alphabet of byte-level vocabularies: one printable character for each of the 256 bytes.
//!
//! Vocabularies in GPT-2's style are stored as text, yet their tokens are byte strings. A byte that is a printable Latin-1
//! character stands for itself; the other 68 bytes take the characters from U+0100 on, in order, so that a space is `Ġ` and a
//! newline is `Ċ`. Source: `bytes_to_unicode` of GPT-2's encoder.

/// Characters above this one stand for no byte: 68 bytes are moved to U+0100..=U+0143.
const LAST_CHARACTER: usize = 0x143;

/// `CHARACTER_TO_BYTE[c]` is the byte for which character `c` stands, or -1.
static CHARACTER_TO_BYTE: [i16; LAST_CHARACTER + 1] = {
    let mut table = [-1i16; LAST_CHARACTER + 1];
    let mut byte = 0;
    let mut next_moved = 0x100;
    while byte < 256 {
        if stands_for_itself(byte) {
            table[byte] = byte as i16;
        } else {
            table[next_moved] = byte as i16;
            next_moved += 1;
        }
        byte += 1;
    }
    table
};

const fn stands_for_itself(byte: usize) -> bool {
    matches!(byte, 0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff)
}

/// The byte for which `character` stands, or `None` where it is not of the alphabet.
pub(super) fn byte_of(character: char) -> Option<u8> {
    CHARACTER_TO_BYTE.get(character as usize).and_then(|&byte| u8::try_from(byte).ok())
}

/// Appends the bytes for which the characters of `text` stand. Where a character is not of the alphabet, nothing is appended
/// and the result is false.
pub(super) fn append_bytes(text: &str, bytes: &mut Vec<u8>) -> bool {
    let length_before = bytes.len();
    for character in text.chars() {
        match byte_of(character) {
            Some(byte) => bytes.push(byte),
            None => {
                bytes.truncate(length_before);
                return false;
            }
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_has_one_character() {
        let mut seen = [0; 256];
        for code in 0..=0x200u32 {
            if let Some(byte) = char::from_u32(code).and_then(byte_of) {
                seen[byte as usize] += 1;
            }
        }
        assert_eq!(seen, [1; 256]);
    }

    #[test]
    fn known_characters() {
        assert_eq!(byte_of('Ġ'), Some(b' '));
        assert_eq!(byte_of('Ċ'), Some(b'\n'));
        assert_eq!(byte_of('a'), Some(b'a'));
        assert_eq!(byte_of('\u{143}'), Some(0xad));
        assert_eq!(byte_of(' '), None);
        assert_eq!(byte_of('中'), None);
    }

    #[test]
    fn text_outside_the_alphabet_appends_nothing() {
        let mut bytes = vec![7];
        assert!(!append_bytes("ab中", &mut bytes));
        assert_eq!(bytes, [7]);
        assert!(append_bytes("Ġæĸ", &mut bytes));
        assert_eq!(bytes, [7, b' ', 0xe6, 0x96]);
    }
}
