//! What is known of a test when it is over, by llama-bench's names and a few more.

use std::time::Duration;

use duan_backend::KvFormat;
use duan_model::Model;
use duan_system::{Movement, Reading, State};
use serde::{Deserialize, Serialize};

use super::conditions::{self, Conditions, Doubt, Share, Window};
use super::load::{LoadFigures, StartFigures};
use super::memory::MemoryFigures;
use super::statistics::{Interval, deviation, mean, median, median_interval, outliers, quantile, range};
use super::{Bandwidth, EarlierRuns, Outcome, cost, multiply_adds};
use crate::ceilings::{CeilingsAt, Verdict};
use crate::machine;
use crate::others::OtherFigures;

/// What all tests of one run have in common.
#[derive(Debug, Clone)]
pub struct Setup {
    /// What was built.
    pub build: String,
    /// How it was built: `release` or `debug`.
    pub build_profile: &'static str,
    /// The machine before anything was run.
    pub state: State,
    /// What the processor calls itself.
    pub cpu_info: String,
    /// The devices that ran it.
    pub backends: String,
    /// The instruction set that kernels used, where a device has several.
    pub isa: Option<String>,
    /// The model's file.
    pub model_filename: String,
    /// What its bytes are known by.
    pub model_sha256: Reading<String>,
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
    /// What threads are held to.
    pub pinning: String,
    /// Ops that run on another device than the preferred one, in words.
    pub fallbacks: Vec<String>,
    /// Combinations of ops that were not to run together.
    pub no_fuse: Vec<String>,
    /// What becomes of laid-out weights: `kept`, `in memory` or `as in file`.
    pub packing: &'static str,
    /// Positions of the context.
    pub context: usize,
    /// Rounds that do not count.
    pub warm_ups: usize,
    /// Time without work before each round.
    pub pause: Duration,
    /// How keys and values are kept.
    pub kv_format: KvFormat,
    /// Processors of the machine that are on.
    pub processors_on: usize,
    /// Processors that can be used.
    pub processors: usize,
    /// The load before anything was run, where the system tells.
    pub load_average: Option<f64>,
    /// What the machine can do at most with these threads, or why that was not measured.
    pub ceilings: Result<CeilingsAt, String>,
    /// The load average, where others used the machine when that was measured.
    pub ceilings_load_of_others: Option<f64>,
}

impl Setup {
    /// What the memory gave, or why that is not known.
    ///
    /// # Errors
    /// The reason, in one line.
    pub fn bandwidth(&self) -> Result<&Bandwidth, String> {
        let at = self.ceilings.as_ref().map_err(Clone::clone)?;
        let skipped =
            || at.read_skipped.clone().unwrap_or_else(|| "it was not measured for so many threads".to_owned());
        at.read.as_ref().ok_or_else(skipped)
    }

    /// What to tell of the machine before anything runs, each with its remedy.
    pub fn warnings(&self) -> Vec<String> {
        let threads = self.threads_decode.max(self.threads_prefill);
        let shared = self.load_average.filter(|&load| machine::is_shared(load, self.processors, threads));
        let shared = shared.map(|load| {
            let processors = self.processors;
            format!(
                "others are using this machine, or did a moment ago: the load average is {load:.2}, with {processors} processors \
                 for {threads} threads; end other programs, wait a minute and run this again"
            )
        });
        let ceilings = self.ceilings_load_of_others.map(|load| {
            format!(
                "others used this machine when its ceilings were measured (load average {load:.2}), so they are too low, and shares too \
                 high; measure them again with --again when it is quiet"
            )
        });
        shared.into_iter().chain(ceilings).collect()
    }
}

/// Times of something that happened often, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Quantiles {
    /// Half of them took no longer.
    pub p50: f64,
    /// Of a hundred 95 took no longer; `None` of fewer than 20.
    pub p95: Option<f64>,
    /// Of a hundred 99 took no longer; `None` of fewer than 100.
    pub p99: Option<f64>,
    /// The longest.
    pub longest: f64,
    /// How many there were.
    pub count: usize,
}

impl Quantiles {
    fn of(times: impl IntoIterator<Item = u64>) -> Option<Quantiles> {
        let times: Vec<f64> = times.into_iter().map(|ns| ns as f64).collect();
        let count = times.len();
        let of = |q: f64, least: usize| (count >= least).then(|| quantile(&times, q));
        Some(Quantiles { p50: of(0.5, 1)?, p95: of(0.95, 20), p99: of(0.99, 100), longest: range(&times).1, count })
    }
}

