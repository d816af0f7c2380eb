//! Matrices of groups whose weights a format of GGUF holds to the last bit.
//!
//! Codes of 4 bits without zero points are those of Q4_0, of 8 bits those of Q8_0, and codes of 4 bits with a bias those of Q4_1: its
//! blocks of 32 repeat the scale of a longer group. A zero point becomes the minimum of Q4_1 where a half float holds
//! `-zero * scale` of every group.

use duan_quant::groups::{Groups, Origin};
use duan_quant::{Format, format_by_name};
use half::f16;

use super::GroupedMatrix;

/// Weights of a block of GGUF's formats.
const RUN: usize = 32;

impl GroupedMatrix {
    /// The format of GGUF that holds every weight as it is, where there is one. Reads all scales.
    pub fn exact_format(&self) -> Option<&'static Format> {
        let name = match (self.groups.bits, self.groups.origin) {
            (4, Origin::Symmetric) => "Q4_0",
            (8, Origin::Symmetric) => "Q8_0",
            (4, Origin::Bias) => "Q4_1",
            (4, Origin::ZeroPoint) => "Q4_1",
            _ => return None,
        };
        let is_exact = self.order.is_none() && self.is_exact() && self.has_exact_minima();
        format_by_name(name).filter(|_| is_exact)
    }

    /// Whether a half float holds what the zero point of every group stands for.
    fn has_exact_minima(&self) -> bool {
        if self.groups.origin != Origin::ZeroPoint {
            return true;
        }
        let mut groups = self.group_of_block.clone();
        groups.dedup();
        (0..self.rows).all(|row| {
            groups.iter().all(|&group| {
                let zero = self.zeros.get(row, group as usize, self.bits);
                let minimum = f32::from(zero) * self.scales.get(row, group as usize);
                f16::from_f32(minimum).to_f32() == minimum
            })
        })
    }
}

/// Writes one row of blocks of `format`, one of [`Groups`], as blocks of the format that [`GroupedMatrix::exact_format`] says.
pub(crate) fn write(format: &Format, from: &[u8], to: &mut [u8]) {
    let groups = Groups::of(format).expect("a format of groups");
    let code_bytes = RUN * groups.bits / 8;
    let head_bytes = if groups.origin == Origin::Symmetric { 2 } else { 4 };
    let runs = groups.weights / RUN;
    let mut codes = vec![0; groups.weights];
    let blocks = from.chunks_exact(groups.block_bytes()).zip(to.chunks_exact_mut(runs * (head_bytes + code_bytes)));
    for (from, to) in blocks {
        let header = groups.read(from, &mut codes);
        let minimum = match groups.origin {
            Origin::ZeroPoint => f16::from_f32(-f32::from(header.zero) * header.scale.to_f32()),
            Origin::Symmetric | Origin::Bias => header.bias,
        };
        // The codes of 32 weights stand together as they do in GGUF.
        let from = &from[groups.block_bytes() - runs * code_bytes..];
        for (from, to) in from.chunks_exact(code_bytes).zip(to.chunks_exact_mut(head_bytes + code_bytes)) {
            to[..2].copy_from_slice(&header.scale.to_le_bytes());
            if head_bytes == 4 {
                to[2..4].copy_from_slice(&minimum.to_le_bytes());
            }
            to[head_bytes..].copy_from_slice(from);
        }
    }
}
