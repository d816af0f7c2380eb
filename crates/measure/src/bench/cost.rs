//! What one token of decode reads: the weights, and the keys and values of the positions before it.
//!
//! Counted is what must come from memory: every matrix that an op multiplies with, whole; one row of a table that is only looked
//! up; of experts those that a token uses; keys and values of the positions that attention sees, windows respected; states.
//! Vectors (norms, biases) stay in caches and are left out, as is what a token writes.

use duan_backend::KvFormat;
use duan_model::Model;
use duan_model::graph::Op;

/// Bytes of weights that one token reads, as the file has them.
pub fn weights_bytes(model: &Model) -> u64 {
    let bytes = |id| model.weights.matrix(id).bytes() as u64;
    let of = |op: &Op| match op {
        Op::Embed { table, .. } => model.weights.matrix(*table).row_bytes() as u64,
        Op::Linear { parts, .. } => parts.iter().map(|part| bytes(part.matrix)).sum(),
        Op::ExpertLinear { parts, experts, used, .. } => {
            // All experts are equally large.
            parts.iter().map(|part| bytes(part.matrix) / *experts as u64 * *used as u64).sum()
        }
        _ => 0,
    };
    model.graph.nodes.iter().map(|node| of(&node.op)).sum()
}

/// Bytes of keys, values and states that the token at `position` reads.
pub fn cache_bytes(model: &Model, kv_format: KvFormat, position: usize) -> u64 {
    let seen = |window: Option<usize>| window.map_or(position + 1, |window| window.min(position + 1)) as u64;
    let caches = model.graph.caches.iter().map(|cache| {
        let numbers = cache.kv_heads * (cache.key_dim + cache.value_dim);
        seen(cache.window) * (numbers * kv_format.bytes()) as u64
    });
    let states = model.graph.states.iter().map(|state| (state.width * size_of::<f32>()) as u64);
    caches.chain(states).sum()
}

/// Bytes that a token reads on average, of `count` tokens behind the first `depth`.
pub fn bytes_per_token(model: &Model, kv_format: KvFormat, depth: usize, count: usize) -> u64 {
    let caches: u64 = (depth..depth + count).map(|position| cache_bytes(model, kv_format, position)).sum();
    weights_bytes(model) + caches / count.max(1) as u64
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use duan_model::gguf::GgufFile;

    use super::*;

    fn model(name: &str) -> Model {
        let path: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("../backend/tests/fixtures").join(name);
        Model::from_gguf(&GgufFile::open(&path.join("model.gguf")).unwrap()).unwrap()
    }

    fn matrix_bytes(model: &Model, name: &str) -> u64 {
        let matrices = model.weights.matrices().iter().filter(|matrix| matrix.name().contains(name));
        matrices.map(|matrix| matrix.bytes() as u64).sum()
    }

    #[test]
    fn a_tied_table_counts_whole_and_one_row_more() {
        let model = model("smollm2");
        assert!(model.config.tied_head);
        let table = &model.weights.matrices()[0];
        let row = table.row_bytes() as u64;
        assert_eq!(weights_bytes(&model), matrix_bytes(&model, "") + row);
    }

    #[test]
    fn a_table_that_is_only_looked_up_counts_one_row() {
        let model = model("phi3");
        assert!(!model.config.tied_head);
        let table = &model.weights.matrices()[0];
        assert_eq!(table.name(), "token_embd.weight");
        let row = table.row_bytes() as u64;
        assert_eq!(weights_bytes(&model), matrix_bytes(&model, "") - table.bytes() as u64 + row);
    }

    #[test]
    fn of_experts_the_used_ones_count() {
        let model = model("qwen3moe");
        let experts = model.graph.nodes.iter().find_map(|node| match node.op {
            Op::ExpertLinear { experts, used, .. } => Some((experts as u64, used as u64)),
            _ => None,
        });
        let (experts, used) = experts.unwrap();
        assert!(used < experts);
        let all_experts = matrix_bytes(&model, "_exps");
        let table = &model.weights.matrices()[0];
        let looked_up = if model.config.tied_head { 0 } else { table.bytes() as u64 };
        let dense = matrix_bytes(&model, "") - all_experts - looked_up + table.row_bytes() as u64;
        assert_eq!(weights_bytes(&model), dense + all_experts / experts * used);
    }

    #[test]
    fn windows_end_what_attention_reads() {
        let model = model("gemma3");
        let window = model.graph.caches.iter().find_map(|cache| cache.window).unwrap();
        let all: u64 = model.config.kv_values_per_position() as u64 * 2;
        let cache_of =
            |cache: &duan_model::graph::CacheConfig| (cache.kv_heads * (cache.key_dim + cache.value_dim)) as u64 * 2;
        let windowed: u64 = model.graph.caches.iter().filter(|cache| cache.window.is_some()).map(cache_of).sum();
        assert!(windowed > 0 && windowed < all);
        let at = |position| cache_bytes(&model, KvFormat::F16, position);
        assert_eq!(at(0), all);
        assert_eq!(at(window - 1), all * window as u64);
        assert_eq!(at(window + 9), all * window as u64 + 10 * (all - windowed));
        assert_eq!(cache_bytes(&model, KvFormat::F32, 0), 2 * all);
        // Positions 2, 3 and 4 read 3, 4 and 5.
        assert_eq!(bytes_per_token(&model, KvFormat::F16, 2, 3), weights_bytes(&model) + 4 * all);
    }

    #[test]
    fn states_are_read_at_every_position() {
        let model = model("lfm2");
        let states: usize = model.graph.states.iter().map(|state| state.width * 4).sum();
        assert!(states > 0);
        let keys = model.config.kv_values_per_position() as u64 * 2;
        assert_eq!(cache_bytes(&model, KvFormat::F16, 4), 5 * keys + states as u64);
    }
}
