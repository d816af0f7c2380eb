//! What matrices are multiplied with, summed up by column: what an importance matrix is made of.

use duan_model::Model;
use duan_model::graph::{Graph, Op, ValueId};
use duan_model::weights::MatrixId;

/// The sums of one matrix.
#[derive(Debug, Clone, PartialEq)]
pub struct MatrixInputs {
    /// The matrix.
    pub matrix: MatrixId,
    /// Sums of the squares of its inputs, those of experts one after the other [experts, columns]; one expert where it has none.
    pub squares: Vec<f64>,
    /// How many rows each expert was multiplied with [experts].
    pub counts: Vec<u64>,
}

/// Sums up the squares of what the matrices of a graph read, op by op, before each op runs. Devices keep one of these while they
/// observe ([`Compiled::observe_inputs`](crate::Compiled::observe_inputs)).
#[derive(Debug, Clone)]
pub struct InputSums {
    /// For each node the sums; none where it has no matrices, or none was noted.
    nodes: Vec<Option<Sums>>,
}

#[derive(Debug, Clone)]
struct Sums {
    squares: Vec<f64>,
    counts: Vec<u64>,
}

impl InputSums {
    /// Nothing noted yet of the nodes of `graph`.
    pub fn new(graph: &Graph) -> Self {
        Self { nodes: vec![None; graph.nodes.len()] }
    }

    /// Notes what the matrices of `node` are about to read in a pass: `rows` rows, out of the values as `value` gives them. Ops without
    /// matrices are passed over.
    pub fn note<'a>(&mut self, model: &Model, node: usize, rows: usize, value: impl Fn(ValueId) -> &'a [f32]) {
        let op = &model.graph.nodes[node].op;
        let (Op::Linear { input, parts } | Op::ExpertLinear { input, parts, .. }) = op else { return };
        let Some(part) = parts.first() else { return };
        // All parts read the same.
        let columns = model.weights.matrix(part.matrix).columns();
        let experts = if let Op::ExpertLinear { experts, .. } = op { *experts } else { 1 };
        let sums = self.nodes[node]
            .get_or_insert_with(|| Sums { squares: vec![0.0; experts * columns], counts: vec![0; experts] });
        let input = value(*input);
        if let Op::ExpertLinear { input_per_choice, chosen, used, .. } = *op {
            let chosen = value(chosen);
            for choice in 0..rows * used {
                let (row, place) = (choice / used, choice % used);
                let expert = (chosen[row * 2 * used + place] as usize).min(experts - 1);
                let at = if input_per_choice { choice } else { row } * columns;
                sums.add(expert, &input[at..at + columns]);
            }
        } else {
            input[..rows * columns].chunks_exact(columns).for_each(|row| sums.add(0, row));
        }
    }

    /// What was noted: of every matrix of every op, in the order of the graph. A tensor of which an op reads several parts comes once
    /// for that op, since all of them are multiplied with the same; a matrix that two ops read comes twice.
    pub fn of_matrices(&self, model: &Model) -> Vec<MatrixInputs> {
        let mut all = Vec::new();
        for (node, sums) in model.graph.nodes.iter().zip(&self.nodes) {
            let (Op::Linear { parts, .. } | Op::ExpertLinear { parts, .. }, Some(sums)) = (&node.op, sums) else {
                continue;
            };
            let name = |index: usize| model.weights.matrix(parts[index].matrix).name();
            let is_first = |&index: &usize| (0..index).all(|before| name(before) != name(index));
            all.extend((0..parts.len()).filter(is_first).map(|index| {
                let Sums { squares, counts } = sums.clone();
                MatrixInputs { matrix: parts[index].matrix, squares, counts }
            }));
        }
        all
    }
}

impl Sums {
    fn add(&mut self, expert: usize, row: &[f32]) {
        self.counts[expert] += 1;
        let squares = &mut self.squares[expert * row.len()..(expert + 1) * row.len()];
        squares.iter_mut().zip(row).for_each(|(sum, &x)| *sum += f64::from(x) * f64::from(x));
    }
}
