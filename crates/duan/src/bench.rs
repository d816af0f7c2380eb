//! Benchmarks of a model's file on the devices of this machine.
//!
//! Devices are opened, planned for and loaded as for a chat, so that what is measured is what a chat gets. The memory's
//! bandwidth is measured in the same run, with decode's threads, before the model takes memory.

use std::path::Path;

use duan_cpu::ReadBandwidth;
use duan_engine::{Event, Plan};
use duan_measure::bench::{self, Job, Setup, positions};
use duan_measure::machine;
use duan_model::Model;
use duan_model::checkpoint::Checkpoint;
use duan_system::Local;

pub use duan_measure::bench::{Bandwidth, Progress, Row, Test};

use crate::devices::Devices;
use crate::error::Result;
use crate::facts::{TypeFacts, file_type, types_of};
use crate::options::EngineOptions;
use crate::resident;

/// What is to be measured.
#[derive(Debug, Clone)]
pub struct BenchOptions {
    /// Devices, instruction sets, sizes, and the flag that ends it. The context is that of the tests, whatever it says here.
    pub engine: EngineOptions,
    /// Thread counts to measure with, one after the other; where there are none, those of `engine`.
    pub threads: Vec<usize>,
    /// The tests; see [`Test::all`].
    pub tests: Vec<Test>,
    /// How often each is repeated.
    pub repetitions: usize,
}

