//! Tensors of a checkpoint as numbers: their types and shapes are checked here.

use half::{bf16, f16};

use super::Tensor;
use crate::bytes::SharedBytes;
use crate::error::{Error, Result};

impl Tensor {
    /// Fails unless the tensor has one of these types and as many bytes as its shape says.
    pub(super) fn check(&self, file: &str, dtypes: &[&str]) -> Result<()> {
        if !dtypes.contains(&&*self.dtype) {
            return Err(self.error(file, format!("numbers of {}", dtypes.join(" or ")), self.dtype.clone()));
        }
        let size = match &*self.dtype {
            "I8" | "U8" => 1,
            "F16" | "BF16" => 2,
            "I64" => 8,
            _ => 4,
        };
        let bytes = self.shape.iter().try_fold(size, |bytes: usize, &dim| bytes.checked_mul(dim));
        if bytes != Some(self.bytes.len()) {
            let expected = format!("the bytes of {:?} in {}", self.shape, self.dtype);
            return Err(self.error(file, expected, format!("{} bytes", self.bytes.len())));
        }
        Ok(())
    }

    /// Fails unless the tensor has this shape.
    pub(super) fn check_shape(&self, file: &str, shape: &[usize]) -> Result<()> {
        if self.shape == shape {
            return Ok(());
        }
        Err(self.error(file, format!("dimensions {shape:?}"), format!("{:?}", self.shape)))
    }

    /// The two dimensions of a matrix.
    pub(super) fn dims(&self, file: &str) -> Result<[usize; 2]> {
        let [rows, columns] = self.shape[..] else {
            return Err(self.error(file, "a matrix".to_owned(), format!("dimensions {:?}", self.shape)));
        };
        Ok([rows, columns])
    }

    /// An error that names the tensor.
    pub(super) fn error(&self, file: &str, expected: String, found: String) -> Error {
        Error::tensor(file, &self.name, expected, found).or_from_another_source()
    }

    /// Groups of columns [columns], each below `count`; `None` where the tensor says that there are none (all of them are -1).
    pub(super) fn groups_of_columns(&self, file: &str, columns: usize, count: usize) -> Result<Option<Vec<u32>>> {
        self.check(file, &["I32"])?;
        self.check_shape(file, &[columns])?;
        let numbers = || self.bytes.as_chunks::<4>().0.iter().map(|bytes| i32::from_le_bytes(*bytes));
        if numbers().all(|group| group == -1) {
            return Ok(None);
        }
        let group = |(column, group): (usize, i32)| {
            let inside = u32::try_from(group).ok().filter(|&group| (group as usize) < count);
            inside.ok_or_else(|| {
                self.error(file, format!("groups below {count}"), format!("{group} for column {column}"))
            })
        };
        numbers().enumerate().map(group).collect::<Result<Vec<u32>>>().map(Some)
    }
}

/// Float types of scales and biases.
pub(super) const FLOATS: [&str; 3] = ["F16", "BF16", "F32"];

/// Floats for each row and group.
#[derive(Debug)]
pub(super) struct Table {
    bytes: SharedBytes,
    dtype: Dtype,
    /// How many numbers lie between those of two rows, and of two groups; 0 where all have the same.
    strides: [usize; 2],
}

#[derive(Debug, Clone, Copy)]
enum Dtype {
    F16,
    Bf16,
    F32,
}

impl Table {
    /// The numbers of a tensor; `strides` lead to numbers that it has.
    ///
    /// # Errors
    /// When it has no floats.
    pub(super) fn new(file: &str, tensor: &Tensor, strides: [usize; 2]) -> Result<Self> {
        tensor.check(file, &FLOATS)?;
        let dtype = match &*tensor.dtype {
            "F16" => Dtype::F16,
            "BF16" => Dtype::Bf16,
            _ => Dtype::F32,
        };
        Ok(Self { bytes: tensor.bytes.clone(), dtype, strides })
    }

    pub(super) fn get(&self, row: usize, group: usize) -> f32 {
        self.at(row * self.strides[0] + group * self.strides[1])
    }

    /// Whether `is` holds for every number.
    pub(super) fn all(&self, is: impl Fn(f32) -> bool) -> bool {
        let size = if matches!(self.dtype, Dtype::F32) { 4 } else { 2 };
        (0..self.bytes.len() / size).all(|index| is(self.at(index)))
    }

    fn at(&self, index: usize) -> f32 {
        let two = || [self.bytes[2 * index], self.bytes[2 * index + 1]];
        match self.dtype {
            Dtype::F16 => f16::from_le_bytes(two()).to_f32(),
            Dtype::Bf16 => bf16::from_le_bytes(two()).to_f32(),
            Dtype::F32 => {
                let bytes = &self.bytes[4 * index..4 * index + 4];
                f32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
            }
        }
    }
}
