//! From the tensors of a folder to those of GGUF: names, stacking, halves, order of rows, types.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::Arc;

use duan_quant::{Format, TypeStatus};
use half::{bf16, f16};

use super::grouped::Grouped;
use super::names::{Parts, Tensors, To, is_not_needed, is_not_text};
use super::quantized::check_dtype;
use crate::bytes::SharedBytes;
use crate::checkpoint::is_kept;
use crate::error::{Error, Result};
use crate::gguf::write::type_id;
use crate::gguf::{NO_TYPE_ID, TensorInfo, size_in_blocks, size_in_bytes};
use crate::groups::GroupedMatrix;
use crate::pieces::Piece;
use crate::rows::{MakeRows, TensorData, encode};
use crate::safetensors::Dtype;

/// A tensor of a folder.
#[derive(Debug, Clone)]
pub(super) struct Logical {
    pub(super) name: String,
    pub(super) dtype: Dtype,
    /// The slowest axis first.
    pub(super) shape: Vec<u64>,
    /// Which file has it, and where in it.
    pub(super) piece: usize,
    pub(super) offset: u64,
    pub(super) bytes: u64,
    /// The whole of it, where several tensors of the folder are put together to one that is quantized; `dtype` and place are those of
    /// its codes.
    pub(super) grouped: Option<Arc<GroupedMatrix>>,
}

/// Some rows of a tensor of a folder, one after the other in a file.
#[derive(Debug, Clone)]
struct Part {
    piece: usize,
    offset: u64,
    rows: u64,
}

/// Where the rows of a GGUF tensor come from.
#[derive(Debug, Clone)]
pub(super) struct Source {
    dtype: Dtype,
    format: &'static Format,
    columns: usize,
    /// Below each other, all with the same number of rows.
    parts: Vec<Part>,
    /// Rows of a head whose rotated pairs are brought together; 0 where the order stays.
    paired: usize,
    plus_one: bool,
}

/// Where the numbers of a GGUF tensor come from.
#[derive(Debug, Clone)]
pub(super) enum Origin {
    Rows(Source),
    /// Matrices that are quantized already.
    Grouped(Grouped),
    /// Numbers that the configuration gives, not a tensor.
    Numbers(SharedBytes),
}

/// Every tensor as GGUF has it.
#[derive(Debug, Default)]
pub(super) struct Translated {
    pub(super) tensors: Vec<TensorInfo>,
    pub(super) origins: Vec<Origin>,
    pub(super) index: HashMap<String, usize>,
    /// Tensors that GGUF has no place for.
    pub(super) left_out: Vec<String>,
    /// How many tensors are for images or sound.
    pub(super) not_text: usize,
}

/// What the translation of tensors needs to know of a model.
pub(super) struct Shape<'a> {
    pub(super) label: &'a str,
    pub(super) names: Tensors,
    pub(super) heads: u32,
    pub(super) kv_heads: u32,
    /// Whether the head is the embedding, whatever else the folder holds.
    pub(super) is_head_tied: bool,
}

/// Where a GGUF tensor stands among the others: embedding, layers, final norm, head.
type Place = (u32, u32);

/// One GGUF tensor that is being put together.
struct Target<'l> {
    place: Place,
    /// By the number of the expert or head; a single one has 0.
    from: BTreeMap<u32, &'l Logical>,
    /// Which half of each: `None` for all of it.
    half: Option<u64>,
    is_stack: bool,
}

/// The widest rows, four times as wide as a configuration can ask for: each thread that makes rows holds some of them whole.
const MOST_COLUMNS: usize = 1 << 22;

