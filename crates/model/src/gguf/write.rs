//! Writing GGUF files.
//!
//! The writer holds everything to the rules that the reader checks, so what it wrote can be read.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;
use std::io::{self, Write};
use std::sync::Arc;

use duan_quant::Format;

use super::file::{ALIGNMENT_KEY, check_alignment};
use super::metadata::Metadata;
use super::tensor::size_in_bytes;
use super::value::{Array, Value};
use crate::error::{Error, Result};

/// The type id of a tensor in `format`.
///
/// # Errors
/// When GGUF has no such type: our own formats have no place in its files.
pub fn type_id(file: &str, tensor: &str, format: &Format) -> Result<u32> {
    format.gguf_id.ok_or_else(|| {
        let found = format!("{}, which GGUF files cannot hold", format.name);
        Error::tensor(file, tensor, "a format of GGUF", found).with_remedy("choose another one, such as Q4_0 or Q4_K")
    })
}

/// A GGUF file to be written: metadata and tensors in the order in which they were added.
///
/// ```
/// use duan_model::gguf::{GgufFile, write::GgufWriter};
///
/// let mut writer = GgufWriter::new("tiny");
/// writer.key("general.architecture", "llama")?;
/// writer.tensor("weight", &[2], 0, [1.0f32, 2.0].iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>())?;
/// let file = GgufFile::from_bytes(writer.to_bytes(), "tiny")?;
/// assert_eq!(file.tensors()[0].bytes, Some(8));
/// # Ok::<(), duan_model::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct GgufWriter<'a> {
    label: String,
    version: u32,
    alignment: u32,
    metadata: Metadata,
    tensors: Vec<Tensor<'a>>,
    names: HashSet<String>,
}

#[derive(Debug, Clone)]
struct Tensor<'a> {
    name: String,
    dims: Vec<u64>,
    type_id: u32,
    data: Data<'a>,
}

/// What writes the bytes of a tensor, piece by piece, as often as the file is written.
type WriteTensor<'a> = dyn Fn(&mut dyn Write) -> io::Result<()> + Send + Sync + 'a;

/// Where the bytes of a tensor come from.
#[derive(Clone)]
enum Data<'a> {
    /// They are there.
    Bytes(Cow<'a, [u8]>),
    /// They are made when they are written: so many bytes.
    Streamed(u64, Arc<WriteTensor<'a>>),
}

impl Data<'_> {
    fn len(&self) -> u64 {
        match self {
            Data::Bytes(bytes) => bytes.len() as u64,
            Data::Streamed(len, _) => *len,
        }
    }
}

impl fmt::Debug for Data<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if matches!(self, Data::Bytes(_)) { "bytes" } else { "bytes to come" };
        write!(f, "{} {kind}", self.len())
    }
}

