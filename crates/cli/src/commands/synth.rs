//! `duan synth SHAPE --format F OUT`

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::builder::PossibleValuesParser;
use duan::synth::{self, MIXES, Mix, SHAPES, Shape, SynthOptions, Synthesized};
use serde::Serialize;

use crate::args::Common;
use crate::interrupt::{INTERRUPTED, Interrupt};
use crate::output::units::{bytes_text, counted, grouped};
use crate::output::work::WorkBar;
use crate::output::{print, print_json, say};

/// Write a model of random weights with the true shape of a public one, to be timed without a download
///
/// Layers, widths, heads, windows, formats and the size of the vocabulary are those of the public model; what it writes is
/// nonsense. The file appears whole or not at all. Its path goes to stdout.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The public model
    #[arg(value_parser = PossibleValuesParser::new(SHAPES.iter().map(|shape| shape.name)), ignore_case = true)]
    shape: String,
    /// The file to write
    out: PathBuf,
    /// Format of the matrices; embedding table and head have Q6_K in place of block formats but q8_0
    #[arg(long, value_name = "F", ignore_case = true)]
    #[arg(value_parser = PossibleValuesParser::new(MIXES.iter().map(|mix| mix.name)))]
    format: String,
    /// The same seed gives the same bytes
    #[arg(long, value_name = "N", default_value_t = 0, allow_negative_numbers = true)]
    seed: u64,
    /// Replace the file if it is there
    #[arg(long)]
    force: bool,
}

/// What is told of the file.
#[derive(Serialize)]
struct Told<'a> {
    path: &'a std::path::Path,
    #[serde(flatten)]
    file: &'a Synthesized,
}

/// Writes the file.
pub(crate) fn run(args: Args, common: &Common) -> anyhow::Result<ExitCode> {
    let missing = |what: &str| anyhow::anyhow!("{what} is not known; `duan synth --help` lists what is");
    let shape = Shape::by_name(&args.shape).ok_or_else(|| missing(&args.shape))?;
    let mix = Mix::by_name(&args.format).ok_or_else(|| missing(&args.format))?;
    let options = SynthOptions { shape, mix, seed: args.seed, force: args.force };
    let interrupt = Interrupt::install()?;
    let written = {
        let _answering = interrupt.answer();
        let bar = WorkBar::new("writing");
        synth::write(&options, &args.out, |done, all| {
            bar.show(done, all, || format!("{} of {}", bytes_text(done), bytes_text(all)));
            if interrupt.was_pressed() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?
    };
    let Some(file) = written else {
        say("stopped; nothing was left behind");
        return Ok(ExitCode::from(INTERRUPTED));
    };
    if common.json {
        print_json(&Told { path: &args.out, file: &file })?;
        return Ok(ExitCode::SUCCESS);
    }
    say(&format!(
        "synthetic {} in {}: {}, {} weights in {}, a vocabulary of {}",
        file.shape,
        file.format,
        bytes_text(file.bytes),
        grouped(file.parameters),
        counted(file.tensors, "tensor"),
        counted(file.vocab_size, "token")
    ));
    print(&format!("{}\n", args.out.display()))?;
    Ok(ExitCode::SUCCESS)
}
