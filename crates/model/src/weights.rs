//! Weights as the graph refers to them: matrices in their file's format, vectors in f32.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;

use duan_quant::Format;

use crate::bytes::SharedBytes;
use crate::error::{Error, Result};
use crate::gguf::{GgufFile, TensorInfo};

/// A matrix [rows, columns] in one format, rows one after the other; its bytes are shared, never copied.
#[derive(Debug, Clone)]
pub struct Matrix {
    name: Arc<str>,
    format: &'static Format,
    rows: usize,
    columns: usize,
    row_bytes: usize,
    bytes: SharedBytes,
}

impl Matrix {
    /// Checks once that `bytes` hold exactly [rows, columns] of `format`.
    ///
    /// # Errors
    /// When a row does not divide into blocks, or the length is not that of the shape.
    pub fn new(
        file: &str,
        name: &str,
        format: &'static Format,
        rows: usize,
        columns: usize,
        bytes: SharedBytes,
    ) -> Result<Self> {
        let row_bytes = format.row_bytes(columns).ok_or_else(|| {
            let expected = format!("rows in whole {} blocks of {}", format.name, format.block_weights);
            Error::tensor(file, name, expected, format!("rows of {columns} weights"))
                .with_remedy("quantize it again to a format whose blocks divide its rows")
        })?;
        if rows.checked_mul(row_bytes) != Some(bytes.len()) {
            let expected = format!("the bytes of [{rows}, {columns}] in {}", format.name);
            let error = Error::tensor(file, name, expected, format!("{} bytes", bytes.len()));
            return Err(error.or_from_another_source());
        }
        Ok(Self { name: name.into(), format, rows, columns, row_bytes, bytes })
    }

    /// The tensor's name in the file.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// How the weights are coded.
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

    /// Bytes of one row.
    pub fn row_bytes(&self) -> usize {
        self.row_bytes
    }

    /// All bytes, [rows, row_bytes].
    pub fn bytes(&self) -> &SharedBytes {
        &self.bytes
    }

    /// Rows `rows` as a matrix of their own; nothing is copied. Panics when they are out of range.
    pub fn part(&self, rows: Range<usize>) -> Self {
        let bytes = self.bytes.slice(rows.start * self.row_bytes..rows.end * self.row_bytes);
        let bytes = bytes.expect("the rows are within the matrix");
        Self { rows: rows.len(), bytes, name: self.name.clone(), ..*self }
    }

    /// The bytes of one row [row_bytes]. Panics when `row` is out of range.
    pub fn row(&self, row: usize) -> &[u8] {
        &self.bytes[row * self.row_bytes..(row + 1) * self.row_bytes]
    }
}

/// Index of a matrix in [`Weights`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct MatrixId(pub u32);

/// Index of a vector in [`Weights`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct VectorId(pub u32);

/// Every matrix and vector that a graph refers to.
#[derive(Debug, Default)]
pub struct Weights {
    matrices: Vec<Matrix>,
    vectors: Vec<Arc<[f32]>>,
}

impl Weights {
    /// The matrix behind an id that [`Binder`] gave out.
    pub fn matrix(&self, id: MatrixId) -> &Matrix {
        &self.matrices[id.0 as usize]
    }

    /// The vector behind an id that [`Binder`] gave out.
    pub fn vector(&self, id: VectorId) -> &Arc<[f32]> {
        &self.vectors[id.0 as usize]
    }

    /// All matrices, in the order in which the graph first used them.
    pub fn matrices(&self) -> &[Matrix] {
        &self.matrices
    }

    /// Bytes of all matrices and vectors.
    pub fn bytes(&self) -> u64 {
        let matrices: usize = self.matrices.iter().map(|matrix| matrix.bytes.len()).sum();
        let vectors: usize = self.vectors.iter().map(|vector| vector.len() * size_of::<f32>()).sum();
        (matrices + vectors) as u64
    }
}

/// Finds tensors by name while a graph is recorded, checks their shapes, and notes which were used.
pub struct Binder<'a> {
    file: &'a GgufFile,
    weights: Weights,
    matrix_ids: HashMap<Rows<'a>, MatrixId>,
    vector_ids: HashMap<Rows<'a>, VectorId>,
}

/// Some rows of a tensor: name, first row, end.
type Rows<'a> = (&'a str, usize, usize);

impl<'a> Binder<'a> {
    /// A binder over the tensors of one file.
    pub fn new(file: &'a GgufFile) -> Self {
        Self { file, weights: Weights::default(), matrix_ids: HashMap::new(), vector_ids: HashMap::new() }
    }

    /// Whether the file has this tensor.
    pub fn has(&self, name: &str) -> bool {
        self.file.tensor(name).is_some()
    }

    /// The matrix `name` [rows, columns]; the same id when it is asked for again.
    ///
    /// # Errors
    /// When it is missing, has another shape or a format that is not read here.
    pub fn matrix(&mut self, name: &str, rows: usize, columns: usize) -> Result<MatrixId> {
        self.matrix_rows(name, rows, columns, 0..rows)
    }

