//! What `duan inspect --json` prints.

use std::borrow::Cow;
use std::path::Path;

use duan::FileFacts;
use duan::facts::{MemoryRow, TemplateStatus};
use duan::model::checkpoint::Checkpoint;
use duan::model::gguf::{Array, TensorInfo, Value as Entry};
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::Findings;

/// Arrays of more items are told by type and length only: a vocabulary has a hundred thousand.
const WHOLE_ARRAY_ITEMS: usize = 64;

/// Everything that was found out, metadata and tensors included.
#[derive(Serialize)]
pub(super) struct Document<'f> {
    file: &'f Path,
    #[serde(flatten)]
    facts: &'f FileFacts,
    /// Whether there is a template that can be used; `template` tells more.
    chat_template: bool,
    chat_template_error: Option<&'f str>,
    need: Option<Need<'f>>,
    runs: bool,
    /// The sentences of `odd` alone.
    warnings: Vec<&'f str>,
    metadata: Map<String, Value>,
    tensors: Vec<Tensor<'f>>,
}

/// The need at the chosen context.
#[derive(Serialize)]
struct Need<'f> {
    #[serde(flatten)]
    row: &'f MemoryRow,
    device: &'f str,
    available_bytes: Option<u64>,
}

#[derive(Serialize)]
struct Tensor<'f> {
    name: &'f str,
    r#type: Cow<'static, str>,
    dims: &'f [u64],
    piece: usize,
    offset: u64,
    bytes: Option<u64>,
}

impl<'f> Document<'f> {
    pub(super) fn of(found: &'f Findings) -> Self {
        let (file, facts) = (&found.file, &found.facts);
        let need = facts.memory.as_ref().and_then(|memory| {
            Some(Need { row: memory.chosen()?, device: &memory.device, available_bytes: memory.available_bytes })
        });
        Self {
            file: file.path(),
            facts,
            chat_template: facts.template.status == TemplateStatus::Ready,
            chat_template_error: facts.template.error.as_deref(),
            need,
            runs: facts.runs(),
            warnings: facts.odd.iter().map(|odd| odd.text.as_str()).collect(),
            metadata: metadata_json(file),
            tensors: file.tensors().iter().map(Tensor::of).collect(),
        }
    }
}

impl<'f> Tensor<'f> {
    fn of(tensor: &'f TensorInfo) -> Self {
        Self {
            name: &tensor.name,
            r#type: tensor.type_name(),
            dims: &tensor.dims,
            piece: tensor.piece,
            offset: tensor.offset,
            bytes: tensor.bytes,
        }
    }
}

fn metadata_json(file: &Checkpoint) -> Map<String, Value> {
    file.metadata().iter().map(|(key, value)| (key.to_owned(), entry_json(value))).collect()
}

fn entry_json(value: &Entry) -> Value {
    match value {
        Entry::String(text) => json!(text),
        Entry::Bool(value) => json!(value),
        Entry::F32(value) => json!(value),
        Entry::F64(value) => json!(value),
        Entry::U64(value) => json!(value),
        Entry::Array(array) if array.len() <= WHOLE_ARRAY_ITEMS => array_json(array),
        Entry::Array(array) => json!({ "type": array.type_name(), "items": array.len() }),
        other => other.as_integer().and_then(|number| i64::try_from(number).ok()).map_or(Value::Null, Value::from),
    }
}

fn array_json(array: &Array) -> Value {
    match array {
        Array::String(strings) => strings.iter().map(Value::from).collect(),
        Array::Bool(items) => json!(items),
        Array::F32(items) => json!(items),
        Array::F64(items) => json!(items),
        Array::U64(items) => json!(items),
        Array::Nested(arrays) => arrays.iter().map(array_json).collect(),
        other => match other.integers() {
            Some(items) => items.filter_map(|number| i64::try_from(number).ok()).map(Value::from).collect(),
            None => Value::Null,
        },
    }
}
