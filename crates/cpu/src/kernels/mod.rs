//! The matrix kernels: an inventory of rows, and what they share.
//!
//! [`KERNELS`] is the list of what exists: the tests, the benches and `duan devices` all go through it. A format
//! without a row runs on [`generic`].

pub(crate) mod float;
pub(crate) mod formats;
pub(crate) mod generic;
pub(crate) mod groups;
pub(crate) mod integer;
pub(crate) mod peak;
pub(crate) mod super_blocks;

use std::marker::PhantomData;
use std::ops::Range;

use duan_quant::Format;

use crate::activations::Coded;
use crate::isa::Isa;
use crate::panels::Layout;
use crate::shared::SharedSlice;
use crate::simd::PANEL_ROWS;

/// A matrix as kernels read it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Weights<'a> {
    /// How the weights are coded.
    pub(crate) format: &'static Format,
    /// Output width.
    pub(crate) rows: usize,
    /// Input width.
    pub(crate) columns: usize,
    /// Where the weights are.
    pub(crate) place: Place<'a>,
}

/// Where the bytes of a matrix are.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Place<'a> {
    /// In panels, the last of which is filled up [panels, 16, row bytes].
    Panels(&'a Layout, &'a [u8]),
    /// As in the file [rows, row bytes], to be laid out when it is used.
    File(&'a Layout, &'a [u8]),
    /// As in the file, of a format that has no layout.
    Rows(&'a [u8]),
}

impl<'a> Weights<'a> {
    /// Bytes of a row.
    #[inline(always)]
    pub(crate) fn row_bytes(&self) -> usize {
        self.columns / self.format.block_weights * self.format.block_bytes
    }

    /// How many panels there are.
    pub(crate) fn panels(&self) -> usize {
        self.rows.div_ceil(PANEL_ROWS)
    }

    /// One panel, laid out in `scratch` where the weights are as in the file.
    #[inline(always)]
    pub(crate) fn panel<'b>(&self, index: usize, scratch: &'b mut PanelScratch) -> &'b [u8]
    where
        'a: 'b,
    {
        let bytes = PANEL_ROWS * self.row_bytes();
        match self.place {
            Place::Panels(_, all) => &all[index * bytes..][..bytes],
            Place::File(layout, all) => {
                let rows = &all[index * bytes..all.len().min((index + 1) * bytes)];
                let panel = &mut scratch.0[..bytes];
                layout.pack(self.format, rows, self.row_bytes(), panel);
                panel
            }
            Place::Rows(_) => unreachable!("a kernel for a format without a layout"),
        }
    }

    /// Whether panels need not be laid out when they are used.
    #[inline(always)]
    pub(crate) fn are_laid_out(&self) -> bool {
        matches!(self.place, Place::Panels(..))
    }

    /// Those of some panels that there are, where they are laid out; else nothing.
    #[inline(always)]
    pub(crate) fn laid_out(&self, panels: Range<usize>) -> &'a [u8] {
        let Place::Panels(_, all) = self.place else { return &[] };
        let bytes = PANEL_ROWS * self.row_bytes();
        &all[(panels.start * bytes).min(all.len())..(panels.end * bytes).min(all.len())]
    }

    /// One row as it lies in the file, put together in `scratch` where it does not.
    pub(crate) fn row<'b>(&self, row: usize, scratch: &'b mut [u8]) -> &'b [u8]
    where
        'a: 'b,
    {
        let bytes = self.row_bytes();
        match self.place {
            Place::File(_, all) | Place::Rows(all) => &all[row * bytes..][..bytes],
            Place::Panels(layout, all) => {
                let panel = &all[row / PANEL_ROWS * PANEL_ROWS * bytes..][..PANEL_ROWS * bytes];
                layout.unpack_row(self.format, panel, row % PANEL_ROWS, &mut scratch[..bytes]);
                &scratch[..bytes]
            }
        }
    }
}

