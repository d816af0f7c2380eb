//! GPTQ: words along the input, zero points along the output, and perhaps a group for each column.
//!
//! `qweight` I32 [columns * bits / 32, rows], `qzeros` I32 [groups, rows * bits / 32], `scales` [groups, rows], `g_idx` I32 [columns].
//! The first version of the format stores zero points less one, and `gptq_v2` as they are.

use super::codes::{Codes, Zeros};
use super::numbers::Table;
use super::{Found, GroupedMatrix, Tensor};
use crate::error::{Error, Result};

/// What the zero points are that stand in the tensors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// `checkpoint_format: "gptq"`, also where there is none: one less than what they are.
    V1,
    /// `checkpoint_format: "gptq_v2"`: what they are.
    V2,
}

/// What `quantization_config` says.
#[derive(Debug, Clone, Copy)]
pub struct Config {
    /// Bits of a code: 2, 3, 4 or 8.
    pub bits: usize,
    /// Columns of a group; `None` for -1, a whole row.
    pub group_size: Option<usize>,
    /// The version.
    pub version: Version,
    /// Whether the middle code stands for 0.
    pub symmetric: bool,
}

/// The tensors of one matrix.
#[derive(Debug, Clone)]
pub struct Tensors {
    /// `qweight`.
    pub qweight: Tensor,
    /// `qzeros`.
    pub qzeros: Tensor,
    /// `scales`.
    pub scales: Tensor,
    /// `g_idx`, where there is one.
    pub g_idx: Option<Tensor>,
}

/// The matrix `name` of a model `file`.
///
/// # Errors
/// When a tensor has another type or shape than the others and `config` ask for, or a column a group that there is none of.
pub fn read(file: &str, name: &str, tensors: &Tensors, config: Config) -> Result<GroupedMatrix> {
    let Tensors { qweight, qzeros, scales, g_idx } = tensors;
    let Config { bits, version, symmetric, .. } = config;
    if ![2, 3, 4, 8].contains(&bits) {
        return Err(Error::tensor(file, name, "GPTQ of 2, 3, 4 or 8 bits", format!("{bits} bits")));
    }
    qweight.check(file, &["I32"])?;
    qzeros.check(file, &["I32"])?;
    let [words, rows] = qweight.dims(file)?;
    let columns = words.checked_mul(32).filter(|all| all.is_multiple_of(bits)).map(|all| all / bits);
    let columns = columns.ok_or_else(|| {
        qweight.error(file, format!("whole words of {bits} bits a column"), format!("{:?}", qweight.shape))
    })?;
    let group_size = config.group_size.unwrap_or(columns).max(1);
    let group_count = columns.div_ceil(group_size);
    scales.check_shape(file, &[group_count, rows])?;
    let words_each = rows.checked_mul(bits).map_or(0, |all| all.div_ceil(32));
    qzeros.check_shape(file, &[group_count, words_each])?;
    let group_of_column = match g_idx {
        None => None,
        Some(g_idx) => g_idx.groups_of_columns(file, columns, group_count)?,
    };
    let zeros = |one_less| Zeros::AlongRows { words: qzeros.bytes.clone(), words_each, one_less };
    let is_v1 = version == Version::V1;
    let mut matrix = GroupedMatrix::new(Found {
        file,
        name,
        layout: "gptq",
        rows,
        columns,
        bits,
        codes: Codes::AcrossRows { words: qweight.bytes.clone(), rows },
        zeros: zeros(is_v1),
        scales: Table::new(file, scales, [1, rows])?,
        biases: None,
        group_count,
        group_size,
        group_of_column,
    })?;
    // What the tensors of symmetric files must say tells the versions apart.
    if symmetric && zeros(!is_v1).are_all(rows, group_count, 1 << (bits - 1)) {
        let (said, other) = if is_v1 { ("gptq", "gptq_v2") } else { ("gptq_v2", "gptq") };
        matrix.warnings.push(format!(
            "`{name}` is read as {said}, as the configuration says, but its zero points are those of {other}: if the answers are \
             nonsense, set checkpoint_format to {other}"
        ));
    }
    Ok(matrix)
}
