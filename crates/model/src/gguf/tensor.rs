//! The tensor entries of a GGUF file, checked.

use std::borrow::Cow;
use std::collections::HashMap;

use duan_quant::{Format, TypeStatus, gguf_type};

use super::reader::{Place, Reader};
use crate::error::{Error, Result, quoted};

/// Stands where GGUF has no id for the format of a tensor.
pub const NO_TYPE_ID: u32 = u32::MAX;

/// Fewest bytes of an entry: empty name, one dim, type, offset.
pub(super) const LEAST_ENTRY_BYTES: u64 = 8 + 4 + 8 + 4 + 8;

/// What a GGUF file says of one tensor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TensorInfo {
    /// Name, unique in the file.
    pub name: String,
    /// One to four dims, the fastest first: `[columns, rows, ...]`. None is 0, and their product fits a `u64`.
    pub dims: Vec<u64>,
    /// GGUF type id, see [`duan_quant::gguf_type`]; [`NO_TYPE_ID`] beside a format of our own.
    pub type_id: u32,
    /// The format, where it is one that GGUF has no id for: in a folder that is quantized already, never in a GGUF file.
    pub own_format: Option<&'static Format>,
    /// Which file of a split model has the data, from 0; 0 where there is one file.
    pub piece: usize,
    /// Where the data begins, in bytes from the start of that file.
    pub offset: u64,
    /// Bytes of the data, all inside the file; `None` where the size of the type is not known.
    pub bytes: Option<u64>,
}

impl TensorInfo {
    /// Number of weights.
    pub fn elements(&self) -> u64 {
        self.dims.iter().product()
    }

    /// What is known about the type.
    pub fn type_status(&self) -> TypeStatus {
        self.own_format.map_or_else(|| gguf_type(self.type_id), TypeStatus::Supported)
    }

    /// The format of the weights; `None` where it is one that is not read here.
    pub fn format(&self) -> Option<&'static Format> {
        match self.type_status() {
            TypeStatus::Supported(format) => Some(format),
            _ => None,
        }
    }

    /// Name of the type, or `type 200` where it has none.
    pub fn type_name(&self) -> Cow<'static, str> {
        match self.type_status().name() {
            Some(name) => Cow::Borrowed(name),
            None => Cow::Owned(format!("type {}", self.type_id)),
        }
    }
}

/// Reads `count` tensor entries. Their offsets are still those of the file: from the start of the data.
pub(super) fn read_entries(
    reader: &mut Reader,
    label: &str,
    count: u64,
) -> Result<(Vec<TensorInfo>, HashMap<String, usize>)> {
    let mut tensors = Vec::new();
    let mut index = HashMap::new();
    for number in 0..count {
        let tensor = read_entry(reader, label, number)?;
        if index.insert(tensor.name.clone(), tensors.len()).is_some() {
            return Err(Error::tensor(label, &tensor.name, "each tensor once", "a duplicate name")
                .with_remedy("the file was made wrongly, get it from another source"));
        }
        tensors.push(tensor);
    }
    Ok((tensors, index))
}

fn read_entry(reader: &mut Reader, label: &str, number: u64) -> Result<TensorInfo> {
    let name = reader.string(Place::TensorInfo(number))?;
    let place = Place::Tensor(&name);
    let dim_count = reader.u32(place)?;
    if !(1..=4).contains(&dim_count) {
        return Err(reader.malformed(place, "1 to 4 dims", dim_count.to_string()));
    }
    let mut dims = Vec::with_capacity(4);
    for dim in 0..dim_count {
        let size = reader.u64(place)?;
        if size == 0 {
            return Err(reader.malformed(place, "dims that are not 0", format!("0 for dim {dim}")));
        }
        dims.push(size);
    }
    let type_id = reader.u32(place)?;
    let offset = reader.u64(place)?;
    let bytes = size_in_bytes(label, &name, &dims, type_id)?;
    Ok(TensorInfo { name, dims, type_id, own_format: None, piece: 0, offset, bytes })
}

