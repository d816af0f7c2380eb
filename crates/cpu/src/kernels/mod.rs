//! The matrix kernels: an inventory of rows, and what they share.
//!
//! [`KERNELS`] is the list of what exists: the tests, the benches and `duan devices` all go through it. A format
//! without a row runs on [`generic`].

pub(crate) mod float;
pub(crate) mod formats;
pub(crate) mod generic;
pub(crate) mod integer;

use std::marker::PhantomData;
use std::ops::Range;

use duan_model::weights::Matrix;
use duan_quant::Format;

use crate::activations::{Coded, padded_groups};
use crate::isa::Isa;
use crate::shared::SharedSlice;

/// One matrix applied to all tokens of a pass.
pub(crate) struct Job<'a> {
    /// The weights [rows, columns].
    pub(crate) matrix: &'a Matrix,
    /// Added to each token's result [rows].
    pub(crate) bias: Option<&'a [f32]>,
    /// The activations [tokens, columns].
    pub(crate) floats: &'a [f32],
    /// How many tokens.
    pub(crate) tokens: usize,
    /// Where the tokens' activations and results are, for experts that see only some of them.
    pub(crate) places: Option<Places<'a>>,
    /// The results [tokens, rows]; each row of the matrix is computed by one worker.
    pub(crate) out: SharedSlice<'a, f32>,
}

/// The rows of activations and of results that the tokens of a job have [tokens].
#[derive(Clone, Copy)]
pub(crate) struct Places<'a> {
    /// Rows of the activations.
    pub(crate) inputs: &'a [u32],
    /// Rows of the results; no two are equal.
    pub(crate) outputs: &'a [u32],
}

impl Job<'_> {
    /// The row of the activations that belongs to a token.
    #[inline(always)]
    pub(crate) fn input(&self, token: usize) -> usize {
        self.places.map_or(token, |places| places.inputs[token] as usize)
    }

    /// The activations of a token [columns].
    #[inline(always)]
    pub(crate) fn floats(&self, token: usize) -> &[f32] {
        let columns = self.matrix.columns();
        &self.floats[self.input(token) * columns..][..columns]
    }

    /// Stores the results of consecutive rows for one token, with their bias.
    #[inline(always)]
    pub(crate) fn store(&self, row: usize, token: usize, sums: &[f32]) {
        let token = self.places.map_or(token, |places| places.outputs[token] as usize);
        let start = token * self.matrix.rows() + row;
        // SAFETY: rows are handed out to workers in ranges that do not overlap, and a result belongs to one row of one
        // matrix. Those that experts have are the choices that `Assignment::sort` permutes, each once.
        let out = unsafe { self.out.part(start..start + sums.len()) };
        match self.bias {
            None => out.copy_from_slice(sums),
            Some(bias) => {
                for (index, out) in out.iter_mut().enumerate() {
                    *out = sums[index] + bias[row + index];
                }
            }
        }
    }
}

/// What one worker needs while it computes rows, sized for the widest matrix.
#[derive(Debug)]
pub(crate) struct Scratch {
    /// Unpacked codes of a tile's rows [4, groups].
    pub(crate) codes: Vec<[u8; 32]>,
    /// Scales of a tile's rows [4, 2 * padded groups].
    pub(crate) scales: Vec<f32>,
    /// Offsets of a tile's rows [4, padded groups].
    pub(crate) offsets: Vec<f32>,
    /// One dequantized row [columns], for formats without a kernel.
    pub(crate) row: Vec<f32>,
}

impl Scratch {
    /// Scratch for matrices of at most `columns`.
    pub(crate) fn new(columns: usize) -> Self {
        let padded = padded_groups(columns.next_multiple_of(32));
        Self {
            codes: vec![[0; 32]; 4 * padded],
            scales: vec![0.0; 4 * 2 * padded],
            offsets: vec![0.0; 4 * padded],
            row: vec![0.0; columns],
        }
    }

    /// Bytes held.
    pub(crate) fn bytes(&self) -> usize {
        self.codes.len() * 32 + (self.scales.len() + self.offsets.len() + self.row.len()) * size_of::<f32>()
    }
}

