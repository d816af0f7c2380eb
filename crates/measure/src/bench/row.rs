//! What is known of a test when it is over, by llama-bench's names and a few more.

use duan_backend::KvFormat;
use duan_model::Model;
use serde::Serialize;

use super::statistics::{deviation, mean, median, range};
use super::{Bandwidth, Outcome, cost};
use crate::machine;

/// What all tests of one run have in common.
#[derive(Debug, Clone)]
pub struct Setup {
    /// What was built.
    pub build: String,
    /// What the processor calls itself.
    pub cpu_info: String,
    /// The devices that ran it.
    pub backends: String,
    /// The instruction set that kernels used, where a device has several.
    pub isa: Option<String>,
    /// The model's file.
    pub model_filename: String,
    /// Family, size and format.
    pub model_type: String,
    /// Bytes of all tensors.
    pub model_bytes: u64,
    /// Weights of all tensors.
    pub parameters: u64,
    /// The most tokens of a pass.
    pub max_rows: usize,
    /// Threads of prefill.
    pub threads_prefill: usize,
    /// Threads of decode.
    pub threads_decode: usize,
    /// How keys and values are kept.
    pub kv_format: KvFormat,
    /// Processors that can be used.
    pub processors: usize,
    /// The load before anything was run, where the system tells.
    pub load_average: Option<f64>,
    /// What the memory gave, or why that was not measured.
    pub bandwidth: Result<Bandwidth, String>,
}

impl Setup {
    /// What to tell of the machine before anything runs, each with its remedy.
    pub fn warnings(&self) -> Vec<String> {
        let threads = self.threads_decode.max(self.threads_prefill);
        let shared = self.load_average.filter(|&load| machine::is_shared(load, self.processors, threads));
        let warning = shared.map(|load| {
            let processors = self.processors;
            format!(
                "others are using this machine, or did a moment ago: the load average is {load:.2}, with {processors} processors \
                 for {threads} threads; end other programs, wait a minute and run this again"
            )
        });
        warning.into_iter().collect()
    }
}

/// A test's results. Names are llama-bench's where it has the same.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// What was built.
    pub build_commit: String,
    /// Always 0: builds are not counted.
    pub build_number: u64,
    /// What the processor calls itself.
    pub cpu_info: String,
    /// Always empty.
    pub gpu_info: String,
    /// The devices that ran it.
    pub backends: String,
    /// The instruction set that kernels used, where a device has several.
    pub isa: Option<String>,
    /// The model's file.
    pub model_filename: String,
    /// Family, size and format.
    pub model_type: String,
    /// Bytes of all tensors.
    pub model_size: u64,
    /// Weights of all tensors.
    pub model_n_params: u64,
    /// The most tokens of a pass.
    pub n_batch: usize,
    /// The same.
    pub n_ubatch: usize,
    /// Threads of this test.
    pub n_threads: usize,
    /// How keys are kept.
    pub type_k: &'static str,
    /// How values are kept.
    pub type_v: &'static str,
    /// Tokens in passes of many.
    pub n_prompt: usize,
    /// Tokens one by one.
    pub n_gen: usize,
    /// Tokens of context before.
    pub n_depth: usize,
    /// When it was over, in UTC.
    pub test_time: String,
    /// Mean time of a repetition.
    pub avg_ns: u64,
    /// Standard deviation of these.
    pub stddev_ns: u64,
    /// Mean rate, in tokens per second.
    pub avg_ts: f64,
    /// Standard deviation of the rates.
    pub stddev_ts: f64,
    /// Time of each repetition.
    pub samples_ns: Vec<u64>,
    /// Rate of each repetition, in tokens per second.
    pub samples_ts: Vec<f64>,
    /// The test's name.
    pub test: String,
    /// The middle rate.
    pub median_ts: f64,
    /// The lowest rate.
    pub min_ts: f64,
    /// The highest rate.
    pub max_ts: f64,
    /// Decode: bytes that a token reads, on average.
    pub bytes_per_token: Option<u64>,
    /// Decode: at the median rate, bytes that are read per second.
    pub read_bytes_per_s: Option<f64>,
    /// What the memory gave in this run.
    pub bandwidth: Option<Bandwidth>,
    /// Why that was not measured.
    pub bandwidth_skipped: Option<String>,
    /// Decode: the rate at which the memory is the limit.
    pub ceiling_ts: Option<f64>,
    /// Decode: the median rate over the ceiling.
    pub share: Option<f64>,
    /// Processors that can be used.
    pub processors: usize,
    /// The load before anything was run.
    pub load_average: Option<f64>,
    /// What speaks against these numbers.
    pub warnings: Vec<String>,
}

