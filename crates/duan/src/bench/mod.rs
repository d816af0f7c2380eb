//! Benchmarks of a model's file on the devices of this machine.
//!
//! Devices are opened, planned for and loaded as for a chat, so that what is measured is what a chat gets. What the machine can do at
//! most is known from before, or measured before the model takes memory ([`crate::ceilings`]). What the machine is, and what moves
//! on it meanwhile, is read between rounds.
//!
//! Start reading at [`bench`]; `setup.rs` brings the settings together that stand beside every number, `starts.rs` measures starts of the
//! program.

mod earlier;
mod others;
pub(crate) mod setup;
mod starts;

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use duan_engine::{Event, Executor, Plan};
use duan_measure::bench::conditions::{Sight, Window};
use duan_measure::bench::{self, Job, MemoryWatch, Monotonic, Outcome, positions};
use duan_measure::machine;
use duan_model::Model;
use duan_model::checkpoint::Checkpoint;
use duan_system::{Local, ProcessMemory, Reading, State};

pub use duan_measure::bench::conditions::{Doubt, DoubtKind};
pub use duan_measure::bench::{
    Bandwidth, LoadFigures, MemoryCurve, MemoryFigures, Outlier, Progress, Quantiles, Row, Setup, StartFigures, Test,
    kv_name,
};
pub use duan_measure::others::{Command as OtherCommand, Other, OtherFigures, Pattern, Ratio, merge_records};

