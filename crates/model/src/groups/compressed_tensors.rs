//! compressed-tensors: `pack-quantized` and, for codes of 8 bits, `naive-quantized` and `int-quantized`.
//!
//! Packed: `weight_packed` I32 [rows, ceil(columns * bits / 32)], the lowest bits first, of codes with half of their range added;
//! `weight_zero_point` I32 [ceil(rows * bits / 32), groups] likewise, down the rows. Not packed: `weight` I8 [rows, columns],
//! `weight_zero_point` I8 as the scales. `weight_scale` [rows, groups], [rows, 1] (per channel) or one number (per tensor), whose zero point is never packed;
//! `weight_g_idx` I32 [columns] where columns were quantized in another order. `weight = (code - zero) * scale`.

use super::codes::{Codes, Zeros};
use super::numbers::Table;
use super::{Found, GroupedMatrix, Tensor};
use crate::error::{Error, Result};

/// The tensors of one matrix.
#[derive(Debug, Clone)]
pub struct Tensors {
    /// `weight_packed`, or `weight` in I8.
    pub weight: Tensor,
    /// `weight_shape`, which packed ones have.
    pub shape: Option<Tensor>,
    /// `weight_scale`.
    pub scale: Tensor,
    /// `weight_zero_point`; none where the middle code stands for 0.
    pub zero_point: Option<Tensor>,
    /// `weight_g_idx`, where there is one.
    pub g_idx: Option<Tensor>,
}

/// The matrix `name` of a model `file`, of `bits` in groups of `group_size` columns; `None` per channel and per tensor.
///
/// # Errors
/// When a tensor has another type or shape than the others ask for, or a column a group that there is none of.
pub fn read(
    file: &str,
    name: &str,
    tensors: &Tensors,
    bits: usize,
    group_size: Option<usize>,
) -> Result<GroupedMatrix> {
    let Tensors { scale, zero_point, g_idx, .. } = tensors;
    if !(2..=8).contains(&bits) {
        return Err(Error::tensor(file, name, "codes of 2 to 8 bits", format!("{bits} bits")));
    }
    let (rows, columns, codes) = codes(file, tensors, bits)?;
    let group_size = group_size.unwrap_or(columns).max(1);
    let group_count = columns.div_ceil(group_size);
    // One number for all rows, or one for each row and group.
    let is_one = |tensor: &Tensor| group_count == 1 && tensor.shape.iter().all(|&dim| dim == 1);
    let strides = |tensor: &Tensor| -> Result<[usize; 2]> {
        if is_one(tensor) {
            return Ok([0, 0]);
        }
        if group_count > 1 || tensor.shape.len() != 1 {
            tensor.check_shape(file, &[rows, group_count])?;
        } else {
            tensor.check_shape(file, &[rows])?;
        }
        Ok([group_count, 1])
    };
    let zeros = match zero_point {
        None => Zeros::Middle,
        Some(zeros) if zeros.dtype == "I32" => {
            zeros.check(file, &["I32"])?;
            zeros.check_shape(file, &[rows.saturating_mul(bits).div_ceil(32), group_count])?;
            Zeros::AcrossRows { words: zeros.bytes.clone(), groups: group_count }
        }
        Some(zeros) => {
            zeros.check(file, &["I8"])?;
            // A single one is not packed.
            if bits < 8 && !is_one(zeros) {
                return Err(zeros.error(file, "packed zero points beside packed codes".to_owned(), "I8".to_owned()));
            }
            Zeros::Bytes { bytes: zeros.bytes.clone(), strides: strides(zeros)? }
        }
    };
    let group_of_column = match g_idx {
        None => None,
        Some(g_idx) => g_idx.groups_of_columns(file, columns, group_count)?,
    };
    GroupedMatrix::new(Found {
        file,
        name,
        layout: "compressed-tensors",
        rows,
        columns,
        bits,
        codes,
        zeros,
        scales: Table::new(file, scale, strides(scale)?)?,
        biases: None,
        group_count,
        group_size,
        group_of_column,
    })
}

/// Rows, columns and codes.
fn codes(file: &str, tensors: &Tensors, bits: usize) -> Result<(usize, usize, Codes)> {
    let Tensors { weight, shape, .. } = tensors;
    let [rows, words] = weight.dims(file)?;
    if weight.dtype != "I32" {
        weight.check(file, &["I8"])?;
        return Ok((rows, words, Codes::Bytes(weight.bytes.clone())));
    }
    weight.check(file, &["I32"])?;
    let Some(shape) = shape else {
        return Err(weight.error(file, "its shape beside it".to_owned(), "no `weight_shape`".to_owned()));
    };
    shape.check(file, &["I64", "I32"])?;
    let size = if shape.dtype == "I64" { 8 } else { 4 };
    let number = |bytes: &[u8]| bytes.iter().rev().fold(0u64, |number, &byte| number << 8 | u64::from(byte));
    let dims: Vec<u64> = shape.bytes.chunks_exact(size).map(number).collect();
    let columns = match dims[..] {
        [all, columns] if all == rows as u64 => usize::try_from(columns).ok(),
        _ => None,
    };
    let fits = |columns: &usize| columns.checked_mul(bits).is_some_and(|all| all.div_ceil(32) == words);
    let columns = columns.filter(fits).ok_or_else(|| {
        let expected = format!("the shape of [{rows}, {words}] words with {bits} bits a code");
        shape.error(file, expected, format!("{dims:?}"))
    })?;
    Ok((rows, columns, Codes::AlongRows(weight.bytes.clone())))
}
