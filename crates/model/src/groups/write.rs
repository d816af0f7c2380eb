//! Blocks as compressed-tensors writes them: `pack-quantized`.
//!
//! A matrix becomes `weight_packed`, `weight_scale`, `weight_shape` and, with zero points, `weight_zero_point`, as
//! [`super::compressed_tensors`] tells them. [`Packer`] takes its rows from the first to the last, some at a time; all shapes are known
//! before.

use duan_quant::Format;
use duan_quant::groups::{Groups, Header, Origin};
use serde_json::{Value, json};

use crate::error::{Error, Result};

/// What has a scale of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Strategy {
    /// Each block.
    Group,
    /// Each row, whose blocks have the same.
    Channel,
    /// The matrix.
    Tensor,
}

impl Strategy {
    fn name(self) -> &'static str {
        match self {
            Self::Group => "group",
            Self::Channel => "channel",
            Self::Tensor => "tensor",
        }
    }
}

/// A tensor that a matrix becomes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shape {
    /// What stands behind the matrix's own name: `weight_packed`, ...
    pub suffix: &'static str,
    /// The type of its numbers, as safetensors spells it.
    pub dtype: &'static str,
    /// Its dimensions, slowest first.
    pub dims: Vec<usize>,
}

/// The tensors beside `weight_packed`, each [its bytes].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rest {
    /// `weight_scale`, F16.
    pub scale: Vec<u8>,
    /// `weight_zero_point`.
    pub zero_point: Option<Vec<u8>>,
    /// `weight_shape`.
    pub shape: Vec<u8>,
}

/// Takes the rows of a matrix apart.
#[derive(Debug)]
pub struct Packer {
    groups: Groups,
    strategy: Strategy,
    rows: usize,
    columns: usize,
    /// Rows that were taken.
    taken: usize,
    scale: Vec<u8>,
    zeros: Vec<u32>,
    /// What all blocks of a row, or of the matrix, have.
    common: Option<Header>,
    codes: Vec<u8>,
}

impl Packer {
    /// For a matrix [rows, columns] of `format`.
    ///
    /// # Errors
    /// When the format has no place in compressed-tensors, or rows are no whole blocks of it; the message names `file` and `name`.
    pub fn new(
        file: &str,
        name: &str,
        format: &Format,
        strategy: Strategy,
        [rows, columns]: [usize; 2],
    ) -> Result<Self> {
        let groups = Groups::of(format).filter(|groups| groups.origin != Origin::Bias);
        let groups = groups.ok_or_else(|| {
            Error::tensor(file, name, "a format of compressed-tensors", format.name)
                .with_remedy("choose one of int4 or int8 in groups, such as int4-g64 or int4-g64-zp")
        })?;
        if columns == 0 || !columns.is_multiple_of(groups.weights) {
            let expected = format!("rows in whole {} blocks of {}", format.name, groups.weights);
            return Err(Error::tensor(file, name, expected, format!("rows of {columns} weights"))
                .with_remedy("choose a format with smaller groups"));
        }
        let mut packer = Self {
            groups,
            strategy,
            rows,
            columns,
            taken: 0,
            scale: Vec::new(),
            zeros: Vec::new(),
            common: None,
            codes: vec![0; groups.weights],
        };
        if groups.origin == Origin::ZeroPoint {
            packer.zeros = vec![0; packer.zero_words() * packer.groups_each()];
        }
        Ok(packer)
    }

    /// The tensors that the matrix becomes: the packed codes, then those of [`Rest`], in its order.
    pub fn shapes(&self) -> Vec<Shape> {
        let shape = |suffix, dtype, dims: &[usize]| Shape { suffix, dtype, dims: dims.to_vec() };
        let scales: &[usize] = match self.strategy {
            Strategy::Tensor => &[1],
            _ => &[self.rows, self.groups_each()],
        };
        let mut all = vec![
            shape("weight_packed", "I32", &[self.rows, self.columns * self.groups.bits / 32]),
            shape("weight_scale", "F16", scales),
        ];
        if self.groups.origin == Origin::ZeroPoint {
            all.push(match self.strategy {
                Strategy::Tensor => shape("weight_zero_point", "I8", &[1]),
                _ => shape("weight_zero_point", "I32", &[self.zero_words(), self.groups_each()]),
            });
        }
        all.push(shape("weight_shape", "I64", &[2]));
        all
    }

    /// Bytes of the packed codes of rows whose blocks have so many bytes.
    pub fn packed_bytes(&self, block_bytes: usize) -> usize {
        block_bytes / self.groups.block_bytes() * self.groups.weights * self.groups.bits / 8
    }

