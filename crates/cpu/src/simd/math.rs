//! Functions over eight numbers, built from the operations of [`Simd`].

use super::Simd;

/// Below this, `e^x` is smaller than the smallest normal float, and the result is exactly 0.
const EXP_LOWEST: f32 = -87.336_54;
/// Above this, `e^x` would be infinite; the argument is held here.
const EXP_HIGHEST: f32 = 88.376_26;

/// `e^x`, within 2 units in the last place; exactly 0 below -87.3, held at e^88.37 above.
///
/// `x = n ln 2 + r` with whole `n`, then a polynomial on `|r| <= ln 2 / 2` (Cody and Waite's reduction in two steps).
#[inline(always)]
pub(crate) fn exp<S: Simd>(s: S, x: S::F) -> S::F {
    let lowest = s.splat(EXP_LOWEST);
    // The constants come first: NaN passes through.
    let held = s.max(lowest, s.min(s.splat(EXP_HIGHEST), x));
    let n = s.round(s.mul(held, s.splat(std::f32::consts::LOG2_E)));
    let r = s.mul_add(n, s.splat(-0.693_359_4), held);
    let r = s.mul_add(n, s.splat(2.121_944_4e-4), r);
    // Taylor's coefficients up to r^7 / 7!: the first that is left out is below half a unit.
    let coefficients = [1.0 / 5040.0, 1.0 / 720.0, 1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5, 1.0, 1.0];
    let mut sum = s.splat(coefficients[0]);
    for coefficient in &coefficients[1..] {
        sum = s.mul_add(sum, r, s.splat(*coefficient));
    }
    s.zero_below(x, lowest, s.mul(sum, s.power_of_two(n)))
}

/// `tanh x = 1 - 2 / (e^2x + 1)`: saturates instead of dividing infinities.
#[inline(always)]
pub(crate) fn tanh<S: Simd>(s: S, x: S::F) -> S::F {
    let one = s.splat(1.0);
    let e = exp(s, s.add(x, x));
    s.sub(one, s.div(s.splat(2.0), s.add(e, one)))
}

/// `x * sigmoid(x)`.
#[inline(always)]
pub(crate) fn silu<S: Simd>(s: S, x: S::F) -> S::F {
    let e = exp(s, s.sub(s.splat(0.0), x));
    s.div(x, s.add(s.splat(1.0), e))
}

/// GELU in its tanh form.
#[inline(always)]
pub(crate) fn gelu_tanh<S: Simd>(s: S, x: S::F) -> S::F {
    let cubic = s.mul_add(s.mul(s.mul(x, x), x), s.splat(0.044_715), x);
    let t = tanh(s, s.mul(cubic, s.splat(0.797_884_6)));
    s.mul(s.mul(s.splat(0.5), x), s.add(s.splat(1.0), t))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::{LANES, Portable};

    fn apply(f: impl Fn(Portable, [f32; LANES]) -> [f32; LANES], x: f32) -> f32 {
        f(Portable, [x; LANES])[0]
    }

    #[test]
    fn exp_agrees_with_the_library_over_its_whole_range() {
        for step in 0..200_000 {
            let x = -87.3 + step as f32 * (175.6 / 200_000.0);
            let (got, want) = (apply(exp, x), f64::from(x).exp());
            assert!((f64::from(got) / want - 1.0).abs() < 3e-7, "e^{x} = {got}, not {want}");
        }
        assert_eq!(apply(exp, f32::NEG_INFINITY), 0.0);
        assert_eq!(apply(exp, -88.0), 0.0);
        assert_eq!(apply(exp, 0.0), 1.0);
        assert!(apply(exp, 1e30).is_finite());
        for f in [exp::<Portable>, tanh::<Portable>, silu::<Portable>, gelu_tanh::<Portable>] {
            assert!(apply(f, f32::NAN).is_nan(), "NaN must show");
        }
    }

    #[test]
    fn tanh_and_the_activations_saturate() {
        for (x, want) in [(0.02f32, 0.019_997_334), (2.0, 0.964_027_6), (20.0, 1.0), (100.0, 1.0), (-200.0, -1.0)] {
            assert!((apply(tanh, x) - want).abs() < 2e-7, "tanh {x}");
        }
        for x in [-1000.0f32, -20.0, -3.0, -0.1, 0.0, 0.1, 3.0, 20.0, 1000.0] {
            let exact = f64::from(x) / (1.0 + f64::from(-x).exp());
            assert!((f64::from(apply(silu, x)) - exact).abs() < 1e-6 * exact.abs().max(1.0), "silu {x}");
            let gelu = duan_model::config::ActivationFunction::GeluTanh.apply(x);
            assert!((apply(gelu_tanh, x) - gelu).abs() < 1e-6 * gelu.abs().max(1.0), "gelu {x}");
        }
    }
}
