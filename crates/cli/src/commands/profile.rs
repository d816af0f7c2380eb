//! `duan profile MODEL`

mod tables;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::CommandFactory as _;
use clap::error::ErrorKind;
use duan::ceilings::CeilingEvent;
use duan::profile::{ProfileEvent, ProfileOptions, Progress, profile};
use duan::{EngineOptions, Event, check_place};

use super::bench::head::head;
use crate::args::{Cli, Common, SwitchArgs, format as weight_format, isa_of_environment, threads_of_environment};
use crate::interrupt::{INTERRUPTED, Interrupt};
use crate::open;
use crate::output::page::PageFile;
use crate::output::style::on_one_line;
use crate::output::work::WorkBar;
use crate::output::{print, print_json, say, warn};

/// Show where the time goes: for each op of prefill and decode its device, kernel, time, bytes and share of the ceiling
///
/// Rounds in which every op is timed and rounds in which none is run in turn, and what the timing costs is told. Ops that the device runs
/// together are told together. GB/s is what an op reads of weights, keys, values and states, over its time; the ceiling of decode is the
/// memory's bandwidth, that of prefill what the multiplier gives (`duan devices --ceilings`). What no op explains stands below the ops.
/// Tokens are made up, as those of `duan bench`. docs/profile.md explains the figures.
#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("files").args(["trace", "html"]).multiple(true))]
pub(crate) struct Args {
    /// Path, short name, hf:org/name[:Q4_K_M], ms:org/name, pypi:package or web address
    model: String,
    /// Tokens of prefill; 0 for none
    #[arg(short = 'p', long, value_name = "N", default_value_t = 256)]
    #[arg(value_parser = clap::value_parser!(u32).range(0..=1 << 17), allow_negative_numbers = true)]
    n_prompt: u32,
    /// Tokens of decode behind them; 0 for none
    #[arg(short = 'n', long, value_name = "N", default_value_t = 32)]
    #[arg(value_parser = clap::value_parser!(u32).range(0..=1024), allow_negative_numbers = true)]
    n_gen: u32,
    /// Tokens of context before both
    #[arg(short = 'd', long, value_name = "N", default_value_t = 0)]
    #[arg(value_parser = clap::value_parser!(u32).range(0..=1 << 24), allow_negative_numbers = true)]
    n_depth: u32,
    /// How many rounds are timed op by op; as many are not
    #[arg(short = 'r', long, value_name = "N", default_value_t = 5)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=100), allow_negative_numbers = true)]
    rounds: u32,
    /// How many single ops are listed, those that took longest first
    #[arg(long, value_name = "N", default_value_t = 10)]
    #[arg(value_parser = clap::value_parser!(u32).range(0..=100_000), allow_negative_numbers = true)]
    top: u32,
    /// Write every single time as a trace that Perfetto (ui.perfetto.dev) and Chrome's about:tracing open
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Write it as one HTML page too
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Replace the files of trace and page if they are there
    #[arg(long, requires = "files")]
    force: bool,
    /// Measure the machine's ceilings anew, though those that are kept still hold
    #[arg(long)]
    again: bool,
    /// Threads [default: those that a chat gets, see `duan devices`]
    #[arg(short = 't', long, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=1024), allow_negative_numbers = true)]
    threads: Option<u16>,
    /// Threads of prefill [default: as for decode]
    #[arg(long, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=1024), allow_negative_numbers = true)]
    threads_prefill: Option<u16>,
    /// Device to run on; `duan devices` lists them
    #[arg(long, value_name = "NAME")]
    device: Option<String>,
    /// Bring float matrices into this weight format while loading, as in a chat
    #[arg(long, value_name = "F", value_parser = weight_format)]
    format: Option<&'static duan::quant::Format>,
    #[command(flatten)]
    switches: SwitchArgs,
}

