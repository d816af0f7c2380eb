//! Weights as the graph refers to them: matrices in their file's format, vectors in f32.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;

use duan_quant::{Activation, Format};

use crate::bytes::SharedBytes;
use crate::checkpoint::Checkpoint;
use crate::error::{Error, Result};
use crate::gguf::TensorInfo;
pub use crate::rows::{MakeRows, TensorData};

/// A matrix [rows, columns] in one format, rows one after the other. Its bytes are shared and never copied where they lie in a
/// file as they are; else they are made, row by row, whenever somebody reads them.
#[derive(Debug, Clone)]
pub struct Matrix {
    name: Arc<str>,
    format: &'static Format,
    rows: usize,
    columns: usize,
    row_bytes: usize,
    data: TensorData,
    /// Which row of what is made is the first of this matrix; 0 for shared bytes.
    first: usize,
    column_order: Option<Arc<[u32]>>,
}

impl Matrix {
    /// Checks once that shared bytes hold exactly [rows, columns] of `format`; rows that are made are taken at their word.
    ///
    /// # Errors
    /// When a row does not divide into blocks, or the length is not that of the shape.
    pub fn new(
        file: &str,
        name: &str,
        format: &'static Format,
        rows: usize,
        columns: usize,
        data: impl Into<TensorData>,
    ) -> Result<Self> {
        let data = data.into();
        let row_bytes = format.row_bytes(columns).ok_or_else(|| {
            let expected = format!("rows in whole {} blocks of {}", format.name, format.block_weights);
            Error::tensor(file, name, expected, format!("rows of {columns} weights"))
                .with_remedy("quantize it again to a format whose blocks divide its rows")
        })?;
        let needed = rows.checked_mul(row_bytes);
        let found = match &data {
            TensorData::Shared(bytes) => Some(bytes.len()),
            TensorData::Made(_) => needed,
        };
        if needed.is_none() || needed != found {
            let expected = format!("the bytes of [{rows}, {columns}] in {}", format.name);
            let error = Error::tensor(file, name, expected, format!("{} bytes", found.unwrap_or(usize::MAX)));
            return Err(error.or_from_another_source());
        }
        Ok(Self { name: name.into(), format, rows, columns, row_bytes, data, first: 0, column_order: None })
    }

    /// The same matrix, whose weight `i` of a row belongs to number `order[i]` of its input [columns]: weights that were sorted so that
    /// those of a group stand together (*act-order*, the `g_idx` of GPTQ).
    ///
    /// # Errors
    /// When it names a column twice, or none; and for formats of floats, which have no groups.
    pub fn with_column_order(self, file: &str, order: Arc<[u32]>) -> Result<Self> {
        let mut is_named = vec![false; self.columns];
        let mut names =
            |column: u32| is_named.get_mut(column as usize).is_some_and(|is_named| !std::mem::replace(is_named, true));
        if order.len() != self.columns || !order.iter().all(|&column| names(column)) {
            let expected = format!("an order that has each of {} columns once", self.columns);
            let error = Error::tensor(file, &self.name, expected, format!("another of {}", order.len()));
            return Err(error.or_from_another_source());
        }
        if self.format.activation != Activation::Int8 {
            let expected = "no order of columns beside weights without groups";
            return Err(Error::tensor(file, &self.name, expected, format!("one beside {}", self.format.name)));
        }
        Ok(Self { column_order: Some(order), ..self })
    }

