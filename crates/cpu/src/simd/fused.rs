//! `a * b + c` rounded once, on every CPU.

/// `a * b + c`, rounded once as the instruction that fuses them does, so that plain arrays give the bits of vector units.
///
/// Where the target has that instruction it is used. Elsewhere the product of two f32 is exact in f64, and the sum is rounded
/// to odd there: if it is not exact, its last bit is set. With 53 bits, more than twice the 24 of f32 and two, the second
/// rounding then gives what a single one would (Boldo and Melquiond, "Emulation of FMA and correctly rounded sums: proved
/// algorithms using rounding to odd", 2008). It takes no call and no branch, so that it can be vectorized; the function of the
/// C library takes both.
#[inline(always)]
pub(super) fn fused(a: f32, b: f32, c: f32) -> f32 {
    if cfg!(any(target_arch = "aarch64", target_feature = "fma")) { a.mul_add(b, c) } else { in_wider_floats(a, b, c) }
}

#[inline(always)]
fn in_wider_floats(a: f32, b: f32, c: f32) -> f32 {
    let (product, addend) = (f64::from(a) * f64::from(b), f64::from(c));
    let sum = product + addend;
    // What the sum lost, exactly (Knuth's two-sum); NaN where the sum is not finite, and then neither comparison holds.
    let added = sum - product;
    let lost = (product - (sum - added)) + (addend - added);
    let bits = sum.to_bits();
    let is_inexact = (lost > 0.0) | (lost < 0.0);
    let is_even = bits & 1 == 0;
    // One bit further from zero where what was lost has the sum's sign, else one bit nearer.
    let odd = if (lost > 0.0) == (sum > 0.0) { bits.wrapping_add(1) } else { bits.wrapping_sub(1) };
    f64::from_bits(if is_inexact & is_even { odd } else { bits }) as f32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(a: f32, b: f32, c: f32) {
        let (expected, found) = (a.mul_add(b, c), in_wider_floats(a, b, c));
        let same = expected.to_bits() == found.to_bits() || expected.is_nan() && found.is_nan();
        assert!(same, "{a:e} * {b:e} + {c:e}: {found:e}, {expected:e}");
        let fused = fused(a, b, c);
        assert!(expected.to_bits() == fused.to_bits() || expected.is_nan() && fused.is_nan());
    }

    /// A generator of bits (xorshift), the same ones in every run.
    fn bits(state: &mut u64) -> u64 {
        *state ^= *state << 13;
        *state ^= *state >> 7;
        *state ^= *state << 17;
        *state
    }

    #[test]
    fn rounds_once_whatever_the_numbers_are() {
        let mut state = 0x9e37_79b9_7f4a_7c15;
        let mut float = || f32::from_bits((bits(&mut state) >> 16) as u32);
        for _ in 0..1_000_000 {
            check(float(), float(), float());
        }
    }

    #[test]
    fn rounds_once_where_two_roundings_would_differ() {
        // (2^12 + 1) (2^24 - 2^12 + 1) = 2^36 + 1: half a unit of the addend's last place and so little more that f64 loses it.
        let (a, b) = (4097.0f32, 16_773_121.0f32);
        let unit = 2.0f32.powi(37);
        for step in 0..1000u16 {
            let c = unit * 2.0f32.powi(23) + unit * 2.0 * f32::from(step);
            for (a, c) in [(a, c), (-a, -c)] {
                check(a, b, c);
                let twice = (f64::from(a) * f64::from(b) + f64::from(c)) as f32;
                assert_ne!(twice, a.mul_add(b, c), "{a} * {b} + {c} tests nothing");
            }
            check(-a, b, c);
            check(a, -b, c);
        }
    }

    #[test]
    fn keeps_zeros_infinities_and_the_smallest() {
        let tiny = f32::from_bits(1);
        for a in [0.0, -0.0, 1.0, -1.0, tiny, -tiny, f32::MIN_POSITIVE, f32::MAX, -f32::MAX, f32::INFINITY, f32::NAN] {
            for b in [0.0, -0.0, 1.0, 0.5, -0.5, tiny, f32::MAX, f32::NEG_INFINITY] {
                for c in [0.0, -0.0, tiny, -tiny, 1.0, f32::MIN_POSITIVE, -f32::MAX, f32::INFINITY] {
                    check(a, b, c);
                }
            }
        }
    }
}
