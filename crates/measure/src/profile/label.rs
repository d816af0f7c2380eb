//! What ops are called: by their kinds and by the weights that they read.

use std::ops::Range;

use duan_model::Model;
use duan_model::graph::Op;

/// The kinds of some consecutive ops: `linear+add`.
pub(super) fn kinds(model: &Model, ops: &Range<usize>) -> String {
    let names: Vec<&str> = model.graph.nodes[ops.clone()].iter().map(|node| node.op.kind().name()).collect();
    names.join("+")
}

/// The matrices that they read, without their layer: `ffn_gate, ffn_up`. Empty where there are none.
pub(super) fn weights(model: &Model, ops: &Range<usize>) -> String {
    let matrices = model.graph.nodes[ops.clone()].iter().flat_map(|node| match &node.op {
        Op::Embed { table, .. } => vec![*table],
        Op::Linear { parts, .. } | Op::ExpertLinear { parts, .. } => parts.iter().map(|part| part.matrix).collect(),
        _ => Vec::new(),
    });
    let names: Vec<&str> = matrices.map(|matrix| without_layer(model.weights.matrix(matrix).name())).collect();
    names.join(", ")
}

/// `blk.7.ffn_up.weight` is `ffn_up`.
fn without_layer(name: &str) -> &str {
    let name = name.strip_suffix(".weight").unwrap_or(name);
    let behind = name.strip_prefix("blk.").and_then(|rest| rest.split_once('.'));
    behind.map_or(name, |(_, rest)| rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_matrix_of_every_layer_is_called_the_same() {
        let names = ["blk.0.ffn_up.weight", "blk.17.ffn_up.weight", "token_embd.weight", "blk.x", "output"];
        assert_eq!(names.map(without_layer), ["ffn_up", "ffn_up", "token_embd", "blk.x", "output"]);
    }
}
