//! A cursor over the header of a GGUF file: nothing is read, counted or allocated beyond the bytes that are there.

use std::fmt;

use super::value::{Array, StringArray, Value};
use crate::error::{Error, Result, quoted};

/// Arrays may hold arrays this deep. Real files have none inside arrays.
const DEPTH_LIMIT: usize = 4;

/// Vectors start with room for at most this many items, whatever the file announces, and grow as items are really read.
const FIRST_CAPACITY: usize = 1 << 16;

/// Where in the header the reader is, for messages.
#[derive(Clone, Copy)]
pub(super) enum Place<'a> {
    Header,
    Entry(u64),
    Key(&'a str),
    TensorInfo(u64),
    Tensor(&'a str),
}

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Header => f.write_str("the header"),
            Place::Entry(index) => write!(f, "metadata entry {index}"),
            Place::Key(key) => write!(f, "metadata key `{}`", quoted(key)),
            Place::TensorInfo(index) => write!(f, "the entry of tensor {index}"),
            Place::Tensor(name) => write!(f, "the entry of tensor `{}`", quoted(name)),
        }
    }
}

/// The cursor.
pub(super) struct Reader<'a> {
    label: &'a str,
    bytes: &'a [u8],
    position: usize,
    /// The file goes on after `bytes`, which end at the limit for headers.
    is_limited: bool,
}

