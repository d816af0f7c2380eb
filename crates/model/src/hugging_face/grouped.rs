//! Rows of a GGUF tensor that a folder has in groups of integers: stacked, and re-ordered where queries and keys are.
//!
//! A row is made of its codes, scales and zero points, so another order of rows is another order of what is made.

use std::ops::Range;
use std::sync::Arc;

use super::tensors::unpaired;
use crate::error::Result;
use crate::groups::GroupedMatrix;
use crate::rows::{MakeRows, TensorData};

/// Where the rows of a GGUF tensor come from.
#[derive(Debug, Clone)]
pub(crate) struct Grouped {
    /// Below each other, all with the same number of rows, format and order of columns; never empty.
    parts: Vec<Arc<GroupedMatrix>>,
    /// Rows of a head whose rotated pairs are brought together; 0 where the order stays.
    paired: usize,
}

impl Grouped {
    pub(super) fn new(parts: Vec<Arc<GroupedMatrix>>, paired: usize) -> Self {
        Self { parts, paired }
    }

    /// The first matrix: all have its format and its order of columns.
    pub(crate) fn first(&self) -> &GroupedMatrix {
        &self.parts[0]
    }

    /// Every matrix.
    pub(crate) fn parts(&self) -> &[Arc<GroupedMatrix>] {
        &self.parts
    }

    pub(super) fn data(&self) -> TensorData {
        match &self.parts[..] {
            [part] if self.paired == 0 => TensorData::Made(part.clone()),
            _ => TensorData::Made(Arc::new(self.clone())),
        }
    }

    /// Makes rows that lie within one head of one part; `at` is the first of them in the part.
    fn make_paired(&self, part: &GroupedMatrix, at: usize, row_bytes: usize, bytes: &mut [u8]) -> Result<()> {
        let count = bytes.len() / row_bytes;
        let mut made = vec![0; count.div_ceil(2) * row_bytes];
        // Every second row comes from the same half of the head, and there they lie side by side.
        for parity in 0..count.min(2) {
            let half = (count - parity).div_ceil(2);
            let made = &mut made[..half * row_bytes];
            part.make(unpaired(at + parity, self.paired), made)?;
            let places = bytes.chunks_exact_mut(row_bytes).skip(parity).step_by(2);
            places.zip(made.chunks_exact(row_bytes)).for_each(|(to, from)| to.copy_from_slice(from));
        }
        Ok(())
    }
}

impl MakeRows for Grouped {
    fn make(&self, first: usize, mut bytes: &mut [u8]) -> Result<()> {
        let (rows, columns) = (self.first().rows(), self.first().columns());
        let row_bytes = self.first().format().row_bytes(columns).expect("rows are whole blocks, as was checked");
        let mut row = first;
        while !bytes.is_empty() {
            let at = row % rows;
            let end = at.checked_div(self.paired).map_or(rows, |head| (head + 1) * self.paired);
            let count = (end - at).min(bytes.len() / row_bytes);
            let (now, rest) = bytes.split_at_mut(count * row_bytes);
            let part = &self.parts[row / rows];
            match self.paired {
                0 => part.make(at, now)?,
                _ => self.make_paired(part, at, row_bytes, now)?,
            }
            bytes = rest;
            row += count;
        }
        Ok(())
    }

    fn release_pages(&self, rows: Range<usize>) {
        // Re-ordering stays within a head, so whole heads are done with.
        let head = self.paired.max(1);
        let (start, end) = (rows.start.next_multiple_of(head), rows.end / head * head);
        let each = self.first().rows();
        for (index, part) in self.parts.iter().enumerate() {
            let (from, to) = (start.max(index * each), end.min((index + 1) * each));
            if from < to {
                part.release_pages(from - index * each..to - index * each);
            }
        }
    }

    fn recipe(&self) -> String {
        format!("{}, {} parts, heads of {}", self.first().recipe(), self.parts.len(), self.paired)
    }
}
