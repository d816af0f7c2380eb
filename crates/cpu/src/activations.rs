//! Activations in their integer coding, as [`duan_quant::activation`] defines it.

use duan_quant::activation::{GROUP, SMALLEST};

use crate::shared::SharedSlice;
use crate::simd::{LANES, Simd, Task};

/// One group of a row, as the kernels read it.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C, align(16))]
pub(crate) struct Group {
    /// The codes, four columns a word.
    pub(crate) codes: [[i8; 4]; GROUP / 4],
    /// What a code stands for.
    pub(crate) scale: f32,
    /// Scale times the sum of the codes.
    pub(crate) sum: f32,
    /// Minus eight times the sum of the codes: eight is what stands for 0 in the format that is used most.
    pub(crate) minus_eight_sums: i32,
    /// The same of the first and the second sixteen.
    pub(crate) minus_eight_half_sums: [i16; 2],
}

/// Rows of activations [rows, groups].
#[derive(Debug)]
pub(crate) struct Coded {
    groups: Vec<Group>,
    groups_per_row: usize,
}

impl Coded {
    /// Room for every one of these shapes (rows, columns), one at a time.
    pub(crate) fn new(shapes: &[(usize, usize)]) -> Self {
        let groups = shapes.iter().map(|&(rows, columns)| rows * (columns / GROUP)).max().unwrap_or(0);
        Self { groups: vec![Group::default(); groups], groups_per_row: 0 }
    }

    /// Bytes held.
    pub(crate) fn bytes(&self) -> usize {
        self.groups.len() * size_of::<Group>()
    }

    /// Whether there is room for `rows` of `columns`.
    pub(crate) fn has_room(&self, rows: usize, columns: usize) -> bool {
        rows * (columns / GROUP) <= self.groups.len()
    }

    /// Lays the room out for `rows` of `columns`, to be filled by workers [rows, groups].
    pub(crate) fn fill(&mut self, rows: usize, columns: usize) -> SharedSlice<'_, Group> {
        self.groups_per_row = columns / GROUP;
        SharedSlice::new(&mut self.groups[..rows * self.groups_per_row])
    }

    /// A filled row [groups].
    #[inline(always)]
    pub(crate) fn row(&self, row: usize) -> &[Group] {
        &self.groups[row * self.groups_per_row..][..self.groups_per_row]
    }
}

/// Codes whole groups.
pub(crate) struct CodeRow<'a> {
    /// The activations [groups * 32].
    pub(crate) from: &'a [f32],
    /// Where they go [groups].
    pub(crate) to: &'a mut [Group],
}

impl Task for CodeRow<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        for (x, to) in self.from.as_chunks::<GROUP>().0.iter().zip(self.to) {
            code_group(s, x, to);
        }
    }
}

/// Codes whole groups of a row in another order of its numbers.
pub(crate) struct CodeOrdered<'a> {
    /// The activations, as they are [columns].
    pub(crate) from: &'a [f32],
    /// Which of them comes at each place [groups * 32], each below `columns`.
    pub(crate) order: &'a [u32],
    /// Where they go [groups].
    pub(crate) to: &'a mut [Group],
}

impl Task for CodeOrdered<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        for (order, to) in self.order.as_chunks::<GROUP>().0.iter().zip(self.to) {
            let mut x = [0.0; GROUP];
            for place in 0..GROUP {
                x[place] = self.from[order[place] as usize];
            }
            code_group(s, &x, to);
        }
    }
}

/// Codes one group.
#[inline(always)]
pub(crate) fn code_group<S: Simd>(s: S, x: &[f32; GROUP], to: &mut Group) {
    let x = x.as_chunks::<LANES>().0;
    let x = [s.load(&x[0]), s.load(&x[1]), s.load(&x[2]), s.load(&x[3])];
    let [a, b, c, d] = x.map(|x| s.abs(x));
    let largest = s.largest(s.max(s.max(a, b), s.max(c, d)));
    // x - x is 0 but for NaN and infinities, which a maximum may pass over.
    let zeros = x.map(|x| s.sub(x, x));
    let finite = s.sum(s.add(s.add(zeros[0], zeros[1]), s.add(zeros[2], zeros[3]))) == 0.0;
    if !finite {
        *to = Group { scale: f32::NAN, sum: f32::NAN, ..Group::default() };
    } else if largest < SMALLEST {
        *to = Group::default();
    } else {
        let factor = s.splat(127.0 / largest);
        to.scale = largest / 127.0;
        let sums = s.round_to_i8(x.map(|x| s.mul(x, factor)), &mut to.codes);
        let sum = sums[0] + sums[1];
        to.sum = to.scale * sum as f32;
        to.minus_eight_sums = -8 * sum;
        // At most 8 * 16 * 127.
        to.minus_eight_half_sums = [(-8 * sums[0]) as i16, (-8 * sums[1]) as i16];
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::isa::Isa;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_instruction_set_codes_as_the_definition_says(
            mut x in proptest::collection::vec(prop_oneof![8 => -4.0f32..4.0, 1 => any::<f32>()], 96),
            small in any::<bool>(),
        ) {
            if small { x.iter_mut().for_each(|x| *x *= 1e-38) }
            let (mut codes, mut scales) = (vec![0i8; 96], vec![0.0f32; 3]);
            duan_quant::activation::quantize(&x, &mut codes, &mut scales);
            for isa in Isa::available() {
                let mut coded = Coded::new(&[(2, 96)]);
                let writer = coded.fill(2, 96);
                // SAFETY: no other row is taken.
                isa.run(CodeRow { from: &x, to: unsafe { writer.part(3..6) } });
                for (group, row) in coded.row(1).iter().enumerate() {
                    let codes = &codes[32 * group..][..32];
                    prop_assert_eq!(row.codes.as_flattened(), codes, "{}", isa.name());
                    prop_assert_eq!(row.scale.to_bits() & 0x7fff_ffff, scales[group].to_bits() & 0x7fff_ffff);
                    let halves: [i32; 2] = std::array::from_fn(|half| {
                        codes[16 * half..][..16].iter().map(|&code| i32::from(code)).sum()
                    });
                    prop_assert_eq!(row.minus_eight_half_sums.map(i32::from), halves.map(|sum| -8 * sum));
                    prop_assert_eq!(row.minus_eight_sums, -8 * (halves[0] + halves[1]));
                    let want = scales[group] * (halves[0] + halves[1]) as f32;
                    prop_assert!(row.sum == want || want.is_nan() && row.sum.is_nan());
                }
            }
        }
    }
}
