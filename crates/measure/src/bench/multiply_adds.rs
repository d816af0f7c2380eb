//! What tokens of prefill multiply: the ceiling of prefill is how long the multiplier needs for that.
//!
//! Counted are the matrices, by their format, since formats are multiplied by different instructions; of experts those that a token
//! uses; what is only done for rows whose logits are wanted, once for the whole prompt; and attention, a multiply-add for each
//! number of each key and each value that a query sees, windows respected. What grows with the width alone (norms, activations,
//! softmax) is left out, as is what a kernel does beside its multiplications: so the share says what of the time was needed.

use duan_model::Model;
use duan_model::graph::{LinearPart, Op};
use serde::Serialize;

use super::cost::PassShape;

/// The multiply-adds of some tokens, all together.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct MultiplyAdds {
    /// How many tokens.
    pub tokens: usize,
    /// Those with weights, by the weights' format, in the order in which formats are first used.
    pub matrices: Vec<(String, u64)>,
    /// Those of queries with keys, and of scores with values.
    pub attention: u64,
}

impl MultiplyAdds {
    /// All of them.
    pub fn total(&self) -> u64 {
        self.matrices.iter().map(|(_, count)| count).sum::<u64>() + self.attention
    }
}

/// What `count` tokens behind the first `depth` multiply, when the logits of the last one are wanted.
pub fn multiply_adds(model: &Model, depth: usize, count: usize) -> MultiplyAdds {
    let mut all = MultiplyAdds { tokens: count, ..MultiplyAdds::default() };
    let pass = PassShape { start: depth, rows: count, wanted: 1 };
    model.graph.nodes.iter().for_each(|node| all.add_op(model, &node.op, pass));
    all
}

impl MultiplyAdds {
    /// What one op multiplies in a pass.
    pub fn add_op(&mut self, model: &Model, op: &Op, pass: PassShape) {
        match op {
            Op::Linear { input, parts } => {
                let rows = pass.rows_of(model, *input) as u64;
                parts.iter().for_each(|part| self.add(model, part, rows, 1));
            }
            Op::ExpertLinear { input, parts, experts, used, .. } => {
                // All experts are equally large.
                let rows = pass.rows_of(model, *input) as u64 * *used as u64;
                parts.iter().for_each(|part| self.add(model, part, rows, *experts as u64));
            }
            Op::Attention { heads, cache, .. } => {
                let cache = &model.graph.caches[*cache];
                let seen = seen(cache.window, pass.start, pass.rows);
                self.attention += *heads as u64 * (cache.key_dim + cache.value_dim) as u64 * seen;
            }
            _ => {}
        }
    }

    /// A matrix, of which a row of the input meets one part of so many, for `rows` rows.
    fn add(&mut self, model: &Model, part: &LinearPart, rows: u64, parts: u64) {
        let matrix = model.weights.matrix(part.matrix);
        let count = matrix.rows() as u64 / parts * matrix.columns() as u64 * rows;
        let format = matrix.format().name;
        match self.matrices.iter_mut().find(|(name, _)| name == format) {
            Some((_, sum)) => *sum += count,
            None => self.matrices.push((format.to_owned(), count)),
        }
    }
}

/// Positions that `count` queries behind the first `depth` see, all together: each sees itself and what is before it, at most a window.
fn seen(window: Option<usize>, depth: usize, count: usize) -> u64 {
    let window = window.unwrap_or(usize::MAX);
    (depth..depth + count).map(|position| window.min(position + 1) as u64).sum()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use duan_model::gguf::GgufFile;

    use super::*;

    fn model(name: &str) -> Model {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../backend/tests/fixtures").join(name);
        Model::from_gguf(&GgufFile::open(&path.join("model.gguf")).unwrap()).unwrap()
    }

    /// Weights of all matrices whose name has this in it.
    fn weights(model: &Model, name: &str) -> u64 {
        let matrices = model.weights.matrices().iter().filter(|matrix| matrix.name().contains(name));
        matrices.map(|matrix| (matrix.rows() * matrix.columns()) as u64).sum()
    }

    #[test]
    fn the_head_is_multiplied_once_for_all_tokens() {
        let model = model("smollm2");
        assert!(model.config.tied_head);
        let head = weights(&model, "token_embd");
        let layers = weights(&model, "blk.");
        let sum = |count: MultiplyAdds| count.matrices.iter().map(|(_, count)| count).sum::<u64>();
        assert_eq!(sum(multiply_adds(&model, 0, 1)), layers + head);
        assert_eq!(sum(multiply_adds(&model, 7, 100)), 100 * layers + head);
    }

    #[test]
    fn attention_grows_with_the_position() {
        let model = model("smollm2");
        let per_position: u64 = model
            .graph
            .nodes
            .iter()
            .filter_map(|node| match node.op {
                Op::Attention { heads, cache, .. } => {
                    let cache = &model.graph.caches[cache];
                    Some(heads as u64 * (cache.key_dim + cache.value_dim) as u64)
                }
                _ => None,
            })
            .sum();
        assert!(per_position > 0);
        // Positions 2, 3 and 4 see 3, 4 and 5.
        let count = multiply_adds(&model, 2, 3);
        assert_eq!((count.attention, count.tokens), (12 * per_position, 3));
        assert_eq!(count.total(), count.attention + count.matrices.iter().map(|(_, count)| count).sum::<u64>());
    }

    #[test]
    fn windows_end_what_a_query_sees() {
        assert_eq!(seen(None, 0, 4), 1 + 2 + 3 + 4);
        assert_eq!(seen(Some(3), 0, 4), 1 + 2 + 3 + 3);
        assert_eq!(seen(Some(3), 100, 2), 6);
        assert_eq!(seen(Some(3), 5, 0), 0);
    }

    #[test]
    fn of_experts_the_used_ones_count() {
        let model = model("qwen3moe");
        let experts = model.graph.nodes.iter().find_map(|node| match node.op {
            Op::ExpertLinear { experts, used, .. } => Some((experts as u64, used as u64)),
            _ => None,
        });
        let (experts, used) = experts.unwrap();
        let all_experts = weights(&model, "_exps");
        let dense = weights(&model, "blk.") - all_experts;
        let head = if model.config.tied_head { "token_embd" } else { "output.weight" };
        let head = weights(&model, head) - weights(&model, &format!("attn_{head}"));
        let sum: u64 = multiply_adds(&model, 0, 1).matrices.iter().map(|(_, count)| count).sum();
        assert_eq!(sum, dense + all_experts / experts * used + head);
    }
}
