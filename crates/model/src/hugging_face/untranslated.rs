//! A folder as it is, for whoever writes it again: tensors by the names that they have there, rows in the order that they have there.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use duan_quant::{Format, format_by_name};
use serde_json::{Map, Value};

use super::config::Config;
use super::names::{Parts, To, is_not_needed, is_not_text};
use super::tensors::Logical;
use super::{CONFIG, family_of, open_files, quantized};
use crate::checkpoint::is_kept;
use crate::error::{Error, Result, file_label};
use crate::gguf::TensorInfo;
use crate::gguf::write::type_id;
use crate::pieces::disk_files;
use crate::rows::{Requantized, TensorData};
use crate::safetensors::{Dtype, SafetensorsFile, read_json};

/// Far longer than any configuration.
const LIMIT_BYTES: u64 = 16 << 20;

/// A folder of Hugging Face, with its configuration as it stands there. Matrices that are quantized already are seen as the weights
/// that they stand for, in F32; nothing of any weight is read until somebody asks for rows.
#[derive(Debug)]
pub struct Untranslated {
    path: PathBuf,
    label: String,
    config: Map<String, Value>,
    tensors: Vec<UntranslatedTensor>,
    files: Vec<SafetensorsFile>,
    logical: Vec<Logical>,
    warnings: Vec<String>,
}

/// One tensor of such a folder.
#[derive(Debug, Clone, PartialEq)]
pub struct UntranslatedTensor {
    /// Its name.
    pub name: String,
    /// The type of its numbers.
    pub dtype: Dtype,
    /// Its axes, the slowest first; empty for a single number.
    pub shape: Vec<u64>,
    /// Where GGUF has it, if it has a place for it.
    pub place: Option<GgufPlace>,
    /// Whether it is the matrix of a linear layer within the layers: of what quantizing is for. Embeddings, the head, routers and the
    /// kernels of convolutions are none.
    pub is_linear: bool,
    /// The format that it has in the folder, where that is one of a weight.
    pub stored: Option<&'static Format>,
}

/// Where GGUF has a tensor of a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GgufPlace {
    /// The tensor's name in GGUF.
    pub name: String,
    /// Which matrix of a stack it is there; 0 where there is no stack.
    pub slice: u64,
    /// How many matrices the stack has; 1 where there is none.
    pub slices: u64,
}

impl Untranslated {
    /// Opens and checks the folder at `path`.
    ///
    /// # Errors
    /// As [`crate::checkpoint::Checkpoint::open`] has them for folders.
    pub fn open(path: &Path) -> Result<Self> {
        let label = file_label(path);
        let config_path = path.join(CONFIG);
        let mut config = Config::open(&config_path)?;
        config.add_quantization(path)?;
        let (_, translation) = family_of(&config)?;
        let files = open_files(path, &label)?;
        let mut warnings = Vec::new();
        let logical = quantized::logical(&config, &files, &mut warnings)?;
        let mut tensors: Vec<UntranslatedTensor> = Vec::with_capacity(logical.len());
        for tensor in &logical {
            let parts = Parts::of(&tensor.name);
            let is_unused = is_not_needed(&tensor.name) || is_not_text(&tensor.name);
            let to = translation.tensors.place(&parts).filter(|_| !is_unused);
            let place = to.and_then(|to| match to {
                To::Name(name) => Some((name, 0)),
                To::Stack(name) => Some((name, u64::from(parts.number.unwrap_or(0)))),
                // It is two tensors there.
                To::Halves(..) => None,
            });
            let place = place.map(|(name, slice)| {
                let layer = parts.layer.map_or_else(String::new, |layer| format!("blk.{layer}."));
                GgufPlace { name: format!("{layer}{name}.{}", parts.kind), slice, slices: 1 }
            });
            let dtype = if tensor.grouped.is_some() { Dtype::F32 } else { tensor.dtype };
            let stored = tensor.grouped.as_ref().map_or_else(|| dtype.format(), |matrix| Some(matrix.format()));
            let is_layers = parts.layer.is_some() && parts.kind == "weight";
            let is_linear = is_layers
                && tensor.shape.len() == 2
                && tensor.name.ends_with(".weight")
                && dtype.format().is_some()
                && place.as_ref().is_some_and(|place| !is_kept(&info_of(&place.name, &tensor.shape)));
            let (name, shape) = (tensor.name.clone(), tensor.shape.clone());
            tensors.push(UntranslatedTensor { name, dtype, shape, place, is_linear, stored });
        }
        count_slices(&mut tensors);
        let config = read_json(&config_path, LIMIT_BYTES)?;
        Ok(Self { path: path.to_owned(), label, config, tensors, files, logical, warnings })
    }

