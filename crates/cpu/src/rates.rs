//! How fast each kernel is on this machine, on made-up weights: decode beside the memory, prefill beside the multiplier.
//!
//! Decode multiplies one token with a matrix that no cache holds, prefill many tokens with a matrix of ordinary size, both
//! with the threads, the panels and the large pages that a model gets. The best of some rounds counts, since whatever else
//! happens on the machine only slows a round down; so do the ceilings beside them.

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use duan_quant::{Activation, Format};

use crate::activations::{CodeRow, Coded};
use crate::bandwidth::ReadBandwidth;
use crate::compiled::{Grain, Threads};
use crate::error::{Result, error};
use crate::isa::Isa;
use crate::kernels::peak::IsOneForAll;
use crate::kernels::{self, Job, Kernel, Place, Scratch, Weights};
use crate::large_pages::LargePages;
use crate::made_up;
use crate::panels::Layout;
use crate::peaks;
use crate::placement::Placement;
use crate::pool::Pool;
use crate::self_test::{Picked, Picker};
use crate::shared::SharedSlice;
use crate::simd::PANEL_ROWS;
use crate::together::Skipped;

/// Width of the matrices, a whole number of blocks of every format.
const COLUMNS: usize = 4096;
/// Panels of the matrix of prefill.
const PREFILL_PANELS: usize = 4096 / PANEL_ROWS;
/// Tokens of prefill.
const PREFILL_TOKENS: usize = 256;
/// Bytes of weights that a worker copies at a time, at least a panel.
const PIECE_BYTES: usize = 1 << 20;

/// How much is done for a figure.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Effort {
    /// Bytes of the weights in decode, at most.
    pub(crate) bytes: usize,
    /// Time for the rounds of one figure; at least two are run.
    pub(crate) figure: Duration,
    /// Time that a round may take before it is made smaller.
    pub(crate) round: Duration,
}

impl Effort {
    /// About a quarter of a second for a figure, over so many bytes.
    pub(crate) fn ordinary(bytes: usize) -> Self {
        Self { bytes, figure: Duration::from_millis(250), round: Duration::from_millis(60) }
    }
}

/// What was measured of all kernels.
#[derive(Debug, Clone, PartialEq)]
pub struct KernelReport {
    /// The best instruction set.
    pub isa: &'static str,
    /// Threads of decode, and of the read bandwidth.
    pub threads_decode: usize,
    /// Threads of prefill, and of the peaks.
    pub threads_prefill: usize,
    /// What the memory gives, or why that was not measured; there is no rate of decode then.
    pub bandwidth: std::result::Result<ReadBandwidth, Skipped>,
    /// One for each format.
    pub kernels: Vec<KernelRates>,
    /// What failed its self-test, a line each.
    pub warnings: Vec<String>,
}

/// What runs for a format, and how fast it is.
#[derive(Debug, Clone, PartialEq)]
pub struct KernelRates {
    /// The format.
    pub format: &'static str,
    /// Whether it is the path for all formats that have no kernel of their own.
    pub is_generic: bool,
    /// The instruction set that it runs on: not the best one where the kernel failed its self-test there.
    pub isa: &'static str,
    /// The instruction that multiplies.
    pub instruction: &'static str,
    /// Whether the kernel passed its self-test on the best instruction set.
    pub passed: bool,
    /// Whether the project ran the instruction set on a real CPU, and not only in an emulator.
    pub was_run_on_silicon: bool,
    /// One token: bytes of weights per second, all threads together.
    pub decode_bytes_per_s: Option<f64>,
    /// Many tokens: multiply-adds per second, all threads together.
    pub prefill_multiply_adds_per_s: f64,
    /// Multiply-adds per second of its own instructions in registers, all threads together; `None` for the generic path.
    pub peak_multiply_adds_per_s: Option<f64>,
}

/// What is about to be measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RatesProgress {
    /// The step, from 0.
    pub step: usize,
    /// How many steps there are.
    pub steps: usize,
    /// The format; `None` for the memory.
    pub format: Option<&'static str>,
}

