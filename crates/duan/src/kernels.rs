//! What runs for each weight format on the CPU of this machine, and how fast it is.

use duan_cpu::{KernelRates, RatesProgress};
use serde::Serialize;

use crate::bench::{self, Bandwidth};

/// What was measured of the kernels of a CPU.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct KernelReport {
    /// The best instruction set.
    pub isa: String,
    /// Threads of decode, and of the read bandwidth.
    pub threads_decode: usize,
    /// Threads of prefill, and of the peaks.
    pub threads_prefill: usize,
    /// What the memory gives in the same run.
    pub bandwidth: Option<Bandwidth>,
    /// Why that was not measured; then there is no rate of decode.
    pub bandwidth_skipped: Option<String>,
    /// One for each format.
    pub kernels: Vec<KernelRow>,
    /// What failed its self-test, a line each.
    pub warnings: Vec<String>,
}

/// What runs for one format.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct KernelRow {
    /// The format.
    pub format: String,
    /// Whether it is the path for all formats that have no kernel of their own.
    pub is_generic: bool,
    /// The instruction set that it runs on: not the best one where the kernel failed its self-test there.
    pub isa: String,
    /// The instruction that multiplies.
    pub instruction: String,
    /// Whether the kernel computed rightly on the best instruction set.
    pub self_test_passed: bool,
    /// Whether the project ran the instruction set on a real CPU, and not only in an emulator.
    pub was_run_on_silicon: bool,
    /// One token: bytes of weights per second, all threads together.
    pub decode_bytes_per_s: Option<f64>,
    /// That over the read bandwidth.
    pub decode_share: Option<f64>,
    /// Many tokens: multiply-adds per second, all threads together.
    pub prefill_multiply_adds_per_s: f64,
    /// The most that the kernel's own instructions give, in registers; nothing for the generic path.
    pub peak_multiply_adds_per_s: Option<f64>,
    /// Prefill over that.
    pub prefill_share: Option<f64>,
}

/// What is about to be measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KernelProgress {
    /// The step, from 0.
    pub step: usize,
    /// How many steps there are.
    pub steps: usize,
    /// The format; `None` for the memory.
    pub format: Option<&'static str>,
}

impl From<&RatesProgress> for KernelProgress {
    fn from(progress: &RatesProgress) -> Self {
        let RatesProgress { step, steps, format } = *progress;
        Self { step, steps, format }
    }
}

impl From<duan_cpu::KernelReport> for KernelReport {
    fn from(report: duan_cpu::KernelReport) -> Self {
        let (bandwidth, bandwidth_skipped) = match report.bandwidth {
            Ok(read) => (Some(bench::told(read)), None),
            Err(skipped) => (None, Some(skipped.to_string())),
        };
        let bytes_per_s = bandwidth.as_ref().map(|read| read.bytes_per_s);
        Self {
            isa: report.isa.to_owned(),
            threads_decode: report.threads_decode,
            threads_prefill: report.threads_prefill,
            bandwidth,
            bandwidth_skipped,
            kernels: report.kernels.into_iter().map(|kernel| KernelRow::new(kernel, bytes_per_s)).collect(),
            warnings: report.warnings,
        }
    }
}

impl KernelRow {
    fn new(kernel: KernelRates, bytes_per_s: Option<f64>) -> Self {
        let share = |part: Option<f64>, whole: Option<f64>| Some(part? / whole.filter(|&whole| whole > 0.0)?);
        let prefill = kernel.prefill_multiply_adds_per_s;
        Self {
            format: kernel.format.to_owned(),
            is_generic: kernel.is_generic,
            isa: kernel.isa.to_owned(),
            instruction: kernel.instruction.to_owned(),
            self_test_passed: kernel.passed,
            was_run_on_silicon: kernel.was_run_on_silicon,
            decode_bytes_per_s: kernel.decode_bytes_per_s,
            decode_share: share(kernel.decode_bytes_per_s, bytes_per_s),
            prefill_multiply_adds_per_s: prefill,
            peak_multiply_adds_per_s: kernel.peak_multiply_adds_per_s,
            prefill_share: share(Some(prefill), kernel.peak_multiply_adds_per_s),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rates() -> KernelRates {
        KernelRates {
            format: "Q4_0",
            is_generic: false,
            isa: "avx2",
            instruction: "vpmaddubsw",
            passed: true,
            was_run_on_silicon: true,
            decode_bytes_per_s: Some(15e9),
            prefill_multiply_adds_per_s: 30e9,
            peak_multiply_adds_per_s: Some(120e9),
        }
    }

    #[test]
    fn shares_are_of_what_was_measured_in_the_same_run() {
        let row = KernelRow::new(rates(), Some(20e9));
        assert_eq!((row.decode_share, row.prefill_share), (Some(0.75), Some(0.25)));
        let row = KernelRow::new(KernelRates { peak_multiply_adds_per_s: None, ..rates() }, None);
        assert_eq!((row.decode_share, row.prefill_share), (None, None));
    }
}
