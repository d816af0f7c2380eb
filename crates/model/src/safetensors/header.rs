//! The header of a safetensors file, checked.

use std::fmt;

use duan_quant::Format;
use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};

use crate::error::{Error, Result, quoted};
use crate::gguf::failed_download;

/// The longest header that is accepted, as in the library of Hugging Face.
pub const HEADER_LIMIT_BYTES: u64 = 100_000_000;

/// Most tensors of a file: far more than any has, and few enough that a header made to take memory takes little.
const MOST_TENSORS: usize = 1 << 17;

/// Most axes of a tensor: far more than any model has.
const MOST_AXES: usize = 8;

const METADATA: &str = "__metadata__";
const FETCH_AGAIN: &str = "the file is damaged or was made wrongly, fetch it again";

/// The type of a tensor's numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names are those of the format")]
#[non_exhaustive]
pub enum Dtype {
    F64,
    F32,
    F16,
    BF16,
    F8E4M3,
    F8E5M2,
    F8E8M0,
    F6E2M3,
    F6E3M2,
    F4,
    I64,
    I32,
    I16,
    I8,
    U64,
    U32,
    U16,
    U8,
    Bool,
    C64,
}

/// Names in files, types, bits of a number.
const DTYPES: &[(&str, Dtype, u64)] = &[
    ("F64", Dtype::F64, 64),
    ("F32", Dtype::F32, 32),
    ("F16", Dtype::F16, 16),
    ("BF16", Dtype::BF16, 16),
    ("F8_E4M3", Dtype::F8E4M3, 8),
    ("F8_E5M2", Dtype::F8E5M2, 8),
    ("F8_E8M0", Dtype::F8E8M0, 8),
    ("F6_E2M3", Dtype::F6E2M3, 6),
    ("F6_E3M2", Dtype::F6E3M2, 6),
    ("F4", Dtype::F4, 4),
    ("I64", Dtype::I64, 64),
    ("I32", Dtype::I32, 32),
    ("I16", Dtype::I16, 16),
    ("I8", Dtype::I8, 8),
    ("U64", Dtype::U64, 64),
    ("U32", Dtype::U32, 32),
    ("U16", Dtype::U16, 16),
    ("U8", Dtype::U8, 8),
    ("BOOL", Dtype::Bool, 8),
    ("C64", Dtype::C64, 64),
];

impl Dtype {
    fn by_name(name: &str) -> Option<Dtype> {
        DTYPES.iter().find(|row| row.0 == name).map(|row| row.1)
    }

    fn row(self) -> &'static (&'static str, Dtype, u64) {
        DTYPES.iter().find(|row| row.1 == self).expect("every type has a row")
    }

    /// Its name in files.
    pub fn name(self) -> &'static str {
        self.row().0
    }

    /// Bits of one number.
    pub fn bits(self) -> u64 {
        self.row().2
    }

    /// The weight format whose bytes are the same; `None` where there is none.
    pub fn format(self) -> Option<&'static Format> {
        let name = match self {
            Dtype::F32 => "F32",
            Dtype::F16 => "F16",
            Dtype::BF16 => "BF16",
            _ => return None,
        };
        duan_quant::format_by_name(name)
    }
}

/// What a file says of one tensor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TensorEntry {
    /// Name, unique in the file.
    pub name: String,
    /// The type of its numbers.
    pub dtype: Dtype,
    /// The axes, the slowest first: `[rows, columns]`. Empty for a single number.
    pub shape: Vec<u64>,
    /// Where the data begins, in bytes from the start of the file.
    pub offset: u64,
    /// Bytes of the data, all inside the file.
    pub bytes: u64,
}

/// One tensor as it stands in the JSON.
#[derive(serde::Deserialize)]
struct Raw {
    dtype: String,
    shape: Vec<u64>,
    data_offsets: (u64, u64),
}

/// The whole header: entries in their order.
struct RawHeader {
    entries: Vec<(String, Raw)>,
}

impl<'de> Deserialize<'de> for RawHeader {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        struct Entries;
        impl<'de> Visitor<'de> for Entries {
            type Value = RawHeader;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object with an entry for each tensor")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> std::result::Result<RawHeader, A::Error> {
                let (mut entries, mut has_metadata) = (Vec::new(), false);
                while let Some(name) = map.next_key::<String>()? {
                    if entries.len() == MOST_TENSORS {
                        return Err(serde::de::Error::custom(format!("more than {MOST_TENSORS} tensors")));
                    }
                    if name == METADATA {
                        if std::mem::replace(&mut has_metadata, true) {
                            return Err(serde::de::Error::custom(format!("a duplicate `{METADATA}`")));
                        }
                        map.next_value::<IgnoredAny>()?;
                    } else {
                        entries.push((name, map.next_value()?));
                    }
                }
                Ok(RawHeader { entries })
            }
        }
        deserializer.deserialize_map(Entries)
    }
}