/// A round that took much more or less than the others.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Outlier {
    /// Which one, from 0.
    pub round: usize,
    /// Its rate, in tokens per second.
    pub ts: f64,
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
    /// How the program was built.
    pub build_profile: &'static str,
    /// The model's file.
    pub model_filename: String,
    /// What its bytes are known by.
    pub model_sha256: Reading<String>,
    /// Bits of all tensors for each weight.
    pub bits_per_weight: f64,
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
    /// Threads of prefill.
    pub threads_prefill: usize,
    /// Threads of decode.
    pub threads_decode: usize,
    /// What threads are held to.
    pub pinning: String,
    /// Ops that run on another device than the preferred one, in words.
    pub fallbacks: Vec<String>,
    /// Combinations of ops that were not to run together.
    pub no_fuse: Vec<String>,
    /// What becomes of laid-out weights.
    pub packing: &'static str,
    /// Positions of the context.
    pub n_ctx: usize,
    /// Rounds before that do not count.
    pub warm_ups: usize,
    /// Time without work before each round.
    pub pause_ms: u64,
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
    /// Where the median of more runs would lie, as far as its rounds and earlier runs know; `None` of too few rounds.
    pub interval: Option<Interval>,
    /// Where the median of more rounds of this run would lie; `None` of too few to know.
    pub rounds_interval: Option<Interval>,
    /// Earlier runs with the same settings; `None` of fewer than five, or where the records were not asked.
    pub earlier: Option<EarlierRuns>,
    /// Rounds that took much more or less than the others.
    pub outliers: Vec<Outlier>,
    /// Prefill: from a prompt to the first token.
    pub first_token_ns: Option<Quantiles>,
    /// The same of each round.
    pub first_token_samples_ns: Vec<u64>,
    /// Decode: each token of all rounds.
    pub token_ns: Option<Quantiles>,
    /// The same of each token, by round.
    pub token_samples_ns: Vec<Vec<u64>>,
    /// Pages that had to be read from the disk while rounds ran.
    pub major_faults: Reading<u64>,
    /// How often threads waited in rounds.
    pub voluntary_switches: Reading<u64>,
    /// How often they were taken off their processor in rounds while they had work.
    pub involuntary_switches: Reading<u64>,
    /// Energy of all packages for each token, in joules, while rounds ran.
    pub energy_j_per_token: Reading<f64>,
    /// Decode: bytes that a token reads, on average.
    pub bytes_per_token: Option<u64>,
    /// Decode: at the median rate, bytes that are read per second.
    pub read_bytes_per_s: Option<f64>,
    /// What the memory gave to as many threads as decode has.
    pub bandwidth: Option<Bandwidth>,
    /// Why that was not measured.
    pub bandwidth_skipped: Option<String>,
    /// Prefill: multiply-adds of a token, on average.
    pub multiply_adds_per_token: Option<f64>,
    /// Decode: the rate at which the memory is the limit. Prefill: that at which the multiplier is.
    pub ceiling_ts: Option<f64>,
    /// When that was measured, in UTC.
    pub ceiling_measured_at: Option<String>,
    /// The median rate over the ceiling.
    pub share: Option<f64>,
    /// What that means.
    pub verdict: Option<Verdict>,
    /// Processors that can be used.
    pub processors: usize,
    /// The load before anything was run.
    pub load_average: Option<f64>,
    /// What speaks against these numbers.
    pub warnings: Vec<String>,
    /// Whether the machine was not the same all the while; `conditions` has the evidence.
    pub doubtful: bool,
    /// Why, in words.
    pub doubts: Vec<Doubt>,
    /// What moved from before the first round to after the last.
    pub movement: Movement,
    /// The effective clock before each round and after it, in additions per second.
    pub clock_hz: Vec<f64>,
    /// Memory of the whole run.
    pub memory: Option<MemoryFigures>,
    /// How the model was loaded.
    pub load: Option<LoadFigures>,
    /// Starts of the program, where they were measured.
    pub starts: Vec<StartFigures>,
    /// Other engines, each of whose runs followed a round.
    pub with: Vec<OtherFigures>,
    /// The machine before anything was run.
    pub state: State,
}

/// The rates of a test, and what follows of them.
struct Rates {
    samples_ns: Vec<u64>,
    samples_ts: Vec<f64>,
    median: f64,
    interval: Option<Interval>,
}

impl Rates {
    fn of(outcome: &Outcome) -> Rates {
        let samples_ns: Vec<u64> = outcome.rounds.iter().map(|round| round.ns).collect();
        let rate = |&ns: &u64| outcome.test.tokens() as f64 * 1e9 / ns.max(1) as f64;
        let samples_ts: Vec<f64> = samples_ns.iter().map(rate).collect();
        let (median, interval) = (median(&samples_ts), median_interval(&samples_ts));
        Rates { samples_ns, samples_ts, median, interval }
    }