impl<'a> GgufWriter<'a> {
    /// An empty file in version 3 with alignment 32; `label` is what messages call it.
    pub fn new(label: &str) -> GgufWriter<'a> {
        GgufWriter {
            label: label.to_owned(),
            version: 3,
            alignment: 32,
            metadata: Metadata::new(label),
            tensors: Vec::new(),
            names: HashSet::new(),
        }
    }

    /// Sets the version, 2 or 3. They differ in nothing that is written here.
    ///
    /// # Errors
    /// For other versions.
    pub fn version(&mut self, version: u32) -> Result<&mut Self> {
        if !matches!(version, 2 | 3) {
            let what = format!("duan cannot write GGUF version {version}");
            return Err(Error::unsupported(&self.label, what, "choose version 2 or 3"));
        }
        self.version = version;
        Ok(self)
    }

    /// Adds a metadata entry. `general.alignment` also sets the alignment.
    ///
    /// # Errors
    /// For a key that is there already, and an alignment that is no `u32`, no power of two or above 16 MiB.
    pub fn key(&mut self, key: &str, value: impl Into<Value>) -> Result<&mut Self> {
        let value = value.into();
        let alignment = if key == ALIGNMENT_KEY { check_alignment(&self.label, &value)? } else { self.alignment };
        self.metadata.insert(key, value)?;
        self.alignment = alignment;
        Ok(self)
    }

    /// Adds a tensor: dims with the fastest first, GGUF type id, and its data.
    ///
    /// # Errors
    /// For a name that is there already, dims that are no shape or do not fit the type, and data whose length
    /// is not that of the shape. The length is not checked where the size of the type is not known.
    pub fn tensor(
        &mut self,
        name: &str,
        dims: &[u64],
        type_id: u32,
        bytes: impl Into<Cow<'a, [u8]>>,
    ) -> Result<&mut Self> {
        let bytes = bytes.into();
        if let Some(size) = self.size_of(name, dims, type_id)?
            && size != bytes.len() as u64
        {
            let expected = format!("{size} bytes for dims {dims:?}");
            return Err(Error::tensor(&self.label, name, expected, format!("{} bytes", bytes.len())));
        }
        self.push(name, dims, type_id, Data::Bytes(bytes))
    }

    /// Adds a tensor whose data is made when the file is written: `write` gets a place to write it to, in pieces of any size,
    /// so that a file can be larger than the memory. [`GgufWriter::write`] holds it to the length of the shape.
    ///
    /// # Errors
    /// As [`GgufWriter::tensor`], and for a type whose size is not known.
    pub fn tensor_with(
        &mut self,
        name: &str,
        dims: &[u64],
        type_id: u32,
        write: impl Fn(&mut dyn Write) -> io::Result<()> + Send + Sync + 'a,
    ) -> Result<&mut Self> {
        let size = self.size_of(name, dims, type_id)?.ok_or_else(|| {
            Error::tensor(&self.label, name, "a type whose size is known", format!("type id {type_id}"))
        })?;
        self.push(name, dims, type_id, Data::Streamed(size, Arc::new(write)))
    }

    /// Bytes that a tensor of this shape has, where the type is known.
    fn size_of(&self, name: &str, dims: &[u64], type_id: u32) -> Result<Option<u64>> {
        if !(1..=4).contains(&dims.len()) || dims.contains(&0) {
            return Err(Error::tensor(&self.label, name, "1 to 4 dims that are not 0", format!("{dims:?}")));
        }
        size_in_bytes(&self.label, name, dims, type_id)
    }

    fn push(&mut self, name: &str, dims: &[u64], type_id: u32, data: Data<'a>) -> Result<&mut Self> {
        if !self.names.insert(name.to_owned()) {
            return Err(Error::tensor(&self.label, name, "each tensor once", "a duplicate name"));
        }
        self.tensors.push(Tensor { name: name.to_owned(), dims: dims.to_vec(), type_id, data });
        Ok(self)
    }

    /// The length that the file will have, in bytes.
    pub fn file_bytes(&self) -> u64 {
        let padded = |bytes: u64| bytes.next_multiple_of(u64::from(self.alignment));
        self.tensors
            .iter()
            .map(|tensor| padded(tensor.data.len()))
            .fold(padded(self.header().len() as u64), u64::saturating_add)
    }

    /// Writes the file and returns its length in bytes. Each tensor, the last one too, is padded with zeros to
    /// the alignment.
    ///
    /// # Errors
    /// Those of `out` and of what makes the tensors; [`io::ErrorKind::InvalidData`] where that writes more or less than
    /// the shape has.
    pub fn write(&self, out: &mut impl Write) -> io::Result<u64> {
        let header = self.header();
        out.write_all(&header)?;
        let mut written = pad(out, header.len() as u64, self.alignment)?;
        for tensor in &self.tensors {
            match &tensor.data {
                Data::Bytes(bytes) => out.write_all(bytes)?,
                Data::Streamed(len, write) => {
                    let mut part = Part { out, name: &tensor.name, len: *len, left: *len };
                    write(&mut part)?;
                    part.finish()?;
                }
            }
            written += pad(out, tensor.data.len(), self.alignment)?;
        }
        Ok(written)
    }

    /// The file as bytes. Panics where what makes a tensor of [`GgufWriter::tensor_with`] fails.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.write(&mut bytes).expect("writing to a vector does not fail, and tensors are as long as was said");
        bytes
    }

    /// Everything before the data, without padding.
    fn header(&self) -> Vec<u8> {
        let mut out = Vec::new();
        out.extend_from_slice(b"GGUF");
        out.extend_from_slice(&self.version.to_le_bytes());
        out.extend_from_slice(&(self.tensors.len() as u64).to_le_bytes());
        out.extend_from_slice(&(self.metadata.len() as u64).to_le_bytes());
        for (key, value) in self.metadata.iter() {
            put_string(&mut out, key);
            put_value(&mut out, value);
        }
        let mut offset = 0u64;
        for tensor in &self.tensors {
            put_string(&mut out, &tensor.name);
            out.extend_from_slice(&(tensor.dims.len() as u32).to_le_bytes());
            for dim in &tensor.dims {
                out.extend_from_slice(&dim.to_le_bytes());
            }
            out.extend_from_slice(&tensor.type_id.to_le_bytes());
            out.extend_from_slice(&offset.to_le_bytes());
            offset += tensor.data.len().next_multiple_of(u64::from(self.alignment));
        }
        out
    }
}

