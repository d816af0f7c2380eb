//! Ops that treat each number by itself.

use duan_model::config::ActivationFunction;

use crate::simd::{LANES, Simd, Task, gelu_tanh, silu, tanh};

/// `gate = activation(gate) * up`.
pub(crate) struct GatedAct<'a> {
    pub(crate) gate: &'a mut [f32],
    pub(crate) up: &'a [f32],
    pub(crate) activation: ActivationFunction,
}

impl Task for GatedAct<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        match self.activation {
            ActivationFunction::Silu => zip(self.gate, self.up, |x, y| s.mul(silu(s, x), y), s),
            ActivationFunction::GeluTanh => zip(self.gate, self.up, |x, y| s.mul(gelu_tanh(s, x), y), s),
        }
    }
}

/// `target += addend`.
pub(crate) struct Add<'a> {
    pub(crate) target: &'a mut [f32],
    pub(crate) addend: &'a [f32],
}

impl Task for Add<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        zip(self.target, self.addend, |x, y| s.add(x, y), s);
    }
}

/// `values = cap * tanh(values / cap)`.
pub(crate) struct Softcap<'a> {
    pub(crate) values: &'a mut [f32],
    pub(crate) cap: f32,
}

impl Task for Softcap<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let (cap, inverse) = (s.splat(self.cap), s.splat(1.0 / self.cap));
        let capped = |x| s.mul(cap, tanh(s, s.mul(x, inverse)));
        let (whole, tail) = self.values.as_chunks_mut::<LANES>();
        for x in whole {
            s.store(capped(s.load(x)), x);
        }
        if !tail.is_empty() {
            let mut last = [0.0; LANES];
            last[..tail.len()].copy_from_slice(tail);
            s.store(capped(s.load(&last)), &mut last);
            tail.copy_from_slice(&last[..tail.len()]);
        }
    }
}

/// `x = f(x, y)`; the tail goes through a padded vector, so that every number gets the same arithmetic.
#[inline(always)]
fn zip<S: Simd>(x: &mut [f32], y: &[f32], f: impl Fn(S::F, S::F) -> S::F, s: S) {
    let (whole, tail) = x.as_chunks_mut::<LANES>();
    let (whole_y, tail_y) = y.as_chunks::<LANES>();
    for (x, y) in whole.iter_mut().zip(whole_y) {
        s.store(f(s.load(x), s.load(y)), x);
    }
    if !tail.is_empty() {
        let (mut last, mut last_y) = ([0.0; LANES], [0.0; LANES]);
        last[..tail.len()].copy_from_slice(tail);
        last_y[..tail.len()].copy_from_slice(&tail_y[..tail.len()]);
        s.store(f(s.load(&last), s.load(&last_y)), &mut last);
        tail.copy_from_slice(&last[..tail.len()]);
    }
}
