//! Files and folders as they should not be.

use super::*;
use crate::command::NoCommands;

fn tree() -> (tempfile::TempDir, Local) {
    let folder = tempfile::tempdir().unwrap();
    let local = Local::new(folder.path(), "linux", NoCommands);
    (folder, local)
}

fn reason<T: fmt::Debug>(result: Result<T, Unreadable>) -> String {
    result.unwrap_err().to_string()
}

#[test]
fn files_are_read_whole_or_not_at_all() {
    let (folder, local) = tree();
    let write = |name: &str, bytes: &[u8]| std::fs::write(folder.path().join(name), bytes).unwrap();
    write("text", b"a\n");
    write("bytes", b"4\xff2");
    write("full", &vec![b'x'; FILE_LIMIT_BYTES as usize]);
    write("long", &vec![b'x'; FILE_LIMIT_BYTES as usize + 1]);
    assert_eq!(local.read("text").as_deref(), Ok("a\n"));
    assert_eq!(local.read("bytes").as_deref(), Ok("4\u{fffd}2"));
    assert_eq!(local.read_bytes("full").unwrap().len() as u64, FILE_LIMIT_BYTES);
    assert_eq!(reason(local.read("long")), "/long: is longer than 4194304 bytes");
    assert_eq!(reason(local.read("none")), "/none: no such file");
    assert_eq!(reason(local.read("text/none")), "/text/none: no such file");
    assert_eq!(reason(local.run("sh", &[])), "sh: no such program");
    assert_eq!(reason(number::<u64>(&local, "bytes")), "/bytes: \"4\u{fffd}2\" is no number of the kind expected");
}

#[cfg(unix)]
#[test]
fn folders_pipes_devices_and_loops_are_no_files() {
    let (folder, local) = tree();
    let path = |name: &str| folder.path().join(name);
    std::fs::create_dir(path("folder")).unwrap();
    std::os::unix::fs::symlink("loop", path("loop")).unwrap();
    std::os::unix::fs::symlink("/dev/zero", path("endless")).unwrap();
    let made = std::process::Command::new("mkfifo").arg(path("pipe")).status().unwrap();
    assert!(made.success());
    assert_eq!(reason(local.read("folder")), "/folder: is a folder");
    assert_eq!(reason(local.read("endless")), "/endless: is no plain file");
    assert_eq!(reason(local.read("pipe")), "/pipe: is no plain file");
    assert!(reason(local.read("loop")).starts_with("/loop: too many levels of symbolic links"));
    assert!(reason(local.list("loop")).starts_with("/loop: too many levels of symbolic links"));
    assert_eq!(reason(local.list("none")), "/none: no such file");
    assert_eq!(local.list("folder"), Ok(Vec::new()));
    assert_eq!(local.list("").unwrap(), ["endless", "folder", "loop", "pipe"]);
}

#[cfg(target_os = "linux")]
#[test]
fn names_that_are_no_text_are_listed_and_lead_nowhere() {
    use std::os::unix::ffi::OsStrExt as _;
    let (folder, local) = tree();
    std::fs::write(folder.path().join(std::ffi::OsStr::from_bytes(b"policy\xff")), "").unwrap();
    assert_eq!(local.list("").unwrap(), ["policy\u{fffd}"]);
    assert_eq!(reason(local.read("policy\u{fffd}")), "/policy\u{fffd}: no such file");
}

#[test]
fn texts_that_are_quoted_or_kept_stay_short() {
    assert_eq!(quoted("a\u{1b}[31m\n"), "\"a\\u{1b}[31m\\n\"");
    assert_eq!(quoted(&"x".repeat(41)), format!("\"{}\"...", "x".repeat(40)));
    assert_eq!(one_line("\0 a b \nc\n").as_deref(), Some("a b"));
    assert_eq!(one_line(&"é".repeat(500)).map(|line| line.chars().count()), Some(LINE_LIMIT));
    assert_eq!((one_line(""), one_line(" \0\n")), (None, None));
}

#[test]
fn keys_are_whole_words() {
    let text = "MemTotal:  1 kB\nMem:  2 kB\n";
    assert_eq!(
        (value_of(text, "Mem"), value_of(text, "MemTotal"), value_of(text, "M")),
        (Some("2 kB"), Some("1 kB"), None)
    );
    assert_eq!(stat_of("x", "nr 1\nnr_two 2\n", "nr_two"), Ok(2));
    assert_eq!(reason(stat_of("x", "nr_two 2\n", "nr")), "/x: says nothing of nr");
    assert_eq!(reason(stat_of("x", "nr -2\n", "nr")), "/x: \"-2\" is no number of the kind expected");
}
