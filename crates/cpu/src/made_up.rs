//! Weights and activations that nobody trained: for the self-test of kernels and for their rates.

use duan_quant::Format;

/// The same whole number for the same place, spread over all of its bits.
fn spread(place: usize) -> u32 {
    (place as u32).wrapping_add(1).wrapping_mul(0x9e37_79b1)
}

/// Rows [rows, row bytes] in which all codes occur, as in a file. Bit 6 of every byte is 0, so that no half float is infinite or
/// NaN, wherever it stands. The magnitudes of blocks differ widely.
pub(crate) fn mixed_rows(format: &Format, rows: usize, columns: usize) -> Vec<u8> {
    let bytes = format.row_bytes(columns).expect("columns are whole blocks") * rows;
    (0..bytes).map(|place| (spread(place) >> 24) as u8 & 0xbf).collect()
}

/// Rows [rows, row bytes] of weights between -1 and 1, as in a file; those of [`mixed_rows`] where duan cannot quantize.
pub(crate) fn even_rows(format: &Format, rows: usize, columns: usize) -> Vec<u8> {
    let Some(quantize) = format.quantize else { return mixed_rows(format, rows, columns) };
    let weights: Vec<f32> =
        (0..rows * columns).map(|place| (spread(place) >> 8) as f32 / (1 << 23) as f32 - 1.0).collect();
    let mut bytes = vec![0; format.row_bytes(columns).expect("columns are whole blocks") * rows];
    quantize(&weights, &mut bytes);
    bytes
}

/// Activations [tokens, columns] between -2 and 2.
pub(crate) fn activations(tokens: usize, columns: usize) -> Vec<f32> {
    (0..tokens * columns).map(|place| ((place * 37 % 101) as f32 - 50.0) / 25.0).collect()
}
