//! RMS norm and layer norm.

use duan_model::config::{NormConfig, NormKind};

use crate::simd::{LANES, Simd, Task, vectors};

/// Normalizes each group of `values` in place.
pub(crate) struct Norm<'a> {
    /// Whole rows [rows, width].
    pub(crate) values: &'a mut [f32],
    /// Numbers of a group.
    pub(crate) group: usize,
    /// Factors of one group, or of all groups of a row.
    pub(crate) weight: &'a [f32],
    /// Added at the end, as long as the weight.
    pub(crate) bias: Option<&'a [f32]>,
    /// The formula.
    pub(crate) norm: NormConfig,
}

impl Task for Norm<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let mut place = 0;
        for group in self.values.chunks_exact_mut(self.group) {
            if self.norm.kind == NormKind::Layer {
                let mean = sum(s, group) / self.group as f32;
                group.iter_mut().for_each(|x| *x -= mean);
            }
            let factor = 1.0 / (mean_square(s, group) + self.norm.epsilon).sqrt();
            scale(s, group, factor, &self.weight[place..][..self.group]);
            if let Some(bias) = self.bias {
                group.iter_mut().zip(&bias[place..]).for_each(|(x, bias)| *x += bias);
            }
            place += self.group;
            if place == self.weight.len() {
                place = 0;
            }
        }
    }
}

/// `x *= factor * weight`.
#[inline(always)]
fn scale<S: Simd>(s: S, x: &mut [f32], factor: f32, weight: &[f32]) {
    let (weights, weight_tail) = (vectors(weight), &weight[weight.len() / LANES * LANES..]);
    let (whole, tail) = x.as_chunks_mut::<LANES>();
    for (x, weight) in whole.iter_mut().zip(weights) {
        s.store(s.mul(s.mul(s.load(x), s.splat(factor)), s.load(weight)), x);
    }
    for (x, weight) in tail.iter_mut().zip(weight_tail) {
        *x = *x * factor * weight;
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

#[inline(always)]
fn sum<S: Simd>(s: S, x: &[f32]) -> f32 {
    let lanes = vectors(x).iter().fold(s.splat(0.0), |lanes, x| s.add(lanes, s.load(x)));
    s.sum(lanes) + x[x.len() / LANES * LANES..].iter().sum::<f32>()
}
