//! What one token of decode reads: the weights, and the keys and values of the positions before it.
//!
//! Counted is what must come from memory: every matrix that an op multiplies with, whole; one row of a table that is only looked
//! up; of experts those that a token uses; keys and values of the positions that attention sees, windows respected; states.
//! Vectors (norms, biases) stay in caches and are left out, as is what a token writes.

use duan_backend::KvFormat;
use duan_model::Model;
use duan_model::graph::{CacheConfig, Op, StateConfig};

/// What counts of a pass for what it reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PassShape {
    /// Positions before its first token.
    pub start: usize,
    /// Its tokens.
    pub rows: usize,
    /// The last of them whose logits are wanted.
    pub wanted: usize,
}

impl PassShape {
    /// One token of decode at a position.
    pub fn token(position: usize) -> Self {
        Self { start: position, rows: 1, wanted: 1 }
    }

    /// Rows that an op with this input has.
    pub(crate) fn rows_of(&self, model: &Model, input: duan_model::graph::ValueId) -> usize {
        if model.graph.values[input.0 as usize].wanted_rows_only { self.wanted } else { self.rows }
    }
}

/// Bytes of weights that one op reads in a pass, as the file has them; of experts as many as the tokens can have chosen.
pub fn op_weights_bytes(model: &Model, op: &Op, pass: PassShape) -> u64 {
    let bytes = |id| model.weights.matrix(id).bytes() as u64;
    match op {
        Op::Embed { table, .. } => model.weights.matrix(*table).row_bytes() as u64 * pass.rows as u64,
        Op::Linear { input, .. } | Op::ExpertLinear { input, .. } if pass.rows_of(model, *input) == 0 => 0,
        Op::Linear { parts, .. } => parts.iter().map(|part| bytes(part.matrix)).sum(),
        Op::ExpertLinear { parts, experts, used, .. } => {
            // All experts are equally large.
            let read = (*used as u64).saturating_mul(pass.rows as u64).min(*experts as u64);
            parts.iter().map(|part| bytes(part.matrix) / *experts as u64 * read).sum()
        }
        _ => 0,
    }
}

/// Bytes of keys, values and states that one op reads in a pass.
pub fn op_cache_bytes(model: &Model, op: &Op, kv_format: KvFormat, pass: PassShape) -> u64 {
    match *op {
        Op::Attention { cache, .. } => keys_bytes(&model.graph.caches[cache], kv_format, pass),
        Op::ShortConv { state, .. } => state_bytes(&model.graph.states[state]),
        _ => 0,
    }
}

/// Keys and values that some query of the pass sees, each once.
fn keys_bytes(cache: &CacheConfig, kv_format: KvFormat, pass: PassShape) -> u64 {
    let positions = pass.start + pass.rows;
    let seen = cache.window.map_or(positions, |window| positions.min((window + pass.rows).saturating_sub(1)));
    let numbers = cache.kv_heads * (cache.key_dim + cache.value_dim);
    seen as u64 * (numbers * kv_format.bytes()) as u64
}

fn state_bytes(state: &StateConfig) -> u64 {
    (state.width * size_of::<f32>()) as u64
}

/// Bytes of weights that one token reads, as the file has them.
pub fn weights_bytes(model: &Model) -> u64 {
    model.graph.nodes.iter().map(|node| op_weights_bytes(model, &node.op, PassShape::token(0))).sum()
}

/// Bytes of keys, values and states that the token at `position` reads.
pub fn cache_bytes(model: &Model, kv_format: KvFormat, position: usize) -> u64 {
    let caches = model.graph.caches.iter().map(|cache| keys_bytes(cache, kv_format, PassShape::token(position)));
    caches.chain(model.graph.states.iter().map(state_bytes)).sum()
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

    #[test]
    fn ops_read_together_what_the_token_reads() {
        for name in ["smollm2", "phi3", "gemma3", "qwen3moe", "lfm2"] {
            let model = model(name);
            for position in [0, 70] {
                let pass = PassShape::token(position);
                let nodes = || model.graph.nodes.iter().map(|node| &node.op);
                let weights: u64 = nodes().map(|op| op_weights_bytes(&model, op, pass)).sum();
                let cache: u64 = nodes().map(|op| op_cache_bytes(&model, op, KvFormat::F16, pass)).sum();
                let expected = (weights_bytes(&model), cache_bytes(&model, KvFormat::F16, position));
                assert_eq!((weights, cache), expected, "{name} at {position}");
            }
        }
    }

    #[test]
    fn a_pass_of_many_reads_each_weight_and_each_key_once() {
        let sums = |name: &str, pass: PassShape| {
            let model = model(name);
            let nodes = || model.graph.nodes.iter().map(|node| &node.op);
            let weights: u64 = nodes().map(|op| op_weights_bytes(&model, op, pass)).sum();
            (weights, nodes().map(|op| op_cache_bytes(&model, op, KvFormat::F16, pass)).sum::<u64>(), model)
        };
        let many = PassShape { start: 3, rows: 4, wanted: 1 };
        let (weights, cache, dense) = sums("smollm2", many);
        let row = dense.weights.matrices()[0].row_bytes() as u64;
        assert_eq!(weights, weights_bytes(&dense) + 3 * row);
        assert_eq!(cache, cache_bytes(&dense, KvFormat::F16, 6));
        // Without logits the head is not read.
        let (without, _, _) = sums("smollm2", PassShape { wanted: 0, ..many });
        assert_eq!(weights - without, dense.weights.matrices()[0].bytes() as u64);
        // Never more experts than there are.
        let (all, _, experts) = sums("qwen3moe", PassShape { start: 0, rows: 1000, wanted: 1 });
        let table = &experts.weights.matrices()[0];
        let looked_up = if experts.config.tied_head { 0 } else { table.bytes() as u64 };
        assert_eq!(all, matrix_bytes(&experts, "") - looked_up + 1000 * table.row_bytes() as u64);
        // A window of a pass begins where that of its first token does.
        let (_, windowed, model) = sums("gemma3", PassShape { start: 1000, rows: 5, wanted: 0 });
        let seen = |cache: &CacheConfig| cache.window.map_or(1005, |window| window + 4);
        let numbers = |cache: &CacheConfig| cache.kv_heads * (cache.key_dim + cache.value_dim);
        let expected: usize = model.graph.caches.iter().map(|cache| seen(cache) * numbers(cache) * 2).sum();
        assert_eq!(windowed, expected as u64);
    }
}
