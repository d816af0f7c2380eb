//! Where every tensor stands: in which file, and where in it.
//!
//! Within a file tensors stand by the size of their numbers, the largest first, as the library of Hugging Face orders them, so that each
//! begins at a multiple of it.

use duan_model::hugging_face::Untranslated;
use serde_json::{Map, Value, json};

use super::plan::{FolderPlan, Written};
use crate::error::Result;

/// Bytes of tensors in a file, unless a single one is larger.
pub(super) const SHARD_BYTES: u64 = 5_000_000_000;

/// The files of weights.
#[derive(Debug)]
pub(super) struct Layout {
    pub(super) shards: Vec<Shard>,
    /// Of each tensor of the plan, its file.
    pub(super) shard_of: Vec<usize>,
}

/// One file of weights.
#[derive(Debug)]
pub(super) struct Shard {
    pub(super) name: String,
    /// What it begins with: length, and header.
    pub(super) head: Vec<u8>,
    /// Tensors in the order of the plan, codes before scales; each with its place in the file.
    pub(super) tensors: Vec<(Written, u64)>,
    pub(super) bytes: u64,
}

impl Layout {
    /// # Errors
    /// None that planning did not have.
    pub(super) fn new(source: &Untranslated, plan: &FolderPlan, shard_bytes: u64) -> Result<Layout> {
        let mut files: Vec<(Vec<Written>, u64)> = vec![(Vec::new(), 0)];
        let mut shard_of = Vec::with_capacity(plan.kinds.len());
        for index in 0..plan.kinds.len() {
            let written = plan.written(source, index)?;
            let bytes: u64 = written.iter().map(|tensor| tensor.bytes).sum();
            if files.last().is_some_and(|(tensors, all)| !tensors.is_empty() && all + bytes > shard_bytes) {
                files.push((Vec::new(), 0));
            }
            shard_of.push(files.len() - 1);
            let (tensors, all) = &mut files[shard_of[index]];
            tensors.extend(written);
            *all += bytes;
        }
        // What has no numbers has no pieces, and stands in the first file.
        let empty = source.tensors().iter().filter(|tensor| tensor.elements() == 0).map(|tensor| Written {
            name: tensor.name.clone(),
            dtype: tensor.dtype.name(),
            shape: tensor.shape.clone(),
            bytes: 0,
            alignment: 1,
        });
        files[0].0.extend(empty);
        let count = files.len();
        let name = |at: usize| match count {
            1 => "model.safetensors".to_owned(),
            _ => format!("model-{:05}-of-{count:05}.safetensors", at + 1),
        };
        let shards = files.into_iter().enumerate().map(|(at, (tensors, _))| shard(name(at), tensors)).collect();
        Ok(Layout { shards, shard_of })
    }

    /// Bytes of all files of weights.
    pub(super) fn file_bytes(&self) -> u64 {
        self.shards.iter().map(|shard| shard.bytes).sum()
    }

    /// Which tensor lies in which file, where there are several.
    pub(super) fn index(&self) -> Option<Value> {
        if self.shards.len() == 1 {
            return None;
        }
        let (mut map, mut total) = (Map::new(), 0);
        for shard in &self.shards {
            for (tensor, _) in &shard.tensors {
                map.insert(tensor.name.clone(), shard.name.clone().into());
                total += tensor.bytes;
            }
        }
        Some(json!({ "metadata": { "total_size": total }, "weight_map": map }))
    }
}

fn shard(name: String, tensors: Vec<Written>) -> Shard {
    let mut order: Vec<usize> = (0..tensors.len()).collect();
    order.sort_by_key(|&at| (std::cmp::Reverse(tensors[at].alignment), &*tensors[at].name));
    let mut places = vec![0; tensors.len()];
    let mut header = Map::new();
    header.insert("__metadata__".to_owned(), json!({ "format": "pt" }));
    let mut end = 0;
    for at in order {
        let Written { name, dtype, shape, bytes, .. } = &tensors[at];
        places[at] = end;
        end += bytes;
        header.insert(name.clone(), json!({ "dtype": dtype, "shape": shape, "data_offsets": [places[at], end] }));
    }
    let mut header = Value::Object(header).to_string().into_bytes();
    header.resize(header.len().next_multiple_of(8), b' ');
    let head = [&(header.len() as u64).to_le_bytes()[..], &header].concat();
    let start = head.len() as u64;
    let tensors = tensors.into_iter().zip(places).map(|(tensor, place)| (tensor, start + place)).collect();
    Shard { name, bytes: start + end, head, tensors }
}
