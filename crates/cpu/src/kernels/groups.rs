//! The formats of [`duan_quant::groups`], see [`super::formats`]. They differ in how many weights share a scale, which is a count of a
//! loop here: one kernel for all of a kind, so that there are four and not twenty-two.

use duan_quant::Format;

use super::formats::{BlockShape, Codes, Rows, fields, nibbles};
use crate::simd::{CodeKind, PANEL_ROWS, RowSimd};

/// Bytes of a row's scale.
const SCALE_BYTES: usize = 2;

/// Scale, codes of `BITS` bits; `(code - 8) * scale`, or `code * scale` where they are bytes.
pub(crate) struct Symmetric<const BITS: u32>;

/// Scale, a zero point of one byte or a bias of two, codes; `(code - zero) * scale` or `code * scale + bias`.
pub(crate) struct WithOrigin<const BITS: u32>;

/// Bytes of a row's codes of 32 columns.
const fn group_bytes(bits: u32) -> usize {
    4 * bits as usize
}

#[inline(always)]
fn shape_of<const BITS: u32>(format: &Format) -> BlockShape {
    BlockShape { bytes: format.block_bytes, groups: format.block_bytes / group_bytes(BITS) }
}

#[inline(always)]
fn codes_at<S: RowSimd, const BITS: u32>(s: S, rows: Rows<'_>, before: usize) -> [S::Words; 8] {
    // Of a length that is known: so only its end is compared with that of the block, and not that of every vector.
    let codes = &rows.block[before * PANEL_ROWS..][..PANEL_ROWS * group_bytes(BITS)];
    let rows = Rows { block: codes, ..rows };
    if const { BITS == 4 } { nibbles(s, rows, 0) } else { fields(s, rows, 0, 0, 255) }
}

impl<const BITS: u32> Codes for Symmetric<BITS> {
    const FORMAT: &'static str = if BITS == 4 { "int4-g32" } else { "int8-g32" };
    const BLOCK_BYTES: usize = SCALE_BYTES + group_bytes(BITS);
    const GROUPS: usize = 1;
    const KIND: CodeKind = CodeKind { bits: BITS, zero: if BITS == 4 { 8 } else { 0 } };
    type Block<S: RowSimd> = S::Floats;

    #[inline(always)]
    fn shape(format: &Format) -> BlockShape {
        shape_of::<BITS>(format)
    }
    #[inline(always)]
    fn block<S: RowSimd>(s: S, rows: Rows<'_>) -> S::Floats {
        s.floats_of_f16(rows.pieces::<2>(0))
    }
    #[inline(always)]
    fn codes<S: RowSimd>(s: S, rows: Rows<'_>, group: usize) -> [S::Words; 8] {
        codes_at::<S, BITS>(s, rows, SCALE_BYTES + group * group_bytes(BITS))
    }
    #[inline(always)]
    fn scale<S: RowSimd>(_: S, scale: &S::Floats, _: usize, _: usize) -> S::Floats {
        *scale
    }
}

/// What a block has beside its codes.
#[derive(Clone, Copy)]
pub(crate) struct ScaleAndOffset<F> {
    scale: F,
    /// What code 0 stands for.
    offset: F,
}

impl<const BITS: u32> WithOrigin<BITS> {
    /// Bytes of a row's zero point or bias: what is left of a block besides its scale and whole groups of codes.
    #[inline(always)]
    fn origin_bytes(rows: Rows<'_>) -> usize {
        (rows.block_bytes() - SCALE_BYTES) % group_bytes(BITS)
    }
}

impl<const BITS: u32> Codes for WithOrigin<BITS> {
    const FORMAT: &'static str = if BITS == 4 { "int4-g32-zp" } else { "int8-g32-zp" };
    const BLOCK_BYTES: usize = SCALE_BYTES + 1 + group_bytes(BITS);
    const GROUPS: usize = 1;
    const KIND: CodeKind = CodeKind { bits: BITS, zero: 0 };
    const OFFSETS: bool = true;
    type Block<S: RowSimd> = ScaleAndOffset<S::Floats>;

    #[inline(always)]
    fn shape(format: &Format) -> BlockShape {
        shape_of::<BITS>(format)
    }
    #[inline(always)]
    fn block<S: RowSimd>(s: S, rows: Rows<'_>) -> Self::Block<S> {
        let scale = s.floats_of_f16(rows.pieces::<2>(0));
        let offset = if Self::origin_bytes(rows) == 1 {
            let bytes = s.words_of_u8(rows.pieces::<1>(SCALE_BYTES));
            let zero = if const { BITS == 4 } { bytes } else { s.signed_byte(bytes, 0) };
            s.times(s.times(s.floats(zero), scale), s.all(-1.0))
        } else {
            let bias = s.floats_of_f16(rows.pieces::<2>(SCALE_BYTES));
            // Bytes are signed here, and count from 0 in the definition.
            if const { BITS == 4 } { bias } else { s.times_plus(scale, s.all(128.0), bias) }
        };
        ScaleAndOffset { scale, offset }
    }
    #[inline(always)]
    fn codes<S: RowSimd>(s: S, rows: Rows<'_>, group: usize) -> [S::Words; 8] {
        codes_at::<S, BITS>(s, rows, SCALE_BYTES + Self::origin_bytes(rows) + group * group_bytes(BITS))
    }
    #[inline(always)]
    fn scale<S: RowSimd>(_: S, block: &Self::Block<S>, _: usize, _: usize) -> S::Floats {
        block.scale
    }
    #[inline(always)]
    fn offset<S: RowSimd>(_: S, block: &Self::Block<S>, _: usize, _: usize) -> S::Floats {
        block.offset
    }
}
