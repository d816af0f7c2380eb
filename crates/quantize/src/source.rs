//! Where tensors come from.

use std::fs::File;
use std::path::{Path, PathBuf};

use duan_model::bytes::SharedBytes;
use duan_model::checkpoint::Checkpoint;
use duan_model::gguf::{GgufFile, Metadata, TensorInfo};
use duan_model::weights::TensorData;
use duan_quant::Format;

use crate::error::{Error, Result};

/// A model to be quantized: metadata and tensors as GGUF names them, and their weights piece by piece.
pub trait Source: Sync {
    /// What messages call it.
    fn label(&self) -> &str;

    /// All metadata, with GGUF's keys.
    fn metadata(&self) -> &Metadata;

    /// All tensors, in the order in which they are written.
    fn tensors(&self) -> &[TensorInfo];

    /// The bytes of `weights` weights of tensor number `tensor`, from weight `first` on, in the tensor's own type. Asked for are whole
    /// rows, or a part of one row in whole blocks. What lies in a file is a part of its map; what has to be made is made here.
    ///
    /// # Errors
    /// Where the size of the type is not known, or the weights cannot be read any more.
    fn read(&self, tensor: usize, first: u64, weights: u64) -> Result<SharedBytes>;

    /// Hint that what these weights are made of will not be needed soon. What is a part of a map is given back when it was written.
    fn release(&self, _tensor: usize, _first: u64, _weights: u64) {}

    /// The format that tensor number `tensor` is stored in, where it is not read in that one.
    fn stored_format(&self, tensor: usize) -> Option<&'static Format> {
        self.tensors()[tensor].format()
    }

    /// Whether the file at `path` is one that this is read from: it must not be replaced.
    ///
    /// # Errors
    /// Where that cannot be found out.
    fn is_at(&self, path: &Path) -> Result<bool>;
}

impl Source for GgufFile {
    fn label(&self) -> &str {
        GgufFile::label(self)
    }

    fn metadata(&self) -> &Metadata {
        GgufFile::metadata(self)
    }

    fn tensors(&self) -> &[TensorInfo] {
        GgufFile::tensors(self)
    }

    fn read(&self, tensor: usize, first: u64, weights: u64) -> Result<SharedBytes> {
        let info = &GgufFile::tensors(self)[tensor];
        // Asks for the file's length too: pages beyond its end must not be touched.
        part_of(&self.tensor_data(info)?, GgufFile::label(self), info, first, weights)
    }

    fn is_at(&self, path: &Path) -> Result<bool> {
        Ok(is_one_of(self.disk_files()?, path))
    }
}

impl Source for Checkpoint {
    fn label(&self) -> &str {
        Checkpoint::label(self)
    }

    fn metadata(&self) -> &Metadata {
        Checkpoint::metadata(self)
    }

    fn tensors(&self) -> &[TensorInfo] {
        Checkpoint::tensors(self)
    }

    fn read(&self, tensor: usize, first: u64, weights: u64) -> Result<SharedBytes> {
        let label = Checkpoint::label(self);
        let info = &Checkpoint::tensors(self)[tensor];
        if self.column_order(info).is_some() {
            // Nobody is to take them for what they are not.
            let error = duan_model::Error::tensor(label, &info.name, "columns in the common order", "sorted ones");
            return Err(error.with_remedy("report this").into());
        }
        read_part(&self.data(info)?, label, info, first, weights)
    }

    fn stored_format(&self, tensor: usize) -> Option<&'static Format> {
        let info = &Checkpoint::tensors(self)[tensor];
        self.own_tensor(&info.name).unwrap_or(info).format()
    }

    fn is_at(&self, path: &Path) -> Result<bool> {
        // Of a folder more files are read than those with weights.
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let is_inside = Checkpoint::path(self).is_dir()
            && path.exists()
            && folder.canonicalize().ok() == Checkpoint::path(self).canonicalize().ok();
        Ok(is_inside || is_one_of(self.disk_files()?, path))
    }
}

/// A checkpoint of which all tensors will be read once, as they are: how their rows are made is found out once.
pub(crate) struct Prepared<'a> {
    checkpoint: &'a Checkpoint,
    data: Vec<TensorData>,
}

