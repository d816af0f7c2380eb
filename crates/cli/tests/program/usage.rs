//! Wrong usage ends with exit code 2 and names the option.

use crate::common::Home;

#[test]
fn values_out_of_range_are_refused_by_the_options_name() {
    let home = Home::new();
    let cases: &[(&str, &[&str])] = &[
        ("--temp", &["nan", "inf", "-1", "101", "warm", ""]),
        ("--top-k", &["-1", "1.5", "99999999999"]),
        ("--top-p", &["-0.1", "1.1", "NaN"]),
        ("--min-p", &["-0.1", "2", "nan"]),
        ("--repeat-penalty", &["0", "-1", "11", "nan"]),
        ("--presence-penalty", &["nan", "-101", "1e9"]),
        ("--frequency-penalty", &["nan", "101"]),
        ("--seed", &["-1", "x", "18446744073709551616"]),
        ("--threads", &["0", "-1", "2000", "two"]),
        ("--threads-prefill", &["0", "1025"]),
        ("--context", &["0", "1", "-5", "99999999999"]),
        ("--max-tokens", &["0", "-1", "many"]),
    ];
    for (option, values) in cases {
        for value in *values {
            let ran = home.run(&["chat", "no-such-file.gguf", option, value]);
            let said = ran.refused();
            assert!(said.starts_with("error: ") && said.contains(option), "{option} {value}: {said}");
        }
    }
}

#[test]
fn a_fusion_that_does_not_exist_is_refused_with_those_that_do() {
    let home = Home::new();
    for command in
        [&["chat", "m.gguf"][..], &["complete", "m.gguf", "-p", "a"], &["bench", "m.gguf"], &["plan", "m.gguf"]]
    {
        for value in ["--no-fuse=gate", "--no-fuse=norm,", "--no-fuse=norm,x"] {
            let answer = home.run(&[command, &[value]].concat());
            let said = answer.refused();
            assert!(said.contains("--no-fuse") && said.contains("norm, qkv, gate-up, residual"), "{command:?}: {said}");
        }
    }
}

#[test]
fn what_is_missing_or_unknown_is_named() {
    let home = Home::new();
    assert!(home.run(&["complete", "m.gguf"]).refused().contains("--prompt"));
    assert!(home.run(&["complete", "m.gguf", "-p", "a", "-f", "b"]).refused().contains("--file"));
    assert!(home.run(&["tokenize", "m.gguf"]).refused().contains("<TEXT>"));
    assert!(home.run(&["remove"]).refused().contains("<NAME>"));
    assert!(home.run(&["chat", "--warmth", "1"]).refused().contains("--warmth"));
    assert!(home.run(&["chatt"]).refused().contains("chat"));
    assert!(home.run(&[]).refused().contains("Usage:"));
}

#[test]
fn variables_of_the_environment_are_checked_too() {
    let home = Home::new();
    let output = home.command(&["chat", "m.gguf"]).env("DUAN_THREADS", "none").output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("DUAN_THREADS") && said.contains("none"), "{said}");
}
