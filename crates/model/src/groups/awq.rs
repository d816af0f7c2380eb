//! AWQ (GEMM): words of eight outputs, whose nibbles stand in an order of their own.
//!
//! `qweight` I32 [columns, rows / 8], `qzeros` I32 [groups, rows / 8], `scales` [groups, rows]. Nibble `i` of a word belongs to output
//! 0, 2, 4, 6, 1, 3, 5, 7 of its eight. `weight = (code - zero) * scale`.

use super::codes::{Codes, Zeros};
use super::numbers::Table;
use super::{Found, GroupedMatrix, Tensor};
use crate::error::Result;

/// The tensors of one matrix.
#[derive(Debug, Clone)]
pub struct Tensors {
    /// `qweight`.
    pub qweight: Tensor,
    /// `qzeros`; none where the middle code stands for 0.
    pub qzeros: Option<Tensor>,
    /// `scales`.
    pub scales: Tensor,
}

/// The matrix `name` of a model `file`, of 4 bits in groups of `group_size` columns; `None` for a whole row.
///
/// # Errors
/// When a tensor has another type or shape than the others ask for.
pub fn read(file: &str, name: &str, tensors: &Tensors, group_size: Option<usize>) -> Result<GroupedMatrix> {
    let Tensors { qweight, qzeros, scales } = tensors;
    qweight.check(file, &["I32"])?;
    let [columns, words] = qweight.dims(file)?;
    let rows = words.saturating_mul(8);
    let group_size = group_size.unwrap_or(columns).max(1);
    let group_count = columns.div_ceil(group_size);
    scales.check_shape(file, &[group_count, rows])?;
    let zeros = match qzeros {
        None => Zeros::Middle,
        Some(qzeros) => {
            qzeros.check(file, &["I32"])?;
            qzeros.check_shape(file, &[group_count, words])?;
            Zeros::Awq { words: qzeros.bytes.clone(), rows }
        }
    };
    GroupedMatrix::new(Found {
        file,
        name,
        layout: "awq",
        rows,
        columns,
        bits: 4,
        codes: Codes::Awq { words: qweight.bytes.clone(), rows },
        zeros,
        scales: Table::new(file, scales, [1, rows])?,
        biases: None,
        group_count,
        group_size,
        group_of_column: None,
    })
}