/// Writes zeros behind `bytes` bytes up to the alignment, and returns how many bytes there are then.
fn pad(out: &mut impl Write, bytes: u64, alignment: u32) -> io::Result<u64> {
    let padded = bytes.next_multiple_of(u64::from(alignment));
    let mut left = (padded - bytes) as usize;
    while left > 0 {
        let part = left.min(4096);
        out.write_all(&[0; 4096][..part])?;
        left -= part;
    }
    Ok(padded)
}

/// The place of one tensor in the file: takes no byte more than the tensor has.
struct Part<'p, W> {
    out: &'p mut W,
    name: &'p str,
    len: u64,
    left: u64,
}

impl<W: Write> Part<'_, W> {
    fn wrong_length(&self, found: &str) -> io::Error {
        let message = format!("tensor `{}`: expected {} bytes, found {found}", self.name, self.len);
        io::Error::new(io::ErrorKind::InvalidData, message)
    }

    fn finish(self) -> io::Result<()> {
        if self.left == 0 { Ok(()) } else { Err(self.wrong_length(&(self.len - self.left).to_string())) }
    }
}

impl<W: Write> Write for Part<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.len() as u64 > self.left {
            return Err(self.wrong_length("more"));
        }
        let written = self.out.write(bytes)?;
        self.left -= written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

fn put_string(out: &mut Vec<u8>, string: &str) {
    out.extend_from_slice(&(string.len() as u64).to_le_bytes());
    out.extend_from_slice(string.as_bytes());
}

/// The type of a value, then the value.
fn put_value(out: &mut Vec<u8>, value: &Value) {
    let mut put = |type_id: u32, bytes: &[u8]| {
        out.extend_from_slice(&type_id.to_le_bytes());
        out.extend_from_slice(bytes);
    };
    match value {
        Value::U8(x) => put(0, &x.to_le_bytes()),
        Value::I8(x) => put(1, &x.to_le_bytes()),
        Value::U16(x) => put(2, &x.to_le_bytes()),
        Value::I16(x) => put(3, &x.to_le_bytes()),
        Value::U32(x) => put(4, &x.to_le_bytes()),
        Value::I32(x) => put(5, &x.to_le_bytes()),
        Value::F32(x) => put(6, &x.to_le_bytes()),
        Value::Bool(x) => put(7, &[u8::from(*x)]),
        Value::String(string) => {
            put(8, &[]);
            put_string(out, string);
        }
        Value::Array(array) => {
            put(9, &[]);
            put_array(out, array);
        }
        Value::U64(x) => put(10, &x.to_le_bytes()),
        Value::I64(x) => put(11, &x.to_le_bytes()),
        Value::F64(x) => put(12, &x.to_le_bytes()),
    }
}