use crate::ceilings::{self, CeilingEvent, CeilingOptions};
use crate::devices::Devices;
use crate::error::Result;
use crate::options::EngineOptions;
use crate::resident;
use others::Others;
use setup::Known;
pub(crate) use setup::told;

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
    /// How many rounds before them do not count.
    pub warm_ups: usize,
    /// Time without work before each round.
    pub pause: Duration,
    /// Where ceilings are kept between benchmarks; nowhere without it.
    pub ceilings_folder: Option<PathBuf>,
    /// Whether they are measured anew though those that were kept still hold.
    pub ceilings_again: bool,
    /// Other engines, each of which runs once behind each round of ours.
    pub others: Vec<Other>,
    /// Whether starts of the program are measured too, with files in the page cache and without: that reads the model's files from the
    /// disk again.
    pub starts: bool,
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
    /// What the machine can do at most is being measured.
    Ceilings(&'a CeilingEvent<'a>),
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
    /// The model is loaded: what the numbers that follow belong to.
    Ready(&'a Setup),
    /// A step of a test.
    Progress(&'a Progress),
    /// Another engine is about to run.
    OtherRuns {
        /// What it is called.
        name: &'a str,
        /// The test.
        test: Test,
        /// The round of ours that it follows, from 0; none where it is only tried out.
        index: Option<usize>,
    },
    /// A test is over.
    Finished(&'a Row),
    /// A start of the program is about to be measured.
    Starting {
        /// `first` or `second`.
        start: &'a str,
        /// `warm` or `cold`.
        page_cache: &'a str,
    },
    /// All tests with one number of threads are over, or what of them was not cancelled.
    RunFinished(&'a RunFigures),
    /// Starts of the program were measured, with the first number of threads.
    StartsFinished(&'a [StartFigures]),
}

/// What belongs to all tests with one number of threads.
#[derive(Debug, Clone, Default, PartialEq, serde::Serialize)]
pub struct RunFigures {
    /// How the model was loaded.
    pub load: LoadFigures,
    /// The memory that it took, from before the load to the last test.
    pub memory: MemoryFigures,
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
    let with = |threads| EngineOptions { threads, context: Some(context), ..options.engine.clone() };
    let before = Before::look();
    let mut others = Others::new(&options.others, path, &options.engine.cancel);
    for &threads in &counts {
        if !with_threads(&file, &model, &with(threads), options, &before, &mut others, &mut on_event)? {
            return Ok(false);
        }
    }
    if options.starts {
        // What is mapped stays in the memory, whatever the system is asked to forget.
        drop((file, model));
        let engine = with(counts[0]);
        let figures = starts::measure(path, &engine, &Devices::open(&engine)?, &mut on_event)?;
        on_event(&BenchEvent::StartsFinished(&figures));
    }
    // Also what ran last may have been cut short.
    if options.engine.cancel.load(Ordering::Relaxed) {
        return Ok(false);
    }
    others.end()?;
    Ok(true)
}

/// The machine before anything ran: later looks would see what was measured since.
struct Before {
    state: State,
    load_average: Option<f64>,
}

impl Before {
    fn look() -> Before {
        let source = Local::here();
        Before { state: State::read(&source), load_average: duan_system::load_average(&source).ok() }
    }
}

/// All tests with one thread count.
fn with_threads(
    file: &Checkpoint,
    model: &Model,
    engine: &EngineOptions,
    options: &BenchOptions,
    before: &Before,
    others: &mut Others<'_>,
    on_event: &mut dyn FnMut(&BenchEvent<'_>),
) -> Result<bool> {
    let source = Local::here();
    let (state, load_average) = (before.state.clone(), before.load_average);
    let devices = Devices::open(engine)?;
    let plan = devices.plan(model, engine.allow_fallback)?;
    on_event(&BenchEvent::Planned { plan: &plan });
    let cpu = devices.cpu();
    let threads = move |test: Test| if test.prompt == 0 { cpu.threads_decode } else { cpu.threads_prefill };
    if !others.try_out(&options.tests, threads, on_event)? {
        return Ok(false);
    }
    let ceiling_options = CeilingOptions {
        folder: options.ceilings_folder.as_deref(),
        again: options.ceilings_again,
        cancel: &engine.cancel,
    };
    let found = ceilings::find(&devices, &state, &ceiling_options, &mut |event| on_event(&BenchEvent::Ceilings(event)));
    let (ceilings, busy) = match found {
        Ok(None) => return Ok(false),
        Ok(Some(found)) => (Ok(found.ceilings.at(cpu.threads_decode, cpu.threads_prefill)), found.load_of_others),
        Err(error) => (Err(error.to_string()), None),
    };
    on_event(&BenchEvent::Loading);
    // What measuring the bandwidth took is not the model's.
    let peak = duan_system::reset_peak_resident();
    let watch = MemoryWatch::start(|| ProcessMemory::resident_bytes(&Local::here()));
    let (mut executor, load) = load(file, model, &plan, engine, &devices, on_event)?;
    // Nothing else may run while something is measured.
    executor.settle();
    let known = Known { file, model, devices: &devices, plan: &plan, engine, options };
    let setup = known.setup(executor.limits().max_rows, executor.context(), state, load_average, (ceilings, busy));
    on_event(&BenchEvent::Ready(&setup));
    for message in setup.warnings() {
        on_event(&BenchEvent::Warning { message: &message });
    }
    if let Err(reason) = setup.bandwidth() {
        let message = format!(
            "the memory's bandwidth was not measured, so there is no ceiling and no share: {reason}; free some memory and run \
             this again"
        );
        on_event(&BenchEvent::Warning { message: &message });
    }
    let clock_hz = || clock_hz(&devices);
    let mut tests = Tests {
        executor: &mut executor,
        source: &source,
        clock_hz: &clock_hz,
        options,
        engine,
        others: RefCell::new(others),
        threads: &threads,
    };
    let is_done = tests.run(
        |windows, outcome| Row::new(&setup, model, outcome, windows, machine::utc_now()),
        setup.warnings().len(),
        on_event,
    )?;
    on_event(&BenchEvent::RunFinished(&RunFigures { load, memory: memory_figures(&source, peak, watch) }));
    Ok(is_done)
}

/// Loads the model, and says how that was.
fn load(
    file: &Checkpoint,
    model: &Model,
    plan: &Plan,
    engine: &EngineOptions,
    devices: &Devices,
    on_event: &mut dyn FnMut(&BenchEvent<'_>),
) -> Result<(Executor, LoadFigures)> {
    file.length().check()?;
    let file_in_page_cache = starts::share_in_page_cache(file);
    let mut kept_anew = false;
    let start = Instant::now();
    let executor = resident::load(file, model, plan, engine, devices, &mut |event| match event {
        Event::PackKept { bytes, folder } => {
            kept_anew = true;
            on_event(&BenchEvent::PackKept { bytes: *bytes, folder });
        }
        Event::PackDiscarded { reason } => on_event(&BenchEvent::PackDiscarded { reason }),
        Event::PackNotKept { reason } => {
            kept_anew = true;
            on_event(&BenchEvent::Warning { message: &format!("laid-out weights are not kept: {reason}") });
        }
        Event::DeviceWarning { message, .. } => on_event(&BenchEvent::Warning { message }),
        _ => {}
    })?;
    let load_ns = u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
    let weights = match &engine.packing {
        crate::Packing::AsInFile => "as in file",
        crate::Packing::Kept(_) if devices.lay_weights_out() && !kept_anew => "kept",
        _ => "laid out",
    };
    Ok((executor, LoadFigures { load_ns, file_in_page_cache, weights: weights.to_owned() }))
}

/// Tests on a model that is loaded.
struct Tests<'a, 'o> {
    executor: &'a mut Executor,
    source: &'a Local,
    clock_hz: &'a dyn Fn() -> Option<f64>,
    options: &'a BenchOptions,
    engine: &'a EngineOptions,
    others: RefCell<&'a mut Others<'o>>,
    threads: &'a dyn Fn(Test) -> usize,
}

impl Tests<'_, '_> {
    /// Runs them, looks at the machine before each round and after it, and runs other engines after that. `row` makes a row of that; the first
    /// `told` of its warnings were told before.
    fn run(
        &mut self,
        row: impl Fn(&[Window], &Outcome) -> Row,
        told: usize,
        on_event: &mut dyn FnMut(&BenchEvent<'_>),
    ) -> Result<bool> {
        let time = Monotonic::new();
        let job = Job {
            tests: &self.options.tests,
            repetitions: self.options.repetitions,
            warm_ups: self.options.warm_ups,
            pause: self.options.pause,
            warm_each_round: !self.others.borrow().is_empty(),
            time: &time,
            cancel: &self.engine.cancel,
        };
        let (on_event, windows) = (RefCell::new(on_event), RefCell::new(Vec::<Window>::new()));
        let (others, threads) = (&self.others, self.threads);
        let look = || Sight::take(self.source, (self.clock_hz)());
        let on_progress = |progress: &Progress| {
            let mut windows = windows.borrow_mut();
            match progress {
                Progress::Repetition { index, .. } => {
                    if *index == 0 {
                        windows.clear();
                        others.borrow_mut().begin();
                    }
                    let before = look();
                    windows.push(Window { after: before.clone(), before });
                }
                Progress::RoundDone { test, index } => {
                    let after = look();
                    if let Some(window) = windows.last_mut() {
                        window.after = after;
                    }
                    others.borrow_mut().run(*test, *index, threads(*test), &mut **on_event.borrow_mut());
                }
                _ => {}
            }
            (on_event.borrow_mut())(&BenchEvent::Progress(progress));
        };
        let on_outcome = |outcome: &Outcome| {
            let mut row = row(&windows.borrow(), outcome);
            earlier::set_beside(&mut row);
            row.with = others.borrow().figures(outcome.test, threads(outcome.test), &row);
            let mut on_event = on_event.borrow_mut();
            for message in &row.warnings[told..] {
                on_event(&BenchEvent::Warning { message });
            }
            on_event(&BenchEvent::Finished(&row));
        };
        Ok(bench::run(self.executor, &job, on_progress, on_outcome)?)
    }
}

/// What a core of those that threads run on counts at now: some milliseconds of additions that wait for each other.
fn clock_hz(devices: &Devices) -> Option<f64> {
    let threads = devices.cpu_device().clock(1).ok()?;
    threads.first().map(|thread| thread.best_hz)
}

/// What was taken. A peak that could not be begun anew may be that of something before.
fn memory_figures(source: &Local, peak: std::io::Result<()>, watch: Option<MemoryWatch>) -> MemoryFigures {
    let now = ProcessMemory::read(source);
    let older = |error| Reading::NotReadable(format!("the system counts what was before too: {error}"));
    MemoryFigures {
        peak_bytes: peak.map_or_else(older, |()| now.peak_resident_bytes),
        proportional_bytes: now.proportional_bytes,
        proportional_anonymous_bytes: now.proportional_anonymous_bytes,
        proportional_file_bytes: now.proportional_file_bytes,
        swapped_bytes: now.swapped_bytes,
        curve: watch.and_then(MemoryWatch::stop),
    }
}