/// One matrix applied to all tokens of a pass.
pub(crate) struct Job<'a> {
    /// The weights [rows, columns].
    pub(crate) weights: Weights<'a>,
    /// Added to each token's result [rows].
    pub(crate) bias: Option<&'a [f32]>,
    /// The activations [tokens, columns].
    pub(crate) floats: &'a [f32],
    /// How many tokens.
    pub(crate) tokens: usize,
    /// Where the tokens' activations are.
    pub(crate) inputs: TokenRows<'a>,
    /// Where the tokens' results go.
    pub(crate) outputs: TokenRows<'a>,
    /// The results [token rows, `out_rows.len()`]; each panel of the matrix is computed by one worker.
    pub(crate) out: SharedSlice<'a, f32>,
    /// The rows of the matrix that `out` has columns for: all, unless a worker passes the results of some panels on at once.
    pub(crate) out_rows: Range<usize>,
}

/// Which row of a buffer belongs to a token of a job.
#[derive(Debug, Clone, Copy)]
pub(crate) enum TokenRows<'a> {
    /// So many rows after the token's number.
    From(usize),
    /// Those of a list [tokens], for experts that see only some of the tokens; no two are equal where results go.
    Listed(&'a [u32]),
}

impl<'a> TokenRows<'a> {
    /// The row of a token.
    #[inline(always)]
    pub(crate) fn of(self, token: usize) -> usize {
        match self {
            Self::From(first) => first + token,
            Self::Listed(rows) => rows[token] as usize,
        }
    }

    /// The rows of some of the tokens.
    pub(crate) fn part(self, tokens: Range<usize>) -> TokenRows<'a> {
        match self {
            Self::From(first) => Self::From(first + tokens.start),
            Self::Listed(rows) => Self::Listed(&rows[tokens]),
        }
    }
}

impl<'a> Job<'a> {
    /// A matrix for tokens side by side, `out` [tokens, rows].
    pub(crate) fn whole(
        weights: Weights<'a>,
        bias: Option<&'a [f32]>,
        floats: &'a [f32],
        tokens: usize,
        out: SharedSlice<'a, f32>,
    ) -> Self {
        let (inputs, outputs) = (TokenRows::From(0), TokenRows::From(0));
        Self { weights, bias, floats, tokens, inputs, outputs, out, out_rows: 0..weights.rows }
    }

    /// The row of the activations that belongs to a token.
    #[inline(always)]
    pub(crate) fn input(&self, token: usize) -> usize {
        self.inputs.of(token)
    }

    /// The activations of a token [columns].
    #[inline(always)]
    pub(crate) fn floats(&self, token: usize) -> &[f32] {
        let columns = self.weights.columns;
        &self.floats[self.input(token) * columns..][..columns]
    }

    /// Stores the results of some rows of a panel for one token, with their bias; what lies beyond the matrix is dropped.
    #[inline(always)]
    pub(crate) fn store(&self, panel: usize, rows: Range<usize>, token: usize, sums: &[f32; PANEL_ROWS]) {
        let (first, count) = (panel * PANEL_ROWS, self.weights.rows);
        let rows = rows.start..rows.end.min(count.saturating_sub(first));
        if rows.is_empty() {
            return;
        }
        let start = self.outputs.of(token) * self.out_rows.len() + first - self.out_rows.start;
        // SAFETY: panels are handed out to workers in ranges that do not overlap, and a result belongs to one row of one
        // matrix. Those that experts have are the choices that `Assignment::sort` permutes, each once. What is passed on
        // is in memory that only this worker has.
        let out = unsafe { self.out.part(start + rows.start..start + rows.end) };
        let sums = &sums[rows.clone()];
        match self.bias {
            None => out.copy_from_slice(sums),
            Some(bias) => {
                let bias = &bias[first + rows.start..first + rows.end];
                out.iter_mut().zip(sums.iter().zip(bias)).for_each(|(out, (sum, bias))| *out = sum + bias);
            }
        }
    }
}

/// Room for one panel.
#[derive(Debug, Default)]
pub(crate) struct PanelScratch(Vec<u8>);

