//! Checkpoints whose matrices are quantized already: the one place where they become tensors like any other.
//!
//! GPTQ, AWQ, compressed-tensors and MLX write a matrix as several tensors (codes, scales, zero points, orders of columns).
//! [`logical`] puts such together ([`crate::groups`]): what it returns are the tensors of the unquantized model, by the names that it
//! has them under, and everything after it (names, order of rows, stacking) is the same for all. Which modules are quantized is told by
//! the tensors that they have; what the configuration says is how ([`scheme`]).

mod scheme;

use std::collections::HashMap;
use std::sync::Arc;

use self::scheme::{Scheme, Width};
use super::config::Config;
use super::names::{is_not_needed, is_not_text};
use super::tensors::Logical;
use crate::error::{Error, Result};
use crate::groups::{GroupedMatrix, Tensor, awq, compressed_tensors, gptq, mlx};
use crate::safetensors::{Dtype, SafetensorsFile};

/// The tensors of the model as it was before it was quantized. What is odd and can be lived with is added to `warnings`.
///
/// # Errors
/// When the checkpoint is quantized in a way that is not read here, when a part of a matrix is missing or does not fit the others, and
/// when numbers are of a type that no weight has.
pub(super) fn logical(config: &Config, files: &[SafetensorsFile], warnings: &mut Vec<String>) -> Result<Vec<Logical>> {
    let scheme = Scheme::of(config)?;
    let mut tensors: Vec<(usize, Logical)> = Vec::new();
    let mut modules: Vec<Module<'_>> = Vec::new();
    let mut index: HashMap<&str, usize> = HashMap::new();
    for (piece, file) in files.iter().enumerate() {
        for entry in file.tensors() {
            // Where it stands in the files, and a module where its first part does.
            let place = tensors.len() + modules.len();
            let tensor = Logical {
                name: entry.name.clone(),
                dtype: entry.dtype,
                shape: entry.shape.clone(),
                piece,
                offset: entry.offset,
                bytes: entry.bytes,
                grouped: None,
            };
            let is_unused = is_not_text(&tensor.name) || is_not_needed(&tensor.name);
            let part = scheme.part(&entry.name, entry.dtype).filter(|_| !is_unused);
            let Some((name, part)) = part else {
                tensors.push((place, tensor));
                continue;
            };
            let at = *index.entry(name).or_insert_with(|| {
                modules.push(Module { name, place, parts: HashMap::new() });
                modules.len() - 1
            });
            modules[at].parts.insert(part, tensor);
        }
    }
    let mut odd = Vec::new();
    for module in modules {
        let tensor = module.read(config.label(), &scheme, files)?;
        odd.extend(tensor.grouped.iter().flat_map(|matrix| matrix.warnings()).cloned());
        tensors.push((module.place, tensor));
    }
    tensors.sort_by_key(|&(place, _)| place);
    if let Some(first) = odd.first() {
        let others = odd.len() - 1;
        warnings.push(if others == 0 { first.clone() } else { format!("{first} ({others} more are like it)") });
    }
    Ok(tensors.into_iter().map(|(_, tensor)| tensor).collect())
}

/// A matrix that is several tensors.
struct Module<'n> {
    name: &'n str,
    /// Where it stands among all tensors.
    place: usize,
    parts: HashMap<&'n str, Logical>,
}

impl Module<'_> {
    fn read(&self, label: &str, scheme: &Scheme, files: &[SafetensorsFile]) -> Result<Logical> {
        let part = |name: &str| self.parts.get(name).map(|part| tensor(part, files)).transpose();
        let must = |name: &str| part(name)?.ok_or_else(|| self.missing(label, name));
        let name = format!("{}.weight", self.name);
        let matrix = match scheme {
            Scheme::Plain => return Err(self.missing(label, "weight")),
            Scheme::Gptq { config, is_mixed } => {
                let tensors = gptq::Tensors {
                    qweight: must("qweight")?,
                    qzeros: must("qzeros")?,
                    scales: must("scales")?,
                    g_idx: part("g_idx")?,
                };
                let config = if *is_mixed { gptq_of(&tensors, *config) } else { *config };
                gptq::read(label, &name, &tensors, config)?
            }
            Scheme::Awq { group_size } => {
                let (qweight, qzeros, scales) = (must("qweight")?, part("qzeros")?, must("scales")?);
                awq::read(label, &name, &awq::Tensors { qweight, qzeros, scales }, *group_size)?
            }
            Scheme::CompressedTensors(widths) => {
                let packed = part("weight_packed")?.map_or_else(|| must("weight"), Ok);
                let tensors = compressed_tensors::Tensors {
                    weight: packed.map_err(|_| self.missing(label, "weight_packed"))?,
                    shape: part("weight_shape")?,
                    scale: must("weight_scale")?,
                    zero_point: part("weight_zero_point")?,
                    g_idx: part("weight_g_idx")?,
                };
                let Width { bits, group_size } = width_of(&tensors, widths);
                compressed_tensors::read(label, &name, &tensors, bits, group_size)?
            }
            Scheme::Mlx { width, overrides } => {
                let width = overrides.get(self.name).unwrap_or(width);
                let (weight, scales, biases) = (must("weight")?, must("scales")?, must("biases")?);
                mlx::read(label, &name, &mlx::Tensors { weight, scales, biases }, width.bits, width.group_size)?
            }
        };
        Ok(self.logical(name, matrix))
    }

    fn logical(&self, name: String, matrix: GroupedMatrix) -> Logical {
        let codes = ["qweight", "weight_packed", "weight"].iter().find_map(|part| self.parts.get(part));
        let codes = codes.expect("a matrix that was read has codes");
        let shape = vec![matrix.rows() as u64, matrix.columns() as u64];
        Logical { name, shape, grouped: Some(Arc::new(matrix)), ..codes.clone() }
    }

    /// The error for a part that is not there.
    fn missing(&self, label: &str, part: &str) -> Error {
        let mut others: Vec<&str> = self.parts.keys().copied().collect();
        others.sort_unstable();
        let name = format!("{}.{part}", self.name);
        Error::tensor(label, &name, format!("it beside `{}`", others.join("`, `")), "no such tensor")
            .with_remedy("a file of the checkpoint is missing or was made wrongly; fetch it again")
    }
}