impl<'a> Reader<'a> {
    /// Over the first `limit` bytes of `file`; `label` is its name for messages.
    pub(super) fn new(label: &'a str, file: &'a [u8], limit: usize) -> Reader<'a> {
        Reader { label, bytes: &file[..file.len().min(limit)], position: 0, is_limited: file.len() > limit }
    }

    /// Bytes read so far.
    pub(super) fn position(&self) -> usize {
        self.position
    }

    fn remaining(&self) -> u64 {
        (self.bytes.len() - self.position) as u64
    }

    /// An error about the thing that was just read.
    pub(super) fn malformed(&self, place: Place, expected: impl Into<String>, found: impl Into<String>) -> Error {
        Error::Malformed {
            file: self.label.into(),
            place: place.to_string(),
            expected: expected.into(),
            found: found.into(),
            remedy: "the file is damaged or was made wrongly, fetch it again".into(),
        }
    }

    /// The next `count` bytes.
    pub(super) fn take(&mut self, count: u64, place: Place) -> Result<&'a [u8]> {
        let available = self.remaining();
        if count > available {
            if self.is_limited {
                let expected = format!("a header of at most {} bytes", self.bytes.len());
                return Err(self.malformed(place, expected, format!("{count} more bytes at byte {}", self.position)));
            }
            let place = format!("{place} at byte {}", self.position);
            return Err(Error::Truncated { file: self.label.into(), place, needed: count, available });
        }
        // `count` is at most the length of a slice, so it fits a usize.
        let start = self.position;
        self.position += count as usize;
        Ok(&self.bytes[start..self.position])
    }

    fn fixed<const BYTES: usize>(&mut self, place: Place) -> Result<[u8; BYTES]> {
        let mut out = [0; BYTES];
        out.copy_from_slice(self.take(BYTES as u64, place)?);
        Ok(out)
    }

    pub(super) fn u32(&mut self, place: Place) -> Result<u32> {
        Ok(u32::from_le_bytes(self.fixed(place)?))
    }

    pub(super) fn u64(&mut self, place: Place) -> Result<u64> {
        Ok(u64::from_le_bytes(self.fixed(place)?))
    }

    /// Refuses a `count` of things that take at least `least_bytes` each where they cannot all be there.
    pub(super) fn check_count(&self, count: u64, what: &str, least_bytes: u64, place: Place) -> Result<()> {
        let most = self.remaining() / least_bytes;
        if count > most {
            let expected = format!("at most {most} {what}, which is what the {} bytes left can hold", self.remaining());
            return Err(self.malformed(place, expected, count.to_string()));
        }
        Ok(())
    }

    /// A string: its length as `u64`, then UTF-8.
    pub(super) fn string(&mut self, place: Place) -> Result<String> {
        let length = self.u64(place)?;
        let bytes = self.take(length, place)?.to_vec();
        String::from_utf8(bytes).map_err(|error| {
            let at = error.utf8_error().valid_up_to();
            self.malformed(place, "UTF-8 text", format!("a byte sequence that is none at byte {at} of {length}"))
        })
    }

    /// A value of the type `type_id`.
    pub(super) fn value(&mut self, type_id: u32, place: Place) -> Result<Value> {
        Ok(match type_id {
            0 => Value::U8(u8::from_le_bytes(self.fixed(place)?)),
            1 => Value::I8(i8::from_le_bytes(self.fixed(place)?)),
            2 => Value::U16(u16::from_le_bytes(self.fixed(place)?)),
            3 => Value::I16(i16::from_le_bytes(self.fixed(place)?)),
            4 => Value::U32(u32::from_le_bytes(self.fixed(place)?)),
            5 => Value::I32(i32::from_le_bytes(self.fixed(place)?)),
            6 => Value::F32(f32::from_le_bytes(self.fixed(place)?)),
            7 => Value::Bool(self.bools(1, place)?[0]),
            8 => Value::String(self.string(place)?),
            9 => Value::Array(self.array(1, place)?),
            10 => Value::U64(u64::from_le_bytes(self.fixed(place)?)),
            11 => Value::I64(i64::from_le_bytes(self.fixed(place)?)),
            12 => Value::F64(f64::from_le_bytes(self.fixed(place)?)),
            _ => {
                return Err(self.malformed(place, "a value type from 0 to 12", format!("type {type_id}")));
            }
        })
    }

    /// An array: the type of its items, their count, the items. `depth` is 1 for one that stands in no other.
    fn array(&mut self, depth: usize, place: Place) -> Result<Array> {
        if depth > DEPTH_LIMIT {
            return Err(self.malformed(place, format!("arrays nested at most {DEPTH_LIMIT} deep"), "a deeper one"));
        }
        let type_id = self.u32(place)?;
        let count = self.u64(place)?;
        Ok(match type_id {
            0 => Array::U8(self.scalars(count, place, u8::from_le_bytes)?),
            1 => Array::I8(self.scalars(count, place, i8::from_le_bytes)?),
            2 => Array::U16(self.scalars(count, place, u16::from_le_bytes)?),
            3 => Array::I16(self.scalars(count, place, i16::from_le_bytes)?),
            4 => Array::U32(self.scalars(count, place, u32::from_le_bytes)?),
            5 => Array::I32(self.scalars(count, place, i32::from_le_bytes)?),
            6 => Array::F32(self.scalars(count, place, f32::from_le_bytes)?),
            7 => Array::Bool(self.bools(count, place)?),
            8 => Array::String(self.strings(count, place)?),
            9 => {
                self.check_count(count, "arrays", 12, place)?;
                let mut items = Vec::new();
                for _ in 0..count {
                    items.push(self.array(depth + 1, place)?);
                }
                Array::Nested(items)
            }
            10 => Array::U64(self.scalars(count, place, u64::from_le_bytes)?),
            11 => Array::I64(self.scalars(count, place, i64::from_le_bytes)?),
            12 => Array::F64(self.scalars(count, place, f64::from_le_bytes)?),
            _ => {
                return Err(self.malformed(place, "an array type from 0 to 12", format!("type {type_id}")));
            }
        })
    }

    fn scalars<T, const BYTES: usize>(
        &mut self,
        count: u64,
        place: Place,
        decode: impl Fn([u8; BYTES]) -> T,
    ) -> Result<Vec<T>> {
        self.check_count(count, "array items", BYTES as u64, place)?;
        // The check makes the product fit: it is at most the number of bytes left.
        let (items, _) = self.take(count * BYTES as u64, place)?.as_chunks::<BYTES>();
        Ok(items.iter().map(|bytes| decode(*bytes)).collect())
    }

    fn bools(&mut self, count: u64, place: Place) -> Result<Vec<bool>> {
        self.check_count(count, "array items", 1, place)?;
        let bytes = self.take(count, place)?.to_vec();
        if let Some(other) = bytes.iter().find(|&&byte| byte > 1) {
            return Err(self.malformed(place, "a bool, 0 or 1", format!("{other}")));
        }
        Ok(bytes.into_iter().map(|byte| byte == 1).collect())
    }

    fn strings(&mut self, count: u64, place: Place) -> Result<StringArray> {
        self.check_count(count, "strings", 8, place)?;
        let mut text = Vec::new();
        let mut ends = Vec::with_capacity((count as usize).min(FIRST_CAPACITY));
        for _ in 0..count {
            let length = self.u64(place)?;
            text.extend_from_slice(self.take(length, place)?);
            ends.push(text.len());
        }
        // All strings are UTF-8 exactly when their concatenation is and none ends inside a character: two fast passes.
        let checked = match String::from_utf8(text) {
            Ok(text) => StringArray::from_parts(text, ends),
            Err(error) => {
                let valid_bytes = error.utf8_error().valid_up_to();
                Err(ends.partition_point(|&end| end <= valid_bytes))
            }
        };
        checked.map_err(|index| {
            self.malformed(place, "UTF-8 text", format!("a byte sequence that is none in string {index}"))
        })
    }
}
