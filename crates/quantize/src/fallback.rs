//! What a tensor gets whose rows do not divide into the blocks of its format.

use duan_quant::{Format, format_by_name};

/// A format of blocks of 256 weights, and the format of blocks of 32 that takes its place: the next one that is not smaller, as
/// `llama-quantize` has it. What has no line here, and rows that do not divide by 32 either, get F16.
pub const FALLBACKS: &[(&str, &str)] = &[
    ("Q2_K", "Q4_0"),
    ("Q3_K", "Q4_0"),
    ("TQ1_0", "Q4_0"),
    ("TQ2_0", "Q4_0"),
    ("Q4_K", "Q5_0"),
    ("Q5_K", "Q5_1"),
    ("Q6_K", "Q8_0"),
    ("IQ4_XS", "IQ4_NL"),
];

/// The format of a matrix with rows of `columns` weights: `wanted`, or what takes its place.
pub fn fallback(wanted: &'static Format, columns: u64) -> &'static Format {
    let divides = |format: &Format| columns.is_multiple_of(format.block_weights as u64);
    if divides(wanted) {
        return wanted;
    }
    let next = FALLBACKS.iter().find(|row| row.0 == wanted.name).map(|row| known(row.1));
    next.filter(|format| divides(format)).unwrap_or_else(|| known("F16"))
}

/// A format that a table of this crate names.
pub(crate) fn known(name: &str) -> &'static Format {
    format_by_name(name).expect("the tables name formats that exist")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_that_do_not_divide_get_smaller_blocks_of_no_fewer_bits() {
        for (from, to) in FALLBACKS {
            let (from, to) = (known(from), known(to));
            assert!(from.block_weights == 256 && to.block_weights == 32, "{from:?}");
            assert!(to.bits_per_weight() >= from.bits_per_weight(), "{} {}", from.name, to.name);
            assert_eq!(fallback(from, 1024), from);
            assert_eq!(fallback(from, 576), to);
            assert_eq!(fallback(from, 33).name, "F16");
        }
        assert_eq!(fallback(known("Q4_0"), 64).name, "Q4_0");
        assert_eq!(fallback(known("Q4_0"), 40).name, "F16");
        assert_eq!(fallback(known("F32"), 33).name, "F32");
    }
}
