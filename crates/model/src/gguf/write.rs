//! Writing GGUF files.
//!
//! The writer holds everything to the rules that the reader checks, so what it wrote can be read.

use std::borrow::Cow;
use std::collections::HashSet;
use std::io;

use super::file::{ALIGNMENT_KEY, check_alignment};
use super::metadata::Metadata;
use super::tensor::size_in_bytes;
use super::value::{Array, Value};
use crate::error::{Error, Result};

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
    bytes: Cow<'a, [u8]>,
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
        if !(1..=4).contains(&dims.len()) || dims.contains(&0) {
            return Err(Error::tensor(&self.label, name, "1 to 4 dims that are not 0", format!("{dims:?}")));
        }
        if let Some(size) = size_in_bytes(&self.label, name, dims, type_id)?
            && size != bytes.len() as u64
        {
            let expected = format!("{size} bytes for dims {dims:?}");
            return Err(Error::tensor(&self.label, name, expected, format!("{} bytes", bytes.len())));
        }
        if !self.names.insert(name.to_owned()) {
            return Err(Error::tensor(&self.label, name, "each tensor once", "a duplicate name"));
        }
        self.tensors.push(Tensor { name: name.to_owned(), dims: dims.to_vec(), type_id, bytes });
        Ok(self)
    }

    /// Writes the file and returns its length in bytes. Each tensor, the last one too, is padded with zeros to
    /// the alignment.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write(&self, out: &mut impl io::Write) -> io::Result<u64> {
        let header = self.header();
        let mut written = write_padded(out, &header, self.alignment)?;
        for tensor in &self.tensors {
            written += write_padded(out, &tensor.bytes, self.alignment)?;
        }
        Ok(written)
    }

    /// The file as bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        // Writing to a vector does not fail.
        let _ = self.write(&mut bytes);
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
            offset += (tensor.bytes.len() as u64).next_multiple_of(u64::from(self.alignment));
        }
        out
    }
}

fn write_padded(out: &mut impl io::Write, bytes: &[u8], alignment: u32) -> io::Result<u64> {
    let padded = (bytes.len() as u64).next_multiple_of(u64::from(alignment));
    out.write_all(bytes)?;
    let mut left = (padded - bytes.len() as u64) as usize;
    while left > 0 {
        let part = left.min(4096);
        out.write_all(&[0; 4096][..part])?;
        left -= part;
    }
    Ok(padded)
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
