//! How the blocks of each format lie in a panel.

use duan_quant::Format;

use crate::simd::PANEL_ROWS;

/// Raised whenever [`Layout::pack`] lays the same pieces out in another way, so that panels that were kept on disk are made anew. A change of
/// the pieces of a format needs no new number: packs hold the pieces too.
pub(crate) const LAYOUT_VERSION: u32 = 1;

/// Consecutive pieces of a block of one size, each laid beside those of the other rows.
#[derive(Debug, Clone, Copy)]
enum Piece {
    /// `count` times four bytes from `at`.
    Words { at: usize, count: usize },
    /// The two bytes at `at`.
    Half { at: usize },
    /// The byte at `at`.
    Byte { at: usize },
    /// The four bytes at `at`, bit `4 * j + k` of which belongs to column `k` of word `j`: bit `j` of byte `k` afterwards.
    ColumnBits { at: usize },
}

/// The order in which a block's pieces lie in a panel.
#[derive(Debug)]
pub(crate) struct Layout {
    format: &'static str,
    pieces: &'static [Piece],
}

use Piece::{Byte, ColumnBits, Half, Words};

/// Every format that has kernels. Kernels know these orders: see `kernels::formats`.
static LAYOUTS: &[Layout] = &[
    Layout { format: "F32", pieces: &[Words { at: 0, count: 1 }] },
    Layout { format: "F16", pieces: &[Half { at: 0 }] },
    Layout { format: "BF16", pieces: &[Half { at: 0 }] },
    Layout { format: "Q4_0", pieces: &[Words { at: 2, count: 4 }, Half { at: 0 }] },
    Layout { format: "IQ4_NL", pieces: &[Words { at: 2, count: 4 }, Half { at: 0 }] },
    Layout { format: "Q4_1", pieces: &[Words { at: 4, count: 4 }, Half { at: 0 }, Half { at: 2 }] },
    Layout { format: "Q5_0", pieces: &[Words { at: 6, count: 4 }, ColumnBits { at: 2 }, Half { at: 0 }] },
    Layout {
        format: "Q5_1",
        pieces: &[Words { at: 8, count: 4 }, ColumnBits { at: 4 }, Half { at: 0 }, Half { at: 2 }],
    },
    Layout { format: "Q8_0", pieces: &[Words { at: 2, count: 8 }, Half { at: 0 }] },
    Layout { format: "MXFP4", pieces: &[Words { at: 1, count: 4 }, Byte { at: 0 }] },
    // Scales first: a whole block's are made ready before its codes are read.
    Layout { format: "Q2_K", pieces: &[Half { at: 80 }, Half { at: 82 }, Words { at: 0, count: 20 }] },
    Layout { format: "Q3_K", pieces: &[Half { at: 108 }, Words { at: 96, count: 3 }, Words { at: 0, count: 24 }] },
    Layout { format: "Q4_K", pieces: &[Half { at: 0 }, Half { at: 2 }, Words { at: 4, count: 35 }] },
    Layout { format: "Q5_K", pieces: &[Half { at: 0 }, Half { at: 2 }, Words { at: 4, count: 43 }] },
    // Half a block's high bits, then its low ones: so they are read from the first to the last.
    Layout {
        format: "Q6_K",
        pieces: &[
            Half { at: 208 },
            Words { at: 192, count: 4 },
            Words { at: 128, count: 8 },
            Words { at: 0, count: 16 },
            Words { at: 160, count: 8 },
            Words { at: 64, count: 16 },
        ],
    },
    Layout { format: "IQ4_XS", pieces: &[Half { at: 0 }, Half { at: 2 }, Words { at: 4, count: 33 }] },
    // Integers in groups: the scale, the zero point or bias, the codes.
    Layout { format: "int4-g32", pieces: &[Half { at: 0 }, Words { at: 2, count: 4 }] },
    Layout { format: "int4-g64", pieces: &[Half { at: 0 }, Words { at: 2, count: 8 }] },
    Layout { format: "int4-g128", pieces: &[Half { at: 0 }, Words { at: 2, count: 16 }] },
    Layout { format: "int4-g256", pieces: &[Half { at: 0 }, Words { at: 2, count: 32 }] },
    Layout { format: "int4-g32-zp", pieces: &[Half { at: 0 }, Byte { at: 2 }, Words { at: 3, count: 4 }] },
    Layout { format: "int4-g64-zp", pieces: &[Half { at: 0 }, Byte { at: 2 }, Words { at: 3, count: 8 }] },
    Layout { format: "int4-g128-zp", pieces: &[Half { at: 0 }, Byte { at: 2 }, Words { at: 3, count: 16 }] },
    Layout { format: "int4-g256-zp", pieces: &[Half { at: 0 }, Byte { at: 2 }, Words { at: 3, count: 32 }] },
    Layout { format: "int4-g32-bias", pieces: &[Half { at: 0 }, Half { at: 2 }, Words { at: 4, count: 4 }] },
    Layout { format: "int4-g64-bias", pieces: &[Half { at: 0 }, Half { at: 2 }, Words { at: 4, count: 8 }] },
    Layout { format: "int4-g128-bias", pieces: &[Half { at: 0 }, Half { at: 2 }, Words { at: 4, count: 16 }] },
    Layout { format: "int8-g32", pieces: &[Half { at: 0 }, Words { at: 2, count: 8 }] },
    Layout { format: "int8-g64", pieces: &[Half { at: 0 }, Words { at: 2, count: 16 }] },
    Layout { format: "int8-g128", pieces: &[Half { at: 0 }, Words { at: 2, count: 32 }] },
    Layout { format: "int8-g256", pieces: &[Half { at: 0 }, Words { at: 2, count: 64 }] },
    Layout { format: "int8-g32-zp", pieces: &[Half { at: 0 }, Byte { at: 2 }, Words { at: 3, count: 8 }] },
    Layout { format: "int8-g64-zp", pieces: &[Half { at: 0 }, Byte { at: 2 }, Words { at: 3, count: 16 }] },
    Layout { format: "int8-g128-zp", pieces: &[Half { at: 0 }, Byte { at: 2 }, Words { at: 3, count: 32 }] },
    Layout { format: "int8-g256-zp", pieces: &[Half { at: 0 }, Byte { at: 2 }, Words { at: 3, count: 64 }] },
    Layout { format: "int8-g32-bias", pieces: &[Half { at: 0 }, Half { at: 2 }, Words { at: 4, count: 8 }] },
    Layout { format: "int8-g64-bias", pieces: &[Half { at: 0 }, Half { at: 2 }, Words { at: 4, count: 16 }] },
    Layout { format: "int8-g128-bias", pieces: &[Half { at: 0 }, Half { at: 2 }, Words { at: 4, count: 32 }] },
];

