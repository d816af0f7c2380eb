//! A GGUF file that was opened and checked.

use std::collections::HashMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use duan_quant::TypeStatus;

use super::identify::check_start;
use super::metadata::Metadata;
use super::reader::{Place, Reader};
use super::split;
use super::tensor::{self, TensorInfo};
use super::value::Value;
use crate::bytes::SharedBytes;
use crate::error::{Error, Result, file_label, quoted};
use crate::pieces::{FileLength, Piece, disk_files};

/// Header, metadata and tensor entries must end within the first 256 MiB. The largest known (a vocabulary of
/// 256 thousand tokens and a whole tokenizer as JSON) take about 50 MiB; without a limit, a damaged count in a
/// large file could fill the memory.
pub const HEADER_LIMIT_BYTES: usize = 256 << 20;

/// Largest alignment that is accepted: 16 MiB.
pub const ALIGNMENT_LIMIT_BYTES: u32 = 16 << 20;

/// Fewest bytes of a metadata entry: empty key, type, one byte.
const LEAST_ENTRY_BYTES: u64 = 8 + 4 + 1;

/// A GGUF file: metadata, tensor entries, and the bytes of the tensors. A model that is split into several files is one
/// `GgufFile`, with the metadata of the first.
///
/// What the entries say was checked when the file was opened: each tensor of known size lies inside the file,
/// aligned, and overlaps no other. Types that cannot be read are no error here; [`GgufFile::unsupported_types`]
/// lists them.
///
/// Cheap to clone: what was read is shared.
#[derive(Debug, Clone)]
pub struct GgufFile {
    path: PathBuf,
    version: u32,
    alignment: u32,
    data_start: u64,
    metadata: Arc<Metadata>,
    tensors: Arc<Vec<TensorInfo>>,
    index: Arc<HashMap<String, usize>>,
    /// The file, or all files of a split model in their order; never empty.
    pieces: Vec<Piece>,
}

/// A type of which a file has tensors, and which cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnsupportedType {
    /// GGUF type id.
    pub type_id: u32,
    /// Name as in GGUF, or `type 200` where it has none.
    pub name: String,
    /// Why it cannot be read.
    pub status: TypeStatus,
    /// Number of tensors of this type.
    pub count: usize,
    /// Name of the first of them.
    pub example: String,
}

impl GgufFile {
    /// Opens and checks the file at `path`, which is mapped: only the pages of its header are read now. Where it is a piece
    /// of a split model, whichever one, the others are looked for beside it and opened too.
    ///
    /// # Errors
    /// Where the file cannot be opened, is something else, is cut short, or breaks a rule of the format, and where a
    /// piece of a split model is missing or does not belong to the others; each in one line.
    pub fn open(path: &Path) -> Result<GgufFile> {
        split::open_all(path, GgufFile::map_one)
    }

    /// Like [`GgufFile::open`], and copies the whole file to memory instead of mapping it.
    ///
    /// # Errors
    /// As [`GgufFile::open`].
    pub fn read(path: &Path) -> Result<GgufFile> {
        split::open_all(path, GgufFile::copy_one)
    }

    /// Checks a file that is in memory; `name` is what messages call it.
    ///
    /// # Errors
    /// As [`GgufFile::open`], and for a piece of a split model.
    pub fn from_bytes(bytes: Vec<u8>, name: &str) -> Result<GgufFile> {
        let path = PathBuf::from(name);
        let label = file_label(&path);
        let file = GgufFile::parse(path, label, bytes.into())?;
        split::check_is_whole(&file)?;
        Ok(file)
    }

    /// Maps one file, whole or a piece.
    fn map_one(path: &Path) -> Result<GgufFile> {
        let file = open_regular(path)?;
        let label = file_label(path);
        let is_empty = file.metadata().map_err(|error| Error::io(&label, "read its size", error))?.len() == 0;
        let bytes = if is_empty {
            // Systems refuse to map nothing, and the message for an empty file is better.
            SharedBytes::from(Vec::new())
        } else {
            SharedBytes::map(file).map_err(|error| Error::io(&label, "map it to memory", error))?
        };
        GgufFile::parse(path.to_owned(), label, bytes)
    }

    /// Copies one file, whole or a piece.
    fn copy_one(path: &Path) -> Result<GgufFile> {
        use std::io::Read as _;
        let label = file_label(path);
        let mut bytes = Vec::new();
        open_regular(path)?.read_to_end(&mut bytes).map_err(|error| Error::io(&label, "read it", error))?;
        GgufFile::parse(path.to_owned(), label, bytes.into())
    }

