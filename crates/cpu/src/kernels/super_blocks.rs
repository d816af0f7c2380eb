//! The formats with blocks of 256, whose groups have scales of a few bits each: see [`super::formats`].

use super::formats::{Codes, Rows, fields, named_nibbles, with_high};
use crate::simd::{CodeKind, RowSimd};

/// Two half floats, eight pairs of 6-bit scale and minimum, and codes. Q4_K and Q5_K have them alike.
#[derive(Clone, Copy)]
pub(crate) struct SixBitPairs<S: RowSimd> {
    d: S::Floats,
    /// `-dmin`.
    minus_dmin: S::Floats,
    /// A byte for each of eight scales.
    scales: [S::Words; 2],
    /// A byte for each of eight minima.
    minima: [S::Words; 2],
}

impl<S: RowSimd> SixBitPairs<S> {
    #[inline(always)]
    fn read(s: S, rows: Rows<'_>) -> Self {
        // The first four pairs have six bits each in their own bytes; the last four borrow two bits from there.
        let (first, second) = (s.words(rows.pieces::<4>(4)), s.words(rows.pieces::<4>(8)));
        let third = s.words(rows.pieces::<4>(12));
        Self {
            d: s.floats_of_f16(rows.pieces::<2>(0)),
            minus_dmin: s.times(s.floats_of_f16(rows.pieces::<2>(2)), s.all(-1.0)),
            scales: [s.field::<0>(first, 63), s.either(s.field::<0>(third, 15), s.raise::<4>(s.field::<6>(first, 3)))],
            minima: [
                s.field::<0>(second, 63),
                s.either(s.field::<4>(third, 15), s.raise::<4>(s.field::<6>(second, 3))),
            ],
        }
    }

    #[inline(always)]
    fn scale(&self, s: S, group: usize) -> S::Floats {
        s.times(self.d, s.floats(s.byte(self.scales[group / 4], group % 4)))
    }

    #[inline(always)]
    fn offset(&self, s: S, group: usize) -> S::Floats {
        s.times(self.minus_dmin, s.floats(s.byte(self.minima[group / 4], group % 4)))
    }
}

/// Nibbles with 6-bit scales and minima: `code * d * scale - dmin * minimum`.
pub(crate) struct Q4K;

impl Codes for Q4K {
    const FORMAT: &'static str = "Q4_K";
    const BLOCK_BYTES: usize = 144;
    const GROUPS: usize = 8;
    const KIND: CodeKind = CodeKind { bits: 4, zero: 0 };
    const OFFSETS: bool = true;
    type Block<S: RowSimd> = SixBitPairs<S>;

    #[inline(always)]
    fn block<S: RowSimd>(s: S, rows: Rows<'_>) -> Self::Block<S> {
        SixBitPairs::read(s, rows)
    }
    #[inline(always)]
    fn codes<S: RowSimd>(s: S, rows: Rows<'_>, group: usize) -> [S::Words; 8] {
        fields(s, rows, 16 + group / 2 * 32, group % 2 * 4, 15)
    }
    #[inline(always)]
    fn scale<S: RowSimd>(s: S, block: &Self::Block<S>, group: usize, _: usize) -> S::Floats {
        block.scale(s, group)
    }
    #[inline(always)]
    fn offset<S: RowSimd>(s: S, block: &Self::Block<S>, group: usize, _: usize) -> S::Floats {
        block.offset(s, group)
    }
}

/// The same with a fifth bit for each code.
pub(crate) struct Q5K;

impl Codes for Q5K {
    const FORMAT: &'static str = "Q5_K";
    const BLOCK_BYTES: usize = 176;
    const GROUPS: usize = 8;
    const KIND: CodeKind = CodeKind { bits: 5, zero: 0 };
    const OFFSETS: bool = true;
    type Block<S: RowSimd> = SixBitPairs<S>;

    #[inline(always)]
    fn block<S: RowSimd>(s: S, rows: Rows<'_>) -> Self::Block<S> {
        SixBitPairs::read(s, rows)
    }
    #[inline(always)]
    fn codes<S: RowSimd>(s: S, rows: Rows<'_>, group: usize) -> [S::Words; 8] {
        let low = fields(s, rows, 48 + group / 2 * 32, group % 2 * 4, 15);
        let high = fields(s, rows, 16, group, 1);
        with_high::<S, 4>(s, low, high)
    }
    #[inline(always)]
    fn scale<S: RowSimd>(s: S, block: &Self::Block<S>, group: usize, _: usize) -> S::Floats {
        block.scale(s, group)
    }
    #[inline(always)]
    fn offset<S: RowSimd>(s: S, block: &Self::Block<S>, group: usize, _: usize) -> S::Floats {
        block.offset(s, group)
    }
}

