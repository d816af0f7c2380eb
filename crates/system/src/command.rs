//! Commands that tell of a machine, bounded in time and output.

use std::fmt;
use std::io::Read;
use std::process::{Child, Command, ExitStatus, Stdio};
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

/// What a program printed before it ended is read within this time, however busy the machine is.
const LEFT_WAIT: Duration = Duration::from_secs(5);

/// How long to wait for output before it is asked whether the command is to be given up.
const READ_WAIT: Duration = Duration::from_millis(20);

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
    command.args(arguments).env("LC_ALL", "C").stderr(Stdio::null());
    let mut give_up = || (begun.elapsed() >= limit).then_some(Why::TimedOut(limit.as_millis() as u64));
    let ended = run_to_end(&mut command, OUTPUT_LIMIT_BYTES, &mut give_up)?;
    if !ended.status.success() {
        return Err(Why::Other(format!("failed with {}", ended.status)));
    }
    Ok(String::from_utf8_lossy(&ended.stdout).into_owned())
}

/// What a program printed, and how it ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended {
    /// What it printed for programs.
    pub stdout: Vec<u8>,
    /// What it printed for people; nothing where its stderr is not piped.
    pub stderr: Vec<u8>,
    /// Its exit code, or the signal that ended it.
    pub status: ExitStatus,
}

/// Runs a command until it ends by itself. It gets no input; its stdout is read, and its stderr where that is piped. `give_up` is asked
/// again and again for a reason to end it.
///
/// # Errors
/// Where there is no such program, it prints more than `limit_bytes` on either way, or `give_up` has a reason: then it is ended.
pub fn run_to_end(
    command: &mut Command,
    limit_bytes: u64,
    give_up: &mut dyn FnMut() -> Option<Why>,
) -> Result<Ended, Why> {
    #[cfg(unix)]
    {
        use std::os::unix::process::CommandExt as _;
        // A group of its own, so that what it has started can be ended with it.
        command.process_group(0);
    }
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().map_err(|error| match why(&error) {
        Why::Absent => Why::NoProgram,
        other => other,
    })?;
    let result = output(&mut child, limit_bytes, give_up);
    if result.is_err() {
        end(&mut child);
    }
    result
}

/// Ends a child, and with it what it has started; it may have ended by itself meanwhile.
fn end(child: &mut Child) {
    #[cfg(unix)]
    if let Some(group) = i32::try_from(child.id()).ok().and_then(rustix::process::Pid::from_raw) {
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
    }
    let _ = child.kill();
    let _ = child.wait();
}

/// What the child prints before it ends; it is left running where this is an error.
fn output(child: &mut Child, limit_bytes: u64, give_up: &mut dyn FnMut() -> Option<Why>) -> Result<Ended, Why> {
    let (send, receive) = mpsc::channel();
    let streams: [Option<Box<dyn Read + Send>>; 2] = [
        child.stdout.take().map(|stream| Box::new(stream) as _),
        child.stderr.take().map(|stream| Box::new(stream) as _),
    ];
    let mut open = 0;
    for (place, stream) in streams.into_iter().enumerate() {
        let Some(stream) = stream else { continue };
        // A read cannot be given up, so another thread does it. It ends with the command, or with the last that inherited its output.
        let send = send.clone();
        let read = move || {
            let mut bytes = Vec::new();
            let result = stream.take(limit_bytes.saturating_add(1)).read_to_end(&mut bytes).map(|_| bytes);
            // Nobody waits any more where it was given up.
            let _ = send.send((place, result));
        };
        thread::Builder::new().spawn(read).map_err(|error| why(&error))?;
        open += 1;
    }
    let (mut printed, mut ended_at) = ([Vec::new(), Vec::new()], None);
    while open > 0 {
        if let Some(why) = give_up() {
            return Err(why);
        }
        // The sender of this function is there still, so that only the time can be over.
        let Ok((place, bytes)) = receive.recv_timeout(READ_WAIT) else {
            if ended_at.is_none() && child.try_wait().map_err(|error| why(&error))?.is_some() {
                ended_at = Some(Instant::now());
            }
            if ended_at.is_some_and(|at| at.elapsed() >= LEFT_WAIT) {
                return Err(Why::Other("it ended, and left a program behind that holds its output open".to_owned()));
            }
            continue;
        };
        let bytes = bytes.map_err(|error| why(&error))?;
        if bytes.len() as u64 > limit_bytes {
            return Err(Why::TooLong(limit_bytes));
        }
        printed[place] = bytes;
        open -= 1;
    }
    let [stdout, stderr] = printed;
    loop {
        match child.try_wait().map_err(|error| why(&error))? {
            Some(status) => return Ok(Ended { stdout, stderr, status }),
            None => match give_up() {
                Some(why) => return Err(why),
                None => thread::sleep(WAIT),
            },
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
    fn both_ways_and_the_exit_code_are_told() {
        let run = |script: &str| {
            let mut command = Command::new("sh");
            command.args(["-c", script]).stderr(Stdio::piped());
            run_to_end(&mut command, 100, &mut || None)
        };
        let ended = run("echo out; echo talk >&2; exit 7").unwrap();
        assert_eq!(
            (&ended.stdout[..], &ended.stderr[..], ended.status.code()),
            (&b"out\n"[..], &b"talk\n"[..], Some(7))
        );
        assert_eq!(run("yes >&2"), Err(Why::TooLong(100)));
    }

    /// Whether a process runs; one that nobody has waited for yet does not.
    #[cfg(target_os = "linux")]
    fn runs(pid: &str) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
        stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn what_a_command_leaves_behind_is_not_waited_for_and_ended() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("pid");
        let mut command = Command::new("sh");
        command.arg("-c").arg("sleep 600 & echo $! > \"$0\"").arg(&file);
        let ended = run_to_end(&mut command, 100, &mut || None);
        assert_eq!(ended, Err(Why::Other("it ended, and left a program behind that holds its output open".to_owned())));
        let pid = std::fs::read_to_string(file).unwrap();
        // A signal arrives when the system likes.
        let begun = Instant::now();
        while runs(&pid) {
            assert!(begun.elapsed() < AMPLE, "process {pid} goes on");
            thread::sleep(WAIT);
        }
    }

    #[test]
    fn a_command_is_given_up_when_it_is_asked_for() {
        let mut asked = 0;
        let mut give_up = || {
            asked += 1;
            (asked == 3).then(|| Why::Other("stopped".to_owned()))
        };
        let mut command = Command::new("sleep");
        command.arg("600");
        assert_eq!(run_to_end(&mut command, 100, &mut give_up), Err(Why::Other("stopped".to_owned())));
    }

    #[test]
    fn what_never_ends_is_ended() {
        assert_eq!(shell("exec sleep 600", SHORT), Err(Why::TimedOut(100)));
        assert_eq!(shell("exec >&-; exec sleep 600", SHORT), Err(Why::TimedOut(100)), "it closes its output and stays");
        assert_eq!(shell("while :; do echo line; done", AMPLE), Err(Why::TooLong(OUTPUT_LIMIT_BYTES)));
    }
}
