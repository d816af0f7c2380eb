//! RMS norm.

use crate::simd::{LANES, Simd, Task, vectors};

/// Normalizes each group of `weight.len()` numbers of `values` in place.
pub(crate) struct Norm<'a> {
    /// [groups * weight.len()]
    pub(crate) values: &'a mut [f32],
    /// Factors.
    pub(crate) weight: &'a [f32],
    /// The small number under the root.
    pub(crate) epsilon: f32,
}

impl Task for Norm<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let width = self.weight.len();
        let (weights, weight_tail) = (vectors(self.weight), &self.weight[width / LANES * LANES..]);
        for group in self.values.chunks_exact_mut(width) {
            let factor = 1.0 / (mean_square(s, group) + self.epsilon).sqrt();
            let (whole, tail) = group.as_chunks_mut::<LANES>();
            for (x, weight) in whole.iter_mut().zip(weights) {
                s.store(s.mul(s.mul(s.load(x), s.splat(factor)), s.load(weight)), x);
            }
            for (x, weight) in tail.iter_mut().zip(weight_tail) {
                *x = *x * factor * weight;
            }
        }
    }
}

/// Two sets of lanes, so that the additions do not wait for each other.
#[inline(always)]
fn mean_square<S: Simd>(s: S, x: &[f32]) -> f32 {
    let (pairs, rest) = x.as_chunks::<{ 2 * LANES }>();
    let mut lanes = [s.splat(0.0); 2];
    for pair in pairs {
        let halves = vectors(pair);
        for (lanes, half) in lanes.iter_mut().zip(halves) {
            let half = s.load(half);
            *lanes = s.mul_add(half, half, *lanes);
        }
    }
    let rest: f32 = rest.iter().map(|x| x * x).sum();
    (s.sum(s.add(lanes[0], lanes[1])) + rest) / x.len() as f32
}
