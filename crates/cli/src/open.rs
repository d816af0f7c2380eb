//! From what the person typed to a model that is there and, where asked for, loaded.

use std::io::IsTerminal as _;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use duan::hub::{ErrorKind, Hub, HubOptions, ModelFile, ModelName, Progress};
use duan::packs::{PackOptions, Packing};
use duan::{Engine, EngineOptions, Event, Phase, Plan};

use crate::args::{
    Common, EngineArgs, isa_of_environment, pack_max_of_environment, pack_reading_of_environment,
    threads_of_environment,
};
use crate::interrupt::Interrupt;
use crate::output::progress::FetchView;
use crate::output::style::on_one_line;
use crate::output::units::{bytes_text, counted};
use crate::output::{say, warn};

/// A model's file, and how it came here.
pub(crate) struct Found {
    /// The file and what is known of it.
    pub(crate) file: ModelFile,
    /// Whether it was downloaded just now.
    pub(crate) downloaded: bool,
}

/// A model that answers.
pub(crate) struct Loaded {
    /// The engine with the model.
    pub(crate) engine: Engine,
    /// The model's file.
    pub(crate) file: ModelFile,
    /// Bytes of the laid-out weights that are being kept meanwhile, where there are any: see [`settle`].
    pub(crate) keeping_bytes: Option<u64>,
}

/// A wait that is shorter than this needs no explanation.
const UNNOTICED: Duration = Duration::from_millis(300);

/// The cache and the sources, as the options say.
///
/// # Errors
/// Where no folder can be found for the cache.
pub(crate) fn hub(common: &Common) -> anyhow::Result<Hub> {
    let options = HubOptions {
        cache_dir: common.model_cache.clone(),
        // Without the option the environment decides.
        offline: common.offline.then_some(true),
        ..HubOptions::default()
    };
    Ok(Hub::new(options)?)
}

/// Bytes that this machine could still give to a model; none where that cannot be read.
pub(crate) fn memory_available_bytes() -> Option<u64> {
    // Whoever only looks needs no threads.
    let options = EngineOptions { threads: Some(1), threads_prefill: Some(1), ..EngineOptions::default() };
    Engine::new(options).ok()?.devices().first()?.memory_available_bytes
}

/// Makes the model called `name` ready, with progress on stderr.
///
/// # Errors
/// As [`Hub::resolve`], and where no model is called so.
pub(crate) fn fetch(name: &str, common: &Common) -> anyhow::Result<Found> {
    let name = ModelName::parse(name)?;
    let hub = hub(common)?;
    let mut view = FetchView::new();
    let mut downloaded = false;
    let file = hub.resolve(&name, &mut |event| {
        if let Progress::Done { downloaded: fresh, .. } = &event {
            downloaded = *fresh;
        }
        view.show(&event);
    })?;
    Ok(Found { file, downloaded })
}

