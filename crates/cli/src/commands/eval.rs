//! `duan eval MODEL... --text FILE`

mod table;

use std::io::{IsTerminal as _, Read as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use anyhow::Context as _;
use duan::eval::{EvalEvent, EvalOptions, EvalText, Evaluation, chart, evaluate};
use duan::{EngineOptions, Event, check_place};

use crate::args::{Common, SwitchArgs, isa_of_environment, threads_of_environment};
use crate::interrupt::{INTERRUPTED, Interrupt};
use crate::open;
use crate::output::style::on_one_line;
use crate::output::units::{bytes_text, seconds_text};
use crate::output::work::WorkBar;
use crate::output::{print, print_json, say, warn};

/// Judge models by a text: perplexity, and how far they are from a reference
///
/// As llama-perplexity does it: windows of --context tokens, the token that begins texts in place of each first one where the model has
/// it, the second half of each window scored. Each number comes with its standard error. With --against: KL divergence from the
/// reference in nats (mean, median, and what 99 % of the tokens are below), how often both find the same token the likeliest, and the ratio of
/// perplexities with the error of the tokens' differences.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Paths, short names, hf:org/name[:Q4_K_M], ms:org/name, pypi:package or web addresses
    #[arg(required = true, value_name = "MODEL")]
    models: Vec<String>,
    /// Text to judge by, UTF-8; several are judged one by one
    #[arg(long = "text", required = true, value_name = "FILE")]
    texts: Vec<PathBuf>,
    /// Model to compare with, of the same vocabulary
    #[arg(long, value_name = "MODEL")]
    against: Option<String>,
    /// Tokens of a window
    #[arg(long, value_name = "N", default_value_t = 512)]
    #[arg(value_parser = clap::value_parser!(u32).range(4..=1 << 24), allow_negative_numbers = true)]
    context: u32,
    /// The most windows of each text [default: all]
    #[arg(long, value_name = "N", conflicts_with = "tokens")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..), allow_negative_numbers = true)]
    chunks: Option<u32>,
    /// The same in tokens: as many windows as begin within them
    #[arg(long, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..), allow_negative_numbers = true)]
    tokens: Option<u32>,
    /// Measure the rate of decode as well
    #[arg(long)]
    bench: bool,
    /// Draw quality against size, and against the rate with --bench, as an SVG picture
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
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

/// Judges the models.
pub(crate) fn run(args: Args, common: &Common) -> anyhow::Result<ExitCode> {
    let interrupt = Interrupt::install()?;
    let texts = args.texts.iter().map(|path| EvalText::read(path)).collect::<Result<Vec<_>, _>>()?;
    let engine = EngineOptions {
        device: args.device.clone(),
        threads: args.threads.map(usize::from).or_else(threads_of_environment),
        isa: isa_of_environment(),
        packing: open::packing(common, args.switches.no_pack)?,
        cancel: interrupt.flag(),
        ..args.switches.apply(EngineOptions::default())
    };
    let path = |name: &String| anyhow::Ok(open::fetch(name, common)?.file.path);
    let models: Vec<PathBuf> = args.models.iter().map(path).collect::<anyhow::Result<_>>()?;
    if let Some(picture) = &args.svg {
        check_picture(picture, &models, &args.texts)?;
    }
    let windows = args.chunks.or_else(|| args.tokens.map(|tokens| tokens.div_ceil(args.context)));
    let options = EvalOptions {
        engine,
        models,
        against: args.against.as_ref().map(path).transpose()?,
        texts,
        context: args.context as usize,
        windows: windows.map(|windows| windows as usize),
        bench: args.bench,
        together: None,
        folder: open::hub(common)?.cache_dir().join("eval"),
    };
    let evaluation = {
        let _answering = interrupt.answer();
        let view = View { bar: WorkBar::new("judging"), started: Instant::now() };
        evaluate(&options, |event| view.show(event))?
    };
    let Some(evaluation) = evaluation else {
        say("stopped; nothing was judged to its end");
        return Ok(ExitCode::from(INTERRUPTED));
    };
    if common.json {
        print_json(&evaluation.rows)?;
    } else {
        print(&table::text(&evaluation))?;
    }
    if let Some(path) = &args.svg {
        draw(&evaluation, path)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// That a picture cannot be drawn is said before the models are judged. What is there is replaced only where it is a picture too.
fn check_picture(path: &Path, models: &[PathBuf], texts: &[PathBuf]) -> anyhow::Result<()> {
    if path.exists() && !path.is_file() && !path.is_dir() {
        return Ok(()); // stdout or the like
    }
    check_place(path, models, texts, true)?;
    let mut start = [0; 4];
    let is_other =
        std::fs::File::open(path).is_ok_and(|mut file| file.read_exact(&mut start).is_err() || &start != b"<svg");
    if is_other {
        anyhow::bail!("{} exists already, is no picture and was not changed; name another file", path.display());
    }
    Ok(())
}

/// Writes the picture. The reference has no divergence from itself, and stands in it where perplexities do.
fn draw(evaluation: &Evaluation, path: &Path) -> anyhow::Result<()> {
    let picture = chart::svg(&evaluation.rows).map_err(|error| anyhow::anyhow!("cannot draw: {error}"))?;
    let written = std::fs::write(path, picture.unwrap_or_default());
    written.with_context(|| format!("{}: cannot write the picture", path.display()))
}

/// How far it is.
struct View {
    bar: WorkBar,
    started: Instant,
}

impl View {
    fn show(&self, event: &EvalEvent<'_>) {
        match event {
            EvalEvent::Planned { model, plan } => self.bar.talk(|| open::warn_of_fallbacks(plan, model)),
            EvalEvent::Loading { model } => self.bar.say(|| format!("loading {}", on_one_line(model))),
            EvalEvent::Timing { model } => self.bar.say(|| format!("timing {}", on_one_line(model))),
            EvalEvent::Warning { message } => self.bar.talk(|| warn(message)),
            EvalEvent::LogitsKept { bytes } if std::io::stderr().is_terminal() => self.bar.talk(|| {
                let bytes = bytes_text(*bytes);
                say(&format!("memory has no room for all models at once: the reference's logits go to the disk meanwhile ({bytes})"));
            }),
            EvalEvent::Progress { done, all, model, text } => self.bar.show(*done as u64, *all as u64, || {
                let left = self.started.elapsed().as_secs_f64() * (all - done) as f64 / (*done).max(1) as f64;
                format!("{} left, {} on {}", seconds_text(left), on_one_line(model), on_one_line(text))
            }),
            EvalEvent::Engine(event) => self.show_engine(event),
            _ => {}
        }
    }

    fn show_engine(&self, event: &Event<'_>) {
        match event {
            Event::DeviceWarning { message, .. } => self.bar.talk(|| warn(message)),
            Event::PackKept { bytes, folder } => self.bar.talk(|| open::say_kept(*bytes, folder)),
            Event::PackDiscarded { reason } => self.bar.talk(|| open::say_discarded(reason)),
            _ => {}
        }
    }
}