/// What is told meanwhile.
#[derive(Debug)]
#[non_exhaustive]
pub enum BenchEvent<'a> {
    /// Devices were chosen.
    Planned {
        /// For each op one.
        plan: &'a Plan,
    },
    /// The memory's bandwidth is about to be measured.
    MeasuringBandwidth,
    /// The model is about to be loaded.
    Loading,
    /// As [`Event::PackKept`]; tests begin when it is done.
    PackKept {
        /// Bytes that the laid-out weights take.
        bytes: u64,
        /// Where they are.
        folder: &'a str,
    },
    /// As [`Event::PackDiscarded`].
    PackDiscarded {
        /// Why, in one line.
        reason: &'a str,
    },
    /// What speaks against the numbers that follow, or is missing from them, with its remedy.
    Warning {
        /// One line.
        message: &'a str,
    },
    /// A step of a test.
    Progress(&'a Progress),
    /// A test is over.
    Finished(&'a Row),
}

/// Runs the tests on the model in the file at `path`. Gives false where it was cancelled; the rows of the tests before were told.
///
/// # Errors
/// When there is no test, or one is longer than the model's context; when the file cannot be read, or an op has no device;
/// when the memory does not suffice; when a device fails.
pub fn bench(path: &Path, options: &BenchOptions, mut on_event: impl FnMut(&BenchEvent<'_>)) -> Result<bool> {
    if options.repetitions == 0 {
        return Err(bench::Error::Nothing.into());
    }
    let file = options.engine.open(path)?;
    let model = Model::from_checkpoint(&file)?;
    let context = positions(&options.tests, model.config.context_length)?;
    let counts: Vec<Option<usize>> = if options.threads.is_empty() {
        vec![options.engine.threads]
    } else {
        options.threads.iter().copied().map(Some).collect()
    };
    for threads in counts {
        let engine = EngineOptions { threads, context: Some(context), ..options.engine.clone() };
        if !with_threads(&file, &model, &engine, options, &mut on_event)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// All tests with one thread count.
fn with_threads(
    file: &Checkpoint,
    model: &Model,
    engine: &EngineOptions,
    options: &BenchOptions,
    on_event: &mut dyn FnMut(&BenchEvent<'_>),
) -> Result<bool> {
    let devices = Devices::open(engine)?;
    let plan = devices.plan(model, engine.allow_fallback)?;
    on_event(&BenchEvent::Planned { plan: &plan });
    let load_average = duan_system::load_average(&Local::here()).ok();
    on_event(&BenchEvent::MeasuringBandwidth);
    let bandwidth = bandwidth(&devices);
    on_event(&BenchEvent::Loading);
    file.length().check()?;
    let mut executor = resident::load(file, model, &plan, engine, &devices, &mut |event| match event {
        Event::PackKept { bytes, folder } => on_event(&BenchEvent::PackKept { bytes: *bytes, folder }),
        Event::PackDiscarded { reason } => on_event(&BenchEvent::PackDiscarded { reason }),
        Event::PackNotKept { reason } => {
            on_event(&BenchEvent::Warning { message: &format!("laid-out weights are not kept: {reason}") });
        }
        Event::DeviceWarning { message, .. } => on_event(&BenchEvent::Warning { message }),
        _ => {}
    })?;
    // Nothing else may run while something is measured.
    executor.settle();
    let setup = setup(file, model, &devices, &plan, executor.limits().max_rows, engine, load_average, bandwidth);
    for message in setup.warnings() {
        on_event(&BenchEvent::Warning { message: &message });
    }
    if let Err(reason) = &setup.bandwidth {
        let message = format!(
            "the memory's bandwidth was not measured, so there is no ceiling and no share: {reason}; free some memory and run \
             this again"
        );
        on_event(&BenchEvent::Warning { message: &message });
    }
    let job = Job {
        tests: &options.tests,
        repetitions: options.repetitions,
        warm_up: engine.warm_up,
        cancel: &engine.cancel,
    };
    let on_event = std::cell::RefCell::new(on_event);
    let is_done = bench::run(
        &mut executor,
        &job,
        |progress| (on_event.borrow_mut())(&BenchEvent::Progress(progress)),
        |outcome| {
            let row = Row::new(&setup, model, outcome, machine::utc_now());
            let known = setup.warnings().len();
            for message in &row.warnings[known..] {
                (on_event.borrow_mut())(&BenchEvent::Warning { message });
            }
            (on_event.borrow_mut())(&BenchEvent::Finished(&row));
        },
    )?;
    Ok(is_done)
}

/// What the memory gives, or why that was not measured.
fn bandwidth(devices: &Devices) -> std::result::Result<Bandwidth, String> {
    let read = devices.read_bandwidth().map_err(|skipped| skipped.to_string())?;
    Ok(told(read))
}

/// The same as data.
pub(crate) fn told(read: ReadBandwidth) -> Bandwidth {
    let ReadBandwidth { bytes_per_s, bytes, reads, threads, pages, way } = read;
    Bandwidth { bytes_per_s, bytes, reads, threads, pages: pages.to_owned(), way: way.to_owned() }
}

#[expect(clippy::too_many_arguments, reason = "it only brings together what is known of one run")]
fn setup(
    file: &Checkpoint,
    model: &Model,
    devices: &Devices,
    plan: &Plan,
    max_rows: usize,
    engine: &EngineOptions,
    load_average: Option<f64>,
    bandwidth: std::result::Result<Bandwidth, String>,
) -> Setup {
    let cpu = devices.cpu();
    let tensors = file.tensors();
    let parameters = tensors.iter().map(|tensor| tensor.dims.iter().product::<u64>()).fold(0, u64::saturating_add);
    let used: Vec<&str> = (0..plan.devices.len())
        .filter(|&device| !plan.ops_of(device).is_empty())
        .map(|device| plan.devices[device].as_str())
        .collect();
    Setup {
        build: format!("duan-{}", env!("CARGO_PKG_VERSION")),
        cpu_info: cpu.model.unwrap_or_default(),
        isa: used.contains(&"cpu").then_some(cpu.isa),
        backends: used.join(","),
        model_filename: file.label().to_owned(),
        model_type: model_type(file, model, parameters),
        model_bytes: tensors.iter().filter_map(|tensor| tensor.bytes).fold(0, u64::saturating_add),
        parameters,
        max_rows,
        threads_prefill: cpu.threads_prefill,
        threads_decode: cpu.threads_decode,
        kv_format: engine.kv_format,
        processors: cpu.processors,
        load_average,
        bandwidth,
    }
}

/// Family, size and format: "llama 1.24B Q4_0".
fn model_type(file: &Checkpoint, model: &Model, parameters: u64) -> String {
    // Files that do not say it are called by the type of most of their bytes.
    let most_bytes = || {
        let bytes = |row: &TypeFacts| row.bytes.unwrap_or(0);
        let largest = types_of(file).into_iter().max_by_key(bytes);
        largest.map_or_else(|| "?".to_owned(), |row| row.name)
    };
    let format = file_type(file.metadata()).unwrap_or_else(most_bytes);
    format!("{} {} {format}", model.config.family, size_label(parameters))
}

/// So many weights, in three digits: "135M", "1.24B".
fn size_label(parameters: u64) -> String {
    match parameters {
        0..999_500 => format!("{:.0}K", parameters as f64 / 1e3),
        999_500..999_500_000 => format!("{:.0}M", parameters as f64 / 1e6),
        _ => format!("{:.2}B", parameters as f64 / 1e9),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_change_their_unit_before_they_have_four_digits() {
        let counts = [33_264, 999_499, 999_500, 134_515_008, 999_499_999, 999_885_952, 7_615_616_512];
        assert_eq!(counts.map(size_label), ["33K", "999K", "1M", "135M", "999M", "1.00B", "7.62B"]);
    }
}
