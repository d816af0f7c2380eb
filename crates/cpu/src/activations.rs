//! Activations in their integer coding, as [`duan_quant::activation`] defines it.

use duan_quant::activation::{GROUP, SMALLEST};

use crate::shared::SharedSlice;
use crate::simd::{LANES, Simd, Task};

/// Rows of activations: codes, one scale for each group of 32, and scale times the sum of the group's codes.
///
/// Scales and sums are padded with zeros to whole vectors, so that kernels need no tails.
#[derive(Debug)]
pub(crate) struct Coded {
    codes: Vec<i8>,   // [rows, columns]
    scales: Vec<f32>, // [rows, padded groups]
    sums: Vec<f32>,   // [rows, padded groups]
    columns: usize,
    padded_groups: usize,
}

/// One row of [`Coded`].
#[derive(Debug, Clone, Copy)]
pub(crate) struct CodedRow<'a> {
    /// The codes [groups].
    pub(crate) codes: &'a [[i8; GROUP]],
    /// The scales [padded groups].
    pub(crate) scales: &'a [f32],
    /// Scale times the sum of the codes [padded groups].
    pub(crate) sums: &'a [f32],
}

/// Hands the rows of a [`Coded`] to workers.
pub(crate) struct CodedWriter<'a> {
    codes: SharedSlice<'a, i8>,
    scales: SharedSlice<'a, f32>,
    sums: SharedSlice<'a, f32>,
    columns: usize,
    padded_groups: usize,
}

impl CodedWriter<'_> {
    /// One row, to be filled by [`CodeRow`].
    ///
    /// # Safety
    /// No row may be taken twice at the same time.
    pub(crate) unsafe fn row(&self, row: usize) -> CodedRowMut<'_> {
        let padded = row * self.padded_groups..(row + 1) * self.padded_groups;
        // SAFETY: parts of different rows do not overlap, and the caller takes each row once.
        unsafe {
            CodedRowMut {
                codes: self.codes.part(row * self.columns..(row + 1) * self.columns),
                scales: self.scales.part(padded.clone()),
                sums: self.sums.part(padded),
            }
        }
    }
}

/// One row of a [`Coded`], to be filled.
pub(crate) struct CodedRowMut<'a> {
    codes: &'a mut [i8],
    scales: &'a mut [f32],
    sums: &'a mut [f32],
}

/// Groups of a row, up to whole vectors.
pub(crate) fn padded_groups(columns: usize) -> usize {
    (columns / GROUP).next_multiple_of(LANES)
}

impl Coded {
    /// Room for every one of these shapes (rows, columns), one at a time.
    pub(crate) fn new(shapes: &[(usize, usize)]) -> Self {
        let codes = shapes.iter().map(|&(rows, columns)| rows * columns).max().unwrap_or(0);
        let groups = shapes.iter().map(|&(rows, columns)| rows * padded_groups(columns)).max().unwrap_or(0);
        Self { codes: vec![0; codes], scales: vec![0.0; groups], sums: vec![0.0; groups], columns: 0, padded_groups: 0 }
    }

    /// Bytes held.
    pub(crate) fn bytes(&self) -> usize {
        self.codes.len() + (self.scales.len() + self.sums.len()) * size_of::<f32>()
    }

    /// Lays the room out for `rows` of `columns`, to be filled by workers.
    pub(crate) fn fill(&mut self, rows: usize, columns: usize) -> CodedWriter<'_> {
        self.columns = columns;
        self.padded_groups = padded_groups(columns);
        CodedWriter {
            codes: SharedSlice::new(&mut self.codes[..rows * columns]),
            scales: SharedSlice::new(&mut self.scales[..rows * self.padded_groups]),
            sums: SharedSlice::new(&mut self.sums[..rows * self.padded_groups]),
            columns,
            padded_groups: self.padded_groups,
        }
    }

    /// A filled row.
    pub(crate) fn row(&self, row: usize) -> CodedRow<'_> {
        let padded = row * self.padded_groups..(row + 1) * self.padded_groups;
        CodedRow {
            codes: self.codes[row * self.columns..(row + 1) * self.columns].as_chunks().0,
            scales: &self.scales[padded.clone()],
            sums: &self.sums[padded],
        }
    }
}

/// Codes one row.
pub(crate) struct CodeRow<'a> {
    /// The activations [columns].
    pub(crate) from: &'a [f32],
    /// Where they go.
    pub(crate) to: CodedRowMut<'a>,
}

impl Task for CodeRow<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let CodedRowMut { codes, scales, sums } = self.to;
        let groups = self.from.len() / GROUP;
        scales[groups..].fill(0.0);
        sums[groups..].fill(0.0);
        let codes = codes.as_chunks_mut::<GROUP>().0.iter_mut();
        for (((x, codes), scale), sum) in self.from.as_chunks::<GROUP>().0.iter().zip(codes).zip(scales).zip(sums) {
            let x = x.as_chunks::<LANES>().0;
            let x = [s.load(&x[0]), s.load(&x[1]), s.load(&x[2]), s.load(&x[3])];
            let [a, b, c, d] = x.map(|x| s.abs(x));
            let largest = s.largest(s.max(s.max(a, b), s.max(c, d)));
            // x - x is 0 but for NaN and infinities, which a maximum may pass over.
            let zeros = x.map(|x| s.sub(x, x));
            let finite = s.sum(s.add(s.add(zeros[0], zeros[1]), s.add(zeros[2], zeros[3]))) == 0.0;
            if !finite {
                codes.fill(0);
                (*scale, *sum) = (f32::NAN, f32::NAN);
            } else if largest < SMALLEST {
                codes.fill(0);
                (*scale, *sum) = (0.0, 0.0);
            } else {
                let factor = s.splat(127.0 / largest);
                *scale = largest / 127.0;
                *sum = *scale * s.round_to_i8(x.map(|x| s.mul(x, factor)), codes) as f32;
            }
        }
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
                isa.run(CodeRow { from: &x, to: unsafe { writer.row(1) } });
                let row = coded.row(1);
                prop_assert_eq!(row.codes.as_flattened(), &codes[..], "{}", isa.name());
                for group in 0..3 {
                    prop_assert_eq!(row.scales[group].to_bits() & 0x7fff_ffff, scales[group].to_bits() & 0x7fff_ffff);
                    let sum: i32 = row.codes[group].iter().map(|&code| i32::from(code)).sum();
                    let want = scales[group] * sum as f32;
                    prop_assert!(row.sums[group] == want || want.is_nan() && row.sums[group].is_nan());
                }
                prop_assert!(row.scales[3..].iter().chain(&row.sums[3..]).all(|&x| x == 0.0));
            }
        }
    }
}
