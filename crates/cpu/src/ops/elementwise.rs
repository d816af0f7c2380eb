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
            ActivationFunction::Silu => zip::<S, SiluTimes>(s, self.gate, self.up),
            ActivationFunction::GeluTanh => zip::<S, GeluTimes>(s, self.gate, self.up),
        }
    }
}

/// `target += factor * addend`.
pub(crate) struct Add<'a> {
    pub(crate) target: &'a mut [f32],
    pub(crate) addend: &'a [f32],
    pub(crate) factor: f32,
}

impl Task for Add<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let factor = s.splat(self.factor);
        let (whole, tail) = self.target.as_chunks_mut::<LANES>();
        let (whole_addend, tail_addend) = self.addend.as_chunks::<LANES>();
        for (x, y) in whole.iter_mut().zip(whole_addend) {
            s.store(s.mul_add(s.load(y), factor, s.load(x)), x);
        }
        if !tail.is_empty() {
            let (mut last, mut last_addend) = ([0.0; LANES], [0.0; LANES]);
            last[..tail.len()].copy_from_slice(tail);
            last_addend[..tail.len()].copy_from_slice(&tail_addend[..tail.len()]);
            s.store(s.mul_add(s.load(&last_addend), factor, s.load(&last)), &mut last);
            tail.copy_from_slice(&last[..tail.len()]);
        }
    }
}

/// `values *= factor`.
pub(crate) struct Scale<'a> {
    pub(crate) values: &'a mut [f32],
    pub(crate) factor: f32,
}

impl Task for Scale<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        self.values.iter_mut().for_each(|x| *x *= self.factor);
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
        let (whole, tail) = self.values.as_chunks_mut::<LANES>();
        for x in whole {
            s.store(s.mul(cap, tanh(s, s.mul(s.load(x), inverse))), x);
        }
        if !tail.is_empty() {
            let mut last = [0.0; LANES];
            last[..tail.len()].copy_from_slice(tail);
            s.store(s.mul(cap, tanh(s, s.mul(s.load(&last), inverse))), &mut last);
            tail.copy_from_slice(&last[..tail.len()]);
        }
    }
}

/// A function of two numbers. A trait and not a closure, since closures do not take part in the instruction set of the
/// function that they end up in unless the compiler happens to inline them.
trait Binary {
    fn apply<S: Simd>(s: S, x: S::F, y: S::F) -> S::F;
}

struct SiluTimes;

impl Binary for SiluTimes {
    #[inline(always)]
    fn apply<S: Simd>(s: S, x: S::F, y: S::F) -> S::F {
        s.mul(silu(s, x), y)
    }
}

struct GeluTimes;

impl Binary for GeluTimes {
    #[inline(always)]
    fn apply<S: Simd>(s: S, x: S::F, y: S::F) -> S::F {
        s.mul(gelu_tanh(s, x), y)
    }
}

/// `x = f(x, y)`; the tail goes through a padded vector, so that every number gets the same arithmetic.
#[inline(always)]
fn zip<S: Simd, B: Binary>(s: S, x: &mut [f32], y: &[f32]) {
    let (whole, tail) = x.as_chunks_mut::<LANES>();
    let (whole_y, tail_y) = y.as_chunks::<LANES>();
    for (x, y) in whole.iter_mut().zip(whole_y) {
        s.store(B::apply(s, s.load(x), s.load(y)), x);
    }
    if !tail.is_empty() {
        let (mut last, mut last_y) = ([0.0; LANES], [0.0; LANES]);
        last[..tail.len()].copy_from_slice(tail);
        last_y[..tail.len()].copy_from_slice(&tail_y[..tail.len()]);
        s.store(B::apply(s, s.load(&last), s.load(&last_y)), &mut last);
        tail.copy_from_slice(&last[..tail.len()]);
    }
}
