//! How each quantized format is read from a panel, thirty-two columns of its rows at a time.
//!
//! Every format comes to the same three things per group of 32 columns: codes, one or two scales, and perhaps an
//! offset, so that `weight = (code - zero) * scale + offset`. What is done with them is written once, in
//! [`super::integer`]; where the pieces of a block lie in a panel, in [`crate::panels`].

use duan_quant::Format;

use crate::simd::{CodeKind, PANEL_ROWS, RowSimd};

/// One block of some rows of a panel: what [`Codes`] reads from.
#[derive(Clone, Copy)]
pub(crate) struct Rows<'a> {
    /// The block of all sixteen rows [16 * block_bytes].
    pub(crate) block: &'a [u8],
    /// The first of the rows that are read.
    pub(crate) first: usize,
}

impl<'a> Rows<'a> {
    /// The pieces of `SIZE` bytes, of all rows from the first, that lie `before` bytes (of one row) into the block.
    #[inline(always)]
    pub(super) fn pieces<const SIZE: usize>(self, before: usize) -> &'a [u8] {
        &self.block[before * PANEL_ROWS + self.first * SIZE..]
    }

    /// Bytes of one row's block.
    #[inline(always)]
    pub(super) fn block_bytes(self) -> usize {
        self.block.len() / PANEL_ROWS
    }
}

/// Bytes of one row's block, and groups of 32 in it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BlockShape {
    pub(crate) bytes: usize,
    pub(crate) groups: usize,
}