/// Measures what `picker` picks for each of `formats`. Gives nothing where it was ended.
///
/// # Errors
/// When the system gives no memory or threads, or nothing that multiplies a format is right.
pub(crate) fn kernel_rates(
    formats: &[&'static Format],
    mut picker: Picker<'_>,
    mut bench: Bench,
    bandwidth: std::result::Result<ReadBandwidth, Skipped>,
    on_format: &mut dyn FnMut(usize, &'static str) -> ControlFlow<()>,
) -> Result<Option<KernelReport>> {
    let best = picker.isa();
    let threads = bench.threads;
    let mut kernels = Vec::with_capacity(formats.len());
    let mut has_own_peak = Vec::with_capacity(formats.len());
    for (index, &format) in formats.iter().enumerate() {
        if on_format(index, format.name).is_break() {
            return Ok(None);
        }
        let picked = picker.pick(format)?;
        let isa = picked.isa();
        let kernel = kernels::of(format).filter(|kernel| picked.is(kernel.run));
        // Not while the caller's own function runs.
        let entered = bench.pool.enter();
        let figures = bench.measure(format, picked, kernel);
        drop(entered);
        let is_coded = kernel.is_some() && format.activation == Activation::Int8;
        has_own_peak.push(is_coded && !isa.run(IsOneForAll));
        kernels.push(KernelRates {
            format: format.name,
            is_generic: kernel.is_none(),
            isa: isa.name(),
            instruction: isa.multiplier(is_coded),
            passed: isa.name() == best.name() && kernel.is_some() == kernels::of(format).is_some(),
            was_run_on_silicon: isa.was_run_on_silicon(),
            decode_bytes_per_s: bandwidth.is_ok().then_some(figures.decode_bytes_per_s),
            prefill_multiply_adds_per_s: figures.prefill_multiply_adds_per_s,
            peak_multiply_adds_per_s: figures.peak_multiply_adds_per_s,
        });
    }
    share_peaks(&mut kernels, &has_own_peak);
    Ok(Some(KernelReport {
        isa: best.name(),
        threads_decode: threads.decode,
        threads_prefill: threads.prefill,
        bandwidth,
        kernels,
        warnings: picker.into_warnings(),
    }))
}

/// The best that was seen of a peak counts for all formats that have the same: floats, and quantized ones where one instruction
/// multiplies and adds.
fn share_peaks(kernels: &mut [KernelRates], has_own_peak: &[bool]) {
    for (index, &has_own_peak) in has_own_peak.iter().enumerate() {
        let KernelRates { isa, instruction, peak_multiply_adds_per_s: Some(_), .. } = kernels[index] else { continue };
        let same = |other: &&KernelRates| !has_own_peak && (other.isa, other.instruction) == (isa, instruction);
        let peaks = kernels.iter().filter(same).filter_map(|other| other.peak_multiply_adds_per_s);
        if let Some(best) = peaks.max_by(f64::total_cmp) {
            kernels[index].peak_multiply_adds_per_s = Some(best);
        }
    }
}

struct Figures {
    decode_bytes_per_s: f64,
    prefill_multiply_adds_per_s: f64,
    peak_multiply_adds_per_s: Option<f64>,
}

/// Threads, and memory that all formats use one after the other.
pub(crate) struct Bench {
    pool: Pool,
    threads: Threads,
    effort: Effort,
    memory: LargePages,
    out: Vec<f32>,
    floats: Vec<f32>,
    coded: Coded,
}

/// A format's matrix in the bench's memory, as many of its panels as were needed so far.
struct Matrix<'a> {
    format: &'static Format,
    layout: Option<&'static Layout>,
    /// One panel of it, or sixteen rows as in the file.
    tile: &'a [u8],
    filled: usize,
}

impl Bench {
    /// Threads where a model's are, and memory for the largest matrix.
    ///
    /// # Errors
    /// When the system gives no memory or threads.
    pub(crate) fn new(threads: Threads, placement: Placement, effort: Effort) -> Result<Self> {
        let workers = placement.workers();
        let pool = Pool::new(placement).map_err(|cause| error(format!("cannot start {workers} threads: {cause}")))?;
        let memory = LargePages::new(effort.bytes)
            .map_err(|cause| error(format!("no memory for {} bytes of weights: {cause}", effort.bytes)))?;
        let floats = made_up::activations(PREFILL_TOKENS, COLUMNS);
        Ok(Self {
            pool,
            threads,
            effort,
            memory,
            out: Vec::new(),
            floats,
            coded: Coded::new(&[(PREFILL_TOKENS, COLUMNS)]),
        })
    }

    fn measure(&mut self, format: &'static Format, picked: Picked, kernel: Option<&Kernel>) -> Figures {
        let rows = made_up::even_rows(format, PANEL_ROWS, COLUMNS);
        let layout = Layout::of(format);
        let tile = match layout {
            None => rows,
            Some(layout) => {
                let mut panel = vec![0; rows.len()];
                layout.pack(format, &rows, rows.len() / PANEL_ROWS, &mut panel);
                panel
            }
        };
        self.code(picked.isa());
        let mut matrix = Matrix { format, layout, tile: &tile, filled: 0 };
        let most = (self.memory.len() / tile.len()).max(1);
        let (panels, seconds) = self.best(most, |bench, panels| bench.multiply(&mut matrix, picked, panels, 1));
        let decode_bytes_per_s = (panels * tile.len()) as f64 / seconds;
        let most = most.min(PREFILL_PANELS);
        let (panels, seconds) =
            self.best(most, |bench, panels| bench.multiply(&mut matrix, picked, panels, PREFILL_TOKENS));
        let multiply_adds = panels * PANEL_ROWS * COLUMNS * PREFILL_TOKENS;
        Figures {
            decode_bytes_per_s,
            prefill_multiply_adds_per_s: multiply_adds as f64 / seconds,
            peak_multiply_adds_per_s: kernel.map(|kernel| self.peak(kernel, picked.isa())),
        }
    }

    /// The activations as kernels read them.
    fn code(&mut self, isa: Isa) {
        let groups = COLUMNS / duan_quant::activation::GROUP;
        let writer = self.coded.fill(PREFILL_TOKENS, COLUMNS);
        for (row, from) in self.floats.chunks_exact(COLUMNS).enumerate() {
            // SAFETY: each row is taken once.
            isa.run(CodeRow { from, to: unsafe { writer.part(row * groups..(row + 1) * groups) } });
        }
    }

    fn best(&mut self, most: usize, round: impl FnMut(&mut Self, usize) -> Duration) -> (usize, f64) {
        let (workers, effort) = (self.pool.workers(), self.effort);
        best(self, workers, effort, most, round)
    }

    /// Multiplies the first `panels` of a matrix with `tokens`, and says how long that took.
    fn multiply(&mut self, matrix: &mut Matrix<'_>, picked: Picked, panels: usize, tokens: usize) -> Duration {
        self.fill(matrix, panels);
        let workers = if tokens == 1 { self.threads.decode } else { self.threads.prefill };
        let bytes = &self.memory[..panels * matrix.tile.len()];
        let place = match matrix.layout {
            Some(layout) => Place::Panels(layout, bytes),
            None => Place::Rows(bytes),
        };
        let rows = panels * PANEL_ROWS;
        let weights = Weights { format: matrix.format, rows, columns: COLUMNS, place };
        let mut scratches: Vec<Scratch> = (0..workers).map(|_| Scratch::new(std::iter::once(weights))).collect();
        self.out.resize(self.out.len().max(rows * tokens), 0.0);
        let out = SharedSlice::new(&mut self.out[..rows * tokens]);
        let job = Job::whole(weights, None, &self.floats[..tokens * COLUMNS], tokens, out);
        let scratches = SharedSlice::new(&mut scratches);
        let grain = Grain::of(&weights, tokens);
        let coded = &self.coded;
        let start = Instant::now();
        self.pool.run_ranges(grain.units(&weights), grain.least, workers, &|units, worker| {
            // SAFETY: each worker has a number of its own, and uses the scratch of that number only.
            let scratch = &mut unsafe { scratches.part(worker..worker + 1) }[0];
            if let Some(panels) = grain.panels(&weights, 0, &units) {
                picked.run(&job, Some(coded), panels, scratch);
            }
        });
        start.elapsed()
    }

    /// Copies the tile until there are so many panels.
    fn fill(&mut self, matrix: &mut Matrix<'_>, panels: usize) {
        let Matrix { tile, filled, .. } = *matrix;
        if panels <= filled {
            return;
        }
        let length = tile.len();
        let memory = SharedSlice::new(&mut self.memory[..panels * length]);
        let per_piece = (PIECE_BYTES / length).max(1);
        let workers = self.pool.workers();
        self.pool.run((panels - filled).div_ceil(per_piece), workers, &|piece, _| {
            let first = filled + piece * per_piece;
            for panel in first..panels.min(first + per_piece) {
                // SAFETY: each panel is in one piece.
                unsafe { memory.part(panel * length..(panel + 1) * length) }.copy_from_slice(tile);
            }
        });
        matrix.filled = panels;
    }

    /// Multiply-adds per second of a kernel's own instructions.
    fn peak(&mut self, kernel: &Kernel, isa: Isa) -> f64 {
        peaks::peak(&mut self.pool, self.threads.prefill, kernel.peak, isa, self.effort)
    }
}

/// The best time of a round of some size up to `most`: as large as its time allows, and as often as the figure's time does.
pub(crate) fn best<B>(
    bench: &mut B,
    workers: usize,
    effort: Effort,
    most: usize,
    mut round: impl FnMut(&mut B, usize) -> Duration,
) -> (usize, f64) {
    let mut size = most.min(2 * workers);
    // These also warm up whatever is cold.
    while size < most {
        let taken = round(bench, size);
        if taken * 4 > effort.round {
            break;
        }
        size = most.min(size * 4);
    }
    let start = Instant::now();
    // The first round at this size brings memory in, and does not count.
    round(bench, size);
    let mut best = Duration::MAX;
    while best == Duration::MAX || start.elapsed() < effort.figure {
        best = best.min(round(bench, size));
    }
    (size, best.as_secs_f64().max(1e-9))
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUICK: Effort = Effort { bytes: 1 << 20, figure: Duration::ZERO, round: Duration::ZERO };
    const THREADS: Threads = Threads { prefill: 2, decode: 2 };

    fn quick() -> Bench {
        Bench::new(THREADS, Placement::free(2), QUICK).unwrap()
    }

    fn format(name: &str) -> &'static Format {
        duan_quant::format_by_name(name).unwrap()
    }

    fn report(isas: &[Isa], distrust: &[String], formats: &[&'static Format]) -> KernelReport {
        let picker = Picker::new(isas, distrust).unwrap();
        let skipped = Err(Skipped("not in tests".into()));
        let go_on = &mut |_, _| ControlFlow::Continue(());
        kernel_rates(formats, picker, quick(), skipped, go_on).unwrap().unwrap()
    }

    #[test]
    fn every_format_has_a_row_that_says_what_runs() {
        let isas = Isa::available();
        let report = report(&isas, &[], duan_quant::FORMATS);
        let best = isas.last().unwrap();
        assert_eq!((report.isa, report.kernels.len()), (best.name(), duan_quant::FORMATS.len()));
        assert_eq!(report.warnings, [""; 0]);
        for (row, format) in report.kernels.iter().zip(duan_quant::FORMATS) {
            assert_eq!((row.format, row.isa, row.passed), (format.name, best.name(), true));
            assert_eq!(row.is_generic, kernels::of(format).is_none(), "{}", row.format);
            assert_eq!(row.peak_multiply_adds_per_s.is_some(), !row.is_generic, "{}", row.format);
            assert_eq!(row.decode_bytes_per_s, None, "without a ceiling there is no figure to go with it");
            assert!(row.prefill_multiply_adds_per_s.is_finite() && row.prefill_multiply_adds_per_s > 0.0);
            let is_coded = !row.is_generic && format.activation == Activation::Int8;
            assert_eq!(row.instruction, best.multiplier(is_coded), "{}", row.format);
        }
    }

    #[test]
    fn a_kernel_that_failed_its_self_test_shows() {
        let isas = Isa::available();
        let report = report(&isas, &["Q4_0".into()], &[format("Q4_0"), format("Q8_0")]);
        assert_eq!(report.kernels[0].isa, "scalar");
        assert_eq!(report.kernels[0].passed, isas.len() == 1);
        assert_eq!(report.warnings.len(), isas.len() - 1);
        assert!(report.kernels[1].passed);
    }

    #[test]
    fn the_best_peak_counts_for_all_that_have_the_same() {
        let row = |instruction, peak| KernelRates {
            format: "F32",
            is_generic: false,
            isa: "any",
            instruction,
            passed: true,
            was_run_on_silicon: true,
            decode_bytes_per_s: None,
            prefill_multiply_adds_per_s: 1.0,
            peak_multiply_adds_per_s: peak,
        };
        let mut rows =
            [row("a", Some(5.0)), row("b", Some(9.0)), row("a", Some(7.0)), row("a", None), row("a", Some(6.0))];
        share_peaks(&mut rows, &[false, false, false, false, true]);
        let peaks = rows.map(|row| row.peak_multiply_adds_per_s);
        assert_eq!(peaks, [Some(7.0), Some(9.0), Some(7.0), None, Some(6.0)]);
    }

    #[test]
    fn it_can_be_ended() {
        let picker = Picker::new(&Isa::available(), &[]).unwrap();
        let mut seen = Vec::new();
        let ended = kernel_rates(
            &[format("F32"), format("F16")],
            picker,
            quick(),
            Err(Skipped(String::new())),
            &mut |index, name| {
                seen.push((index, name));
                if index == 1 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            },
        );
        assert_eq!(ended.unwrap(), None);
        assert_eq!(seen, [(0, "F32"), (1, "F16")]);
    }

    #[test]
    fn memory_holds_the_tile_again_and_again() {
        let mut bench = quick();
        let tile: Vec<u8> = (0..1000u32).map(|byte| byte as u8).collect();
        let mut matrix = Matrix { format: format("F32"), layout: None, tile: &tile, filled: 0 };
        for panels in [3, 2, 1000] {
            bench.fill(&mut matrix, panels);
            assert!(bench.memory[..panels * 1000].chunks(1000).all(|panel| panel == tile));
        }
        assert_eq!(matrix.filled, 1000);
        assert!(bench.memory[1_000_000..].iter().all(|&byte| byte == 0));
    }
}
