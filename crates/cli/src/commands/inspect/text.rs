//! What `duan inspect` shows to people.

use duan::model::config::{LayerConfig, ModelConfig};
use duan::model::gguf::{GgufFile, Value};

use super::{Chat, Findings, Need, TypeRow};
use crate::output::style::{on_one_line, shortened};
use crate::output::units::{ByteUnit, bytes_text, counted, grouped};
use crate::output::{Align, Table};

/// The page that answers most questions: what it is, what it needs, whether it runs.
pub(super) fn summary(found: &Findings) -> String {
    let mut facts = Table::without_head(&[Align::Left, Align::Left]);
    for (name, value) in facts_of(found) {
        facts.row([name.to_owned(), value]);
    }
    let mut out = facts.text();
    if !found.types.is_empty() {
        out.push('\n');
        out.push_str(&types(&found.types));
    }
    out.push('\n');
    out.push_str(&verdict(found));
    out
}

fn facts_of(found: &Findings) -> Vec<(&'static str, String)> {
    let file = &found.file;
    let text = |key: &str| file.metadata().string(key).ok().flatten().map(|text| shortened(&on_one_line(text), 100));
    let mut facts = vec![("file", file.label().to_owned())];
    facts.push(("format", format!("GGUF {}, {}", file.version(), bytes_text(file.file_bytes()))));
    facts.extend(text("general.name").map(|name| ("name", name)));
    facts.extend(text("general.license").map(|licence| ("licence", licence)));
    facts.extend(text("general.architecture").map(|family| ("architecture", family)));
    if !file.tensors().is_empty() {
        let weights = found.types.iter().map(|row| row.weights).fold(0, u64::saturating_add);
        facts.push(("weights", format!("{} in {}", grouped(weights), counted(file.tensors().len(), "tensor"))));
    }
    if let Some(model) = &found.model {
        facts.extend(config_facts(&model.config));
    }
    if let Some(tokenizer) = &found.tokenizer {
        let kind = text("tokenizer.ggml.model").unwrap_or_default();
        let pre = text("tokenizer.ggml.pre").map_or(String::new(), |pre| format!(", {pre}"));
        facts.push(("vocabulary", format!("{} ({kind}{pre})", counted(tokenizer.vocab_size(), "token"))));
    }
    let chat = match &found.chat {
        Chat::Ready => "has a template".to_owned(),
        Chat::None => "no template: continues text, see `duan complete`".to_owned(),
        Chat::Broken(error) => format!("has a template that cannot be used: {}", on_one_line(error)),
    };
    facts.push(("chat", chat));
    let unused = found.model.as_ref().map_or(&[][..], |model| &model.unused_tensors);
    if !unused.is_empty() {
        facts.push(("not used", unused_text(unused)));
    }
    facts
}

/// Tensors that the forward pass leaves alone: their number and the first names.
fn unused_text(names: &[String]) -> String {
    const SHOWN: usize = 4;
    let shown: Vec<String> = names.iter().take(SHOWN).map(|name| shortened(&on_one_line(name), 60)).collect();
    let more = if names.len() > SHOWN { ", ..." } else { "" };
    format!("{}: {}{more}", counted(names.len(), "tensor"), shown.join(", "))
}

fn config_facts(config: &ModelConfig) -> Vec<(&'static str, String)> {
    let mut facts = vec![
        ("context", format!("{} in training", counted(config.context_length, "token"))),
        ("layers", config.layers.len().to_string()),
        ("hidden size", config.hidden_size.to_string()),
    ];
    if let Some(attention) = config.layers.iter().find_map(LayerConfig::attention) {
        let heads = format!(
            "{}, {} of key and value, {} wide",
            counted(attention.heads, "head"),
            attention.kv_heads,
            attention.key_dim
        );
        facts.push(("attention", heads + &windows(config)));
    }
    if let Some(layer) = config.layers.first() {
        facts.push(("MLP", format!("{} wide", layer.mlp.intermediate_size())));
    }
    facts
}

/// How many layers see a window only, where any does.
fn windows(config: &ModelConfig) -> String {
    let windows: Vec<usize> = config.layers.iter().filter_map(|layer| layer.attention()?.window).collect();
    match windows.first() {
        Some(window) => {
            format!(", {} of {} with a window of {}", windows.len(), counted(config.layers.len(), "layer"), window)
        }
        None => String::new(),
    }
}

