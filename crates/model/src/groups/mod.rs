//! Matrices that a checkpoint has in groups of small integers, as blocks of the formats of [`duan_quant::groups`].
//!
//! Each of the four ways in which they are written has a file here: [`compressed_tensors`], [`gptq`], [`awq`], [`mlx`]. A function
//! takes the tensors of one matrix, checks them once and says what comes out ([`GroupedMatrix`]); rows are put together when somebody
//! asks for them. Nothing is rounded but scales and biases that a half float cannot hold, and [`GroupedMatrix::is_exact`] tells whether
//! there are any.
//!
//! Codes stay what they are. What differs is where they stand: along the input or along the output, in what order within a word
//! ([`codes`]); which columns share a scale, where columns were sorted by how much they matter (*act-order*); and what stands for 0.
//! Columns that were sorted stay so: the order goes with the matrix ([`GroupedMatrix::order`]) and its input is brought into it.
//!
//! [`mod@write`] goes the other way: from blocks to compressed-tensors.

pub mod awq;
mod codes;
pub mod compressed_tensors;
pub(crate) mod exact;
pub mod gptq;
pub mod mlx;
mod numbers;
pub mod write;

use std::ops::Range;
use std::sync::Arc;

use duan_quant::Format;
use duan_quant::groups::{Groups, Header, Origin};
use half::f16;

use self::codes::{Codes, Zeros};
use self::numbers::Table;
use crate::bytes::SharedBytes;
use crate::error::{Error, Result};
use crate::rows::MakeRows;

/// Rows whose codes are taken apart at once: what lies along the output is read in runs of so many.
const ROWS_AT_ONCE: usize = 16;
/// Changed where other bytes come out of the same tensors.
const VERSION: u32 = 1;

/// One tensor of a checkpoint.
#[derive(Debug, Clone)]
pub struct Tensor {
    /// Its name, for messages.
    pub name: String,
    /// The type of its numbers, as safetensors spells it: `I32`, `F16`, ...
    pub dtype: String,
    /// Its dimensions, slowest first.
    pub shape: Vec<usize>,
    /// Its numbers.
    pub bytes: SharedBytes,
}

/// A matrix [rows, columns] in one of the formats of [`duan_quant::groups`], whose rows are made when they are asked for.
#[derive(Debug)]
pub struct GroupedMatrix {
    file: String,
    name: String,
    rows: usize,
    columns: usize,
    groups: Groups,
    format: &'static Format,
    /// Bits of a code in the checkpoint: 2 to 8.
    bits: usize,
    codes: Codes,
    zeros: Zeros,
    /// [rows, groups of the checkpoint]
    scales: Table,
    biases: Option<Table>,
    /// The group of the checkpoint that each block of a row is in.
    group_of_block: Vec<u32>,
    order: Option<Arc<[u32]>>,
    warnings: Vec<String>,
    recipe: String,
}

/// What the files of this folder find in tensors, before it is put together.
struct Found<'a> {
    file: &'a str,
    name: &'a str,
    /// How the matrix is written.
    layout: &'static str,
    rows: usize,
    columns: usize,
    bits: usize,
    codes: Codes,
    zeros: Zeros,
    scales: Table,
    biases: Option<Table>,
    /// Groups of the checkpoint in a row.
    group_count: usize,
    /// Columns of a group, where groups are consecutive columns.
    group_size: usize,
    /// The group of each column [columns], where groups are not.
    group_of_column: Option<Vec<u32>>,
}

impl GroupedMatrix {
    fn new(found: Found<'_>) -> Result<Self> {
        let Found { file, name, layout, rows, columns, bits, codes, zeros, scales, biases, group_count, .. } = found;
        if !(2..=8).contains(&bits) || rows == 0 || columns == 0 {
            let expected = "codes of 2 to 8 bits in at least one row and column";
            return Err(Error::tensor(file, name, expected, format!("[{rows}, {columns}] of {bits} bits")));
        }
        let middle = 1 << (bits - 1);
        let origin = match &biases {
            Some(_) => Origin::Bias,
            None if zeros.are_all(rows, group_count, middle) => Origin::Symmetric,
            None => Origin::ZeroPoint,
        };
        let order = found.group_of_column.as_deref().and_then(order_of);
        let group_of = |place: usize| match (&found.group_of_column, &order) {
            (None, _) => (place / found.group_size) as u32,
            (Some(groups), None) => groups[place],
            (Some(groups), Some(order)) => groups[order[place] as usize],
        };
        let stored_bits = if bits <= 4 { 4 } else { 8 };
        let (groups, format, group_of_block) = blocks(stored_bits, origin, columns, group_of).ok_or_else(|| {
            let found = format!("rows of {columns} in groups of {}", found.group_size);
            Error::tensor(file, name, "groups of whole 32 columns", found)
                .with_remedy("get the model unquantized, or in groups of 32, 64 or 128")
        })?;
        let recipe = format!("{VERSION} {layout} {bits} bits to {} {}", format.name, zeros.recipe());
        let (file, name) = (file.to_owned(), name.to_owned());
        let warnings = Vec::new();
        Ok(Self {
            file,
            name,
            rows,
            columns,
            groups,
            format,
            bits,
            codes,
            zeros,
            scales,
            biases,
            group_of_block,
            order,
            warnings,
            recipe,
        })
    }

