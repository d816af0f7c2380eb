//! The long lists of `duan inspect`: all metadata, all tensors.

use duan::model::checkpoint::Checkpoint;
use duan::model::gguf::{Array, Value};

use crate::output::style::{on_one_line, shortened};
use crate::output::units::{ByteUnit, counted};
use crate::output::{Align, Table};

/// Longest name of a key or a tensor that is shown whole, in characters.
const LONGEST_NAME: usize = 80;

/// All metadata, one entry a line.
pub(super) fn metadata(file: &Checkpoint) -> String {
    let mut table = Table::new(&[("KEY", Align::Left), ("TYPE", Align::Left), ("VALUE", Align::Left)]);
    for (key, value) in file.metadata().iter() {
        table.row([shortened(&on_one_line(key), LONGEST_NAME), value.type_name().to_owned(), value_text(value)]);
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
        Value::Array(array) => array_text(array),
        other => other.as_integer().map_or_else(String::new, |number| number.to_string()),
    }
}

/// A few items, or how many there are.
fn array_text(array: &Array) -> String {
    const SHOWN: usize = 8;
    if array.len() > SHOWN {
        return counted(array.len(), "item");
    }
    let items: Vec<String> = match array {
        Array::String(strings) => {
            strings.iter().map(|text| format!("\"{}\"", shortened(&on_one_line(text), 40))).collect()
        }
        Array::Bool(items) => items.iter().map(bool::to_string).collect(),
        Array::F32(items) => items.iter().map(f32::to_string).collect(),
        Array::F64(items) => items.iter().map(f64::to_string).collect(),
        other => match other.integers() {
            Some(items) => items.map(|number| number.to_string()).collect(),
            None => return counted(array.len(), "item"),
        },
    };
    format!("[{}]", items.join(", "))
}

/// All tensors, one a line.
pub(super) fn tensors(file: &Checkpoint) -> String {
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
            shortened(&on_one_line(&tensor.name), LONGEST_NAME),
            tensor.type_name().into_owned(),
            dims.join(" x "),
            tensor.bytes.map_or("?".to_owned(), |bytes| unit.number(bytes)),
        ]);
    }
    table.text()
}
