//! Type ids of GGUF files, also of those types that cannot be read here.
//!
//! Source: the enumeration of tensor types in the GGUF format document, and the block sizes of its reference
//! implementation.

use crate::{Format, format_by_gguf_id};

/// What is known about a type id of a GGUF file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TypeStatus {
    /// Can be read.
    Supported(&'static Format),
    /// Known, but there is no codec here.
    Unsupported {
        /// Name as in GGUF.
        name: &'static str,
        /// Weights in a block.
        block_weights: usize,
        /// Bytes of a block.
        block_bytes: usize,
    },
    /// Was taken out of GGUF: a packing for one instruction set, or an early experiment. Such a file must be made anew.
    Removed {
        /// Name it had.
        name: &'static str,
    },
    /// No such type is known.
    Unknown,
}

impl TypeStatus {
    /// Name as in GGUF, or `None` for an unknown id.
    pub fn name(&self) -> Option<&'static str> {
        match *self {
            TypeStatus::Supported(format) => Some(format.name),
            TypeStatus::Unsupported { name, .. } | TypeStatus::Removed { name } => Some(name),
            TypeStatus::Unknown => None,
        }
    }

    /// Weights and bytes of a block, or `None` where they are not known.
    pub fn block(&self) -> Option<(usize, usize)> {
        match *self {
            TypeStatus::Supported(format) => Some((format.block_weights, format.block_bytes)),
            TypeStatus::Unsupported { block_weights, block_bytes, .. } => Some((block_weights, block_bytes)),
            TypeStatus::Removed { .. } | TypeStatus::Unknown => None,
        }
    }
}

/// Id, name, weights and bytes of a block of the types without a codec here.
const UNSUPPORTED: &[(u32, &str, usize, usize)] = &[
    (9, "Q8_1", 32, 36),
    (15, "Q8_K", 256, 292),
    (24, "I8", 1, 1),
    (25, "I16", 1, 2),
    (26, "I32", 1, 4),
    (27, "I64", 1, 8),
    (28, "F64", 1, 8),
    (41, "Q1_0", 128, 18),
];

/// Types that were taken out of GGUF.
const REMOVED: &[(u32, &str)] = &[
    (4, "Q4_2"),
    (5, "Q4_3"),
    (31, "Q4_0_4_4"),
    (32, "Q4_0_4_8"),
    (33, "Q4_0_8_8"),
    (36, "IQ4_NL_4_4"),
    (37, "IQ4_NL_4_8"),
    (38, "IQ4_NL_8_8"),
];

/// What is known about the GGUF type `id`.
pub fn gguf_type(id: u32) -> TypeStatus {
    if let Some(format) = format_by_gguf_id(id) {
        return TypeStatus::Supported(format);
    }
    if let Some(&(_, name, block_weights, block_bytes)) = UNSUPPORTED.iter().find(|row| row.0 == id) {
        return TypeStatus::Unsupported { name, block_weights, block_bytes };
    }
    match REMOVED.iter().find(|row| row.0 == id) {
        Some(&(_, name)) => TypeStatus::Removed { name },
        None => TypeStatus::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_types_without_a_codec_have_none() {
        for &(id, name, ..) in UNSUPPORTED {
            assert!(format_by_gguf_id(id).is_none(), "{name} can be read now: take its row out of UNSUPPORTED");
        }
    }
}