impl<'a> Prepared<'a> {
    /// # Errors
    /// Where a tensor has a type of a size that is not known, or cannot be read any more.
    pub(crate) fn new(checkpoint: &'a Checkpoint) -> Result<Prepared<'a>> {
        let mut data = Vec::with_capacity(Checkpoint::tensors(checkpoint).len());
        for info in Checkpoint::tensors(checkpoint) {
            data.push(checkpoint.data(info)?);
        }
        Ok(Prepared { checkpoint, data })
    }
}

impl Source for Prepared<'_> {
    fn label(&self) -> &str {
        Checkpoint::label(self.checkpoint)
    }

    fn metadata(&self) -> &Metadata {
        Checkpoint::metadata(self.checkpoint)
    }

    fn tensors(&self) -> &[TensorInfo] {
        Checkpoint::tensors(self.checkpoint)
    }

    fn read(&self, tensor: usize, first: u64, weights: u64) -> Result<SharedBytes> {
        read_part(&self.data[tensor], self.label(), &self.tensors()[tensor], first, weights)
    }

    fn release(&self, tensor: usize, first: u64, weights: u64) {
        if let TensorData::Made(made) = &self.data[tensor] {
            let columns = self.tensors()[tensor].dims.first().copied().unwrap_or(1).max(1);
            made.release_pages((first / columns) as usize..((first + weights) / columns) as usize);
        }
    }

    fn is_at(&self, path: &Path) -> Result<bool> {
        Source::is_at(self.checkpoint, path)
    }
}

/// The bytes of `weights` weights of a tensor, from weight `first` on: a part of what lies somewhere, or made.
pub(crate) fn read_part(
    data: &TensorData,
    label: &str,
    info: &TensorInfo,
    first: u64,
    weights: u64,
) -> Result<SharedBytes> {
    if let TensorData::Shared(all) = data {
        return part_of(all, label, info, first, weights);
    }
    // Rows are made whole, also where a part of one is asked for.
    let columns = info.dims.first().copied().unwrap_or(1).max(1);
    let rows = first / columns..(first + weights).div_ceil(columns).min(info.elements() / columns);
    let outside = || out_of_range(label, info, first, weights);
    let row_bytes = bytes_of(info, columns).ok_or_else(outside)?;
    let needed = usize::try_from(rows.end.saturating_sub(rows.start)).ok().and_then(|rows| rows.checked_mul(row_bytes));
    let mut bytes = vec![0; needed.ok_or_else(outside)?];
    data.read_rows(rows.start as usize, row_bytes, &mut bytes)?;
    let start = bytes_of(info, first - rows.start * columns).ok_or_else(outside)?;
    let end = bytes_of(info, weights).and_then(|bytes| bytes.checked_add(start)).ok_or_else(outside)?;
    SharedBytes::from(bytes).slice(start..end).ok_or_else(outside)
}

/// The bytes of `weights` weights of a tensor whose bytes are `all`, from weight `first` on.
fn part_of(all: &SharedBytes, label: &str, info: &TensorInfo, first: u64, weights: u64) -> Result<SharedBytes> {
    let end = first.checked_add(weights).and_then(|end| bytes_of(info, end));
    let part = bytes_of(info, first).zip(end).and_then(|(start, end)| all.slice(start..end));
    part.ok_or_else(|| out_of_range(label, info, first, weights))
}

fn out_of_range(label: &str, info: &TensorInfo, first: u64, weights: u64) -> Error {
    let expected = format!("{weights} weights from weight {first} on");
    duan_model::Error::tensor(label, &info.name, expected, format!("{} in all", info.elements())).into()
}

/// Whether what is at `path` is one of these files.
fn is_one_of(files: Option<Vec<(PathBuf, File)>>, path: &Path) -> bool {
    path.exists() && files.unwrap_or_default().iter().any(|(_, file)| duan_files::is_at(file, path))
}

/// Bytes of the first `weights` weights of a tensor, where they are whole blocks of a type that is known.
pub(crate) fn bytes_of(tensor: &TensorInfo, weights: u64) -> Option<usize> {
    let (block_weights, block_bytes) = tensor.type_status().block()?;
    if !weights.is_multiple_of(block_weights as u64) {
        return None;
    }
    usize::try_from((weights / block_weights as u64).checked_mul(block_bytes as u64)?).ok()
}