/// What one worker needs while it computes panels, sized for the widest matrix.
#[derive(Debug)]
pub(crate) struct Scratch {
    /// One panel that is laid out when it is used; nothing where all are laid out already.
    pub(crate) panel: PanelScratch,
    /// One panel that many tokens share.
    pub(crate) unpacked: integer::Unpacked,
    /// One row as it lies in the file.
    pub(crate) row_bytes: Vec<u8>,
    /// One dequantized row [columns], for formats without a kernel.
    pub(crate) row: Vec<f32>,
}

impl Scratch {
    /// Scratch for these matrices.
    pub(crate) fn new<'a>(matrices: impl Iterator<Item = Weights<'a>> + Clone) -> Self {
        let largest = |of: &dyn Fn(Weights<'a>) -> usize| matrices.clone().map(of).max().unwrap_or(0);
        let panel = |matrix: Weights<'a>| match matrix.place {
            Place::File(..) => PANEL_ROWS * matrix.row_bytes(),
            Place::Panels(..) | Place::Rows(_) => 0,
        };
        Self {
            panel: PanelScratch(vec![0; largest(&panel)]),
            unpacked: integer::Unpacked::new(),
            row_bytes: vec![0; largest(&|matrix| matrix.row_bytes())],
            row: vec![0.0; largest(&|matrix| matrix.columns)],
        }
    }

    /// Makes room for panels of so many bytes, of matrices that are laid out when they are used.
    pub(crate) fn make_room(&mut self, panel_bytes: usize) {
        if self.panel.0.len() < panel_bytes {
            self.panel.0.resize(panel_bytes, 0);
        }
    }

    /// Bytes held.
    pub(crate) fn bytes(&self) -> usize {
        self.panel.0.len() + self.unpacked.bytes() + self.row_bytes.len() + self.row.len() * size_of::<f32>()
    }
}

/// Computes a range of a job's panels.
pub(crate) type Run = fn(Isa, &Job<'_>, Option<&Coded>, Range<usize>, &mut Scratch);

/// A row of the inventory: a format that has its own kernel, in every instruction set of [`Isa`].
pub(crate) struct Kernel {
    /// The name of the format.
    pub(crate) format: &'static str,
    /// The kernel.
    pub(crate) run: Run,
    /// What its multiplications are given.
    pub(crate) operands: Operands,
    /// How fast its own instructions could be.
    pub(crate) peak: peak::Run,
}

/// What a kernel multiplies activations with: beside the instruction set, this decides which sequence of instructions it needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operands {
    /// Floats.
    Floats,
    /// Codes of so many bits, whose products are summed over whole groups or over halves.
    Codes { bits: u32, halves: bool },
}

fn integer<C: formats::Codes>(
    isa: Isa,
    job: &Job<'_>,
    coded: Option<&Coded>,
    panels: Range<usize>,
    scratch: &mut Scratch,
) {
    let coded = coded.expect("the activations of a quantized matrix are coded before its kernel runs");
    isa.run(integer::Panels::<C> { job, coded, panels, scratch, format: PhantomData });
}

fn float<W: float::Floats>(isa: Isa, job: &Job<'_>, _: Option<&Coded>, panels: Range<usize>, scratch: &mut Scratch) {
    isa.run(float::Panels::<W> { job, panels, scratch: &mut scratch.panel, format: PhantomData });
}

/// The generic path.
pub(crate) fn any_format(isa: Isa, job: &Job<'_>, coded: Option<&Coded>, panels: Range<usize>, scratch: &mut Scratch) {
    isa.run(generic::Panels { job, coded, panels, scratch });
}

const fn integer_kernel<C: formats::Codes>() -> Kernel {
    let operands = Operands::Codes { bits: C::KIND.bits, halves: C::HALVES };
    Kernel { format: C::FORMAT, run: integer::<C>, operands, peak: peak::of_codes::<C> }
}

/// The kernel of several formats, for one of them.
const fn kernel_for<C: formats::Codes>(format: &'static str) -> Kernel {
    Kernel { format, ..integer_kernel::<C>() }
}