    fn parse(path: PathBuf, label: String, bytes: SharedBytes) -> Result<GgufFile> {
        let version = check_start(&label, &bytes)?;
        let mut reader = Reader::new(&label, &bytes, HEADER_LIMIT_BYTES);
        reader.take(8, Place::Header)?;
        let tensor_count = reader.u64(Place::Header)?;
        let entry_count = reader.u64(Place::Header)?;
        reader.check_count(entry_count, "metadata entries", LEAST_ENTRY_BYTES, Place::Header)?;
        reader.check_count(tensor_count, "tensors", tensor::LEAST_ENTRY_BYTES, Place::Header)?;

        let metadata = read_metadata(&mut reader, &label, entry_count)?;
        let alignment = read_alignment(&metadata)?;
        let (mut tensors, index) = tensor::read_entries(&mut reader, &label, tensor_count)?;
        // Both terms are small: the header ends within its limit.
        let data_start = (reader.position() as u64).next_multiple_of(u64::from(alignment));
        tensor::place_tensors(&mut tensors, &label, data_start, u64::from(alignment), bytes.len() as u64)?;
        let pieces = vec![Piece { path: path.clone(), label, bytes }];
        let (metadata, tensors, index) = (Arc::new(metadata), Arc::new(tensors), Arc::new(index));
        Ok(GgufFile { path, version, alignment, data_start, metadata, tensors, index, pieces })
    }

    /// Adds the tensors of the next piece of a split model. Of its metadata nothing more is needed.
    pub(super) fn add_piece(&mut self, next: GgufFile) -> Result<()> {
        let label = next.label().to_owned();
        let (tensors, index) = (Arc::make_mut(&mut self.tensors), Arc::make_mut(&mut self.index));
        for tensor in next.tensors.iter() {
            if let Some(first) = index.insert(tensor.name.clone(), tensors.len()) {
                let first = &self.pieces[tensors[first].piece].label;
                return Err(Error::tensor(&label, &tensor.name, "it in one piece only", format!("it in {first} too"))
                    .with_remedy("fetch all pieces again, from one place"));
            }
            tensors.push(TensorInfo { piece: self.pieces.len(), ..tensor.clone() });
        }
        self.pieces.extend(next.pieces);
        Ok(())
    }

    /// Version of the format: 2 or 3.
    pub fn version(&self) -> u32 {
        self.version
    }

    /// Alignment of the tensors' data in bytes, a power of two.
    pub fn alignment(&self) -> u32 {
        self.alignment
    }

    /// All metadata.
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// All tensors, in the order of their entries.
    pub fn tensors(&self) -> &[TensorInfo] {
        &self.tensors
    }

    /// The tensor of this name.
    pub fn tensor(&self, name: &str) -> Option<&TensorInfo> {
        self.index.get(name).map(|&index| &self.tensors[index])
    }

    pub(crate) fn tensor_index(&self, name: &str) -> Option<usize> {
        self.index.get(name).copied()
    }

    /// Where the file is, the first one of a split model; for a file from memory, its name.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The file's name as messages show it.
    pub fn label(&self) -> &str {
        &self.pieces[0].label
    }

    /// Length of the file in bytes; of all files of a split model together.
    pub fn file_bytes(&self) -> u64 {
        self.pieces.iter().map(|piece| piece.bytes.len() as u64).sum()
    }

    /// Number of files: 1, or more for a split model.
    pub fn piece_count(&self) -> usize {
        self.pieces.len()
    }

    /// Where the tensors' data begins, in bytes from the start of the (first) file. At or beyond the file's end where
    /// there are no tensors.
    pub fn data_start(&self) -> u64 {
        self.data_start
    }

    /// The bytes of a tensor of this file: a part of the map, nothing is copied.
    ///
    /// # Errors
    /// Where the size of its type is not known, or the file has become shorter since it was opened.
    pub fn tensor_data(&self, tensor: &TensorInfo) -> Result<SharedBytes> {
        let Some(needed) = tensor.bytes else {
            let found = tensor.type_name();
            return Err(Error::tensor(self.label(), &tensor.name, "a type of known size", found)
                .with_remedy("update duan, or get the model in another type such as Q4_K or Q8_0"));
        };
        // Only the entry of another file can name a piece that is not there.
        let piece = self.pieces.get(tensor.piece).unwrap_or(&self.pieces[0]);
        piece.slice(&tensor.name, tensor.offset, needed)
    }

    /// The files on the disk behind this one, in their order, each with its path and a handle of the file that was opened: it
    /// stays that one whatever is called so later. None where a file was copied to memory. Handles share a position with each other, so
    /// read them at a place.
    ///
    /// # Errors
    /// Where the system gives no more handles.
    pub fn disk_files(&self) -> Result<Option<Vec<(PathBuf, File)>>> {
        disk_files(&self.pieces)
    }

    /// What tells later whether a file was cut while its weights are in use.
    pub fn length(&self) -> FileLength {
        FileLength::of(self.pieces.clone())
    }

    /// The types of this file's tensors that cannot be read, by type id, with counts and examples. Empty where all can.
    pub fn unsupported_types(&self) -> Vec<UnsupportedType> {
        UnsupportedType::of(&self.tensors)
    }