fn types(rows: &[TypeRow]) -> String {
    let unit = ByteUnit::for_largest(rows.iter().filter_map(|row| row.bytes));
    let mut table = Table::new(&[
        ("TYPE", Align::Left),
        ("TENSORS", Align::Right),
        ("WEIGHTS", Align::Right),
        (unit.name(), Align::Right),
        ("BITS/WEIGHT", Align::Right),
        ("", Align::Left),
    ]);
    for row in rows {
        let bits = row.bytes.filter(|_| row.weights > 0).map(|bytes| bytes as f64 * 8.0 / row.weights as f64);
        table.row([
            row.name.clone(),
            row.tensors.to_string(),
            grouped(row.weights),
            row.bytes.map_or("?".to_owned(), |bytes| unit.number(bytes)),
            bits.map_or("?".to_owned(), |bits| format!("{bits:.2}")),
            if row.is_supported { String::new() } else { "not read by this version".to_owned() },
        ]);
    }
    table.text()
}

fn verdict(found: &Findings) -> String {
    let mut out = String::new();
    if let Some(need) = &found.need {
        out.push_str(&need_text(need));
    }
    for warning in &found.warnings {
        out.push_str(&format!("note: {}\n", on_one_line(warning)));
    }
    if found.problems.is_empty() {
        out.push_str("runs: yes\n");
    }
    for problem in &found.problems {
        out.push_str(&format!("runs: no, {}\n", on_one_line(problem)));
    }
    out
}

fn need_text(need: &Need) -> String {
    let memory = &need.memory;
    let parts = [memory.total_bytes, memory.weights_bytes, memory.kv_bytes, memory.scratch_bytes];
    let unit = ByteUnit::for_largest(parts);
    let [total, weights, kv, scratch] = parts.map(|bytes| unit.number(bytes));
    let there = match (need.fits(), need.available_bytes) {
        (Some(true), Some(available)) => format!("fits: {} has {}", need.device, bytes_text(available)),
        (_, Some(available)) => format!("does not fit: {} has {}", need.device, bytes_text(available)),
        (_, None) => format!("the memory of {} is not known", need.device),
    };
    let context = counted(memory.context, "token");
    format!(
        "needs {total} {}: {weights} weights, {kv} KV cache for a context of {context}, {scratch} buffers; {there}\n",
        unit.name()
    )
}

/// All metadata, one entry a line.
pub(super) fn metadata(file: &GgufFile) -> String {
    let mut table = Table::new(&[("KEY", Align::Left), ("TYPE", Align::Left), ("VALUE", Align::Left)]);
    for (key, value) in file.metadata().iter() {
        table.row([on_one_line(key), value.type_name().to_owned(), value_text(value)]);
    }
    table.text()
}

/// A value on one line, long ones cut.
fn value_text(value: &Value) -> String {
    match value {
        Value::String(text) => format!("\"{}\"", shortened(&on_one_line(text), 80)),
        Value::Bool(value) => value.to_string(),
        Value::F32(value) => value.to_string(),
        Value::F64(value) => value.to_string(),
        Value::Array(array) => counted(array.len(), "item"),
        other => other.as_integer().map_or_else(String::new, |number| number.to_string()),
    }
}

/// All tensors, one a line.
pub(super) fn tensors(file: &GgufFile) -> String {
    let unit = ByteUnit::for_largest(file.tensors().iter().filter_map(|tensor| tensor.bytes));
    let mut table = Table::new(&[
        ("TENSOR", Align::Left),
        ("TYPE", Align::Left),
        ("DIMS", Align::Left),
        (unit.name(), Align::Right),
    ]);
    for tensor in file.tensors() {
        let dims: Vec<String> = tensor.dims.iter().map(u64::to_string).collect();
        table.row([
            on_one_line(&tensor.name),
            tensor.type_name().into_owned(),
            dims.join(" x "),
            tensor.bytes.map_or("?".to_owned(), |bytes| unit.number(bytes)),
        ]);
    }
    table.text()
}