/// Translates the tensors of a folder; `numbers` are those that come from the configuration.
pub(super) fn translate(
    tensors: &[Logical],
    shape: &Shape<'_>,
    numbers: Vec<(&'static str, Vec<f32>)>,
) -> Result<Translated> {
    let mut done = Translated::default();
    let mut targets: HashMap<String, Target<'_>> = HashMap::new();
    let mut order: Vec<String> = Vec::new();
    for tensor in tensors {
        let parts = Parts::of(&tensor.name);
        if is_not_needed(&tensor.name) {
            continue;
        }
        if is_not_text(&tensor.name) {
            done.not_text += 1;
            continue;
        }
        let Some(to) = shape.names.place(&parts) else {
            done.left_out.push(tensor.name.clone());
            continue;
        };
        let halves: &[(&str, Option<u64>)] = &match to {
            To::Name(name) | To::Stack(name) => [(name, None), ("", None)],
            To::Halves(first, second) => [(first, Some(0)), (second, Some(1))],
        };
        for (name, half) in halves.iter().filter(|half| !half.0.is_empty()) {
            if *name == "output" && shape.is_head_tied {
                continue;
            }
            let (full, place) = match parts.layer {
                Some(layer) => (format!("blk.{layer}.{name}.{}", parts.kind), (1, layer)),
                None => (format!("{name}.{}", parts.kind), if *name == "token_embd" { (0, 0) } else { (2, 0) }),
            };
            let target = targets.entry(full.clone()).or_insert_with(|| {
                order.push(full);
                Target { place, from: BTreeMap::new(), half: *half, is_stack: matches!(to, To::Stack(_)) }
            });
            if let Some(other) = target.from.insert(parts.number.unwrap_or(0), tensor) {
                let found = format!("`{}` too, which means the same", crate::quoted(&other.name));
                return Err(Error::tensor(shape.label, &tensor.name, "each tensor once", found)
                    .with_remedy("the checkpoint was made wrongly; get it from another source"));
            }
        }
    }
    // Stable, so that tensors of a layer keep the order that they have in the files.
    order.sort_by_key(|name| targets[name].place);
    for (name, values) in numbers {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        let info = TensorInfo {
            name: name.to_owned(),
            dims: vec![values.len() as u64],
            type_id: 0,
            own_format: None,
            piece: 0,
            offset: 0,
            bytes: Some(bytes.len() as u64),
        };
        done.push(info, Origin::Numbers(bytes.into()));
    }
    for name in order {
        let (info, origin) = finish(&name, &targets[&name], shape)?;
        done.push(info, origin);
    }
    Ok(done)
}

impl Translated {
    fn push(&mut self, info: TensorInfo, origin: Origin) {
        self.index.insert(info.name.clone(), self.tensors.len());
        self.tensors.push(info);
        self.origins.push(origin);
    }
}

/// Puts one GGUF tensor together.
fn finish(name: &str, target: &Target<'_>, shape: &Shape<'_>) -> Result<(TensorInfo, Origin)> {
    let first = target.from.values().next().expect("a target has a tensor");
    let label = shape.label;
    for (at, (&number, tensor)) in target.from.iter().enumerate() {
        if tensor.grouped.is_none() {
            check_dtype(label, tensor)?;
        }
        if number as usize != at {
            let found = format!("number {number} after {at} others");
            return Err(Error::tensor(label, &tensor.name, format!("number {at}, as none may be left out"), found)
                .with_remedy("a file of the checkpoint is missing or was made wrongly; fetch it again"));
        }
        if (tensor.dtype, &tensor.shape) != (first.dtype, &first.shape) {
            let expected = format!("{:?} of {}, as `{}`", first.shape, first.dtype.name(), crate::quoted(&first.name));
            let found = format!("{:?} of {}", tensor.shape, tensor.dtype.name());
            return Err(Error::tensor(label, &tensor.name, expected, found));
        }
    }
    // The kernels of short convolutions have an axis of 1 between channels and taps.
    let squeezed: Vec<u64> = match first.shape[..] {
        [channels, 1, taps] if name.contains("shortconv") => vec![channels, taps],
        _ => first.shape.clone(),
    };
    if !(1..=3).contains(&squeezed.len()) || squeezed.contains(&0) || (target.is_stack && squeezed.len() == 3) {
        let found = format!("shape {:?}", first.shape);
        return Err(Error::tensor(label, &first.name, "one to three axes that are not 0", found));
    }
    let mut dims: Vec<u64> = squeezed.iter().rev().copied().collect();
    if target.half.is_some() {
        if dims.len() < 2 || !dims[1].is_multiple_of(2) {
            let found = format!("shape {:?}", first.shape);
            return Err(Error::tensor(label, &first.name, "an even number of rows, gate above up", found));
        }
        dims[1] /= 2;
    }
    if target.is_stack {
        dims.push(target.from.len() as u64);
    }
    let columns = usize::try_from(dims[0]).ok().filter(|&columns| columns <= MOST_COLUMNS);
    let columns = columns.ok_or_else(|| too_wide(label, first))?;
    if target.from.values().any(|tensor| tensor.grouped.is_some()) {
        return finish_grouped(name, target, dims, shape);
    }
    let parts = parts_of(target, &dims, columns);
    let plus_one = shape.names.norms_plus_one && name.ends_with("norm.weight");
    let mut info = TensorInfo {
        name: name.to_owned(),
        type_id: 0,
        own_format: None,
        piece: parts[0].piece,
        offset: parts[0].offset,
        bytes: None,
        dims,
    };
    let f32_format = Dtype::F32.format().expect("F32 is a format");
    let format = if is_kept(&info) || plus_one { f32_format } else { first.dtype.format().unwrap_or(f32_format) };
    info.type_id = type_id(label, name, format)?;
    info.bytes = size_in_bytes(label, name, &info.dims, info.type_id)?;
    let paired = if shape.names.pairs { paired_rows(name, &info, shape)? } else { 0 };
    Ok((info, Origin::Rows(Source { dtype: first.dtype, format, columns, parts, paired, plus_one })))
}

/// Puts one GGUF tensor together whose matrices are quantized already.
fn finish_grouped(name: &str, target: &Target<'_>, dims: Vec<u64>, shape: &Shape<'_>) -> Result<(TensorInfo, Origin)> {
    let label = shape.label;
    let first = target.from.values().next().expect("a target has a tensor");
    let wrong = |tensor: &Logical, expected: &str, found: String| {
        Error::tensor(label, &tensor.name, expected, found).with_remedy("get the model unquantized, or as GGUF")
    };
    if target.half.is_some() || name.ends_with("norm.weight") {
        return Err(wrong(first, "weights that are not quantized here", "groups of integers".to_owned()));
    }
    let mut parts: Vec<Arc<GroupedMatrix>> = Vec::with_capacity(target.from.len());
    for tensor in target.from.values() {
        let Some(part) = &tensor.grouped else {
            return Err(wrong(tensor, "it quantized, as the others of its stack", tensor.dtype.name().to_owned()));
        };
        if let Some(first) = parts.first() {
            if part.format() != first.format() {
                let expected = format!("{}, as the others of its stack", first.format().name);
                return Err(wrong(tensor, &expected, part.format().name.to_owned()));
            }
            if part.order() != first.order() {
                return Err(wrong(tensor, "columns in one order for all of a stack", "an order of its own".to_owned()));
            }
        }
        parts.push(part.clone());
    }
    let format = parts[0].format();
    let bytes = size_in_blocks(label, name, &dims, TypeStatus::Supported(format))?;
    let (name, type_id, own_format) = (name.to_owned(), NO_TYPE_ID, Some(format));
    let info = TensorInfo { name, dims, type_id, own_format, piece: first.piece, offset: first.offset, bytes };
    let paired = if shape.names.pairs { paired_rows(&info.name, &info, shape)? } else { 0 };
    Ok((info, Origin::Grouped(Grouped::new(parts, paired))))
}

fn too_wide(label: &str, tensor: &Logical) -> Error {
    let expected = format!("rows of at most {MOST_COLUMNS} numbers");
    Error::tensor(label, &tensor.name, expected, format!("shape {:?}", tensor.shape))
}

/// The runs of rows that the tensor is made of, in its order.
fn parts_of(target: &Target<'_>, dims: &[u64], columns: usize) -> Vec<Part> {
    let mut parts = Vec::new();
    for tensor in target.from.values() {
        let row_bytes = columns as u64 * tensor.dtype.bits() / 8;
        let all = tensor.bytes / row_bytes;
        match target.half {
            None => parts.push(Part { piece: tensor.piece, offset: tensor.offset, rows: all }),
            Some(half) => {
                // Of each expert the rows of gate stand above those of up.
                let rows = dims[1];
                for expert in 0..all / (2 * rows) {
                    let offset = tensor.offset + (2 * expert + half) * rows * row_bytes;
                    parts.push(Part { piece: tensor.piece, offset, rows });
                }
            }
        }
    }
    parts
}

/// Rows of a head of queries or keys, 0 for other tensors.
fn paired_rows(name: &str, info: &TensorInfo, shape: &Shape<'_>) -> Result<usize> {
    let part = name.rsplit('.').nth(1).unwrap_or_default();
    let heads = match part {
        "attn_q" => shape.heads,
        "attn_k" => shape.kv_heads,
        _ => return Ok(0),
    };
    let rows = if info.dims.len() == 1 { info.dims[0] } else { info.dims[1..].iter().product() };
    let per_head = rows / u64::from(heads);
    if !rows.is_multiple_of(u64::from(heads)) || !per_head.is_multiple_of(2) {
        let expected = format!("an even number of rows for each of {heads} heads");
        return Err(Error::tensor(shape.label, name, expected, format!("{rows} rows")));
    }
    Ok(per_head as usize)
}

impl Source {
    /// The type of the numbers in the files.
    pub(super) fn dtype(&self) -> Dtype {
        self.dtype
    }

    /// The bytes of the tensor `info`: a part of a file where they are the same, else rows to be made.
    pub(super) fn data(&self, label: &str, info: &TensorInfo, pieces: &[&Piece]) -> Result<TensorData> {
        let bits = self.dtype.bits() / 8;
        let mut parts = Vec::with_capacity(self.parts.len());
        for part in &self.parts {
            let bytes = part.rows * self.columns as u64 * bits;
            parts.push(pieces[part.piece].slice(&info.name, part.offset, bytes)?);
        }
        let is_same = self.dtype.format() == Some(self.format) && self.paired == 0 && !self.plus_one;
        if let ([part], true) = (&parts[..], is_same) {
            return Ok(TensorData::Shared(part.clone()));
        }
        let is_vector = info.dims.len() == 1;
        Ok(TensorData::Made(Arc::new(Rows {
            file: label.to_owned(),
            tensor: info.name.clone(),
            part_rows: self.parts[0].rows as usize,
            parts,
            // A vector is one row; what is re-ordered in it are its numbers.
            paired: if is_vector { 0 } else { self.paired },
            paired_numbers: if is_vector { self.paired } else { 0 },
            dtype: self.dtype,
            format: self.format,
            columns: self.columns,
            plus_one: self.plus_one,
        })))
    }
}

/// Rows of a tensor that is translated.
#[derive(Debug)]
struct Rows {
    file: String,
    tensor: String,
    parts: Vec<SharedBytes>,
    part_rows: usize,
    paired: usize,
    paired_numbers: usize,
    dtype: Dtype,
    format: &'static Format,
    columns: usize,
    plus_one: bool,
}

/// Changed where other bytes come out of the same source.
const TRANSLATION_VERSION: u32 = 1;

/// The row of Hugging Face that stands at `row` in GGUF, where heads have `head` rows: the first half of a head and the second
/// take turns.
pub(super) fn unpaired(row: usize, head: usize) -> usize {
    if head == 0 {
        return row;
    }
    let (first, at) = (row / head * head, row % head);
    first + at % 2 * (head / 2) + at / 2
}

impl Rows {
    fn source_row_bytes(&self) -> usize {
        self.columns * self.dtype.bits() as usize / 8
    }

    fn source(&self, row: usize) -> &[u8] {
        let row = unpaired(row, self.paired);
        let bytes = self.source_row_bytes();
        &self.parts[row / self.part_rows][row % self.part_rows * bytes..][..bytes]
    }
}

impl MakeRows for Rows {
    fn make(&self, first: usize, bytes: &mut [u8]) -> Result<()> {
        let row_bytes = self.columns * self.format.block_bytes;
        let is_same = self.dtype.format() == Some(self.format) && !self.plus_one && self.paired_numbers == 0;
        let mut values = if is_same { Vec::new() } else { vec![0.0; self.columns] };
        let mut ordered = if self.paired_numbers == 0 { Vec::new() } else { vec![0.0; self.columns] };
        for (index, to) in bytes.chunks_exact_mut(row_bytes).enumerate() {
            let from = self.source(first + index);
            if is_same {
                to.copy_from_slice(from);
                continue;
            }
            decode(self.dtype, from, &mut values);
            if self.plus_one {
                values.iter_mut().for_each(|value| *value += 1.0);
            }
            let mut wanted = &values;
            if self.paired_numbers > 0 {
                for (at, to) in ordered.iter_mut().enumerate() {
                    *to = values[unpaired(at, self.paired_numbers)];
                }
                wanted = &ordered;
            }
            encode(&self.file, &self.tensor, self.format, first + index, wanted, to)?;
        }
        Ok(())
    }

    fn release_pages(&self, rows: Range<usize>) {
        // Re-ordering stays within a head, so whole heads are done with.
        let head = self.paired.max(1);
        let (start, end) = (rows.start.next_multiple_of(head), rows.end / head * head);
        let bytes = self.source_row_bytes();
        for (index, part) in self.parts.iter().enumerate() {
            let own = index * self.part_rows..(index + 1) * self.part_rows;
            let (from, to) = (start.max(own.start), end.min(own.end));
            if from < to {
                let done = part.slice((from - own.start) * bytes..(to - own.start) * bytes);
                done.into_iter().for_each(|bytes| bytes.release_pages());
            }
        }
    }

    fn recipe(&self) -> String {
        format!(
            "{TRANSLATION_VERSION} {} to {}, {} parts, heads of {}{}",
            self.dtype.name(),
            self.format.name,
            self.parts.len(),
            self.paired.max(self.paired_numbers),
            if self.plus_one { ", plus one" } else { "" }
        )
    }
}

/// Numbers of a float type as f32; F64 is rounded.
fn decode(dtype: Dtype, bytes: &[u8], values: &mut [f32]) {
    match dtype {
        Dtype::F64 => {
            let numbers = bytes.as_chunks::<8>().0;
            values.iter_mut().zip(numbers).for_each(|(value, bytes)| *value = f64::from_le_bytes(*bytes) as f32);
        }
        Dtype::F16 => {
            let numbers = bytes.as_chunks::<2>().0;
            values.iter_mut().zip(numbers).for_each(|(value, bytes)| *value = f16::from_le_bytes(*bytes).to_f32());
        }
        Dtype::BF16 => {
            let numbers = bytes.as_chunks::<2>().0;
            values.iter_mut().zip(numbers).for_each(|(value, bytes)| *value = bf16::from_le_bytes(*bytes).to_f32());
        }
        _ => {
            let numbers = bytes.as_chunks::<4>().0;
            values.iter_mut().zip(numbers).for_each(|(value, bytes)| *value = f32::from_le_bytes(*bytes));
        }
    }
}
