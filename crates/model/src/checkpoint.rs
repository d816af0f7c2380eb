//! Whatever a model is read from, seen as GGUF sees it.

use std::collections::HashMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use duan_quant::{Format, TypeStatus};

use crate::error::{Error, Result};
use crate::gguf::{self, FileLength, GgufFile, Metadata, NO_TYPE_ID, TensorInfo, UnsupportedType};
use crate::hugging_face::Folder;
use crate::rows::{Requantized, TensorData};
use crate::tokenizer::Tokenizer;

/// A model on the disk: metadata with GGUF's keys, tensors with GGUF's names, types and dims, and their rows. It is made of a
/// GGUF file, or of a folder as Hugging Face publishes them, which is *translated*: nothing else in duan asks which of the
/// two it is.
///
/// Cheap to clone; nothing of the weights is read until somebody asks for rows.
#[derive(Debug, Clone)]
pub struct Checkpoint {
    origin: Origin,
    /// Tensors that are wanted in another format than they have.
    changed: Option<Arc<Changed>>,
}

#[derive(Debug, Clone)]
enum Origin {
    Gguf(GgufFile),
    Folder(Arc<Folder>),
}

/// What is different where tensors are wanted in other formats.
#[derive(Debug)]
struct Changed {
    metadata: Metadata,
    /// All tensors, as they will be.
    tensors: Vec<TensorInfo>,
}

impl From<GgufFile> for Checkpoint {
    fn from(file: GgufFile) -> Self {
        Self { origin: Origin::Gguf(file), changed: None }
    }
}

impl From<&GgufFile> for Checkpoint {
    fn from(file: &GgufFile) -> Self {
        file.clone().into()
    }
}

impl Checkpoint {
    /// Opens and checks what is at `path`: a GGUF file ([`GgufFile::open`]), or a folder with `config.json`, weights in
    /// `*.safetensors` and, for whoever wants words, `tokenizer.json`.
    ///
    /// # Errors
    /// Where it is neither, cannot be read, or breaks a rule of its format; each in one line.
    pub fn open(path: &Path) -> Result<Self> {
        if path.is_dir() {
            let folder = Arc::new(Folder::open(path)?);
            return Ok(Self { origin: Origin::Folder(folder), changed: None });
        }
        GgufFile::open(path).map(Self::from)
    }

    /// A folder that is in memory: the text of its `config.json`, and its files of weights with their names. `name` is what
    /// messages call it.
    ///
    /// # Errors
    /// As [`Checkpoint::open`].
    pub fn from_folder(name: &str, config: Vec<u8>, weights: Vec<(String, Vec<u8>)>) -> Result<Self> {
        let folder = Arc::new(Folder::from_bytes(name, config, weights)?);
        Ok(Self { origin: Origin::Folder(folder), changed: None })
    }

    /// The GGUF file that this is, where it is one.
    pub fn gguf(&self) -> Option<&GgufFile> {
        match &self.origin {
            Origin::Gguf(file) => Some(file),
            Origin::Folder(_) => None,
        }
    }

    /// The model's name as messages show it.
    pub fn label(&self) -> &str {
        match &self.origin {
            Origin::Gguf(file) => file.label(),
            Origin::Folder(folder) => &folder.label,
        }
    }

    /// Where it is: the file, the first one of a split model, or the folder.
    pub fn path(&self) -> &Path {
        match &self.origin {
            Origin::Gguf(file) => file.path(),
            Origin::Folder(folder) => &folder.path,
        }
    }

    /// All metadata, with the keys of GGUF.
    pub fn metadata(&self) -> &Metadata {
        match (&self.changed, &self.origin) {
            (Some(changed), _) => &changed.metadata,
            (None, Origin::Gguf(file)) => file.metadata(),
            (None, Origin::Folder(folder)) => &folder.metadata,
        }
    }

