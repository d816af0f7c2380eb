//! SentencePiece's file, `tokenizer.model`: a message of Protocol Buffers (`sentencepiece_model.proto`).
//!
//! A message is a list of fields: a number (`varint`) that holds the field's number and its wire type, then the value. Every
//! length is checked against the bytes that are left; fields that are not known here are skipped.

use super::json::malformed;
use crate::error::Result;

/// What the file says.
#[derive(Debug, PartialEq)]
pub(super) struct SentencePiece {
    pub(super) pieces: Vec<Piece>,
    /// `trainer_spec.model_type`: 1 unigram, 2 BPE, 3 words, 4 characters.
    pub(super) model_type: u64,
    pub(super) unk_id: Option<u64>,
    pub(super) bos_id: Option<u64>,
    pub(super) eos_id: Option<u64>,
    pub(super) pad_id: Option<u64>,
    pub(super) treats_space_as_suffix: bool,
    pub(super) charsmap: Vec<u8>,
    pub(super) adds_space_prefix: bool,
    pub(super) removes_extra_spaces: bool,
    pub(super) escapes_spaces: bool,
}

/// A token.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Piece {
    pub(super) text: String,
    pub(super) score: f32,
    /// As in GGUF: 1 normal, 2 unknown, 3 control, 4 user-defined, 5 unused, 6 byte.
    pub(super) kind: i32,
}

/// A field's value.
enum Field<'b> {
    Varint(u64),
    Fixed32(u32),
    Bytes(&'b [u8]),
    /// Eight bytes, which no field here has.
    Fixed64,
}

/// What is left of a message.
struct Message<'b> {
    file: &'b str,
    bytes: &'b [u8],
    /// Length of the whole message, for the places that errors name.
    length: usize,
}

impl<'b> Message<'b> {
    fn new(file: &'b str, bytes: &'b [u8]) -> Message<'b> {
        Message { file, bytes, length: bytes.len() }
    }

    fn wrong<T>(&self, expected: &str, found: impl Into<String>) -> Result<T> {
        let place = format!("byte {} of a message of {}", self.length - self.bytes.len(), self.length);
        Err(malformed(self.file, place, expected, found))
    }

    /// The next field's number and value; nothing at the end.
    fn next(&mut self) -> Result<Option<(u64, Field<'b>)>> {
        if self.bytes.is_empty() {
            return Ok(None);
        }
        let key = self.varint()?;
        let field = match key & 7 {
            0 => Field::Varint(self.varint()?),
            1 => {
                self.take(8)?;
                Field::Fixed64
            }
            2 => {
                let length = self.varint()?;
                Field::Bytes(self.take(length)?)
            }
            5 => match self.take(4)? {
                &[a, b, c, d] => Field::Fixed32(u32::from_le_bytes([a, b, c, d])),
                _ => unreachable!("four bytes were taken"),
            },
            other => return self.wrong("a field of Protocol Buffers", format!("wire type {other}")),
        };
        Ok(Some((key >> 3, field)))
    }

    fn take(&mut self, count: u64) -> Result<&'b [u8]> {
        let Some((taken, rest)) = usize::try_from(count).ok().and_then(|count| self.bytes.split_at_checked(count))
        else {
            return self.wrong(&format!("{count} more bytes"), format!("{}", self.bytes.len()));
        };
        self.bytes = rest;
        Ok(taken)
    }

    fn varint(&mut self) -> Result<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let Some((&byte, rest)) = self.bytes.split_first() else {
                return self.wrong("a number", "the end");
            };
            self.bytes = rest;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        self.wrong("a number of at most ten bytes", "a longer one")
    }
}

/// An id that may be -1 for none: numbers are written with the sign in the upper bits.
fn id(number: u64) -> Option<u64> {
    (number.cast_signed() >= 0).then_some(number)
}

/// Reads the file; `file` is the name that errors show.
pub(super) fn read(file: &str, bytes: &[u8]) -> Result<SentencePiece> {
    let mut model = SentencePiece {
        pieces: Vec::new(),
        model_type: 1,
        unk_id: Some(0),
        bos_id: Some(1),
        eos_id: Some(2),
        pad_id: None,
        treats_space_as_suffix: false,
        charsmap: Vec::new(),
        adds_space_prefix: true,
        removes_extra_spaces: true,
        escapes_spaces: true,
    };
    let mut message = Message::new(file, bytes);
    while let Some((number, field)) = message.next()? {
        match (number, field) {
            (1, Field::Bytes(bytes)) => model.pieces.push(piece(file, bytes, model.pieces.len())?),
            (2, Field::Bytes(bytes)) => read_trainer(file, bytes, &mut model)?,
            (3, Field::Bytes(bytes)) => read_normalizer(file, bytes, &mut model)?,
            _ => {}
        }
    }
    if model.pieces.is_empty() {
        return Err(malformed(file, "the whole file", "a vocabulary of SentencePiece", "no tokens"));
    }
    Ok(model)
}

