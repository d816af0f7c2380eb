//! The program `duan`: words in, words out.
//!
//! What it is: a face of the crate `duan`. It reads the command line, shows events and prints results; every decision
//! about models, devices and files is made below it. It must never know a vendor, a file format's bytes, or how
//! anything is computed.
//!
//! Start reading at [`commands`]: one file per command, each with its options (`Args`) and what it does (`run`).
//! [`args`] holds the options that several commands share, [`output`] how data, talk, tables and progress look,
//! [`talk`] how a person types, [`answer`] how an answer is shown while it is made.
//!
//! Rules: stdout is data and stderr is talk; without a terminal everything is plain text; colour never carries a
//! meaning alone; a table chooses its unit once; each error and warning is one line with its remedy. Exit codes: 0
//! done, 1 failed, 2 wrong usage, 130 ended by Ctrl-C.

mod answer;
mod args;
mod ceilings;
mod commands;
mod interrupt;
mod logging;
mod open;
mod output;
mod talk;

use std::io;
use std::panic::{self, AssertUnwindSafe};
use std::process::ExitCode;

use clap::Parser as _;

use crate::output::{Style, say, style};

/// Counts while `duan profile` asks it to, and otherwise is the system's.
#[global_allocator]
static ALLOCATOR: duan::profile::CountingAllocator = duan::profile::CountingAllocator;

fn main() -> ExitCode {
    let cli = args::Cli::parse();
    hide_backtraces();
    logging::start();
    let ran = panic::catch_unwind(AssertUnwindSafe(|| commands::run(cli.command, &cli.common)));
    // A panic was told where it happened; it may have been in another thread, whose work failed with it.
    let Ok(result) = ran else { return ExitCode::FAILURE };
    match result {
        Ok(code) => code,
        // `duan ... | head` has read enough: nothing failed.
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            report(&error);
            ExitCode::FAILURE
        }
    }
}

/// One line on stderr: what happened, where, and what to do. The causes follow behind colons where they add something.
fn report(error: &anyhow::Error) {
    let mut text = error.to_string();
    for cause in error.chain().skip(1) {
        let cause = cause.to_string();
        if !text.contains(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    let word = Style::stderr().error("error:");
    say(&format!("duan: {word} {}", style::on_one_line(&text)));
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.chain().filter_map(|cause| cause.downcast_ref::<io::Error>()).any(|e| e.kind() == io::ErrorKind::BrokenPipe)
}

/// A panic is a fault of ours. People get one line to report; RUST_BACKTRACE brings the whole story.
fn hide_backtraces() {
    if std::env::var_os("RUST_BACKTRACE").is_some_and(|value| value != "0") {
        return;
    }
    panic::set_hook(Box::new(|panic| {
        let message = panic.payload_as_str().unwrap_or("no message");
        let place = panic.location().map(ToString::to_string).unwrap_or_default();
        say(&format!(
            "duan: error: a fault in duan itself at {place}: {}; please report it with the command that shows it \
             (RUST_BACKTRACE=1 tells more)",
            style::on_one_line(message)
        ));
        if ends_program(std::thread::current().name()) {
            std::process::exit(1);
        }
    }));
}

/// Whether a panic of the thread of this name ends the program. Those who wait for other threads say what failed with them:
/// the template engine's panic, for example, is an error of the answer and not the end of the conversation.
fn ends_program(thread: Option<&str>) -> bool {
    thread == Some("main")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_main_thread_ends_the_program() {
        assert!(ends_program(Some("main")));
        let named = std::thread::Builder::new().name("worker".to_owned()).spawn(|| {
            assert!(!ends_program(std::thread::current().name()));
        });
        named.unwrap().join().unwrap();
        assert!(!std::thread::spawn(|| ends_program(std::thread::current().name())).join().unwrap());
    }
}