/// Four vectors from `before`.
#[inline(always)]
fn four_words<S: RowSimd>(s: S, rows: Rows<'_>, before: usize) -> [S::Words; 4] {
    let mut words = [s.zeros(); 4];
    for index in 0..4 {
        words[index] = s.words(rows.pieces::<4>(before + 4 * index));
    }
    words
}

/// Four bits and two above them.
#[inline(always)]
fn six_bits<S: RowSimd>(s: S, low: S::Words, high: S::Words) -> S::Words {
    s.either(low, s.raise::<4>(high))
}

/// A half float, and a byte for each of sixteen scales.
#[derive(Clone, Copy)]
pub(crate) struct SixteenScales<S: RowSimd> {
    d: S::Floats,
    scales: [S::Words; 4],
}

/// Low nibbles, high bit pairs, sixteen signed scales, one half float: `(code - 32) * d * scale`.
pub(crate) struct Q6K;

impl Codes for Q6K {
    const FORMAT: &'static str = "Q6_K";
    const BLOCK_BYTES: usize = 210;
    const GROUPS: usize = 8;
    const KIND: CodeKind = CodeKind { bits: 6, zero: 32 };
    const HALVES: bool = true;
    type Block<S: RowSimd> = SixteenScales<S>;

    #[inline(always)]
    fn block<S: RowSimd>(s: S, rows: Rows<'_>) -> Self::Block<S> {
        SixteenScales { d: s.floats_of_f16(rows.pieces::<2>(0)), scales: four_words(s, rows, 2) }
    }
    #[inline(always)]
    fn codes<S: RowSimd>(s: S, rows: Rows<'_>, group: usize) -> [S::Words; 8] {
        let (half, quarter) = (group / 4, group % 4);
        let low = fields(s, rows, 50 + half * 96 + quarter % 2 * 32, quarter / 2 * 4, 15);
        let high = fields(s, rows, 18 + half * 96, quarter * 2, 3);
        with_high::<S, 4>(s, low, high)
    }
    #[inline(always)]
    fn scale<S: RowSimd>(s: S, block: &Self::Block<S>, group: usize, half: usize) -> S::Floats {
        let place = 2 * group + half;
        s.times(block.d, s.floats(s.signed_byte(block.scales[place / 4], place % 4)))
    }
}

/// Sixteen pairs of 4-bit scale and minimum, bit pairs, two half floats: `code * d * scale - dmin * minimum`.
pub(crate) struct Q2K;

/// What a block of Q2_K has for all its groups.
#[derive(Clone, Copy)]
pub(crate) struct FourBitPairs<S: RowSimd> {
    d: S::Floats,
    /// `-dmin`.
    minus_dmin: S::Floats,
    /// A scale and a minimum a byte.
    pairs: [S::Words; 4],
}

impl Codes for Q2K {
    const FORMAT: &'static str = "Q2_K";
    const BLOCK_BYTES: usize = 84;
    const GROUPS: usize = 8;
    const KIND: CodeKind = CodeKind { bits: 2, zero: 0 };
    const HALVES: bool = true;
    const OFFSETS: bool = true;
    type Block<S: RowSimd> = FourBitPairs<S>;

    #[inline(always)]
    fn block<S: RowSimd>(s: S, rows: Rows<'_>) -> Self::Block<S> {
        FourBitPairs {
            d: s.floats_of_f16(rows.pieces::<2>(0)),
            minus_dmin: s.times(s.floats_of_f16(rows.pieces::<2>(2)), s.all(-1.0)),
            pairs: four_words(s, rows, 4),
        }
    }
    #[inline(always)]
    fn codes<S: RowSimd>(s: S, rows: Rows<'_>, group: usize) -> [S::Words; 8] {
        fields(s, rows, 20 + group / 4 * 32, group % 4 * 2, 3)
    }
    #[inline(always)]
    fn scale<S: RowSimd>(s: S, block: &Self::Block<S>, group: usize, half: usize) -> S::Floats {
        let place = 2 * group + half;
        let scales = s.field::<0>(block.pairs[place / 4], 15);
        s.times(block.d, s.floats(s.byte(scales, place % 4)))
    }
    #[inline(always)]
    fn offset<S: RowSimd>(s: S, block: &Self::Block<S>, group: usize, half: usize) -> S::Floats {
        let place = 2 * group + half;
        let minima = s.field::<4>(block.pairs[place / 4], 15);
        s.times(block.minus_dmin, s.floats(s.byte(minima, place % 4)))
    }
}