    /// Which number of the input each weight of a row belongs to, where it is not that of its own place [columns].
    pub fn column_order(&self) -> Option<&[u32]> {
        self.column_order.as_deref()
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

    /// Bytes of all rows.
    pub fn bytes(&self) -> usize {
        self.rows * self.row_bytes
    }

    /// All bytes, [rows, row_bytes], where they need not be made.
    pub fn shared(&self) -> Option<&SharedBytes> {
        match &self.data {
            TensorData::Shared(bytes) => Some(bytes),
            TensorData::Made(_) => None,
        }
    }

    /// Rows `rows` as a matrix of their own; nothing is copied. Panics when they are out of range.
    pub fn part(&self, rows: Range<usize>) -> Self {
        assert!(rows.end <= self.rows, "rows {rows:?} of {}", self.rows);
        let (data, first) = match &self.data {
            TensorData::Shared(bytes) => {
                let bytes = bytes.slice(rows.start * self.row_bytes..rows.end * self.row_bytes);
                (bytes.expect("the rows are within the matrix").into(), 0)
            }
            made @ TensorData::Made(_) => (made.clone(), self.first + rows.start),
        };
        let (name, column_order) = (self.name.clone(), self.column_order.clone());
        Self { rows: rows.len(), data, first, name, column_order, ..*self }
    }

    /// Writes the bytes of the rows from `first` on into `bytes` [rows, row_bytes].
    ///
    /// # Errors
    /// Where rows have to be made, and a value does not fit the format. Panics when they are out of range.
    pub fn read_rows(&self, first: usize, bytes: &mut [u8]) -> Result<()> {
        assert!(first * self.row_bytes + bytes.len() <= self.bytes(), "rows from {first} of {}", self.rows);
        self.data.read_rows(self.first + first, self.row_bytes, bytes)
    }

    /// The bytes of one row [row_bytes], where they need not be made: see [`Matrix::resident`]. Panics where they must, and
    /// when `row` is out of range.
    pub fn row(&self, row: usize) -> &[u8] {
        let bytes = self.shared().expect("the rows are shared, or were made at load");
        &bytes[row * self.row_bytes..(row + 1) * self.row_bytes]
    }

    /// The same matrix with bytes that are there: itself where they are shared, else all rows made now, in memory.
    ///
    /// # Errors
    /// As [`Matrix::read_rows`].
    pub fn resident(&self) -> Result<Self> {
        if self.shared().is_some() {
            return Ok(self.clone());
        }
        let mut bytes = vec![0; self.bytes()];
        self.read_rows(0, &mut bytes)?;
        Ok(self.with_bytes(bytes.into()))
    }

    /// The same matrix with these bytes for its rows, which somebody read before. Panics where their length is another.
    pub fn with_bytes(&self, bytes: SharedBytes) -> Self {
        assert_eq!(bytes.len(), self.bytes(), "bytes of `{}`", self.name);
        let (name, column_order) = (self.name.clone(), self.column_order.clone());
        Self { data: bytes.into(), first: 0, name, column_order, ..*self }
    }

    /// Hint that `rows` will not be needed soon, see [`SharedBytes::release_pages`].
    pub fn release_pages(&self, rows: Range<usize>) {
        self.data.release_pages(self.first + rows.start..self.first + rows.end, self.row_bytes);
    }

    /// How the rows are made, see [`MakeRows::recipe`]; `None` where they are shared.
    pub fn recipe(&self) -> Option<String> {
        self.data.recipe()
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

    /// The same with the bytes of those matrices made now that `is_needed`, see [`Matrix::resident`].
    ///
    /// # Errors
    /// As there.
    pub fn resident(&self, is_needed: impl Fn(MatrixId) -> bool) -> Result<Self> {
        let matrix = |(index, matrix): (usize, &Matrix)| {
            if is_needed(MatrixId(index as u32)) { matrix.resident() } else { Ok(matrix.clone()) }
        };
        let matrices = self.matrices.iter().enumerate().map(matrix).collect::<Result<_>>()?;
        Ok(Self { matrices, vectors: self.vectors.clone() })
    }

    /// The same vectors, with every matrix changed by `change`; ids stay what they are.
    pub fn with_matrices(self, change: impl FnMut(Matrix) -> Matrix) -> Self {
        Self { matrices: self.matrices.into_iter().map(change).collect(), vectors: self.vectors }
    }

    /// Bytes of all matrices and vectors.
    pub fn bytes(&self) -> u64 {
        let matrices: usize = self.matrices.iter().map(Matrix::bytes).sum();
        let vectors: usize = self.vectors.iter().map(|vector| vector.len() * size_of::<f32>()).sum();
        (matrices + vectors) as u64
    }
}

/// Finds tensors by name while a graph is recorded, checks their shapes, and notes which were used.
pub struct Binder<'a> {
    checkpoint: &'a Checkpoint,
    weights: Weights,
    matrix_ids: HashMap<Rows<'a>, MatrixId>,
    vector_ids: HashMap<Rows<'a>, VectorId>,
}

/// Some rows of a tensor: name, first row, end.
type Rows<'a> = (&'a str, usize, usize);

