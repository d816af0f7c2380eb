//! Where the time of a model's passes goes, op by op.
//!
//! Devices are opened, planned for and loaded as for a chat and a benchmark; then rounds run in which devices note the time of each op,
//! and as many in which they do not, in turn. What an op could take at least comes from the machine's ceilings ([`crate::ceilings`]).
//! Allocations are counted where the program has [`CountingAllocator`] for its own.
//!
//! Start reading at [`profile`].

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::Duration;

use duan_backend::Clock;
use duan_cpu::Counting;
use duan_engine::{Event, Executor, Plan};
use duan_files::write_whole;
use duan_measure::bench::{self, Setup, Test, positions};
use duan_measure::profile::{self, Job, Settings, Sources, Times, write_trace};
use duan_model::Model;
use duan_system::{Local, State};
use serde::Serialize;

pub use duan_cpu::CountingAllocator;
pub use duan_measure::profile::{
    KindFigures, LayerFigures, OpFigures, Overhead, PhaseProfile, Profile, Progress, RestFigures,
};

use crate::bench::BenchOptions;
use crate::bench::setup::Known;
use crate::ceilings::{self, CeilingEvent, CeilingOptions};
use crate::devices::Devices;
use crate::error::Result;
use crate::options::EngineOptions;
use crate::resident;

/// What is to be run.
#[derive(Debug, Clone)]
pub struct ProfileOptions {
    /// Devices, instruction sets, sizes, and the flag that ends it. The context is that of the run, whatever it says here.
    pub engine: EngineOptions,
    /// Tokens of the prompt; 0 for no prefill.
    pub prompt: usize,
    /// Tokens one by one behind it; 0 for no decode.
    pub generate: usize,
    /// Tokens of context before both.
    pub depth: usize,
    /// How many rounds note times; as many do not, and show what that costs.
    pub rounds: usize,
    /// Where ceilings are kept; nowhere without it.
    pub ceilings_folder: Option<PathBuf>,
    /// Whether ceilings are measured anew though those that were kept still hold.
    pub ceilings_again: bool,
}

/// What is told meanwhile.
#[derive(Debug)]
#[non_exhaustive]
pub enum ProfileEvent<'a> {
    /// Devices were chosen.
    Planned {
        /// For each op one.
        plan: &'a Plan,
    },
    /// What the machine can do at most is being measured.
    Ceilings(&'a CeilingEvent<'a>),
    /// The model is about to be loaded.
    Loading,
    /// What the engine tells of loading.
    Engine(&'a Event<'a>),
    /// The model is loaded: what the figures belong to.
    Ready(&'a Setup),
    /// What speaks against the figures, or is missing from them, with its remedy.
    Warning {
        /// One line.
        message: &'a str,
    },
    /// A step of the run.
    Progress(Progress),
}

/// A profile with its settings.
#[derive(Debug, Clone, Serialize)]
pub struct ModelProfile {
    /// What ran, on what, and how.
    #[serde(flatten)]
    pub settings: Settings,
    /// Where the time went.
    #[serde(flatten)]
    pub profile: Profile,
    #[serde(skip)]
    traced: Traced,
}

/// What a trace is made of.
#[derive(Debug, Clone)]
struct Traced {
    times: Times,
    model: Model,
    kv_format: duan_backend::KvFormat,
    /// Of each device and op that ran, by device.
    kernels: Vec<(String, Vec<Vec<String>>)>,
}

impl Traced {
    fn of(executor: &Executor, times: Times, model: Model, kv_format: duan_backend::KvFormat) -> Self {
        let mut devices: Vec<String> = Vec::new();
        for pass in times.noted.iter().flat_map(|round| &round.passes) {
            for segment in &pass.segments {
                if !devices.contains(&segment.device) {
                    devices.push(segment.device.clone());
                }
            }
        }
        let ops = model.graph.nodes.len();
        let of = |device: String| {
            let kernels = (0..ops).map(|op| executor.kernels(&device, op)).collect();
            (device, kernels)
        };
        let kernels = devices.into_iter().map(of).collect();
        Self { times, model, kv_format, kernels }
    }

    fn kernels(&self, device: &str, op: usize) -> Vec<String> {
        let of_device = self.kernels.iter().find(|(name, _)| name == device);
        of_device.map(|(_, kernels)| kernels[op].clone()).unwrap_or_default()
    }

