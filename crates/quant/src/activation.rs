//! The integer coding of activations that all quantized formats share.
//!
//! A row is cut into groups of [`GROUP`] values. Each group is coded as 32 `i8` codes and one `f32` scale. The
//! rule, exact to the bit, which every kernel must follow:
//!
//! 1. `largest` is the maximum of `|x|` in the group. Taken over the bit patterns without the sign bit,
//!    compared as integers, this is the same number, and NaN and infinities come out on top.
//! 2. If `largest` is NaN or infinite, the scale is NaN and all codes are 0, so that the fault shows in every
//!    result instead of hiding.
//! 3. If `largest` is below [`SMALLEST`], the scale is 0 and all codes are 0. (Below about 3.7e-37,
//!    `127 / largest` would overflow.)
//! 4. Otherwise `scale = largest / 127` and `code = round(x * (127 / largest))`, both divisions and the product
//!    rounded to `f32`, halves to the even integer (the default rounding of `cvtps2dq` and `fcvtns`). Codes lie in
//!    -127..=127 without clamping.
//!
//! A code times its scale is within `scale / 2` of the value, plus the rounding of three `f32` operations
//! (which, for the last few floats below the largest one, can give an infinity).

/// Values in a group.
pub const GROUP: usize = 32;

/// Groups whose largest magnitude is below this (2 to the power -118) are coded as zeros.
pub const SMALLEST: f32 = f32::from_bits(0x0480_0000);

/// Codes `values` `[groups * 32]` as `codes` `[groups * 32]` and `scales` `[groups]`, by the rule of this module.
///
/// Panics where the lengths do not belong together.
pub fn quantize(values: &[f32], codes: &mut [i8], scales: &mut [f32]) {
    check_lengths(values.len(), codes.len(), scales.len());
    let groups = values.chunks_exact(GROUP).zip(codes.chunks_exact_mut(GROUP)).zip(scales);
    for ((values, codes), scale) in groups {
        let largest_bits = values.iter().map(|x| x.to_bits() & 0x7fff_ffff).max().unwrap_or(0);
        let largest = f32::from_bits(largest_bits);
        if !largest.is_finite() {
            *scale = f32::NAN;
            codes.fill(0);
        } else if largest < SMALLEST {
            *scale = 0.0;
            codes.fill(0);
        } else {
            *scale = largest / 127.0;
            let factor = 127.0 / largest;
            for (code, x) in codes.iter_mut().zip(values) {
                *code = (x * factor).round_ties_even() as i8;
            }
        }
    }
}

/// Decodes `codes` `[groups * 32]` with `scales` `[groups]` into `values` `[groups * 32]`: code times scale.
///
/// Panics where the lengths do not belong together.
pub fn dequantize(codes: &[i8], scales: &[f32], values: &mut [f32]) {
    check_lengths(values.len(), codes.len(), scales.len());
    let groups = values.chunks_exact_mut(GROUP).zip(codes.chunks_exact(GROUP)).zip(scales);
    for ((values, codes), scale) in groups {
        for (value, &code) in values.iter_mut().zip(codes) {
            *value = f32::from(code) * scale;
        }
    }
}

fn check_lengths(values: usize, codes: usize, scales: usize) {
    assert!(
        values == codes && values == scales * GROUP,
        "{values} values, {codes} codes and {scales} scales do not belong together"
    );
}
