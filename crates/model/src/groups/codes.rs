//! Where codes and zero points stand: taken out as unsigned numbers of so many bits.

use std::ops::Range;

use crate::bytes::SharedBytes;

/// Where the nibble of each of eight outputs stands in a word of AWQ, from the lowest: 0 to 7 stand as 0x75316420.
const AWQ_PLACES: [usize; 8] = [0, 4, 1, 5, 2, 6, 3, 7];

/// The codes of a matrix, unsigned. Words are of 32 bits, little-endian.
#[derive(Debug)]
pub(super) enum Codes {
    /// Words [rows, words]: the bits of a row's codes one after the other, the lowest first.
    AlongRows(SharedBytes),
    /// Words [words, rows]: the same down the columns of the tensor.
    AcrossRows { words: SharedBytes, rows: usize },
    /// Words [columns, rows / 8] of 4 bits, eight outputs in one, in the order of AWQ.
    Awq { words: SharedBytes, rows: usize },
    /// Signed bytes [rows, columns].
    Bytes(SharedBytes),
}

impl Codes {
    /// Takes the codes of `rows` apart, `out` [rows, columns].
    pub(super) fn unpack(&self, rows: Range<usize>, columns: usize, bits: usize, out: &mut [u8]) {
        match self {
            Self::AlongRows(words) => {
                let row_bytes = (columns * bits).div_ceil(32) * 4;
                for (row, out) in rows.zip(out.chunks_exact_mut(columns)) {
                    unpack_row(&words[row * row_bytes..][..row_bytes], bits, out);
                }
            }
            Self::AcrossRows { words, rows: all } => {
                let word = |index: usize, row: usize| word_at(words, index * all + row);
                for column in 0..columns {
                    let (index, shift) = (column * bits / 32, column * bits % 32);
                    for row in rows.clone() {
                        let mut code = word(index, row) >> shift;
                        if shift + bits > 32 {
                            code |= word(index + 1, row) << (32 - shift);
                        }
                        out[(row - rows.start) * columns + column] = code as u8 & mask(bits);
                    }
                }
            }
            Self::Awq { words, rows: all } => {
                for column in 0..columns {
                    for row in rows.clone() {
                        out[(row - rows.start) * columns + column] = awq_nibble(words, *all, column, row);
                    }
                }
            }
            Self::Bytes(bytes) => {
                let bytes = &bytes[rows.start * columns..rows.end * columns];
                out.iter_mut().zip(bytes).for_each(|(code, &byte)| *code = byte ^ 0x80);
            }
        }
    }

    /// Gives back the pages of rows, or of all where the last of `all` rows is among them and rows do not lie side by side.
    pub(super) fn release_pages(&self, rows: Range<usize>, all: usize) {
        match self {
            Self::AlongRows(bytes) | Self::Bytes(bytes) => {
                let row_bytes = bytes.len() / all;
                let part = bytes.slice(rows.start * row_bytes..rows.end * row_bytes);
                part.into_iter().for_each(|part| part.release_pages());
            }
            Self::AcrossRows { words, .. } | Self::Awq { words, .. } if rows.end == all => words.release_pages(),
            Self::AcrossRows { .. } | Self::Awq { .. } => {}
        }
    }
}

/// The zero points of a matrix, unsigned as its codes.
#[derive(Debug)]
pub(super) enum Zeros {
    /// The middle code stands for 0, or there are biases.
    Middle,
    /// Words [groups, words]: the bits of all rows one after the other; `one_less` where 1 is to be added, within the bits.
    AlongRows { words: SharedBytes, words_each: usize, one_less: bool },
    /// Words [words, groups]: the same down the columns of the tensor.
    AcrossRows { words: SharedBytes, groups: usize },
    /// Words [groups, rows / 8] in the order of AWQ.
    Awq { words: SharedBytes, rows: usize },
    /// Signed bytes, so many apart for rows and for groups.
    Bytes { bytes: SharedBytes, strides: [usize; 2] },
}

impl Zeros {
    /// The zero point of a group of a row.
    pub(super) fn get(&self, row: usize, group: usize, bits: usize) -> u8 {
        let (index, shift) = (row * bits / 32, row * bits % 32);
        let within = |word: &dyn Fn(usize) -> u32| {
            let mut zero = word(index) >> shift;
            if shift + bits > 32 {
                zero |= word(index + 1) << (32 - shift);
            }
            zero as u8 & mask(bits)
        };
        match self {
            Self::Middle => 1 << (bits - 1),
            Self::AlongRows { words, words_each, one_less } => {
                let zero = within(&|index| word_at(words, group * words_each + index));
                if *one_less { zero.wrapping_add(1) & mask(bits) } else { zero }
            }
            Self::AcrossRows { words, groups } => within(&|index| word_at(words, index * groups + group)),
            Self::Awq { words, rows } => awq_nibble(words, *rows, group, row),
            Self::Bytes { bytes, strides } => {
                bytes[row * strides[0] + group * strides[1]].wrapping_add(1 << (bits - 1)) & mask(bits)
            }
        }
    }

    /// Whether all zero points are this one.
    pub(super) fn are_all(&self, rows: usize, groups: usize, zero: u8) -> bool {
        let bits = zero.trailing_zeros() as usize + 1;
        matches!(self, Self::Middle) || (0..groups).all(|group| (0..rows).all(|row| self.get(row, group, bits) == zero))
    }

    /// What tells one way of reading from another.
    pub(super) fn recipe(&self) -> &'static str {
        match self {
            Self::AlongRows { one_less: true, .. } => "v1",
            _ => "",
        }
    }
}

fn mask(bits: usize) -> u8 {
    (0xff >> (8 - bits)) as u8
}

fn word_at(words: &[u8], index: usize) -> u32 {
    let bytes = &words[4 * index..4 * index + 4];
    u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
}

/// The nibble of output `row` in line `line` of words [lines, rows / 8].
fn awq_nibble(words: &[u8], rows: usize, line: usize, row: usize) -> u8 {
    (word_at(words, line * (rows / 8) + row / 8) >> (4 * AWQ_PLACES[row % 8])) as u8 & 15
}

/// Codes whose bits stand one after the other.
fn unpack_row(bytes: &[u8], bits: usize, out: &mut [u8]) {
    match bits {
        8 => out.copy_from_slice(&bytes[..out.len()]),
        4 => {
            for (pair, byte) in out.chunks_mut(2).zip(bytes) {
                for (code, shift) in pair.iter_mut().zip([0, 4]) {
                    *code = byte >> shift & 15;
                }
            }
        }
        _ => {
            for (column, code) in out.iter_mut().enumerate() {
                let (index, shift) = (column * bits / 8, column * bits % 8);
                let next = bytes.get(index + 1).copied().unwrap_or(0);
                *code = (u16::from_le_bytes([bytes[index], next]) >> shift) as u8 & mask(bits);
            }
        }
    }
}