/// Third bits, low bit pairs, sixteen 6-bit scales, one half float: `(code - 4) * d * (scale - 32)`.
pub(crate) struct Q3K;

impl Codes for Q3K {
    const FORMAT: &'static str = "Q3_K";
    const BLOCK_BYTES: usize = 110;
    const GROUPS: usize = 8;
    const KIND: CodeKind = CodeKind { bits: 3, zero: 4 };
    const HALVES: bool = true;
    type Block<S: RowSimd> = SixteenScales<S>;

    #[inline(always)]
    fn block<S: RowSimd>(s: S, rows: Rows<'_>) -> Self::Block<S> {
        let (first, second) = (s.words(rows.pieces::<4>(2)), s.words(rows.pieces::<4>(6)));
        let high = s.words(rows.pieces::<4>(10));
        SixteenScales {
            d: s.floats_of_f16(rows.pieces::<2>(0)),
            scales: [
                six_bits(s, s.field::<0>(first, 15), s.field::<0>(high, 3)),
                six_bits(s, s.field::<0>(second, 15), s.field::<2>(high, 3)),
                six_bits(s, s.field::<4>(first, 15), s.field::<4>(high, 3)),
                six_bits(s, s.field::<4>(second, 15), s.field::<6>(high, 3)),
            ],
        }
    }
    #[inline(always)]
    fn codes<S: RowSimd>(s: S, rows: Rows<'_>, group: usize) -> [S::Words; 8] {
        let low = fields(s, rows, 46 + group / 4 * 32, group % 4 * 2, 3);
        let high = fields(s, rows, 14, group, 1);
        with_high::<S, 2>(s, low, high)
    }
    #[inline(always)]
    fn scale<S: RowSimd>(s: S, block: &Self::Block<S>, group: usize, half: usize) -> S::Floats {
        let place = 2 * group + half;
        let scale = s.floats(s.byte(block.scales[place / 4], place % 4));
        s.times(block.d, s.plus(scale, s.all(-32.0)))
    }
}

/// One half float, eight 6-bit scales, nibbles that name values: `value * d * (scale - 32)`. The values are the codes here.
pub(crate) struct Iq4Xs;

/// What a block of IQ4_XS has for all its groups.
#[derive(Clone, Copy)]
pub(crate) struct SplitScales<S: RowSimd> {
    d: S::Floats,
    /// Low four bits of eight scales, and their high two bits.
    low: S::Words,
    high: S::Words,
}

impl Codes for Iq4Xs {
    const FORMAT: &'static str = "IQ4_XS";
    const BLOCK_BYTES: usize = 136;
    const GROUPS: usize = 8;
    const KIND: CodeKind = CodeKind { bits: 8, zero: 0 };
    type Block<S: RowSimd> = SplitScales<S>;

    #[inline(always)]
    fn block<S: RowSimd>(s: S, rows: Rows<'_>) -> Self::Block<S> {
        SplitScales {
            d: s.floats_of_f16(rows.pieces::<2>(0)),
            high: s.words_of_u16(rows.pieces::<2>(2)),
            low: s.words(rows.pieces::<4>(4)),
        }
    }
    #[inline(always)]
    fn codes<S: RowSimd>(s: S, rows: Rows<'_>, group: usize) -> [S::Words; 8] {
        named_nibbles(s, rows, 8 + 16 * group)
    }
    #[inline(always)]
    fn scale<S: RowSimd>(s: S, block: &Self::Block<S>, group: usize, _: usize) -> S::Floats {
        let low = s.byte(s.field_at(block.low, group as u32 % 2 * 4, 15), group / 2);
        let high = s.byte(s.field_at(block.high, group as u32 % 4 * 2, 3), group / 4);
        let scale = s.plus(s.floats(s.either(low, s.raise::<4>(high))), s.all(-32.0));
        s.times(block.d, scale)
    }
}
