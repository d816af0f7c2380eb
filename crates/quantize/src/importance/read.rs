//! Reading importance.

use std::collections::HashMap;
use std::fmt;
use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use duan_model::bytes::SharedBytes;
use duan_model::gguf::{GgufFile, TensorInfo};
use duan_model::quoted;

use super::{CHUNK_COUNT_KEY, CHUNK_SIZE_KEY, COUNTS, DATASETS_KEY, SUMS};
use crate::error::{Error, Result};

const F32_ID: u32 = 0;

const REMEDY: &str = "make it anew from this model";

/// No weight counts less than this share of the mean of its row, so that no block is without any.
const LEAST_SHARE: f32 = 1e-6;

/// A file of importance, mapped: of the entries only those are read that are asked for.
#[derive(Debug)]
pub struct Importance {
    file: GgufFile,
    /// By the matrix's name: the tensors with sums and counts.
    entries: HashMap<String, (usize, usize)>,
    datasets: Vec<String>,
    chunk_count: u32,
    chunk_size: u32,
}

impl Importance {
    /// Opens the file at `path`.
    ///
    /// # Errors
    /// Where it is no such file, in the format of before, or sums and counts do not go together.
    pub fn open(path: &Path) -> Result<Importance> {
        match GgufFile::open(path) {
            Ok(file) => Importance::new(file),
            Err(_) if starts_like_the_old_format(path) => {
                let what = "this is importance in the older format (.dat)";
                let remedy = "convert it: llama-imatrix --in-file OLD -o NEW.gguf";
                Err(Error::importance(&quoted(&path.display().to_string()), what, remedy))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// The same from bytes; `name` is what messages call it.
    ///
    /// # Errors
    /// As [`Importance::open`].
    pub fn from_bytes(bytes: Vec<u8>, name: &str) -> Result<Importance> {
        Importance::new(GgufFile::from_bytes(bytes, name)?)
    }

    fn new(file: GgufFile) -> Result<Importance> {
        let label = file.label().to_owned();
        let metadata = file.metadata();
        let datasets = metadata.strings(DATASETS_KEY)?;
        let datasets = datasets.map_or(Vec::new(), |strings| strings.iter().map(str::to_owned).collect());
        let chunk_count = metadata.u32(CHUNK_COUNT_KEY)?.unwrap_or(0);
        let chunk_size = metadata.u32(CHUNK_SIZE_KEY)?.unwrap_or(0);
        let places: HashMap<&str, usize> =
            file.tensors().iter().enumerate().map(|(index, tensor)| (&*tensor.name, index)).collect();
        let mut entries = HashMap::new();
        let mut partners = 0;
        for (index, tensor) in file.tensors().iter().enumerate() {
            if tensor.name.ends_with(COUNTS) {
                partners += 1;
            }
            let Some(name) = tensor.name.strip_suffix(SUMS) else { continue };
            let Some(&partner) = places.get(&*format!("{name}{COUNTS}")) else {
                let what = format!("there are sums and no counts for `{}`", quoted(name));
                return Err(Error::importance(&label, what, REMEDY));
            };
            check_entry(&label, name, tensor, &file.tensors()[partner])?;
            entries.insert(name.to_owned(), (index, partner));
        }
        if entries.is_empty() {
            let what = "this is a GGUF file without importance: it has no tensor called NAME.in_sum2";
            return Err(Error::importance(&label, what, "name the file that `duan importance` or llama-imatrix wrote"));
        }
        if partners != entries.len() {
            return Err(Error::importance(&label, "there are counts without sums", REMEDY));
        }
        Ok(Importance { file, entries, datasets, chunk_count, chunk_size })
    }

    /// The file's name as messages show it.
    pub fn label(&self) -> &str {
        self.file.label()
    }

    /// The file's name without its folder.
    pub fn file_name(&self) -> String {
        let path = self.file.path();
        path.file_name().map_or_else(|| self.label().to_owned(), |name| quoted(&name.to_string_lossy()))
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are none; a file without any is refused.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// What was read to make it, as whoever made it calls it.
    pub fn datasets(&self) -> &[String] {
        &self.datasets
    }

    /// Pieces of text that were read.
    pub fn chunk_count(&self) -> u32 {
        self.chunk_count
    }

    /// Tokens of a piece.
    pub fn chunk_size(&self) -> u32 {
        self.chunk_size
    }

    /// Names of the matrices that have an entry, sorted.
    pub fn names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self.entries.keys().map(|name| &**name).collect();
        names.sort_unstable();
        names
    }

    /// The importance of the matrix called `name`, which has rows of `columns` weights and `slices` experts (1 where it is no stack):
    /// every slice is looked at. None where there is no entry.
    ///
    /// # Errors
    /// Where the file cannot be read any more.
    pub fn of_matrix(&self, name: &str, columns: u64, slices: u64) -> Result<Option<Matched>> {
        let Some(&(sums, counts)) = self.entries.get(name) else { return Ok(None) };
        let tensors = self.file.tensors();
        let found = tensors[sums].elements();
        let fits = columns.checked_mul(slices) == Some(found) && [1, slices].contains(&tensors[counts].elements());
        let (sums, counts) = (self.file.tensor_data(&tensors[sums])?, self.file.tensor_data(&tensors[counts])?);
        let slices = usize::try_from(slices).unwrap_or(usize::MAX);
        let columns = usize::try_from(columns).unwrap_or(usize::MAX);
        let mut matched = Matched { sums, counts, columns, faults: Vec::new() };
        matched.faults = if fits {
            (0..slices).map(|slice| matched.fault(slice)).collect()
        } else {
            vec![Some(Fault::Length { found, columns, slices }); slices]
        };
        Ok(Some(matched))
    }
}

/// The importance of one matrix, or of a stack of them.
#[derive(Debug, Clone)]
pub struct Matched {
    /// F32 [slices, columns].
    sums: SharedBytes,
    /// F32 [slices], or one for all.
    counts: SharedBytes,
    columns: usize,
    /// What is wrong with each slice.
    faults: Vec<Option<Fault>>,
}

/// Why a slice cannot be used.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Fault {
    Length { found: u64, columns: usize, slices: usize },
    NotFinite { column: usize },
    Negative { column: usize },
    Zeros,
    NeverUsed,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Length { found, columns, slices } => {
                write!(f, "expected {slices} times {columns} sums, found {found}")
            }
            Fault::NotFinite { column } => write!(f, "the sum of column {column} is not finite"),
            Fault::Negative { column } => write!(f, "the sum of column {column} is negative"),
            Fault::Zeros => write!(f, "all sums are 0"),
            Fault::NeverUsed => write!(f, "the expert was never used"),
        }
    }
}

