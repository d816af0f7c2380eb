//! The commands, one file each.

mod bench;
mod chat;
mod compare;
mod complete;
mod convert;
mod devices;
mod eval;
mod fetch;
mod importance;
mod inspect;
mod list;
mod plan;
mod profile;
mod quantize;
mod records;
mod remove;
mod synth;
mod tokenize;

use std::process::ExitCode;

use clap::Subcommand;

use crate::args::Common;

/// What duan can be told to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Chat(chat::Args),
    Complete(complete::Args),
    Tokenize(tokenize::Args),
    Fetch(fetch::Args),
    List(list::Args),
    Remove(remove::Args),
    Inspect(inspect::Args),
    Devices(devices::Args),
    Plan(plan::Args),
    Bench(bench::Args),
    Profile(profile::Args),
    Records(records::Args),
    Compare(compare::Args),
    Convert(convert::Args),
    Quantize(quantize::Args),
    Importance(importance::Args),
    Eval(eval::Args),
    Synth(synth::Args),
}

/// Runs one command.
///
/// # Errors
/// What the command says; `main` prints it.
pub(crate) fn run(command: Command, common: &Common) -> anyhow::Result<ExitCode> {
    match command {
        Command::Chat(args) => chat::run(args, common),
        Command::Complete(args) => complete::run(args, common),
        Command::Tokenize(args) => tokenize::run(args, common),
        Command::Fetch(args) => fetch::run(args, common),
        Command::List(args) => list::run(args, common),
        Command::Remove(args) => remove::run(args, common),
        Command::Inspect(args) => inspect::run(args, common),
        Command::Devices(args) => devices::run(args, common),
        Command::Plan(args) => plan::run(args, common),
        Command::Bench(args) => bench::run(args, common),
        Command::Profile(args) => profile::run(args, common),
        Command::Records(args) => records::run(args, common),
        Command::Compare(args) => compare::run(args, common),
        Command::Convert(args) => convert::run(args, common),
        Command::Eval(args) => eval::run(args, common),
        Command::Importance(args) => importance::run(args, common),
        Command::Synth(args) => synth::run(args, common),
        Command::Quantize(args) => quantize::run(args, common),
    }
}