/// The model called `name` where it is here already; nothing is fetched.
///
/// # Errors
/// As [`Hub::resolve`] but for a model that is not here, and where no model is called so.
pub(crate) fn find(name: &str, common: &Common) -> anyhow::Result<Option<ModelFile>> {
    let name = ModelName::parse(name)?;
    let hub = hub(&Common { offline: true, ..common.clone() })?;
    let mut view = FetchView::new();
    match hub.resolve(&name, &mut |event| view.show(&event)) {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.kind() == ErrorKind::Offline => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Makes the model called `name` ready and loads it. Ctrl-C ends its answers.
///
/// # Errors
/// As [`fetch`], and what the engine says about options, file, devices and memory.
pub(crate) fn load(
    name: &str,
    common: &Common,
    args: &EngineArgs,
    options: EngineOptions,
    interrupt: &Interrupt,
) -> anyhow::Result<Loaded> {
    let packing = packing(common, args.switches.no_pack)?;
    let options = EngineOptions { cancel: interrupt.flag(), packing, ..engine_options(args, options) };
    let mut engine = Engine::new(options)?;
    let found = fetch(name, common)?;
    let mut keeping_bytes = None;
    engine.load_model_with(&found.file.path, |event| match event {
        Event::Warning { message } | Event::DeviceWarning { message, .. } => warn(message),
        Event::Planned { plan } => warn_of_fallbacks(plan, name),
        Event::PackKept { bytes, folder } => {
            *keeping_bytes.get_or_insert(0) += bytes;
            say_kept(*bytes, folder);
        }
        Event::PackNotKept { reason } => say_not_kept(reason),
        Event::PackDiscarded { reason } => say_discarded(reason),
        _ => {}
    })?;
    Ok(Loaded { engine, file: found.file, keeping_bytes })
}

/// Waits until laid-out weights are kept, and says so to a person who would wonder why the program does not end. Without this call
/// they are left out where they are not kept yet.
pub(crate) fn settle(engine: &mut Engine, keeping_bytes: Option<u64>) {
    let Some(bytes) = keeping_bytes else { return };
    if !std::io::stderr().is_terminal() {
        return engine.settle();
    }
    std::thread::scope(|scope| {
        let (done, is_done) = channel::<()>();
        let explain = move || {
            if is_done.recv_timeout(UNNOTICED) == Err(RecvTimeoutError::Timeout) {
                let bytes = bytes_text(bytes);
                say(&format!("keeping the laid-out weights for the next start ({bytes}); Ctrl-C leaves them out"));
            }
        };
        // Without a thread the wait is the same, only unexplained.
        let _ = std::thread::Builder::new().spawn_scoped(scope, explain);
        engine.settle();
        drop(done);
    });
}

/// The options with what the command line and the environment say of devices, threads and sizes.
pub(crate) fn engine_options(args: &EngineArgs, options: EngineOptions) -> EngineOptions {
    EngineOptions {
        device: args.device.clone(),
        threads: args.threads.map(usize::from).or_else(threads_of_environment),
        threads_prefill: args.threads_prefill.map(usize::from),
        isa: isa_of_environment(),
        format: args.format,
        context: args.context.map(|context| context as usize),
        warm_up: !args.no_warmup,
        ..args.switches.apply(options)
    }
}

/// What becomes of weights that a device lays out: they are kept in the cache, unless the command line or the environment says
/// otherwise.
///
/// # Errors
/// Where no folder can be found for the cache.
pub(crate) fn packing(common: &Common, no_pack: bool) -> anyhow::Result<Packing> {
    if no_pack {
        return Ok(Packing::AsInFile);
    }
    let mut options = PackOptions::new(hub(common)?.cache_dir());
    options.max_bytes = pack_max_of_environment().unwrap_or(options.max_bytes);
    options.reading = pack_reading_of_environment().unwrap_or(options.reading);
    Ok(if options.max_bytes == 0 { Packing::InMemory } else { Packing::Kept(options) })
}

/// Says to a person that disk is used, for what, and what to do against it.
pub(crate) fn say_kept(bytes: u64, folder: &str) {
    if std::io::stderr().is_terminal() {
        let (bytes, folder) = (bytes_text(bytes), on_one_line(folder));
        say(&format!(
            "keeping the weights as laid out for this CPU, {bytes} in {folder}: later starts are faster \
             (`duan remove --packed` deletes them, DUAN_PACK_MAX=0 keeps no new ones)"
        ));
    }
}

/// Says to a person why later starts will be no faster.
fn say_not_kept(reason: &str) {
    if std::io::stderr().is_terminal() {
        say(&format!("laid-out weights are not kept: {}", on_one_line(reason)));
    }
}

/// Says to a person why a start was not as fast as the one before.
pub(crate) fn say_discarded(reason: &str) {
    if std::io::stderr().is_terminal() {
        say(&format!("laid-out weights were of no use and are made anew: {}", on_one_line(reason)));
    }
}

/// Says what runs on the device of last resort, as that costs most of the speed.
pub(crate) fn warn_of_fallbacks(plan: &Plan, name: &str) {
    let ops: usize = plan.fallbacks().iter().filter(|segment| segment.phase == Phase::Decode).map(|row| row.ops).sum();
    if ops > 0 {
        let ops = counted(ops, "op");
        warn(&format!("{ops} of each pass run on a slow device of last resort; `duan plan {name}` says which and why"));
    }
}

/// The devices that a plan uses, each once, as people read them: "cpu and reference".
pub(crate) fn devices_of(plan: &Plan) -> String {
    let mut names: Vec<&str> = Vec::new();
    for segment in plan.prefill.iter().chain(&plan.decode) {
        let name = plan.devices[segment.device].as_str();
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names.join(" and ")
}