impl<'a> Binder<'a> {
    /// A binder over the tensors of one model.
    pub fn new(checkpoint: &'a Checkpoint) -> Self {
        Self { checkpoint, weights: Weights::default(), matrix_ids: HashMap::new(), vector_ids: HashMap::new() }
    }

    /// Whether the file has this tensor.
    pub fn has(&self, name: &str) -> bool {
        self.checkpoint.tensor(name).is_some()
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
        check_shape(self.checkpoint, info, dims)?;
        match self.matrix_ids.entry((&info.name, part.start, part.end)) {
            Entry::Occupied(known) => Ok(*known.get()),
            Entry::Vacant(free) => {
                let (file, format) = (self.checkpoint.label(), self.checkpoint.format_of(info)?);
                let mut matrix = Matrix::new(file, name, format, rows, dims[0], self.checkpoint.data(info)?)?;
                if let Some(order) = self.checkpoint.column_order(info) {
                    matrix = matrix.with_column_order(file, order)?;
                }
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
        check_shape(self.checkpoint, info, dims)?;
        match self.vector_ids.entry((&info.name, part.start, part.end)) {
            Entry::Occupied(known) => Ok(*known.get()),
            Entry::Vacant(free) => {
                let values = read_vector(self.checkpoint, info, dims.iter().product())?;
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
            .checkpoint
            .tensors()
            .iter()
            .map(|info| info.name.as_str())
            .filter(|name| !used.contains(name))
            .map(str::to_owned)
            .collect();
        (self.weights, unused)
    }

    fn require(&self, name: &str) -> Result<&'a TensorInfo> {
        self.checkpoint.tensor(name).ok_or_else(|| {
            Error::tensor(self.checkpoint.label(), name, "it, which this architecture needs", "no such tensor")
                .with_remedy("the file is incomplete; fetch or convert it again")
        })
    }
}

/// A vector tensor [length] of any readable format as f32.
///
/// # Errors
/// When its format is not read here or its bytes do not fit the length.
pub fn read_vector(checkpoint: &Checkpoint, info: &TensorInfo, length: usize) -> Result<Vec<f32>> {
    let (label, format) = (checkpoint.label(), checkpoint.format_of(info)?);
    // The rows of a vector with two dims, such as norms of heads, are read as what they are.
    let columns = info.dims.first().map_or(length, |&columns| columns as usize);
    let matrix = Matrix::new(label, &info.name, format, length / columns.max(1), columns, checkpoint.data(info)?)?;
    let mut values = vec![0.0; length];
    let resident = matrix.resident()?;
    let bytes = resident.shared().map_or(&[][..], |bytes| bytes);
    (format.dequantize)(bytes, &mut values);
    Ok(values)
}

/// Compares dimensions, fastest first; trailing ones of 1 do not count.
fn check_shape(checkpoint: &Checkpoint, info: &TensorInfo, expected: &[usize]) -> Result<()> {
    let dim = |axis: usize| info.dims.get(axis).copied().unwrap_or(1);
    let axes = expected.len().max(info.dims.len());
    if (0..axes).all(|axis| dim(axis) == expected.get(axis).copied().unwrap_or(1) as u64) {
        return Ok(());
    }
    let expected = format!("dimensions {expected:?} from the file's own keys");
    Err(Error::tensor(checkpoint.label(), &info.name, expected, format!("{:?}", info.dims)))
}
