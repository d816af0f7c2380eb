//! Every page of help, as people see it.

use crate::common::Home;

#[test]
fn every_command_explains_itself() {
    let home = Home::new();
    let commands = [
        "chat",
        "complete",
        "tokenize",
        "fetch",
        "list",
        "remove",
        "inspect",
        "devices",
        "plan",
        "bench",
        "profile",
        "records",
        "compare",
        "convert",
        "quantize",
        "importance",
        "eval",
        "synth",
    ];
    for command in commands {
        let ran = home.run(&[command, "--help"]);
        insta::assert_snapshot!(format!("help_{command}"), ran.done());
        assert_eq!(ran.stderr, "");
        assert!(ran.stdout.lines().all(|line| line.chars().count() <= 100), "{}", ran.stdout);
        assert!(ran.stdout.contains("--json"), "{command}");
    }
    let all = home.run(&["--help"]);
    insta::assert_snapshot!("help", all.done());
    for command in commands {
        assert!(all.stdout.contains(&format!("\n  {command} ")), "{command} is not listed");
    }
}

#[test]
fn the_version_is_one_line() {
    assert_eq!(Home::new().run(&["--version"]).done(), concat!("duan ", env!("CARGO_PKG_VERSION"), "\n"));
}