impl Row {
    /// Sums up an outcome. `test_time` is when it was over.
    pub fn new(setup: &Setup, model: &Model, outcome: &Outcome, test_time: String) -> Row {
        let Outcome { test, samples_ns } = outcome;
        let times: Vec<f64> = samples_ns.iter().map(|&ns| ns as f64).collect();
        let samples_ts: Vec<f64> = times.iter().map(|ns| test.tokens() as f64 * 1e9 / ns.max(1.0)).collect();
        let (min_ts, max_ts) = range(&samples_ts);
        let median_ts = median(&samples_ts);
        let is_decode = test.prompt == 0;
        let bytes_per_token =
            is_decode.then(|| cost::bytes_per_token(model, setup.kv_format, test.depth, test.generate));
        let bandwidth = setup.bandwidth.as_ref().ok();
        let ceiling_ts =
            bytes_per_token.zip(bandwidth).map(|(bytes, bandwidth)| bandwidth.bytes_per_s / bytes.max(1) as f64);
        let share = ceiling_ts.filter(|ceiling| *ceiling > 0.0).map(|ceiling| median_ts / ceiling);
        let mut warnings = setup.warnings();
        warnings.extend(share.filter(|share| *share > 1.0).map(too_fast));
        let kv_type = match setup.kv_format {
            KvFormat::F16 => "f16",
            KvFormat::F32 => "f32",
        };
        Row {
            build_commit: setup.build.clone(),
            build_number: 0,
            cpu_info: setup.cpu_info.clone(),
            gpu_info: String::new(),
            backends: setup.backends.clone(),
            isa: setup.isa.clone(),
            model_filename: setup.model_filename.clone(),
            model_type: setup.model_type.clone(),
            model_size: setup.model_bytes,
            model_n_params: setup.parameters,
            n_batch: setup.max_rows,
            n_ubatch: setup.max_rows,
            n_threads: if is_decode { setup.threads_decode } else { setup.threads_prefill },
            type_k: kv_type,
            type_v: kv_type,
            n_prompt: test.prompt,
            n_gen: test.generate,
            n_depth: test.depth,
            test_time,
            avg_ns: mean(&times) as u64,
            stddev_ns: deviation(&times) as u64,
            avg_ts: mean(&samples_ts),
            stddev_ts: deviation(&samples_ts),
            samples_ns: samples_ns.clone(),
            samples_ts,
            test: test.name(),
            median_ts,
            min_ts,
            max_ts,
            bytes_per_token,
            read_bytes_per_s: bytes_per_token.map(|bytes| bytes as f64 * median_ts),
            bandwidth: bandwidth.cloned(),
            bandwidth_skipped: setup.bandwidth.as_ref().err().cloned(),
            ceiling_ts,
            share,
            processors: setup.processors,
            load_average: setup.load_average,
            warnings,
        }
    }
}

/// What a share above 1 means.
fn too_fast(share: f64) -> String {
    format!(
        "a share of {:.0} % of the ceiling is a fault of the measurement: the bandwidth was measured too low, because others used \
         the machine, or the weights stay in a cache, because the model is small; run this again, or measure a larger model",
        share * 100.0
    )
}