    /// The rows `part` of the matrix `name` [rows, columns].
    ///
    /// # Errors
    /// As [`Binder::matrix`].
    pub fn matrix_rows(&mut self, name: &str, rows: usize, columns: usize, part: Range<usize>) -> Result<MatrixId> {
        self.matrix_of(name, &[columns, rows], rows, part)
    }

    /// The matrices [rows, columns] of all experts in the tensor `name`, below each other: [experts * rows, columns].
    ///
    /// # Errors
    /// As [`Binder::matrix`].
    pub fn experts(&mut self, name: &str, experts: usize, rows: usize, columns: usize) -> Result<MatrixId> {
        let all = experts * rows;
        self.matrix_of(name, &[columns, rows, experts], all, 0..all)
    }

    /// The rows `part` of a tensor of dimensions `dims`, fastest first, that is `rows` rows of `dims[0]`.
    fn matrix_of(&mut self, name: &str, dims: &[usize], rows: usize, part: Range<usize>) -> Result<MatrixId> {
        let info = self.require(name)?;
        check_shape(self.file, info, dims)?;
        match self.matrix_ids.entry((&info.name, part.start, part.end)) {
            Entry::Occupied(known) => Ok(*known.get()),
            Entry::Vacant(free) => {
                let (file, format) = (self.file.label(), format_of(self.file, info)?);
                let matrix = Matrix::new(file, name, format, rows, dims[0], self.file.tensor_data(info)?)?;
                let id = MatrixId(self.weights.matrices.len() as u32);
                self.weights.matrices.push(matrix.part(part));
                Ok(*free.insert(id))
            }
        }
    }

    /// The numbers of the tensor `name` of dimensions `dims`, fastest first, dequantized to f32; the same id when they are
    /// asked for again.
    ///
    /// # Errors
    /// As [`Binder::matrix`].
    pub fn vector(&mut self, name: &str, dims: &[usize]) -> Result<VectorId> {
        let length = dims.iter().product();
        self.vector_of(name, dims, 0..length)
    }

    /// The numbers `part` of the vector `name` [length].
    ///
    /// # Errors
    /// As [`Binder::matrix`].
    pub fn vector_part(&mut self, name: &str, length: usize, part: Range<usize>) -> Result<VectorId> {
        self.vector_of(name, &[length], part)
    }

    fn vector_of(&mut self, name: &str, dims: &[usize], part: Range<usize>) -> Result<VectorId> {
        let info = self.require(name)?;
        check_shape(self.file, info, dims)?;
        match self.vector_ids.entry((&info.name, part.start, part.end)) {
            Entry::Occupied(known) => Ok(*known.get()),
            Entry::Vacant(free) => {
                let values = read_vector(self.file, info, dims.iter().product())?;
                let id = VectorId(self.weights.vectors.len() as u32);
                self.weights.vectors.push(values[part].into());
                Ok(*free.insert(id))
            }
        }
    }

    /// The weights bound so far, and the names of tensors that nothing asked for.
    pub fn finish(self) -> (Weights, Vec<String>) {
        let used: HashSet<&str> = self.matrix_ids.keys().chain(self.vector_ids.keys()).map(|rows| rows.0).collect();
        let unused = self
            .file
            .tensors()
            .iter()
            .map(|info| info.name.as_str())
            .filter(|name| !used.contains(name))
            .map(str::to_owned)
            .collect();
        (self.weights, unused)
    }

    fn require(&self, name: &str) -> Result<&'a TensorInfo> {
        self.file.tensor(name).ok_or_else(|| {
            Error::tensor(self.file.label(), name, "it, which this architecture needs", "no such tensor")
                .with_remedy("the file is incomplete; fetch or convert it again")
        })
    }
}

/// A vector tensor [length] of any readable format as f32.
///
/// # Errors
/// When its format is not read here or its bytes do not fit the length.
pub fn read_vector(file: &GgufFile, info: &TensorInfo, length: usize) -> Result<Vec<f32>> {
    let matrix = Matrix::new(file.label(), &info.name, format_of(file, info)?, 1, length, file.tensor_data(info)?)?;
    let mut values = vec![0.0; length];
    (matrix.format.dequantize)(&matrix.bytes, &mut values);
    Ok(values)
}

fn format_of(file: &GgufFile, info: &TensorInfo) -> Result<&'static Format> {
    duan_quant::format_by_gguf_id(info.type_id).ok_or_else(|| {
        let found = format!("type id {}", info.type_id);
        Error::tensor(file.label(), &info.name, "a type that this version reads", found)
    })
}

/// Compares dimensions, fastest first; trailing ones of 1 do not count.
fn check_shape(file: &GgufFile, info: &TensorInfo, expected: &[usize]) -> Result<()> {
    let dim = |axis: usize| info.dims.get(axis).copied().unwrap_or(1);
    let axes = expected.len().max(info.dims.len());
    if (0..axes).all(|axis| dim(axis) == expected.get(axis).copied().unwrap_or(1) as u64) {
        return Ok(());
    }
    let expected = format!("dimensions {expected:?} from the file's own keys");
    Err(Error::tensor(file.label(), &info.name, expected, format!("{:?}", info.dims)))
}
