//! `duan importance MODEL --text FILE -o OUT`

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use duan::eval::EvalText;
use duan::importance::{Gathered, ImportanceEvent, ImportanceOptions, gather};
use duan::{EngineOptions, Event, check_place};
use serde::Serialize;

use crate::args::{Common, SwitchArgs, isa_of_environment, threads_of_environment};
use crate::interrupt::{INTERRUPTED, Interrupt};
use crate::open;
use crate::output::style::on_one_line;
use crate::output::units::{counted, seconds_text};
use crate::output::work::WorkBar;
use crate::output::{print, print_json, say, warn};

/// Find out how much each column of a model's matrices is used, for `quantize --importance`
///
/// The model reads the text in windows of --context tokens, as llama-imatrix does, and what its matrices are multiplied with is
/// summed up by column. The file is an imatrix in GGUF, which llama.cpp's tools read too. It appears whole or not at all; Ctrl-C
/// leaves nothing. Its path goes to stdout.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Path, short name, hf:org/name[:Q4_K_M], ms:org/name, pypi:package or web address
    model: String,
    /// Text to read, UTF-8; may be given several times
    #[arg(long = "text", required = true, value_name = "FILE")]
    texts: Vec<PathBuf>,
    /// The file to write
    #[arg(short, long, value_name = "OUT")]
    out: PathBuf,
    /// Tokens of a window
    #[arg(long, value_name = "N", default_value_t = 512)]
    #[arg(value_parser = clap::value_parser!(u32).range(4..=1 << 24), allow_negative_numbers = true)]
    context: u32,
    /// The most windows of each text [default: all]
    #[arg(long, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..), allow_negative_numbers = true)]
    chunks: Option<u32>,
    /// Look at the matrix that makes the logits as well, which takes longer
    #[arg(long)]
    head: bool,
    /// Replace the file if it is there
    #[arg(long)]
    force: bool,
    /// Threads [default: those that a chat gets, see `duan devices`]
    #[arg(short = 't', long, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=1024), allow_negative_numbers = true)]
    threads: Option<u16>,
    /// Device to run on; `duan devices` lists them
    #[arg(long, value_name = "NAME")]
    device: Option<String>,
    #[command(flatten)]
    switches: SwitchArgs,
}

/// What is told of the file.
#[derive(Serialize)]
struct Told<'a> {
    path: &'a std::path::Path,
    texts: &'a [String],
    windows: usize,
    context: usize,
    tensors: usize,
}

/// Gathers and writes.
pub(crate) fn run(args: Args, common: &Common) -> anyhow::Result<ExitCode> {
    let interrupt = Interrupt::install()?;
    let texts = args.texts.iter().map(|path| EvalText::read(path)).collect::<Result<Vec<_>, _>>()?;
    let model = open::fetch(&args.model, common)?.file.path;
    check_place(&args.out, std::slice::from_ref(&model), &args.texts, args.force)?;
    let engine = EngineOptions {
        device: args.device.clone(),
        threads: args.threads.map(usize::from).or_else(threads_of_environment),
        threads_prefill: args.threads.map(usize::from).or_else(threads_of_environment),
        isa: isa_of_environment(),
        packing: open::packing(common, args.switches.no_pack)?,
        cancel: interrupt.flag(),
        ..args.switches.apply(EngineOptions::default())
    };
    let options = ImportanceOptions {
        engine,
        model,
        texts,
        context: args.context as usize,
        windows: args.chunks.map(|chunks| chunks as usize),
        head: args.head,
    };
    let gathered = {
        let _answering = interrupt.answer();
        let view = View { bar: WorkBar::new("reading"), started: Instant::now(), model: &args.model };
        gather(&options, |event| view.show(event))?
    };
    let Some(gathered) = gathered else {
        say("stopped; nothing was written");
        return Ok(ExitCode::from(INTERRUPTED));
    };
    gathered.write(&args.out, args.force)?;
    tell(&gathered, &args, common)
}

fn tell(gathered: &Gathered, args: &Args, common: &Common) -> anyhow::Result<ExitCode> {
    let Gathered { texts, windows, context, matrices } = gathered;
    if common.json {
        let told = Told { path: &args.out, texts, windows: *windows, context: *context, tensors: matrices.len() };
        print_json(&told)?;
        return Ok(ExitCode::SUCCESS);
    }
    let unused = matrices.values().filter(|matrix| matrix.counts.contains(&0)).count();
    if unused > 0 {
        let tensors = counted(unused, "tensor");
        warn(&format!(
            "of {tensors} the text did not use every expert; read a longer or more varied text to weigh them too"
        ));
    }
    say(&format!("{} read in {} of {context} tokens", counted(matrices.len(), "tensor"), counted(*windows, "window")));
    print(&format!("{}\n", args.out.display()))?;
    Ok(ExitCode::SUCCESS)
}

/// How far it is.
struct View<'a> {
    bar: WorkBar,
    started: Instant,
    model: &'a str,
}

impl View<'_> {
    fn show(&self, event: &ImportanceEvent<'_>) {
        match event {
            ImportanceEvent::Planned { plan } => self.bar.talk(|| open::warn_of_fallbacks(plan, self.model)),
            ImportanceEvent::Loading => self.bar.say(|| format!("loading {}", on_one_line(self.model))),
            ImportanceEvent::Warning { message } => self.bar.talk(|| warn(message)),
            ImportanceEvent::Progress { done, all, text } => self.bar.show(*done as u64, *all as u64, || {
                let left = self.started.elapsed().as_secs_f64() * (all - done) as f64 / (*done).max(1) as f64;
                format!("{} left, {}", seconds_text(left), on_one_line(text))
            }),
            ImportanceEvent::Engine(event) => match event {
                Event::DeviceWarning { message, .. } => self.bar.talk(|| warn(message)),
                Event::PackKept { bytes, folder } => self.bar.talk(|| open::say_kept(*bytes, folder)),
                Event::PackDiscarded { reason } => self.bar.talk(|| open::say_discarded(reason)),
                _ => {}
            },
            _ => {}
        }
    }
}
