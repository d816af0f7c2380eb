//! What can be asked for by name.

use duan_model::groups::write::Strategy;
use duan_quant::Format;
use duan_quant::groups::{Groups, Origin};

/// A way to write the matrices of a folder: `int4-g64`, `int8-channel`, `int4-tensor-zp`, ...
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GroupFormat {
    /// Its name.
    pub name: &'static str,
    /// Bits of a code: 4 or 8.
    pub bits: usize,
    /// Whether there are zero points; otherwise the middle code stands for 0.
    pub zero_point: bool,
    /// What shares a scale.
    pub sharing: Sharing,
}

/// Weights that share a scale.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sharing {
    /// So many of a row: 32, 64, 128 or 256.
    Group(usize),
    /// Those of a row.
    Channel,
    /// Those of a matrix.
    Tensor,
}

use Sharing::{Channel, Group, Tensor};

const fn format(name: &'static str, bits: usize, sharing: Sharing, zero_point: bool) -> GroupFormat {
    GroupFormat { name, bits, zero_point, sharing }
}

/// All of them, the smallest groups first.
pub static GROUP_FORMATS: &[GroupFormat] = &[
    format("int4-g32", 4, Group(32), false),
    format("int4-g64", 4, Group(64), false),
    format("int4-g128", 4, Group(128), false),
    format("int4-g256", 4, Group(256), false),
    format("int4-channel", 4, Channel, false),
    format("int4-tensor", 4, Tensor, false),
    format("int4-g32-zp", 4, Group(32), true),
    format("int4-g64-zp", 4, Group(64), true),
    format("int4-g128-zp", 4, Group(128), true),
    format("int4-g256-zp", 4, Group(256), true),
    format("int4-channel-zp", 4, Channel, true),
    format("int4-tensor-zp", 4, Tensor, true),
    format("int8-g32", 8, Group(32), false),
    format("int8-g64", 8, Group(64), false),
    format("int8-g128", 8, Group(128), false),
    format("int8-g256", 8, Group(256), false),
    format("int8-channel", 8, Channel, false),
    format("int8-tensor", 8, Tensor, false),
    format("int8-g32-zp", 8, Group(32), true),
    format("int8-g64-zp", 8, Group(64), true),
    format("int8-g128-zp", 8, Group(128), true),
    format("int8-g256-zp", 8, Group(256), true),
    format("int8-channel-zp", 8, Channel, true),
    format("int8-tensor-zp", 8, Tensor, true),
];

/// Sizes of blocks that the engine has, the largest first.
const BLOCKS: [usize; 4] = [256, 128, 64, 32];

impl GroupFormat {
    /// The one of this name; case does not matter.
    pub fn by_name(name: &str) -> Option<&'static GroupFormat> {
        GROUP_FORMATS.iter().find(|format| format.name.eq_ignore_ascii_case(name))
    }

    /// The one whose groups are those of `format`, where it is one of groups without biases.
    pub(crate) fn of(format: &Format) -> Option<&'static GroupFormat> {
        GroupFormat::by_name(format.name)
    }

    /// The blocks that rows of `columns` weights are coded in: of the groups that were asked for, or of the next smaller ones that divide
    /// a row; where a row or a matrix shares a scale, the largest that divide a row, each with the same scale. None where even blocks of
    /// 32 do not.
    pub fn blocks(&self, columns: u64) -> Option<&'static Format> {
        let most = match self.sharing {
            Group(weights) => weights,
            Channel | Tensor => BLOCKS[0],
        };
        let weights = BLOCKS.into_iter().find(|&block| block <= most && columns.is_multiple_of(block as u64))?;
        self.of_weights(weights)
    }

    /// The blocks that rows of any length would have.
    pub(crate) fn wanted(&self) -> &'static Format {
        let weights = if let Group(weights) = self.sharing { weights } else { BLOCKS[0] };
        self.of_weights(weights).expect("the table names formats that exist")
    }

    fn of_weights(&self, weights: usize) -> Option<&'static Format> {
        let origin = if self.zero_point { Origin::ZeroPoint } else { Origin::Symmetric };
        Groups { bits: self.bits, weights, origin }.format()
    }

    /// What compressed-tensors calls it.
    pub(crate) fn strategy(&self) -> Strategy {
        match self.sharing {
            Group(_) => Strategy::Group,
            Channel => Strategy::Channel,
            Tensor => Strategy::Tensor,
        }
    }
}