const fn float_kernel<W: float::Floats>() -> Kernel {
    Kernel { format: W::FORMAT, run: float::<W>, operands: Operands::Floats, peak: peak::of_floats }
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
    integer_kernel::<super_blocks::Q2K>(),
    integer_kernel::<super_blocks::Q3K>(),
    integer_kernel::<super_blocks::Q4K>(),
    integer_kernel::<super_blocks::Q5K>(),
    integer_kernel::<super_blocks::Q6K>(),
    integer_kernel::<formats::Iq4Nl>(),
    integer_kernel::<super_blocks::Iq4Xs>(),
    integer_kernel::<formats::Mxfp4>(),
    kernel_for::<groups::Symmetric<4>>("int4-g32"),
    kernel_for::<groups::Symmetric<4>>("int4-g64"),
    kernel_for::<groups::Symmetric<4>>("int4-g128"),
    kernel_for::<groups::Symmetric<4>>("int4-g256"),
    kernel_for::<groups::WithOrigin<4>>("int4-g32-zp"),
    kernel_for::<groups::WithOrigin<4>>("int4-g64-zp"),
    kernel_for::<groups::WithOrigin<4>>("int4-g128-zp"),
    kernel_for::<groups::WithOrigin<4>>("int4-g256-zp"),
    kernel_for::<groups::WithOrigin<4>>("int4-g32-bias"),
    kernel_for::<groups::WithOrigin<4>>("int4-g64-bias"),
    kernel_for::<groups::WithOrigin<4>>("int4-g128-bias"),
    kernel_for::<groups::Symmetric<8>>("int8-g32"),
    kernel_for::<groups::Symmetric<8>>("int8-g64"),
    kernel_for::<groups::Symmetric<8>>("int8-g128"),
    kernel_for::<groups::Symmetric<8>>("int8-g256"),
    kernel_for::<groups::WithOrigin<8>>("int8-g32-zp"),
    kernel_for::<groups::WithOrigin<8>>("int8-g64-zp"),
    kernel_for::<groups::WithOrigin<8>>("int8-g128-zp"),
    kernel_for::<groups::WithOrigin<8>>("int8-g256-zp"),
    kernel_for::<groups::WithOrigin<8>>("int8-g32-bias"),
    kernel_for::<groups::WithOrigin<8>>("int8-g64-bias"),
    kernel_for::<groups::WithOrigin<8>>("int8-g128-bias"),
];

/// The kernel of a format, where it has one.
pub(crate) fn of(format: &Format) -> Option<&'static Kernel> {
    KERNELS.iter().find(|kernel| kernel.format == format.name)
}