    /// The folder's name as messages show it.
    pub fn label(&self) -> &str {
        &self.label
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What `config.json` says.
    pub fn config(&self) -> &Map<String, Value> {
        &self.config
    }

    /// All tensors, in the order of the files.
    pub fn tensors(&self) -> &[UntranslatedTensor] {
        &self.tensors
    }

    /// What is odd about the folder and can be lived with, one line each.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Length of all files that the weights lie in, in bytes.
    pub fn file_bytes(&self) -> u64 {
        self.files.iter().map(|file| file.piece.bytes.len() as u64).sum()
    }

    /// The bytes of tensor number `index`.
    ///
    /// # Errors
    /// Where a file has become shorter since it was opened.
    pub fn data(&self, index: usize) -> Result<TensorData> {
        let tensor = &self.logical[index];
        let Some(matrix) = &tensor.grouped else {
            let piece = &self.files[tensor.piece].piece;
            return Ok(TensorData::Shared(piece.slice(&tensor.name, tensor.offset, tensor.bytes)?));
        };
        self.files[tensor.piece].piece.slice(&tensor.name, tensor.offset, tensor.bytes)?;
        let Some(to) = format_by_name("F32") else {
            return Err(Error::tensor(&self.label, &tensor.name, "F32 among the formats", "none"));
        };
        Ok(TensorData::Made(Arc::new(Requantized {
            file: self.label.clone(),
            tensor: tensor.name.clone(),
            columns: matrix.columns(),
            from: matrix.format(),
            to,
            order: matrix.order().cloned(),
            is_exact: false,
            data: TensorData::Made(matrix.clone()),
        })))
    }

    /// The files on the disk that the weights are read from, see [`crate::checkpoint::Checkpoint::disk_files`].
    ///
    /// # Errors
    /// Where the system gives no more handles.
    pub fn disk_files(&self) -> Result<Option<Vec<(PathBuf, std::fs::File)>>> {
        disk_files(&self.files.iter().map(|file| file.piece.clone()).collect::<Vec<_>>())
    }
}

impl UntranslatedTensor {
    /// What the tensor would be in GGUF, by the name that it has here; one of a type that GGUF has no id for counts as its bytes.
    ///
    /// # Errors
    /// Never for the types of weights.
    pub fn info(&self, label: &str) -> Result<TensorInfo> {
        let mut info = info_of(&self.name, &self.shape);
        info.type_id = match (self.dtype, self.dtype.format()) {
            (_, Some(format)) => type_id(label, &self.name, format)?,
            (Dtype::I8, _) => 24,
            (Dtype::I16, _) => 25,
            (Dtype::I32, _) => 26,
            (Dtype::I64, _) => 27,
            (Dtype::F64, _) => 28,
            _ => {
                info.dims = vec![self.bytes()];
                24
            }
        };
        info.bytes = Some(self.bytes());
        Ok(info)
    }

    /// Bytes that its numbers take in their type.
    pub fn bytes(&self) -> u64 {
        self.elements().saturating_mul(self.dtype.bits()) / 8
    }

    /// Numbers in it.
    pub fn elements(&self) -> u64 {
        self.shape.iter().fold(1, |product: u64, &dim| product.saturating_mul(dim))
    }

    /// The module that it belongs to: its name without its last part.
    pub fn module(&self) -> &str {
        self.name.rsplit_once('.').map_or(&self.name, |(module, _)| module)
    }
}

fn info_of(name: &str, shape: &[u64]) -> TensorInfo {
    let dims = if shape.is_empty() { vec![1] } else { shape.iter().rev().copied().collect() };
    TensorInfo { name: name.to_owned(), dims, type_id: 0, own_format: None, piece: 0, offset: 0, bytes: None }
}

/// Tells each matrix of a stack how many there are.
fn count_slices(tensors: &mut [UntranslatedTensor]) {
    let mut counts: std::collections::HashMap<String, u64> = std::collections::HashMap::new();
    let places = || tensors.iter().filter_map(|tensor| tensor.place.as_ref());
    for place in places() {
        let count = counts.entry(place.name.clone()).or_insert(0);
        *count = (*count).max(place.slice + 1);
    }
    for place in tensors.iter_mut().filter_map(|tensor| tensor.place.as_mut()) {
        place.slices = counts[&place.name];
    }
}