fn tensor(part: &Logical, files: &[SafetensorsFile]) -> Result<Tensor> {
    Ok(Tensor {
        name: part.name.clone(),
        dtype: part.dtype.name().to_owned(),
        shape: part.shape.iter().map(|&dim| usize::try_from(dim).unwrap_or(usize::MAX)).collect(),
        bytes: files[part.piece].piece.slice(&part.name, part.offset, part.bytes)?,
    })
}

/// What the shapes say of a matrix of a checkpoint whose matrices may differ; the rest is that of `config`. Whether they fit is checked
/// when the matrix is read.
fn gptq_of(tensors: &gptq::Tensors, config: gptq::Config) -> gptq::Config {
    let (Some(&words), Some(&rows)) = (tensors.qweight.shape.first(), tensors.qweight.shape.get(1)) else {
        return config;
    };
    let zero_words = tensors.qzeros.shape.get(1).copied().unwrap_or(0);
    let fits = |bits: &usize| rows.saturating_mul(*bits).div_ceil(32) == zero_words;
    let bits = [config.bits, 2, 3, 4, 8].into_iter().find(fits).unwrap_or(config.bits).max(1);
    let columns = words.saturating_mul(32) / bits;
    let groups = tensors.scales.shape.first().copied().unwrap_or(1).max(1);
    let is_same = columns.div_ceil(config.group_size.unwrap_or(columns).max(1)) == groups;
    let group_size = if is_same { config.group_size } else { Some(columns.div_ceil(groups)) };
    gptq::Config { bits, group_size, ..config }
}

/// In which of some ways a matrix is written: the first that its shapes fit.
fn width_of(tensors: &compressed_tensors::Tensors, widths: &[Width]) -> Width {
    let words = tensors.weight.shape.get(1).copied().unwrap_or(0);
    let is_packed = tensors.weight.dtype == "I32";
    let last = |shape: &Tensor| shape.bytes.last_chunk().map(|&bytes| u64::from_le_bytes(bytes) as usize);
    let columns = if is_packed { tensors.shape.as_ref().and_then(last).unwrap_or(0) } else { words };
    let groups = match tensors.scale.shape[..] {
        [_, groups] => groups,
        _ => 1,
    };
    let fits = |width: &&Width| {
        let has_bits = !is_packed || columns.saturating_mul(width.bits).div_ceil(32) == words;
        has_bits && width.group_size.map_or(1, |group_size| columns.div_ceil(group_size)) == groups
    };
    let width = widths.iter().find(fits).unwrap_or(&widths[0]);
    // Whatever the bits are that were quantized to, bytes hold them.
    Width { bits: if is_packed { width.bits } else { 8 }, ..*width }
}

/// Refuses a tensor that is used and has numbers of a type that is none of plain weights.
///
/// # Errors
/// [`Error::Tensor`].
pub(super) fn check_dtype(label: &str, tensor: &Logical) -> Result<()> {
    match tensor.dtype {
        Dtype::F64 | Dtype::F32 | Dtype::F16 | Dtype::BF16 => Ok(()),
        other => Err(Error::tensor(label, &tensor.name, "numbers of F32, F16, BF16 or F64", other.name())
            .with_remedy("this way of quantizing is not read here; get the model unquantized, or as GGUF")),
    }
}

#[cfg(test)]
mod tests;