/// Reads and checks the header at the start of `file`.
pub(super) fn read(label: &str, file: &[u8]) -> Result<Vec<TensorEntry>> {
    let available = file.len() as u64;
    if let Some((what, remedy)) = failed_download(file) {
        return Err(Error::wrong_file(label, format!("this is {what}, not a safetensors file"), remedy));
    }
    let Some((length, rest)) = file.split_first_chunk::<8>() else {
        return Err(Error::Truncated {
            file: label.into(),
            place: "the length of the header".into(),
            needed: 8,
            available,
        });
    };
    let length = u64::from_le_bytes(*length);
    if !file.is_empty() && rest.first() != Some(&b'{') {
        let found = "this is not a safetensors file (its header does not begin with `{`)";
        return Err(Error::wrong_file(label, found, "fetch the file again, or name another one"));
    }
    if length > HEADER_LIMIT_BYTES {
        let expected = format!("a header of at most {HEADER_LIMIT_BYTES} bytes");
        return Err(malformed(label, "the length of the header", expected, format!("{length} bytes")));
    }
    let header = rest.get(..length as usize).ok_or_else(|| Error::Truncated {
        file: label.into(),
        place: "the header".into(),
        needed: length,
        available: rest.len() as u64,
    })?;
    let header: RawHeader = serde_json::from_slice(header)
        .map_err(|error| malformed(label, "the header", "an entry for each tensor", quoted(&error.to_string())))?;
    let mut names: Vec<&str> = header.entries.iter().map(|entry| &*entry.0).collect();
    names.sort_unstable();
    if let Some(pair) = names.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(Error::tensor(label, pair[0], "each tensor once", "a duplicate name").with_remedy(FETCH_AGAIN));
    }
    let (start, data_bytes) = (8 + length, rest.len() as u64 - length);
    let check = |(name, raw)| check(label, name, raw, start, data_bytes);
    let tensors: Vec<TensorEntry> = header.entries.into_iter().map(check).collect::<Result<_>>()?;
    check_overlaps(label, &tensors)?;
    Ok(tensors)
}

fn malformed(label: &str, place: &str, expected: impl Into<String>, found: String) -> Error {
    let (file, place) = (label.to_owned(), place.to_owned());
    Error::Malformed { file, place, expected: expected.into(), found, remedy: FETCH_AGAIN.to_owned() }
}

/// Holds one entry against the `data_bytes` that follow the header, which ends at `start`.
fn check(label: &str, name: String, raw: Raw, start: u64, data_bytes: u64) -> Result<TensorEntry> {
    let wrong = |expected: String, found: String| Error::tensor(label, &name, expected, found).with_remedy(FETCH_AGAIN);
    let Some(dtype) = Dtype::by_name(&raw.dtype) else {
        let known: Vec<&str> = DTYPES.iter().map(|row| row.0).collect();
        let error = Error::tensor(label, &name, format!("one of {}", known.join(", ")), quoted(&raw.dtype));
        return Err(error.with_remedy("this version does not read that type; update duan"));
    };
    if raw.shape.len() > MOST_AXES {
        return Err(wrong(format!("at most {MOST_AXES} axes"), raw.shape.len().to_string()));
    }
    let (begin, end) = raw.data_offsets;
    if end < begin {
        return Err(wrong("data that ends behind its begin".into(), format!("offsets {begin} to {end}")));
    }
    if end > data_bytes {
        return Err(Error::Truncated {
            file: label.to_owned(),
            place: format!("tensor `{}` at byte {}", quoted(&name), u128::from(start) + u128::from(begin)),
            needed: end - begin,
            available: data_bytes.saturating_sub(begin),
        });
    }
    let bits = raw.shape.iter().try_fold(dtype.bits(), |bits, &axis| bits.checked_mul(axis));
    let needed = bits.filter(|bits| bits.is_multiple_of(8)).map(|bits| bits / 8);
    if needed != Some(end - begin) {
        let needed = needed.map_or("more than fit 64 bits, or no whole number of".into(), |bytes| bytes.to_string());
        let expected = format!("{needed} bytes for shape {:?} of {}", raw.shape, dtype.name());
        return Err(wrong(expected, format!("{} bytes", end - begin)));
    }
    // Inside the file, so the sum fits.
    Ok(TensorEntry { dtype, shape: raw.shape, offset: start + begin, bytes: end - begin, name })
}

fn check_overlaps(label: &str, tensors: &[TensorEntry]) -> Result<()> {
    let mut by_offset: Vec<&TensorEntry> = tensors.iter().filter(|tensor| tensor.bytes > 0).collect();
    by_offset.sort_by_key(|tensor| tensor.offset);
    for pair in by_offset.windows(2) {
        let (before, after) = (pair[0], pair[1]);
        let end = before.offset + before.bytes;
        if after.offset < end {
            let expected = format!("data after byte {end}, where tensor `{}` ends", quoted(&before.name));
            return Err(Error::tensor(label, &after.name, expected, format!("an overlap at byte {}", after.offset))
                .with_remedy(FETCH_AGAIN));
        }
    }
    Ok(())
}