impl Matched {
    /// That of one slice alone, as of a matrix that is no stack.
    pub(crate) fn only(mut self, slice: u64) -> Matched {
        let slice = usize::try_from(slice).unwrap_or(usize::MAX);
        self.faults = self.faults.get(slice).map_or_else(Vec::new, |fault| vec![*fault]);
        if !matches!(self.faults[..], [None]) {
            return self;
        }
        // Nothing is wrong with the slice, so it is there.
        let part = |bytes: &SharedBytes, each: usize| bytes.slice(slice * each..(slice + 1) * each);
        if let Some(sums) = part(&self.sums, 4 * self.columns) {
            self.sums = sums;
        }
        if let Some(count) = part(&self.counts, 4).filter(|_| self.counts.len() > 4) {
            self.counts = count;
        }
        self
    }

    /// How many slices there are.
    pub fn slices(&self) -> u64 {
        self.faults.len() as u64
    }

    /// How many of them can be used.
    pub fn good_slices(&self) -> u64 {
        self.faults.iter().filter(|fault| fault.is_none()).count() as u64
    }

    /// What is wrong with the first slice that cannot be used.
    pub fn first_fault(&self) -> Option<String> {
        let at = self.faults.iter().position(Option::is_some)?;
        let fault = self.faults[at]?;
        let bad = self.faults.len() as u64 - self.good_slices();
        if self.faults.len() == 1 || matches!(fault, Fault::Length { .. }) {
            return Some(fault.to_string());
        }
        Some(format!("expert {at}: {fault} ({bad} of {} experts cannot be used)", self.faults.len()))
    }

    /// Writes how much each column of a slice counts `[columns]`, 1 on average, and says whether the slice can be used.
    pub fn weights(&self, slice: u64, weights: &mut Vec<f32>) -> bool {
        weights.clear();
        let Some(slice) = usize::try_from(slice).ok().filter(|&slice| self.faults.get(slice) == Some(&None)) else {
            return false;
        };
        // Nothing of it is so large that the sum of squares of F32 overflows F64.
        let mean = self.sums_of(slice).map(f64::from).sum::<f64>() / self.columns as f64;
        weights.extend(self.sums_of(slice).map(|sum| ((f64::from(sum) / mean) as f32).max(LEAST_SHARE)));
        true
    }

    fn sums_of(&self, slice: usize) -> impl Iterator<Item = f32> {
        let start = slice * self.columns * 4;
        floats(&self.sums[start..start + self.columns * 4])
    }

    fn fault(&self, slice: usize) -> Option<Fault> {
        let counts = floats(&self.counts).len();
        let count = floats(&self.counts).nth(if counts == 1 { 0 } else { slice });
        if !count.is_some_and(|count| count > 0.0) {
            return Some(Fault::NeverUsed);
        }
        let mut is_zero = true;
        for (column, sum) in self.sums_of(slice).enumerate() {
            if !sum.is_finite() {
                return Some(Fault::NotFinite { column });
            }
            if sum < 0.0 {
                return Some(Fault::Negative { column });
            }
            is_zero &= sum == 0.0;
        }
        is_zero.then_some(Fault::Zeros)
    }
}

fn floats(bytes: &[u8]) -> impl ExactSizeIterator<Item = f32> {
    bytes.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes))
}

/// Sums and counts of one matrix must be F32, and as many sums as counts times something.
fn check_entry(label: &str, name: &str, sums: &TensorInfo, counts: &TensorInfo) -> Result<()> {
    if [sums, counts].iter().any(|tensor| tensor.type_id != F32_ID) {
        let what = format!("sums and counts of `{}` are not both F32", quoted(name));
        return Err(Error::importance(label, what, REMEDY));
    }
    if !sums.elements().is_multiple_of(counts.elements()) {
        let what = format!("`{}` has {} sums for {} counts", quoted(name), sums.elements(), counts.elements());
        return Err(Error::importance(label, what, REMEDY));
    }
    Ok(())
}

/// The format of before has no magic: it begins with how many entries there are, then the length of the first name, and the name.
fn starts_like_the_old_format(path: &Path) -> bool {
    let mut start = Vec::new();
    let read = File::open(path).and_then(|file| file.take(264).read_to_end(&mut start));
    let Some(([entries, length], name)) = read.ok().and_then(|_| {
        let (head, rest) = start.as_chunks::<4>().0.split_first_chunk::<2>()?;
        Some((head.map(u32::from_le_bytes), rest.as_flattened()))
    }) else {
        return false;
    };
    let length = length as usize;
    (1..1_000_000).contains(&entries)
        && (1..256).contains(&length)
        && name.len() >= length / 4 * 4
        && name[..length.min(name.len())].iter().all(u8::is_ascii_graphic)
}