/// Computes a range of a job's rows.
pub(crate) type Run = fn(Isa, &Job<'_>, Option<&Coded>, Range<usize>, &mut Scratch);

/// A row of the inventory: a format that has its own kernel, in every instruction set of [`Isa`].
pub(crate) struct Kernel {
    /// The name of the format.
    pub(crate) format: &'static str,
    /// The kernel.
    pub(crate) run: Run,
}

fn integer<C: formats::Codes>(
    isa: Isa,
    job: &Job<'_>,
    coded: Option<&Coded>,
    rows: Range<usize>,
    scratch: &mut Scratch,
) {
    let coded = coded.expect("the activations of a quantized matrix are coded before its kernel runs");
    isa.run(integer::Rows::<C> { job, coded, rows, scratch, format: PhantomData });
}

fn float<W: float::Floats>(isa: Isa, job: &Job<'_>, _: Option<&Coded>, rows: Range<usize>, _: &mut Scratch) {
    isa.run(float::Rows::<W> { job, rows, format: PhantomData });
}

fn any_format(isa: Isa, job: &Job<'_>, coded: Option<&Coded>, rows: Range<usize>, scratch: &mut Scratch) {
    isa.run(generic::Rows { job, coded, rows, scratch });
}

const fn integer_kernel<C: formats::Codes>() -> Kernel {
    Kernel { format: C::FORMAT, run: integer::<C> }
}

const fn float_kernel<W: float::Floats>() -> Kernel {
    Kernel { format: W::FORMAT, run: float::<W> }
}

/// Every kernel.
pub(crate) static KERNELS: &[Kernel] = &[
    float_kernel::<float::F32>(),
    float_kernel::<float::F16>(),
    float_kernel::<float::Bf16>(),
    integer_kernel::<formats::Q4_0>(),
    integer_kernel::<formats::Q4_1>(),
    integer_kernel::<formats::Q5_0>(),
    integer_kernel::<formats::Q5_1>(),
    integer_kernel::<formats::Q8_0>(),
    integer_kernel::<formats::Q4K>(),
    integer_kernel::<formats::Q6K>(),
    integer_kernel::<formats::Iq4Nl>(),
];

/// The kernel for a format, the generic path where it has none.
pub(crate) fn pick(format: &Format) -> Run {
    match KERNELS.iter().find(|kernel| kernel.format == format.name) {
        Some(kernel) => kernel.run,
        None => any_format,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::activations::CodeRow;
    use duan_model::bytes::SharedBytes;

    /// All results [tokens, rows] of one kernel.
    fn results(run: Run, isa: Isa, matrix: &Matrix, floats: &[f32], bias: &[f32]) -> Vec<f32> {
        let (columns, tokens) = (matrix.columns(), floats.len() / matrix.columns());
        let mut coded = Coded::new(&[(tokens, columns.next_multiple_of(32))]);
        let is_coded = columns.is_multiple_of(32);
        if is_coded {
            let writer = coded.fill(tokens, columns);
            for (row, from) in floats.chunks_exact(columns).enumerate() {
                // SAFETY: each row is taken once.
                isa.run(CodeRow { from, to: unsafe { writer.row(row) } });
            }
        }
        let mut out = vec![f32::NAN; tokens * matrix.rows()];
        let bias = Some(bias);
        let job = Job { matrix, bias, floats, tokens, places: None, out: SharedSlice::new(&mut out) };
        let mut scratch = Scratch::new(columns);
        // In two ranges, the first of which is no whole number of tiles.
        for rows in [0..5, 5..matrix.rows()] {
            run(isa, &job, is_coded.then_some(&coded), rows, &mut scratch);
        }
        out
    }

    #[test]
    fn every_kernel_agrees_with_the_generic_path() {
        for kernel in KERNELS {
            let format = duan_quant::format_by_name(kernel.format).unwrap();
            let integer = format.activation == duan_quant::Activation::Int8;
            // Whole blocks of the largest kind; floats may have any width.
            let columns = if integer { 768 } else { 77 };
            // Every nibble occurs; bit 6 is 0, so that no half float is infinite or NaN, wherever it stands.
            let mixed = |i: usize| ((i as u32 + 1).wrapping_mul(0x9e37_79b1) >> 24) as u8 & 0xbf;
            let bytes: Vec<u8> = (0..format.row_bytes(columns).unwrap() * 14).map(mixed).collect();
            let matrix = Matrix::new("test", "weights", format, 14, columns, SharedBytes::from(bytes)).unwrap();
            let floats: Vec<f32> = (0..7 * columns).map(|i| ((i * 37 % 101) as f32 - 50.0) / 25.0).collect();
            let bias: Vec<f32> = (0..14).map(|row| row as f32).collect();
            for isa in Isa::available() {
                let (expected, found) = (
                    results(any_format, isa, &matrix, &floats, &bias),
                    results(kernel.run, isa, &matrix, &floats, &bias),
                );
                let largest = expected.iter().fold(0.0f32, |largest, x| largest.max(x.abs()));
                for (expected, found) in expected.iter().zip(&found) {
                    let error = (expected - found).abs() / largest;
                    assert!(error < 1e-5, "{} {}: {found} instead of {expected}", kernel.format, isa.name());
                }
            }
        }
    }
}