    fn outliers(&self) -> Vec<Outlier> {
        outliers(&self.samples_ts).into_iter().map(|round| Outlier { round, ts: self.samples_ts[round] }).collect()
    }
}

impl Row {
    /// Sets it beside the medians of earlier runs with the same settings: the interval becomes as wide as these lie apart.
    pub fn set_beside(&mut self, medians_ts: &[f64]) {
        let Some(earlier) = EarlierRuns::of(medians_ts) else { return };
        self.earlier = Some(earlier);
        let Some(rounds) = self.rounds_interval else { return };
        let widened = earlier.widened(self.median_ts, rounds);
        if widened != rounds {
            self.interval = Some(widened);
            self.doubts.extend(conditions::runs(&earlier, self.median_ts, &widened));
            self.doubtful = !self.doubts.is_empty();
        }
    }

    /// Sums up an outcome. `windows` has the machine before and after each round, and `test_time` is when it was over.
    pub fn new(setup: &Setup, model: &Model, outcome: &Outcome, windows: &[Window], test_time: String) -> Row {
        let Outcome { test, rounds } = outcome;
        let rates = Rates::of(outcome);
        let times: Vec<f64> = rates.samples_ns.iter().map(|&ns| ns as f64).collect();
        let (min_ts, max_ts) = range(&rates.samples_ts);
        let is_decode = test.prompt == 0;
        let n_threads = if is_decode { setup.threads_decode } else { setup.threads_prefill };
        let share_of = Share { processors: setup.processors_on, threads: n_threads };
        let conditions = Conditions::judge(windows, share_of, rates.median, rates.interval.as_ref());
        let Conditions { movement, clock_hz, doubts } = conditions;
        // Pauses, and other engines that ran in them, are none of this test's.
        let moved: Vec<Movement> = windows.iter().map(Window::movement).collect();
        let ceiling = Ceiling::of(setup, model, outcome, rates.median);
        let mut warnings = setup.warnings();
        warnings.extend(ceiling.share.filter(|share| *share > 1.0).map(too_fast));
        let kv_type = kv_name(setup.kv_format);
        Row {
            build_commit: setup.build.clone(),
            build_number: 0,
            cpu_info: setup.cpu_info.clone(),
            gpu_info: String::new(),
            backends: setup.backends.clone(),
            isa: setup.isa.clone(),
            build_profile: setup.build_profile,
            model_filename: setup.model_filename.clone(),
            model_sha256: setup.model_sha256.clone(),
            bits_per_weight: setup.model_bytes as f64 * 8.0 / setup.parameters.max(1) as f64,
            model_type: setup.model_type.clone(),
            model_size: setup.model_bytes,
            model_n_params: setup.parameters,
            n_batch: setup.max_rows,
            n_ubatch: setup.max_rows,
            n_threads,
            threads_prefill: setup.threads_prefill,
            threads_decode: setup.threads_decode,
            pinning: setup.pinning.clone(),
            fallbacks: setup.fallbacks.clone(),
            no_fuse: setup.no_fuse.clone(),
            packing: setup.packing,
            n_ctx: setup.context,
            warm_ups: setup.warm_ups,
            pause_ms: u64::try_from(setup.pause.as_millis()).unwrap_or(u64::MAX),
            type_k: kv_type,
            type_v: kv_type,
            n_prompt: test.prompt,
            n_gen: test.generate,
            n_depth: test.depth,
            test_time,
            avg_ns: mean(&times) as u64,
            stddev_ns: deviation(&times) as u64,
            avg_ts: mean(&rates.samples_ts),
            stddev_ts: deviation(&rates.samples_ts),
            test: test.name(),
            median_ts: rates.median,
            min_ts,
            max_ts,
            interval: rates.interval,
            rounds_interval: rates.interval,
            earlier: None,
            outliers: rates.outliers(),
            samples_ns: rates.samples_ns,
            samples_ts: rates.samples_ts,
            first_token_ns: Quantiles::of(rounds.iter().filter_map(|round| round.first_token_ns)),
            first_token_samples_ns: rounds.iter().filter_map(|round| round.first_token_ns).collect(),
            token_ns: Quantiles::of(rounds.iter().flat_map(|round| round.token_ns.iter().copied())),
            token_samples_ns: rounds.iter().map(|round| round.token_ns.clone()).filter(|all| !all.is_empty()).collect(),
            major_faults: summed(&moved, |moved| moved.major_faults.clone()),
            voluntary_switches: summed(&moved, |moved| moved.voluntary_switches.clone()),
            involuntary_switches: summed(&moved, |moved| moved.involuntary_switches.clone()),
            energy_j_per_token: summed(&moved, energy_j)
                .map(|joules| joules / (test.tokens() * rounds.len()).max(1) as f64),
            bytes_per_token: ceiling.bytes_per_token,
            read_bytes_per_s: ceiling.bytes_per_token.map(|bytes| bytes as f64 * rates.median),
            bandwidth: setup.bandwidth().ok().cloned(),
            bandwidth_skipped: setup.bandwidth().err(),
            multiply_adds_per_token: ceiling.multiply_adds_per_token,
            ceiling_ts: ceiling.ts,
            ceiling_measured_at: setup.ceilings.as_ref().ok().map(|at| at.measured_at.clone()),
            share: ceiling.share,
            verdict: ceiling.share.map(Verdict::of),
            processors: setup.processors,
            load_average: setup.load_average,
            warnings,
            doubtful: !doubts.is_empty(),
            doubts,
            movement,
            clock_hz,
            memory: None,
            load: None,
            starts: Vec::new(),
            with: Vec::new(),
            state: setup.state.clone(),
        }
    }
}

