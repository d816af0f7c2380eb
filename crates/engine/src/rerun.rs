//! Parts of a pass once more, with another matrix in the place of one: what it changes is found out without all that comes before.
//!
//! Only on one device: where a model is spread over several, each has values of its own.

use std::ops::Range;

use duan_backend::Pass;
use duan_model::bytes::SharedBytes;
use duan_model::graph::{Graph, ValueId};
use duan_model::weights::MatrixId;

use crate::error::Result;
use crate::run::Runner;

/// What the ops from one on find when they begin: the values that they read before they write them.
#[derive(Debug, Clone, PartialEq)]
pub struct KeptValues {
    values: Vec<(ValueId, Vec<f32>)>,
}

impl KeptValues {
    /// Bytes held.
    pub fn bytes(&self) -> usize {
        self.values.iter().map(|(_, numbers)| numbers.len() * size_of::<f32>()).sum()
    }
}

/// The values that the ops from `first` on read before they write them.
fn read_from(graph: &Graph, first: usize) -> Vec<ValueId> {
    let (mut read, mut written) = (Vec::new(), vec![false; graph.values.len()]);
    for node in &graph.nodes[first..] {
        for value in node.op.reads() {
            if !written[value.0 as usize] && !read.contains(&value) {
                read.push(value);
            }
        }
        node.op.writes().iter().for_each(|value| written[value.0 as usize] = true);
    }
    read
}

impl Runner {
    /// See [`duan_backend::Compiled::replace_matrix`].
    ///
    /// # Errors
    /// When the device cannot, or there are several.
    pub fn replace_matrix(&mut self, matrix: MatrixId, bytes: Option<SharedBytes>) -> Result<()> {
        Ok(self.only_device()?.replace_matrix(matrix, bytes)?)
    }

    /// Runs some ops of a pass, and waits for them.
    pub(crate) fn run_ops(&mut self, pass: &Pass<'_>, ops: Range<usize>) -> Result<()> {
        let device = self.only_device()?;
        device.submit(pass, ops)?;
        Ok(device.wait()?)
    }

    /// What the ops from `first` on would find now, after those before ran for `pass`.
    pub(crate) fn keep_values(&mut self, graph: &Graph, pass: &Pass<'_>, first: usize) -> Result<KeptValues> {
        let device = self.only_device()?;
        let kept = read_from(graph, first).into_iter().map(|id| {
            let value = &graph.values[id.0 as usize];
            let rows = if value.wanted_rows_only { pass.wanted_rows() } else { pass.rows() };
            (id, device.value(id, rows * value.width).to_vec())
        });
        Ok(KeptValues { values: kept.collect() })
    }

    /// Puts values back as they were.
    pub(crate) fn put_values(&mut self, kept: &KeptValues) -> Result<()> {
        let device = self.only_device()?;
        for (id, numbers) in &kept.values {
            device.value_mut(*id, numbers.len()).copy_from_slice(numbers);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::scripted_model;

    #[test]
    fn what_is_written_first_is_not_kept() {
        let graph = scripted_model().graph.clone();
        assert_eq!(read_from(&graph, 0), []);
        assert_eq!(read_from(&graph, 1), [ValueId(0)]);
        assert_eq!(read_from(&graph, 2), []);
    }
}