fn piece(file: &str, bytes: &[u8], index: usize) -> Result<Piece> {
    let mut piece = Piece { text: String::new(), score: 0.0, kind: 1 };
    let mut message = Message::new(file, bytes);
    while let Some((number, field)) = message.next()? {
        match (number, field) {
            (1, Field::Bytes(bytes)) => match std::str::from_utf8(bytes) {
                Ok(text) => text.clone_into(&mut piece.text),
                Err(_) => return Err(malformed(file, format!("token {index}"), "UTF-8", "other bytes")),
            },
            (2, Field::Fixed32(bits)) => piece.score = f32::from_bits(bits),
            (3, Field::Varint(kind @ 1..=6)) => piece.kind = kind as i32,
            (3, Field::Varint(kind)) => {
                return Err(malformed(file, format!("token {index}"), "a kind from 1 to 6", kind.to_string()));
            }
            _ => {}
        }
    }
    Ok(piece)
}

fn read_trainer(file: &str, bytes: &[u8], model: &mut SentencePiece) -> Result<()> {
    let mut message = Message::new(file, bytes);
    while let Some((number, field)) = message.next()? {
        match (number, field) {
            (3, Field::Varint(kind)) => model.model_type = kind,
            (24, Field::Varint(flag)) => model.treats_space_as_suffix = flag != 0,
            (40, Field::Varint(number)) => model.unk_id = id(number),
            (41, Field::Varint(number)) => model.bos_id = id(number),
            (42, Field::Varint(number)) => model.eos_id = id(number),
            (43, Field::Varint(number)) => model.pad_id = id(number),
            _ => {}
        }
    }
    Ok(())
}

fn read_normalizer(file: &str, bytes: &[u8], model: &mut SentencePiece) -> Result<()> {
    let mut message = Message::new(file, bytes);
    while let Some((number, field)) = message.next()? {
        match (number, field) {
            (2, Field::Bytes(bytes)) => model.charsmap = bytes.to_vec(),
            (3, Field::Varint(flag)) => model.adds_space_prefix = flag != 0,
            (4, Field::Varint(flag)) => model.removes_extra_spaces = flag != 0,
            (5, Field::Varint(flag)) => model.escapes_spaces = flag != 0,
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
        [&[number << 3 | 2, bytes.len() as u8], bytes].concat()
    }

    #[test]
    fn fields_are_read_and_others_skipped() {
        let score = [&[2 << 3 | 5][..], &(-1.5f32).to_le_bytes()].concat();
        let token =
            [field(1, "▁é".as_bytes()), score, vec![3 << 3, 4], vec![9 << 3 | 1, 1, 2, 3, 4, 5, 6, 7, 8]].concat();
        let minus_one = [&[41 << 3 & 0x7f | 0x80, 2][..], &[0xff; 9], &[1]].concat();
        let trainer = [vec![3 << 3, 2], minus_one].concat();
        let bytes = [field(1, &token), field(2, &trainer), field(3, &[3 << 3, 0]), field(7, b"?")].concat();
        let model = read("m", &bytes).unwrap();
        assert_eq!(model.pieces, [Piece { text: "▁é".to_owned(), score: -1.5, kind: 4 }]);
        assert_eq!((model.model_type, model.bos_id, model.eos_id), (2, None, Some(2)));
        assert!(!model.adds_space_prefix && model.removes_extra_spaces);
        for end in 0..bytes.len() {
            let cut = read("m", &bytes[..end]);
            assert!(cut.is_err() || end >= field(1, &token).len(), "cut at {end}: {cut:?}");
        }
    }

    #[test]
    fn lengths_beyond_the_end_are_refused() {
        for (bytes, expected) in [
            (
                &[0x0a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01][..],
                "18446744073709551615 more bytes",
            ),
            (&[0x0a, 5, 1], "expected 5 more bytes, found 1"),
            (&[0x80; 12], "a number of at most ten bytes"),
            (&[0x0b], "wire type 3"),
            (&[0x0a, 2, 0x18, 7], "a kind from 1 to 6"),
            (&[0x0a, 3, 0x0a, 1, 0xff], "UTF-8"),
            (&[], "no tokens"),
        ] {
            let error = read("m", bytes).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