    /// Fails where the tensors cannot be run: where there are none, and where [`GgufFile::unsupported_types`] is not
    /// empty, with all of them in one line.
    ///
    /// # Errors
    /// [`Error::Unsupported`].
    pub fn check_types(&self) -> Result<()> {
        check_types(self.label(), &self.tensors)
    }
}

/// [`GgufFile::check_types`] of any tensors.
pub(crate) fn check_types(label: &str, tensors: &[TensorInfo]) -> Result<()> {
    if tensors.is_empty() {
        let what = "this file has a vocabulary and no tensors: its tokenizer can be used, and there is nothing to run";
        return Err(Error::unsupported(label, what, "get the file of this model that has the weights"));
    }
    let found = UnsupportedType::of(tensors);
    if found.is_empty() {
        return Ok(());
    }
    let rows: Vec<String> = found.iter().map(UnsupportedType::describe).collect();
    let readable = duan_quant::FORMATS.iter().filter(|format| format.gguf_id.is_some());
    let known: Vec<&str> = readable.map(|format| format.name).collect();
    let what = format!("duan cannot read some of its tensors: {}", rows.join(", "));
    Err(Error::unsupported(label, what, format!("get the model in one of {}", known.join(", "))))
}

impl UnsupportedType {
    /// Those of some tensors, by type id.
    pub(crate) fn of(tensors: &[TensorInfo]) -> Vec<UnsupportedType> {
        let mut found: Vec<UnsupportedType> = Vec::new();
        for tensor in tensors {
            let status = tensor.type_status();
            if matches!(status, TypeStatus::Supported(_)) {
                continue;
            }
            match found.iter_mut().find(|row| row.type_id == tensor.type_id) {
                Some(row) => row.count += 1,
                None => found.push(UnsupportedType {
                    type_id: tensor.type_id,
                    name: tensor.type_name().into_owned(),
                    status,
                    count: 1,
                    example: tensor.name.clone(),
                }),
            }
        }
        found.sort_by_key(|row| row.type_id);
        found
    }

    fn describe(&self) -> String {
        let why = match self.status {
            TypeStatus::Removed { .. } => "removed from GGUF, ",
            TypeStatus::Unknown => "unknown, ",
            TypeStatus::Unsupported { .. } | TypeStatus::Supported(_) => "",
        };
        let noun = if self.count == 1 { "tensor" } else { "tensors" };
        format!("{} ({why}{} {noun}, for example `{}`)", self.name, self.count, quoted(&self.example))
    }
}

/// Opens `path`, which must be a regular file: opening a pipe could wait forever.
fn open_regular(path: &Path) -> Result<File> {
    let label = file_label(path);
    let about = fs::metadata(path).map_err(|error| Error::io(&label, "open it", error))?;
    if about.is_dir() {
        return Err(Error::wrong_file(label, "this is a folder, not a GGUF model", "name the .gguf file inside"));
    }
    if !about.is_file() {
        return Err(Error::wrong_file(label, "this is a device or a pipe, not a GGUF model", "name a .gguf file"));
    }
    File::open(path).map_err(|error| Error::io(&label, "open it", error))
}

fn read_metadata(reader: &mut Reader, label: &str, count: u64) -> Result<Metadata> {
    let mut metadata = Metadata::new(label);
    for number in 0..count {
        let key = reader.string(Place::Entry(number))?;
        let type_id = reader.u32(Place::Key(&key))?;
        let value = reader.value(type_id, Place::Key(&key))?;
        metadata.insert(key, value)?;
    }
    Ok(metadata)
}

/// The key whose value aligns the tensors' data.
pub(super) const ALIGNMENT_KEY: &str = "general.alignment";

/// `general.alignment`, 32 where it is missing.
fn read_alignment(metadata: &Metadata) -> Result<u32> {
    metadata.get(ALIGNMENT_KEY).map_or(Ok(32), |value| check_alignment(metadata.file(), value))
}

/// The alignment that `value` gives.
///
/// The format document asks for a multiple of 8; ggml, which defines the format in practice, asks for a power
/// of two, and so do we.
pub(super) fn check_alignment(label: &str, value: &Value) -> Result<u32> {
    let found = match *value {
        Value::U32(alignment) if alignment.is_power_of_two() && alignment <= ALIGNMENT_LIMIT_BYTES => {
            return Ok(alignment);
        }
        Value::U32(alignment) => alignment.to_string(),
        ref other => format!("type {}", other.type_name()),
    };
    let expected = format!("a u32 that is a power of two from 1 to {ALIGNMENT_LIMIT_BYTES}");
    Err(Error::key(label, ALIGNMENT_KEY, expected, found)
        .with_remedy("the file is damaged or was made wrongly, fetch it again"))
}