/// Bytes of a tensor, or `None` where the type has no known size.
///
/// # Errors
/// Where the product of the dims or the size does not fit, or the first dim is not a whole number of blocks.
pub(crate) fn size_in_bytes(label: &str, name: &str, dims: &[u64], type_id: u32) -> Result<Option<u64>> {
    size_in_blocks(label, name, dims, gguf_type(type_id))
}

/// The same of a type that is known.
///
/// # Errors
/// As [`size_in_bytes`].
pub(crate) fn size_in_blocks(label: &str, name: &str, dims: &[u64], status: TypeStatus) -> Result<Option<u64>> {
    let too_large = |what: &str| {
        Error::tensor(label, name, format!("a {what} that fits 63 bits"), format!("dims {dims:?}"))
            .with_remedy("the file is damaged or was made wrongly, fetch it again")
    };
    let fits = |number: &u64| *number <= i64::MAX as u64;
    let elements = dims.iter().try_fold(1u64, |product, &dim| product.checked_mul(dim)).filter(fits);
    let elements = elements.ok_or_else(|| too_large("number of weights"))?;
    let Some((block_weights, block_bytes)) = status.block() else {
        return Ok(None);
    };
    let (block_weights, block_bytes) = (block_weights as u64, block_bytes as u64);
    if !dims.first().is_some_and(|columns| columns.is_multiple_of(block_weights)) {
        let type_name = status.name().unwrap_or("its type");
        return Err(Error::tensor(
            label,
            name,
            format!("rows in whole blocks of {block_weights} weights, as {type_name} has them"),
            format!("dims {dims:?}"),
        ));
    }
    // Blocks are counted before they become bytes, so that the division is exact.
    let bytes = (elements / block_weights).checked_mul(block_bytes).filter(fits);
    bytes.map(Some).ok_or_else(|| too_large("size in bytes"))
}

/// Makes the offsets count from the start of the file, and checks that each tensor is aligned, lies inside the file of
/// `file_bytes` and overlaps no other.
///
/// Two tensors may not share bytes, not even all of them: no writer that we know does that, and a damaged offset
/// would otherwise pass as wrong weights. Gaps are allowed.
pub(super) fn place_tensors(
    tensors: &mut [TensorInfo],
    label: &str,
    data_start: u64,
    alignment: u64,
    file_bytes: u64,
) -> Result<()> {
    for tensor in tensors.iter_mut() {
        if !tensor.offset.is_multiple_of(alignment) {
            let expected = format!("an offset that is a multiple of {alignment}, the file's alignment");
            return Err(Error::tensor(label, &tensor.name, expected, tensor.offset.to_string())
                .with_remedy("the file is damaged or was made wrongly, fetch it again"));
        }
        let needed = tensor.bytes.unwrap_or(0);
        let start = data_start.checked_add(tensor.offset);
        let available = start.map_or(0, |start| file_bytes.saturating_sub(start));
        match start {
            Some(start) if start <= file_bytes && needed <= available => tensor.offset = start,
            _ => {
                // Shown in 128 bits, because the sum of a damaged offset may not fit 64.
                let at = u128::from(data_start) + u128::from(tensor.offset);
                let place = format!("tensor `{}` at byte {at}", quoted(&tensor.name));
                return Err(Error::Truncated { file: label.into(), place, needed, available });
            }
        }
    }
    check_overlaps(tensors, label)
}

fn check_overlaps(tensors: &[TensorInfo], label: &str) -> Result<()> {
    let mut by_offset: Vec<&TensorInfo> = tensors.iter().filter(|tensor| tensor.bytes.is_some()).collect();
    by_offset.sort_by_key(|tensor| tensor.offset);
    for pair in by_offset.windows(2) {
        let (before, after) = (pair[0], pair[1]);
        // Inside the file, as was checked, so the sum fits.
        let end = before.offset + before.bytes.unwrap_or(0);
        if after.offset < end {
            let expected = format!("data after byte {end}, where tensor `{}` ends", quoted(&before.name));
            return Err(Error::tensor(label, &after.name, expected, format!("an overlap at byte {}", after.offset))
                .with_remedy("the file is damaged or was made wrongly, fetch it again"));
        }
    }
    Ok(())
}
