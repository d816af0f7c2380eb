//! How much the errors of weights count: one number for each column of a matrix, the mean of the squares of what the column is
//! multiplied by.
//!
//! Such numbers come from files and from runs over text, so some are missing, zero (a column that was always zero, an expert
//! that was never chosen), NaN or infinite. Whatever they are, what is written has finite scales.

/// `importance` where it says anything: finite, not negative, and not all zero.
///
/// Otherwise all weights count alike, which is what a search does without importance.
pub(crate) fn usable(importance: Option<&[f32]>) -> Option<&[f32]> {
    importance.filter(|slice| says_something(slice))
}

fn says_something(slice: &[f32]) -> bool {
    slice.iter().all(|w| (0.0..f32::INFINITY).contains(w)) && slice.iter().any(|&w| w > 0.0)
}

/// Replaces each slice of `columns` entries that says nothing by ones: a slice with an entry that is NaN, infinite or
/// negative, or with nothing but zeros. Returns how many slices were replaced, to be told.
///
/// A matrix has one slice, a stack of experts one for each. What is left over at the end, if `columns` does not divide the
/// length, is a slice that says nothing too. Nothing is done where `columns` is 0.
pub fn clean(importance: &mut [f32], columns: usize) -> usize {
    if columns == 0 {
        return 0;
    }
    let mut replaced = 0;
    for slice in importance.chunks_mut(columns) {
        if slice.len() < columns || !says_something(slice) {
            slice.fill(1.0);
            replaced += 1;
        }
    }
    replaced
}