/// What runs for a format: its kernel, or the generic path where it has none.
pub(crate) fn pick(format: &Format) -> Run {
    of(format).map_or(any_format, |kernel| kernel.run)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::activations::CodeRow;

    /// All results [tokens, rows] of one kernel.
    fn results(run: Run, isa: Isa, weights: Weights<'_>, floats: &[f32], bias: &[f32]) -> Vec<f32> {
        let (columns, tokens) = (weights.columns, floats.len() / weights.columns);
        let mut coded = Coded::new(&[(tokens, columns.next_multiple_of(32))]);
        let is_coded = columns.is_multiple_of(32);
        if is_coded {
            let (groups, writer) = (columns / 32, coded.fill(tokens, columns));
            for (row, from) in floats.chunks_exact(columns).enumerate() {
                // SAFETY: each row is taken once.
                isa.run(CodeRow { from, to: unsafe { writer.part(row * groups..(row + 1) * groups) } });
            }
        }
        let mut out = vec![f32::NAN; tokens * weights.rows];
        let bias = Some(bias);
        let job = Job::whole(weights, bias, floats, tokens, SharedSlice::new(&mut out));
        let mut scratch = Scratch::new(std::iter::once(weights));
        for panels in [0..1, 1..weights.panels()] {
            run(isa, &job, is_coded.then_some(&coded), panels, &mut scratch);
        }
        out
    }

    /// The weights [rows, columns] of a format from arbitrary bytes, as in the file.
    fn bytes_of(format: &Format, rows: usize, columns: usize) -> Vec<u8> {
        // Every nibble occurs; bit 6 is 0, so that no half float is infinite or NaN, wherever it stands.
        let mixed = |i: usize| ((i as u32 + 1).wrapping_mul(0x9e37_79b1) >> 24) as u8 & 0xbf;
        (0..format.row_bytes(columns).unwrap() * rows).map(mixed).collect()
    }

    fn in_panels(layout: &Layout, format: &Format, rows: &[u8], row_bytes: usize) -> Vec<u8> {
        let panel_bytes = PANEL_ROWS * row_bytes;
        let mut panels = vec![0; rows.len().next_multiple_of(panel_bytes)];
        for (rows, panel) in rows.chunks(panel_bytes).zip(panels.chunks_exact_mut(panel_bytes)) {
            layout.pack(format, rows, row_bytes, panel);
        }
        panels
    }

    /// With panels that are laid out before and while they are used, and every size of a tile.
    #[test]
    fn every_kernel_agrees_with_the_generic_path() {
        const ROWS: usize = 37;
        for kernel in KERNELS {
            let format = duan_quant::format_by_name(kernel.format).unwrap();
            let integer = format.activation == duan_quant::Activation::Int8;
            // Whole blocks of the largest kind; floats may have any width.
            let columns = if integer { 768 } else { 277 };
            let bytes = bytes_of(format, ROWS, columns);
            let layout = Layout::of(format).unwrap();
            let packed = in_panels(layout, format, &bytes, format.row_bytes(columns).unwrap());
            let weights = |place| Weights { format, rows: ROWS, columns, place };
            let bias: Vec<f32> = (0..ROWS).map(|row| row as f32).collect();
            let floats: Vec<f32> = (0..31 * columns).map(|i| ((i * 37 % 101) as f32 - 50.0) / 25.0).collect();
            for isa in Isa::available() {
                for tokens in [1, 2, 3, 4, 5, 31] {
                    let floats = &floats[..tokens * columns];
                    let run = |run: Run, place| results(run, isa, weights(place), floats, &bias);
                    let expected = run(any_format, Place::Rows(&bytes));
                    let found = run(kernel.run, Place::Panels(layout, &packed));
                    let largest = expected.iter().fold(0.0f32, |largest, x| largest.max(x.abs()));
                    for (expected, found) in expected.iter().zip(&found) {
                        let error = (expected - found).abs() / largest;
                        let name = isa.name();
                        assert!(error < 1e-5, "{} {name} {tokens}: {found} instead of {expected}", kernel.format);
                    }
                    assert_eq!(found, run(kernel.run, Place::File(layout, &bytes)), "{}", kernel.format);
                }
            }
        }
    }

    /// A row's result depends neither on the tile nor, where products are added in one rounding, on the instruction set.
    #[test]
    fn results_are_the_same_bits_in_every_tile_and_on_every_fused_instruction_set() {
        for kernel in KERNELS {
            let format = duan_quant::format_by_name(kernel.format).unwrap();
            let bytes = bytes_of(format, 16, 512);
            let weights =
                Weights { format, rows: 16, columns: 512, place: Place::File(Layout::of(format).unwrap(), &bytes) };
            let floats: Vec<f32> = (0..13 * 512).map(|i| ((i * 37 % 101) as f32 - 50.0) / 25.0).collect();
            let fused: Vec<Isa> = Isa::available().into_iter().filter(|isa| isa.name() != "scalar").collect();
            let all: Vec<Vec<f32>> =
                fused.iter().map(|&isa| results(kernel.run, isa, weights, &floats, &[0.0; 16])).collect();
            for (isa, found) in fused.iter().zip(&all) {
                assert_eq!(found, &all[0], "{} {}", kernel.format, isa.name());
                for (token, found) in found.chunks_exact(16).enumerate() {
                    let floats = &floats[token * 512..][..512];
                    let alone = results(kernel.run, *isa, weights, floats, &[0.0; 16]);
                    assert_eq!(alone, found, "{} {} token {token}", kernel.format, isa.name());
                }
            }
        }
    }
}
