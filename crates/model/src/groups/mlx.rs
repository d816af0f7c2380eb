//! MLX, mode `affine`: `weight = code * scale + bias`.
//!
//! `weight` U32 [rows, columns * bits / 32], the lowest bits first; `scales` and `biases` [rows, columns / group_size].

use super::codes::{Codes, Zeros};
use super::numbers::Table;
use super::{Found, GroupedMatrix, Tensor};
use crate::error::{Error, Result};

/// The tensors of one matrix.
#[derive(Debug, Clone)]
pub struct Tensors {
    /// `weight`.
    pub weight: Tensor,
    /// `scales`.
    pub scales: Tensor,
    /// `biases`.
    pub biases: Tensor,
}

/// The matrix `name` of a model `file`, of `bits` in groups of `group_size` columns.
///
/// # Errors
/// When a tensor has another type or shape than the others ask for.
pub fn read(file: &str, name: &str, tensors: &Tensors, bits: usize, group_size: usize) -> Result<GroupedMatrix> {
    let Tensors { weight, scales, biases } = tensors;
    if ![2, 3, 4, 5, 6, 8].contains(&bits) {
        return Err(Error::tensor(file, name, "MLX of 2, 3, 4, 5, 6 or 8 bits", format!("{bits} bits")));
    }
    weight.check(file, &["U32"])?;
    let [rows, words] = weight.dims(file)?;
    let columns = words.checked_mul(32).filter(|all| all.is_multiple_of(bits)).map(|all| all / bits);
    let columns = columns.ok_or_else(|| {
        weight.error(file, format!("whole words of {bits} bits a column"), format!("{:?}", weight.shape))
    })?;
    let group_size = group_size.max(1);
    let group_count = columns.div_ceil(group_size);
    scales.check_shape(file, &[rows, group_count])?;
    biases.check_shape(file, &[rows, group_count])?;
    GroupedMatrix::new(Found {
        file,
        name,
        layout: "mlx",
        rows,
        columns,
        bits,
        codes: Codes::AlongRows(weight.bytes.clone()),
        zeros: Zeros::Middle,
        scales: Table::new(file, scales, [group_count, 1])?,
        biases: Some(Table::new(file, biases, [group_count, 1])?),
        group_count,
        group_size,
        group_of_column: None,
    })
}