/// The type of the items, their count, then the items.
fn put_array(out: &mut Vec<u8>, array: &Array) {
    fn put<const BYTES: usize>(out: &mut Vec<u8>, type_id: u32, items: impl ExactSizeIterator<Item = [u8; BYTES]>) {
        out.extend_from_slice(&type_id.to_le_bytes());
        out.extend_from_slice(&(items.len() as u64).to_le_bytes());
        out.extend(items.flatten());
    }
    match array {
        Array::U8(items) => put(out, 0, items.iter().map(|x| x.to_le_bytes())),
        Array::I8(items) => put(out, 1, items.iter().map(|x| x.to_le_bytes())),
        Array::U16(items) => put(out, 2, items.iter().map(|x| x.to_le_bytes())),
        Array::I16(items) => put(out, 3, items.iter().map(|x| x.to_le_bytes())),
        Array::U32(items) => put(out, 4, items.iter().map(|x| x.to_le_bytes())),
        Array::I32(items) => put(out, 5, items.iter().map(|x| x.to_le_bytes())),
        Array::F32(items) => put(out, 6, items.iter().map(|x| x.to_le_bytes())),
        Array::Bool(items) => put(out, 7, items.iter().map(|&x| [u8::from(x)])),
        Array::String(strings) => {
            out.extend_from_slice(&8u32.to_le_bytes());
            out.extend_from_slice(&(strings.len() as u64).to_le_bytes());
            strings.iter().for_each(|string| put_string(out, string));
        }
        Array::Nested(arrays) => {
            out.extend_from_slice(&9u32.to_le_bytes());
            out.extend_from_slice(&(arrays.len() as u64).to_le_bytes());
            arrays.iter().for_each(|array| put_array(out, array));
        }
        Array::U64(items) => put(out, 10, items.iter().map(|x| x.to_le_bytes())),
        Array::I64(items) => put(out, 11, items.iter().map(|x| x.to_le_bytes())),
        Array::F64(items) => put(out, 12, items.iter().map(|x| x.to_le_bytes())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gguf::GgufFile;

    const F32: u32 = 0;

    #[test]
    fn a_streamed_tensor_is_the_same_file() {
        let data: Vec<u8> = (0..40u8).collect();
        let mut whole = GgufWriter::new("whole");
        whole.key("general.architecture", "llama").unwrap();
        let mut streamed = whole.clone();
        whole.tensor("a", &[5], F32, &data[..20]).unwrap().tensor("b", &[10], F32, &data[..]).unwrap();
        let pieces = |length: usize, step: usize| {
            let data = data.clone();
            move |out: &mut dyn Write| data[..length].chunks(step).try_for_each(|piece| out.write_all(piece))
        };
        streamed
            .tensor_with("a", &[5], F32, pieces(20, 7))
            .unwrap()
            .tensor_with("b", &[10], F32, pieces(40, 1))
            .unwrap();
        assert_eq!(streamed.to_bytes(), whole.to_bytes());
        assert_eq!(streamed.file_bytes(), whole.to_bytes().len() as u64);
        let file = GgufFile::from_bytes(streamed.to_bytes(), "streamed").unwrap();
        assert_eq!(&*file.tensor_data(&file.tensors()[1]).unwrap(), &data[..]);
    }

    #[test]
    fn a_streamed_tensor_is_held_to_its_length() {
        for (bytes, found) in [(19usize, "found 19"), (21, "found more"), (0, "found 0")] {
            let mut writer = GgufWriter::new("wrong");
            writer.tensor_with("a", &[5], F32, move |out| out.write_all(&vec![0; bytes])).unwrap();
            let error = writer.write(&mut Vec::new()).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidData);
            let text = error.to_string();
            assert!(text.contains("`a`: expected 20 bytes") && text.contains(found), "{text}");
        }
        let mut writer = GgufWriter::new("unknown");
        assert!(writer.tensor_with("a", &[5], 999, |_| Ok(())).unwrap_err().to_string().contains("999"));
        assert!(writer.tensor_with("a", &[], F32, |_| Ok(())).is_err());
    }

    #[test]
    fn errors_of_a_source_come_through() {
        let mut writer = GgufWriter::new("failing");
        writer.tensor_with("a", &[5], F32, |_| Err(io::ErrorKind::StorageFull.into())).unwrap();
        assert_eq!(writer.write(&mut Vec::new()).unwrap_err().kind(), io::ErrorKind::StorageFull);
    }
}
