//! Eight groups of weights side by side: the shape in which every search computes.
//!
//! A group's weights stand in one lane, one below the other, so that sums, divisions and choices of eight groups are the same
//! straight line of arithmetic, which the compiler turns into vector instructions by itself. Loops over lanes have a fixed
//! length and no branch.

use half::f16;

/// Groups side by side.
pub(crate) const LANES: usize = 8;

/// One number for each of the eight groups.
pub(crate) type Lanes = [f32; LANES];

/// 1.5 times 2^23: a sum with it has no room for fractions, so that adding and subtracting it rounds to nearest even.
const ROUNDING: f32 = 12_582_912.0;

/// `x` rounded to the nearest integer, halves to even, for magnitudes below 2^22.
#[inline(always)]
pub(crate) fn round(x: f32) -> f32 {
    (x + ROUNDING) - ROUNDING
}

/// The nearest integer, as [`round`] finds it, from 0 up to below 2^22.
#[inline(always)]
pub(crate) fn round_to_integer(x: f32) -> u32 {
    (x + ROUNDING).to_bits() & 0x003f_ffff
}

/// The nearest integer, as [`round`] finds it, modulo 256: for codes, which fit.
#[inline(always)]
pub(crate) fn round_to_byte(x: f32) -> u8 {
    (x + ROUNDING).to_bits() as u8
}

/// `x` in `low..=high`; compiled to two instructions, which `f32::clamp` with its care for NaN is not.
#[inline(always)]
pub(crate) fn limit(x: f32, low: f32, high: f32) -> f32 {
    let x = if x > low { x } else { low };
    if x < high { x } else { high }
}

/// `1 / x`, or 0 for 0 and for magnitudes so small that it would be infinite.
#[inline(always)]
pub(crate) fn inverse(x: f32) -> f32 {
    let inverse = 1.0 / x;
    if inverse.abs() <= f32::MAX { inverse } else { 0.0 }
}

/// `x` as an `f16`: finite, and 0 only if it is 0, since a scale of 0 would make zeros of everything.
pub(crate) fn to_f16(x: f32) -> f16 {
    let nearest = f16::from_f32(limit(x, -65504.0, 65504.0));
    if nearest == f16::ZERO && x != 0.0 { f16::MIN_POSITIVE_SUBNORMAL.copysign(nearest) } else { nearest }
}

/// Eight groups of `N` weights, and how much the error of each counts.
pub(crate) struct Tile<const N: usize> {
    /// The weights `[N][lanes]`: finite, of magnitudes up to [`LARGEST`].
    pub(crate) x: [Lanes; N],
    /// What the square of a weight's error is multiplied by `[N][lanes]`: positive, at most 1, the largest in a lane is 1.
    pub(crate) w: [Lanes; N],
    /// What the errors of a lane are multiplied by beside, where lanes are compared with each other: at most 1.
    pub(crate) share: Lanes,
}

/// Magnitudes above this are taken as it. No format holds them; squares and products stay far from infinity below it.
pub(crate) const LARGEST: f32 = (1u64 << 30) as f32;

/// How small the importance of a weight can become beside the largest in its group. Weights that count for nothing still
/// decide where nothing else does, no sum is 0, and the others are not lost beside the largest in sums of `f32`.
pub(crate) const LEAST: f32 = 1.0 / (1u64 << 20) as f32;

/// How small the importance of a group can become beside the largest in its block.
const LEAST_SHARE: f32 = 1.0 / (1u64 << 40) as f32;

impl<const N: usize> Tile<N> {
    /// A tile of zeros whose errors count alike.
    pub(crate) fn new() -> Self {
        Self { x: [[0.0; LANES]; N], w: [[1.0; LANES]; N], share: [1.0; LANES] }
    }

    /// Takes over `values` `[lanes * N]`, one group after the other; the last groups may be missing.
    ///
    /// NaN counts as 0.
    #[inline(always)]
    pub(crate) fn load(&mut self, values: &[f32]) {
        if values.len() < LANES * N {
            let mut whole = [[0.0; N]; LANES];
            whole.as_flattened_mut()[..values.len()].copy_from_slice(values);
            self.load(whole.as_flattened());
            return;
        }
        let values = &values[..LANES * N];
        for i in 0..N {
            for lane in 0..LANES {
                let x = values[lane * N + i];
                let x = if x.is_nan() { 0.0 } else { x };
                self.x[i][lane] = limit(x, -LARGEST, LARGEST);
            }
        }
    }

    /// Takes over how much the errors count: `importance` `[lanes * N]`, of which the largest anywhere in the block is
    /// `top`. The last groups may be missing.
    ///
    /// Entries must be finite and not negative. A group of zeros counts as if all its weights were alike.
    pub(crate) fn weigh(&mut self, importance: &[f32], top: f32) {
        for lane in 0..LANES {
            let group = importance.get(lane * N..(lane + 1) * N).unwrap_or(&[]);
            let largest = group.iter().fold(0.0f32, |acc, &w| if w > acc { w } else { acc });
            for (i, row) in self.w.iter_mut().enumerate() {
                // A division, because the inverse of a subnormal would be infinite.
                let w = if largest > 0.0 { group[i] / largest } else { 1.0 };
                row[lane] = if w > LEAST { w } else { LEAST };
            }
            let share = if top > 0.0 { largest / top } else { 1.0 };
            self.share[lane] = if share > LEAST_SHARE { share } else { LEAST_SHARE };
        }
    }

    /// The lowest and the highest weight of each lane.
    #[inline(always)]
    pub(crate) fn range(&self) -> (Lanes, Lanes) {
        let (mut low, mut high) = (self.x[0], self.x[0]);
        for row in &self.x {
            for lane in 0..LANES {
                low[lane] = if row[lane] < low[lane] { row[lane] } else { low[lane] };
                high[lane] = if row[lane] > high[lane] { row[lane] } else { high[lane] };
            }
        }
        (low, high)
    }
}
