//! Files that appear whole or not at all, however the program that writes them is ended.
#![cfg(unix)]

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use duan::model::gguf::write::GgufWriter;

use crate::common::{Home, Ran, ran};

/// A model of one matrix that takes a while to be written.
fn large(home: &Home, megabytes: usize) -> &'static str {
    let rows = megabytes << 8;
    let row: Vec<u8> = (0..1024u32).flat_map(|at| (((at * 7919) % 1000) as f32 / 5000.0 - 0.1).to_le_bytes()).collect();
    let mut writer = GgufWriter::new("large");
    writer.key("general.architecture", "llama").unwrap();
    writer.tensor("blk.0.attn_q.weight", &[1024, rows as u64], 0, row.repeat(rows)).unwrap();
    home.file("large.gguf", &writer.to_bytes())
}

/// What writes a file, without its name.
const WRITERS: [&[&str]; 3] = [
    &["convert", "large.gguf", "--threads", "2"],
    &["convert", "large.gguf", "--format", "q8_0"],
    &["quantize", "large.gguf", "--format", "q4_k_m", "--threads", "2"],
];

fn is_piece(name: &str) -> bool {
    name.starts_with(".duan-") && name.ends_with(".part")
}

fn start(home: &Home, arguments: &[&str]) -> Child {
    home.command(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program starts")
}

/// Presses Ctrl-C once `is_at_work` holds, and gives what the program left.
fn interrupted(mut child: Child, is_at_work: impl Fn(&Child) -> bool) -> Ran {
    let start = Instant::now();
    while !is_at_work(&child) && start.elapsed() < Duration::from_secs(60) {
        if let Some(status) = child.try_wait().expect("the program can be asked") {
            panic!("it ended with {status} before it was at work");
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    let killed = Command::new("kill").args(["-INT", &child.id().to_string()]).status().expect("kill runs");
    assert!(killed.success());
    ran(child.wait_with_output().expect("the program ends"))
}

#[test]
fn ctrl_c_leaves_the_source_alone() {
    let home = Home::new();
    large(&home, 64);
    for writer in WRITERS {
        let child = start(&home, &[writer, &["out.gguf"]].concat());
        let ran = interrupted(child, |_| home.names().iter().any(|name| is_piece(name)));
        assert_eq!((ran.code, &*ran.stdout), (Some(130), ""), "{ran:?}");
        assert!(ran.stderr.contains("stopped; nothing was left behind"), "{ran:?}");
        assert_eq!(home.names(), ["large.gguf"], "{writer:?}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn ctrl_c_while_a_text_is_read_writes_nothing() {
    let home = Home::new();
    home.fixture("smollm2");
    home.file("text.txt", "the model and a text of it. ".repeat(200_000).as_bytes());
    let words = ["importance", "tiny.gguf", "--text", "text.txt", "-o", "out.gguf", "--context", "16", "--no-pack"];
    // The program catches SIGINT (2) from then on.
    let catches = |child: &Child| {
        let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
        caught.is_some_and(|mask| u64::from_str_radix(mask.trim(), 16).is_ok_and(|mask| mask & 2 != 0))
    };
    let ran = interrupted(start(&home, &words), catches);
    assert_eq!((ran.code, &*ran.stdout), (Some(130), ""), "{ran:?}");
    assert_eq!(home.names(), ["text.txt", "tiny.gguf"]);
}

/// A disk that takes no more, by the limit that the system has for files.
#[test]
fn a_full_disk_leaves_nothing_and_says_what_to_do() {
    let home = Home::new();
    large(&home, 4);
    for writer in WRITERS {
        // 128 KiB; the signal that comes with the limit is ignored, as programs that start others may have it.
        let script = "trap '' XFSZ; ulimit -f 256; exec \"$0\" \"$@\"";
        let program = home.command(&[]);
        let mut command = Command::new("sh");
        command.args(["-c", script]).arg(program.get_program()).args(writer).arg("out.gguf");
        command.current_dir(home.path()).envs(program.get_envs().filter_map(|(name, value)| Some((name, value?))));
        let ran = ran(command.output().expect("the program starts"));
        assert!(ran.failed().contains("cannot write out.gguf: File too large"), "{ran:?}");
        assert!(ran.failed().ends_with("name a folder on another disk"), "{ran:?}");
        assert_eq!(home.names(), ["large.gguf"], "{writer:?}");
    }
}

/// By a signal that nobody can catch: the source stays, and what has the final name is whole.
#[test]
fn killed_at_any_moment_convert_leaves_no_half_file() {
    let home = Home::new();
    let source = home.path().join(large(&home, 16));
    let before = std::fs::read(&source).unwrap();
    let arguments = ["convert", "large.gguf", "out.gguf", "--format", "q8_0", "--force", "--threads", "2"];
    let start_time = Instant::now();
    home.run(&arguments).done();
    let whole_time = start_time.elapsed();
    let out = home.path().join("out.gguf");
    let whole = std::fs::read(&out).unwrap();
    std::fs::remove_file(&out).unwrap();
    for share in [0, 3, 6, 9] {
        let mut child = start(&home, &arguments);
        std::thread::sleep((whole_time * share / 10).max(Duration::from_millis(1)));
        child.kill().expect("it can be killed");
        child.wait().expect("it ends");
        assert!(std::fs::read(&source).unwrap() == before);
        assert!(std::fs::read(&out).map_or(true, |found| found == whole), "after {share}/10 of the time");
        let is_known = |name: &String| name == "large.gguf" || name == "out.gguf" || is_piece(name);
        assert!(home.names().iter().all(is_known), "{:?}", home.names());
    }
    home.run(&arguments).done();
    assert!(std::fs::read(&out).unwrap() == whole, "and it can be done again");
}
