//! `duan synth`: what it refuses, and that nothing half-written stays. The files that it writes are tested in `duan-measure`.

use crate::common::Home;

fn names(home: &Home) -> Vec<String> {
    let entries = std::fs::read_dir(home.path()).expect("the folder is read");
    entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect()
}

#[test]
fn what_is_not_known_is_refused_with_what_is() {
    let home = Home::new();
    let shape = home.run(&["synth", "llama-9-1b", "--format", "q4_0", "a.gguf"]);
    assert!(shape.refused().contains("qwen2.5-7b") && shape.refused().contains("llama-9-1b"), "{shape:?}");
    let format = home.run(&["synth", "llama-2-7b", "--format", "q4_9", "a.gguf"]);
    assert!(format.refused().contains("q4_k_m"), "{format:?}");
    assert!(home.run(&["synth", "llama-2-7b", "a.gguf"]).refused().contains("--format"));
    assert!(home.run(&["synth", "llama-2-7b", "--format", "q4_0"]).refused().contains("<OUT>"));
    assert!(home.run(&["synth", "llama-2-7b", "--format", "q4_0", "a", "--seed", "-1"]).refused().contains("--seed"));
    assert_eq!(names(&home), [""; 0]);
}

#[test]
fn a_file_that_is_there_stays_as_it_is() {
    let home = Home::new();
    home.file("a.gguf", b"mine");
    let ran = home.run(&["synth", "qwen2.5-0.5b", "--format", "Q4_0", "a.gguf"]);
    assert!(ran.failed().contains("a.gguf exists already") && ran.failed().contains("--force"), "{ran:?}");
    assert_eq!(std::fs::read(home.path().join("a.gguf")).unwrap(), b"mine");
    let ran = home.run(&["synth", "QWEN2.5-0.5b", "--format", "q4_0", "no/a.gguf"]);
    assert!(ran.failed().contains("no/a.gguf") && ran.failed().ends_with("create the folder first"), "{ran:?}");
    let ran = home.run(&["synth", "qwen2.5-0.5b", "--format", "q4_0", "."]);
    assert!(ran.failed().contains("is no name for a file"), "{ran:?}");
    assert_eq!(names(&home), ["a.gguf"]);
}

/// Ctrl-C while the file is written: the program ends as interrupted, and leaves nothing.
#[cfg(unix)]
#[test]
fn ctrl_c_leaves_nothing() {
    use std::process::{Command, Stdio};
    use std::time::{Duration, Instant};

    let home = Home::new();
    let mut command = home.command(&["synth", "qwen2.5-0.5b", "--format", "f16", "a.gguf"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program starts");
    let start = Instant::now();
    while names(&home).is_empty() && start.elapsed() < Duration::from_secs(60) {
        if let Some(status) = child.try_wait().expect("the program can be asked") {
            panic!("it ended with {status} before it wrote anything");
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    let killed = Command::new("kill").args(["-INT", &child.id().to_string()]).status().expect("kill runs");
    assert!(killed.success());
    let ran = crate::common::ran(child.wait_with_output().expect("the program ends"));
    assert_eq!(ran.code, Some(130), "{ran:?}");
    assert_eq!(ran.stdout, "");
    assert!(ran.stderr.contains("nothing was left behind"), "{ran:?}");
    assert_eq!(names(&home), [""; 0]);
}