/// What the memory allows decode, and the multiplier prefill.
#[derive(Default)]
struct Ceiling {
    bytes_per_token: Option<u64>,
    multiply_adds_per_token: Option<f64>,
    ts: Option<f64>,
    share: Option<f64>,
}

impl Ceiling {
    fn of(setup: &Setup, model: &Model, outcome: &Outcome, median_ts: f64) -> Ceiling {
        let (test, at) = (outcome.test, setup.ceilings.as_ref().ok());
        let ceiling = match (test.prompt, test.generate) {
            (0, generate) => {
                let bytes = cost::bytes_per_token(model, setup.kv_format, test.depth, generate);
                let ts = at.and_then(|at| at.decode_ceiling_ts(bytes));
                Ceiling { bytes_per_token: Some(bytes), ts, ..Ceiling::default() }
            }
            (prompt, 0) => {
                let all = multiply_adds(model, test.depth, prompt);
                let ts = at.and_then(|at| at.prefill_ceiling_ts(&all));
                let per_token = all.total() as f64 / prompt as f64;
                Ceiling { multiply_adds_per_token: Some(per_token), ts, ..Ceiling::default() }
            }
            // Neither the memory nor the multiplier alone is the limit of both.
            _ => Ceiling::default(),
        };
        let share = ceiling.ts.filter(|ts| *ts > 0.0).map(|ts| median_ts / ts);
        Ceiling { share, ..ceiling }
    }
}

/// How a format of the KV cache is called in reports.
pub fn kv_name(format: KvFormat) -> &'static str {
    match format {
        KvFormat::F16 => "f16",
        KvFormat::F32 => "f32",
    }
}

/// What was counted in all rounds together; not readable where it is not of one of them.
fn summed<T: Default + std::ops::Add<Output = T>>(
    moved: &[Movement],
    of: impl Fn(&Movement) -> Reading<T>,
) -> Reading<T> {
    let mut sum =
        if moved.is_empty() { Reading::NotReadable("not recorded".to_owned()) } else { Reading::Known(T::default()) };
    for moved in moved {
        sum = match (sum, of(moved)) {
            (Reading::Known(sum), Reading::Known(more)) => Reading::Known(sum + more),
            (Reading::NotReadable(reason), _) | (_, Reading::NotReadable(reason)) => {
                return Reading::NotReadable(reason);
            }
        };
    }
    sum
}

/// What all packages used. Their parts (cores, memory) are in it, and the domain of the whole platform would count them again.
fn energy_j(movement: &Movement) -> Reading<f64> {
    let domains = match &movement.energy {
        Reading::Known(domains) => domains,
        Reading::NotReadable(reason) => return Reading::NotReadable(reason.clone()),
    };
    let is_package = |domain: &str| domain.contains(" package");
    let mut joules = Reading::NotReadable("no package counts its energy".to_owned());
    for package in domains.iter().filter(|energy| is_package(&energy.domain)) {
        let used = match &package.energy_uj {
            Reading::Known(uj) => *uj as f64 / 1e6,
            Reading::NotReadable(reason) => return Reading::NotReadable(reason.clone()),
        };
        joules = Reading::Known(joules.get().copied().unwrap_or(0.0) + used);
    }
    joules
}

/// What a share above 1 means.
fn too_fast(share: f64) -> String {
    format!(
        "a share of {:.0} % of the ceiling is a fault of the measurement: the ceiling was measured too low, because others used the \
         machine then (measure it again with --again), or the weights stay in a cache, because the model is small",
        share * 100.0
    )
}