impl Layout {
    /// The layout of a format that has kernels.
    pub(crate) fn of(format: &Format) -> Option<&'static Layout> {
        LAYOUTS.iter().find(|layout| layout.format == format.name)
    }

    /// Lays `rows` consecutive rows (1 to 16; the others are zeros) of `row_bytes` out as `panel` [16 * row_bytes].
    pub(crate) fn pack(&self, format: &Format, rows: &[u8], row_bytes: usize, panel: &mut [u8]) {
        assert!(panel.len() == PANEL_ROWS * row_bytes && rows.len() <= panel.len(), "a panel of {} bytes", panel.len());
        if rows.len() < panel.len() {
            panel.fill(0);
        }
        let present = rows.len() / row_bytes;
        let block_bytes = format.block_bytes;
        for (block, panel) in panel.chunks_exact_mut(PANEL_ROWS * block_bytes).enumerate() {
            let first = block * block_bytes;
            let mut to = 0;
            for piece in self.pieces {
                let size = piece.bytes();
                let panel = &mut panel[to..to + PANEL_ROWS * size];
                let from = &rows[first..];
                match *piece {
                    Words { at, count } => place_words(&from[at..], row_bytes, present, count, panel),
                    Half { at } => place::<2>(&from[at..], row_bytes, present, panel, |bytes| bytes),
                    Byte { at } => place::<1>(&from[at..], row_bytes, present, panel, |bytes| bytes),
                    ColumnBits { at } => place::<4>(&from[at..], row_bytes, present, panel, by_column),
                }
                to += PANEL_ROWS * size;
            }
        }
    }

    /// Row `row` of a panel as it lies in the file, `bytes` [row_bytes].
    pub(crate) fn unpack_row(&self, format: &Format, panel: &[u8], row: usize, bytes: &mut [u8]) {
        assert!(row < PANEL_ROWS && panel.len() == PANEL_ROWS * bytes.len(), "row {row} of a panel");
        let block_bytes = format.block_bytes;
        for (block, panel) in bytes.chunks_exact_mut(block_bytes).zip(panel.chunks_exact(PANEL_ROWS * block_bytes)) {
            let mut from = 0;
            for piece in self.pieces {
                let (at, size, count) = match *piece {
                    Words { at, count } => (at, 4, count),
                    Half { at } => (at, 2, 1),
                    Byte { at } => (at, 1, 1),
                    ColumnBits { at } => (at, 4, 1),
                };
                for (index, to) in block[at..at + size * count].chunks_exact_mut(size).enumerate() {
                    let start = from + (index * PANEL_ROWS + row) * size;
                    to.copy_from_slice(&panel[start..start + size]);
                }
                if let ColumnBits { .. } = piece {
                    let bits = block[at..].first_chunk_mut::<4>().expect("a word of the block");
                    *bits = by_word(*bits);
                }
                from += PANEL_ROWS * size * count;
            }
        }
    }
}