    /// All tensors, with the names, types and dims of GGUF. Where their `piece` and `offset` say nothing of a tensor (one that
    /// is put together of several), they are those of its first part.
    pub fn tensors(&self) -> &[TensorInfo] {
        match &self.changed {
            Some(changed) => &changed.tensors,
            None => self.own_tensors(),
        }
    }

    fn own_tensors(&self) -> &[TensorInfo] {
        match &self.origin {
            Origin::Gguf(file) => file.tensors(),
            Origin::Folder(folder) => &folder.tensors,
        }
    }

    /// The tensor of this name.
    pub fn tensor(&self, name: &str) -> Option<&TensorInfo> {
        self.index_of(name).map(|index| &self.tensors()[index])
    }

    fn index_of(&self, name: &str) -> Option<usize> {
        match &self.origin {
            Origin::Gguf(file) => file.tensor_index(name),
            Origin::Folder(folder) => folder.index.get(name).copied(),
        }
    }

    /// The tensor of this name as it lies on the disk, before it is brought into another format.
    pub fn own_tensor(&self, name: &str) -> Option<&TensorInfo> {
        self.index_of(name).map(|index| &self.own_tensors()[index])
    }

    /// The bytes of a tensor: shared and mapped where they are what lies on the disk, else made when they are asked for.
    ///
    /// # Errors
    /// Where the size of its type is not known, or a file has become shorter since it was opened.
    pub fn data(&self, tensor: &TensorInfo) -> Result<TensorData> {
        let own = self.own_tensor(&tensor.name).unwrap_or(tensor);
        let data = match &self.origin {
            Origin::Gguf(file) => TensorData::Shared(file.tensor_data(own)?),
            Origin::Folder(folder) => folder.data(own)?,
        };
        if (own.type_id, own.own_format) == (tensor.type_id, tensor.own_format) {
            return Ok(data);
        }
        let (from, to) = (self.format_of(own)?, self.format_of(tensor)?);
        let columns = tensor.dims.first().map_or(1, |&columns| columns as usize);
        let (file, tensor) = (self.label().to_owned(), tensor.name.clone());
        let order = self.column_order(own);
        let is_exact = self.exact_format(own) == Some(to);
        Ok(TensorData::Made(Arc::new(Requantized { file, tensor, data, columns, from, to, order, is_exact })))
    }

    /// Which number of the input each weight of a row of `tensor` belongs to, where columns were sorted: see
    /// [`crate::weights::Matrix::with_column_order`]. [`Checkpoint::data`] gives rows in that order; in every other format than the one
    /// that the tensor has on the disk they are in the common one.
    pub fn column_order(&self, tensor: &TensorInfo) -> Option<Arc<[u32]>> {
        match &self.origin {
            Origin::Folder(folder) if tensor.own_format.is_some() => {
                let grouped = folder.grouped(tensor)?;
                (tensor.own_format == Some(grouped.first().format())).then(|| grouped.first().order().cloned())?
            }
            _ => None,
        }
    }

