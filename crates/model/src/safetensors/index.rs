//! `model.safetensors.index.json`: which tensors of a model lie in which of several files.

use std::collections::BTreeMap;
use std::path::Path;

use crate::error::{Error, Result, file_label, quoted};

/// A model has at most so many files: all of them are kept open.
const MOST_FILES: usize = 999;
/// Longest index that is accepted. The largest known take 10 MB.
const LIMIT_BYTES: u64 = 100_000_000;

#[derive(serde::Deserialize)]
struct Raw {
    weight_map: BTreeMap<String, String>,
}

/// The names of the files, in their order, and of each tensor the index of its file.
pub(crate) fn read_index(path: &Path) -> Result<(Vec<String>, BTreeMap<String, usize>)> {
    let raw: Raw = super::read_json(path, LIMIT_BYTES)?;
    let label = file_label(path);
    let mut files: Vec<String> = raw.weight_map.values().cloned().collect();
    files.sort();
    files.dedup();
    if files.is_empty() || files.len() > MOST_FILES {
        let found = format!("it names {} files", files.len());
        return Err(Error::wrong_file(label, found, format!("get an index of 1 to {MOST_FILES} files")));
    }
    for file in &files {
        // A name that leads elsewhere must not be followed.
        let is_plain = !file.is_empty() && !file.contains(['/', '\\', ':', '\0']) && file != "." && file != "..";
        if !is_plain || !file.ends_with(".safetensors") {
            let found = format!("it names `{}` for a file of weights", quoted(file));
            return Err(Error::wrong_file(label, found, "get the index again, from where the model is published"));
        }
    }
    let place = |file: &String| files.binary_search(file).unwrap_or(0);
    let tensors = raw.weight_map.iter().map(|(name, file)| (name.clone(), place(file))).collect();
    Ok((files, tensors))
}