impl Piece {
    /// Bytes of one row.
    fn bytes(&self) -> usize {
        match *self {
            Words { count, .. } => 4 * count,
            Half { .. } => 2,
            Byte { .. } => 1,
            ColumnBits { .. } => 4,
        }
    }
}

/// `count` words of each of `present` rows beside each other.
#[inline(always)]
fn place_words(from: &[u8], row_bytes: usize, present: usize, count: usize, panel: &mut [u8]) {
    for row in 0..present {
        let words = from[row * row_bytes..][..4 * count].as_chunks::<4>().0;
        for (word, to) in words.iter().zip(panel.as_chunks_mut::<{ 4 * PANEL_ROWS }>().0) {
            to[4 * row..4 * row + 4].copy_from_slice(word);
        }
    }
}

/// One piece of `SIZE` bytes of each of `present` rows beside each other.
#[inline(always)]
fn place<const SIZE: usize>(
    from: &[u8],
    row_bytes: usize,
    present: usize,
    panel: &mut [u8],
    change: impl Fn([u8; SIZE]) -> [u8; SIZE],
) {
    for (row, to) in panel.as_chunks_mut::<SIZE>().0.iter_mut().enumerate().take(present) {
        *to = change(*from[row * row_bytes..].first_chunk().expect("a piece within its row"));
    }
}

/// See [`Piece::ColumnBits`].
fn by_column(bytes: [u8; 4]) -> [u8; 4] {
    let bits = u32::from_le_bytes(bytes);
    std::array::from_fn(|k| (0..8).map(|j| (bits >> (4 * j + k) & 1) << j).sum::<u32>() as u8)
}

/// Undoes [`by_column`].
fn by_word(bytes: [u8; 4]) -> [u8; 4] {
    let mut bits = 0u32;
    for (k, byte) in bytes.into_iter().enumerate() {
        bits |= (0..8).map(|j| u32::from(byte >> j & 1) << (4 * j + k)).sum::<u32>();
    }
    bits.to_le_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Also where the last panel is not full.
        #[test]
        fn laying_out_loses_nothing(seed in any::<u64>(), which in 0..LAYOUTS.len(), blocks in 1usize..4, rows in 1usize..=16) {
            let format = duan_quant::format_by_name(LAYOUTS[which].format).unwrap();
            let row_bytes = blocks * format.block_bytes;
            let byte = |i: usize| (seed.wrapping_add(i as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8;
            let bytes: Vec<u8> = (0..rows * row_bytes).map(byte).collect();
            let mut panel = vec![0xaa; 16 * row_bytes];
            LAYOUTS[which].pack(format, &bytes, row_bytes, &mut panel);
            let (mut row, zeros) = (vec![0; row_bytes], vec![0; row_bytes]);
            for index in 0..16 {
                LAYOUTS[which].unpack_row(format, &panel, index, &mut row);
                let expected = bytes.get(index * row_bytes..(index + 1) * row_bytes);
                prop_assert_eq!(&row[..], expected.unwrap_or(&zeros), "{} row {}", format.name, index);
            }
        }
    }

    /// Holds [`LAYOUT_VERSION`] to what it stands for.
    #[test]
    fn bytes_are_laid_out_as_this_version_says() {
        let mut panels = Vec::new();
        for pieces in [&[Words { at: 2, count: 2 }, Half { at: 0 }][..], &[ColumnBits { at: 6 }, Byte { at: 0 }]] {
            let format = duan_quant::format_by_name("Q8_0").unwrap();
            let bytes: Vec<u8> = (0..13 * 68).map(|i| (i * 31 % 251) as u8).collect();
            let mut panel = vec![0; 16 * 68];
            Layout { format: "Q8_0", pieces }.pack(format, &bytes, 68, &mut panel);
            panels.extend_from_slice(&panel);
        }
        let found = xxhash_rust::xxh3::xxh3_64(&panels);
        assert_eq!(
            (LAYOUT_VERSION, format!("{found:016x}")),
            (1, "19d045ccb55c88f9".to_owned()),
            "raise the version with the number"
        );
    }

    #[test]
    fn every_piece_of_a_block_is_laid_out_once() {
        for layout in LAYOUTS {
            let format = duan_quant::format_by_name(layout.format).unwrap();
            let bytes: usize = layout.pieces.iter().map(Piece::bytes).sum();
            assert_eq!(bytes, format.block_bytes, "{}", layout.format);
        }
    }
}
