//! Commands that tell of a machine, bounded in time and output.

use std::fmt;
use std::io::Read as _;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use crate::source::{Unreadable, Why, why};

/// A command that takes longer is ended.
const TIME_LIMIT: Duration = Duration::from_secs(2);

/// A command that prints more is ended.
const OUTPUT_LIMIT_BYTES: u64 = 256 << 10;

/// How long to sleep between two looks at a command that has closed its output.
const WAIT: Duration = Duration::from_millis(1);

/// Runs commands, or tells what they would print.
pub trait RunCommand: fmt::Debug + Send + Sync {
    /// What a command prints.
    ///
    /// # Errors
    /// Where there is no such program, it fails, takes too long or prints too much.
    fn run(&self, program: &str, arguments: &[&str]) -> Result<String, Unreadable>;
}

/// The programs of this machine, found as a shell finds them.
#[derive(Debug, Clone, Copy)]
pub struct SystemCommands;

impl RunCommand for SystemCommands {
    fn run(&self, program: &str, arguments: &[&str]) -> Result<String, Unreadable> {
        bounded(program, arguments, TIME_LIMIT).map_err(|why| Unreadable::of_command(program, arguments, why))
    }
}

/// No programs at all.
#[derive(Debug, Clone, Copy)]
pub struct NoCommands;

impl RunCommand for NoCommands {
    fn run(&self, program: &str, arguments: &[&str]) -> Result<String, Unreadable> {
        Err(Unreadable::of_command(program, arguments, Why::NoProgram))
    }
}

fn bounded(program: &str, arguments: &[&str], limit: Duration) -> Result<String, Why> {
    let begun = Instant::now();
    let mut command = Command::new(program);
    command.args(arguments).env("LC_ALL", "C");
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().map_err(
        |error| match why(&error) {
            Why::Absent => Why::NoProgram,
            other => other,
        },
    )?;
    let result = output(&mut child, begun, limit);
    if result.is_err() {
        // It may have ended by itself meanwhile.
        let _ = child.kill();
        let _ = child.wait();
    }
    result
}

/// What the child prints before it ends; it is left running where this is an error.
fn output(child: &mut Child, begun: Instant, limit: Duration) -> Result<String, Why> {
    let timed_out = || Why::TimedOut(limit.as_millis() as u64);
    let Some(stdout) = child.stdout.take() else { return Err(Why::Other("its output cannot be read".to_owned())) };
    // A read cannot be given up, so another thread does it. It ends with the command, or with the last that inherited its output.
    let (send, receive) = mpsc::channel();
    let read = move || {
        let mut bytes = Vec::new();
        let result = stdout.take(OUTPUT_LIMIT_BYTES + 1).read_to_end(&mut bytes).map(|_| bytes);
        // Nobody waits any more where the time is over.
        let _ = send.send(result);
    };
    thread::Builder::new().spawn(read).map_err(|error| why(&error))?;
    let bytes = receive.recv_timeout(limit.saturating_sub(begun.elapsed())).map_err(|_| timed_out())?;
    let bytes = bytes.map_err(|error| why(&error))?;
    if bytes.len() as u64 > OUTPUT_LIMIT_BYTES {
        return Err(Why::TooLong(OUTPUT_LIMIT_BYTES));
    }
    loop {
        match child.try_wait().map_err(|error| why(&error))? {
            Some(status) if status.success() => return Ok(String::from_utf8_lossy(&bytes).into_owned()),
            Some(status) => return Err(Why::Other(format!("failed with {status}"))),
            None if begun.elapsed() >= limit => return Err(timed_out()),
            None => thread::sleep(WAIT),
        }
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    /// Long enough for a busy machine.
    const AMPLE: Duration = Duration::from_secs(60);
    const SHORT: Duration = Duration::from_millis(100);

    fn shell(script: &str, limit: Duration) -> Result<String, Why> {
        bounded("sh", &["-c", script], limit)
    }

    #[test]
    fn what_is_printed_comes_back() {
        assert_eq!(shell("printf 'a\\nb'; echo hidden >&2", AMPLE), Ok("a\nb".to_owned()));
        assert_eq!(shell("cat", AMPLE), Ok(String::new()), "nothing can be typed");
        assert_eq!(shell("printf '\\377'", AMPLE), Ok("\u{fffd}".to_owned()));
    }

    #[test]
    fn failures_say_what_happened() {
        assert_eq!(shell("exit 3", AMPLE), Err(Why::Other("failed with exit status: 3".to_owned())));
        let error = SystemCommands.run("duan-no-such-program", &["-x"]).unwrap_err();
        assert_eq!(error.to_string(), "duan-no-such-program -x: no such program");
        assert_eq!(NoCommands.run("sh", &[]).unwrap_err().to_string(), "sh: no such program");
    }

    #[test]
    fn what_never_ends_is_ended() {
        assert_eq!(shell("exec sleep 600", SHORT), Err(Why::TimedOut(100)));
        assert_eq!(shell("exec >&-; exec sleep 600", SHORT), Err(Why::TimedOut(100)), "it closes its output and stays");
        assert_eq!(shell("while :; do echo line; done", AMPLE), Err(Why::TooLong(OUTPUT_LIMIT_BYTES)));
    }
}