    /// The format of GGUF that holds every weight of a tensor of a format of our own as it is, where there is one.
    fn exact_format(&self, own: &TensorInfo) -> Option<&'static Format> {
        match &self.origin {
            Origin::Folder(folder) => {
                let mut parts = folder.grouped(own)?.parts().iter().map(|part| part.exact_format());
                let first = parts.next()??;
                parts.all(|format| format == Some(first)).then_some(first)
            }
            _ => None,
        }
    }

    /// The format of a tensor.
    ///
    /// # Errors
    /// When it is one that is not read here.
    pub fn format_of(&self, tensor: &TensorInfo) -> Result<&'static Format> {
        tensor.format().ok_or_else(|| {
            let found = format!("type id {}", tensor.type_id);
            Error::tensor(self.label(), &tensor.name, "a type that this version reads", found)
        })
    }

    /// Whether a tensor of a format of our own is to the last bit what stands in the folder.
    fn is_exact(&self, own: &TensorInfo) -> bool {
        let Origin::Folder(folder) = &self.origin else { return false };
        folder.grouped(own).is_some_and(|grouped| grouped.parts().iter().all(|part| part.is_exact()))
    }

    /// The tokenizer.
    ///
    /// # Errors
    /// Where there is none, or one that is not read here.
    pub fn tokenizer(&self) -> Result<Tokenizer> {
        if let (Origin::Folder(folder), None) = (&self.origin, self.metadata().get("tokenizer.ggml.model")) {
            folder.check_tokenizer()?;
        }
        Tokenizer::from_gguf(self.metadata())
    }

    /// What `tensor`, one of this model in any format, was on the disk, and whether every weight is what it was there: it was only
    /// moved, or written in a float format that holds all numbers of the first.
    pub fn origin_of(&self, tensor: &TensorInfo) -> (String, bool) {
        let own = self.own_tensor(&tensor.name).unwrap_or(tensor);
        let on_disk = match &self.origin {
            Origin::Gguf(_) => own.type_name().into_owned(),
            Origin::Folder(folder) => folder.type_on_disk(own),
        };
        let name = tensor.type_name();
        let is_lossless = on_disk == name
            || matches!((&*on_disk, &*name), ("F16" | "BF16", "F32"))
            || self.exact_format(own).is_some_and(|exact| exact.name == name)
            || (name == "F32" && self.is_exact(own));
        (on_disk, is_lossless)
    }

    /// Length of all files that the weights lie in, in bytes.
    pub fn file_bytes(&self) -> u64 {
        match &self.origin {
            Origin::Gguf(file) => file.file_bytes(),
            Origin::Folder(folder) => folder.file_bytes(),
        }
    }

    /// Number of files that the weights lie in.
    pub fn piece_count(&self) -> usize {
        match &self.origin {
            Origin::Gguf(file) => file.piece_count(),
            Origin::Folder(folder) => folder.piece_count(),
        }
    }

    /// What tells later whether a file was cut while its weights are in use.
    pub fn length(&self) -> FileLength {
        match &self.origin {
            Origin::Gguf(file) => file.length(),
            Origin::Folder(folder) => folder.length(),
        }
    }

    /// The files on the disk that the weights are read and translated from, each with its path and a handle of the file that
    /// was opened, see [`GgufFile::disk_files`]. None where one is in memory.
    ///
    /// # Errors
    /// Where the system gives no more handles.
    pub fn disk_files(&self) -> Result<Option<Vec<(PathBuf, File)>>> {
        match &self.origin {
            Origin::Gguf(file) => file.disk_files(),
            Origin::Folder(folder) => folder.disk_files(),
        }
    }

    /// The types of the tensors that cannot be read, by type id, with counts and examples. Empty where all can.
    pub fn unsupported_types(&self) -> Vec<UnsupportedType> {
        UnsupportedType::of(self.tensors())
    }

    /// Fails where the tensors cannot be run: where there are none, or some of a type that is not read here.
    ///
    /// # Errors
    /// [`Error::Unsupported`].
    pub fn check_types(&self) -> Result<()> {
        gguf::check_types(self.label(), self.tensors())
    }

    /// Tensors of a folder that have no name in GGUF, by the names that they have there: what they are for is left out.
    pub fn left_out(&self) -> &[String] {
        match &self.origin {
            Origin::Gguf(_) => &[],
            Origin::Folder(folder) => &folder.left_out,
        }
    }

    /// What is odd about a folder and can be lived with, one line each.
    pub fn warnings(&self) -> &[String] {
        match &self.origin {
            Origin::Gguf(_) => &[],
            Origin::Folder(folder) => &folder.warnings,
        }
    }

    /// The file of a folder that the chat template was in, where there is one.
    pub fn template_file(&self) -> Option<&'static str> {
        match &self.origin {
            Origin::Gguf(_) => None,
            Origin::Folder(folder) => folder.template_file,
        }
    }

    /// The same model with tensors in the formats that `choose` says; `None` leaves one as it is. They are quantized row by
    /// row when they are read.
    ///
    /// # Errors
    /// Where a tensor cannot be read, or brought into the format that was chosen for it: one without an encoder here, or whose
    /// blocks do not divide the rows.
    pub fn in_formats(&self, choose: impl Fn(&TensorInfo) -> Option<&'static Format>) -> Result<Self> {
        let own = self.own_tensors();
        let mut tensors = Vec::with_capacity(own.len());
        let mut changed_weights = 0;
        for tensor in own {
            let wanted = choose(tensor).filter(|&format| tensor.format() != Some(format));
            let Some(format) = wanted else {
                tensors.push(tensor.clone());
                continue;
            };
            self.format_of(tensor)?;
            if !format.is_writable() {
                let what = format!("duan reads {} and does not write it", format.name);
                return Err(Error::unsupported(self.label(), what, "choose another format"));
            }
            let bytes = gguf::size_in_blocks(self.label(), &tensor.name, &tensor.dims, TypeStatus::Supported(format))?;
            changed_weights += tensor.elements();
            let own_format = format.gguf_id.is_none().then_some(format);
            let type_id = format.gguf_id.unwrap_or(NO_TYPE_ID);
            tensors.push(TensorInfo { type_id, own_format, bytes, ..tensor.clone() });
        }
        if changed_weights == 0 {
            return Ok(Self { origin: self.origin.clone(), changed: None });
        }
        let all: u64 = own.iter().map(TensorInfo::elements).fold(0, u64::saturating_add);
        let own_metadata = match &self.origin {
            Origin::Gguf(file) => file.metadata(),
            Origin::Folder(folder) => &folder.metadata,
        };
        let mut metadata = Metadata::new(self.label());
        let is_another = changed_weights > all / 2;
        let file_type = most_used(&tensors).filter(|_| is_another);
        if let (None, Some(id)) = (own_metadata.get(FILE_TYPE), file_type) {
            metadata.insert(FILE_TYPE, id)?;
        }
        for (key, value) in own_metadata.iter() {
            if key != FILE_TYPE || !is_another {
                metadata.insert(key, value.clone())?;
            } else if let Some(id) = file_type {
                metadata.insert(key, id)?;
            }
        }
        Ok(Self { origin: self.origin.clone(), changed: Some(Arc::new(Changed { metadata, tensors })) })
    }

    /// The same model with every float matrix in `format`, whose blocks must divide the rows: norms, vectors and what converters
    /// keep in F32 stay; a head, and an embedding that is the head too, stay at 8 bits where `format` has fewer than 6; rows
    /// that the blocks do not divide go to Q8_0, or to F16 where even its blocks do not.
    ///
    /// # Errors
    /// As [`Checkpoint::in_formats`].
    pub fn in_format(&self, format: &'static Format) -> Result<Self> {
        self.in_formats(|tensor| self.format_for(tensor, format))
    }

    /// What [`Checkpoint::in_format`] makes of one tensor.
    pub fn format_for(&self, tensor: &TensorInfo, format: &'static Format) -> Option<&'static Format> {
        let own = tensor.format().filter(|own| own.block_weights == 1)?;
        if is_kept(tensor) {
            return (own.name != "F32").then(|| F32.get()).flatten();
        }
        self.fitting(tensor, format)
    }

    /// The same model as GGUF can hold it: as [`Checkpoint::in_format`], and tensors of formats that GGUF does not know in `format`
    /// too. Without a format they are written in one that holds every weight as it is, where there is one, else in F16.
    ///
    /// # Errors
    /// As [`Checkpoint::in_formats`], and where `format` is one that GGUF does not know.
    pub fn for_gguf(&self, format: Option<&'static Format>) -> Result<Self> {
        if let Some(own) = format.filter(|format| format.gguf_id.is_none()) {
            let what = format!("GGUF files cannot hold {}", own.name);
            let remedy = format!(
                "choose another format such as q4_0; {} is for folders (`duan quantize`), or for loading",
                own.name
            );
            return Err(Error::unsupported(self.label(), what, remedy));
        }
        self.in_formats(|tensor| match (tensor.own_format, format) {
            (Some(_), _) if is_kept(tensor) => F32.get(),
            (Some(_), Some(format)) => self.fitting(tensor, format),
            (Some(_), None) => self.exact_format(tensor).or_else(|| F16.get()),
            (None, Some(format)) => self.format_for(tensor, format),
            (None, None) => None,
        })
    }

    /// The same model without columns that were sorted, see [`Checkpoint::column_order`]: tensors that have some become F32, whose rows
    /// are made when they are read.
    ///
    /// # Errors
    /// As [`Checkpoint::in_formats`].
    pub fn in_common_order(&self) -> Result<Self> {
        self.in_formats(|tensor| self.column_order(tensor).and_then(|_| F32.get()))
    }

    /// `format`, or a wider one for a head, or one whose blocks divide the rows.
    fn fitting(&self, tensor: &TensorInfo, format: &'static Format) -> Option<&'static Format> {
        let is_head = tensor.name == "output.weight"
            || (tensor.name == "token_embd.weight" && self.tensor("output.weight").is_none());
        let wide = |format: &Format| format.bits_per_weight() >= LEAST_HEAD_BITS;
        let candidates = [Some(format).filter(|format| !is_head || wide(format)), Q8_0.get(), F16.get()];
        let columns = usize::try_from(*tensor.dims.first()?).ok()?;
        candidates.into_iter().flatten().find(|format| format.row_bytes(columns).is_some())
    }
}

const FILE_TYPE: &str = "general.file_type";
/// A head has at least so many bits a weight unless somebody asks for fewer: see [`Checkpoint::in_format`].
const LEAST_HEAD_BITS: f64 = 6.0;

/// A format by its name.
struct Named(&'static str);
const Q8_0: Named = Named("Q8_0");
const F16: Named = Named("F16");
const F32: Named = Named("F32");

impl Named {
    fn get(&self) -> Option<&'static Format> {
        duan_quant::format_by_name(self.0)
    }
}

/// Whether a tensor is one that every converter writes in F32: vectors, norms, the scores of experts, the kernels of short
/// convolutions.
pub(crate) fn is_kept(tensor: &TensorInfo) -> bool {
    let is_vector = tensor.dims.iter().skip(1).all(|&dim| dim == 1);
    let stem = tensor.name.strip_suffix(".weight");
    is_vector
        || stem.is_none_or(|stem| {
            stem.ends_with("_norm") || stem.ends_with(".ffn_gate_inp") || stem.ends_with(".shortconv.conv")
        })
}

/// What `general.file_type` says of these tensors: the format of the most weights of layers. Tables and heads of small models have more
/// than all layers, and are not what such a file is called by.
pub(crate) fn most_used(tensors: &[TensorInfo]) -> Option<u32> {
    let mut weights: HashMap<&'static str, (u64, &'static Format)> = HashMap::new();
    for tensor in tensors.iter().filter(|tensor| tensor.name.starts_with("blk.")) {
        if let Some(format) = tensor.format() {
            weights.entry(format.name).or_insert((0, format)).0 += tensor.elements();
        }
    }
    let (_, format) = weights.into_values().max_by_key(|&(weights, format)| (weights, format.gguf_id))?;
    file_type(format)
}

/// What `general.file_type` says where most weights are of a format.
fn file_type(format: &Format) -> Option<u32> {
    Some(match format.name {
        "F32" => 0,
        "F16" => 1,
        "Q4_0" => 2,
        "Q4_1" => 3,
        "Q8_0" => 7,
        "Q5_0" => 8,
        "Q5_1" => 9,
        "Q2_K" => 10,
        "Q3_K" => 11,
        "Q4_K" => 14,
        "Q5_K" => 16,
        "Q6_K" => 18,
        "IQ4_NL" => 25,
        "IQ4_XS" => 30,
        "BF16" => 32,
        "MXFP4" => 38,
        _ => return None,
    })
}
