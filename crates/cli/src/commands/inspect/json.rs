//! What `duan inspect --json` prints.

use duan::model::config::{LayerConfig, ModelConfig};
use duan::model::gguf::{Array, GgufFile, Value as Entry};
use duan::model::tokenizer::Tokenizer;
use serde_json::{Map, Value, json};

use super::{Chat, Findings, Need, TypeRow};

/// Arrays of more items are told by type and length only: a vocabulary has a hundred thousand.
const WHOLE_ARRAY_ITEMS: usize = 64;

/// Everything that was found out, metadata and tensors included.
pub(super) fn document(found: &Findings) -> Value {
    let file = &found.file;
    let tensors: Vec<Value> = file
        .tensors()
        .iter()
        .map(|tensor| {
            json!({
                "name": tensor.name, "type": tensor.type_name(), "dims": tensor.dims,
                "offset": tensor.offset, "bytes": tensor.bytes,
            })
        })
        .collect();
    json!({
        "file": file.path(),
        "bytes": file.file_bytes(),
        "version": file.version(),
        "alignment": file.alignment(),
        "name": file.metadata().string("general.name").ok().flatten(),
        "architecture": file.metadata().string("general.architecture").ok().flatten(),
        "weights": found.types.iter().map(|row| row.weights).fold(0, u64::saturating_add),
        "types": found.types.iter().map(type_json).collect::<Vec<_>>(),
        "config": found.model.as_ref().map(|model| config_json(&model.config)),
        "tokenizer": found.tokenizer.as_ref().map(tokenizer_json),
        "chat_template": matches!(found.chat, Chat::Ready),
        "chat_template_error": match &found.chat {
            Chat::Broken(error) => Some(error),
            Chat::None | Chat::Ready => None,
        },
        "need": found.need.as_ref().map(need_json),
        "runs": found.problems.is_empty(),
        "problems": found.problems,
        "warnings": found.warnings,
        "unused_tensors": found.model.as_ref().map(|model| &model.unused_tensors),
        "metadata": metadata_json(file),
        "tensors": tensors,
    })
}

fn type_json(row: &TypeRow) -> Value {
    json!({
        "type": row.name,
        "tensors": row.tensors,
        "weights": row.weights,
        "bytes": row.bytes,
        "supported": row.is_supported,
    })
}

fn config_json(config: &ModelConfig) -> Value {
    let attention = config.layers.iter().find_map(LayerConfig::attention);
    json!({
        "context_length": config.context_length,
        "vocab_size": config.vocab_size,
        "hidden_size": config.hidden_size,
        "layers": config.layers.len(),
        "heads": attention.map(|attention| attention.heads),
        "kv_heads": attention.map(|attention| attention.kv_heads),
        "head_dim": attention.map(|attention| attention.key_dim),
        "intermediate_size": config.layers.first().map(|layer| layer.mlp.intermediate_size()),
        "tied_head": config.tied_head,
    })
}

fn tokenizer_json(tokenizer: &Tokenizer) -> Value {
    json!({
        "vocab_size": tokenizer.vocab_size(),
        "bos": tokenizer.bos(),
        "eos": tokenizer.eos(),
        "adds_bos": tokenizer.adds_bos(),
        "end_of_turn": tokenizer.end_of_turn(),
    })
}

fn need_json(need: &Need) -> Value {
    json!({
        "context": need.memory.context,
        "weights_bytes": need.memory.weights_bytes,
        "kv_bytes": need.memory.kv_bytes,
        "scratch_bytes": need.memory.scratch_bytes,
        "total_bytes": need.memory.total_bytes,
        "device": need.device,
        "available_bytes": need.available_bytes,
        "fits": need.fits(),
    })
}

fn metadata_json(file: &GgufFile) -> Map<String, Value> {
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