    /// The format that rows come out in.
    pub fn format(&self) -> &'static Format {
        self.format
    }

    /// Output width.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Input width.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// Which number of the input each weight of a row belongs to, where columns were sorted [columns]: for
    /// [`crate::weights::Matrix::with_column_order`].
    pub fn order(&self) -> Option<&Arc<[u32]>> {
        self.order.as_ref()
    }

    /// What is odd about the tensors and can be lived with, one line each.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Whether every scale and bias is a half float, so that nothing at all is lost. Reads all of them.
    pub fn is_exact(&self) -> bool {
        let is_half = |x: f32| f16::from_f32(x).to_f32() == x;
        self.scales.all(is_half) && self.biases.as_ref().is_none_or(|biases| biases.all(is_half))
    }

    /// Writes the rows from `first` on into `bytes` [rows, row_bytes].
    ///
    /// # Errors
    /// When a scale or a bias is not finite, or beyond what a half float holds. Panics when the rows are out of range.
    pub fn make(&self, first: usize, bytes: &mut [u8]) -> Result<()> {
        let row_bytes = self.group_of_block.len() * self.groups.block_bytes();
        assert!(bytes.len().is_multiple_of(row_bytes), "rows of {row_bytes} bytes");
        let end = first + bytes.len() / row_bytes;
        assert!(end <= self.rows, "rows {first}..{end} of {}", self.rows);
        let mut codes = vec![0; ROWS_AT_ONCE.min(end - first) * self.columns];
        let (weights, block_bytes) = (self.groups.weights, self.groups.block_bytes());
        let mut sorted = vec![0; weights];
        for (index, bytes) in bytes.chunks_mut(ROWS_AT_ONCE * row_bytes).enumerate() {
            let first = first + index * ROWS_AT_ONCE;
            let rows = first..end.min(first + ROWS_AT_ONCE);
            let codes = &mut codes[..rows.len() * self.columns];
            self.codes.unpack(rows.clone(), self.columns, self.bits, codes);
            for ((row, bytes), codes) in
                rows.zip(bytes.chunks_exact_mut(row_bytes)).zip(codes.chunks_exact(self.columns))
            {
                for (block, bytes) in bytes.chunks_exact_mut(block_bytes).enumerate() {
                    let places = block * weights..(block + 1) * weights;
                    match &self.order {
                        None => sorted.copy_from_slice(&codes[places]),
                        Some(order) => {
                            let order = &order[places];
                            sorted.iter_mut().zip(order).for_each(|(to, &column)| *to = codes[column as usize]);
                        }
                    }
                    let header = self.header(row, self.group_of_block[block] as usize, &mut sorted)?;
                    self.groups.write(header, &sorted, bytes);
                }
            }
        }
        Ok(())
    }

    /// Hint that what `rows` are made of will not be needed soon, see [`SharedBytes::release_pages`].
    pub fn release_pages(&self, rows: Range<usize>) {
        self.codes.release_pages(rows, self.rows);
    }

    /// How the rows are made, on one line: whoever keeps them compares it, and makes them anew where it is another.
    pub fn recipe(&self) -> &str {
        &self.recipe
    }

    /// What a block has beside its codes, which are brought to what stands for 0 in its format.
    fn header(&self, row: usize, group: usize, codes: &mut [u8]) -> Result<Header> {
        let half = |table: &Table, what: &str| {
            let value = table.get(row, group);
            let half = f16::from_f32(value);
            if half.is_finite() {
                return Ok(half);
            }
            let expected = format!("a {what} that a half float holds, up to 65504");
            Err(Error::tensor(&self.file, &self.name, expected, format!("{value:e} for row {row}, group {group}"))
                .with_remedy("the checkpoint is damaged, or must be used unquantized"))
        };
        let middle = 1i16 << (self.bits - 1);
        let (target_middle, unsigned_zero) = if self.groups.bits == 4 { (8, 0) } else { (0, -128) };
        let shift = if self.groups.origin == Origin::Symmetric { target_middle - middle } else { unsigned_zero };
        if shift != 0 {
            codes.iter_mut().for_each(|code| *code = code.wrapping_add(shift as u8));
        }
        let zero = match self.groups.origin {
            Origin::ZeroPoint => i16::from(self.zeros.get(row, group, self.bits)) + unsigned_zero,
            Origin::Symmetric | Origin::Bias => 0,
        };
        let scale = half(&self.scales, "scale")?;
        let bias = self.biases.as_ref().map_or(Ok(f16::ZERO), |biases| half(biases, "bias"))?;
        Ok(Header { scale, zero, bias })
    }
}

impl MakeRows for GroupedMatrix {
    fn make(&self, first: usize, bytes: &mut [u8]) -> Result<()> {
        GroupedMatrix::make(self, first, bytes)
    }

    fn release_pages(&self, rows: Range<usize>) {
        GroupedMatrix::release_pages(self, rows);
    }

    fn recipe(&self) -> String {
        self.recipe.clone()
    }
}

/// The order that sorts columns by their group, columns of one group as they were; `None` where they are sorted already.
fn order_of(group_of_column: &[u32]) -> Option<Arc<[u32]>> {
    if group_of_column.is_sorted() {
        return None;
    }
    let mut order: Vec<u32> = (0..group_of_column.len() as u32).collect();
    order.sort_by_key(|&column| group_of_column[column as usize]);
    Some(order.into())
}

/// The largest blocks that lie within one group each, and which.
fn blocks(
    bits: usize,
    origin: Origin,
    columns: usize,
    group_of: impl Fn(usize) -> u32,
) -> Option<(Groups, &'static Format, Vec<u32>)> {
    [256, 128, 64, 32].into_iter().find_map(|weights| {
        let groups = Groups { bits, weights, origin };
        let format = groups.format().filter(|_| columns.is_multiple_of(weights))?;
        let block = |block: usize| {
            let first = group_of(block * weights);
            (block * weights + 1..(block + 1) * weights).all(|place| group_of(place) == first).then_some(first)
        };
        let group_of_block = (0..columns / weights).map(block).collect::<Option<Vec<u32>>>()?;
        Some((groups, format, group_of_block))
    })
}

#[cfg(test)]
mod tests;
