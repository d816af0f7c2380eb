//! The pieces that tensors are cut into, so that memory stays bounded however large a tensor is.

/// A part of one tensor: whole rows, or a part of one row in whole blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Piece {
    /// The tensor's number.
    pub(crate) tensor: usize,
    /// Its first weight.
    pub(crate) first: u64,
    /// How many weights.
    pub(crate) weights: u64,
}

/// A multiple of the weights of every format's blocks.
pub(crate) const BLOCK_WEIGHTS: u64 = 256;

/// What all threads together may hold of sources that are made, and of coded bytes that wait to be written.
const BUDGET_BYTES: u64 = 256 << 20;

/// A weight of a piece takes so much at most: 4 bytes as they come, 4 as they go, and the same in a piece that waits.
pub(crate) const WEIGHT_BYTES: u64 = 16;

/// Weights of a piece where `threads` work at once.
pub(crate) fn piece_weights(threads: usize) -> u64 {
    (BUDGET_BYTES / WEIGHT_BYTES / threads.max(1) as u64).clamp(1 << 16, 1 << 20)
}

/// Cuts tensors into pieces of at most `limit` weights, one after the other; a multiple of [`BLOCK_WEIGHTS`].
#[derive(Debug)]
pub(crate) struct Cutter {
    /// Weights of each tensor and of its rows.
    tensors: Vec<(u64, u64)>,
    limit: u64,
    tensor: usize,
    first: u64,
}

impl Cutter {
    /// For tensors of so many weights, and so many in a row.
    pub(crate) fn new(tensors: Vec<(u64, u64)>, limit: u64) -> Cutter {
        debug_assert!(limit > 0 && limit.is_multiple_of(BLOCK_WEIGHTS));
        Cutter { tensors, limit, tensor: 0, first: 0 }
    }
}

impl Iterator for Cutter {
    type Item = Piece;

    fn next(&mut self) -> Option<Piece> {
        let &(all, columns) = self.tensors.get(self.tensor)?;
        let piece_weights = if columns <= self.limit {
            self.limit / columns * columns
        } else {
            self.limit.min(columns - self.first % columns)
        };
        let piece = Piece { tensor: self.tensor, first: self.first, weights: piece_weights.min(all - self.first) };
        self.first += piece.weights;
        if self.first == all {
            (self.tensor, self.first) = (self.tensor + 1, 0);
        }
        Some(piece)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_cover_every_weight_once_and_never_cut_a_block() {
        let tensors = vec![(7, 7), (600 * 10, 600), (3000 * 2, 3000), (1 << 20, 256)];
        let mut ends = vec![0; tensors.len()];
        for piece in Cutter::new(tensors.clone(), 1024) {
            let (all, columns) = tensors[piece.tensor];
            assert_eq!(piece.first, ends[piece.tensor]);
            assert!((1..=1024).contains(&piece.weights), "{piece:?}");
            let row_end = (piece.first / columns + 1) * columns;
            let whole_rows = piece.first.is_multiple_of(columns) && piece.weights.is_multiple_of(columns);
            let part_of_row = piece.first + piece.weights <= row_end
                && (piece.first % columns).is_multiple_of(BLOCK_WEIGHTS)
                && (piece.weights.is_multiple_of(BLOCK_WEIGHTS) || piece.first + piece.weights == row_end);
            assert!(whole_rows || part_of_row, "{piece:?}");
            ends[piece.tensor] += piece.weights;
            assert!(ends[piece.tensor] <= all);
        }
        assert_eq!(ends, tensors.iter().map(|row| row.0).collect::<Vec<_>>());
    }

    #[test]
    fn threads_share_the_memory() {
        for threads in [1, 2, 16, 256] {
            let weights = piece_weights(threads);
            assert!(weights.is_multiple_of(BLOCK_WEIGHTS));
            assert!(weights * WEIGHT_BYTES * threads as u64 <= BUDGET_BYTES, "{threads}");
        }
    }
}
