//! `duan complete MODEL -p TEXT`

use std::fs::File;
use std::io::stdin;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use duan::{CompleteOptions, EngineOptions};

use crate::answer::{AnswerJson, AnswerView, Place, Streaming, say_stats, stats_are_wanted};
use crate::args::{Common, EngineArgs, SamplingArgs};
use crate::interrupt::{INTERRUPTED, Interrupt};
use crate::open;
use crate::output::print_json;
use crate::talk::lines::whole_text;

/// Continue a text, without any template
///
/// The model sees exactly the text, with the token that begins a text before it where the model wants one. The
/// continuation goes to stdout.
#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("text").required(true).args(["prompt", "file"]))]
pub(crate) struct Args {
    /// Path, short name, hf:org/name[:Q4_K_M], ms:org/name, pypi:package or web address
    model: String,
    /// The text to continue; - reads it from stdin
    #[arg(short, long, value_name = "TEXT", allow_hyphen_values = true)]
    prompt: Option<String>,
    /// Read the text to continue from a file
    #[arg(short, long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Most tokens of the continuation
    #[arg(short = 'n', long, value_name = "N", default_value_t = 128,
          allow_negative_numbers = true, value_parser = clap::value_parser!(u32).range(1..))]
    max_tokens: u32,
    /// Say time and tokens on stderr also without a terminal
    #[arg(long)]
    stats: bool,
    #[command(flatten)]
    engine: EngineArgs,
    #[command(flatten)]
    sampling: SamplingArgs,
}

/// Continues the text.
pub(crate) fn run(args: Args, common: &Common) -> anyhow::Result<ExitCode> {
    let prompt = text_of(&args)?;
    let interrupt = Interrupt::install()?;
    let loaded = open::load(&args.model, common, &args.engine, EngineOptions::default(), &interrupt)?;
    let mut engine = loaded.engine;
    let mut options = CompleteOptions { max_tokens: Some(args.max_tokens as usize), ..CompleteOptions::default() };
    args.sampling.apply(&mut options.sampling);
    let view = AnswerView::new(if common.json { Streaming::Kept } else { Streaming::ToStdout });
    let answer = view.watch(&interrupt, Place::Once, |on_event| engine.complete_with(&prompt, &options, on_event))?;
    if common.json {
        print_json(&AnswerJson::new(&answer))?;
    }
    if stats_are_wanted(args.stats) {
        say_stats(&answer.timings);
    }
    if interrupt.was_pressed() {
        return Ok(ExitCode::from(INTERRUPTED));
    }
    open::settle(&mut engine, loaded.keeping_bytes);
    Ok(ExitCode::SUCCESS)
}

fn text_of(args: &Args) -> anyhow::Result<String> {
    match (&args.prompt, &args.file) {
        (Some(prompt), _) if prompt == "-" => whole_text(&mut stdin().lock(), "stdin"),
        (Some(prompt), _) => Ok(prompt.clone()),
        (None, Some(path)) => {
            let name = path.display().to_string();
            let mut file = File::open(path).with_context(|| format!("{name}: cannot open it"))?;
            whole_text(&mut file, &name)
        }
        // clap asks for one of them.
        (None, None) => Ok(String::new()),
    }
}
