//! The tensors of a file by their types.

use std::borrow::Cow;
use std::collections::HashMap;

use duan_model::checkpoint::Checkpoint;
use duan_model::gguf::TensorInfo;
use duan_quant::TypeStatus;
use serde::Serialize;

/// All tensors of one type.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct TypeFacts {
    /// Name as in GGUF, or `type 200` where it has none.
    #[serde(rename = "type")]
    pub name: String,
    /// How many tensors.
    pub tensors: usize,
    /// Their weights.
    pub weights: u64,
    /// Their bytes; `None` where the size of the type is not known.
    pub bytes: Option<u64>,
    /// Their bits per weight.
    pub bits_per_weight: Option<f64>,
    /// Whether this version reads the type.
    #[serde(rename = "supported")]
    pub is_supported: bool,
    /// `supported`, `unsupported`, `removed` from GGUF, or `unknown`.
    pub status: &'static str,
}

/// All tensors of a folder whose numbers are of one type in its files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct DiskTypeFacts {
    /// The type, as safetensors or a layout of quantized checkpoints names it.
    #[serde(rename = "type")]
    pub name: String,
    /// How many tensors.
    pub tensors: usize,
    /// Their weights.
    pub weights: u64,
}

/// A folder's tensors by their types on the disk, that of the most weights first; nothing for a GGUF file.
pub(super) fn on_disk(file: &Checkpoint) -> Vec<DiskTypeFacts> {
    if file.gguf().is_some() {
        return Vec::new();
    }
    let mut rows: HashMap<String, DiskTypeFacts> = HashMap::new();
    for tensor in file.tensors() {
        let name = file.origin_of(tensor).0;
        let empty = DiskTypeFacts { name: name.clone(), tensors: 0, weights: 0 };
        let row = rows.entry(name).or_insert(empty);
        row.tensors += 1;
        row.weights = row.weights.saturating_add(tensor.elements());
    }
    let mut rows: Vec<DiskTypeFacts> = rows.into_values().collect();
    rows.sort_by(|a, b| b.weights.cmp(&a.weights).then_with(|| a.name.cmp(&b.name)));
    rows
}

/// The tensors of a file by their types, that of the most weights first.
pub(crate) fn of(file: &Checkpoint) -> Vec<TypeFacts> {
    let mut rows: HashMap<Cow<'static, str>, TypeFacts> = HashMap::new();
    for tensor in file.tensors() {
        let row = rows.entry(tensor.type_name()).or_insert_with(|| TypeFacts::empty(tensor));
        row.tensors += 1;
        row.weights = row.weights.saturating_add(tensor.elements());
        row.bytes = row.bytes.zip(tensor.bytes).map(|(sum, bytes)| sum.saturating_add(bytes));
    }
    let mut rows: Vec<TypeFacts> = rows.into_values().collect();
    for row in &mut rows {
        row.bits_per_weight = row.bytes.and_then(|bytes| bits(bytes, row.weights));
    }
    rows.sort_by(|a, b| b.weights.cmp(&a.weights).then_with(|| a.name.cmp(&b.name)));
    rows
}

impl TypeFacts {
    /// The row of a tensor's type, without any tensor in it.
    fn empty(tensor: &TensorInfo) -> Self {
        let (is_supported, status) = match tensor.type_status() {
            TypeStatus::Supported(_) => (true, "supported"),
            TypeStatus::Unsupported { .. } => (false, "unsupported"),
            TypeStatus::Removed { .. } => (false, "removed"),
            TypeStatus::Unknown => (false, "unknown"),
        };
        let name = tensor.type_name().into_owned();
        Self { name, tensors: 0, weights: 0, bytes: Some(0), bits_per_weight: None, is_supported, status }
    }
}

/// Bits per weight over all types.
pub(crate) fn bits_per_weight(types: &[TypeFacts]) -> Option<f64> {
    let weights = types.iter().map(|row| row.weights).fold(0, u64::saturating_add);
    let bytes = types.iter().map(|row| row.bytes).try_fold(0u64, |sum, bytes| Some(sum.saturating_add(bytes?)))?;
    bits(bytes, weights)
}

fn bits(bytes: u64, weights: u64) -> Option<f64> {
    (weights > 0).then(|| bytes as f64 * 8.0 / weights as f64)
}

/// The weights that one token uses of a mixture with so many experts, of which it uses so many: all but those of the experts
/// that are not chosen. The experts of a layer are one tensor, whose name tells.
pub(super) fn active_weights(file: &Checkpoint, experts: Option<(usize, usize)>) -> Option<u64> {
    let (experts, used) = experts.filter(|&(experts, used)| experts > 0 && used <= experts)?;
    let mut has_experts = false;
    let active = |tensor: &TensorInfo| {
        if !tensor.name.contains("_exps.") {
            return tensor.elements();
        }
        has_experts = true;
        (u128::from(tensor.elements()) * used as u128 / experts as u128) as u64
    };
    let weights = file.tensors().iter().map(active).fold(0, u64::saturating_add);
    has_experts.then_some(weights)
}