    /// Takes the next rows, `blocks` [rows, row_bytes], and writes their codes, `packed` [rows, columns * bits / 8].
    ///
    /// Panics where the lengths do not belong together, there are more rows than the matrix has, or blocks have different scales
    /// where they are to have one.
    pub fn take(&mut self, blocks: &[u8], packed: &mut [u8]) {
        let groups = self.groups;
        let row_bytes = self.columns / groups.weights * groups.block_bytes();
        let packed_bytes = self.columns * groups.bits / 8;
        let count = blocks.len() / row_bytes;
        assert_eq!((blocks.len(), packed.len()), (count * row_bytes, count * packed_bytes), "whole rows");
        assert!(self.taken + count <= self.rows, "{} rows and {count} of {}", self.taken, self.rows);
        for (blocks, packed) in blocks.chunks_exact(row_bytes).zip(packed.chunks_exact_mut(packed_bytes)) {
            if self.strategy == Strategy::Channel {
                self.common = None;
            }
            let packed = packed.chunks_exact_mut(groups.weights * groups.bits / 8);
            for (index, (block, packed)) in blocks.chunks_exact(groups.block_bytes()).zip(packed).enumerate() {
                let header = groups.read(block, &mut self.codes);
                if groups.bits == 8 {
                    packed.iter_mut().zip(&self.codes).for_each(|(to, code)| *to = code ^ 0x80);
                } else {
                    packed.iter_mut().zip(self.codes.as_chunks::<2>().0).for_each(|(to, [a, b])| *to = a | b << 4);
                }
                self.keep(index, header);
            }
            self.taken += 1;
        }
    }

    /// The tensors beside the packed codes. Panics when rows are missing.
    pub fn finish(self) -> Rest {
        assert_eq!(self.taken, self.rows, "rows that were taken");
        let zero_point = (self.groups.origin == Origin::ZeroPoint).then(|| match self.strategy {
            // A single number is not packed, and signed as compressed-tensors counts.
            Strategy::Tensor => vec![(self.zeros[0] as u8).wrapping_sub(1 << (self.groups.bits - 1))],
            _ => self.zeros.iter().flat_map(|word| word.to_le_bytes()).collect(),
        });
        let shape = [self.rows, self.columns].iter().flat_map(|&dim| (dim as u64).to_le_bytes()).collect();
        Rest { scale: self.scale, zero_point, shape }
    }

    /// Scale and zero point of a block of the row that is taken, where they are not those of the one before.
    fn keep(&mut self, block: usize, header: Header) {
        if self.strategy != Strategy::Group {
            if let Some(common) = self.common {
                return assert_eq!(header, common, "one scale for a {}", self.strategy.name());
            }
            self.common = Some(header);
        }
        self.scale.extend_from_slice(&header.scale.to_le_bytes());
        if self.groups.origin == Origin::ZeroPoint {
            let zero = if self.groups.bits == 8 { header.zero + 128 } else { header.zero };
            let (at, each) = (self.taken * self.groups.bits, self.groups_each());
            self.zeros[at / 32 * each + block] |= (zero as u32) << (at % 32);
        }
    }

    /// Groups that have a scale of their own, in a row.
    fn groups_each(&self) -> usize {
        if self.strategy == Strategy::Group { self.columns / self.groups.weights } else { 1 }
    }

    /// Words of the zero points of a column of groups.
    fn zero_words(&self) -> usize {
        if self.strategy == Strategy::Tensor { 1 } else { (self.rows * self.groups.bits).div_ceil(32) }
    }
}

/// Linear layers that are of one format.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scheme {
    /// Their format.
    pub groups: Groups,
    /// What has a scale of its own.
    pub strategy: Strategy,
    /// Names of their modules; empty for all that no other scheme names.
    pub modules: Vec<String>,
}

/// `quantization_config` of a model whose linear layers, but for the modules in `ignore` (such as `lm_head`), are of these formats.
pub fn quantization_config(schemes: &[Scheme], ignore: &[String]) -> Value {
    let group = |scheme: &Scheme| {
        let Scheme { groups, strategy, modules } = scheme;
        let targets = if modules.is_empty() { vec!["Linear".to_owned()] } else { modules.clone() };
        let group_size = (*strategy == Strategy::Group).then_some(groups.weights);
        json!({
            "targets": targets,
            "input_activations": null,
            "output_activations": null,
            "weights": {
                "num_bits": groups.bits,
                "type": "int",
                "symmetric": groups.origin == Origin::Symmetric,
                "strategy": strategy.name(),
                "group_size": group_size,
                "dynamic": false,
                "actorder": null,
            },
        })
    };
    let groups = schemes.iter().enumerate().map(|(index, scheme)| (format!("group_{index}"), group(scheme)));
    json!({
        "quant_method": "compressed-tensors",
        "format": "pack-quantized",
        "quantization_status": "compressed",
        "config_groups": groups.collect::<serde_json::Map<_, _>>(),
        "ignore": ignore,
    })
}