    fn with_sources<T>(&self, ceilings: Option<&ceilings::CeilingsAt>, work: impl FnOnce(Sources<'_>) -> T) -> T {
        let kernels = |device: &str, op: usize| self.kernels(device, op);
        work(Sources { model: &self.model, kv_format: self.kv_format, ceilings, kernels: &kernels })
    }
}

impl ModelProfile {
    /// Writes every single time to the file `path` as a trace that Perfetto and Chrome's about:tracing open, whole or not at all. A file
    /// that is there is replaced only with `force`.
    ///
    /// # Errors
    /// When there is a file already, or it cannot be written.
    pub fn write_trace(&self, path: &Path, force: bool) -> Result<()> {
        let times = &self.traced.times;
        self.traced.with_sources(None, |sources| {
            write_whole(path, 1, force, &mut |_| ControlFlow::Continue(()), |out| {
                write_trace(out, times, sources)?;
                out.flush()
            })
        })?;
        Ok(())
    }
}

/// Runs the model in the file at `path`. Gives nothing where it was cancelled.
///
/// # Errors
/// When there is nothing to run, or more than the model's context; when the file cannot be read, or an op has no device; when the memory
/// does not suffice; when a device fails, or cannot note times.
pub fn profile(
    path: &Path,
    options: &ProfileOptions,
    mut on_event: impl FnMut(&ProfileEvent<'_>),
) -> Result<Option<ModelProfile>> {
    if options.rounds == 0 {
        return Err(bench::Error::Nothing.into());
    }
    let file = options.engine.open(path)?;
    let model = Model::from_checkpoint(&file)?;
    let ProfileOptions { prompt, generate, depth, .. } = *options;
    let tests: Vec<Test> =
        Some(Test { prompt, generate, depth }).into_iter().filter(|test| test.tokens() > 0).collect();
    let context = positions(&tests, model.config.context_length)?;
    let engine = EngineOptions { context: Some(context), ..options.engine.clone() };
    let devices = Devices::open(&engine)?;
    let plan = devices.plan(&model, engine.allow_fallback)?;
    on_event(&ProfileEvent::Planned { plan: &plan });
    let source = Local::here();
    let (state, load_average) = (State::read(&source), duan_system::load_average(&source).ok());
    let ceiling_options = CeilingOptions {
        folder: options.ceilings_folder.as_deref(),
        again: options.ceilings_again,
        cancel: &engine.cancel,
    };
    let found =
        ceilings::find(&devices, &state, &ceiling_options, &mut |event| on_event(&ProfileEvent::Ceilings(event)));
    let ceilings = match found {
        Ok(None) => return Ok(None),
        Ok(Some(found)) => {
            let at = found.ceilings.at(devices.cpu().threads_decode, devices.cpu().threads_prefill);
            (Ok(at), found.load_of_others)
        }
        Err(error) => (Err(error.to_string()), None),
    };
    on_event(&ProfileEvent::Loading);
    let loaded = &mut |event: &Event<'_>| on_event(&ProfileEvent::Engine(event));
    let mut executor = resident::load(&file, &model, &plan, &engine, &devices, loaded)?;
    executor.settle();
    let setup = {
        let known = Known {
            file: &file,
            model: &model,
            devices: &devices,
            plan: &plan,
            engine: &engine,
            options: &as_bench(options, &engine),
        };
        known.setup(executor.limits().max_rows, executor.context(), state, load_average, ceilings)
    };
    on_event(&ProfileEvent::Ready(&setup));
    warn(&setup, &mut on_event);
    let Some(times) = run(&mut executor, options, &engine, &mut on_event)? else { return Ok(None) };
    let traced = Traced::of(&executor, times, model, engine.kv_format);
    let profile = traced.with_sources(setup.ceilings.as_ref().ok(), |sources| Profile::of(&traced.times, sources));
    Ok(Some(ModelProfile { settings: Settings::of(&setup), profile, traced }))
}

/// All rounds, with allocations counted where the program can.
fn run(
    executor: &mut Executor,
    options: &ProfileOptions,
    engine: &EngineOptions,
    on_event: &mut dyn FnMut(&ProfileEvent<'_>),
) -> Result<Option<Times>> {
    let (clock, counting) = (Clock::system(), Counting::begin());
    let allocations = || counting.as_ref().map(Counting::count);
    let job = Job {
        prompt: options.prompt,
        generate: options.generate,
        depth: options.depth,
        rounds: options.rounds,
        clock: &clock,
        allocations: &allocations,
        cancel: &engine.cancel,
    };
    Ok(profile::run(executor, &job, &mut |progress| on_event(&ProfileEvent::Progress(progress)))?)
}

fn warn(setup: &Setup, on_event: &mut dyn FnMut(&ProfileEvent<'_>)) {
    for message in setup.warnings() {
        on_event(&ProfileEvent::Warning { message: &message });
    }
    if let Err(reason) = &setup.ceilings {
        let message = format!("the machine's ceilings were not measured, so that nothing has a share: {reason}");
        on_event(&ProfileEvent::Warning { message: &message });
    } else if let Err(reason) = setup.bandwidth() {
        let message = format!(
            "the memory's bandwidth was not measured, so decode has no shares: {reason}; free some memory and run this again"
        );
        on_event(&ProfileEvent::Warning { message: &message });
    }
}

/// The same as a benchmark's options, of which the settings are made.
fn as_bench(options: &ProfileOptions, engine: &EngineOptions) -> BenchOptions {
    BenchOptions {
        engine: engine.clone(),
        threads: Vec::new(),
        tests: Vec::new(),
        repetitions: options.rounds,
        warm_ups: 1,
        pause: Duration::ZERO,
        ceilings_folder: options.ceilings_folder.clone(),
        ceilings_again: options.ceilings_again,
        others: Vec::new(),
        starts: false,
    }
}