/// Runs the rounds, then prints tables and writes the trace.
pub(crate) fn run(args: Args, common: &Common) -> anyhow::Result<ExitCode> {
    if args.n_prompt + args.n_gen == 0 {
        let message = "nothing is left to run: ask for at least 1 token with -p or -n";
        Cli::command().error(ErrorKind::ArgumentConflict, message).exit();
    }
    let interrupt = Interrupt::install()?;
    let model = open::fetch(&args.model, common)?.file.path;
    if let Some(trace) = &args.trace {
        check_place(trace, std::slice::from_ref(&model), &[], args.force)?;
    }
    let page = PageFile::checked(args.html.as_deref(), args.force, &[&model])?;
    let engine = EngineOptions {
        device: args.device.clone(),
        threads: args.threads.map(usize::from).or_else(threads_of_environment),
        threads_prefill: args.threads_prefill.map(usize::from),
        isa: isa_of_environment(),
        format: args.format,
        packing: open::packing(common, args.switches.no_pack)?,
        cancel: interrupt.flag(),
        ..args.switches.apply(EngineOptions::default())
    };
    let options = ProfileOptions {
        engine,
        prompt: args.n_prompt as usize,
        generate: args.n_gen as usize,
        depth: args.n_depth as usize,
        rounds: args.rounds as usize,
        ceilings_folder: duan::ceilings::folder(),
        ceilings_again: args.again,
    };
    let mut written = Ok(());
    let profiled = {
        let _answering = interrupt.answer();
        let view = View { bar: WorkBar::new("profiling"), model: &args.model };
        profile(&model, &options, |event| match event {
            ProfileEvent::Ready(setup) if !common.json => view.bar.talk(|| written = print(&head(setup))),
            other => view.show(other),
        })?
    };
    written?;
    let Some(profiled) = profiled else {
        say("stopped; there is no profile");
        return Ok(ExitCode::from(INTERRUPTED));
    };
    if let Some(trace) = &args.trace {
        profiled.write_trace(trace, args.force)?;
    }
    if common.json {
        print_json(&profiled)?;
    } else {
        let phases = profiled.profile.phases.iter().map(|phase| tables::phase(phase, args.top as usize));
        print(&phases.collect::<Vec<_>>().join("\n"))?;
    }
    if let Some(trace) = &args.trace {
        say(&format!(
            "trace: {}; open it at ui.perfetto.dev or in Chrome's about:tracing",
            on_one_line(&trace.to_string_lossy())
        ));
    }
    if let Some(page) = page {
        page.write(&duan::page::of_profile(&profiled)?)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// How far it is.
struct View<'a> {
    bar: WorkBar,
    model: &'a str,
}

impl View<'_> {
    fn show(&self, event: &ProfileEvent<'_>) {
        match event {
            ProfileEvent::Planned { plan } => self.bar.talk(|| open::warn_of_fallbacks(plan, self.model)),
            ProfileEvent::Ceilings(CeilingEvent::Measuring { .. }) => {
                self.bar.say(|| "the machine's ceilings".to_owned());
            }
            ProfileEvent::Ceilings(CeilingEvent::NotKept { reason }) => {
                self.bar.talk(|| warn(&format!("the machine's ceilings are not kept: {reason}")));
            }
            ProfileEvent::Loading => self.bar.say(|| format!("loading {}", on_one_line(self.model))),
            ProfileEvent::Warning { message } => self.bar.talk(|| warn(message)),
            ProfileEvent::Progress(Progress::WarmingUp) => self.bar.say(|| "warm-up".to_owned()),
            ProfileEvent::Progress(Progress::FillingContext) => self.bar.say(|| "context".to_owned()),
            ProfileEvent::Progress(Progress::Round { index, of }) => {
                self.bar.show(*index as u64, *of as u64, || format!("round {} of {of}", index + 1));
            }
            ProfileEvent::Engine(event) => match event {
                Event::DeviceWarning { message, .. } => self.bar.talk(|| warn(message)),
                Event::PackKept { bytes, folder } => self.bar.talk(|| open::say_kept(*bytes, folder)),
                Event::PackDiscarded { reason } => self.bar.talk(|| open::say_discarded(reason)),
                _ => {}
            },
            _ => {}
        }
    }
}