/// A quantized format as the integer kernels see it.
pub(crate) trait Codes: 'static {
    /// The name in [`duan_quant::FORMATS`].
    const FORMAT: &'static str;
    /// Bytes of one row's block.
    const BLOCK_BYTES: usize;
    /// Groups of 32 in a block.
    const GROUPS: usize;
    /// Its codes. Where there are offsets, no code stands for 0.
    const KIND: CodeKind;
    /// Whether the two halves of a group have scales (and offsets) of their own.
    const HALVES: bool = false;
    /// Whether `weight = code * scale` needs an offset added.
    const OFFSETS: bool = false;
    /// What is made ready once for all groups of a block.
    type Block<S: RowSimd>: Copy;

    /// Bytes of one row's block and its groups, for a kernel that serves several formats which differ in that alone; else
    /// constants, which fold.
    #[inline(always)]
    fn shape(_: &Format) -> BlockShape {
        BlockShape { bytes: Self::BLOCK_BYTES, groups: Self::GROUPS }
    }

    /// Makes a block ready.
    fn block<S: RowSimd>(s: S, rows: Rows<'_>) -> Self::Block<S>;
    /// The codes of a group, four columns a vector.
    fn codes<S: RowSimd>(s: S, rows: Rows<'_>, group: usize) -> [S::Words; 8];
    /// The scales of a group, or of one of its halves.
    fn scale<S: RowSimd>(s: S, block: &Self::Block<S>, group: usize, half: usize) -> S::Floats;
    /// The offsets of a group, or of one of its halves.
    #[inline(always)]
    fn offset<S: RowSimd>(s: S, _: &Self::Block<S>, _group: usize, _half: usize) -> S::Floats {
        s.all(0.0)
    }
}

// Loops and not closures below: a closure does not take part in the instruction set of the function around it, unless the
// compiler happens to inline it.

/// Four vectors of two codes a byte from `before`: the low ones are the first sixteen columns.
#[inline(always)]
pub(super) fn nibbles<S: RowSimd>(s: S, rows: Rows<'_>, before: usize) -> [S::Words; 8] {
    let mut codes = [s.zeros(); 8];
    for index in 0..4 {
        let pair = s.words(rows.pieces::<4>(before + index * 4));
        codes[index] = s.field::<0>(pair, 15);
        codes[index + 4] = s.field::<4>(pair, 15);
    }
    codes
}

/// Eight vectors from `before`, of which a group has `mask` after a shift.
#[inline(always)]
pub(super) fn fields<S: RowSimd>(s: S, rows: Rows<'_>, before: usize, shift: usize, mask: u8) -> [S::Words; 8] {
    let mut codes = [s.zeros(); 8];
    for index in 0..8 {
        codes[index] = s.field_at(s.words(rows.pieces::<4>(before + 4 * index)), shift as u32, mask);
    }
    codes
}

/// `low` with `high` above the lowest `N` bits.
#[inline(always)]
pub(super) fn with_high<S: RowSimd, const N: u32>(s: S, low: [S::Words; 8], high: [S::Words; 8]) -> [S::Words; 8] {
    let mut codes = low;
    for index in 0..8 {
        codes[index] = s.either(low[index], s.raise::<N>(high[index]));
    }
    codes
}

/// A fifth bit for every code, from the word of column bits at `before`.
#[inline(always)]
fn with_fifth_bits<S: RowSimd>(s: S, rows: Rows<'_>, before: usize, low: [S::Words; 8]) -> [S::Words; 8] {
    let bits = s.words(rows.pieces::<4>(before));
    let mut high = [bits; 8];
    for index in 0..8 {
        high[index] = s.field_at(bits, index as u32, 1);
    }
    with_high::<S, 4>(s, low, high)
}

/// The numbers of a table that nibbles name.
#[inline(always)]
fn named<S: RowSimd>(s: S, table: &[i8; 16], nibbles: [S::Words; 8]) -> [S::Words; 8] {
    let mut codes = nibbles;
    for index in 0..8 {
        codes[index] = s.names(table, nibbles[index]);
    }
    codes
}

/// Scale, 16 bytes of nibbles; `(code - 8) * scale`.
pub(crate) struct Q4_0;

impl Codes for Q4_0 {
    const FORMAT: &'static str = "Q4_0";
    const BLOCK_BYTES: usize = 18;
    const GROUPS: usize = 1;
    const KIND: CodeKind = CodeKind { bits: 4, zero: 8 };
    type Block<S: RowSimd> = S::Floats;

    #[inline(always)]
    fn block<S: RowSimd>(s: S, rows: Rows<'_>) -> S::Floats {
        s.floats_of_f16(rows.pieces::<2>(16))
    }
    #[inline(always)]
    fn codes<S: RowSimd>(s: S, rows: Rows<'_>, _: usize) -> [S::Words; 8] {
        nibbles(s, rows, 0)
    }
    #[inline(always)]
    fn scale<S: RowSimd>(_: S, scale: &S::Floats, _: usize, _: usize) -> S::Floats {
        *scale
    }
}

/// Scale and minimum of a group, as its block has them.
#[derive(Clone, Copy)]
pub(crate) struct ScaleAndMinimum<F> {
    scale: F,
    minimum: F,
}

/// Scale, minimum, 16 bytes of nibbles; `code * scale + minimum`.
pub(crate) struct Q4_1;

impl Codes for Q4_1 {
    const FORMAT: &'static str = "Q4_1";
    const BLOCK_BYTES: usize = 20;
    const GROUPS: usize = 1;
    const KIND: CodeKind = CodeKind { bits: 4, zero: 0 };
    const OFFSETS: bool = true;
    type Block<S: RowSimd> = ScaleAndMinimum<S::Floats>;

    #[inline(always)]
    fn block<S: RowSimd>(s: S, rows: Rows<'_>) -> Self::Block<S> {
        ScaleAndMinimum { scale: s.floats_of_f16(rows.pieces::<2>(16)), minimum: s.floats_of_f16(rows.pieces::<2>(18)) }
    }
    #[inline(always)]
    fn codes<S: RowSimd>(s: S, rows: Rows<'_>, _: usize) -> [S::Words; 8] {
        nibbles(s, rows, 0)
    }
    #[inline(always)]
    fn scale<S: RowSimd>(_: S, block: &Self::Block<S>, _: usize, _: usize) -> S::Floats {
        block.scale
    }
    #[inline(always)]
    fn offset<S: RowSimd>(_: S, block: &Self::Block<S>, _: usize, _: usize) -> S::Floats {
        block.minimum
    }
}

/// Scale, 32 fifth bits, 16 bytes of nibbles; `(code - 16) * scale`.
pub(crate) struct Q5_0;

impl Codes for Q5_0 {
    const FORMAT: &'static str = "Q5_0";
    const BLOCK_BYTES: usize = 22;
    const GROUPS: usize = 1;
    const KIND: CodeKind = CodeKind { bits: 5, zero: 16 };
    type Block<S: RowSimd> = S::Floats;

    #[inline(always)]
    fn block<S: RowSimd>(s: S, rows: Rows<'_>) -> S::Floats {
        s.floats_of_f16(rows.pieces::<2>(20))
    }
    #[inline(always)]
    fn codes<S: RowSimd>(s: S, rows: Rows<'_>, _: usize) -> [S::Words; 8] {
        with_fifth_bits(s, rows, 16, nibbles(s, rows, 0))
    }
    #[inline(always)]
    fn scale<S: RowSimd>(_: S, scale: &S::Floats, _: usize, _: usize) -> S::Floats {
        *scale
    }
}

/// Scale, minimum, 32 fifth bits, 16 bytes of nibbles; `code * scale + minimum`.
pub(crate) struct Q5_1;

impl Codes for Q5_1 {
    const FORMAT: &'static str = "Q5_1";
    const BLOCK_BYTES: usize = 24;
    const GROUPS: usize = 1;
    const KIND: CodeKind = CodeKind { bits: 5, zero: 0 };
    const OFFSETS: bool = true;
    type Block<S: RowSimd> = ScaleAndMinimum<S::Floats>;

    #[inline(always)]
    fn block<S: RowSimd>(s: S, rows: Rows<'_>) -> Self::Block<S> {
        ScaleAndMinimum { scale: s.floats_of_f16(rows.pieces::<2>(20)), minimum: s.floats_of_f16(rows.pieces::<2>(22)) }
    }
    #[inline(always)]
    fn codes<S: RowSimd>(s: S, rows: Rows<'_>, _: usize) -> [S::Words; 8] {
        with_fifth_bits(s, rows, 16, nibbles(s, rows, 0))
    }
    #[inline(always)]
    fn scale<S: RowSimd>(_: S, block: &Self::Block<S>, _: usize, _: usize) -> S::Floats {
        block.scale
    }
    #[inline(always)]
    fn offset<S: RowSimd>(_: S, block: &Self::Block<S>, _: usize, _: usize) -> S::Floats {
        block.minimum
    }
}

/// Scale, 32 signed bytes.
pub(crate) struct Q8_0;

impl Codes for Q8_0 {
    const FORMAT: &'static str = "Q8_0";
    const BLOCK_BYTES: usize = 34;
    const GROUPS: usize = 1;
    const KIND: CodeKind = CodeKind { bits: 8, zero: 0 };
    type Block<S: RowSimd> = S::Floats;

    #[inline(always)]
    fn block<S: RowSimd>(s: S, rows: Rows<'_>) -> S::Floats {
        s.floats_of_f16(rows.pieces::<2>(32))
    }
    #[inline(always)]
    fn codes<S: RowSimd>(s: S, rows: Rows<'_>, _: usize) -> [S::Words; 8] {
        fields(s, rows, 0, 0, 255)
    }
    #[inline(always)]
    fn scale<S: RowSimd>(_: S, scale: &S::Floats, _: usize, _: usize) -> S::Floats {
        *scale
    }
}

/// What the sixteen codes of IQ4_NL and IQ4_XS stand for, as in `duan_quant`.
const IQ4_VALUES: [i8; 16] = [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113];

/// The values that four vectors of two codes a byte name.
#[inline(always)]
pub(super) fn named_nibbles<S: RowSimd>(s: S, rows: Rows<'_>, before: usize) -> [S::Words; 8] {
    named(s, &IQ4_VALUES, nibbles(s, rows, before))
}

/// Scale, 16 bytes of nibbles that name values; `value * scale`. The values are the codes here.
pub(crate) struct Iq4Nl;

impl Codes for Iq4Nl {
    const FORMAT: &'static str = "IQ4_NL";
    const BLOCK_BYTES: usize = 18;
    const GROUPS: usize = 1;
    const KIND: CodeKind = CodeKind { bits: 8, zero: 0 };
    type Block<S: RowSimd> = S::Floats;

    #[inline(always)]
    fn block<S: RowSimd>(s: S, rows: Rows<'_>) -> S::Floats {
        s.floats_of_f16(rows.pieces::<2>(16))
    }
    #[inline(always)]
    fn codes<S: RowSimd>(s: S, rows: Rows<'_>, _: usize) -> [S::Words; 8] {
        named_nibbles(s, rows, 0)
    }
    #[inline(always)]
    fn scale<S: RowSimd>(_: S, scale: &S::Floats, _: usize, _: usize) -> S::Floats {
        *scale
    }
}

/// Twice what the sixteen codes of MXFP4 stand for, plus 16.
const MXFP4_VALUES: [i8; 16] = [16, 17, 18, 19, 20, 22, 24, 28, 16, 15, 14, 13, 12, 10, 8, 4];

/// An exponent, 16 bytes of nibbles that name floats; `value * 2^(exponent - 127)`. Twice the values, made unsigned, are the
/// codes here. The two lowest exponents, whose scales are no normal floats, count as 0.
pub(crate) struct Mxfp4;

impl Codes for Mxfp4 {
    const FORMAT: &'static str = "MXFP4";
    const BLOCK_BYTES: usize = 17;
    const GROUPS: usize = 1;
    const KIND: CodeKind = CodeKind { bits: 5, zero: 16 };
    type Block<S: RowSimd> = S::Floats;

    #[inline(always)]
    fn block<S: RowSimd>(s: S, rows: Rows<'_>) -> S::Floats {
        // The exponent in its place is 2^(e - 127), of which half is wanted.
        s.times(s.floats_of_bits::<23>(s.words_of_u8(rows.pieces::<1>(16))), s.all(0.5))
    }
    #[inline(always)]
    fn codes<S: RowSimd>(s: S, rows: Rows<'_>, _: usize) -> [S::Words; 8] {
        named(s, &MXFP4_VALUES, nibbles(s, rows, 0))
    }
    #[inline(always)]
    fn scale<S: RowSimd>(_: S, scale: &S::Floats, _: usize, _: usize) -> S::Floats {
        *scale
    }
}
